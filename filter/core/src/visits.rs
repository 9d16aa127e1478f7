//! Visits of limited links: the blocks that this worker has leased.
//!
//! They are kept apart from the caches, so that a record evicted from the LRU takes no visits with it. The spent visits of a
//! block are reported to the control plane with the next request for the link, or by a return once the block is used up or has
//! expired; this returns the rest. A request that failed keeps its number until it is answered or ended by a return, so that a
//! block whose answer was lost is obtained again.
//!
//! A block, and a request without an answer, are obligations, and stay until they are reported. The knowledge that a link has no
//! visits left only spares a request, and is evicted in their favor, the oldest first.

use crate::time::Moment;
use edgelink_wire::clicks::WorkerId;
use edgelink_wire::visits::SettledBlock;
use edgelink_wire::visits::{MAX_RETURNS, ReturnOutcome};
use edgelink_wire::{VisitsAnswer, VisitsRequest};
use foldhash::fast::SeedableRandomState;
use hashbrown::HashMap;
use std::cmp::Reverse;
use std::collections::VecDeque;
use std::sync::Arc;

/// Pause before the return of a block that the control plane could not take is retried, in milliseconds.
const RETURN_PAUSE_MILLIS: u64 = 1_000;

/// Number of consecutive timeouts that make a link rest: the cause is likely the link's own.
const TIMEOUTS_TO_REST: u32 = 2;

/// The blocks of a worker, bounded in links.
#[derive(Debug)]
pub(crate) struct Leases {
    worker: WorkerId,
    blocks: HashMap<Arc<[u8]>, Block, SeedableRandomState>,
    max_links: usize,
    /// The number of the last request.
    number: u64,
    /// Links whose blocks were due for return at the last tick, the most urgent last.
    due: Vec<Arc<[u8]>>,
    /// Links without visits left, the oldest first, and stale entries of links that are gone.
    used_up: VecDeque<Arc<[u8]>>,
    /// True if there was something to report at the last tick.
    holds_blocks: bool,
    /// True if no visitors come any more: all blocks are due for return.
    is_retired: bool,
}

/// The worker's state of a link's visits.
#[derive(Debug)]
struct Block {
    /// The revision of the link in the request.
    rev: u64,
    /// The number of the answered request; 0 if there is nothing to report.
    number: u64,
    left: u64,
    spent: u64,
    /// End of the lease, or of the period without requests because no visits are left.
    until: Moment,
    /// True if the answer was that none are left.
    is_used_up: bool,
    /// True if the link is in [`Leases::used_up`].
    is_listed: bool,
    /// True while a return of it is in flight.
    is_returning: bool,
    /// Earliest time of its return.
    return_after: Moment,
    /// Consecutive timeouts of requests.
    timeouts: u32,
    /// Earliest time of the next request after too many timeouts.
    rests_until: Moment,
    /// The unanswered request.
    asked: Option<PendingUse>,
}

#[derive(Debug)]
struct PendingUse {
    number: u64,
    /// The record of the link, for its waiters.
    record: Arc<[u8]>,
    is_under_way: bool,
}

/// A return in flight.
#[derive(Debug)]
pub(crate) struct Returning {
    pub(crate) key: Arc<[u8]>,
    pub(crate) request: VisitsRequest,
    /// The number of the block.
    number: u64,
}

/// Result of taking a use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UseOutcome {
    /// A visit was spent.
    Taken,
    /// None are left.
    UsedUp,
    /// The control plane has to be asked.
    Ask,
    /// The worker holds blocks of too many links.
    Full,
}

/// A record for the waiters of an answer.
#[derive(Debug)]
pub(crate) struct AskedRecord {
    pub(crate) record: Arc<[u8]>,
    pub(crate) rev: u64,
}

impl Leases {
    /// No blocks yet, for at most `max_links` links.
    pub(crate) fn new(worker: WorkerId, max_links: usize, hasher: SeedableRandomState) -> Self {
        Self {
            worker,
            blocks: HashMap::with_hasher(hasher),
            max_links,
            number: 0,
            due: Vec::new(),
            used_up: VecDeque::new(),
            holds_blocks: false,
            is_retired: false,
        }
    }

    /// No visitors come any more: all blocks are returned with the next ticks.
    pub(crate) fn retire(&mut self) {
        self.is_retired = true;
    }

    /// Changes the bound, for further links.
    pub(crate) fn set_max_links(&mut self, max_links: usize) {
        self.max_links = max_links;
    }

