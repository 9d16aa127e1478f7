//! The newest row of the publisher read by this process.

use std::sync::{Mutex, PoisonError};

/// The newest row of the publisher read by this process: its token, and the generation in which numbers were
/// last skipped according to the row with that token; generations of a lost database may be higher.
///
/// A row with a lower token comes from a database that went back, and no number is drawn from it: another process may
/// have drawn the same one. Once the publisher has repaired it, its token is higher, and its numbers follow the earlier
/// ones. A process that has not read any of the lost state continues to draw until another one has repaired the
/// database.
#[derive(Debug, Default)]
pub(super) struct NewestRow(Mutex<(u64, u64)>);

impl NewestRow {
    /// The greatest token.
    pub(super) fn token(&self) -> u64 {
        self.read().0
    }

    /// The generation in which numbers were last skipped.
    pub(super) fn skipped_in(&self) -> u64 {
        self.read().1
    }

    /// Records a row that was read. Returns true if the database went back since the previous one.
    pub(super) fn note(&self, token: u64, skipped_in: u64) -> bool {
        let mut newest = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if token < newest.0 {
            return true;
        }
        let went_back = skipped_in != newest.1;
        *newest = (token, skipped_in);
        went_back
    }

    fn read(&self) -> (u64, u64) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn row_when_its_token_is_newest_names_the_last_skip() {
        let newest = NewestRow::default();
        for (token, skipped_in, went_back, expected) in [
            (5, 0, false, (5, 0)),
            (6, 0, false, (6, 0)),
            // The clock was ahead when this one was repaired, which is lost.
            (7, 900, true, (7, 900)),
            (6, 0, true, (7, 900)),
            (8, 300, true, (8, 300)),
            (7, 900, true, (8, 300)),
            (8, 300, false, (8, 300)),
        ] {
            assert_eq!(newest.note(token, skipped_in), went_back, "{token}");
            assert_eq!((newest.token(), newest.skipped_in()), expected);
        }
    }
}
