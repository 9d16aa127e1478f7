//! The edge with its host and the waiting requests.
//!
//! The first waiting request of a worker is woken by that worker itself. The proxy calls that hook after the requests at hand, so
//! what they have gathered goes out together.

use crate::control_plane::CalloutAnswer;
use crate::host::{Host, Visited};
use crate::metrics::MetricChanges;
use crate::orders::Order;
use crate::panics;
use crate::proxy::{Request, Wake, Waker};
use crate::redis::Receiver;
use crate::reply::LocalReply;
use crate::system;
use crate::turns::OfTurns;
use edgelink_filter_core::control_plane::callout::Response;
use edgelink_filter_core::control_plane::{Callout, Decoded, DecodedFeed};
use edgelink_filter_core::edge::{
    Action, Again, Edge, HitNotes, Resumed, RootId, Step, WithinLimit,
};
use edgelink_filter_core::flights::{StreamId, Token, Waiter};
use edgelink_filter_core::forms::{FormEnd, FormStep};
use edgelink_filter_core::host::{Clients, ConnectionToken, RedisEvent};
use edgelink_filter_core::random;
use edgelink_filter_core::request::{Head, Headers};
use edgelink_filter_core::settings::Settings;
use edgelink_filter_core::time::{Moment, WallClock};
use edgelink_wire::{TRACEPARENT, clicks, link_batch};
use std::collections::HashMap;
use std::sync::Arc;
use std::thread::{self, ThreadId};
use std::time::{SystemTime, UNIX_EPOCH};

/// The edge with its host and the waiting requests.
pub(crate) struct Worker<W> {
    pub(crate) edge: Edge,
    pub(crate) host: Host,
    edge_name: Option<Arc<str>>,
    waiting: Waiting<W>,
    last_stream: StreamId,
    /// The request that is woken once its worker, identified by its thread, has no more requests at hand.
    flusher: Option<(StreamId, ThreadId)>,
}

/// The most hot links that are inserted in a turn.
const WARM_PART: usize = 256;

/// The waiting requests.
type Waiting<W> = HashMap<StreamId, Waits<W>>;

/// The part of a worker that survives a panic.
pub(crate) struct Rest<W> {
    waiting: Waiting<W>,
    last_stream: StreamId,
    changes: MetricChanges,
}

/// A waiting request.
struct Waits<W> {
    root: RootId,
    waker: OfTurns<W>,
    /// Events since it was last woken.
    events: Vec<Event>,
}

/// An event for a waiting request.
pub(crate) enum Event {
    /// Its lookup is complete.
    Resumed(Waiter, Arc<Resumed>),
    /// The result of its form is known.
    FormEnd(FormEnd),
    /// It must be decided again.
    Again,
}

/// The arrival of a request to be decided.
#[derive(Clone, Copy)]
pub(crate) enum Arrival {
    /// It is new.
    New,
    /// It is within the limit of its address.
    Admitted(WithinLimit),
    /// It has waited for its domain.
    Again(Again),
}

/// The decision about a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decided {
    /// It continues with the next filter.
    Passes,
    /// It is answered: the reply is written.
    Answered,
    /// It waits.
    Waits,
    /// It is a form, whose body is awaited.
    Held,
}

impl<W: Waker> Worker<W> {
    /// An empty edge.
    pub(crate) fn new(receiver: &'static dyn Receiver, settings: &Arc<Settings>) -> Self {
        let wall = wall_clock(now());
        let name = system::random_name();
        let seed = system::random().map_or_else(random::number, u64::from_le_bytes);
        Self {
            edge: Edge::new(Arc::clone(settings), name, seed, wall),
            host: Host::new(receiver),
            edge_name: host_name().map(Arc::from),
            waiting: Waiting::default(),
            last_stream: 0,
            flusher: None,
        }
    }

    /// A configuration is in effect.
    pub(crate) fn begin_root(&mut self, root: RootId, settings: Arc<Settings>) {
        self.edge.on_root(&mut self.host, root, settings);
    }

    /// A configuration has ended.
    pub(crate) fn end_root(&mut self, root: RootId) {
        self.edge.on_root_end(&mut self.host, root);
    }

    /// Requests are about to come.
    pub(crate) fn expect_requests(&mut self) {
        self.edge.expect_requests(now());
    }

    /// Allocates the number of a request.
    #[inline(always)]
    pub(crate) fn begin_stream(&mut self) -> StreamId {
        loop {
            self.last_stream = self.last_stream.wrapping_add(1);
            if self.waiting.is_empty() || !self.waiting.contains_key(&self.last_stream) {
                return self.last_stream;
            }
        }
    }

