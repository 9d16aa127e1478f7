//! `GET /edge/v1/feed?after=&generation=&waitMs=`: the changes after a position of a generation, as a [`FeedBatch`].
//! If there are none, it waits for one for up to `waitMs`. Without a known position the answer has a gap, and the position from
//! which to continue. A worker names itself by the header `x-edgelink-poller`, and acknowledges everything up to `after`. 503 if the feed here is not current, or is behind that position: the edge asks another control plane.

use super::wants_json;
use crate::app::App;
use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use edgelink_feed::ChangeBatch;
use edgelink_service::problem::Problem;
use edgelink_settings::admission::Claim;
use edgelink_wire::clicks::WorkerId;
use edgelink_wire::feed::FeedMessage;
use edgelink_wire::feed_batch::POLLER_HEADER;
use edgelink_wire::visits::worker_of;
use edgelink_wire::{FeedBatch, FeedPoint, FeedPosition, Record};
use futures_util::stream;
use http::{HeaderMap, HeaderValue, Uri, header};
use serde_json::{Value, json};
use std::convert::Infallible;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

/// Batches of at least this many bytes are shared by all answers; shorter ones are cheaper to copy.
pub(super) const SHARED_BYTES: usize = 4_096;

pub(crate) async fn poll(
    State(app): State<Arc<App>>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let query = FeedQuery::parse(uri.query().unwrap_or_default())?;
    let _permit = app.bounded.polls.try_take(Claim::default())?;
    let wait = query.wait.min(app.config.feed.max_wait_ms);
    let batch = app
        .feed
        .poll(poller_of(&headers)?, query.place(), wait)
        .await?;
    if wants_json(&headers) {
        Ok(Json(for_people(&batch)).into_response())
    } else {
        Ok(for_edges(&batch))
    }
}

/// The worker that polls; `None` if it cannot acknowledge.
pub(super) fn poller_of(headers: &HeaderMap) -> Result<Option<WorkerId>, Problem> {
    let poller = headers.get(POLLER_HEADER);
    let invalid = || Problem::of_field(POLLER_HEADER, "must be 32 hexadecimal digits");
    let poller = poller.map(|worker| worker_of(worker.as_bytes()).ok_or_else(invalid));
    poller.transpose()
}

/// A batch as bytes. All answers share the memory of a long one.
fn for_edges(batch: &ChangeBatch) -> Response {
    let messages = batch.messages.encoded();
    let content_type = HeaderValue::from_static(FeedBatch::MEDIA_TYPE);
    let headers = [(header::CONTENT_TYPE, content_type)];
    if messages.len() < SHARED_BYTES {
        return (headers, batch.to_bytes()).into_response();
    }
    let head = Bytes::from(batch.head_bytes());
    let length = [(header::CONTENT_LENGTH, head.len() + messages.len())];
    let parts = [head, messages].map(Ok::<_, Infallible>);
    (headers, length, Body::from_stream(stream::iter(parts))).into_response()
}

/// The parameters of a poll.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct FeedQuery {
    after: Option<FeedPosition>,
    generation: Option<u64>,
    pub(super) wait: Duration,
}

impl FeedQuery {
    pub(super) fn parse(query: &str) -> Result<Self, Problem> {
        let mut parsed = Self::default();
        for (name, value) in url::form_urlencoded::parse(query.as_bytes()) {
            match name.as_ref() {
                "after" => parsed.after = Some(field("after", &value)?),
                "generation" => parsed.generation = Some(field("generation", &value)?),
                "waitMs" => parsed.wait = Duration::from_millis(field("waitMs", &value)?),
                _ => return Err(Problem::of_field(name.into_owned(), "is not known")),
            }
        }
        Ok(parsed)
    }

    /// Generation and position; `None` if either is missing.
    pub(super) fn place(&self) -> Option<FeedPoint> {
        self.generation.zip(self.after)
    }
}

pub(super) fn field<T: FromStr<Err: ToString>>(
    name: &'static str,
    value: &str,
) -> Result<T, Problem> {
    value
        .parse()
        .map_err(|error: T::Err| Problem::of_field(name, error.to_string()))
}

fn for_people(batch: &ChangeBatch) -> Value {
    let bytes = batch.to_bytes();
    let decoded = FeedBatch::decode(&bytes).map(|batch| batch.messages);
    let messages: Vec<Value> = decoded
        .unwrap_or_default()
        .iter()
        .flatten()
        .map(message)
        .collect();
    let age = u64::try_from(batch.age.as_millis()).ok();
    json!({
        "generation": batch.generation,
        "ageMs": age,
        "next": batch.next.to_string(),
        "gap": batch.gap,
        "messages": messages,
    })
}

fn message(message: &FeedMessage<'_>) -> Value {
    match message {
        FeedMessage::Put { key, record, hot } => match record.record() {
            Record::Link(link) => json!({
                "op": "put", "key": key, "rev": link.rev, "url": link.url, "state": link.state.as_str(), "hot": hot,
            }),
            Record::Absent { rev } => json!({ "op": "del", "key": key, "rev": rev }),
        },
        FeedMessage::Del { key, rev } => json!({ "op": "del", "key": key, "rev": rev }),
        FeedMessage::Flush => json!({ "op": "flush" }),
        FeedMessage::Changed { key } => json!({ "op": "changed", "key": key }),
        FeedMessage::Beat(beat) => {
            json!({ "op": "beat", "bound": beat.bound, "number": beat.number, "at": beat.at, "ageMillis": beat.age_millis })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn feed_query_when_parsed_has_position_and_wait() {
        let query = FeedQuery::parse("after=12-3&generation=7&waitMs=500").unwrap();
        assert_eq!(query.place(), Some((7, FeedPosition::new(12, 3))));
        assert_eq!(FeedQuery::parse("after=12-3").unwrap().place(), None);
        assert_eq!(query.wait, Duration::from_millis(500));
        assert_eq!(FeedQuery::parse("").unwrap(), FeedQuery::default());
    }

    #[test]
    fn poller_when_malformed_is_refused_by_name() {
        let headers = |value| {
            let value = HeaderValue::from_static(value);
            HeaderMap::from_iter([(POLLER_HEADER.parse().unwrap(), value)])
        };
        let known = headers("000102030405060708090a0b0c0d0e0f");
        let expected: WorkerId = std::array::from_fn(|place| place as u8);
        assert_eq!(poller_of(&known).unwrap(), Some(expected));
        assert_eq!(poller_of(&HeaderMap::new()).unwrap(), None);
        for value in ["", "0001", "000102030405060708090a0b0c0d0e0g"] {
            let problem = poller_of(&headers(value)).unwrap_err();
            assert_eq!(problem.into_response().status(), 422, "{value}");
        }
    }

    #[test]
    fn feed_query_when_malformed_is_refused() {
        for query in [
            "after=",
            "after=12",
            "generation=x",
            "waitMs=-1",
            "waitMs=1s",
            "wait=1",
        ] {
            assert!(FeedQuery::parse(query).is_err(), "{query}");
        }
    }
}
