//! Fetching links from the APIs of other systems. These cannot be installed here: a small server answers in the shapes that
//! their documents and sources have.

use crate::helpers::Running;
use axum::Router;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::routing::get;
use edgelink_transfer::{
    ApiClient, Format, ImportMemory, ImportOptions, Mapping, Peer, TransferError, fetch, import,
};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tempfile::TempDir;
use tokio::net::TcpListener;

const KEY: &str = "the-key-of-the-other-system";

/// The other system: how many requests it has had, and where it is.
#[derive(Default)]
struct Other {
    requests: AtomicUsize,
    url: String,
}

type Answer = Result<axum::Json<Value>, StatusCode>;

impl Other {
    /// Counts a request; the second one fails, as servers do.
    fn admit(&self, headers: &HeaderMap) -> Result<(), StatusCode> {
        let key = headers.get("x-api-key").or(headers.get("authorization"));
        let key = key.map(|key| key.to_str().unwrap().trim_start_matches("Bearer "));
        match (key, self.requests.fetch_add(1, Ordering::Relaxed)) {
            (_, 1) => Err(StatusCode::SERVICE_UNAVAILABLE),
            (Some(KEY), _) => Ok(()),
            _ => Err(StatusCode::UNAUTHORIZED),
        }
    }
}

async fn shlink(
    State(other): State<Arc<Other>>,
    headers: HeaderMap,
    Query(query): Query<HashMap<String, String>>,
) -> Answer {
    other.admit(&headers)?;
    assert_eq!(query["orderBy"], "dateCreated-ASC");
    let page: u64 = query["page"].parse().unwrap();
    let link = json!({
        "shortCode": format!("s{page}"), "shortUrl": format!("https://s.test/s{page}"), "longUrl": "https://shlink.io/",
        "dateCreated": "2016-08-21T20:34:16+02:00", "visitsSummary": { "total": page, "nonBots": 0, "bots": 0 },
        "tags": ["t"], "meta": { "validSince": null, "validUntil": null, "maxVisits": null }, "domain": null,
        "title": null, "crawlable": false, "forwardQuery": true, "hasRedirectRules": page == 2,
    });
    let pagination = json!({ "currentPage": page, "pagesCount": 3, "itemsPerPage": 1, "itemsInCurrentPage": 1, "totalItems": 3 });
    Ok(axum::Json(
        json!({ "shortUrls": { "data": [link], "pagination": pagination } }),
    ))
}

async fn rules(
    State(other): State<Arc<Other>>,
    headers: HeaderMap,
    Path(code): Path<String>,
) -> Answer {
    other.admit(&headers)?;
    assert_eq!(code, "s2");
    let condition = json!({ "type": "language", "matchKey": null, "matchValue": "de" });
    let rule =
        json!({ "longUrl": "https://shlink.io/de", "priority": 1, "conditions": [condition] });
    Ok(axum::Json(
        json!({ "defaultLongUrl": "https://shlink.io/", "redirectRules": [rule] }),
    ))
}

async fn kutt(
    State(other): State<Arc<Other>>,
    headers: HeaderMap,
    Query(query): Query<HashMap<String, String>>,
) -> Answer {
    other.admit(&headers)?;
    let skip: u64 = query["skip"].parse().unwrap();
    let links = (skip..120.min(skip + 50)).map(|n| {
        json!({
            "id": "6f1b6f3e", "address": format!("k{n}"), "banned": false, "created_at": "2024-01-31T09:15:01.000Z",
            "password": false, "description": null, "expire_in": null, "target": format!("https://example.com/{n}"),
            "visit_count": n, "domain": null, "link": format!("https://kutt.test/k{n}"),
        })
    });
    let links: Vec<Value> = links.collect();
    Ok(axum::Json(
        json!({ "total": 120, "limit": 50, "skip": skip, "data": links }),
    ))
}

async fn groups(State(other): State<Arc<Other>>, headers: HeaderMap) -> Answer {
    other.admit(&headers)?;
    Ok(axum::Json(
        json!({ "groups": [{ "guid": "A" }, { "guid": "B" }] }),
    ))
}

async fn bitlinks(
    State(other): State<Arc<Other>>,
    headers: HeaderMap,
    Path(group): Path<String>,
    Query(query): Query<HashMap<String, String>>,
) -> Answer {
    other.admit(&headers)?;
    let place = query.get("search_after").map_or("1", String::as_str);
    let next = match place {
        "1" => format!("{}/v4/groups/{group}/bitlinks?search_after=2", other.url),
        _ => String::new(),
    };
    let link = json!({
        "id": format!("s.test/{group}{place}"), "link": format!("https://s.test/{group}{place}"), "long_url": "https://example.com/",
        "created_at": "2022-10-24T10:40:37+0000", "archived": false, "tags": [], "custom_bitlinks": [], "title": group,
    });
    Ok(axum::Json(
        json!({ "links": [link], "pagination": { "next": next } }),
    ))
}

