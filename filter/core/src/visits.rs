//! Visits of links that have a limit: the blocks that this worker has leased.
//!
//! They are kept apart from the caches, so that a record that leaves the LRU takes no visits with it. What is spent of a block
//! is told to the control plane with the next request for the link, or by a return once the block is used up or its time is
//! over; what is left comes back by that. A request that failed keeps its number until it is answered or a return makes an
//! end of it, so that a block whose answer was lost is got again.
//!
//! A block, and a request without an answer, are obligations, and stay until they are told. That a link has no visits left is
//! knowledge that spares a request, and gives way to them, the oldest first.

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

/// The pause before a block is returned again that the control plane could not take, in milliseconds.
const RETURN_PAUSE_MILLIS: u64 = 1_000;

/// The number of timeouts in a row that make a link rest: what holds it up is likely to be its own.
const TIMEOUTS_TO_REST: u32 = 2;

/// The blocks of a worker, bounded in links.
#[derive(Debug)]
pub(crate) struct Leases {
    worker: WorkerId,
    blocks: HashMap<Arc<[u8]>, Block, SeedableRandomState>,
    max_links: usize,
    /// The number of the last request.
    number: u64,
    /// The links whose blocks were to be returned at the last tick, the most urgent last.
    due: Vec<Arc<[u8]>>,
    /// The links of which it is known that none are left, the oldest first, and others that are gone by now.
    used_up: VecDeque<Arc<[u8]>>,
    /// True if there was something to tell at the last tick.
    holds_blocks: bool,
}

/// What the worker has of a link's visits.
#[derive(Debug)]
struct Block {
    /// The revision of the link for which it was asked.
    rev: u64,
    /// The number of the request that it was the answer to; 0 if there is nothing to tell.
    number: u64,
    left: u64,
    spent: u64,
    /// Until when the visits may be spent, or nothing is asked because none are left.
    until: Moment,
    /// Whether the answer was that none are left.
    is_used_up: bool,
    /// True if it is in the list of links of which none are left.
    is_listed: bool,
    /// True while a return of it is under way.
    is_returning: bool,
    /// Not before that it is returned.
    return_after: Moment,
    /// Timeouts of requests in a row.
    timeouts: u32,
    /// Not before that it is asked for where these are too many.
    rests_until: Moment,
    /// The request that is not answered yet.
    asked: Option<Asked>,
}

#[derive(Debug)]
struct Asked {
    number: u64,
    /// The record of the link, for its waiters.
    record: Arc<[u8]>,
    is_under_way: bool,
}

/// A return that is under way.
#[derive(Debug)]
pub(crate) struct Returning {
    pub(crate) key: Arc<[u8]>,
    pub(crate) request: VisitsRequest,
    /// That of the block.
    number: u64,
}

