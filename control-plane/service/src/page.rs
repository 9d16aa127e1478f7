//! Pages of a list: their length, and the cursor of the next one.

use super::fields::{Fields, Reason};
use crate::problem::{Kind, Problem};
use serde_json::Value;

/// Default length of a page.
const DEFAULT_LIMIT: u32 = 20;

/// The longest page.
const MAX_LIMIT: u32 = 100;

/// Reads the parameters of a list in the order of numbers without filters: its limit, and the number of the last item of the
/// previous page.
pub fn parameters(query: Option<&str>) -> Result<(u32, Option<u64>), Problem> {
    let mut fields = Fields::of_query(query)?;
    let limit = limit(&mut fields);
    let place = fields.optional("cursor", cursor);
    fields.finish().map(|()| (limit, place))
}

/// Reads the parameter `limit`. Callers fetch one item more, which shows whether there is a next page.
pub fn limit(fields: &mut Fields) -> u32 {
    let limit = fields.optional("limit", parse_limit);
    limit.unwrap_or(DEFAULT_LIMIT)
}

fn parse_limit(value: &Value) -> Result<u32, Reason> {
    value
        .as_str()
        .filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))
        .and_then(|text| text.parse().ok())
        .filter(|limit| (1..=MAX_LIMIT).contains(limit))
        .ok_or(Reason::Borrowed("must be a number of 1 to 100"))
}

/// Parses the parameter `cursor` of a list in the order of numbers: the number of the last item of the previous page.
pub fn cursor(value: &Value) -> Result<u64, Reason> {
    let digits = value.as_str().filter(|text| text.len() == 16);
    let digits = digits.filter(|text| text.bytes().all(|byte| byte.is_ascii_hexdigit()));
    digits
        .and_then(|text| u64::from_str_radix(text, 16).ok())
        .filter(|number| i64::try_from(*number).is_ok())
        .ok_or(Reason::Borrowed(
            "must be a nextCursor of an earlier answer",
        ))
}

/// The cursor after the item with that number.
pub(crate) fn place(number: u64) -> String {
    format!("{number:016x}")
}

/// The number of a resource in a path. A text that is not a number names no resource.
pub fn number(text: &str) -> Result<u64, Problem> {
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    let id = text.parse().ok().filter(|_| is_number);
    id.filter(|id| i64::try_from(*id).is_ok())
        .ok_or_else(|| Problem::new(Kind::NotFound))
}

/// A page of a list.
pub struct Page<T> {
    /// Items of the page, in the order of the list.
    pub items: Vec<T>,
    /// The cursor of the next page, if there is one.
    pub next: Option<String>,
}

/// Cuts off the items beyond `limit`. Returns the last item of the page if there were any.
pub fn cut<T>(items: &mut Vec<T>, limit: u32) -> Option<&T> {
    let limit = usize::try_from(limit).ok()?;
    if items.len() <= limit {
        return None;
    }
    items.truncate(limit);
    items.last()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_when_more_follow_ends_with_a_cursor() {
        let mut items = vec![1, 2, 3];
        assert_eq!(cut(&mut items, 3), None);
        let text = place(*cut(&mut items, 2).unwrap());
        assert_eq!(
            (items.as_slice(), cursor(&Value::from(text))),
            (&[1, 2][..], Ok(2))
        );
    }

    #[test]
    fn limit_when_out_of_range_is_refused() {
        for text in ["", "0", "101", "+1", "-1", "1.0", "99999999999"] {
            assert!(parse_limit(&Value::from(text)).is_err(), "{text}");
        }
        assert_eq!(parse_limit(&Value::from("100")), Ok(100));
        for text in [
            "",
            "1",
            "+000000000000001",
            "ffffffffffffffff",
            "\u{e4}00000000000000",
        ] {
            assert!(cursor(&Value::from(text)).is_err(), "{text}");
        }
    }
}
