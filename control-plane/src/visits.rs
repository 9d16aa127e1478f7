//! Visits of a link that has a limit: how they are leased to the workers of edges, and what comes back.
//!
//! A worker gets a block of visits for a short time. Its next request says how many of them it has spent; the others come back
//! by that. Blocks shrink towards the end: a block is what is left, divided by twice the number of workers that asked lately.
//!
//! While every worker says what became of its block, the visits served are the limit, and no more. A block of which nothing is
//! heard for its time and the grace comes back as a whole, so that no visit is lost: if its worker has crashed, or was cut off
//! for that long, what it has spent of that block is served beyond the limit. So the overshoot is at most one block for each
//! such worker. What a worker that was cut off says later is counted.

use crate::config::VisitsConfig;
use edgelink_wire::clicks::WorkerId;
use edgelink_wire::{VisitsAnswer, VisitsRequest};
use std::time::Duration;

/// How long a worker does not ask again after it was told that none are left, in milliseconds, while some are leased to others
/// and may come back.
const RETRY_MILLIS: u64 = 1_000;

/// The same once the limit is reached. A changed link is asked for at once.
const REACHED_MILLIS: u64 = 60_000;

/// How long the last block of a worker is remembered after its end, in milliseconds.
pub(crate) const KEPT_MILLIS: u64 = 24 * 60 * 60 * 1_000;

/// The visits of a link.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    /// Visits that were used, without those that are leased.
    pub used: u64,
    /// The last block of each worker.
    pub leases: Vec<VisitLease>,
}

/// The last block of a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VisitLease {
    /// The worker.
    pub worker: WorkerId,
    /// The number of its last request.
    pub number: u64,
    /// Visits that are out; 0 once it was settled or has come back.
    pub size: u64,
    /// Whether the worker has said what became of it.
    pub is_settled: bool,
    /// Until when they may be spent: unix time in milliseconds.
    pub until: u64,
}

/// A request that came after a later one of the same worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a later request of the worker was answered")]
pub struct StaleRequest;

impl Ledger {
    /// Visits that are leased.
    #[must_use]
    pub fn leased(&self) -> u64 {
        let sizes = self.leases.iter().map(|lease| lease.size);
        sizes.fold(0, u64::saturating_add)
    }

    /// Answers a worker at `now`, unix milliseconds, where the link has `max` visits.
    ///
    /// # Errors
    /// [`StaleRequest`]; nothing is changed then.
    pub fn lease(
        &mut self,
        max: u64,
        request: &VisitsRequest,
        config: &VisitsConfig,
        now: u64,
    ) -> Result<VisitsAnswer, StaleRequest> {
        let mine = self.settle(request, now)?;
        self.take_back(config, now);
        let (mut visits, mut lasts) = (0, millis(config.lease_ms));
        if request.wants {
            visits = match self.leases.get(mine) {
                // The answer was lost on its way.
                Some(lease) if lease.size > 0 => lease.size,
                _ => self.block(max, mine, config, now),
            };
            if visits == 0 {
                lasts = match self.used >= max {
                    true => REACHED_MILLIS,
                    false => RETRY_MILLIS,
                };
            }
        }
        if let Some(lease) = self.leases.get_mut(mine) {
            lease.size = visits;
            lease.is_settled = !request.wants;
            lease.until = match visits {
                0 => now,
                _ => now.saturating_add(lasts),
            };
        }
        Ok(VisitsAnswer {
            number: request.number,
            visits,
            millis: lasts,
        })
    }

    /// Takes one visit for a visitor of this process, where the link has `max`. Whether there was one.
    pub fn take(&mut self, max: u64, config: &VisitsConfig, now: u64) -> bool {
        self.take_back(config, now);
        let has_one = self.left(max) > 0;
        self.used = self.used.saturating_add(u64::from(has_one));
        has_one
    }

    /// Notes what a request says of the block before it; the place of the worker's lease.
    fn settle(&mut self, request: &VisitsRequest, now: u64) -> Result<usize, StaleRequest> {
        let is_mine = |lease: &VisitLease| lease.worker == request.worker;
        let place = self.leases.iter().position(is_mine);
        let place = place.unwrap_or_else(|| {
            self.leases.push(VisitLease {
                worker: request.worker,
                number: 0,
                size: 0,
                is_settled: true,
                until: now,
            });
            self.leases.len() - 1
        });
        let Some(lease) = self.leases.get_mut(place) else {
            return Err(StaleRequest);
        };
        if lease.number > request.number {
            return Err(StaleRequest);
        }
        if lease.number < request.number {
            let settled = request.settled.filter(|block| block.number == lease.number);
            if let Some(block) = settled.filter(|_| !lease.is_settled) {
                self.used = self.used.saturating_add(block.spent);
            }
            lease.number = request.number;
            lease.size = 0;
        }
        Ok(place)
    }

