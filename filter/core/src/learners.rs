//! What changes with the news, by whichever way they come.

use crate::admission::Gate;
use crate::caches::{Caches, Heard};
use crate::host::{Log, SharedData};
use crate::metrics::{Counts, FeedOutcome, Metric};
use crate::time::Moment;
use edgelink_wire::feed::FeedMessage;
use edgelink_wire::{FeedPosition, Record};
use std::fmt::Display;

/// When something happens: by the steady clock in milliseconds, and by the wall clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Now {
    pub(crate) steady: u64,
    pub(crate) wall: Moment,
}

/// How far a feed was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reading {
    /// Since when nothing was missed, by the steady clock.
    pub(crate) since: u64,
    /// Up to when everything was read.
    pub(crate) heard: u64,
    /// The last entry that was read.
    pub(crate) position: FeedPosition,
}

/// Those who learn.
pub(crate) struct Learners<'a> {
    pub(crate) caches: &'a mut Caches,
    pub(crate) gate: &'a mut Gate,
    pub(crate) counts: &'a mut Counts,
}

impl Learners<'_> {
    /// A change.
    pub(crate) fn on_message(
        &mut self,
        data: &mut impl SharedData,
        now: Moment,
        message: FeedMessage<'_>,
    ) {
        let outcome = match message {
            FeedMessage::Put { key, record, hot } => {
                let told = Heard {
                    record,
                    is_hot: hot,
                };
                self.learn(data, key, told, now);
                FeedOutcome::Put
            }
            FeedMessage::Del { key, rev } => {
                let told = Heard {
                    record: Record::Absent { rev },
                    is_hot: false,
                };
                self.learn(data, key, told, now);
                FeedOutcome::Del
            }
            FeedMessage::Flush => {
                self.caches.forget_all(now);
                self.gate.restart();
                FeedOutcome::Flush
            }
            FeedMessage::Bound { bound } => {
                self.gate.on_bound(bound);
                FeedOutcome::Bound
            }
        };
        self.counts.count(Metric::Feed(outcome));
    }

    /// Changes may have been missed.
    pub(crate) fn on_gap(&mut self, log: &mut impl Log, now: Moment, why: impl Display) {
        self.counts.count(Metric::Feed(FeedOutcome::Gap));
        self.caches.suspect_all(now);
        self.gate.restart();
        log.warn(&format!(
            "changes may have been missed, for {why}: everything is asked for again"
        ));
    }

    /// What is known of a link as of `at`, from the feed.
    pub(crate) fn learn(
        &mut self,
        data: &mut impl SharedData,
        key: &str,
        told: Heard<'_>,
        at: Moment,
    ) {
        if let (Record::Link(_), Some((_, code))) = (told.record, key.split_once('/')) {
            self.gate.on_link(code.as_bytes());
        }
        self.caches.hear(data, key.as_bytes(), told, at);
    }
}
