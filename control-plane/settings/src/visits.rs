//! Visits of a link with a limit: leases to the workers of edges, and their return.
//!
//! A worker gets a block of visits for a short time. Its next request reports how many of them it has spent, which returns the
//! others. Blocks shrink towards the end: a block is the remainder, divided by twice the number of workers that asked recently.
//!
//! While every worker reports on its block, the limit is met exactly. A block without a report during its time and the grace
//! returns as a whole, so that no visit is lost, but not before its *worker* was silent for the grace, too: a live worker with
//! a backlog keeps what it has not reported yet. If a worker has crashed, or was cut off for that long, the visits that it has
//! spent of a block are served beyond the limit. So the overshoot is at most one block for each such worker. Late reports of a
//! worker that was cut off are counted.
//!
//! A lease needs the sums of the link ([`Ledger`]), the worker's own lease, and a few leases that may be due to return,
//! however many workers there are.

use crate::config::VisitsConfig;
use edgelink_wire::clicks::WorkerId;
use edgelink_wire::{VisitsAnswer, VisitsRequest};
use std::time::Duration;

/// Milliseconds before a worker asks again after it got none, while some are leased to others and may return.
const RETRY_MILLIS: u64 = 1_000;

/// Milliseconds before a worker asks again once the limit is reached. For a changed link it asks at once.
const REACHED_MILLIS: u64 = 60_000;

/// Milliseconds for which the last block of a worker is kept after its end.
pub const KEPT_MILLIS: u64 = 24 * 60 * 60 * 1_000;

/// Sums of the visits of a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    /// Used visits, excluding leased ones.
    pub used: u64,
    /// Leased visits.
    pub leased: u64,
    /// The workers that ask for visits.
    pub demand: Demand,
}

/// Workers that have asked for visits of a link in the current and in the previous period.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Demand {
    /// Start of the period, which is as long as the time of a block: unix time in milliseconds.
    pub since: u64,
    /// Workers that have asked since then.
    pub workers: u64,
    /// Workers that had asked in the previous period.
    pub before: u64,
}

/// The last block of a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VisitLease {
    /// Identity in the ledger: the worker's name, except for blocks of a link that has moved.
    pub worker: WorkerId,
    /// The worker whose reports keep the block from returning.
    pub holder: WorkerId,
    /// The number of its last request.
    pub number: u64,
    /// Outstanding visits; 0 once the block was settled or has returned.
    pub size: u64,
    /// Set once the worker has reported on it.
    pub is_settled: bool,
    /// Time until which they may be spent: unix time in milliseconds.
    pub until: u64,
    /// Time of the worker's last request: unix time in milliseconds, not before the start of the [`Demand`] in which it counts.
    pub asked_at: u64,
    /// Time from which it may return: unix time in milliseconds; `None` if nothing is outstanding.
    pub back_at: Option<u64>,
}

/// The error of a request that arrived after a later one of its worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a later request of the worker was answered")]
pub struct StaleRequest;

impl VisitLease {
    /// Creates the lease of a new worker.
    #[must_use]
    pub fn none(worker: WorkerId, holder: WorkerId) -> Self {
        Self {
            worker,
            holder,
            number: 0,
            size: 0,
            is_settled: true,
            until: 0,
            asked_at: 0,
            back_at: None,
        }
    }
}

impl Ledger {
    /// Answers the worker with the lease `mine` at `now`, unix milliseconds, where the link has `max` visits.
    ///
    /// # Errors
    /// [`StaleRequest`]; nothing is changed then.
    pub fn lease(
        &mut self,
        mine: &mut VisitLease,
        max: u64,
        request: &VisitsRequest,
        config: &VisitsConfig,
        now: u64,
    ) -> Result<VisitsAnswer, StaleRequest> {
        self.settle(mine, request)?;
        let (mut visits, mut lasts) = (0, millis(config.lease_ms));
        if request.wants {
            self.demand.note(mine, millis(config.lease_ms), now);
            // Without a size the response was lost.
            visits = match mine.size {
                0 => self.block(max, config),
                size => size,
            };
            if visits == 0 {
                lasts = if self.used >= max {
                    REACHED_MILLIS
                } else {
                    RETRY_MILLIS
                };
            }
        }
        self.leased = self.leased.saturating_sub(mine.size).saturating_add(visits);
        mine.size = visits;
        mine.is_settled = !request.wants;
        (mine.until, mine.back_at) = match visits {
            0 => (now, None),
            _ => {
                let until = now.saturating_add(lasts);
                (until, Some(until.saturating_add(millis(config.grace_ms))))
            }
        };
        Ok(VisitsAnswer {
            number: request.number,
            visits,
            millis: lasts,
        })
    }

