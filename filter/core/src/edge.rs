//! A worker's edge: requests, ends of callouts, bytes from Redis and ticks go in; answers and callouts come out.

mod action;
mod answers;
mod background;
mod domains;
mod forms;
mod hits;
mod redis;
mod requests;
mod roots;
mod tiers;
mod visits;

use crate::admission::Gate;
use crate::answer::Answer;
use crate::api_domains::ApiDomains;
use crate::cache::{Caches, Fetched, Found, Inserted, Lookup, Source};
use crate::clicks::{ClickEvents, EventRules, Gathered};
use crate::control_plane::callout::{self, CalloutError, LookupCallout, LookupReply, Response};
use crate::control_plane::{BackgroundKind, Callout, Decoded};
use crate::flights::{Completed, FlightBounds, FlightId, Flights, Purpose, StreamId, Token};
use crate::forms::{FormEnd, FormResult, Forms};
use crate::host::{Clients, Log, Lookups, SharedData};
use crate::limit::AddressLimit;
use crate::metrics::{
    CalloutOutcome, Counts, Levels, Metric, Metrics, RecentRequests, Shares, Tier,
};
use crate::request::{Head, Headers};
use crate::settings::Settings;
use crate::time::{Moment, WallClock};
use crate::traces::Traces;
use crate::visits::Leases;
use action::Uses;
pub use action::{Action, Again, Resumed};
use edgelink_wire::record::RecordKind;
pub use hits::{Hit, HitNotes, WithinLimit};
pub use roots::RootId;

use edgelink_wire::breaker::CircuitBreaker;
use edgelink_wire::clicks::WorkerId;
use edgelink_wire::domain_record::is_key_of_domain;
use foldhash::SharedSeed;
use foldhash::fast::SeedableRandomState;
use std::net::IpAddr;
use std::sync::{Arc, OnceLock};

/// Milliseconds within which a feed should begin. Until then, nothing counts as fresh.
const FEED_BEGINS_WITHIN_MILLIS: u64 = 2_000;

/// Milliseconds beyond the timeout after which a lookup is given up even if the proxy has not reported its end, as when the
/// context that made the callout is gone.
const GRACE_MILLIS: u64 = 1_000;

/// Number of consecutive timeouts of lookups that opens the circuit. A control plane that refuses or answers nonsense does
/// so at once, and may do so for one link only. One that lets callouts time out makes visitors wait in vain, so only
/// timeouts count.
const TIMEOUTS_TO_OPEN: u32 = 8;

/// Maximum number of repetitions of a lookup whose link has changed while it was in flight.
const MAX_REPEATS: u32 = 3;

/// A worker's state: its settings, caches, lookups and connections.
pub struct Edge {
    /// Settings of the worker: of the root context that was configured last.
    settings: Arc<Settings>,
    /// Settings of the root context of the current request.
    here: Arc<Settings>,
    roots: roots::Roots,
    now: Moment,
    wall: WallClock,
    seed: u64,
    limit: AddressLimit,
    caches: Caches,
    event_rules: EventRules,
    events: ClickEvents,
    /// Events of threads that read the edge side by side ([`Edge::on_hit`]), for the next batch.
    gathered: Vec<Gathered>,
    flights: Flights,
    /// Requests for visits in flight.
    visits: Flights,
    /// Lookups to be sent with the next tick, such as those whose callouts ended with the root context that made them.
    lost: Vec<FlightId>,
    redis: redis::RedisTier,
    gate: Gate,
    api_domains: ApiDomains,
    background: background::BackgroundCallouts,
    hasher: SeedableRandomState,
    forms: Forms,
    traces: Traces,
    /// Set once a request has come.
    has_traffic: bool,
    /// Set if a request has come since the last tick.
    is_busy: bool,
    /// Set once the worker has everything it needs before visitors come; without a feed, from the start.
    is_ready: bool,
    breaker: CircuitBreaker,
    lookup_state: LookupState,
    counts: Counts,
    recent: RecentRequests,
    shares: Shares,
    /// The address of the client of the current request, if it was read.
    address: Option<IpAddr>,
    /// The key of the current request; here so that it is allocated once.
    key: Vec<u8>,
    /// Offset of the code in it.
    code_at: usize,
}

