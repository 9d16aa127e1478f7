//! Tier 2: codes that were never issued, known without asking another tier.
//!
//! A code of generated shape has a number, and one below the bound may have been issued. All others are aliases, of whatever
//! shape, and a filter says which ones there may be. What a snapshot says of bound
//! and aliases is kept up to date by the feed, so it holds only together with a feed that has missed nothing since the
//! snapshot. Whatever is in doubt is let through.
//!
//! # Why it comes before shared data
//! So that scanning costs no read of shared data, which copies under a lock of the whole process. What shared data might
//! know and the gate refuses is an alias that another worker has looked up and of which this worker has not read yet.
//! Then the gate answers what an absence in the LRU would, which the same feed keeps fresh: it refuses only while the
//! feed was read within `admission.maxSilenceSeconds`.
//!
//! # Why a silence of less than a minute is safe for generated codes
//! The control plane issues no number that is not below a bound which it published 60 seconds ago or earlier. What was
//! published until the feed was last read is known here.

use crate::time::Moment;
use edgelink_wire::{CodeFilter, CodeSpace, FeedPosition, Snapshot};

/// The most codes that are kept until a snapshot comes. With more, another snapshot is needed.
const MAX_GATHERED: usize = 4_096;

/// Refuses codes that were never issued.
#[derive(Debug)]
pub(crate) struct Gate {
    /// How long the feed may be silent, in milliseconds; `None` if the gate is always open.
    max_silence_millis: Option<u64>,
    knowledge: Knowledge,
    /// The highest bound received from feed or snapshot.
    bound: u64,
    /// Up to when the feed was read; `None` without one.
    read_until: Option<Moment>,
}

/// A place in a generation of the feed.
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

    /// Changes how long the feed may be silent. Without admission nothing is kept.
    pub(crate) fn configure(&mut self, max_silence_millis: Option<u64>) {
        self.max_silence_millis = max_silence_millis;
        if max_silence_millis.is_none() {
            self.restart();
        }
    }

    /// Whether it refuses anything now.
    pub(crate) fn is_in_effect(&self, now: Moment) -> bool {
        self.is_live(now) && matches!(self.knowledge, Knowledge::Whole { .. })
    }

    /// Whether there is surely no link of that code on any domain.
    pub(crate) fn refuses(&self, code: &[u8], now: Moment) -> bool {
        let Knowledge::Whole { space, aliases } = &self.knowledge else {
            return false;
        };
        self.is_live(now) && !is_issued(space, self.bound, code) && !aliases.may_contain(code)
    }

    /// Whether a snapshot would be of use.
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

    /// Applies a snapshot. Whether it was of use: not if it is older than what was read of the feed, or of another
    /// generation.
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

/// Whether that is a generated code that may have been issued.
fn is_issued(space: &CodeSpace, bound: u64, code: &[u8]) -> bool {
    space.number(code).is_some_and(|number| number < bound)
}

#[cfg(test)]
mod tests;
