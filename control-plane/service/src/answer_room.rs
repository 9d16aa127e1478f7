//! The room of the answer to a bulk request. It is taken before an item is carried out, so that each outcome fits into the answer.

use crate::problem::{Kind, Problem};
use edgelink_model::links::model::LinkContent;
use edgelink_settings::config::ServerConfig;

/// Bytes of a link in an answer beside its texts: the names of its fields, times, numbers, domain and code.
const LINK_BYTES: usize = 1_536;

/// Bytes of a problem beside its texts, and of the error of a field beside its own.
const PROBLEM_BYTES: usize = 256;
const ERROR_BYTES: usize = 48;

/// Room left in the answer to a request, in bytes, without the overhead of each item, which is some hundred bytes.
#[derive(Debug)]
pub struct AnswerRoom {
    left: usize,
    /// Set once something had no room.
    is_full: bool,
}

impl AnswerRoom {
    /// The room of a whole answer.
    pub fn of(config: &ServerConfig) -> Self {
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

    /// True as long as everything had room.
    pub(crate) fn is_open(&self) -> bool {
        !self.is_full
    }

    /// Takes the room of an item to be created with that content, or refuses it. A problem gets the room that is left.
    pub fn admit<T>(
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

    /// Takes the room of an existing link; returns whether the answer has it.
    pub(crate) fn shows(&mut self, content: &LinkContent) -> bool {
        self.take(link_bytes(content))
    }

    /// A problem cut down to the room there is: at least its kind remains.
    pub fn fitting(&mut self, problem: Problem) -> Problem {
        if self.take(problem_bytes(&problem)) {
            problem
        } else {
            Problem::new(problem.kind())
                .with_detail("the answer has no room to say what is wrong with the item")
        }
    }
}

/// The problem of an item that was not started.
pub(crate) fn no_room() -> Problem {
    let detail = "the answer has no room for more links (server.max_bulk_answer_bytes): send the rest in another request";
    Problem::new(Kind::Overloaded).with_detail(detail)
}

/// Upper bound on the bytes of a link with that content in the answer to a bulk request. Its campaign parameters are shown a second
/// time, decoded, where a percent-encoded byte may be a control character.
pub fn link_bytes(content: &LinkContent) -> usize {
    let details = &content.details;
    let texts = [&content.title, &content.external_id, &details.notes];
    let texts = texts.into_iter().chain([&details.expired_url]).flatten();
    let texts = texts.map(|text| written(text));
    let tags = content.tags.iter().map(|tag| written(tag) + 3);
    LINK_BYTES + 3 * written(content.target.as_str()) + texts.chain(tags).sum::<usize>()
}

/// Upper bound on the bytes of a problem in the answer to a bulk request. A field is named twice.
pub fn problem_bytes(problem: &Problem) -> usize {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::FieldError;
    use edgelink_wire::target::TargetUrl;
    use std::borrow::Borrow;

    fn config() -> ServerConfig {
        ServerConfig {
            max_bulk_answer_bytes: 10_000,
            ..ServerConfig::default()
        }
    }

    #[test]
    fn item_when_answer_room_is_full_is_not_begun() {
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