/// Result of the last lookup: only transitions are logged, not every failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LookupState {
    Answering,
    Failing,
}

/// The next step for a request; `A` is the answer in its current form.
#[derive(Debug)]
pub enum Step<A> {
    /// The request is not ours: it passes untouched.
    Pass,
    /// Answer it, and then send the callout, if there is one, for later requests.
    Answer(A, Option<LookupCallout>),
    /// Pause it, and send the callout, if there is one.
    Wait(Option<LookupCallout>),
    /// It is a form: hold its headers, let its body come ([`Edge::on_form_body`]), and send the callout, if there is one. Answer
    /// the other form that has ended for it, if there is one, but not before the callback has returned.
    Hold(Option<LookupCallout>, Option<FormEnd>),
}

impl<A> Step<A> {
    /// Converts the answer.
    pub fn map<B>(self, form: impl FnOnce(A) -> B) -> Step<B> {
        match self {
            Self::Pass => Step::Pass,
            Self::Answer(answer, callout) => Step::Answer(form(answer), callout),
            Self::Wait(callout) => Step::Wait(callout),
            Self::Hold(callout, ended) => Step::Hold(callout, ended),
        }
    }
}

/// Progress of a request whose domain is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Patience {
    /// It has not waited yet: its host may be looked up at the control plane.
    Waits,
    /// It has waited for the domain of its host.
    HasWaited(Again),
}

/// The content of an immediate answer.
#[derive(Clone, Copy)]
enum AnswerContent {
    /// The record that was found.
    Found(Found),
    /// The record of a limited link of which no visits are left.
    UsedUp(Found),
    /// There is no link, according to that tier.
    NotFound(Tier),
    /// No tier could answer.
    Unavailable,
}

impl Edge {
    /// A worker with empty caches. `seed` must be random: it keeps attackers from choosing codes that collide in the worker's hash
    /// tables. So must `name`, by which the control plane knows the worker.
    #[must_use]
    pub fn new(settings: Arc<Settings>, name: WorkerId, seed: u64, wall: WallClock) -> Self {
        let hasher = SeedableRandomState::with_seed(seed.rotate_left(32), shared_seed(seed));
        let event_rules = EventRules::new(&settings);
        Self {
            now: wall.read_at(),
            wall,
            seed,
            limit: AddressLimit::new(settings.limit.clone(), hasher.clone()),
            caches: Caches::new(&settings, hasher.clone()),
            events: ClickEvents::new(&event_rules, secret(seed, name), &hasher),
            event_rules,
            gathered: Vec::new(),
            flights: Flights::new(Purpose::Links, FlightBounds::of(&settings), hasher.clone()),
            visits: Flights::new(
                Purpose::Visits,
                FlightBounds::of_visits(&settings),
                hasher.clone(),
            ),
            lost: Vec::new(),
            redis: redis::RedisTier::default(),
            gate: Gate::new(settings.background.admission_silence_millis),
            api_domains: ApiDomains::new(settings.api_domains, hasher.clone()),
            background: background::BackgroundCallouts::new(
                &settings,
                Leases::new(name, settings.max_limited_links, hasher.clone()),
                name,
                seed,
            ),
            hasher,
            forms: Forms::new(settings.max_forms),
            traces: Traces::default(),
            has_traffic: false,
            is_busy: false,
            is_ready: !settings.has_feed(),
            breaker: CircuitBreaker::new(TIMEOUTS_TO_OPEN),
            lookup_state: LookupState::Answering,
            counts: Counts::default(),
            recent: RecentRequests::default(),
            shares: Shares::new(seed.rotate_left(48)),
            address: None,
            key: Vec::new(),
            code_at: 0,
            here: Arc::clone(&settings),
            roots: roots::Roots::default(),
            settings,
        }
    }

