//! Reads the feed from the control plane, by long polls one after the other.

use super::{Errand, ErrandKind, Line, body_of};
use crate::callout::{Failure, Response};
use crate::host::{Log, SharedData};
use crate::learners::{Learners, Now, Reading};
use crate::metrics::{FeedOutcome, Metric};
use crate::resp::backoff::Bounds;
use crate::seldom::Seldom;
use crate::settings;
use edgelink_wire::feed::FeedMessage;
use edgelink_wire::feed_batch::{MAX_BYTES, MAX_MESSAGES};
use edgelink_wire::record::RecordError;
use edgelink_wire::{FeedBatch, FeedPosition};

/// The longest body that is read, in bytes: one message may reach over the bound of a batch.
pub(crate) const MAX_BODY_BYTES: usize = MAX_BYTES + (64 << 10);

const FIRST_PAUSE: u64 = 50;

/// The reader.
#[derive(Debug)]
pub(crate) struct Poll {
    pub(crate) line: Line,
    settings: settings::Poll,
    /// Nothing before it is known where to begin.
    position: Option<FeedPosition>,
    since: Option<u64>,
    heard: Option<u64>,
    malformed: Seldom,
}

impl Poll {
    pub(crate) fn new(settings: settings::Poll, seed: u64) -> Self {
        Self {
            line: line(&settings, seed),
            settings,
            position: None,
            since: None,
            heard: None,
            malformed: Seldom::default(),
        }
    }

    /// Changes the settings, and goes on from the same place.
    pub(crate) fn configure(&mut self, settings: settings::Poll, seed: u64) {
        if settings == self.settings {
            return;
        }
        self.line = line(&settings, seed);
        self.settings = settings;
    }

    /// Begins at `position`, unless it has begun. Nothing is missed since `since`, where that is known.
    pub(crate) fn begin(&mut self, position: FeedPosition, since: Option<u64>) {
        if self.position.is_none() {
            self.position = Some(position);
            self.since = since;
        }
    }

    /// How far the feed was read. Nothing before it was first heard.
    pub(crate) fn reading(&self) -> Option<Reading> {
        Some(Reading {
            since: self.since?,
            heard: self.heard?,
            position: self.position?,
        })
    }

    /// Asks for what is new, if it is time to.
    pub(crate) fn ask(&mut self, now: Now) -> Option<Errand> {
        let position = self.position.filter(|_| self.line.is_due(now.steady))?;
        self.line.ask(now.steady);
        let wait = self.settings.wait_millis;
        Some(Errand {
            kind: ErrandKind::Poll,
            method: "GET",
            path: format!("/edge/v1/feed?after={position}&waitMs={wait}"),
            accept: FeedBatch::MEDIA_TYPE,
            content_type: None,
            body: Vec::new(),
            timeout_millis: self.settings.timeout_millis,
        })
    }

    /// Takes the answer in. How many attempts had failed in a row before it.
    pub(crate) fn on_answer(
        &mut self,
        host: &mut (impl SharedData + Log),
        now: Now,
        response: Response<'_>,
        learners: &mut Learners<'_>,
    ) -> Result<u32, Failure> {
        let body = body_of(response, FeedBatch::MEDIA_TYPE)?;
        let batch = FeedBatch::decode(body).map_err(|_| Failure::Answer(200))?;
        match (batch.gap, self.since) {
            (true, Some(_)) => {
                learners.on_gap(host, now.wall, "the control plane no longer has them");
            }
            (true, None) => learners.gate.restart(),
            (false, _) => {}
        }
        if batch.gap || self.since.is_none() {
            // What was asked for before this moment may have changed before the place where reading goes on.
            self.since = Some(now.steady);
        }
        let asked = self.line.asked().unwrap_or(now.steady);
        let is_full = batch.messages.len() >= MAX_MESSAGES || body.len() >= MAX_BYTES;
        if !batch.messages.is_empty() && !is_full {
            // That there is nothing new is no sign of life: a control plane that the changes do not reach says so too.
            // The bound comes again and again for that. What came later than the question may not be in the answer.
            self.heard = self.heard.max(Some(asked));
        }
        let waited = now.steady.saturating_sub(asked);
        let is_progress = self.position.replace(batch.next) < Some(batch.next);
        let next = if is_progress || waited >= u64::from(self.settings.wait_millis) / 2 {
            now.steady
        } else {
            // With the next tick: nothing new without waiting for it would otherwise be asked for in a circle.
            now.steady.saturating_add(1)
        };
        self.take_in(host, now, batch.messages, learners);
        Ok(self.line.succeed(next))
    }

    fn take_in(
        &mut self,
        host: &mut (impl SharedData + Log),
        now: Now,
        messages: Vec<Result<FeedMessage<'_>, RecordError>>,
        learners: &mut Learners<'_>,
    ) {
        for message in messages {
            match message {
                Ok(message) => learners.on_message(host, now.wall, message),
                Err(error) => {
                    learners.counts.count(Metric::Feed(FeedOutcome::Malformed));
                    if self.malformed.is_due(now.steady) {
                        host.warn(&format!("a message of the feed cannot be read: {error}"));
                    }
                }
            }
        }
    }
}

fn line(settings: &settings::Poll, seed: u64) -> Line {
    let bounds = Bounds {
        first_ms: FIRST_PAUSE,
        cap_ms: settings.max_backoff_millis,
    };
    Line::new(bounds, settings.timeout_millis, seed)
}
