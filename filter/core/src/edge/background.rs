//! A worker's background callouts, and the consequences of the feed's progress.

use super::Edge;
use crate::admission::FeedPlace;
use crate::cache::shared::fnv_1a;
use crate::cache::{Caches, Update};
use crate::clicks::{ClickEvents, Counted, Gathered};
use crate::control_plane::callout::{CalloutError, MAX_BODY_BYTES, Response};
use crate::control_plane::feed_places::{FeedPlaces, FeedStart, INTERVAL_MILLIS};
use crate::control_plane::{
    BackgroundCallout, BackgroundKind, ClickReports, Decoded, DecodedFeed, DecodedSnapshot,
    PeriodicCallout, Poll, SnapshotTimer, Visits, decoded, poll,
};
use crate::feed::FeedApplier;
use crate::flights::Token;
use crate::freshness::Coverage;
use crate::host::{Log, SharedData};
use crate::metrics::{BackgroundOutcome, Metric};
use crate::redis::FeedView;
use crate::settings::Settings;
use crate::time::Moment;
use crate::visits::Leases;
use crate::warm::{Reading, Warm};
use edgelink_wire::WorkerHealth;
use edgelink_wire::clicks::{VisitorKeys, WorkerId};
use edgelink_wire::record::RecordBytes;
use edgelink_wire::visits::worker_text;

/// The configured background callouts.
#[derive(Debug)]
pub(super) struct BackgroundCallouts {
    snapshots: Option<SnapshotTimer>,
    poll: Option<Poll>,
    pub(super) clicks: Option<ClickReports>,
    pub(super) visits: Visits,
    pub(super) warm: Warm,
    /// The reports from before clicks were switched off, for their batch numbers: the control plane counts no number twice.
    clicks_before: Option<ClickReports>,
    name: WorkerId,
    seed: u64,
    /// When the place of the feed is noted next.
    next_place: Moment,
}

impl BackgroundCallouts {
    pub(super) fn new(settings: &Settings, leases: Leases, name: WorkerId, seed: u64) -> Self {
        // Without a feed a snapshot would never count.
        let snapshots = settings.background.snapshot.clone();
        let snapshots = snapshots.filter(|_| settings.has_feed());
        let poll = settings.background.poll.clone();
        let clicks = settings.clicks.clone();
        Self {
            snapshots: snapshots.map(|settings| SnapshotTimer::new(settings, seed.rotate_left(24))),
            poll: poll.map(|settings| Poll::new(settings, seed.rotate_left(40))),
            clicks: clicks.map(|settings| ClickReports::new(settings, name, seed.rotate_left(8))),
            visits: Visits::new(settings, leases, name, seed.rotate_left(56)),
            warm: Warm::default(),
            clicks_before: None,
            name,
            seed,
            next_place: Moment::default(),
        }
    }

    /// The kind of the background callout with that token; `None` if there is none.
    pub(super) fn carries(&self, token: Token) -> Option<BackgroundKind> {
        let carries = |kind: &BackgroundKind| match kind {
            BackgroundKind::Visits => self.visits.carries(token),
            kind => {
                let callout = self.callout(*kind);
                callout.is_some_and(|callout| callout.carries(token))
            }
        };
        BackgroundKind::ALL.into_iter().find(carries)
    }

    /// A background callout of that kind, if one is due. `seconds` is unix time; `keys` are the secrets of visitor tokens; `health`
    /// is the worker's health, if a report of it is due.
    fn ask(
        &mut self,
        kind: BackgroundKind,
        (now, seconds): (Moment, u64),
        keys: Option<&VisitorKeys>,
        health: Option<WorkerHealth>,
    ) -> Option<BackgroundCallout> {
        match kind {
            BackgroundKind::Snapshot => self.snapshots.as_mut()?.ask(now),
            BackgroundKind::Poll => self.poll.as_mut()?.ask(now),
            BackgroundKind::Clicks => self.clicks.as_mut()?.ask((now, seconds), keys, health),
            BackgroundKind::Visits => self.visits.ask(now),
        }
    }

    /// The callout of a kind of which at most one is in flight.
    fn callout(&self, kind: BackgroundKind) -> Option<&PeriodicCallout> {
        match kind {
            BackgroundKind::Snapshot => self.snapshots.as_ref().map(|snapshots| &snapshots.callout),
            BackgroundKind::Poll => self.poll.as_ref().map(|poll| &poll.callout),
            BackgroundKind::Clicks => self.clicks.as_ref().map(|clicks| &clicks.callout),
            BackgroundKind::Visits => None,
        }
    }

