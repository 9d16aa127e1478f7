//! A link as its client knows it, and its representation in the API.

use super::{Client, ClientContext, LIMIT, TARGET, failed, hosts, version};
use crate::nemesis::history::{Ask, Micros, OperationOutcome, PICK, Value};
use crate::scenario::{Answer, Request};
use serde_json::{Value as Json, json};
use std::time::Instant;

/// A link that exists.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Link {
    /// Its entity tag.
    pub(super) tag: String,
    pub(super) is_disabled: bool,
    pub(super) target: u64,
    /// The target of its rule, if it has one.
    pub(super) picked: Option<u64>,
}

impl Link {
    pub(super) fn value(&self) -> Value {
        match (self.is_disabled, self.picked) {
            (true, _) => Value::Disabled,
            (false, None) => Value::Target(self.target),
            (false, Some(picked)) => Value::Ruled {
                plain: self.target,
                picked,
            },
        }
    }

    /// Reads the link from an answer of the API, which does not show rules: the link keeps the given one.
    pub(super) fn of(answer: &Answer, picked: Option<u64>) -> Option<Self> {
        let body: Json = serde_json::from_slice(&answer.body).ok()?;
        Some(Self {
            tag: answer.header("etag").unwrap_or_default().to_owned(),
            is_disabled: body["state"] == "disabled",
            target: version(body["longUrl"].as_str())?,
            picked,
        })
    }
}

/// A client's knowledge of a link.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Known {
    Absent,
    Link(Link),
    /// The link must be read before anything else.
    Unread,
    /// A write that was tried once may still be in flight.
    Unclear {
        op: u64,
        value: Value,
        until: Instant,
    },
}

impl Known {
    pub(super) fn value(&self) -> Option<Value> {
        match self {
            Self::Absent => Some(Value::Absent),
            Self::Link(link) => Some(link.value()),
            Self::Unread | Self::Unclear { .. } => None,
        }
    }
}

impl From<Option<Link>> for Known {
    fn from(link: Option<Link>) -> Self {
        link.map_or(Self::Unread, Self::Link)
    }
}

/// Rules of a link, one or none, as a body of the API.
pub(super) fn rules(picked: Option<u64>) -> Json {
    let (name, value) = PICK.split_once('=').unwrap_or_default();
    let condition = json!({ "type": "query-param", "matchKey": name, "matchValue": value });
    let rule =
        |picked| json!({ "longUrl": format!("{TARGET}{picked}"), "conditions": [condition] });
    let rules: Vec<Json> = picked.into_iter().map(rule).collect();
    json!({ "redirectRules": rules })
}

/// Path of a link in the API; `end` follows the code.
pub(super) fn link_path(code: &str, end: &str) -> String {
    match hosts::split(code) {
        (Some(domain), code) => format!("/links/{code}{end}?domain={domain}"),
        (None, code) => format!("/links/{code}{end}"),
    }
}

pub(super) fn request(shared: &ClientContext, method: &str, path: &str) -> Request {
    Request::new(method, format!("/api/v1{path}").as_bytes())
        .header("x-api-key", shared.deployment.admin_key().as_bytes())
        .header("content-type", b"application/json")
}

/// Reads a link; also returns when the reading began. [`Known::Unread`] if no answer shows it.
pub(super) async fn read(
    shared: &ClientContext,
    client: &mut Client,
    code: &str,
) -> (Known, Micros) {
    let op = shared.history.invoke(Ask::Read {
        code: code.to_owned(),
        via: client.via,
    });
    let since = shared.history.now();
    let shown = read_once(shared, client, code).await;
    let (known, outcome) = match shown {
        Ok(known) => {
            let answer = |value| OperationOutcome::Answer { value, tier: None };
            let outcome = known.value().map_or(OperationOutcome::Unknown, answer);
            (known, outcome)
        }
        Err(outcome) => (Known::Unread, outcome),
    };
    shared.history.complete(op, outcome);
    (known, since)
}

/// Reads the link and its rules, which must be of one revision.
async fn read_once(
    shared: &ClientContext,
    client: &mut Client,
    code: &str,
) -> Result<Known, OperationOutcome> {
    let Some(answer) = get(shared, client, &link_path(code, "")).await? else {
        return Ok(Known::Absent);
    };
    let Some(link) = Link::of(&answer, None) else {
        return Err(strange(&answer));
    };
    let Some(answer) = get(shared, client, &link_path(code, "/rules")).await? else {
        return Ok(Known::Unread); // deleted meanwhile
    };
    if answer.header("etag") != Some(&link.tag) {
        return Ok(Known::Unread); // changed meanwhile
    }
    let body: Json = serde_json::from_slice(&answer.body).unwrap_or_default();
    let picked = match body["redirectRules"].as_array().map(Vec::as_slice) {
        Some([]) => None,
        Some([rule]) => Some(version(rule["longUrl"].as_str()).ok_or_else(|| strange(&answer))?),
        _ => return Err(strange(&answer)),
    };
    Ok(Known::Link(Link { picked, ..link }))
}

/// Body of an answer of 200, or `None` if it was 404.
async fn get(
    shared: &ClientContext,
    client: &mut Client,
    path: &str,
) -> Result<Option<Answer>, OperationOutcome> {
    let request = request(shared, "GET", path);
    match client.ask(shared, &request, b"").await {
        Ok(answer) if answer.status == 200 => Ok(Some(answer)),
        Ok(answer) if answer.status == 404 => Ok(None),
        // The control plane does not know the domain: its answer says nothing about links there.
        Ok(answer) if answer.status == 422 => Err(OperationOutcome::Unknown),
        answer => Err(failed(answer)),
    }
}

pub(super) fn strange(answer: &Answer) -> OperationOutcome {
    OperationOutcome::Strange {
        answer: String::from_utf8_lossy(&answer.body).into_owned(),
    }
}

/// Reads a link once, like every client at the end.
pub(in crate::nemesis) async fn read_back(shared: &ClientContext, client: &mut Client, code: &str) {
    let (known, _) = read(shared, client, code).await;
    if known == Known::Unread {
        tokio::time::sleep(LIMIT / 50).await;
        read(shared, client, code).await;
    }
}
