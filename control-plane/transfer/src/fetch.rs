//! Fetches the links of another system by its API into a file, one per line, from which they are imported.
//!
//! The intermediate file makes an import repeatable: its batches stay the same, even if the other system changes in the meantime.

use super::http::{ClientError, Http, with_retries};
use super::source::Format;
use super::{TransferError, in_file, open_behind, read_checkpoint, write_checkpoint};
use http::{Request, header};
use http_body_util::Full;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fs::File;
use std::io::Write;
use std::path::Path;

/// Number of links per page: the most that each system returns.
const SHLINK_PAGE: u32 = 500;
const KUTT_PAGE: u64 = 50;
const BITLY_PAGE: u32 = 100;

/// A system whose API is queried.
#[derive(Clone, PartialEq, Eq)]
pub struct Peer {
    /// The system.
    pub format: Format,
    /// Its address, without the path of the API.
    pub url: String,
    /// Its API key, or the token of an account.
    pub key: String,
    /// Fetches the rules of links too, with one request for each link that has some. Shlink only.
    pub has_rules: bool,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct FetchCheckpoint {
    url: String,
    /// The paths still to be requested, the next one last.
    paths: Vec<String>,
    bytes: u64,
    links: u64,
}

/// Fetches all links into `file`, or the rest after an earlier run, and returns their number. The checkpoint is kept, so that
/// nothing is fetched twice.
///
/// # Errors
/// The [`TransferError`] that stops it.
pub async fn fetch(peer: &Peer, file: &Path, checkpoint: &Path) -> Result<u64, TransferError> {
    let client = PeerClient {
        peer,
        http: Http::new()?,
        base: peer.url.trim_end_matches('/'),
    };
    let new = || FetchCheckpoint {
        url: peer.url.clone(),
        paths: vec![client.first()],
        bytes: 0,
        links: 0,
    };
    let mut state = read_checkpoint(checkpoint)?.unwrap_or_else(new);
    if state.url != peer.url {
        return Err(TransferError::Checkpoint {
            path: checkpoint.to_owned(),
            reason: "belongs to another address".to_owned(),
        });
    }
    let Some(mut path) = state.paths.pop() else {
        return Ok(state.links);
    };
    let mut output = open_behind(file, state.bytes)?;
    loop {
        let page = client.page(&path).await?;
        let text: String = page.links.iter().map(|link| format!("{link}\n")).collect();
        append(&mut output, &text).map_err(in_file(file))?;
        state.bytes += text.len() as u64;
        state.links += page.links.len() as u64;
        state.paths.extend(page.next.into_iter().rev());
        write_checkpoint(checkpoint, &state)?;
        match state.paths.pop() {
            None => return Ok(state.links),
            Some(next) if next == path => {
                let reason = format!("{path} names itself as the next page");
                return Err(ClientError::Refused(reason).into());
            }
            Some(next) => path = next,
        }
    }
}

fn append(file: &mut File, text: &str) -> std::io::Result<()> {
    file.write_all(text.as_bytes())?;
    file.sync_data()
}

/// A page of links, and the paths of others.
#[derive(Debug, Default, PartialEq)]
struct PeerPage {
    links: Vec<Value>,
    next: Vec<String>,
}

struct PeerClient<'a> {
    peer: &'a Peer,
    http: Http,
    base: &'a str,
}

impl PeerClient<'_> {
    /// The path that is requested first.
    fn first(&self) -> String {
        match self.peer.format {
            Format::Kutt => kutt_page(0),
            Format::Bitly => "/v4/groups".to_owned(),
            _ => shlink_page(1),
        }
    }

    async fn page(&self, path: &str) -> Result<PeerPage, ClientError> {
        let answer = self.get(path).await?;
        let page = match self.peer.format {
            Format::Kutt => kutt(answer),
            Format::Bitly => bitly(answer, self.base),
            _ => shlink(answer),
        };
        let mut page = page.ok_or_else(|| {
            ClientError::Refused(format!("the answer to {path} is not a page of links"))
        })?;
        if self.peer.has_rules && self.peer.format == Format::ShlinkApi {
            for link in &mut page.links {
                self.add_rules(link).await?;
            }
        }
        Ok(page)
    }

    /// Adds the rules of a link of Shlink, unless it is marked as having none.
    async fn add_rules(&self, link: &mut Value) -> Result<(), ClientError> {
        let Some(code) = link["shortCode"]
            .as_str()
            .filter(|_| link["hasRedirectRules"] != false)
        else {
            return Ok(());
        };
        let code = utf8_percent_encode(code, NON_ALPHANUMERIC);
        let domain = link["domain"].as_str().map(|domain| ("domain", domain));
        let query = url::form_urlencoded::Serializer::new(String::new())
            .extend_pairs(domain)
            .finish();
        let path = format!("/rest/v3/short-urls/{code}/redirect-rules?{query}");
        let answer = self.get(&path).await?;
        if let Some(link) = link.as_object_mut() {
            let rules = answer["redirectRules"].clone();
            link.insert("redirectRules".to_owned(), rules);
        }
        Ok(())
    }

    async fn get(&self, path: &str) -> Result<Value, ClientError> {
        let get =
            Request::get(format!("{}{path}", self.base)).header(header::ACCEPT, "application/json");
        let get = match self.peer.format {
            Format::Bitly => get.header(header::AUTHORIZATION, format!("Bearer {}", self.peer.key)),
            _ => get.header("x-api-key", &self.peer.key),
        };
        let get = get.body(Full::default()).map_err(ClientError::Invalid)?;
        let attempt = async || self.http.send(get.clone(), reason).await;
        with_retries(attempt).await
    }
}