    /// Takes a visit of a link whose record has the revision `rev`, if one is left.
    pub(crate) fn visit(&mut self, key: &[u8], rev: u64, now: Moment) -> UseOutcome {
        let Some(block) = self.blocks.get_mut(key) else {
            return if self.blocks.len() < self.max_links || self.forget_used_up() {
                UseOutcome::Ask
            } else {
                UseOutcome::Full
            };
        };
        if block.asked.is_some() || rev > block.rev || now >= block.until {
            return UseOutcome::Ask;
        }
        if block.is_used_up {
            return UseOutcome::UsedUp;
        }
        if block.left == 0 {
            return UseOutcome::Ask;
        }
        block.left -= 1;
        block.spent += 1;
        UseOutcome::Taken
    }

    /// Forgets the link that has been known the longest to have no visits left. Returns `false` if there is none.
    fn forget_used_up(&mut self) -> bool {
        while let Some(key) = self.used_up.pop_front() {
            let Some(block) = self.blocks.get_mut(&key) else {
                continue;
            };
            block.is_listed = false;
            if block.is_used_up && block.is_told() {
                self.blocks.remove(&key);
                return true;
            }
        }
        false
    }

    /// True if visits of a link may be requested: no requests for it have timed out recently.
    pub(crate) fn may_ask(&self, key: &[u8], now: Moment) -> bool {
        let block = self.blocks.get(key);
        block.is_none_or(|block| block.timeouts < TIMEOUTS_TO_REST || now >= block.rests_until)
    }

    /// True if there is something to report, or was at the last tick.
    pub(crate) fn holds_blocks(&self) -> bool {
        self.holds_blocks
    }

    /// True if no visit is known to be left.
    pub(crate) fn is_used_up(&self, key: &[u8], rev: u64, now: Moment) -> bool {
        let block = self.blocks.get(key);
        block.is_some_and(|block| block.is_used_up && rev <= block.rev && now < block.until)
    }

    /// Gives back the visit of a visitor who has left before the answer.
    pub(crate) fn give_back(&mut self, key: &[u8]) {
        let block = self.blocks.get_mut(key);
        if let Some(block) = block.filter(|block| block.spent > 0) {
            block.spent -= 1;
            block.left += 1;
        }
    }

    /// Creates a request for a block, to be sent now; an unanswered one is repeated under its number.
    pub(crate) fn ask(
        &mut self,
        key: &Arc<[u8]>,
        asked: AskedRecord,
        now: Moment,
    ) -> VisitsRequest {
        let AskedRecord { record, rev } = asked;
        let block = self.blocks.entry(Arc::clone(key)).or_insert(Block {
            rev,
            number: 0,
            left: 0,
            spent: 0,
            until: now,
            is_used_up: false,
            is_listed: false,
            is_returning: false,
            return_after: now,
            timeouts: 0,
            rests_until: now,
            asked: None,
        });
        self.holds_blocks = true;
        block.rev = block.rev.max(rev);
        block.left = 0;
        let number = match &block.asked {
            Some(asked) => asked.number,
            None => {
                self.number += 1;
                self.number
            }
        };
        block.asked = Some(PendingUse {
            number,
            record,
            is_under_way: true,
        });
        VisitsRequest {
            worker: self.worker,
            number,
            settled: block.settled(),
            wants: true,
        }
    }

    /// The record of the request in flight for a link, to repeat it.
    pub(crate) fn asked(&self, key: &[u8]) -> Option<AskedRecord> {
        let block = self.blocks.get(key)?;
        let record = Arc::clone(&block.asked.as_ref()?.record);
        let rev = block.rev;
        Some(AskedRecord { record, rev })
    }

    /// Applies the answer to a request that was sent at `sent`. Returns the record for its waiters; `None` if the answer is
    /// useless: it is for another request, or came so late that the block may be leased to others.
    pub(crate) fn on_answer(
        &mut self,
        key: &[u8],
        answer: VisitsAnswer,
        sent: Moment,
        now: Moment,
    ) -> Option<AskedRecord> {
        let block = self.blocks.get_mut(key)?;
        let is_asked = |asked: &mut PendingUse| asked.number == answer.number;
        let asked = block.asked.take_if(is_asked)?;
        block.number = answer.number;
        block.spent = 0;
        block.timeouts = 0;
        block.left = answer.visits;
        block.is_used_up = answer.visits == 0;
        if block.is_used_up {
            // There is nothing to report.
            block.number = 0;
            block.until = now.after(answer.millis);
            if !std::mem::replace(&mut block.is_listed, true) {
                self.used_up.push_back(Arc::from(key));
            }
        } else {
            block.until = sent.after(answer.millis);
        }
        let (record, rev) = (asked.record, block.rev);
        (now < block.until).then_some(AskedRecord { record, rev })
    }