    /// The callouts in flight have ended with the root context that sent them.
    pub(super) fn lose_background(&mut self) {
        for kind in BackgroundKind::ALL {
            if let Some(callout) = self.callout_mut(kind) {
                callout.lose();
            }
        }
        self.visits.lose();
    }

    fn callout_mut(&mut self, kind: BackgroundKind) -> Option<&mut PeriodicCallout> {
        match kind {
            BackgroundKind::Snapshot => self
                .snapshots
                .as_mut()
                .map(|snapshots| &mut snapshots.callout),
            BackgroundKind::Poll => self.poll.as_mut().map(|poll| &mut poll.callout),
            BackgroundKind::Clicks => self.clicks.as_mut().map(|clicks| &mut clicks.callout),
            BackgroundKind::Visits => None,
        }
    }
}

/// Hash of the control planes whose feed is followed; `None` without a feed.
fn feed_source(settings: &Settings) -> Option<u64> {
    Some(fnv_1a(format!("{:?}", settings.feed_source()?).as_bytes()))
}

/// The places in shared data from which the feed can be gone on with.
fn feed_places(data: &mut impl SharedData, settings: &Settings) -> Option<FeedPlaces> {
    FeedPlaces::read(data, feed_source(settings)?)
}

/// Takes all clicks and events counted since the last batch.
fn take_counted(
    caches: &mut Caches,
    events: &mut ClickEvents,
    gathered: &mut Vec<Gathered>,
) -> Counted {
    let mut gathered = std::mem::take(gathered);
    gathered.push(events.take());
    let tallied = caches.take_clicks();
    Counted { tallied, gathered }
}

impl Edge {
    /// Maximum length of the answer to that callout, in bytes. A longer body is not worth reading.
    #[must_use]
    pub fn max_body_bytes(&self, token: Token) -> usize {
        let background = &self.background;
        match (background.carries(token), &background.snapshots) {
            (Some(BackgroundKind::Snapshot), Some(snapshots)) => snapshots.max_body_bytes(),
            (Some(BackgroundKind::Poll), _) => poll::MAX_BODY_BYTES,
            _ => MAX_BODY_BYTES,
        }
    }

    pub(super) fn on_background_sent(&mut self, kind: BackgroundKind, token: Token) {
        match self.background.callout_mut(kind) {
            Some(callout) => callout.on_sent(token),
            None if kind == BackgroundKind::Visits => self.background.visits.on_sent(token),
            None => {}
        }
    }

    pub(super) fn on_background_refused(
        &mut self,
        host: &mut (impl SharedData + Log),
        (kind, token): (BackgroundKind, Option<Token>),
        now: Moment,
    ) {
        if token.is_some_and(|token| self.background.carries(token) != Some(kind)) {
            return;
        }
        if kind == BackgroundKind::Visits {
            let visits = &mut self.background.visits;
            let failures = match token {
                Some(token) => visits.on_failure(token, now),
                None => visits.on_refused(now),
            };
            return self.note_failure(host, kind, (CalloutError::Reset, failures));
        }
        self.fail_background(host, kind, CalloutError::Reset, now);
    }

    /// Applies other settings, before they become the settings of the worker. Parts whose settings have not changed are kept,
    /// including callouts in flight.
    pub(super) fn configure_background(&mut self, settings: &Settings) {
        self.gate
            .configure(settings.background.admission_silence_millis);
        self.api_domains.configure(settings.api_domains);
        let is_same_feed = settings.feed_source() == self.settings.feed_source();
        if !is_same_feed {
            // There may be a gap between the end of one feed and the beginning of the other.
            self.gate.restart();
            self.api_domains.restart();
        }
        let BackgroundCallouts { name, seed, .. } = self.background;
        if settings.clicks.is_none() {
            self.end_clicks();
        }
        let leases = Leases::new(name, settings.max_limited_links, self.hasher.clone());
        let background = BackgroundCallouts::new(settings, leases, name, seed);
        let before = std::mem::replace(&mut self.background, background);
        self.background.visits = before.visits;
        self.background.visits.configure(settings);
        if is_same_feed && settings.background.snapshot == self.settings.background.snapshot {
            self.background.snapshots = before.snapshots;
        }
        if is_same_feed {
            self.background.warm = before.warm;
        }
        if is_same_feed
            && let (Some(mut poll), Some(settings)) = (before.poll, &settings.background.poll)
        {
            poll.configure(settings.clone(), seed);
            self.background.poll = Some(poll);
        }
        match (before.clicks.or(before.clicks_before), &settings.clicks) {
            (Some(mut clicks), Some(settings)) => {
                clicks.configure(settings.clone(), seed);
                self.background.clicks = Some(clicks);
            }
            (clicks, _) => self.background.clicks_before = clicks,
        }
    }