    /// Decides a request. A lookup that refreshes the record of an answer is sent with the next lookup that a request waits for, or
    /// with the tick.
    #[inline(always)]
    pub(crate) fn decide<R: Request<Waker = W>>(
        &mut self,
        (request, stream, root): (&R, StreamId, RootId),
        head: &Head<'_, R::Headers<'_>>,
        reply: &mut LocalReply,
        arrival: Arrival,
    ) -> Decided {
        let host = &mut Visited {
            host: &mut self.host,
            client: request,
        };
        let (edge, now) = (&mut self.edge, now());
        let step = match arrival {
            Arrival::New => edge.on_request(host, stream, head, now),
            Arrival::Admitted(admitted) => {
                edge.on_request_admitted(host, stream, head, now, admitted)
            }
            Arrival::Again(again) => edge.on_request_again(host, stream, head, now, again),
        };
        let (decided, callout) = match step.map(|answer| reply.write(&answer)) {
            Step::Pass => return Decided::Passes,
            Step::Answer((), None) => return Decided::Answered,
            Step::Answer((), callout) => (Decided::Answered, callout),
            Step::Wait(callout) => (Decided::Waits, callout),
            Step::Hold(callout, ended) => {
                ended.into_iter().for_each(|ended| self.end_form(ended));
                (Decided::Held, callout)
            }
        };
        if decided != Decided::Answered {
            let waits = || Waits {
                root,
                waker: OfTurns::new(request.waker()),
                events: Vec::new(),
            };
            self.waiting.entry(stream).or_insert_with(waits);
            let traceparent = head.headers.get(TRACEPARENT);
            if !traceparent.is_empty() {
                self.edge.on_trace(stream, traceparent);
            }
        }
        callout
            .into_iter()
            .for_each(|callout| self.send(Callout::Lookup(callout)));
        if self.edge.is_redis_flush_due() || self.host.wants_thread() {
            self.await_flush(stream);
        }
        decided
    }

    /// True if there are orders that the thread was not woken for. While a worker may have more, they are collected.
    #[inline(always)]
    pub(crate) fn wants_thread(&self) -> bool {
        self.flusher.is_none() && self.host.wants_thread()
    }

    /// Schedules a flush: wakes the request once its worker has no more requests at hand, unless one of that worker is scheduled
    /// already. A request of another worker does not count, because that worker may have more work.
    fn await_flush(&mut self, stream: StreamId) {
        let thread = thread::current().id();
        if self.flusher.is_some_and(|(_, of)| of == thread) {
            return;
        }
        match self.waiting.get_mut(&stream) {
            Some(waits) => {
                self.flusher = Some((stream, thread));
                waits.waker.get_mut().wake(Wake::Flush);
            }
            None => self.flush(),
        }
    }

    /// Sends the collected lookups: to Redis from here, to a control plane by the thread, which is woken next.
    pub(crate) fn flush(&mut self) {
        self.flusher = None;
        self.edge.flush_redis(&mut self.host);
    }

    /// The next event of a request, if there is one.
    pub(crate) fn next_event(&mut self, stream: StreamId) -> Option<Event> {
        let events = &mut self.waiting.get_mut(&stream)?.events;
        (!events.is_empty()).then(|| events.remove(0))
    }

    /// Continues a request that was woken.
    pub(crate) fn go_on<R: Request<Waker = W>>(
        &mut self,
        (request, stream): (&R, StreamId),
        event: Event,
        head: &Head<'_, R::Headers<'_>>,
        reply: &mut LocalReply,
    ) -> Decided {
        let root = self.waiting.get(&stream).map_or(0, |waits| waits.root);
        match event {
            Event::Resumed(form, resumed) if form.is_form => {
                self.go_on_with_form(form, &resumed, head, reply)
            }
            Event::Resumed(waiter, resumed) => match resumed.again() {
                Some(again) => {
                    let arrival = Arrival::Again(again);
                    self.decide((request, stream, root), head, reply, arrival)
                }
                None => self.answer(request, waiter, &resumed, head, reply),
            },
            Event::FormEnd(end) => {
                reply.write_form(self.edge.answer_form(&end, head));
                Decided::Answered
            }
            Event::Again => {
                self.edge.on_stream(stream, root);
                self.decide((request, stream, root), head, reply, Arrival::New)
            }
        }
    }

