//! `GET /edge/v1/links/{domain}/{code}`: what is known of a key, 200 for a link and 404 for none, both as an
//! [`Answer`]. Anything else is a failure and says nothing about the link.
//!
//! An edge keeps an answer for as long as the freshness that is promised allows, so the answer says how old it is: for how
//! long before the question it was so. An edge that counts from the moment of its question is always right.

use super::wants_json;
use crate::app::App;
use crate::problem::{Kind, Problem};
use crate::resolve::Resolved;
use crate::telemetry::prometheus::EDGE_LOOKUPS;
use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use edgelink_wire::{Answer, Code, Domain, LinkKey, LinkRecord, Record};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use metrics::counter;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

type KeyPath = Result<Path<(String, String)>, PathRejection>;

pub(crate) async fn resolve(
    State(app): State<Arc<App>>,
    path: KeyPath,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let key = parse(path)?;
    let Resolved { record, age } = app.resolver.resolve(&key).await?;
    let (status, outcome) = match record {
        Record::Link(_) => (StatusCode::OK, "link"),
        Record::Absent { .. } => (StatusCode::NOT_FOUND, "absent"),
    };
    counter!(EDGE_LOOKUPS, "outcome" => outcome).increment(1);
    if wants_json(&headers) {
        Ok((status, Json(for_people(&key, &record))).into_response())
    } else {
        Ok(answer(status, &key, &record, age))
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

fn answer(status: StatusCode, key: &LinkKey, record: &Record<String>, age: Duration) -> Response {
    // Rounded up, so that it is never younger than it is.
    let age_millis = u64::try_from(age.as_micros().div_ceil(1000)).unwrap_or(u64::MAX);
    let bytes = Answer {
        age_millis,
        key: key.to_string().as_bytes(),
        record: &record.as_deref().to_bytes(),
    }
    .to_bytes();
    let content_type = HeaderValue::from_static(Answer::MEDIA_TYPE);
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
