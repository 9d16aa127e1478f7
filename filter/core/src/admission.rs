//! Tier 2: codes that were never issued, known without asking another tier.
//!
//! A code of generated shape has a number, and one below the bound may have been issued. All others are aliases of any shape;
//! a filter of all aliases shows which may exist. The feed keeps the bound and the aliases of a snapshot up to date, so they
//! hold only together with a feed that has missed nothing since the snapshot. In doubt, a code is let through.
//!
//! # Why it comes before shared data
//! So that scanning costs no read of shared data, which copies under a process-wide lock. The only record that shared data
//! may hold and the gate refuses is that of an alias which another worker has looked up before this worker read about it on
//! the feed. The gate then answers as an absence in the LRU would, which depends on the same feed: it refuses only if the
//! feed was read within `admission.maxSilenceSeconds`.
//!
//! # Why a silence of less than a minute is safe for generated codes
//! The control plane issues only numbers below a bound that it published at least 60 seconds ago. Every bound published
//! before the feed was last read is known here.

use crate::time::Moment;
use edgelink_wire::{CodeFilter, CodeSpace, FeedPosition, Snapshot};

/// Maximum number of codes kept until a snapshot arrives. With more, another snapshot is needed.
const MAX_GATHERED: usize = 4_096;

/// Refuses codes that were never issued.
#[derive(Debug)]
pub(crate) struct Gate {
    /// Maximum silence of the feed, in milliseconds; `None` if the gate is always open.
    max_silence_millis: Option<u64>,
    knowledge: Knowledge,
    /// The highest bound received from feed or snapshot.
    bound: u64,
    /// Moment up to which the feed was read; `None` without a feed.
    read_until: Option<Moment>,
}

/// A position in a generation of the feed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FeedPlace {
    pub(crate) generation: u64,
    pub(crate) position: FeedPosition,
}

#[derive(Debug)]
enum Knowledge {
    /// A snapshot is needed that is not older than `since`, up to where the feed was read when gathering began.
    Gathering {
        since: Option<FeedPlace>,
        /// The codes of links on the feed since then.
        codes: Vec<Box<[u8]>>,
    },
    Whole {
        space: CodeSpace,
        aliases: CodeFilter,
    },
}

const EMPTY: Knowledge = Knowledge::Gathering {
    since: None,
    codes: Vec::new(),
};

impl Gate {
    /// A gate that lets everything through until a snapshot is applied; for ever without `max_silence_millis`.
    pub(crate) fn new(max_silence_millis: Option<u64>) -> Self {
        Self {
            max_silence_millis,
            knowledge: EMPTY,
            bound: 0,
            read_until: None,
        }
    }

    /// Changes the maximum silence of the feed. Without admission nothing is kept.
    pub(crate) fn configure(&mut self, max_silence_millis: Option<u64>) {
        self.max_silence_millis = max_silence_millis;
        if max_silence_millis.is_none() {
            self.restart();
        }
    }

    /// True if the gate can refuse codes now.
    pub(crate) fn is_in_effect(&self, now: Moment) -> bool {
        self.is_live(now) && matches!(self.knowledge, Knowledge::Whole { .. })
    }

    /// True if no domain can have a link of that code.
    pub(crate) fn refuses(&self, code: &[u8], now: Moment) -> bool {
        let Knowledge::Whole { space, aliases } = &self.knowledge else {
            return false;
        };
        self.is_live(now) && !is_issued(space, self.bound, code) && !aliases.may_contain(code)
    }

    /// True if the gate lacks a snapshot and could apply one.
    pub(crate) fn wants_snapshot(&self) -> bool {
        let is_begun = matches!(self.knowledge, Knowledge::Gathering { since: Some(_), .. });
        self.max_silence_millis.is_some() && is_begun
    }

    /// Changes may have been missed.
    pub(crate) fn restart(&mut self) {
        self.knowledge = EMPTY;
    }

    /// The feed was read up to `place`, and nothing after it will be missed.
    pub(crate) fn begin(&mut self, place: FeedPlace) {
        if let Knowledge::Gathering { since, .. } = &mut self.knowledge
            && self.max_silence_millis.is_some()
        {
            since.get_or_insert(place);
        }
    }

    /// There is a link of that code.
    pub(crate) fn on_link(&mut self, code: &[u8]) {
        match &mut self.knowledge {
            Knowledge::Whole { space, aliases } => {
                if !is_issued(space, self.bound, code) {
                    aliases.insert(code);
                }
            }
            Knowledge::Gathering { since: None, .. } => {}
            Knowledge::Gathering { codes, .. } if codes.len() >= MAX_GATHERED => self.restart(),
            Knowledge::Gathering { codes, .. } => codes.push(code.into()),
        }
    }

    /// No number at or above that one was issued. Bounds only rise, so a lower one is out of date.
    pub(crate) fn on_bound(&mut self, bound: u64) {
        self.bound = self.bound.max(bound);
    }

    /// Applies a snapshot. Returns `false` if it was ignored: it is older than the position where gathering began, or of another
    /// generation, or none was needed.
    pub(crate) fn apply_snapshot(&mut self, snapshot: Snapshot<'_>) -> bool {
        let Knowledge::Gathering {
            since: Some(since),
            codes,
        } = &mut self.knowledge
        else {
            return false;
        };
        if snapshot.generation != since.generation || snapshot.position < since.position {
            return false;
        }
        let codes = std::mem::take(codes);
        self.bound = self.bound.max(snapshot.bound);
        self.knowledge = Knowledge::Whole {
            space: snapshot.code_space(),
            aliases: snapshot.codes,
        };
        for code in codes {
            self.on_link(&code);
        }
        true
    }

    /// Time has passed; the feed was read up to `read_until`.
    pub(crate) fn on_time(&mut self, read_until: Option<Moment>) {
        self.read_until = read_until;
    }

    fn is_live(&self, now: Moment) -> bool {
        let (Some(read_until), Some(limit)) = (self.read_until, self.max_silence_millis) else {
            return false;
        };
        read_until.age(now) < limit
    }
}

/// True for a generated code whose number is below the bound, so that it may have been issued.
fn is_issued(space: &CodeSpace, bound: u64, code: &[u8]) -> bool {
    space.number(code).is_some_and(|number| number < bound)
}

#[cfg(test)]
mod tests;
