//! Links whose change this version cannot read, as a newer control plane may send: they are asked for again.
//!
//! A change that is known is kept by its rev from being undone by what was fetched before. One that is not known has no
//! rev; hence the moment at which it came is kept instead, for as long as anything that was fetched before may
//! count as fresh.

use crate::time::Moment;
use foldhash::fast::SeedableRandomState;
use hashbrown::HashMap;

/// The most links that are kept. With more, everything is asked for again.
const MAX_LINKS: usize = 4_096;

/// Milliseconds between two looks at what need not be kept any longer.
const SWEEP_INTERVAL_MILLIS: u64 = 60_000;

/// When links have changed, by key.
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

    /// A link has changed. False if there are too many of them: then none is kept, and everything may be outdated.
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

    /// Whether the link has changed since its record was fetched.
    pub(crate) fn is_outdated(&self, key: &[u8], fetched: Moment) -> bool {
        // Nearly always there are none, and then this costs nothing.
        !self.changed.is_empty()
            && self
                .changed
                .get(key)
                .is_some_and(|changed| fetched < *changed)
    }

    /// Time has passed. What was fetched more than `longest` milliseconds ago is not fresh in any case.
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
    fn what_was_fetched_before_a_change_is_outdated_as_long_as_it_could_be_fresh() {
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
    fn of_too_many_none_is_kept() {
        let mut changes = Changes::new(hasher());
        for key in 0..MAX_LINKS {
            assert!(changes.note(&key.to_le_bytes(), at(0)));
        }
        assert!(changes.note(&0_usize.to_le_bytes(), at(1)));
        assert!(!changes.note(b"one more", at(1)));
        assert!(changes.changed.is_empty());
    }
}