    /// Takes blocks back of which nothing was heard for their time and the grace.
    fn take_back(&mut self, config: &VisitsConfig, now: u64) {
        let grace = millis(config.grace_ms);
        for lease in &mut self.leases {
            if lease.until.saturating_add(grace) < now {
                lease.size = 0;
            }
        }
    }

    /// Visits that are neither used nor leased.
    fn left(&self, max: u64) -> u64 {
        max.saturating_sub(self.used.saturating_add(self.leased()))
    }

    /// The size of the next block for the worker whose lease is at that place.
    fn block(&self, max: u64, mine: usize, config: &VisitsConfig, now: u64) -> u64 {
        let lately = millis(config.lease_ms);
        let others = self.leases.iter().enumerate();
        let others = others
            .filter(|(place, lease)| *place != mine && lease.until.saturating_add(lately) >= now);
        let workers = others.count() as u64 + 1;
        let left = self.left(max);
        (left / (2 * workers)).clamp(1, config.max_block).min(left)
    }

    /// Removes the leases that ended so long ago that nothing more is expected of their workers, and returns these.
    pub fn forget_old(&mut self, now: u64) -> Vec<WorkerId> {
        let is_old = |lease: &VisitLease| lease.until.saturating_add(KEPT_MILLIS) < now;
        let old = self.leases.iter().filter(|lease| is_old(lease));
        let old = old.map(|lease| lease.worker).collect();
        self.leases.retain(|lease| !is_old(lease));
        old
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use edgelink_wire::visits::SettledBlock;
    use proptest::prelude::*;

    const NOW: u64 = 1_000_000;

    fn request(worker: u8, number: u64, settled: Option<(u64, u64)>) -> VisitsRequest {
        VisitsRequest {
            worker: [worker; 16],
            number,
            settled: settled.map(|(number, spent)| SettledBlock { number, spent }),
            wants: true,
        }
    }

    fn returned(worker: u8, number: u64, settled: (u64, u64)) -> VisitsRequest {
        VisitsRequest {
            wants: false,
            ..request(worker, number, Some(settled))
        }
    }

    /// How many visits a request gets of 1,000.
    fn ask(ledger: &mut Ledger, request: VisitsRequest, now: u64) -> u64 {
        let answer = ledger.lease(1_000, &request, &VisitsConfig::default(), now);
        answer.unwrap().visits
    }

    #[test]
    fn blocks_are_shared_among_workers_and_shrink() {
        let mut ledger = Ledger::default();
        assert_eq!(ask(&mut ledger, request(1, 1, None), NOW), 500);
        assert_eq!(ask(&mut ledger, request(2, 1, None), NOW), 125);
        assert_eq!(ask(&mut ledger, request(1, 2, Some((1, 500))), NOW), 93);
        assert_eq!((ledger.used, ledger.leased()), (500, 218));
        let later = NOW + 10_001;
        assert_eq!(ask(&mut ledger, request(3, 1, None), later), 141, "alone");
    }

    #[test]
    fn a_block_is_no_larger_than_allowed() {
        let mut ledger = Ledger::default();
        let answer = ledger.lease(1 << 40, &request(1, 1, None), &VisitsConfig::default(), NOW);
        let expected = VisitsAnswer {
            number: 1,
            visits: 1_000,
            millis: 5_000,
        };
        assert_eq!(answer, Ok(expected));
    }

    #[test]
    fn a_request_that_is_sent_again_gets_the_same_block_and_settles_once() {
        let mut ledger = Ledger::default();
        ask(&mut ledger, request(1, 1, None), NOW);
        let again = request(1, 2, Some((1, 7)));
        let size = ask(&mut ledger, again, NOW);
        assert_eq!(ask(&mut ledger, again, NOW + 1), size);
        assert_eq!((ledger.used, ledger.leased()), (7, size));
        let before = ledger.clone();
        let stale = ledger.lease(1_000, &request(1, 1, None), &VisitsConfig::default(), NOW);
        assert_eq!(stale, Err(StaleRequest));
        assert_eq!(ledger, before);
    }

    #[test]
    fn what_is_returned_is_there_for_others_and_counts_once() {
        let mut ledger = Ledger::default();
        ask(&mut ledger, request(1, 1, None), NOW);
        for _ in 0..2 {
            assert_eq!(ask(&mut ledger, returned(1, 2, (1, 7)), NOW), 0);
            assert_eq!((ledger.used, ledger.leased()), (7, 0));
        }
        ask(&mut ledger, returned(1, 3, (1, 7)), NOW);
        assert_eq!(ledger.used, 7, "by another request");
    }

    #[test]
    fn none_are_left_while_they_are_leased_and_the_worker_asks_again_soon() {
        let mut ledger = Ledger::default();
        let one = |ledger: &mut Ledger, worker, number, settled| {
            let request = request(worker, number, settled);
            let answer = ledger.lease(1, &request, &VisitsConfig::default(), NOW);
            let answer = answer.unwrap();
            (answer.visits, answer.millis)
        };
        assert_eq!(one(&mut ledger, 1, 1, None), (1, 5_000));
        assert_eq!(one(&mut ledger, 2, 1, None), (0, 1_000));
        assert_eq!(one(&mut ledger, 1, 2, Some((1, 1))), (0, 60_000));
        assert_eq!(one(&mut ledger, 2, 2, None), (0, 60_000));
    }

    #[test]
    fn a_block_of_which_nothing_is_heard_comes_back_and_what_is_heard_later_counts() {
        let mut ledger = Ledger::default();
        assert_eq!(ask(&mut ledger, request(1, 1, None), NOW), 500);
        let (kept, lost) = (NOW + 35_000, NOW + 35_001);
        assert_eq!(ask(&mut ledger.clone(), request(2, 1, None), kept), 250);
        assert_eq!(ask(&mut ledger, request(2, 1, None), lost), 500);
        ask(&mut ledger, returned(1, 2, (1, 300)), lost);
        assert_eq!(ledger.used, 300);
        let day = 24 * 60 * 60 * 1_000;
        assert!(ledger.forget_old(lost + day).is_empty());
        assert_eq!(ledger.forget_old(lost + day + 1), [[1; 16]]);
    }

    #[test]
    fn the_control_plane_takes_single_visits_of_what_is_left() {
        let mut ledger = Ledger::default();
        let config = VisitsConfig::default();
        let _one = ledger.lease(3, &request(1, 1, None), &config, NOW);
        let taken = [(); 3].map(|()| ledger.take(3, &config, NOW));
        assert_eq!(taken, [true, true, false]);
        assert_eq!((ledger.used, ledger.leased()), (2, 1));
    }

    #[test]
    fn a_limit_that_was_lowered_below_what_is_used_leaves_none() {
        let mut ledger = Ledger {
            used: 9,
            leases: Vec::new(),
        };
        let answer = ledger.lease(5, &request(1, 1, None), &VisitsConfig::default(), NOW);
        assert_eq!(answer.unwrap().visits, 0);
    }

    proptest! {
        /// Workers that spend some of each block, lose answers, and return what is left.
        #[test]
        fn without_a_crash_the_limit_is_met_exactly(
            max in 1u64..3_000,
            steps in proptest::collection::vec((0usize..5, 0u64..100, 0u8..10), 0..300),
        ) {
            let config = VisitsConfig::default();
            let mut ledger = Ledger::default();
            let mut workers = [(0u64, 0u64, 0u64); 5]; // number, of which block, visits in hand
            let (mut served, mut spent, mut now) = (0, [0u64; 5], NOW);
            let drain = (0..5).cycle().take(400).map(|worker| (worker, 100, 9));
            for (step, (who, share, luck)) in steps.into_iter().chain(drain).enumerate() {
                now += 1;
                let (number, block, in_hand) = &mut workers[who];
                let serves = (*in_hand * share).div_ceil(100).min(*in_hand);
                (served, spent[who], *in_hand) = (served + serves, spent[who] + serves, *in_hand - serves);
                *number = step as u64 + 1;
                let settled = (*block > 0).then_some((*block, spent[who]));
                let asked = request(who as u8, *number, settled);
                let mut answer = ledger.lease(max, &asked, &config, now).unwrap();
                if luck == 0 {
                    answer = ledger.lease(max, &asked, &config, now).unwrap();
                }
                (*block, *in_hand, spent[who]) = (*number, answer.visits, 0);
                prop_assert!(ledger.used + ledger.leased() <= max);
                prop_assert!(served <= max);
            }
            prop_assert_eq!(served, max);
        }
    }
}
