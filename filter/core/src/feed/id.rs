//! The ids of entries in a Redis stream.

use std::fmt;

/// An id: milliseconds of the server's clock, and a number within the millisecond. Ids in one stream only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct EntryId {
    /// Milliseconds since the Unix epoch.
    pub ms: u64,
    /// Number within the millisecond.
    pub sequence: u64,
}

impl EntryId {
    /// Before every entry.
    pub const ZERO: Self = Self { ms: 0, sequence: 0 };

    /// Reads `{ms}-{sequence}`, as Redis writes it. Anything else is `None`.
    #[must_use]
    pub fn parse(text: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(text).ok()?;
        let (ms, sequence) = text.split_once('-')?;
        Some(Self {
            ms: number(ms)?,
            sequence: number(sequence)?,
        })
    }
}

/// `parse` alone would take a leading '+'.
fn number(text: &str) -> Option<u64> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit());
    is_plain.then(|| text.parse().ok()).flatten()
}

impl fmt::Display for EntryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.ms, self.sequence)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_reads_back() {
        for text in [
            "0-0",
            "1700000000000-1",
            "18446744073709551615-18446744073709551615",
        ] {
            assert_eq!(EntryId::parse(text.as_bytes()).unwrap().to_string(), text);
        }
    }

    #[test]
    fn what_is_no_id_is_refused() {
        for text in [
            "",
            "-",
            "1",
            "1-",
            "-1",
            "1-+1",
            "1-2-3",
            "a-1",
            "18446744073709551616-0",
            "$",
            "\u{e9}-1",
        ] {
            assert_eq!(EntryId::parse(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn ids_are_ordered_by_time_and_then_by_number() {
        let id = |text: &str| EntryId::parse(text.as_bytes()).unwrap();
        assert!(id("9-9") < id("10-0"));
        assert!(id("10-2") < id("10-10"));
    }
}