    /// Drops the clicks that were not reported yet.
    pub(super) fn end_clicks(&mut self) {
        let seconds = self.wall.seconds(self.now);
        if let Some(clicks) = &mut self.background.clicks {
            let counted = take_counted(&mut self.caches, &mut self.events, &mut self.gathered);
            clicks.end(counted, self.now, seconds, &mut self.counts);
        }
    }

    /// Updates caches, admission and Redis with the progress of the feed.
    pub(super) fn rely_on_feed(&mut self, now: Moment) {
        let reading = self.reading();
        let coverage = reading.and_then(|reading| {
            let (since, read_until) = (reading.since, reading.read_until?);
            Some(Coverage { since, read_until })
        });
        let begun = reading.map(|reading| reading.since);
        self.caches.on_time(now, begun, coverage);
        let read_until = coverage.map(|coverage| coverage.read_until);
        self.gate.on_time(read_until);
        self.api_domains.on_time(read_until);
        let poll = self.background.poll.as_ref();
        if let Some(place) = poll.and_then(Poll::place) {
            self.gate.begin(place);
            self.api_domains.begin(place);
        }
        let beat = reading.and_then(|reading| reading.beat).zip(read_until);
        let view = beat.map(|(beat, read_until)| FeedView { beat, read_until });
        self.redis
            .set_feed(view, self.settings.lifetimes.fresh_millis);
    }

    pub(super) fn reading(&self) -> Option<Reading> {
        let reading = self.background.poll.as_ref()?.reading()?;
        Some(Reading {
            // A record requested in the same millisecond may be from before.
            since: reading.since.after(1),
            ..reading
        })
    }

    /// The callouts that are due.
    pub(super) fn tick_background(
        &mut self,
        host: &mut (impl SharedData + Log),
        now: Moment,
    ) -> Vec<BackgroundCallout> {
        for kind in BackgroundKind::ALL {
            let callout = self.background.callout(kind);
            if callout.is_some_and(|callout| callout.is_overdue(now.millis())) {
                self.fail_background(host, kind, CalloutError::Timeout, now);
            }
        }
        for failures in self.background.visits.give_up(now) {
            let (kind, why) = (BackgroundKind::Visits, CalloutError::Timeout);
            self.note_failure(host, kind, (why, failures));
        }
        if !self.has_traffic {
            return Vec::new();
        }
        self.warm_up(host, decoded::PART);
        let background = &mut self.background;
        if let Some(snapshots) = &mut background.snapshots
            && (self.gate.wants_snapshot() || self.api_domains.wants_snapshot())
        {
            snapshots.renew();
        }
        if let (Some(poll), None) = (&mut background.poll, &background.snapshots) {
            poll.begin(feed_places(host, &self.settings));
        }
        self.note_feed_place(host, now);
        let background = &mut self.background;
        let seconds = self.wall.seconds(now);
        self.event_rules.forget_keys(seconds);
        self.events.forget_visitors(&self.event_rules, seconds);
        let is_quiet = !std::mem::take(&mut self.is_busy);
        if let Some(clicks) = &mut background.clicks
            && (clicks.is_flush_due(now, is_quiet)
                || self.events.is_half_full()
                || !self.gathered.is_empty())
        {
            let counted = take_counted(&mut self.caches, &mut self.events, &mut self.gathered);
            clicks.flush(counted, now, seconds, &mut self.counts);
        }
        background.visits.leases.on_tick(now);
        let callouts = BackgroundKind::ALL.map(|kind| self.ask_background(kind, now));
        let mut callouts: Vec<_> = callouts.into_iter().flatten().collect();
        // Several requests for returns go out at a time.
        while let Some(callout) = self.ask_background(BackgroundKind::Visits, now) {
            callouts.push(callout);
        }
        callouts
    }

    fn ask_background(&mut self, kind: BackgroundKind, now: Moment) -> Option<BackgroundCallout> {
        let seconds = self.wall.seconds(now);
        let clicks = self.background.clicks.as_mut();
        let clicks = clicks.filter(|_| kind == BackgroundKind::Clicks);
        let is_due = clicks.is_some_and(|clicks| clicks.is_health_due(now));
        let health = is_due.then(|| self.worker_health(now));
        let keys = self.event_rules.keys();
        let mut callout = self.background.ask(kind, (now, seconds), keys, health)?;
        let background = &self.background;
        // As long as a worker reports, none of its blocks are leased to others.
        let is_holder = background.visits.leases.holds_blocks();
        callout.worker = is_holder.then(|| worker_text(&background.name));
        let is_poll = kind == BackgroundKind::Poll;
        callout.poller = is_poll.then(|| worker_text(&background.name));
        Some(callout)
    }

