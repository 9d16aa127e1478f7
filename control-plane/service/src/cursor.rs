//! Cursors: the position of a link in a list, and the sort order of that list, as a text that is opaque to clients.
//!
//! A page may end at a link that its reader may not see, because links are scanned in the order of an index. So cursors are
//! sealed: they do not reveal that link, and a reader cannot forge one to begin a list anywhere.

use super::fields::Reason;
use super::seal::Seal;
use edgelink_store::{ListCursor, ListOrder};
use edgelink_wire::Code;
use serde_json::Value;

const DIGITS: usize = 16;

/// The point at which a list continues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Continuation {
    pub(crate) order: ListOrder,
    pub(crate) place: ListCursor,
}

/// Prefixes of cursors in sort orders other than newest first.
const OLDEST_FIRST: char = 'o';
const CODE: char = 's';
const CODE_DESCENDING: char = 'z';

impl Continuation {
    pub(crate) fn format(&self, seal: &Seal) -> String {
        let place = match &self.place {
            ListCursor::Created { created_at, id } => format_created(*created_at, *id),
            ListCursor::Code(code) => code.to_string(),
        };
        seal.seal(&match self.order {
            ListOrder::NewestFirst => place,
            ListOrder::OldestFirst => format!("{OLDEST_FIRST}{place}"),
            ListOrder::Code => format!("{CODE}{place}"),
            ListOrder::CodeDescending => format!("{CODE_DESCENDING}{place}"),
        })
    }

    pub(crate) fn parse(value: &Value, seal: &Seal) -> Result<Self, Reason> {
        let text = value.as_str().and_then(|text| seal.open(text));
        text.and_then(|text| Self::read(&text)).ok_or(NO_CURSOR)
    }

    fn read(text: &str) -> Option<Self> {
        let (order, place) = [
            (OLDEST_FIRST, ListOrder::OldestFirst),
            (CODE, ListOrder::Code),
            (CODE_DESCENDING, ListOrder::CodeDescending),
        ]
        .into_iter()
        .find_map(|(prefix, order)| Some((order, text.strip_prefix(prefix)?)))
        .unwrap_or((ListOrder::NewestFirst, text));
        let place = match order {
            ListOrder::NewestFirst | ListOrder::OldestFirst => created(place)?,
            ListOrder::Code | ListOrder::CodeDescending => coded(place)?,
        };
        Some(Self { order, place })
    }
}

/// The cursor of an item with this time of creation (unix milliseconds) and number.
pub fn format_created(created_at: u64, id: u64) -> String {
    format!("{created_at:016x}{id:016x}")
}

/// Parses the output of [`format_created`].
pub fn parse_created(value: &Value) -> Result<(u64, u64), Reason> {
    value.as_str().and_then(read_created).ok_or(NO_CURSOR)
}

pub(crate) const NO_CURSOR: Reason = Reason::Borrowed("must be a nextCursor of an earlier answer");

fn created(text: &str) -> Option<ListCursor> {
    let (created_at, id) = read_created(text)?;
    Some(ListCursor::Created { created_at, id })
}

fn read_created(text: &str) -> Option<(u64, u64)> {
    let (created_at, id) = text.split_at_checked(DIGITS)?;
    // Databases without unsigned numbers end there. They store the number of a key as a text.
    let created_at = number(created_at).filter(|time| i64::try_from(*time).is_ok());
    Some((created_at?, number(id)?))
}

fn number(text: &str) -> Option<u64> {
    if text.len() != DIGITS || !is_hexadecimal(text) {
        return None;
    }
    u64::from_str_radix(text, 16).ok()
}

/// The cursor of an item with that name.
pub(crate) fn format_name(name: &str) -> String {
    hex::encode(name)
}

/// Parses the output of [`format_name`].
pub(crate) fn parse_name(value: &Value) -> Result<String, Reason> {
    let name = value.as_str().and_then(|text| hex::decode(text).ok());
    let name = name.and_then(|name| String::from_utf8(name).ok());
    name.filter(|name| !name.is_empty()).ok_or(NO_CURSOR)
}

fn coded(text: &str) -> Option<ListCursor> {
    Code::stored(text).ok().map(ListCursor::Code)
}

fn is_hexadecimal(text: &str) -> bool {
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    text.bytes().all(is_digit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn cursor_when_malformed_is_refused() {
        for text in [
            "",
            "0",
            &"0".repeat(31),
            &"0".repeat(33),
            &"+".repeat(32),
            &"ä".repeat(16),
            &"A".repeat(32),
            "o",
            "s",
            "s.",
            "zä",
            "xa",
            &"8000000000000000".repeat(2),
        ] {
            let seal = Seal::new("secret");
            for text in [text, &seal.seal(text)] {
                assert!(
                    Continuation::parse(&Value::from(text), &seal).is_err(),
                    "{text:?}"
                );
            }
        }
    }

    #[test]
    fn name_when_written_and_read_is_equal() {
        assert_eq!(
            parse_name(&Value::from(format_name("\u{e4}.b"))),
            Ok("\u{e4}.b".to_owned())
        );
        for text in ["", "6", "6g", "ff"] {
            assert!(parse_name(&Value::from(text)).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn cursor_when_written_and_read_is_equal(created_at in 0..1_u64 << 63, id: u64, code in "[0-9A-Za-z_-]{1,64}") {
            let created = ListCursor::Created { created_at, id };
            let coded = ListCursor::Code(Code::stored(&code).unwrap());
            for (order, place) in [
                (ListOrder::NewestFirst, &created),
                (ListOrder::OldestFirst, &created),
                (ListOrder::Code, &coded),
                (ListOrder::CodeDescending, &coded),
            ] {
                let cursor = Continuation { order, place: place.clone() };
                let seal = Seal::new("secret");
                prop_assert_eq!(Continuation::parse(&Value::from(cursor.format(&seal)), &seal), Ok(cursor));
            }
        }

        #[test]
        fn cursor_when_text_is_arbitrary_never_panics(text in "\\PC{0,40}|[osz]?[0-9a-fä]{28,34}") {
            let seal = Seal::new("secret");
            let _ = Continuation::parse(&Value::from(text.as_str()), &seal);
            let _ = Continuation::parse(&Value::from(seal.seal(&text)), &seal);
        }
    }
}