    /// A request has failed. It is retried with the next visit, or replaced by a return.
    pub(crate) fn on_failure(&mut self, key: &[u8], is_stale: bool) {
        let Some(block) = self.blocks.get_mut(key) else {
            return;
        };
        if is_stale {
            block.asked = None;
        } else if let Some(asked) = &mut block.asked {
            asked.is_under_way = false;
        }
    }

    /// A request has timed out; after several in a row the link rests until `rests_until`. Returns `true` for the first in a row:
    /// further ones imply nothing about other links.
    pub(crate) fn on_timeout(&mut self, key: &[u8], rests_until: Moment) -> bool {
        let Some(block) = self.blocks.get_mut(key) else {
            return true;
        };
        block.timeouts = block.timeouts.saturating_add(1);
        block.rests_until = rests_until;
        block.timeouts == 1
    }

    /// Time has passed: forgets links without anything to report, and finds blocks that are due for return.
    pub(crate) fn on_tick(&mut self, now: Moment) {
        self.holds_blocks = false;
        if self.blocks.is_empty() {
            return;
        }
        let before = self.blocks.len();
        self.blocks.retain(|_, block| !block.is_idle(now));
        if self.blocks.len() < before {
            let blocks = &self.blocks;
            self.used_up.retain(|key| blocks.contains_key(key));
        }
        self.holds_blocks = self.blocks.values().any(|block| !block.is_told());
        if self.due.len() < MAX_RETURNS {
            self.due.clear();
            let is_due = |block: &Block| block.is_due(now, self.is_retired);
            let due = self.blocks.iter().filter(|(_, block)| is_due(block));
            let mut due: Vec<_> = due.map(|(key, block)| (block.until, key)).collect();
            due.sort_unstable_by_key(|(until, _)| Reverse(*until));
            self.due
                .extend(due.into_iter().map(|(_, key)| Arc::clone(key)));
        }
    }

    /// The next returns, at most `most`, in the order in which their blocks expire.
    pub(crate) fn next_returns(&mut self, most: usize, now: Moment) -> Vec<Returning> {
        let mut returns = Vec::new();
        while returns.len() < most
            && let Some(key) = self.due.pop()
        {
            let block = self.blocks.get_mut(&key);
            let is_retired = self.is_retired;
            let Some(block) = block.filter(|block| block.is_due(now, is_retired)) else {
                continue;
            };
            self.number += 1;
            block.asked = None;
            block.left = 0;
            block.is_returning = true;
            let request = VisitsRequest {
                worker: self.worker,
                number: self.number,
                settled: block.settled(),
                wants: false,
            };
            let number = block.number;
            returns.push(Returning {
                key,
                request,
                number,
            });
        }
        returns
    }

    /// A return was settled, directly or by a later request, or has to be retried later.
    pub(crate) fn on_returned(
        &mut self,
        returning: &Returning,
        outcome: ReturnOutcome,
        now: Moment,
    ) {
        let Some(block) = self.blocks.get_mut(&returning.key) else {
            return;
        };
        block.is_returning = false;
        match outcome {
            // A request that has been sent meanwhile reports it once more, which does no harm.
            ReturnOutcome::Settled if block.number == returning.number => {
                block.number = 0;
                block.spent = 0;
            }
            ReturnOutcome::Settled => {}
            ReturnOutcome::Later => block.return_after = now.after(RETURN_PAUSE_MILLIS),
        }
    }

    /// The outcome of a return is unknown.
    pub(crate) fn on_return_failed(&mut self, returning: &Returning) {
        if let Some(block) = self.blocks.get_mut(&returning.key) {
            block.is_returning = false;
        }
    }

    /// Number of links with state.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.blocks.len()
    }
}

impl Block {
    /// The spent visits to report.
    fn settled(&self) -> Option<SettledBlock> {
        let (number, spent) = (self.number, self.spent);
        (number > 0).then_some(SettledBlock { number, spent })
    }

    /// True if it is due for return: used up, expired, of a worker that is retired, or requested without receiving the answer.
    fn is_due(&self, now: Moment, is_retired: bool) -> bool {
        if self.is_returning || now < self.return_after {
            return false;
        }
        match &self.asked {
            Some(asked) => !asked.is_under_way,
            None => self.number > 0 && (self.left == 0 || now >= self.until || is_retired),
        }
    }

    /// True if there is nothing to report.
    fn is_told(&self) -> bool {
        self.asked.is_none() && self.number == 0 && !self.is_returning
    }

    /// True if it may be forgotten.
    fn is_idle(&self, now: Moment) -> bool {
        self.is_told() && (now >= self.until || !self.is_used_up)
    }
}