    /// Applies other settings to the worker. Caches and waiters are kept; so are connections to Redis unless their settings
    /// have changed.
    pub fn configure(
        &mut self,
        host: &mut (impl Lookups + SharedData + Log),
        settings: Arc<Settings>,
    ) {
        if settings.redis != self.settings.redis {
            self.disconnect(host);
        }
        self.flights.set_bounds(FlightBounds::of(&settings));
        self.visits.set_bounds(FlightBounds::of_visits(&settings));
        if settings.slots != self.settings.slots {
            // Slots that were used before have missed changes since.
            self.caches.mark_all_stale(self.now);
        }
        self.limit.configure(settings.limit.as_ref());
        self.caches.configure(&settings);
        self.event_rules.configure(&settings);
        self.events.configure(&self.event_rules);
        self.forms.set_most(settings.max_forms);
        self.configure_background(&settings);
        self.here = Arc::clone(&settings);
        self.settings = settings;
        if self.has_traffic && self.reading().is_none() {
            self.await_feed();
        }
    }

    /// The settings of the worker.
    #[must_use]
    pub fn settings(&self) -> &Arc<Settings> {
        &self.settings
    }

    /// Requests are about to come: what the first one would begin, such as the feed, begins with the next tick.
    pub fn expect_requests(&mut self, now: Moment) {
        self.at(now);
        if !self.has_traffic {
            self.has_traffic = true;
            self.await_feed();
        }
    }

    /// No more requests come: leased visits are returned with the next ticks.
    pub fn retire(&mut self) {
        self.background.visits.leases.retire();
    }

    /// True if leased visits, or their uses, are not reported yet, or were not at the last tick.
    #[must_use]
    pub fn holds_visits(&self) -> bool {
        self.background.visits.leases.holds_blocks()
    }