    fn answer(
        &mut self,
        client: &impl Clients,
        waiter: Waiter,
        resumed: &Resumed,
        head: &Head<'_, impl Headers>,
        reply: &mut LocalReply,
    ) -> Decided {
        if let Some(actions) = self.edge.admit_unlocked(client, waiter, resumed) {
            self.act_on(actions);
            return Decided::Waits;
        }
        match self.edge.answer(client, waiter, resumed, head) {
            Some(answer) => {
                reply.write(&answer);
                Decided::Answered
            }
            None => Decided::Passes,
        }
    }

    /// Continues a form once its link is known.
    fn go_on_with_form(
        &mut self,
        form: Waiter,
        resumed: &Resumed,
        head: &Head<'_, impl Headers>,
        reply: &mut LocalReply,
    ) -> Decided {
        match self.edge.on_form_link(form, resumed) {
            FormStep::Pass => {
                let actions = self.edge.release_form(form, resumed);
                self.act_on(actions);
                Decided::Held
            }
            step => self.take_step(step, head, reply),
        }
    }

    /// Executes a step of the current request's form. A form that passes continues where its lookup ends.
    pub(crate) fn take_step(
        &mut self,
        step: FormStep,
        head: &Head<'_, impl Headers>,
        reply: &mut LocalReply,
    ) -> Decided {
        match step {
            FormStep::Hold | FormStep::Pass => {}
            FormStep::End(end) => {
                reply.write_form(self.edge.answer_form(&end, head));
                return Decided::Answered;
            }
            FormStep::Ask(callout) => self.send(Callout::Form(callout)),
        }
        Decided::Held
    }

    /// A request has ended.
    pub(crate) fn end_stream(&mut self, stream: StreamId) {
        // First, so that even after a panic below nothing wakes a request that the proxy has destroyed.
        let waits = self.waiting.remove(&stream);
        if self.flusher.is_some_and(|(flusher, _)| flusher == stream) {
            self.flush();
        }
        #[cfg(feature = "testing")]
        panics::asked::panic_in("end_stream");
        self.edge.on_stream_end(stream);
        let Some(waits) = waits else {
            return;
        };
        for event in waits.events {
            if let Event::Resumed(_, resumed) = event {
                self.edge.on_unanswered(&resumed);
            }
        }
    }

    /// Time has passed. `threads` are the notes of those that read.
    pub(crate) fn tick(&mut self, threads: &mut [&mut HitNotes]) {
        // A busy worker delays the lookups of others no longer than until this tick.
        self.flush();
        #[cfg(feature = "testing")]
        panics::asked::panic_in("tick");
        let now = now();
        let wall = wall_clock(now);
        self.edge.on_hits(threads, now);
        let actions = self.edge.on_tick(&mut self.host, now, wall);
        self.act_on(actions);
        self.host.note_feed_lag(self.edge.feed_lag_millis(now));
        self.host
            .note_record_age(self.edge.take_record_age_millis(now));
    }