    /// Notes in shared data where the feed is, for workers that begin later.
    fn note_feed_place(&mut self, data: &mut impl SharedData, now: Moment) {
        if now < self.background.next_place {
            return;
        }
        let poll = self.background.poll.as_ref();
        if let Some(reading) = poll.and_then(Poll::reading)
            && reading.read_until.is_some()
            && let (Some(source), Some(generation)) =
                (feed_source(&self.settings), reading.generation)
        {
            self.background.next_place = now.after(INTERVAL_MILLIS);
            let begun = FeedStart {
                position: reading.start,
                since: reading.since,
            };
            let reached = FeedStart {
                position: reading.position,
                since: now,
            };
            let longest = self.settings.lifetimes.longest_fresh_millis();
            FeedPlaces::note(data, (source, generation), (begun, reached), (now, longest));
        }
    }

    /// Age of the last read of the feed, in milliseconds; `None` before the first, and without a feed.
    #[must_use]
    pub fn feed_lag_millis(&self, now: Moment) -> Option<u64> {
        let read_until = self.reading()?.read_until?;
        Some(read_until.age(now))
    }

    /// Age in milliseconds of the oldest record that was served from a cache since the last call; `None` if none was.
    pub fn take_record_age_millis(&mut self, now: Moment) -> Option<u64> {
        Some(self.caches.take_oldest_served()?.age(now))
    }

    fn worker_health(&self, now: Moment) -> WorkerHealth {
        let lag = self.feed_lag_millis(now);
        WorkerHealth {
            worker: self.background.name,
            feed_lag_millis: lag.map(|lag| u32::try_from(lag).unwrap_or(u32::MAX)),
            is_admitting: self.gate.is_in_effect(now),
            requests: self.recent.sum(&self.counts, now),
        }
    }

    /// Inserts `most` hot links of the snapshot, the hottest last, once the feed covers them. They count as fetched when it was read,
    /// or when it began. Returns `true` if more are to be inserted.
    pub fn warm_up(&mut self, data: &mut impl SharedData, most: usize) -> bool {
        let Some(reading) = self.reading() else {
            return false;
        };
        self.is_ready |= reading
            .read_until
            .is_some_and(|until| until >= reading.since);
        let now = self.now;
        let links = self.background.warm.take(reading, most);
        let has_more = links.len() == most;
        let at = self.caches.covered_at(reading.since, reading.read_until);
        for link in links {
            if let Ok(record) = RecordBytes::decode(&link.record) {
                let update = Update {
                    record,
                    is_hot: true,
                    at,
                };
                self.caches.apply_update(data, &link.key, update, now);
            }
        }
        has_more
    }

    /// A background callout has ended. Returns the one that follows at once, if any.
    pub(super) fn on_background_end(
        &mut self,
        host: &mut (impl SharedData + Log),
        (kind, token): (BackgroundKind, Token),
        (response, decoded): (Response<'_>, Decoded<'_>),
        now: Moment,
    ) -> Option<BackgroundCallout> {
        let ended = match (kind, decoded) {
            (BackgroundKind::Snapshot, Decoded::Snapshot(snapshot)) => {
                Ok(self.end_snapshot(host, *snapshot, now))
            }
            (BackgroundKind::Poll, Decoded::Feed(batch)) => self.end_poll(host, batch, now),
            (BackgroundKind::Snapshot | BackgroundKind::Poll, _) => Err(decoded::failure(response)),
            (BackgroundKind::Clicks, _) => self.end_report(response, now),
            (BackgroundKind::Visits, _) => self.background.visits.on_answer(token, response, now),
        };
        match ended {
            Ok(failures) => {
                let outcome = BackgroundOutcome::Ok;
                self.counts.count(Metric::Background(kind, outcome));
                if failures > 0 {
                    let name = kind.name();
                    host.warn(&format!("{name}: works again, after {failures} failures"));
                }
            }
            Err(failure) if kind == BackgroundKind::Visits => {
                let failures = self.background.visits.on_failure(token, now);
                self.note_failure(host, kind, (failure, failures));
            }
            Err(failure) => self.fail_background(host, kind, failure, now),
        }
        let next = match kind {
            // The snapshot has the start position.
            BackgroundKind::Snapshot => BackgroundKind::Poll,
            kind => kind,
        };
        self.ask_background(next, now)
    }