    /// Takes one visit for a visitor of this process, where the link has `max`. True if there was one.
    pub fn take(&mut self, max: u64) -> bool {
        let has_one = self.left(max) > 0;
        self.used = self.used.saturating_add(u64::from(has_one));
        has_one
    }

    /// Takes a block back if there was no report on it for its time and the grace, and its worker, last heard at `heard_at`, is silent;
    /// otherwise postpones that. `None` for `heard_at` if the worker is known by its blocks only.
    pub fn take_back(
        &mut self,
        lease: &mut VisitLease,
        heard_at: Option<u64>,
        config: &VisitsConfig,
        now: u64,
    ) {
        let silent_from = heard_at.map_or(0, |heard_at| heard_at.saturating_add(silence(config)));
        let Some(back_at) = lease.back_at.filter(|back_at| *back_at < now) else {
            return;
        };
        if silent_from >= now {
            lease.back_at = Some(back_at.max(silent_from));
            return;
        }
        self.leased = self.leased.saturating_sub(lease.size);
        (lease.size, lease.back_at) = (0, None);
    }

    /// Settles the previous block by a request's report.
    fn settle(
        &mut self,
        mine: &mut VisitLease,
        request: &VisitsRequest,
    ) -> Result<(), StaleRequest> {
        if mine.number > request.number {
            return Err(StaleRequest);
        }
        if mine.number < request.number {
            let settled = request.settled.filter(|block| block.number == mine.number);
            if let Some(block) = settled.filter(|_| !mine.is_settled) {
                self.used = self.used.saturating_add(block.spent);
            }
            mine.number = request.number;
            self.leased = self.leased.saturating_sub(mine.size);
            mine.size = 0;
        }
        Ok(())
    }

    /// Visits that are neither used nor leased.
    fn left(&self, max: u64) -> u64 {
        max.saturating_sub(self.used.saturating_add(self.leased))
    }

    /// The size of the next block.
    fn block(&self, max: u64, config: &VisitsConfig) -> u64 {
        let workers = self.demand.workers.max(self.demand.before).max(1);
        let left = self.left(max);
        (left / workers.saturating_mul(2))
            .clamp(1, config.max_block)
            .min(left)
    }
}

impl Demand {
    /// Counts a request of the worker with that lease at `now`; a period lasts `lasts` milliseconds.
    fn note(&mut self, mine: &mut VisitLease, lasts: u64, now: u64) {
        let end = self.since.saturating_add(lasts);
        if now >= end {
            self.before = if now < end.saturating_add(lasts) {
                self.workers
            } else {
                0
            };
            (self.since, self.workers) = (now, 0);
        }
        if mine.asked_at < self.since {
            self.workers = self.workers.saturating_add(1);
        }
        mine.asked_at = now.max(self.since);
    }
}

/// Milliseconds without a record of a worker after which it counts as silent: the grace, plus the delay of recording its last report,
/// which is [`NOTED_SHARE`] of the grace, and half of that for writing it.
fn silence(config: &VisitsConfig) -> u64 {
    let grace = millis(config.grace_ms);
    grace.saturating_add(grace.div_ceil(2))
}

/// Part of the grace in which reports of a worker are recorded once.
pub const NOTED_SHARE: u32 = 4;

