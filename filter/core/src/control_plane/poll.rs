//! Reads the feed from the control plane, by long polls one after the other.

use super::feed_places::{FeedPlaces, FeedStart};
use super::{BackgroundCallout, BackgroundKind, DecodedFeed, PeriodicCallout};
use crate::admission::FeedPlace;
use crate::control_plane::callout::CalloutError;
use crate::feed::FeedApplier;
use crate::host::{Log, SharedData};
use crate::log_throttle::LogThrottle;
use crate::metrics::{FeedOutcome, Metric};
use crate::settings;
use crate::time::Moment;
use crate::warm::Reading;
use edgelink_wire::RecordError;
use edgelink_wire::backoff::Bounds;
use edgelink_wire::feed::FeedMessage;
use edgelink_wire::feed_batch::MAX_BYTES;
use edgelink_wire::redis::FeedState;
use edgelink_wire::{FeedBatch, FeedBatchHead, FeedPosition};

/// Maximum length of a body that is read, in bytes: one message may exceed the bound of a batch.
pub(crate) const MAX_BODY_BYTES: usize = MAX_BYTES + (64 << 10);

const FIRST_PAUSE_MILLIS: u64 = 50;

/// The reader.
#[derive(Debug)]
pub(crate) struct Poll {
    pub(crate) callout: PeriodicCallout,
    settings: settings::PollSettings,
    /// `None` before the start is known.
    position: Option<FeedPosition>,
    /// `None` before it is known.
    generation: Option<u64>,
    since: Option<Moment>,
    /// Position from which the feed was read at `since`.
    start: FeedPosition,
    read_until: Option<Moment>,
    /// The last beat since then.
    beat: Option<FeedState>,
    /// The place that is being gone on from: it counts once everything after it was read.
    resumed: Option<FeedStart>,
    /// Later places to go on from, the earliest last, if the control plane no longer has what follows.
    later: Vec<FeedStart>,
    /// The last of them: that of the snapshot.
    snapshot: Option<FeedStart>,
    malformed: LogThrottle,
}

impl Poll {
    pub(crate) fn new(settings: settings::PollSettings, seed: u64) -> Self {
        Self {
            callout: callout(&settings, seed),
            settings,
            position: None,
            generation: None,
            since: None,
            start: FeedPosition::START,
            read_until: None,
            beat: None,
            resumed: None,
            later: Vec::new(),
            snapshot: None,
            malformed: LogThrottle::default(),
        }
    }

    /// Changes the settings, and continues from the same position.
    pub(crate) fn configure(&mut self, settings: settings::PollSettings, seed: u64) {
        if settings == self.settings {
            return;
        }
        self.callout = callout(&settings, seed);
        self.settings = settings;
    }

    /// Begins at the position of a received snapshot, or at an earlier one of `places`, unless reading has begun.
    pub(crate) fn begin_at(&mut self, place: FeedPlace, places: Option<FeedPlaces>, now: Moment) {
        if self.position.is_some() {
            return;
        }
        let FeedPlace {
            generation,
            position,
        } = place;
        self.generation = Some(generation);
        let places = places.filter(|places| places.generation == generation);
        let mut starts = places.map(|places| places.starts).unwrap_or_default();
        starts.retain(|start| start.position <= position);
        self.snapshot = Some(FeedStart {
            position,
            since: now,
        });
        self.resume(starts);
    }

    /// Begins at one of `places`, or at the position chosen by the control plane, unless reading has begun.
    pub(crate) fn begin(&mut self, places: Option<FeedPlaces>) {
        if self.position.is_some() {
            return;
        }
        self.generation = places.as_ref().map(|places| places.generation);
        self.resume(places.map(|places| places.starts).unwrap_or_default());
    }

    /// Begins at the first one of these places after which the control plane has everything.
    fn resume(&mut self, mut starts: Vec<FeedStart>) {
        starts.reverse();
        self.later = starts;
        self.resume_later();
    }

