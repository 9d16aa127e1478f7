//! Visits of links that have a limit: the blocks that this worker has leased.
//!
//! They are kept apart from the caches, so that a record that leaves the LRU takes no visits with it. What is spent of a block
//! is told to the control plane with the next request for the link, or by a return once the block is used up or its time is
//! over; what is left comes back by that. A request that failed keeps its number until it is answered or a return makes an
//! end of it, so that a block whose answer was lost is got again.

use crate::time::Moment;
use edgelink_wire::clicks::WorkerId;
use edgelink_wire::visits::SettledBlock;
use edgelink_wire::{VisitsAnswer, VisitsRequest};
use foldhash::fast::SeedableRandomState;
use hashbrown::HashMap;
use std::sync::Arc;

/// The blocks of a worker, bounded in links.
#[derive(Debug)]
pub(crate) struct Leases {
    worker: WorkerId,
    blocks: HashMap<Arc<[u8]>, Block, SeedableRandomState>,
    max_links: usize,
    /// The number of the last request.
    number: u64,
    /// The links whose blocks were to be returned at the last tick.
    due: Vec<Arc<[u8]>>,
    /// The return that is under way.
    returning: Option<Returning>,
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

#[derive(Debug)]
struct Returning {
    key: Arc<[u8]>,
    /// Of the block.
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
            returning: None,
        }
    }

    /// Changes the bound, for links that come.
    pub(crate) fn set_max_links(&mut self, max_links: usize) {
        self.max_links = max_links;
    }

    /// A visit of a link whose record has the revision `rev`: spends one, if there is one.
    pub(crate) fn visit(&mut self, key: &[u8], rev: u64, now: Moment) -> Visit {
        let Some(block) = self.blocks.get_mut(key) else {
            return match self.blocks.len() < self.max_links {
                true => Visit::Ask,
                false => Visit::Full,
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
            asked: None,
        });
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
        block.left = answer.visits;
        block.is_used_up = answer.visits == 0;
        if block.is_used_up {
            // There is nothing to tell of it.
            block.number = 0;
            block.until = now.after(answer.millis);
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

    /// Time has passed: forgets links of which there is nothing to tell, and finds those whose blocks are to be returned.
    pub(crate) fn on_tick(&mut self, now: Moment) {
        if self.blocks.is_empty() {
            return;
        }
        self.blocks.retain(|_, block| !block.is_idle(now));
        if self.due.is_empty() {
            let due = self.blocks.iter().filter(|(_, block)| block.is_due(now));
            self.due.extend(due.map(|(key, _)| Arc::clone(key)));
        }
    }

    /// The next return: the key of the link, and the request.
    pub(crate) fn next_return(&mut self, now: Moment) -> Option<(Arc<[u8]>, VisitsRequest)> {
        while let Some(key) = self.due.pop() {
            let block = self.blocks.get_mut(&key);
            let Some(block) = block.filter(|block| block.is_due(now)) else {
                continue;
            };
            self.number += 1;
            block.asked = None;
            block.left = 0;
            let request = VisitsRequest {
                worker: self.worker,
                number: self.number,
                settled: block.settled(),
                wants: false,
            };
            let number = block.number;
            self.returning = Some(Returning {
                key: Arc::clone(&key),
                number,
            });
            return Some((key, request));
        }
        None
    }

    /// The return under way has come, or a later request has told the same.
    pub(crate) fn on_returned(&mut self) {
        let Some(Returning { key, number }) = self.returning.take() else {
            return;
        };
        if let Some(block) = self.blocks.get_mut(&key)
            && block.number == number
        {
            // A request that has been sent meanwhile tells it once more, which does no harm.
            block.number = 0;
            block.spent = 0;
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
        match &self.asked {
            Some(asked) => !asked.is_under_way,
            None => self.number > 0 && (self.left == 0 || now >= self.until),
        }
    }

    /// Whether it may be forgotten.
    fn is_idle(&self, now: Moment) -> bool {
        self.asked.is_none() && self.number == 0 && (now >= self.until || !self.is_used_up)
    }
}
