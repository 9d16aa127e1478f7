//! The revisions of links, which never go back, even after the purge of a tombstone or the restore of an older
//! database.
//!
//! A revision is at least the database's clock in microseconds, and greater than all earlier ones of the link and than
//! the floor: the greatest revision that caches may hold of a link without a row.

use super::dialect::{Dialect, GUARD};
use super::error::Fault;
use super::session::Session;
use super::sql::sql;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Greatest distance of a predicted revision from the database's clock, in microseconds. Clocks drift less than that
/// between two creations; a clock that was set is detected.
const TOLERANCE: u64 = 1_000_000;

/// Greatest distance of a predicted time from the database's clock, in milliseconds.
pub const TOLERANCE_MILLIS: u64 = TOLERANCE / 1000;

/// The basis of the next revisions, as read from the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, sqlx_macros::FromRow)]
pub struct RevisionBasis {
    rev_floor: u64,
    now_micros: u64,
}

impl RevisionBasis {
    /// The query for them.
    pub fn select(dialect: &Dialect) -> String {
        let now = dialect.now_micros;
        format!("SELECT rev_floor, {now} AS now_micros FROM publisher WHERE id = 1")
    }

    /// The query for them in a script, which goes on only if `rev` is acceptable for a new link by these revisions, and `condition` is
    /// true: see [`Self::allow`].
    pub fn select_guarded(dialect: &Dialect, rev: u64, condition: &str) -> String {
        let (now, greatest) = (dialect.now_micros, dialect.greatest);
        let first = format!("{greatest}({now}, p.rev_floor + 1)");
        // Without the row, nothing is true.
        format!(
            "SELECT p.rev_floor, {now} AS now_micros, IF(p.rev_floor < {rev} AND {first} <= {rev} + {TOLERANCE} \
             AND {rev} <= {first} + {TOLERANCE} AND {condition}, 0, {GUARD}) AS refused \
             FROM (SELECT 1 AS row_id) o LEFT JOIN publisher p ON p.id = o.row_id; "
        )
    }

    /// Reads them from the database.
    pub async fn read(session: &mut Session) -> Result<Self, Fault> {
        session
            .fetch_one(sql(Self::select(session.dialect())))
            .await
    }

    /// The revision of a new link.
    pub fn first(&self) -> u64 {
        self.now_micros.max(self.rev_floor.saturating_add(1))
    }

    /// The revision after `rev`.
    pub fn after(&self, rev: u64) -> u64 {
        self.first().max(rev.saturating_add(1))
    }

    /// The published revision of a row with the revision `rev`: caches may have any up to the floor.
    pub fn effective(&self, rev: u64) -> u64 {
        rev.max(self.rev_floor)
    }

    /// The database's clock, in unix milliseconds.
    pub fn now_millis(&self) -> u64 {
        self.now_micros / 1000
    }

    /// True if `rev` is acceptable for a new link.
    pub fn allow(&self, rev: u64) -> bool {
        rev > self.rev_floor && rev.abs_diff(self.first()) <= TOLERANCE
    }

    /// Raises the floor to at least `rev`. Part of a transaction.
    pub async fn raise_floor(session: &mut Session, rev: u64) -> Result<(), Fault> {
        let greatest = session.dialect().greatest;
        let raise = sql(format!(
            "UPDATE publisher SET rev_floor = {greatest}(rev_floor, ?) WHERE id = 1"
        ));
        session.execute(raise.bind(rev)).await.map(drop)
    }

    fn later(self, by: Duration) -> Self {
        let by = u64::try_from(by.as_micros()).unwrap_or(u64::MAX);
        let now_micros = self.now_micros.saturating_add(by);
        Self { now_micros, ..self }
    }
}

/// The last [`RevisionBasis`] and the time at which they were read. With them links are created in one message to the database,
/// which checks the prediction.
#[derive(Debug, Default)]
pub struct LastRevisions(Mutex<Option<(Instant, RevisionBasis)>>);

impl LastRevisions {
    /// Predicts the database's present answer; `None` before the first one.
    pub fn guess(&self) -> Option<RevisionBasis> {
        let known = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.map(|(at, last)| last.later(at.elapsed()))
    }

    /// Stores the answer read from the database just now.
    pub fn note(&self, revisions: RevisionBasis) {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *last = Some((Instant::now(), revisions));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn revisions(rev_floor: u64, now_micros: u64) -> RevisionBasis {
        RevisionBasis {
            rev_floor,
            now_micros,
        }
    }

    #[test]
    fn revision_when_assigned_exceeds_last_floor_and_clock() {
        assert_eq!(revisions(5, 900).first(), 900);
        assert_eq!(revisions(1000, 900).first(), 1001);
        assert_eq!(revisions(5, 900).after(7), 900);
        assert_eq!(revisions(5, 900).after(2000), 2001);
        assert_eq!(revisions(1000, 900).after(7), 1001);
        assert_eq!(revisions(5, 900).effective(7), 7);
        assert_eq!(revisions(9, 900).effective(7), 9);
    }

    #[test]
    fn guessed_revision_when_above_floor_and_near_clock_counts() {
        let said = revisions(4_000_000, 9_000_000);
        for (rev, allowed) in [
            (9_000_000, true),
            (8_000_000, true),
            (10_000_000, true),
            (7_999_999, false),
            (10_000_001, false),
        ] {
            assert_eq!(said.allow(rev), allowed, "{rev}");
        }
        assert!(!revisions(9_500_000, 9_000_000).allow(9_500_000));
        assert!(revisions(9_500_000, 9_000_000).allow(9_500_001));
    }

    #[test]
    fn guessed_revision_when_time_passes_grows() {
        let later = revisions(5, 900).later(Duration::from_millis(2));
        assert_eq!(later, revisions(5, 2900));
    }
}