    fn end_report(&mut self, response: Response<'_>, now: Moment) -> Result<u32, CalloutError> {
        let Some(clicks) = &mut self.background.clicks else {
            return Err(CalloutError::Reset);
        };
        let (failures, keys) = clicks.on_answer(response, now, &mut self.counts)?;
        self.event_rules.add_keys(keys);
        Ok(failures)
    }

    fn end_poll(
        &mut self,
        host: &mut (impl SharedData + Log),
        batch: DecodedFeed<'_>,
        now: Moment,
    ) -> Result<u32, CalloutError> {
        let ended = self.with_feed(|poll, feed| poll.on_answer(host, now, batch, feed));
        self.rely_on_feed(now);
        ended.unwrap_or(Err(CalloutError::Reset))
    }

    /// Applies a part of a batch that is the answer to a callout, before [`Edge::on_callout_decoded`]. Returns `false` if none is to
    /// be applied before that.
    pub fn on_feed_part(
        &mut self,
        host: &mut (impl SharedData + Log),
        token: Token,
        batch: &mut DecodedFeed<'_>,
        now: Moment,
    ) -> bool {
        self.at(now);
        let is_poll = self.background.carries(token) == Some(BackgroundKind::Poll);
        let applied =
            is_poll.then(|| self.with_feed(|poll, feed| poll.on_part(host, now, batch, feed)));
        applied.flatten().unwrap_or(false)
    }

    fn with_feed<R>(
        &mut self,
        act: impl FnOnce(&mut Poll, &mut FeedApplier<'_>) -> R,
    ) -> Option<R> {
        let BackgroundCallouts { poll, warm, .. } = &mut self.background;
        let poll = poll.as_mut()?;
        let mut feed = FeedApplier {
            caches: &mut self.caches,
            gate: &mut self.gate,
            domains: &mut self.api_domains,
            warm,
            counts: &mut self.counts,
            flights: &mut self.flights,
            read_until: poll.read_until(),
        };
        Some(act(poll, &mut feed))
    }

    /// Applies a snapshot. Returns the number of consecutive failures before it.
    fn end_snapshot(
        &mut self,
        data: &mut impl SharedData,
        decoded: DecodedSnapshot<'_>,
        now: Moment,
    ) -> u32 {
        let DecodedSnapshot { snapshot, links } = decoded;
        let place = FeedPlace {
            generation: snapshot.generation,
            position: snapshot.position,
        };
        if let Some(poll) = &mut self.background.poll {
            poll.begin_at(place, feed_places(data, &self.settings), now);
        }
        self.background.warm.keep(place, links);
        self.rely_on_feed(now);
        self.api_domains.apply_snapshot(&snapshot, now);
        let is_of_use = self.gate.apply_snapshot(snapshot) || !self.gate.wants_snapshot();
        let is_of_use = is_of_use && !self.api_domains.wants_snapshot();
        let Some(snapshots) = &mut self.background.snapshots else {
            return 0;
        };
        if is_of_use {
            return snapshots.meet(now);
        }
        // It is older than the position in the feed: the next one, after a pause, will not be.
        snapshots.retry(now);
        0
    }

    fn fail_background(
        &mut self,
        host: &mut (impl SharedData + Log),
        kind: BackgroundKind,
        why: CalloutError,
        now: Moment,
    ) {
        let callout = self.background.callout_mut(kind);
        let failures = callout.map_or(0, |callout| callout.fail(now.millis()));
        self.note_failure(host, kind, (why, failures));
        if let (BackgroundKind::Poll, CalloutError::Answer(_), 1) = (kind, why, failures)
            && let Some(callout) = self.background.callout_mut(kind)
        {
            // Its feed is silent, or behind. The next request goes to another control plane, which may have read further.
            callout.end_pause(now.millis());
        }
        if let (BackgroundKind::Snapshot, Some(poll)) = (kind, &mut self.background.poll) {
            // The feed does not wait for a snapshot that may never come.
            poll.begin(feed_places(host, &self.settings));
        }
        if kind == BackgroundKind::Snapshot {
            self.api_domains.on_failure();
        }
    }

    /// Counts a failure, and logs the first of a series.
    fn note_failure(
        &mut self,
        log: &mut impl Log,
        kind: BackgroundKind,
        (why, failures): (CalloutError, u32),
    ) {
        let outcome = BackgroundOutcome::Failed;
        self.counts.count(Metric::Background(kind, outcome));
        if failures == 1 {
            log.warn(&format!("{}: failed, {why}; retrying", kind.name()));
        }
    }
}
