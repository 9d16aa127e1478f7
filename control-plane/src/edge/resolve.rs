//! `GET /edge/v1/links/{domain}/{code}`: what is known of a key, 200 for a link and 404 for none, both as an
//! [`Entry`]. Anything else is a failure and says nothing about the link.
//!
//! An edge keeps an answer for as long as the freshness that is promised allows, so nothing here may add an age of its own:
//! what is remembered in this process is forgotten as soon as the feed tells of a change.

use super::wants_json;
use crate::app::App;
use crate::problem::{Kind, Problem};
use crate::telemetry::prometheus::EDGE_LOOKUPS;
use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use edgelink_wire::{Code, Domain, Entry, LinkKey, LinkRecord, Record};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use metrics::counter;
use serde_json::{Value, json};
use std::sync::Arc;

type KeyPath = Result<Path<(String, String)>, PathRejection>;

pub(crate) async fn resolve(
    State(app): State<Arc<App>>,
    path: KeyPath,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let key = parse(path)?;
    let record = app.resolver.resolve(&key).await?;
    let (status, outcome) = match record {
        Record::Link(_) => (StatusCode::OK, "link"),
        Record::Absent { .. } => (StatusCode::NOT_FOUND, "absent"),
    };
    counter!(EDGE_LOOKUPS, "outcome" => outcome).increment(1);
    if wants_json(&headers) {
        Ok((status, Json(for_people(&key, &record))).into_response())
    } else {
        Ok(entry(status, &key, &record))
    }
}

fn parse(path: KeyPath) -> Result<LinkKey, Problem> {
    let invalid = || Problem::new(Kind::InvalidKey);
    let Path((domain, code)) = path.map_err(|_| invalid())?;
    let domain = Domain::parse(&domain)
        .map_err(|error| invalid().with_detail(format!("the domain {error}")))?;
    let code =
        Code::parse(&code).map_err(|error| invalid().with_detail(format!("the code {error}")))?;
    Ok(LinkKey::new(domain, code))
}

fn entry(status: StatusCode, key: &LinkKey, record: &Record<String>) -> Response {
    let mut bytes = Vec::new();
    let key = key.to_string();
    Entry {
        key: key.as_bytes(),
        record: record.as_deref(),
    }
    .encode(&mut bytes);
    let content_type = HeaderValue::from_static(Entry::MEDIA_TYPE);
    (status, [(header::CONTENT_TYPE, content_type)], bytes).into_response()
}

fn for_people(key: &LinkKey, record: &Record<String>) -> Value {
    match record {
        Record::Absent { rev } => json!({ "key": key.to_string(), "state": "absent", "rev": rev }),
        Record::Link(link) => link_for_people(key, link),
    }
}

fn link_for_people(key: &LinkKey, link: &LinkRecord<String>) -> Value {
    json!({
        "key": key.to_string(),
        "state": link.state.as_str(),
        "rev": link.rev,
        "url": link.url,
        "redirect": link.redirect.code(),
        "validSince": link.valid_since,
        "validUntil": link.valid_until,
        "forwardQuery": link.forward_query,
    })
}
