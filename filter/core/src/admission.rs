//! Tier 3: codes that were never issued, known without asking anybody.
//!
//! A code of generated shape has a number. Numbers at or above the bound were never issued, so nobody has that link,
//! unless it is an alias that looks like a generated code: those ride along in a filter. What a snapshot says of bound
//! and aliases is kept up to date by the feed, so it holds only together with a feed that has missed nothing since the
//! snapshot. Whatever is in doubt is let through.
//!
//! # Why it may stand in front of shared data
//! So that scanning costs no read of shared data, which copies under a lock of the whole process. What shared data might
//! know and the gate refuses is an alias that another worker has looked up and of which this worker has not read yet.
//! Then the gate answers what an absence in the LRU would, which the same feed keeps fresh: it refuses only while the
//! feed was heard within `admission.maxSilenceSeconds`.
//!
//! # Why a silence of less than a minute is safe for generated codes
//! The control plane issues no number that is not below a bound which it published 60 seconds ago or earlier. What was
//! published until the feed was last heard is known here.

use crate::learners::Now;
use edgelink_wire::{AliasFilter, CodeSpace, FeedPosition, Snapshot};

/// The most codes that are kept until a snapshot comes. With more, another snapshot is needed.
const MAX_GATHERED: usize = 4_096;

/// The longest code that may be a generated one, in bytes.
const MAX_GENERATED: usize = 10;

/// Who knows which codes were never issued.
#[derive(Debug)]
pub(crate) struct Gate {
    /// How long the feed may be silent, in milliseconds; nothing where the gate is always open.
    max_silence: Option<u64>,
    knowledge: Knowledge,
    /// The highest bound that was told, by whomever.
    bound: u64,
    /// When the feed was last heard. By both clocks: the steady one stands still while the process does, and the other
    /// one may be set back.
    heard: Option<Now>,
    is_live: bool,
}

#[derive(Debug)]
enum Knowledge {
    /// A snapshot is needed that is not older than `since`, up to where the feed was read when gathering began.
    Gathering {
        since: Option<FeedPosition>,
        /// What the feed told of since then.
        codes: Vec<Box<[u8]>>,
    },
    Whole {
        space: CodeSpace,
        aliases: AliasFilter,
    },
}

const NOTHING: Knowledge = Knowledge::Gathering {
    since: None,
    codes: Vec::new(),
};

impl Gate {
    /// A gate that lets everything through until it knows better; for ever without `max_silence` (milliseconds).
    pub(crate) fn new(max_silence: Option<u64>) -> Self {
        Self {
            max_silence,
            knowledge: NOTHING,
            bound: 0,
            heard: None,
            is_live: false,
        }
    }

    /// Changes how long the feed may be silent.
    pub(crate) fn configure(&mut self, max_silence: Option<u64>) {
        self.max_silence = max_silence;
        self.is_live = false;
    }

    /// Whether it refuses anything now.
    pub(crate) fn is_in_effect(&self) -> bool {
        self.is_live && matches!(self.knowledge, Knowledge::Whole { .. })
    }

    /// Whether there is surely no link of that code on any domain.
    pub(crate) fn refuses(&self, code: &[u8]) -> bool {
        let Knowledge::Whole { space, aliases } = &self.knowledge else {
            return false;
        };
        let is_unknown = |number| number >= self.bound && !aliases.may_contain(number);
        self.is_live && space.number(code).is_some_and(is_unknown)
    }

    /// Whether a snapshot would be of use.
    pub(crate) fn wants_snapshot(&self) -> bool {
        let is_begun = matches!(self.knowledge, Knowledge::Gathering { since: Some(_), .. });
        self.max_silence.is_some() && is_begun
    }

    /// Changes may have been missed.
    pub(crate) fn restart(&mut self) {
        self.knowledge = NOTHING;
    }

    /// The feed was read up to `position`, and whatever comes after it will be told.
    pub(crate) fn begin(&mut self, position: FeedPosition) {
        if let Knowledge::Gathering { since, .. } = &mut self.knowledge {
            since.get_or_insert(position);
        }
    }

    /// There is a link of that code.
    pub(crate) fn on_link(&mut self, code: &[u8]) {
        match &mut self.knowledge {
            Knowledge::Whole { space, aliases } => {
                if let Some(number) = space.number(code).filter(|number| *number >= self.bound) {
                    aliases.insert(number);
                }
            }
            Knowledge::Gathering { since: None, .. } => {}
            Knowledge::Gathering { codes, .. } if codes.len() >= MAX_GATHERED => self.restart(),
            Knowledge::Gathering { codes, .. } if code.len() <= MAX_GENERATED => {
                codes.push(code.into());
            }
            Knowledge::Gathering { .. } => {}
        }
    }

    /// No number at or above that one was issued. Bounds only rise, so a lower one is old news.
    pub(crate) fn on_bound(&mut self, bound: u64) {
        self.bound = self.bound.max(bound);
    }

    /// Takes a snapshot in. Whether it was of use: not if it is older than what was read of the feed.
    pub(crate) fn learn(&mut self, snapshot: Snapshot<'_>) -> bool {
        let Knowledge::Gathering {
            since: Some(since),
            codes,
        } = &mut self.knowledge
        else {
            return false;
        };
        if snapshot.position < *since {
            return false;
        }
        let codes = std::mem::take(codes);
        self.bound = self.bound.max(snapshot.bound);
        self.knowledge = Knowledge::Whole {
            space: snapshot.code_space(),
            aliases: snapshot.aliases,
        };
        for code in codes {
            self.on_link(&code);
        }
        true
    }

    /// Time has passed; the feed was last heard at `heard`, by the steady clock.
    pub(crate) fn on_time(&mut self, now: Now, heard: Option<u64>) {
        if let Some(steady) = heard
            && self.heard.is_none_or(|known| known.steady < steady)
        {
            let wall = now.wall.before(now.steady.saturating_sub(steady));
            self.heard = Some(Now { steady, wall });
        }
        self.is_live = heard.is_some() && self.is_heard(now);
    }

    fn is_heard(&self, now: Now) -> bool {
        let (Some(at), Some(limit)) = (self.heard, self.max_silence) else {
            return false;
        };
        let is_recent = at.wall.age(now.wall).is_some_and(|age| age < limit);
        is_recent && now.steady.saturating_sub(at.steady) < limit
    }
}

#[cfg(test)]
mod tests;