/// What becomes of a visit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Visit {
    /// One was spent for it.
    Taken,
    /// None are left.
    UsedUp,
    /// The control plane is to be asked.
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
    /// None of at most `max_links` links.
    pub(crate) fn new(worker: WorkerId, max_links: usize, hasher: SeedableRandomState) -> Self {
        Self {
            worker,
            blocks: HashMap::with_hasher(hasher),
            max_links,
            number: 0,
            due: Vec::new(),
            used_up: VecDeque::new(),
            holds_blocks: false,
        }
    }

    /// Changes the bound, for links that come.
    pub(crate) fn set_max_links(&mut self, max_links: usize) {
        self.max_links = max_links;
    }

    /// A visit of a link whose record has the revision `rev`: spends one, if there is one.
    pub(crate) fn visit(&mut self, key: &[u8], rev: u64, now: Moment) -> Visit {
        let Some(block) = self.blocks.get_mut(key) else {
            return if self.blocks.len() < self.max_links || self.forget_used_up() {
                Visit::Ask
            } else {
                Visit::Full
            };
        };
        if block.asked.is_some() || rev > block.rev || now >= block.until {
            return Visit::Ask;
        }
        if block.is_used_up {
            return Visit::UsedUp;
        }
        if block.left == 0 {
            return Visit::Ask;
        }
        block.left -= 1;
        block.spent += 1;
        Visit::Taken
    }

    /// Forgets the link of which it is known longest that none are left. Whether there was one.
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

    /// True if visits of a link may be asked for: no requests for it have timed out lately.
    pub(crate) fn may_ask(&self, key: &[u8], now: Moment) -> bool {
        let block = self.blocks.get(key);
        block.is_none_or(|block| block.timeouts < TIMEOUTS_TO_REST || now >= block.rests_until)
    }

    /// True if there is something to tell, or was at the last tick.
    pub(crate) fn holds_blocks(&self) -> bool {
        self.holds_blocks
    }

    /// Whether no visit is left, as far as is known.
    pub(crate) fn is_used_up(&self, key: &[u8], rev: u64, now: Moment) -> bool {
        let block = self.blocks.get(key);
        block.is_some_and(|block| block.is_used_up && rev <= block.rev && now < block.until)
    }

    /// A visit was taken by a visitor who has left before the answer.
    pub(crate) fn give_back(&mut self, key: &[u8]) {
        let block = self.blocks.get_mut(key);
        if let Some(block) = block.filter(|block| block.spent > 0) {
            block.spent -= 1;
            block.left += 1;
        }
    }

    /// The request for a block, which is sent now: the same as before if that was not answered.
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
        block.asked = Some(Asked {
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

    /// The request that is under way for a link once more, with its record.
    pub(crate) fn asked(&self, key: &[u8]) -> Option<AskedRecord> {
        let block = self.blocks.get(key)?;
        let record = Arc::clone(&block.asked.as_ref()?.record);
        let rev = block.rev;
        Some(AskedRecord { record, rev })
    }

    /// The answer to a request that was sent at `sent`. What its waiters need; `None` if it is of no use: it answers another
    /// request, or came so late that the block may be leased to others.
    pub(crate) fn on_answer(
        &mut self,
        key: &[u8],
        answer: VisitsAnswer,
        sent: Moment,
        now: Moment,
    ) -> Option<AskedRecord> {
        let block = self.blocks.get_mut(key)?;
        let is_asked = |asked: &mut Asked| asked.number == answer.number;
        let asked = block.asked.take_if(is_asked)?;
        block.number = answer.number;
        block.spent = 0;
        block.timeouts = 0;
        block.left = answer.visits;
        block.is_used_up = answer.visits == 0;
        if block.is_used_up {
            // There is nothing to tell of it.
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

    /// A request has failed. It is sent again with the next visit, or a return takes its place.
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

    /// A request has timed out; after some in a row the link rests until then. Whether it is the first in a row: further ones say nothing
    /// of other links.
    pub(crate) fn on_timeout(&mut self, key: &[u8], rests_until: Moment) -> bool {
        let Some(block) = self.blocks.get_mut(key) else {
            return true;
        };
        block.timeouts = block.timeouts.saturating_add(1);
        block.rests_until = rests_until;
        block.timeouts == 1
    }

    /// Time has passed: forgets links of which there is nothing to tell, and finds those whose blocks are to be returned.
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
            let due = self.blocks.iter().filter(|(_, block)| block.is_due(now));
            let mut due: Vec<_> = due.map(|(key, block)| (block.until, key)).collect();
            due.sort_unstable_by_key(|(until, _)| Reverse(*until));
            self.due
                .extend(due.into_iter().map(|(_, key)| Arc::clone(key)));
        }
    }

    /// The next returns, `most` at most: those first whose blocks end first.
    pub(crate) fn next_returns(&mut self, most: usize, now: Moment) -> Vec<Returning> {
        let mut returns = Vec::new();
        while returns.len() < most
            && let Some(key) = self.due.pop()
        {
            let block = self.blocks.get_mut(&key);
            let Some(block) = block.filter(|block| block.is_due(now)) else {
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

    /// A return has come, or a later request has told the same; or it was not taken.
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
            // A request that has been sent meanwhile tells it once more, which does no harm.
            ReturnOutcome::Settled if block.number == returning.number => {
                block.number = 0;
                block.spent = 0;
            }
            ReturnOutcome::Settled => {}
            ReturnOutcome::Later => block.return_after = now.after(RETURN_PAUSE_MILLIS),
        }
    }

    /// It is not known what has become of a return.
    pub(crate) fn on_return_failed(&mut self, returning: &Returning) {
        if let Some(block) = self.blocks.get_mut(&returning.key) {
            block.is_returning = false;
        }
    }

    /// Links of which the worker holds something.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.blocks.len()
    }
}

impl Block {
    /// What is to be told of it.
    fn settled(&self) -> Option<SettledBlock> {
        let (number, spent) = (self.number, self.spent);
        (number > 0).then_some(SettledBlock { number, spent })
    }

    /// Whether it is to be returned: used up, over, or of a request whose answer was lost.
    fn is_due(&self, now: Moment) -> bool {
        if self.is_returning || now < self.return_after {
            return false;
        }
        match &self.asked {
            Some(asked) => !asked.is_under_way,
            None => self.number > 0 && (self.left == 0 || now >= self.until),
        }
    }

    /// True if there is nothing to tell of it.
    fn is_told(&self) -> bool {
        self.asked.is_none() && self.number == 0 && !self.is_returning
    }

    /// Whether it may be forgotten.
    fn is_idle(&self, now: Moment) -> bool {
        self.is_told() && (now >= self.until || !self.is_used_up)
    }
}