    /// A request has come. After [`Step::Wait`], the stream waits until it is resumed or ends.
    #[inline(always)]
    pub fn on_request(
        &mut self,
        host: &mut (impl SharedData + Lookups + Log + Clients),
        stream: StreamId,
        head: &Head<'_, impl Headers>,
        now: Moment,
    ) -> Step<Answer<'_>> {
        self.begin_request(stream, now);
        if self.limit.is_on() && !self.is_within_limit(host) {
            let answer = answers::refuse_too_many(host, &self.here, &mut self.counts);
            return Step::Answer(answer, None);
        }
        self.decide_request(host, stream, head, Patience::Waits)
    }

    /// A request has come that [`Edge::on_hit`] has left to the edge.
    #[inline(always)]
    pub fn on_request_admitted(
        &mut self,
        host: &mut (impl SharedData + Lookups + Log + Clients),
        stream: StreamId,
        head: &Head<'_, impl Headers>,
        now: Moment,
        WithinLimit { address }: WithinLimit,
    ) -> Step<Answer<'_>> {
        self.begin_request(stream, now);
        self.address = address;
        self.decide_request(host, stream, head, Patience::Waits)
    }

    #[inline(always)]
    fn begin_request(&mut self, stream: StreamId, now: Moment) {
        self.at(now);
        self.is_busy = true;
        if !self.has_traffic {
            self.has_traffic = true;
            self.await_feed();
        }
        self.enter(stream);
    }

    /// A stream has ended, whether it waited or not.
    pub fn on_stream_end(&mut self, stream: StreamId) {
        self.flights.leave(stream);
        self.visits.leave(stream);
        self.api_domains.leave(stream);
        self.roots.leave(stream);
        self.forms.leave(stream);
        self.traces.leave(stream);
    }

    /// The host has sent a callout, at `now`; its response comes with the token.
    pub fn on_sent(&mut self, callout: &Callout, token: Token, now: Moment) {
        match callout {
            Callout::Lookup(lookup) => self.on_lookup_sent(lookup.flight, token, now),
            Callout::Background(background) => self.on_background_sent(background.kind, token),
            Callout::Form(form) => self.forms.on_sent(form.stream, token),
        }
    }

    /// The proxy has refused to send a callout, at `now` by the exact clock. Hosts that give a callout its token before the proxy takes
    /// it pass the token; the call is ignored then for a background callout that was given up.
    pub fn on_refused(
        &mut self,
        host: &mut (impl SharedData + Log),
        (callout, token): (&Callout, Option<Token>),
        now: Moment,
    ) -> Vec<Action> {
        match callout {
            Callout::Lookup(lookup) => self.on_lookup_refused(host, lookup.flight),
            Callout::Background(background) => {
                self.on_background_refused(host, (background.kind, token), now);
                Vec::new()
            }
            Callout::Form(form) => {
                let ended = self.forms.end(form.stream, FormResult::Unavailable);
                ended.map(Action::EndForm).into_iter().collect()
            }
        }
    }

    fn on_lookup_sent(&mut self, flight: FlightId, token: Token, now: Moment) {
        match flight.purpose() {
            Purpose::Links => self.flights.sent(flight, token, now),
            Purpose::Visits => self.visits.sent(flight, token, now),
        }
    }

    fn on_lookup_refused(
        &mut self,
        host: &mut (impl SharedData + Log),
        flight: FlightId,
    ) -> Vec<Action> {
        if flight.purpose() == Purpose::Visits {
            let completed = self.visits.complete(flight);
            let failed = completed.map(|it| self.fail_visits(it, CalloutError::Reset));
            return failed.into_iter().collect();
        }
        let Some(completed) = self.flights.complete(flight) else {
            return Vec::new();
        };
        self.count_callout(CalloutOutcome::Rejected);
        self.note(host, LookupState::Failing, "the proxy refuses to send them");
        let resumed = self.fall_back(host, completed);
        self.admit_resumed(resumed)
    }

    /// A callout has ended, at `now`. It is ignored if it is not ours, or was given up.
    pub fn on_callout_end(
        &mut self,
        host: &mut (impl SharedData + Metrics + Log),
        token: Token,
        response: Response<'_>,
        now: Moment,
    ) -> Vec<Action> {
        let kind = self.background.carries(token);
        if !matches!(kind, Some(BackgroundKind::Snapshot | BackgroundKind::Poll)) {
            return self.on_callout_decoded(host, token, (response, Decoded::Other), now);
        }
        let answer = (response, Decoded::of(response));
        let actions = self.on_callout_decoded(host, token, answer, now);
        self.warm_up(host, usize::MAX);
        actions
    }

    /// A callout has ended, at `now`, as for [`Edge::on_callout_end`], with its answer decoded. Links of a snapshot wait for
    /// [`Edge::warm_up`].
    pub fn on_callout_decoded(
        &mut self,
        host: &mut (impl SharedData + Metrics + Log),
        token: Token,
        (response, decoded): (Response<'_>, Decoded<'_>),
        now: Moment,
    ) -> Vec<Action> {
        self.at(now);
        if let Some(kind) = self.background.carries(token) {
            let answer = (response, decoded);
            let callout = self.on_background_end(host, (kind, token), answer, now);
            let undecided = self.take_undecided().map(Action::Resume);
            return callout
                .map(|callout| Action::Send(Callout::Background(callout)))
                .into_iter()
                .chain(undecided)
                .collect();
        }
        if let Some(completed) = self.visits.complete_token(token) {
            return self.on_visits_end(completed, response);
        }
        let ended = self.on_lookup_end(host, token, response, now);
        self.admit_actions(ended.into_iter().collect())
    }

    fn on_lookup_end(
        &mut self,
        host: &mut (impl SharedData + Metrics + Log),
        token: Token,
        response: Response<'_>,
        now: Moment,
    ) -> Option<Action> {
        let completed = self.flights.complete_token(token)?;
        host.record(Metric::CalloutMillis, completed.sent.age(now));
        let started = completed.asked.started;
        let answered = callout::read(response, &completed.asked.key);
        let answered = answered.and_then(|answered| answered.by_age(started.age(now)));
        let LookupReply { record, age_millis } = match answered {
            Ok(answered) => answered,
            Err(failure) => return Some(Action::Resume(self.fail(host, completed, failure))),
        };
        self.breaker.succeed();
        self.note(host, LookupState::Answering, "");
        self.count_callout(match record.kind {
            RecordKind::Link => CalloutOutcome::Ok,
            RecordKind::Absent => CalloutOutcome::Absent,
        });
        if is_key_of_domain(&completed.asked.key) {
            let answered = LookupReply { record, age_millis };
            return Some(Action::Resume(
                self.on_host_answer(host, completed, answered),
            ));
        }
        if completed.overtaken.is_ahead_of(record.rev) {
            return Some(self.ask_again(host, completed));
        }
        let fetched = Fetched {
            record,
            // Changes since the request was sent may not be in it.
            at: started.before(age_millis),
            source: Source::ControlPlane,
        };
        let inserted = self
            .caches
            .insert_fetched(host, &completed.asked, fetched, self.now);
        if inserted == Inserted::Older {
            return Some(Action::Resume(self.fall_back(host, completed)));
        }
        Some(Action::Resume(Resumed {
            waiters: completed.waiters,
            key: completed.asked.key,
            tier: Tier::ControlPlane,
            record: Some(record.bytes.to_vec()),
            visits: Uses::default(),
        }))
    }

    /// The link has changed while its lookup was in flight, and the answer is older: it goes to no visitor and into no cache. The
    /// waiters get the record from the feed, if it is still cached, and otherwise the answer to another lookup.
    fn ask_again(&mut self, data: &mut impl SharedData, completed: Completed) -> Action {
        let key = Arc::clone(&completed.asked.key);
        let is_known = matches!(self.caches.look_up(data, &key, self.now), Lookup::Fresh(_));
        let pause = self.settings.retry_after_millis;
        if is_known
            || completed.repeats >= MAX_REPEATS
            || !self.breaker.permits(self.now.millis(), pause)
        {
            return Action::Resume(self.fall_back(data, completed));
        }
        match self.flights.repeat(completed, self.now) {
            Ok(flight) => Action::Send(Callout::Lookup(LookupCallout::new(flight, &key))),
            Err(completed) => Action::Resume(self.fall_back(data, completed)),
        }
    }

    /// Time has passed. Gives up lookups that the proxy has forgotten, and flushes all counts.
    pub fn on_tick(
        &mut self,
        host: &mut (impl SharedData + Lookups + Metrics + Log),
        now: Moment,
        wall: WallClock,
    ) -> Vec<Action> {
        self.at(now);
        self.wall = wall;
        let mut actions = self.tick_redis(host, now);
        actions.extend(self.send_again(host));
        let callouts = self.tick_background(host, now);
        actions.extend(
            callouts
                .into_iter()
                .map(Callout::Background)
                .map(Action::Send),
        );
        actions.extend(self.take_undecided().map(Action::Resume));
        let control_plane = u64::from(self.settings.control_plane.timeout_millis);
        let limit = control_plane + self.redis.timeout_millis() + GRACE_MILLIS;
        let overdue = self.flights.overdue(now, limit);
        let completed = overdue
            .into_iter()
            .filter_map(|id| self.flights.complete(id));
        let completed: Vec<_> = completed.collect();
        let resumed = completed
            .into_iter()
            .map(|completed| Action::Resume(self.fail(host, completed, CalloutError::Timeout)));
        let resumed = resumed.collect();
        actions.extend(self.admit_actions(resumed));
        actions.extend(self.give_up_visits(now, limit));
        let asked_again = self.forms.ask_again().into_iter();
        actions.extend(asked_again.map(Callout::Form).map(Action::Send));
        let ends = self.forms.on_time(now).into_iter();
        actions.extend(ends.map(Action::EndForm));
        let levels = self.levels();
        self.shares.write(host, levels, self.counts.flushed(), now);
        self.recent.add(&self.counts, now);
        self.counts.flush(levels, host);
        actions
    }

    /// Repeats callouts that were lost with their root context.
    fn send_again(&mut self, data: &mut impl SharedData) -> Vec<Action> {
        let lost = std::mem::take(&mut self.lost).into_iter();
        let actions = lost.filter_map(|id| {
            if id.purpose() == Purpose::Visits {
                return self.ask_visits_again(id);
            }
            let key = self.flights.get(id)?.key;
            self.ask_control_plane(data, id, &key)
        });
        let actions = actions.collect();
        self.admit_actions(actions)
    }

    /// The worker ends: flushes its counts, and removes its part of the gauges.
    pub fn on_end(&mut self, host: &mut (impl Lookups + SharedData + Metrics + Log)) {
        self.disconnect(host);
        self.end_clicks();
        self.counts.flush(Levels::default(), host);
        self.shares.end(host);
    }

    fn levels(&self) -> Levels {
        let (entries, bytes) = self.caches.size();
        Levels::of(|gauge| match gauge {
            Metric::LruEntries => entries,
            Metric::LruBytes => bytes,
            Metric::RedisConnected => usize::from(self.redis.is_ready()),
            Metric::Admission => usize::from(self.gate.is_in_effect(self.now)),
            _ => 0,
        })
    }

    fn fail(
        &mut self,
        host: &mut (impl SharedData + Log),
        completed: Completed,
        failure: CalloutError,
    ) -> Resumed {
        if failure == CalloutError::Timeout {
            self.count_callout(CalloutOutcome::Timeout);
            self.breaker.fail(self.now.millis());
        } else {
            self.count_callout(CalloutOutcome::Failed);
            self.breaker.succeed();
        }
        self.note(host, LookupState::Failing, &failure.to_string());
        self.fall_back(host, completed)
    }

    /// The waiters of a failed lookup get the cached record, stale or not.
    fn fall_back(&mut self, data: &mut impl SharedData, completed: Completed) -> Resumed {
        if let Some(first) = completed.waiters.first() {
            self.enter(first.stream);
        }
        if is_key_of_domain(&completed.asked.key) {
            self.api_domains.on_unanswered(self.now);
        }
        let found = match self.caches.look_up(data, &completed.asked.key, self.now) {
            Lookup::Fresh(found) => Some(found),
            Lookup::Stale(found) => {
                self.caches.mark_failed(found, self.now);
                Some(found)
            }
            Lookup::Missing(_) => None,
        };
        Resumed {
            waiters: completed.waiters,
            key: completed.asked.key,
            tier: found.map_or(Tier::ControlPlane, |found| found.tier),
            record: found.map(|found| self.caches.record(found).to_vec()),
            visits: Uses::default(),
        }
    }

    fn count_callout(&mut self, outcome: CalloutOutcome) {
        self.counts.count(Metric::Callouts(outcome));
    }

    fn note(&mut self, log: &mut impl Log, state: LookupState, why: &str) {
        if std::mem::replace(&mut self.lookup_state, state) == state {
            return;
        }
        match state {
            LookupState::Answering => log.warn("lookups at the control plane succeed again"),
            LookupState::Failing => log.warn(&format!(
                "lookups at the control plane fail: {why}; serving stale records or 503"
            )),
        }
    }

    /// Expects the feed, if one is configured, to begin soon.
    fn await_feed(&mut self) {
        if self.settings.has_feed() {
            self.caches
                .await_feed(self.now.after(FEED_BEGINS_WITHIN_MILLIS));
        }
    }
}

/// The part of the seed that the hasher requires to be `'static`: one for all edges of a process, which starts another edge
/// after a panic. It is derived from the `seed` of the first.
fn shared_seed(seed: u64) -> &'static SharedSeed {
    static SHARED: OnceLock<SharedSeed> = OnceLock::new();
    SHARED.get_or_init(|| SharedSeed::from_u64(seed))
}

/// A key that does not leave the worker, derived from its seed and its name, which are random.
fn secret(seed: u64, mut name: WorkerId) -> [u8; 16] {
    for (byte, secret) in name.iter_mut().zip(seed.rotate_left(16).to_le_bytes()) {
        *byte ^= secret;
    }
    name
}

#[cfg(test)]
mod tests;