/// Reads the reason from the body of a refusal.
fn reason(body: &[u8]) -> Option<String> {
    let body: Value = serde_json::from_slice(body).ok()?;
    let text = ["detail", "title", "error", "description", "message"]
        .iter()
        .find_map(|field| body[*field].as_str());
    text.map(str::to_owned)
}

/// The path of a page in the order of creation, so that links created in the meantime come last.
fn shlink_page(page: u64) -> String {
    format!("/rest/v3/short-urls?page={page}&itemsPerPage={SHLINK_PAGE}&orderBy=dateCreated-ASC")
}

fn shlink(mut answer: Value) -> Option<PeerPage> {
    let pagination = &answer["shortUrls"]["pagination"];
    let (page, pages) = (
        pagination["currentPage"].as_u64()?,
        pagination["pagesCount"].as_u64()?,
    );
    let next = (page < pages).then(|| shlink_page(page + 1));
    Some(PeerPage {
        links: list(&mut answer, "/shortUrls/data")?,
        next: next.into_iter().collect(),
    })
}

fn kutt_page(skip: u64) -> String {
    format!("/api/v2/links?limit={KUTT_PAGE}&skip={skip}")
}

fn kutt(mut answer: Value) -> Option<PeerPage> {
    let (total, skip) = (answer["total"].as_u64()?, number(&answer["skip"])?);
    let links = list(&mut answer, "/data")?;
    let read = skip + links.len() as u64;
    let next = (!links.is_empty() && read < total).then(|| kutt_page(read));
    Some(PeerPage {
        links,
        next: next.into_iter().collect(),
    })
}

/// A number, or the text of one, as Kutt repeats parameters.
fn number(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| value.as_str()?.parse().ok())
}

/// Reads the groups of an account, or the links of one. Only the original address is followed: the token is for it.
fn bitly(mut answer: Value, base: &str) -> Option<PeerPage> {
    if let Some(groups) = answer["groups"].as_array() {
        let groups = groups.iter().filter_map(|group| group["guid"].as_str());
        let path = |guid| {
            let guid = utf8_percent_encode(guid, NON_ALPHANUMERIC);
            format!("/v4/groups/{guid}/bitlinks?size={BITLY_PAGE}&archived=both")
        };
        return Some(PeerPage {
            links: Vec::new(),
            next: groups.map(path).collect(),
        });
    }
    let next = match answer["pagination"]["next"].as_str() {
        None | Some("") => None,
        Some(next) => Some(
            next.strip_prefix(base)
                .filter(|path| path.starts_with('/'))?
                .to_owned(),
        ),
    };
    Some(PeerPage {
        links: list(&mut answer, "/links")?,
        next: next.into_iter().collect(),
    })
}

/// Takes the list at this path of an answer.
fn list(answer: &mut Value, path: &str) -> Option<Vec<Value>> {
    match answer.pointer_mut(path)?.take() {
        Value::Array(list) => Some(list),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn page_when_more_follow_names_the_next() {
        let page = |page, pages| json!({ "shortUrls": { "data": [1], "pagination": { "currentPage": page, "pagesCount": pages } } });
        assert_eq!(shlink(page(1, 2)).unwrap().next, [shlink_page(2)]);
        assert!(shlink(page(2, 2)).unwrap().next.is_empty());
        let page =
            |skip: Value, data: Value| kutt(json!({ "total": 3, "skip": skip, "data": data }));
        assert_eq!(page(json!("1"), json!([1])).unwrap().next, [kutt_page(2)]);
        assert!(page(json!(1), json!([1, 2])).unwrap().next.is_empty());
        assert!(page(json!(1), json!([])).unwrap().next.is_empty());
    }

    #[test]
    fn bitly_page_when_next_is_a_foreign_address_is_refused() {
        let groups = bitly(
            json!({ "groups": [{ "guid": "a/b" }, { "guid": "C" }] }),
            "https://b",
        );
        let expected = [
            "/v4/groups/a%2Fb/bitlinks?size=100&archived=both",
            "/v4/groups/C/bitlinks?size=100&archived=both",
        ];
        assert_eq!(groups.unwrap().next, expected);
        let page = |next: &str| {
            bitly(
                json!({ "links": [], "pagination": { "next": next } }),
                "https://b",
            )
        };
        assert_eq!(page("https://b/v4/x?y").unwrap().next, ["/v4/x?y"]);
        assert!(page("").unwrap().next.is_empty());
        for next in ["https://evil/v4", "https://b.evil/v4", "https://b@evil/"] {
            assert_eq!(page(next), None);
        }
    }

    #[test]
    fn answer_when_not_a_page_is_refused() {
        for answer in [
            json!({}),
            json!([]),
            json!({ "shortUrls": [] }),
            json!({ "links": 1 }),
            json!({ "data": [] }),
        ] {
            assert_eq!(shlink(answer.clone()), None);
            assert_eq!(kutt(answer.clone()), None);
            assert_eq!(bitly(answer, "https://b"), None);
        }
    }
}
