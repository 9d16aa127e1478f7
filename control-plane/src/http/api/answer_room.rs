//! The room of the answer to a bulk request, which is taken before anything is carried out: whatever is done is answered.

use super::bulk_items::ItemView;
use crate::config::{LinksConfig, ServerConfig};
use crate::http::app::App;
use crate::links::model::LinkContent;
use crate::problem::{Kind, Problem};
use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::stream::unfold;
use http::{HeaderValue, header};
use serde::Serialize;
use std::convert::Infallible;
use std::io;
use std::sync::Arc;

/// What a link takes in an answer beside its texts, in bytes: the names of its fields, times, numbers, domain and code.
const LINK_BYTES: usize = 1_536;

/// What a problem takes beside its texts, and an error of a field beside its own.
const PROBLEM_BYTES: usize = 256;
const ERROR_BYTES: usize = 48;

/// How many bytes of an answer are written at once.
const PIECE_BYTES: usize = 65_536;

/// What ends an answer.
const END: &[u8] = b"]}";

/// How many bytes the answer to a request may still get, but for what every item takes: some hundred bytes.
#[derive(Debug)]
pub(super) struct AnswerRoom {
    left: usize,
    /// Whether something had no room.
    is_full: bool,
}

impl AnswerRoom {
    /// The room of a whole answer.
    pub(super) fn of(config: &ServerConfig) -> Self {
        Self {
            left: config.max_bulk_answer_bytes,
            is_full: false,
        }
    }

    /// Takes room; returns whether there was enough.
    fn take(&mut self, bytes: usize) -> bool {
        let left = self.left.checked_sub(bytes);
        self.left = left.unwrap_or(self.left);
        self.is_full |= left.is_none();
        left.is_some()
    }

    /// Whether all had room so far.
    pub(super) fn is_open(&self) -> bool {
        !self.is_full
    }

    /// Takes the room of an item that is to be made with that content, or refuses it. A problem has the room that is left.
    pub(super) fn admit<T>(
        &mut self,
        item: Result<T, Problem>,
        content: impl FnOnce(&T) -> &LinkContent,
    ) -> Result<T, Problem> {
        match item {
            Ok(item) if self.take(link_bytes(content(&item))) => Ok(item),
            Ok(_) => Err(no_room()),
            Err(problem) => Err(self.fitting(problem)),
        }
    }

    /// Takes the room of a link that is there already; returns whether the answer has it.
    pub(super) fn shows(&mut self, content: &LinkContent) -> bool {
        self.take(link_bytes(content))
    }

    /// A problem as there is room for it: at least what it is about.
    pub(super) fn fitting(&mut self, problem: Problem) -> Problem {
        match self.take(problem_bytes(&problem)) {
            true => problem,
            false => Problem::new(problem.kind())
                .with_detail("the answer has no room to say what is wrong with the item"),
        }
    }
}

/// The problem of an item that is not begun.
pub(super) fn no_room() -> Problem {
    let detail = "the answer has no room for more links (server.max_bulk_answer_bytes): send the rest in another request";
    Problem::new(Kind::Overloaded).with_detail(detail)
}

/// How many bytes a link with that content takes at most in the answer to a bulk request. Its campaign parameters are shown a second
/// time, where a letter in hexadecimal digits may be a control character.
fn link_bytes(content: &LinkContent) -> usize {
    let details = &content.details;
    let texts = [&content.title, &content.external_id, &details.notes];
    let texts = texts.into_iter().chain([&details.expired_url]).flatten();
    let texts = texts.map(|text| written(text));
    let tags = content.tags.iter().map(|tag| written(tag) + 3);
    LINK_BYTES + 3 * written(content.target.as_str()) + texts.chain(tags).sum::<usize>()
}

/// The same of a problem. A field is named twice.
fn problem_bytes(problem: &Problem) -> usize {
    let errors = problem.errors().iter();
    let errors =
        errors.map(|error| ERROR_BYTES + 2 * written(&error.field) + written(&error.reason));
    PROBLEM_BYTES + written(problem.text()) + errors.sum::<usize>()
}

/// The length of a text in JSON, without quotes.
fn written(text: &str) -> usize {
    let more = |byte: u8| match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' => 1,
        0..0x20 => 5,
        _ => 0,
    };
    text.len() + text.bytes().map(more).sum::<usize>()
}

/// Counts what is written to it.
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

/// The answer to a bulk request: `counts`, which is an object, with the views of all outcomes as its `results`. They are written as
/// they are sent, and a first time to know how long they are: large answers are admitted by their length.
pub(super) fn answer<O: Send + 'static>(
    app: &Arc<App>,
    counts: &impl Serialize,
    outcomes: Vec<O>,
    view: for<'o> fn(usize, &'o O, &LinksConfig) -> ItemView<'o>,
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
    use crate::links::model::{Link, LinkDetails};
    use crate::problem::FieldError;
    use edgelink_wire::target::TargetUrl;
    use edgelink_wire::{Code, Domain};
    use proptest::prelude::*;
    use std::borrow::Borrow;

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

    fn config() -> ServerConfig {
        ServerConfig {
            max_bulk_answer_bytes: 10_000,
            ..ServerConfig::default()
        }
    }

    proptest! {
        #[test]
        fn a_link_takes_no_more_than_it_is_given(
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
        fn a_problem_takes_no_more_than_it_is_given(
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

    #[test]
    fn what_has_no_room_is_not_begun_and_problems_are_short() {
        let mut room = AnswerRoom::of(&config());
        let content = LinkContent::to(TargetUrl::from_store("https://e.com/"));
        let mut admitted = Vec::new();
        for _ in 0..10 {
            let item = room.admit(Ok(content.clone()), Borrow::borrow);
            admitted.push(item.map_err(|problem| problem.kind()));
        }
        let made = admitted.iter().filter(|item| item.is_ok()).count();
        assert!((1..10).contains(&made));
        assert!(
            admitted[made..]
                .iter()
                .all(|item| *item == Err(Kind::Overloaded))
        );
        assert!(!room.shows(&content) && !room.is_open());
        let error = FieldError::new("title", "x".repeat(9_000));
        let short = room.fitting(Problem::validation(vec![error]));
        assert_eq!((short.kind(), short.errors()), (Kind::Validation, &[][..]));
    }
}
