//! Keeps the bound ahead of the numbers issued (admission). Beats carry it to the edges.
//!
//! No number at or above the bound is ever issued, so an edge answers 404 for it without a lookup. A raised bound takes effect
//! only after a minute ([`edgelink_store::BOUND_LEAD_MILLIS`]), so there has to be room for numbers issued meanwhile.

use edgelink_model::drawn::Drawn;
use edgelink_numbers::{BoundPolicy, EVERY_NUMBER};
use edgelink_store::{BoundState, Store, StoreError};
use std::collections::VecDeque;
use std::time::Duration;
use tokio::time::Instant;

/// Window in which the pace of issuing is measured: the time that a bound takes to become effective.
const WINDOW: Duration = Duration::from_millis(edgelink_store::BOUND_LEAD_MILLIS);

/// Room ahead, as a multiple of the numbers issued in a [`WINDOW`].
const HEADROOM: u64 = 3;

/// Keeps the bound ahead.
pub(super) struct BoundKeeper {
    policy: BoundPolicy,
    /// Allocated numbers at times within the last window.
    samples: VecDeque<(Instant, u64)>,
    /// The generation in which numbers were skipped before the first sample.
    skipped_in: u64,
    /// Extent of drawn numbers over all reads.
    drawn: Drawn,
}

impl BoundKeeper {
    pub(super) fn new(policy: BoundPolicy) -> Self {
        Self {
            policy,
            samples: VecDeque::new(),
            skipped_in: 0,
            drawn: Drawn::default(),
        }
    }

    /// Extent of drawn numbers known to this process.
    pub(super) fn drawn(&self) -> Drawn {
        self.drawn
    }

    /// Merges the extent recorded elsewhere.
    pub(super) fn note(&mut self, drawn: Drawn) {
        self.drawn.join(drawn);
    }

    /// The bound for the next beat, raised if that is due.
    pub(super) async fn current(&mut self, store: &Store) -> Result<BoundState, StoreError> {
        let mut state = store.bound_state().await?;
        self.note(state.drawn);
        self.skipped(store.skipped_in());
        if let Some(bound) = self.raised(&state) {
            store.add_bound(bound).await?;
            tracing::info!(bound, allocated = state.drawn.allocated, "raised the bound");
            state.bound = bound;
            state.is_published = false;
        }
        Ok(state)
    }

    /// Drops the samples after a skip: skipped numbers were not issued, and do not count towards the pace.
    fn skipped(&mut self, skipped_in: u64) {
        if std::mem::replace(&mut self.skipped_in, skipped_in) != skipped_in {
            self.samples.clear();
        }
    }

    fn raised(&mut self, state: &BoundState) -> Option<u64> {
        let room = match self.policy {
            BoundPolicy::Ahead(room) => room
                .max(state.drawn.allocated / 10)
                .max(self.pace(state.drawn.allocated)),
            // The database stores signed 64-bit numbers.
            BoundPolicy::Everything => return (state.bound < EVERY_NUMBER).then_some(EVERY_NUMBER),
        };
        // A little more than needed, so that it is not raised with every number.
        let needed = state.drawn.allocated.saturating_add(room);
        (state.bound < needed).then(|| needed.saturating_add(room / 8).min(EVERY_NUMBER))
    }

    /// Room required by the pace of issuing.
    fn pace(&mut self, allocated: u64) -> u64 {
        let now = Instant::now();
        self.samples.push_back((now, allocated));
        self.samples.retain(|(at, _)| *at + WINDOW >= now);
        let before = self.samples.front();
        let before = before.map_or(allocated, |(_, before)| *before);
        allocated.saturating_sub(before).saturating_mul(HEADROOM)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(allocated: u64, bound: u64) -> BoundState {
        BoundState {
            drawn: Drawn {
                allocated,
                ..Drawn::default()
            },
            bound,
            is_published: true,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn bound_when_less_than_the_room_is_left_is_raised() {
        let mut keeper = BoundKeeper::new(BoundPolicy::Ahead(80));
        assert_eq!(keeper.raised(&state(0, 80)), None);
        assert_eq!(keeper.raised(&state(1, 80)), Some(1 + 80 + 10));
        tokio::time::advance(WINDOW * 2).await;
        // A tenth of what is allocated.
        assert_eq!(keeper.raised(&state(10_000, 11_000)), None);
        tokio::time::advance(WINDOW * 2).await;
        assert_eq!(keeper.raised(&state(10_000, 10_999)), Some(11_125));
    }

    #[tokio::test(start_paused = true)]
    async fn bound_when_issuing_is_fast_keeps_more_room() {
        let mut keeper = BoundKeeper::new(BoundPolicy::Ahead(10));
        assert_eq!(keeper.raised(&state(0, 4000)), None);
        tokio::time::advance(Duration::from_secs(30)).await;
        // 1,000 in half a window: there have to be 3,000 ahead.
        assert_eq!(keeper.raised(&state(1000, 3999)), Some(4000 + 375));
        tokio::time::advance(WINDOW * 2).await;
        assert_eq!(keeper.raised(&state(1000, 1200)), None);
    }

    #[tokio::test(start_paused = true)]
    async fn number_when_skipped_counts_as_no_pace() {
        let mut keeper = BoundKeeper::new(BoundPolicy::Ahead(10_000));
        assert_eq!(keeper.raised(&state(0, 12_000)), None);
        for (skipped_in, allocated) in [(7, 6000), (8, 9000)] {
            tokio::time::advance(Duration::from_secs(10)).await;
            keeper.skipped(skipped_in);
            let raised = keeper.raised(&state(allocated, 12_000));
            assert_eq!(raised, Some(allocated + 11_250));
        }
    }

    #[test]
    fn bound_when_any_number_may_be_issued_is_lifted() {
        let mut keeper = BoundKeeper::new(BoundPolicy::Everything);
        assert_eq!(keeper.raised(&state(0, 80)), Some(EVERY_NUMBER));
        assert_eq!(keeper.raised(&state(0, EVERY_NUMBER)), None);
    }
}
