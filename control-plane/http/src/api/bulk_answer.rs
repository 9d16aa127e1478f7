//! Answers to bulk requests, which are written as they are sent.

use super::bulk_items::BulkItem;
use crate::app::App;
use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use edgelink_settings::config::LinksConfig;
use futures_util::stream::unfold;
use http::{HeaderValue, header};
use serde::Serialize;
use std::convert::Infallible;
use std::io;
use std::sync::Arc;

/// Bytes of an answer that are written at once.
const PIECE_BYTES: usize = 65_536;

/// End of an answer.
const END: &[u8] = b"]}";

/// Writer that only counts bytes.
struct Length(usize);

impl io::Write for Length {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The answer to a bulk request: `counts`, which is an object, with the views of all outcomes as its `results`. They are serialized
/// as they are sent, and once before to learn their length: large answers are admitted by their length.
pub(super) fn answer<O: Send + 'static>(
    app: &Arc<App>,
    counts: &impl Serialize,
    outcomes: Vec<O>,
    view: for<'o> fn(usize, &'o O, &LinksConfig) -> BulkItem<'o>,
) -> Response {
    // Writing JSON to memory does not fail.
    let mut head = serde_json::to_vec(counts).unwrap_or_default();
    head.pop();
    head.extend_from_slice(b",\"results\":[");
    let commas = outcomes.len().saturating_sub(1);
    let mut length = Length(head.len() + commas + END.len());
    for (index, outcome) in outcomes.iter().enumerate() {
        let _ = serde_json::to_writer(&mut length, &view(index, outcome, &app.config.links));
    }
    let app = app.clone();
    let mut items = outcomes.into_iter().enumerate();
    let state = (head, false);
    let pieces = unfold(state, move |(mut piece, mut is_whole)| {
        while !is_whole && piece.len() < PIECE_BYTES {
            let Some((index, outcome)) = items.next() else {
                piece.extend_from_slice(END);
                is_whole = true;
                break;
            };
            if index > 0 {
                piece.push(b',');
            }
            let view = view(index, &outcome, &app.config.links);
            let _ = serde_json::to_writer(&mut piece, &view);
        }
        let next = (!piece.is_empty()).then(|| {
            let piece = Ok::<_, Infallible>(Bytes::from(piece));
            (piece, (Vec::new(), is_whole))
        });
        std::future::ready(next)
    });
    let headers = [
        (
            header::CONTENT_TYPE,
            HeaderValue::from_static("application/json"),
        ),
        (header::CONTENT_LENGTH, HeaderValue::from(length.0)),
    ];
    (headers, Body::from_stream(pieces)).into_response()
}

#[cfg(test)]
mod tests {
    use super::super::view::LinkView;
    use super::*;
    use edgelink_model::links::model::{Link, LinkContent, LinkDetails};
    use edgelink_service::answer_room::{link_bytes, problem_bytes};
    use edgelink_service::problem::{FieldError, Kind, Problem};
    use edgelink_wire::target::TargetUrl;
    use edgelink_wire::{Code, Domain};
    use proptest::prelude::*;

    fn link(content: LinkContent) -> Link {
        Link {
            id: u64::MAX,
            domain: Domain::parse(&format!("{0}.{0}.{0}.{1}", "d".repeat(63), "d".repeat(61)))
                .unwrap(),
            code: Code::parse(&"c".repeat(64)).unwrap(),
            tenant_id: 1,
            owner_id: None,
            content,
            imported_visits: (1 << 53) - 1,
            created_at: 1,
            updated_at: 1,
            rev: u64::MAX,
        }
    }

    proptest! {
        #[test]
        fn link_when_shown_fits_its_estimated_bytes(
            texts in proptest::collection::vec("[\\PC\"\\\\]{0,40}", 3),
            lines in "[\\PC\n\t\"]{0,80}",
            tags in proptest::collection::vec("[\\PC\"]{1,20}", 0..32),
            query in "(utm_(source|medium|term|content|campaign)=([a-z\"'+]|%0[1-9a-f]){0,20}&?){0,9}",
        ) {
            let target = format!("https://e.com/?{query}");
            let content = LinkContent {
                title: Some(texts[0].clone()),
                external_id: Some(texts[1].clone()),
                tags,
                valid_since: Some(1),
                valid_until: Some(2),
                details: LinkDetails {
                    notes: Some(lines),
                    expired_url: Some(texts[2].clone()),
                    max_visits: Some(1_000_000_000_000),
                    ..LinkDetails::default()
                },
                ..LinkContent::to(TargetUrl::from_store(&target))
            };
            let most = link_bytes(&content);
            let link = link(content);
            let view = LinkView::new(&link, &LinksConfig::default());
            let shown = serde_json::to_vec(&view).unwrap().len();
            prop_assert!(shown <= most, "{shown} > {most}");
        }

        #[test]
        fn problem_when_shown_fits_its_estimated_bytes(
            errors in proptest::collection::vec(("[\\PC\"\u{1}]{0,30}", "[\\PC\n]{0,30}"), 0..40),
            detail in "\\PC{0,60}",
        ) {
            let errors = errors.into_iter().map(|(field, reason)| FieldError::new(field, reason));
            let problem = Problem::new(Kind::IdempotencyKeyReused).with_detail(detail);
            let problem = problem.with_errors(errors.collect());
            let shown = serde_json::to_vec(&problem.document()).unwrap().len();
            prop_assert!(shown <= problem_bytes(&problem));
        }
    }
}
