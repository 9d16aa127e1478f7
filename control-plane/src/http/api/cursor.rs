//! Cursors: the place of a link in the list, as a text that is opaque to clients.

use super::fields::Reason;
use crate::store::ListCursor;
use serde_json::Value;

const DIGITS: usize = 16;

pub(crate) fn format(cursor: ListCursor) -> String {
    format!("{:016x}{:016x}", cursor.created_at, cursor.id)
}

pub(crate) fn parse(value: &Value) -> Result<ListCursor, Reason> {
    value.as_str().and_then(read).ok_or(Reason::Borrowed(
        "must be a nextCursor of an earlier answer",
    ))
}

fn read(text: &str) -> Option<ListCursor> {
    let (created_at, id) = text.split_at_checked(DIGITS)?;
    Some(ListCursor {
        created_at: number(created_at)?,
        id: number(id)?,
    })
}

fn number(text: &str) -> Option<u64> {
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    if text.len() != DIGITS || !text.bytes().all(is_digit) {
        return None;
    }
    u64::from_str_radix(text, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_text_that_is_no_cursor_is_refused() {
        for text in [
            "",
            "0",
            &"0".repeat(31),
            &"0".repeat(33),
            &"+".repeat(32),
            &"ä".repeat(16),
            &"A".repeat(32),
        ] {
            assert!(parse(&Value::from(text)).is_err(), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn a_cursor_reads_back(created_at: u64, id: u64) {
            let cursor = ListCursor { created_at, id };
            prop_assert_eq!(parse(&Value::from(format(cursor))), Ok(cursor));
        }

        #[test]
        fn any_text_is_taken_or_refused_without_a_panic(text in "\\PC{0,40}|[0-9a-fä]{28,34}") {
            let _ = parse(&Value::from(text));
        }
    }
}
