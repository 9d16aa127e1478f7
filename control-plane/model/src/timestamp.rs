//! Times in the API: RFC 3339.

pub mod lenient;

use serde::{Deserialize, Serialize};
use std::fmt;
use time::format_description::BorrowedFormatItem;
use time::format_description::well_known::Rfc3339;
use time::macros::format_description;
use time::{Duration, OffsetDateTime, UtcOffset};

const SECONDS: &[BorrowedFormatItem<'_>] =
    format_description!("[year]-[month]-[day]T[hour]:[minute]:[second]Z");
const MILLISECONDS: &[BorrowedFormatItem<'_>] =
    format_description!("[year]-[month]-[day]T[hour]:[minute]:[second].[subsecond digits:3]Z");

/// A time in responses: RFC 3339 in JSON, and on pages a readable form without letters and fractions of a second.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Time(pub String);

impl Time {
    /// The time of unix seconds.
    pub fn of_seconds(seconds: u64) -> Self {
        Self(from_seconds(seconds))
    }

    /// The time of unix milliseconds.
    pub fn of_millis(millis: u64) -> Self {
        Self(from_millis(millis))
    }
}

impl fmt::Display for Time {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.0.get(..10), self.0.get(11..19)) {
            (Some(day), Some(time)) => write!(to, "{day} {time} UTC"),
            _ => to.write_str(&self.0),
        }
    }
}

/// The error of a text that is no valid time of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be a time of 1970 or later as in RFC 3339, for example 2030-12-31T23:59:59Z")]
pub struct TimestampError;

/// Parses a time into unix seconds; the fraction of a second is cut off.
pub fn parse(text: &str) -> Result<u64, TimestampError> {
    u64::try_from(read(text)?.unix_timestamp()).map_err(|_| TimestampError)
}

/// Parses a time into unix milliseconds; the fraction of a millisecond is cut off.
pub fn parse_millis(text: &str) -> Result<u64, TimestampError> {
    let millis = read(text)?.unix_timestamp_nanos().div_euclid(1_000_000);
    u64::try_from(millis).map_err(|_| TimestampError)
}

fn read(text: &str) -> Result<OffsetDateTime, TimestampError> {
    let time = OffsetDateTime::parse(text, &Rfc3339).map_err(|_| TimestampError)?;
    time.checked_to_offset(UtcOffset::UTC).ok_or(TimestampError)
}

/// Formats unix seconds, in UTC.
pub fn from_seconds(seconds: u64) -> String {
    format(
        Duration::seconds(i64::try_from(seconds).unwrap_or(i64::MAX)),
        SECONDS,
    )
}

/// Formats unix milliseconds, in UTC.
pub fn from_millis(millis: u64) -> String {
    format(
        Duration::milliseconds(i64::try_from(millis).unwrap_or(i64::MAX)),
        MILLISECONDS,
    )
}

/// Formats a time, capped at the end of the year 9999: stored times come from [`parse`] or from a clock and are earlier.
fn format(since_epoch: Duration, format: &[BorrowedFormatItem<'_>]) -> String {
    let end = time::macros::datetime!(9999-12-31 23:59:59.999 UTC);
    OffsetDateTime::UNIX_EPOCH
        .checked_add(since_epoch)
        .unwrap_or(end)
        .format(format)
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamp_when_it_has_an_offset_becomes_utc() {
        for (text, seconds, utc) in [
            ("1970-01-01T00:00:00Z", 0, "1970-01-01T00:00:00Z"),
            (
                "2026-01-02T03:04:05+02:00",
                1_767_315_845,
                "2026-01-02T01:04:05Z",
            ),
            (
                "2026-01-02T01:04:05.999Z",
                1_767_315_845,
                "2026-01-02T01:04:05Z",
            ),
            (
                "9999-12-31T23:59:59Z",
                253_402_300_799,
                "9999-12-31T23:59:59Z",
            ),
        ] {
            assert_eq!(parse(text), Ok(seconds));
            assert_eq!(from_seconds(seconds), utc);
        }
        assert_eq!(from_millis(1_767_315_845_007), "2026-01-02T01:04:05.007Z");
    }

    #[test]
    fn timestamp_when_malformed_or_before_1970_is_refused() {
        for text in [
            "",
            "2026-01-02",
            "2026-01-02T03:04:05",
            "2026-13-02T03:04:05Z",
            "2026-02-30T03:04:05Z",
            "1767315845",
            "1969-12-31T23:59:59Z",
            "9999-12-31T23:59:59-01:00",
        ] {
            assert_eq!(parse(text), Err(TimestampError), "{text:?}");
        }
    }

    #[test]
    fn timestamp_when_beyond_year_9999_is_clamped() {
        assert_eq!(from_seconds(u64::MAX), "9999-12-31T23:59:59Z");
    }
}