    /// Goes on from the next place, at last from where the snapshot or the control plane says.
    fn resume_later(&mut self) {
        self.resumed = self.later.pop();
        match (self.resumed, self.snapshot) {
            (Some(start), _) => {
                self.position = Some(start.position);
                self.start = start.position;
            }
            (None, Some(start)) => {
                self.position = Some(start.position);
                self.start_over(start.position, start.since);
            }
            (None, None) => {
                self.position = Some(FeedPosition::START);
                self.generation = None;
            }
        }
    }

    /// True if the place that is being gone on from is of no use: the answer is of another feed, or lacks some of what follows.
    fn must_leave_resumed(&self, head: FeedBatchHead) -> bool {
        let is_other = self.generation != Some(head.generation);
        self.resumed.is_some() && (is_other || head.gap || self.is_behind(head))
    }

    /// Goes on from the next place after an answer with that head.
    fn leave_resumed(&mut self, head: FeedBatchHead, feed: &mut FeedApplier<'_>) {
        if !head.gap || self.generation != Some(head.generation) {
            self.later.clear();
        }
        self.resume_later();
        if self.generation.is_none() {
            feed.gate.restart();
            feed.domains.restart();
        }
    }

    /// Progress of the reading; `None` before it has begun.
    pub(crate) fn reading(&self) -> Option<Reading> {
        Some(Reading {
            since: self.since?,
            start: self.start,
            read_until: self.read_until,
            position: self.position?,
            generation: self.generation,
            beat: self.beat,
        })
    }

    /// The place up to which everything is known, or follows; `None` before reading has begun.
    pub(crate) fn place(&self) -> Option<FeedPlace> {
        self.since.or(self.resumed.map(|resumed| resumed.since))?;
        Some(FeedPlace {
            generation: self.generation?,
            position: self.position?,
        })
    }

    /// Moment up to which everything was read.
    pub(crate) fn read_until(&self) -> Option<Moment> {
        self.read_until
    }

    /// Restarts coverage at `now`: records fetched before may have changed unseen.
    fn start_over(&mut self, position: FeedPosition, now: Moment) {
        self.since = Some(now);
        self.start = position;
        self.beat = None;
        self.resumed = None;
    }

    /// Requests new messages, if a poll is due.
    pub(crate) fn ask(&mut self, now: Moment) -> Option<BackgroundCallout> {
        let position = self
            .position
            .filter(|_| self.callout.is_due(now.millis()))?;
        self.callout.ask(now.millis());
        let generation = self.generation.unwrap_or_default();
        let wait = self.settings.wait_millis;
        Some(BackgroundCallout {
            kind: BackgroundKind::Poll,
            method: "GET",
            path: format!("/edge/v1/feed?after={position}&generation={generation}&waitMs={wait}"),
            accept: FeedBatch::MEDIA_TYPE,
            content_type: None,
            sent_at: None,
            health: None,
            worker: None,
            poller: None,
            body: Vec::new(),
            timeout_millis: self.settings.timeout_millis,
        })
    }

    /// Applies the answer. Returns the number of consecutive failures before it.
    pub(crate) fn on_answer(
        &mut self,
        host: &mut (impl SharedData + Log),
        now: Moment,
        batch: DecodedFeed<'_>,
        feed: &mut FeedApplier<'_>,
    ) -> Result<u32, CalloutError> {
        let DecodedFeed {
            head,
            messages,
            is_full,
            is_joined,
        } = batch;
        if !is_joined && self.must_leave_resumed(head) {
            self.leave_resumed(head, feed);
            return Ok(self.callout.succeed(now.millis()));
        }
        if !is_joined && !self.may_join(host, now, head, feed) {
            return Err(CalloutError::Answer(200));
        }
        let asked = self.callout.asked_millis().map_or(now, Moment::from_millis);
        let is_progress = self.position.replace(head.next) < Some(head.next);
        self.take_in(host, now, messages, feed);
        if !is_full {
            // The age holds for the moment of the answer, which was not before the poll had waited.
            let answered = asked.after(head.waited_millis).min(now);
            self.read_until = self.read_until.max(Some(answered.before(head.age_millis)));
            if let Some(start) = self.resumed.take() {
                self.since = Some(start.since);
            }
        }
        let next = if is_progress || asked.age(now) >= u64::from(self.settings.wait_millis) / 2 {
            now.millis()
        } else {
            // With the next tick: an answer that neither waited nor brought anything would otherwise cause a busy loop.
            now.millis().saturating_add(1)
        };
        Ok(self.callout.succeed(next))
    }

