//! Whether the stream still holds everything after the place up to which it was read.
//!
//! Redis says nothing when entries are trimmed that a reader has not seen, and a reader that is blocked on a stream is
//! not told when the stream goes away. Each entry names the one before it, which tells of every loss, but not before
//! the next entry comes. So the reader also asks for `XINFO STREAM` when it connects, and again in every quiet moment,
//! and compares.

use crate::resp::Reply;
use edgelink_wire::FeedPosition;

/// What is asked of `XINFO STREAM`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamInfo {
    /// How many entries there are.
    pub length: u64,
    /// The id of the oldest one.
    pub first: Option<FeedPosition>,
    /// The greatest id that was ever given out.
    pub last: FeedPosition,
    /// How many entries were ever added; Redis says so from 7.0 on.
    pub added: Option<u64>,
}

/// Why what was read before and what can be read now do not join.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gap {
    /// Entries after our place may have been trimmed before we came to read them.
    Trimmed,
    /// The next entry says that it stands behind another one than we have read last.
    Skipped,
    /// The stream is gone: flushed, or Redis was restarted empty.
    Gone,
    /// The stream is another one than before: ids went back, or the count of its entries does not fit.
    Restarted,
    /// The publisher could not continue where it had stopped.
    Generation,
    /// An entry says neither what has changed nor of which link.
    Unreadable,
}

impl std::fmt::Display for Gap {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Trimmed => "entries were trimmed before they were read",
            Self::Skipped => "the next entry does not follow the last one",
            Self::Gone => "the stream is gone",
            Self::Restarted => "the stream was started again",
            Self::Generation => "the feed is of another generation",
            Self::Unreadable => "an entry cannot be read",
        })
    }
}

/// Reads an id as Redis writes it.
pub(super) fn parse_id(text: &[u8]) -> Option<FeedPosition> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// How far the stream was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// The last entry that was read; [`FeedPosition::START`] before the first.
    pub id: FeedPosition,
    /// How many entries were ever added up to there. None while it is not known.
    pub added: Option<u64>,
}

impl StreamInfo {
    /// Reads the answer to `XINFO STREAM`.
    #[must_use]
    pub fn read(reply: Reply<'_>) -> Option<Self> {
        let mut fields = reply.array()?;
        let (mut length, mut first, mut last, mut added) = (None, None, None, None);
        while let (Some(name), Some(value)) = (fields.next(), fields.next()) {
            match (name.bulk()?, value) {
                (b"length", Reply::Integer(number)) => length = u64::try_from(number).ok(),
                (b"entries-added", Reply::Integer(number)) => added = u64::try_from(number).ok(),
                (b"last-generated-id", Reply::Bulk(id)) => last = parse_id(id),
                (b"first-entry", Reply::Array(mut entry)) => {
                    first = Some(parse_id(entry.next()?.bulk()?)?);
                }
                _ => {}
            }
        }
        Some(Self {
            length: length?,
            first,
            last: last?,
            added,
        })
    }

    /// The end of the stream: where a reader starts that needs nothing of the past.
    #[must_use]
    pub fn end(&self) -> Position {
        Position {
            id: self.last,
            added: self.added,
        }
    }
}

impl Position {
    /// The place before everything in a stream that does not exist yet.
    pub const START: Self = Self {
        id: FeedPosition::START,
        added: Some(0),
    };

    /// Whether everything after this place can still be read. `info` is None where there is no stream.
    ///
    /// # Errors
    /// The [`Gap`]. It errs on the safe side: where the entry at our very place was trimmed, it is taken for a gap,
    /// although it may have been the last one to go.
    pub fn check(self, info: Option<&StreamInfo>) -> Result<(), Gap> {
        let Some(info) = info else {
            return if self.id == FeedPosition::START {
                Ok(())
            } else {
                Err(Gap::Gone)
            };
        };
        if info.last < self.id || self.is_of_another_stream(info) {
            return Err(Gap::Restarted);
        }
        let is_whole = match info.first {
            _ if info.last == self.id => true,
            _ if self.id == FeedPosition::START => info.added == Some(info.length),
            Some(first) => first <= self.id,
            None => false,
        };
        if is_whole { Ok(()) } else { Err(Gap::Trimmed) }
    }

    fn is_of_another_stream(self, info: &StreamInfo) -> bool {
        let (Some(ours), Some(theirs)) = (self.added, info.added) else {
            return false;
        };
        if info.last == self.id {
            ours != theirs
        } else {
            ours >= theirs
        }
    }

    /// The place after one more entry was read.
    #[must_use]
    pub fn after(self, id: FeedPosition) -> Self {
        Self {
            id,
            added: self.added.map(|added| added.saturating_add(1)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(millis: u64) -> FeedPosition {
        FeedPosition::new(millis, 0)
    }

    fn position(ms: u64, added: Option<u64>) -> Position {
        Position { id: id(ms), added }
    }

    fn info(length: u64, first: Option<u64>, last: u64, added: Option<u64>) -> StreamInfo {
        StreamInfo {
            length,
            first: first.map(id),
            last: id(last),
            added,
        }
    }

    #[test]
    fn a_stream_that_only_grew_has_no_gap() {
        for (place, info) in [
            (position(5, Some(3)), info(3, Some(1), 5, Some(3))),
            (position(5, Some(3)), info(4, Some(1), 9, Some(4))),
            (position(5, None), info(4, Some(5), 9, None)),
            // All was trimmed, but we had read all.
            (position(5, Some(3)), info(0, None, 5, Some(3))),
            (position(5, Some(3)), info(1, Some(5), 5, Some(3))),
            (Position::START, info(2, Some(1), 5, Some(2))),
        ] {
            assert_eq!(place.check(Some(&info)), Ok(()), "{place:?} {info:?}");
        }
        assert_eq!(Position::START.check(None), Ok(()));
    }

    #[test]
    fn every_gap_is_seen() {
        for (place, info, gap) in [
            (
                position(5, Some(3)),
                info(2, Some(6), 9, Some(9)),
                Gap::Trimmed,
            ),
            (position(5, None), info(2, Some(6), 9, None), Gap::Trimmed),
            (
                position(5, Some(3)),
                info(0, None, 9, Some(9)),
                Gap::Trimmed,
            ),
            (Position::START, info(2, Some(4), 5, Some(5)), Gap::Trimmed),
            (Position::START, info(2, Some(4), 5, None), Gap::Trimmed),
            (position(5, None), info(2, Some(1), 4, None), Gap::Restarted),
            (
                position(5, Some(3)),
                info(1, Some(9), 9, Some(1)),
                Gap::Restarted,
            ),
            (
                position(5, Some(3)),
                info(3, Some(4), 9, Some(3)),
                Gap::Restarted,
            ),
            (
                position(5, Some(3)),
                info(1, Some(5), 5, Some(1)),
                Gap::Restarted,
            ),
        ] {
            assert_eq!(place.check(Some(&info)), Err(gap), "{place:?} {info:?}");
        }
        assert_eq!(position(5, Some(3)).check(None), Err(Gap::Gone));
    }
}