async fn start() -> Arc<Other> {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let other = Arc::new(Other {
        url: format!("http://{}", listener.local_addr().unwrap()),
        ..Other::default()
    });
    let router = Router::new()
        .route("/rest/v3/short-urls", get(shlink))
        .route("/rest/v3/short-urls/{code}/redirect-rules", get(rules))
        .route("/api/v2/links", get(kutt))
        .route("/v4/groups", get(groups))
        .route("/v4/groups/{group}/bitlinks", get(bitlinks))
        .with_state(Arc::clone(&other));
    tokio::spawn(async move { axum::serve(listener, router).await });
    other
}

fn peer(other: &Other, format: Format) -> Peer {
    Peer {
        format,
        url: other.url.clone(),
        key: KEY.to_owned(),
        has_rules: true,
    }
}

#[tokio::test]
async fn pages_when_fetched_are_imported_and_not_fetched_again() {
    let server = Running::start().await;
    let client = ApiClient::new(&server.url(""), &server.admin_key).unwrap();
    for (format, links, visits) in [
        (Format::ShlinkApi, 3, 6),
        (Format::Kutt, 120, 7140),
        (Format::Bitly, 4, 0),
    ] {
        let other = start().await;
        let folder = TempDir::new().unwrap();
        let (file, fetched) = (folder.path().join("links"), folder.path().join("fetched"));
        let peer = peer(&other, format);
        assert_eq!(fetch(&peer, &file, &fetched).await.unwrap(), links);
        let requests = other.requests.load(Ordering::Relaxed);
        assert_eq!(fetch(&peer, &file, &fetched).await.unwrap(), links);
        assert_eq!(other.requests.load(Ordering::Relaxed), requests);
        let options = ImportOptions {
            file,
            mapping: Mapping {
                format: Some(format),
                domains: [("s.test".to_owned(), "other.example".to_owned())].into(),
                ..Mapping::default()
            },
            report: folder.path().join("report"),
            checkpoint: folder.path().join("checkpoint"),
            batch: 50,
            memory: ImportMemory::default(),
            is_dry_run: false,
        };
        let summary = import(&client, &options).await.unwrap();
        assert_eq!(
            (summary.created, summary.visits),
            (links, visits),
            "{format:?}"
        );
        assert_eq!(summary.failed(), 0);
    }
    let rules = server.get("/links/s2/rules").await.expect(200);
    assert_eq!(rules["redirectRules"][0]["longUrl"], "https://shlink.io/de");
}

/// As after a crash between a page and its note.
#[tokio::test]
async fn page_when_written_and_not_noted_is_fetched_again() {
    let other = start().await;
    let folder = TempDir::new().unwrap();
    let (file, fetched) = (folder.path().join("links"), folder.path().join("fetched"));
    let peer = peer(&other, Format::Kutt);
    fetch(&peer, &file, &fetched).await.unwrap();
    let whole = fs::read_to_string(&file).unwrap();
    let first: usize = whole.lines().take(50).map(|line| line.len() + 1).sum();
    let note = json!({ "url": other.url, "paths": ["/api/v2/links?limit=50&skip=50"], "bytes": first, "links": 50 });
    fs::write(&fetched, note.to_string()).unwrap();
    fs::write(&file, &whole[..first + 30]).unwrap();
    assert_eq!(fetch(&peer, &file, &fetched).await.unwrap(), 120);
    assert_eq!(fs::read_to_string(&file).unwrap(), whole);
}

#[tokio::test]
async fn fetch_when_key_or_address_is_wrong_stops() {
    let other = start().await;
    let folder = TempDir::new().unwrap();
    let (file, fetched) = (folder.path().join("links"), folder.path().join("fetched"));
    let wrong = Peer {
        key: "wrong".to_owned(),
        ..peer(&other, Format::Kutt)
    };
    let error = fetch(&wrong, &file, &fetched).await.unwrap_err();
    assert!(error.to_string().contains("401"), "{error}");
    assert!(!fetched.exists());
    fetch(&peer(&other, Format::Kutt), &file, &fetched)
        .await
        .unwrap();
    let elsewhere = Peer {
        url: "http://127.0.0.1:1".to_owned(),
        ..peer(&other, Format::Kutt)
    };
    let error = fetch(&elsewhere, &file, &fetched).await.unwrap_err();
    assert!(matches!(error, TransferError::Checkpoint { .. }), "{error}");
}
