//! The numbers that aliases of generated shape have.

use crate::store::BOUND_LEAD_MS;
use edgelink_wire::{AliasFilter, RecordError};
use std::collections::{HashSet, VecDeque};
use std::time::Duration;
use tokio::time::Instant;

/// A number that was issued was below a bound that had been published for that long.
const LEAD: Duration = Duration::from_millis(BOUND_LEAD_MS);

/// Numbers of aliases.
#[derive(Default)]
pub(super) struct Aliases {
    numbers: HashSet<u64>,
    /// Bounds and when they came, the oldest first; the first is in force for longer than [`LEAD`], once there are two.
    bounds: VecDeque<(Instant, u64)>,
}

impl Aliases {
    /// Notes the number of a code that was created, which is that of an alias where it cannot have been issued.
    pub(super) fn note(&mut self, number: u64) {
        let settled = self.bounds.front().map_or(0, |(_, bound)| *bound);
        if number >= settled {
            self.numbers.insert(number);
        }
    }

    /// Notes the number of an alias.
    pub(super) fn insert(&mut self, number: u64) {
        self.numbers.insert(number);
    }

    /// Notes a bound that was published.
    pub(super) fn note_bound(&mut self, bound: u64) {
        let now = Instant::now();
        if self.bounds.back().is_none_or(|(_, last)| *last != bound) {
            self.bounds.push_back((now, bound));
        }
        while self.bounds.get(1).is_some_and(|(at, _)| *at + LEAD <= now) {
            self.bounds.pop_front();
        }
    }

    /// The filter for the edges, with room for half as many again.
    pub(super) fn to_filter(&self) -> Result<AliasFilter, RecordError> {
        let count = self.numbers.len();
        let mut filter = AliasFilter::with_capacity(count + count / 2)?;
        for number in &self.numbers {
            filter.insert(*number);
        }
        Ok(filter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn numbers_that_may_have_been_issued_are_not_those_of_aliases() {
        let mut aliases = Aliases::default();
        aliases.note_bound(100);
        aliases.note(99);
        aliases.note(100);
        assert_eq!(aliases.numbers, HashSet::from([100]));
        aliases.note_bound(200);
        // Nothing from 100 on is issued before the edges know the new bound, so this is an alias.
        aliases.note(150);
        assert!(aliases.numbers.contains(&150));
        tokio::time::advance(LEAD).await;
        aliases.note_bound(200);
        aliases.note(160);
        assert!(!aliases.numbers.contains(&160));
    }
}