    /// Something has happened to a connection to Redis.
    pub(crate) fn on_redis(&mut self, event: (ConnectionToken, RedisEvent<'_>)) {
        let now = now();
        let actions = self.edge.on_redis(&mut self.host, event, now);
        self.act_on(actions);
    }

    /// Takes the orders, grouped by callout, each group with the longest permitted body of its answer in bytes.
    pub(crate) fn take_orders(&mut self) -> Vec<(Vec<Order>, usize)> {
        let groups = self.host.take_orders(now());
        let with_limit = |orders: Vec<Order>| {
            let of_one = |order: &Order| self.edge.max_body_bytes(order.token);
            let limit = match &*orders {
                [order] => of_one(order),
                orders => orders
                    .iter()
                    .map(|order| of_one(order) + link_batch::OVERHEAD)
                    .sum(),
            };
            (orders, limit)
        };
        groups.into_iter().map(with_limit).collect()
    }

    /// A callout has ended; its answer comes decoded, too.
    pub(crate) fn on_callout_end(
        &mut self,
        token: Token,
        answer: &CalloutAnswer,
        decoded: Decoded<'_>,
    ) {
        let response = answer.response();
        if self.edge.carries_form(token) {
            let ended = self.edge.on_form_end(token, response, answer.retry_after());
            return ended.into_iter().for_each(|ended| self.end_form(ended));
        }
        self.on_answer(token, (response, decoded));
    }

    /// Applies a part of a batch of the feed, before its callout ends; `false` if none is to be applied before that.
    pub(crate) fn on_feed_part(&mut self, token: Token, batch: &mut DecodedFeed<'_>) -> bool {
        self.edge.on_feed_part(&mut self.host, token, batch, now())
    }

    /// Inserts some hot links of a snapshot; `false` if none are left.
    pub(crate) fn warm_up(&mut self) -> bool {
        self.edge.warm_up(&mut self.host, WARM_PART)
    }

    /// Repeats the lookups of a batch, each alone.
    pub(crate) fn ask_alone(&mut self, orders: Vec<Order>) {
        self.host.ask_alone(orders, now());
    }

    /// Handles the response to the callout of a token.
    pub(crate) fn on_response(&mut self, token: Token, response: Response<'_>) {
        self.on_answer(token, (response, Decoded::Other));
    }

    fn on_answer(&mut self, token: Token, (response, decoded): (Response<'_>, Decoded<'_>)) {
        let limit = self.edge.max_body_bytes(token);
        let answer = if response.body.len() <= limit {
            (response, decoded)
        } else {
            let body = &[];
            (Response { body, ..response }, Decoded::Other)
        };
        let host = &mut self.host;
        let actions = self.edge.on_callout_decoded(host, token, answer, now());
        self.act_on(actions);
    }

    fn act_on(&mut self, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Resume(resumed) => self.resume(resumed),
                Action::Send(callout) => self.send(callout),
                Action::EndForm(end) => self.end_form(end),
            }
        }
    }

    fn resume(&mut self, resumed: Resumed) {
        let resumed = Arc::new(resumed);
        for waiter in &resumed.waiters {
            let event = Event::Resumed(*waiter, Arc::clone(&resumed));
            if !self.wake(waiter.stream, event) {
                self.edge.on_unanswered(&resumed);
            }
        }
    }

    fn end_form(&mut self, end: FormEnd) {
        self.wake(end.stream, Event::FormEnd(end));
    }

    /// Wakes a waiting request for an event; false if there is no such request.
    fn wake(&mut self, stream: StreamId, event: Event) -> bool {
        let Some(waits) = self.waiting.get_mut(&stream) else {
            return false;
        };
        waits.events.push(event);
        waits.waker.get_mut().wake(Wake::Event);
        true
    }

    fn send(&mut self, callout: Callout) {
        let token = Host::next_token();
        self.edge.on_sent(&callout, token, now());
        let trace = self.edge.trace_of(&callout).map(Box::from);
        self.host.order(Order {
            token,
            callout,
            trace,
            is_alone: false,
            settings: Arc::clone(self.edge.settings()),
            edge_name: self.edge_name.clone(),
        });
    }

    /// Extracts the part that survives a panic; the rest is dropped. `threads` are the notes of those that read.
    pub(crate) fn into_rest(self, threads: &mut [&mut HitNotes]) -> Rest<W> {
        let Self {
            mut edge,
            mut host,
            waiting,
            last_stream,
            ..
        } = self;
        // The edge may panic again while it ends. Its share of the gauges is subtracted.
        let ended = panics::catch("end_edge", || {
            edge.end_hits(threads);
            edge.on_end(&mut host);
            drop(edge);
        });
        let _counted = ended;
        Rest {
            waiting,
            last_stream,
            changes: host.take_changes(),
        }
    }

    /// Takes over the rest of the previous edge, and decides the waiting requests again.
    pub(crate) fn take_over(&mut self, rest: Rest<W>) {
        self.last_stream = rest.last_stream;
        self.waiting = rest.waiting;
        self.host.put_changes(rest.changes);
        for waits in self.waiting.values_mut() {
            waits.events.clear();
            waits.events.push(Event::Again);
            waits.waker.get_mut().wake(Wake::Event);
        }
    }
}

/// The name of the host, if it is valid as the name of an edge.
fn host_name() -> Option<String> {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok()?;
    clicks::edge_name(name.trim().as_bytes()).map(str::to_owned)
}

/// The reading of the clock at boot; above zero, so that earlier moments can be represented.
const START_MILLIS: u64 = 1 << 32;

/// The current moment, by the clock that includes suspension, because records age in the meantime, and that all processes share, as
/// they may share records.
pub(crate) fn now() -> Moment {
    let millis = system::millis_since_boot();
    Moment::from_millis(START_MILLIS.saturating_add(millis))
}

/// The wall clock at `now`.
fn wall_clock(now: Moment) -> WallClock {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let millis = since.map_or(0, |since| since.as_millis());
    WallClock::new(now, u64::try_from(millis).unwrap_or(u64::MAX))
}
