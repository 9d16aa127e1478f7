//! Links whose change this version cannot read, as a newer control plane may send: they are looked up again.
//!
//! The rev of a readable change keeps records fetched earlier from undoing it. An unreadable change has no rev; hence the
//! moment at which it arrived is kept instead, for as long as a record fetched before may count as fresh.

use crate::time::Moment;
use foldhash::fast::SeedableRandomState;
use hashbrown::HashMap;

/// Maximum number of links kept. With more, everything is looked up again.
const MAX_LINKS: usize = 4_096;

/// Milliseconds between sweeps of expired changes.
const SWEEP_INTERVAL_MILLIS: u64 = 60_000;

/// Moments at which links have changed, by key.
#[derive(Debug)]
pub(crate) struct Changes {
    changed: HashMap<Box<[u8]>, Moment, SeedableRandomState>,
    swept: Moment,
}

impl Changes {
    pub(crate) fn new(hasher: SeedableRandomState) -> Self {
        Self {
            changed: HashMap::with_hasher(hasher),
            swept: Moment::default(),
        }
    }

    /// A link has changed. Returns `false` if there are too many: then none is kept, and everything may be outdated.
    #[must_use]
    pub(crate) fn note(&mut self, key: &[u8], now: Moment) -> bool {
        if let Some(changed) = self.changed.get_mut(key) {
            *changed = now;
            return true;
        }
        if self.changed.len() >= MAX_LINKS {
            self.changed.clear();
            return false;
        }
        self.changed.insert(key.into(), now);
        true
    }

    /// True if the link has changed since its record was fetched.
    pub(crate) fn is_outdated(&self, key: &[u8], fetched: Moment) -> bool {
        // Nearly always there are none, and then this costs nothing.
        !self.changed.is_empty()
            && self
                .changed
                .get(key)
                .is_some_and(|changed| fetched < *changed)
    }

    /// Time has passed. Records fetched more than `longest` milliseconds ago are never fresh.
    pub(crate) fn on_time(&mut self, now: Moment, longest: u64) {
        if !self.changed.is_empty() && self.swept.age(now) >= SWEEP_INTERVAL_MILLIS {
            self.swept = now;
            self.changed
                .retain(|_, changed| changed.age(now) <= longest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::hasher;

    fn at(millis: u64) -> Moment {
        Moment::from_millis(1_000_000 + millis)
    }

    #[test]
    fn record_when_fetched_before_a_change_is_outdated() {
        let mut changes = Changes::new(hasher());
        assert!(changes.note(b"a", at(0)) && changes.note(b"a", at(10)));
        assert!(changes.is_outdated(b"a", at(9)));
        assert!(!changes.is_outdated(b"a", at(10)) && !changes.is_outdated(b"b", at(9)));
        changes.on_time(at(100_000), 100_000);
        assert!(changes.is_outdated(b"a", at(9)));
        changes.on_time(at(161_000), 100_000);
        assert!(changes.changed.is_empty());
    }

    #[test]
    fn changes_when_links_exceed_the_bound_are_dropped() {
        let mut changes = Changes::new(hasher());
        for key in 0..MAX_LINKS {
            assert!(changes.note(&key.to_le_bytes(), at(0)));
        }
        assert!(changes.note(&0_usize.to_le_bytes(), at(1)));
        assert!(!changes.note(b"one more", at(1)));
        assert!(changes.changed.is_empty());
    }
}
