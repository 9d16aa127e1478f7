//! The newest that this process has read of the row of the publisher.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// The newest that this process has read of the row of the publisher. A row with a lower token is that of a database that
/// went back, and no number is drawn from it: others may have been given the same. Once the publisher has repaired it, its
/// token is higher, and the numbers behind those of before.
///
/// A process that has read nothing of what was lost draws until then, as long as no other one has repaired the database.
#[derive(Debug, Default)]
pub(super) struct Newest(Mutex<Known>);

/// What is kept of a row.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    token: u64,
    /// Of the row with that token: generations of a database that is lost may be higher.
    skipped_in: u64,
}

impl Newest {
    /// The greatest token.
    pub(super) fn token(&self) -> u64 {
        self.known().token
    }

    /// The generation with which numbers were skipped last, by the row with that token.
    pub(super) fn skipped_in(&self) -> u64 {
        self.known().skipped_in
    }

    /// Notes a row that was read.
    pub(super) fn note(&self, token: u64, skipped_in: u64) {
        let mut known = self.known();
        if token >= known.token {
            *known = Known { token, skipped_in };
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_were_skipped_last_where_the_row_with_the_newest_token_says() {
        let newest = Newest::default();
        for (token, skipped_in, expected) in [
            (5, 0, (5, 0)),
            // The clock was ahead when this one was repaired, which is lost.
            (7, 900, (7, 900)),
            (6, 0, (7, 900)),
            (8, 300, (8, 300)),
            (7, 900, (8, 300)),
        ] {
            newest.note(token, skipped_in);
            assert_eq!((newest.token(), newest.skipped_in()), expected);
        }
    }
}
