//! Times as other systems, and their clients, write them.

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// Parses a time: one without an offset is UTC, a date alone stands for its first second, and digits alone are unix seconds or
/// milliseconds. `None` if the text is not a time.
pub fn parsed(text: &str) -> Option<OffsetDateTime> {
    let text = text.trim();
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        return of_unix_time(text);
    }
    let (date, rest) = text.split_at_checked(10)?;
    let clock = match rest.strip_prefix(['T', 't', ' ']) {
        Some(clock) => clock.trim(),
        None if rest.is_empty() => "00:00:00Z",
        None => return None,
    };
    let clock = clock.strip_suffix("UTC").map_or(clock, str::trim_end);
    let (clock, offset) = split_offset(clock)?;
    let seconds = if clock.len() == 5 { ":00" } else { "" };
    let time = format!("{date}T{clock}{seconds}{offset}");
    OffsetDateTime::parse(&time, &Rfc3339).ok()
}

/// A time in the form of the API (RFC 3339); `None` if its year has no four digits.
pub fn shown(time: OffsetDateTime) -> Option<String> {
    time.format(&Rfc3339).ok()
}

/// True if the text stands for no time: the zero of a database.
pub fn is_none(text: &str) -> bool {
    let text = text.trim();
    text.is_empty() || text == "0" || text.starts_with("0000-00-00")
}

/// Splits off the offset, in the form of RFC 3339.
fn split_offset(clock: &str) -> Option<(&str, String)> {
    if let Some(clock) = clock.strip_suffix(['Z', 'z']) {
        return Some((clock, "Z".to_owned()));
    }
    let Some(at) = clock.rfind(['+', '-']) else {
        return Some((clock, "Z".to_owned()));
    };
    let (clock, offset) = clock.split_at_checked(at)?;
    let (sign, digits) = offset.split_at_checked(1)?;
    let digits: String = digits.chars().filter(|digit| *digit != ':').collect();
    let (hours, minutes) = match digits.len() {
        2 => (digits.as_str(), "00"),
        4 => digits.split_at_checked(2)?,
        _ => return None,
    };
    Some((clock.trim_end(), format!("{sign}{hours}:{minutes}")))
}

fn of_unix_time(digits: &str) -> Option<OffsetDateTime> {
    let number: i64 = digits.parse().ok()?;
    // Seconds have 11 digits from the year 5138 on.
    let seconds = if digits.len() > 11 {
        number / 1000
    } else {
        number
    };
    OffsetDateTime::from_unix_timestamp(seconds).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_when_of_any_system_becomes_that_of_the_api() {
        for (text, expected) in [
            ("2016-08-21T20:34:16+02:00", "2016-08-21T20:34:16+02:00"),
            ("2026-01-01T00:00:00+0000", "2026-01-01T00:00:00Z"),
            ("2026-02-25 08:28:34", "2026-02-25T08:28:34Z"),
            ("2026-02-25 08:28:34.5 +02", "2026-02-25T08:28:34.5+02:00"),
            ("2024-01-31T09:15:01.123Z", "2024-01-31T09:15:01.123Z"),
            (" 2024-01-31 ", "2024-01-31T00:00:00Z"),
            ("2024-01-31 09:15", "2024-01-31T09:15:00Z"),
            ("2024-01-31 09:15:01 UTC", "2024-01-31T09:15:01Z"),
            ("1706692501", "2024-01-31T09:15:01Z"),
            ("1706692501000", "2024-01-31T09:15:01Z"),
        ] {
            let time = parsed(text).and_then(shown);
            assert_eq!(time.as_deref(), Some(expected), "{text:?}");
        }
    }

    #[test]
    fn time_when_malformed_is_refused() {
        for text in [
            "yesterday",
            "2024-02-30 00:00:00",
            "2024-01-31X09:15:01",
            "31/01/2024",
            "2024-01-31 25:00:00",
            "2024-01-31 09:15:01 +1",
            "2024-1-31",
            "\u{fc}\u{fc}\u{fc}\u{fc}\u{fc}\u{fc}",
            "99999999999999999999",
        ] {
            assert_eq!(parsed(text), None, "{text:?}");
        }
        for text in ["", " ", "0", "0000-00-00 00:00:00"] {
            assert!(is_none(text));
        }
    }
}