/// Milliseconds of `time`, at most [`u64::MAX`].
pub fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use edgelink_wire::visits::SettledBlock;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    const NOW: u64 = 1_000_000;

    /// A ledger with all of its leases, like a store.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    struct Books {
        ledger: Ledger,
        leases: BTreeMap<WorkerId, VisitLease>,
        heard_at: BTreeMap<WorkerId, u64>,
    }

    impl Books {
        fn take_back(&mut self, now: u64) {
            for lease in self.leases.values_mut() {
                let heard_at = self.heard_at.get(&lease.holder).copied();
                let config = VisitsConfig::default();
                self.ledger.take_back(lease, heard_at, &config, now);
            }
        }

        fn lease(
            &mut self,
            max: u64,
            request: &VisitsRequest,
            now: u64,
        ) -> Result<VisitsAnswer, StaleRequest> {
            self.take_back(now);
            let worker = request.worker;
            let mine = self.leases.entry(worker);
            let mine = mine.or_insert_with(|| VisitLease::none(worker, worker));
            let config = VisitsConfig::default();
            let answer = self.ledger.lease(mine, max, request, &config, now);
            let sizes: u64 = self.leases.values().map(|lease| lease.size).sum();
            assert_eq!(self.ledger.leased, sizes);
            answer
        }

        /// The visits that a request gets from 1,000.
        fn ask(&mut self, request: VisitsRequest, now: u64) -> u64 {
            self.lease(1_000, &request, now).unwrap().visits
        }

        fn sums(&self) -> (u64, u64) {
            (self.ledger.used, self.ledger.leased)
        }
    }

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

    #[test]
    fn block_when_workers_are_many_shrinks() {
        let mut books = Books::default();
        assert_eq!(books.ask(request(1, 1, None), NOW), 500);
        assert_eq!(books.ask(request(2, 1, None), NOW), 125);
        assert_eq!(books.ask(request(1, 2, Some((1, 500))), NOW), 93);
        assert_eq!(books.sums(), (500, 218));
        let later = NOW + 10_001;
        assert_eq!(books.ask(request(3, 1, None), later), 141, "alone");
    }

    #[test]
    fn worker_when_seen_again_in_a_stretch_counts_once() {
        let mut demand = Demand::default();
        let mut workers = [1, 2, 3].map(|worker| VisitLease::none([worker; 16], [worker; 16]));
        let seen = |demand: &Demand| (demand.workers, demand.before);
        for worker in workers
            .iter_mut()
            .chain(&mut [VisitLease::none([4; 16], [4; 16])])
        {
            demand.note(worker, 5_000, NOW);
        }
        demand.note(&mut workers[0], 5_000, NOW + 4_999);
        assert_eq!(seen(&demand), (4, 0));
        demand.note(&mut workers[0], 5_000, NOW + 5_000);
        assert_eq!(seen(&demand), (1, 4));
        // A clock that goes back counts no worker twice.
        for _ in 0..2 {
            demand.note(&mut workers[1], 5_000, NOW - 90_000);
        }
        assert_eq!(seen(&demand), (2, 4));
        demand.note(&mut workers[0], 5_000, NOW + 15_000);
        assert_eq!(seen(&demand), (1, 0));
    }

    #[test]
    fn block_when_limit_is_large_is_no_larger_than_allowed() {
        let mut books = Books::default();
        let answer = books.lease(1 << 40, &request(1, 1, None), NOW);
        let expected = VisitsAnswer {
            number: 1,
            visits: 1_000,
            millis: 5_000,
        };
        assert_eq!(answer, Ok(expected));
    }

    #[test]
    fn request_when_sent_again_gets_the_same_block() {
        let mut books = Books::default();
        books.ask(request(1, 1, None), NOW);
        let again = request(1, 2, Some((1, 7)));
        let size = books.ask(again, NOW);
        assert_eq!(books.ask(again, NOW + 1), size);
        assert_eq!(books.sums(), (7, size));
        let before = books.clone();
        let stale = books.lease(1_000, &request(1, 1, None), NOW);
        assert_eq!(stale, Err(StaleRequest));
        assert_eq!(books, before);
    }

    #[test]
    fn block_when_returned_is_for_others_and_counts_once() {
        let mut books = Books::default();
        books.ask(request(1, 1, None), NOW);
        for _ in 0..2 {
            assert_eq!(books.ask(returned(1, 2, (1, 7)), NOW), 0);
            assert_eq!(books.sums(), (7, 0));
        }
        books.ask(returned(1, 3, (1, 7)), NOW);
        assert_eq!(books.ledger.used, 7, "by another request");
    }

    #[test]
    fn worker_when_all_uses_are_leased_asks_again_soon() {
        let mut books = Books::default();
        let one = |books: &mut Books, worker, number, settled| {
            let answer = books.lease(1, &request(worker, number, settled), NOW);
            let answer = answer.unwrap();
            (answer.visits, answer.millis)
        };
        assert_eq!(one(&mut books, 1, 1, None), (1, 5_000));
        assert_eq!(one(&mut books, 2, 1, None), (0, 1_000));
        assert_eq!(one(&mut books, 1, 2, Some((1, 1))), (0, 60_000));
        assert_eq!(one(&mut books, 2, 2, None), (0, 60_000));
    }

    #[test]
    fn block_when_nothing_is_heard_of_it_comes_back() {
        let mut books = Books::default();
        assert_eq!(books.ask(request(1, 1, None), NOW), 500);
        let (kept, lost) = (NOW + 35_000, NOW + 35_001);
        assert_eq!(books.clone().ask(request(2, 1, None), kept), 250);
        assert_eq!(books.ask(request(2, 1, None), lost), 500);
        books.ask(returned(1, 2, (1, 300)), lost);
        assert_eq!(books.ledger.used, 300);
    }

    #[test]
    fn block_when_its_worker_is_heard_of_stays_out() {
        let mut books = Books::default();
        assert_eq!(books.ask(request(1, 1, None), NOW), 500);
        let hour = NOW + 3_600_000;
        books.heard_at.insert([1; 16], hour);
        assert_eq!(books.clone().ask(request(2, 1, None), hour + 45_000), 250);
        books.take_back(hour);
        assert_eq!(
            books.leases[&[1; 16]].back_at,
            Some(hour + 45_000),
            "put off"
        );
        assert_eq!(books.ask(request(2, 1, None), hour + 45_001), 500, "silent");
    }

    #[test]
    fn control_plane_when_uses_are_left_takes_single_ones() {
        let mut books = Books::default();
        let _one = books.lease(3, &request(1, 1, None), NOW);
        let taken = [(); 3].map(|()| books.ledger.take(3));
        assert_eq!(taken, [true, true, false]);
        assert_eq!(books.sums(), (2, 1));
    }

    #[test]
    fn limit_when_lowered_below_the_used_leaves_none() {
        let mut books = Books::default();
        books.ledger.used = 9;
        let answer = books.lease(5, &request(1, 1, None), NOW);
        assert_eq!(answer.unwrap().visits, 0);
    }

    proptest! {
        /// Workers that spend some of each block, lose responses, and return the rest. They may be late by hours, as long as they
        /// are heard within the grace.
        #[test]
        fn limit_when_no_worker_is_silent_is_met_exactly(
            max in 1u64..3_000,
            steps in proptest::collection::vec((0usize..5, 0u64..100, 0u8..10, 0u64..40_000), 0..300),
        ) {
            let mut books = Books::default();
            let mut workers = [(0u64, 0u64, 0u64); 5]; // number, of which block, visits in hand
            let (mut served, mut spent, mut now) = (0, [0u64; 5], NOW);
            let drain = (0..5).cycle().take(400).map(|worker| (worker, 100, 9, 1));
            for (step, (who, share, luck, pause)) in steps.into_iter().chain(drain).enumerate() {
                now += pause;
                let (number, block, in_hand) = &mut workers[who];
                let serves = (*in_hand * share).div_ceil(100).min(*in_hand);
                (served, spent[who], *in_hand) = (served + serves, spent[who] + serves, *in_hand - serves);
                *number = step as u64 + 1;
                let settled = (*block > 0).then_some((*block, spent[who]));
                let asked = request(who as u8, *number, settled);
                let mut answer = books.lease(max, &asked, now).unwrap();
                if luck == 0 {
                    answer = books.lease(max, &asked, now).unwrap();
                }
                (*block, *in_hand, spent[who]) = (*number, answer.visits, 0);
                // Each is heard before the next step, and recorded late by less than half of the grace.
                books.heard_at.extend((0..5).map(|worker| ([worker; 16], now.saturating_sub(4_999))));
                prop_assert!(books.ledger.used + books.ledger.leased <= max);
                prop_assert!(served <= max);
            }
            prop_assert_eq!(served, max);
        }
    }
}