    /// Applies a part of the answer, if there is more than one left. Returns `false` if there is not.
    pub(crate) fn on_part(
        &mut self,
        host: &mut (impl SharedData + Log),
        now: Moment,
        batch: &mut DecodedFeed<'_>,
        feed: &mut FeedApplier<'_>,
    ) -> bool {
        if !batch.is_joined
            && (self.must_leave_resumed(batch.head) || !self.may_join(host, now, batch.head, feed))
        {
            return false;
        }
        batch.is_joined = true;
        let Some(messages) = batch.take_part() else {
            return false;
        };
        self.take_in(host, now, messages.into_iter().map(Ok).collect(), feed);
        true
    }

    /// Continues where an answer begins, unless it is of a control plane that has read less of the feed.
    fn may_join(
        &mut self,
        log: &mut impl Log,
        now: Moment,
        head: FeedBatchHead,
        feed: &mut FeedApplier<'_>,
    ) -> bool {
        let may_join = !self.is_behind(head);
        if may_join {
            self.join(log, now, head, feed);
        }
        may_join
    }

    /// True if the answering control plane has read less of the feed than this worker.
    fn is_behind(&self, head: FeedBatchHead) -> bool {
        let is_same = !head.gap && self.generation == Some(head.generation);
        is_same && self.position.is_some_and(|position| head.next < position)
    }

    /// Continues where the answer begins: at the requested position, or behind a gap.
    fn join(
        &mut self,
        log: &mut impl Log,
        now: Moment,
        head: FeedBatchHead,
        feed: &mut FeedApplier<'_>,
    ) {
        if self.resumed.is_some() {
            return;
        }
        let before = self.generation.replace(head.generation);
        let is_other = before.is_some_and(|generation| generation != head.generation);
        match (is_other || head.gap, self.since) {
            (true, Some(_)) => {
                let why = if is_other {
                    "the feed has another generation"
                } else {
                    "the control plane no longer has them"
                };
                feed.on_gap(log, now, why);
            }
            (true, None) => {
                feed.gate.restart();
                feed.domains.restart();
            }
            (false, Some(_)) => return,
            (false, None) => {}
        }
        self.start_over(head.next, now);
    }

    fn take_in(
        &mut self,
        host: &mut (impl SharedData + Log),
        now: Moment,
        messages: Vec<Result<FeedMessage<'_>, RecordError>>,
        feed: &mut FeedApplier<'_>,
    ) {
        let mut unreadable = None;
        for message in messages {
            match message {
                Ok(message) => {
                    self.on_beat(&message);
                    feed.apply(host, now, message);
                }
                Err(error) => {
                    feed.counts.count(Metric::Feed(FeedOutcome::Malformed));
                    unreadable = Some(error);
                }
            }
        }
        if let (Some(error), Some(position)) = (unreadable, self.position) {
            if self.malformed.is_due(now.millis()) {
                host.warn(&format!("a message of the feed cannot be read: {error}; every record is stale until it is fetched again"));
            }
            feed.on_gap(host, now, "a message cannot be read");
            self.start_over(position, now);
        }
    }

    fn on_beat(&mut self, message: &FeedMessage<'_>) {
        if let FeedMessage::Beat(beat) = message
            && self.generation == Some(beat.generation)
        {
            self.beat = Some(FeedState {
                generation: beat.generation,
                number: beat.number,
            });
        }
    }
}

fn callout(settings: &settings::PollSettings, seed: u64) -> PeriodicCallout {
    let bounds = Bounds {
        first_millis: FIRST_PAUSE_MILLIS,
        cap_millis: settings.max_backoff_millis,
    };
    PeriodicCallout::new(bounds, settings.timeout_millis, seed)
}
