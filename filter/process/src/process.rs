//! The edge of a process, shared by its workers and the thread of the module.
//!
//! Requests that the cache answers read it side by side ([`Process::answer_hit`], [`turns`](crate::turns)); all else takes turns. A turn
//! is the work of `Edge` for one request, one batch of answers or one tick: no system call except a non-blocking write to Redis, and no
//! call into the proxy that could reenter. A panic in a turn ends the edge, and a new one begins, empty; waiting requests are decided
//! again.

pub(crate) mod callouts;

use crate::metrics::MetricChanges;
use crate::orders::Order;
use crate::panics::{self, Panicked};
use crate::proxy::{Request, SharedTable, Waker};
use crate::redis::Receiver;
use crate::reply::LocalReply;
use crate::routes::RouteConfig;
use crate::system;
use crate::thread;
use crate::turns::{Notes, OfTurns, Turns};
use crate::worker::{self, Arrival, Decided, Worker};
use edgelink_filter_core::answer::Answer;
use edgelink_filter_core::edge::{Hit, HitNotes, RootId};
use edgelink_filter_core::host::{ConnectionToken, RedisEvent};
use edgelink_filter_core::request::Head;
use edgelink_filter_core::settings::Settings;
use edgelink_wire::backoff::Bounds;
use std::collections::HashMap;
use std::fmt::{self, Debug, Formatter};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// The root of a configuration that is only validated.
pub const NO_ROOT: RootId = 0;

/// Set where tests of a host take the callouts in place of the client.
#[cfg(feature = "testing")]
pub(crate) static HOLDS_CALLOUTS: AtomicBool = AtomicBool::new(false);

/// An edge with its configurations, its tick and its callouts.
pub struct Process<W> {
    state: Turns<ProcessState<W>, ThreadNotes>,
    /// Milliseconds between two ticks.
    tick_millis: AtomicU32,
    is_running: AtomicBool,
    /// Wakes the thread for the orders of the edge.
    ordered: Notify,
    shared: Option<&'static dyn SharedTable>,
}

/// Wakes the proxy to take metrics ([`Process::take_metrics`]), from any thread.
pub type MetricsWaker = Box<dyn Fn() + Send>;

/// The notes of a thread for the edge; `None` before its first request.
type ThreadNotes = Option<Box<HitNotes>>;

struct ProcessState<W> {
    /// The edge; `None` without a configuration.
    worker: Option<Worker<W>>,
    /// Number of edges so far.
    begun: u64,
    /// The configurations, oldest first.
    roots: Vec<ConfigRoot>,
    /// The roots by which the edge identifies routes.
    views: HashMap<(u64, RootId), View>,
    /// The number of the last root or view.
    last_root: RootId,
    restarts: Restarts,
}

/// Backoff of restarts: delays ticks after panics.
///
/// A tick, or an answer to it from the control plane or Redis, may panic every time. Without pauses such an edge would lose its
/// cache ten times a second, and request a snapshot as often. Requests are decided in the meantime.
#[derive(Default)]
struct Restarts {
    /// Number of consecutive restarts.
    in_a_row: u32,
    last: Option<Instant>,
    next_tick: Option<Instant>,
}

impl Restarts {
    /// The longest pause bounds the delay of timeouts: they are enforced by ticks.
    const PAUSES: Bounds = Bounds {
        first_millis: 100,
        cap_millis: 5_000,
    };
    /// A restart later than this after the previous one starts a new series.
    const ROW_ENDS_AFTER: Duration = Duration::from_secs(60);

    fn note(&mut self, now: Instant) {
        let follows = |last: Instant| now.duration_since(last) < Self::ROW_ENDS_AFTER;
        self.in_a_row = if self.last.is_some_and(follows) {
            self.in_a_row.saturating_add(1)
        } else {
            1
        };
        self.last = Some(now);
        // A running pause is not extended: restarts outside of ticks must not postpone the next tick forever.
        if self.permit_tick(now) {
            let pause = Self::PAUSES.longest_millis(self.in_a_row);
            self.next_tick = now.checked_add(Duration::from_millis(pause));
        }
    }

    fn permit_tick(&self, now: Instant) -> bool {
        self.next_tick.is_none_or(|next| next <= now)
    }
}

struct ConfigRoot {
    id: RootId,
    settings: Arc<Settings>,
    metrics: OfTurns<MetricsWaker>,
}

/// The settings of a root on a route.
struct View {
    id: RootId,
    settings: Arc<Settings>,
}

impl<W> Debug for Process<W> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("Process").finish_non_exhaustive()
    }
}

impl<W: Waker> Process<W> {
    /// A process without a configuration. It lives as long as the program.
    #[must_use]
    pub fn new() -> &'static Self {
        Self::sharing(None)
    }

    /// One whose edge shares records of links with those of other processes, if its settings have slots for that.
    #[must_use]
    pub fn sharing(shared: Option<&'static dyn SharedTable>) -> &'static Self {
        Box::leak(Box::new(Self {
            state: Turns::new(ProcessState {
                worker: None,
                begun: 0,
                roots: Vec::new(),
                views: HashMap::new(),
                last_root: NO_ROOT,
                restarts: Restarts::default(),
            }),
            tick_millis: AtomicU32::new(100),
            is_running: AtomicBool::new(false),
            ordered: Notify::new(),
            shared,
        }))
    }

    /// A configuration begins, and is in effect. `metrics` is called after a tick in which metrics have changed.
    ///
    /// # Errors
    /// If the edge panicked.
    pub fn begin(
        &'static self,
        settings: Settings,
        metrics: MetricsWaker,
    ) -> Result<RootId, Panicked> {
        let settings = Arc::new(settings);
        self.tick_millis
            .store(settings.tick_millis, Ordering::Relaxed);
        let root = {
            let mut turn = self.state.turn();
            let (state, notes) = turn.parts();
            let id = state.next_root();
            state.roots.push(ConfigRoot {
                id,
                settings: Arc::clone(&settings),
                metrics: OfTurns::new(metrics),
            });
            let begun = panics::catch("begin_root", || {
                let worker = state.worker.get_or_insert_with(|| {
                    state.begun += 1;
                    Worker::new(self, &settings)
                });
                worker.edge.end_hits(&mut of_threads(notes));
                worker.begin_root(id, settings);
            });
            if let Err(panicked) = begun {
                let (state, notes) = turn.parts();
                state.roots.retain(|root| root.id != id);
                state.restart(self, notes);
                return Err(panicked);
            }
            id
        };
        if !self.is_running.swap(true, Ordering::Relaxed) {
            thread::spawn(self.keep_ticking());
            #[cfg(feature = "testing")]
            if HOLDS_CALLOUTS.load(Ordering::Relaxed) {
                return Ok(root);
            }
            thread::spawn(callouts::keep_sending(self));
        }
        Ok(root)
    }

    /// Requests are about to come: what the first one would begin, such as the feed, begins at once.
    pub fn expect_requests(&'static self) {
        let _counted = self.with(Worker::expect_requests);
    }

    /// No more requests come: leased visits are returned. Returns `true` while some of them are not.
    pub fn retire(&'static self) -> bool {
        let retired = self.with(|worker| {
            worker.edge.retire();
            worker.edge.holds_visits()
        });
        matches!(retired, Ok(Some(true)))
    }

    /// A configuration has ended.
    pub fn end(&'static self, root: RootId) {
        self.forget_views(|(_, of)| *of == root);
        let mut turn = self.state.turn();
        let (ProcessState { worker, roots, .. }, notes) = turn.parts();
        let ended = worker.as_mut().map(|worker| {
            panics::catch("end_root", || {
                worker.edge.end_hits(&mut of_threads(notes));
                worker.end_root(root);
            })
        });
        roots.retain(|other| other.id != root);
        if let Some(latest) = roots.last() {
            let tick_millis = latest.settings.tick_millis;
            self.tick_millis.store(tick_millis, Ordering::Relaxed);
        }
        let (state, notes) = turn.parts();
        if state.roots.is_empty() {
            state.worker = None;
            notes.for_each(|notes| *notes = None);
        } else if matches!(ended, Some(Err(Panicked))) {
            state.restart(self, notes);
        }
    }

    async fn keep_ticking(&'static self) {
        loop {
            let millis = self.tick_millis.load(Ordering::Relaxed);
            tokio::time::sleep(Duration::from_millis(millis.into())).await;
            let is_permitted = self.state.turn().restarts.permit_tick(Instant::now());
            if is_permitted {
                self.tick();
                self.offer_metrics();
            }
        }
    }

    /// Time has passed.
    pub(crate) fn tick(&'static self) {
        let tick = |worker: &mut Worker<W>, notes: AllNotes<'_>| {
            worker.tick(&mut of_threads(notes));
        };
        let _counted = self.with_notes(tick);
    }

    /// Wakes the proxy if metrics have changed.
    fn offer_metrics(&self) {
        let mut state = self.state.turn();
        let has_changes = |worker: &Worker<W>| worker.host.has_changes();
        if state.worker.as_ref().is_some_and(has_changes)
            && let Some(latest) = state.roots.last_mut()
        {
            latest.metrics.get_mut()();
        }
    }

    /// Takes the changes of metrics.
    #[must_use]
    pub fn take_metrics(&self) -> MetricChanges {
        let mut state = self.state.turn();
        let worker = state.worker.as_mut();
        worker.map_or_else(MetricChanges::default, |worker| worker.host.take_changes())
    }

    /// Runs `act` with the edge; `None` if there is none.
    ///
    /// # Errors
    /// If it panicked: the edge has been replaced by then.
    #[inline(always)]
    pub(crate) fn with<R>(
        &'static self,
        act: impl FnOnce(&mut Worker<W>) -> R,
    ) -> Result<Option<R>, Panicked> {
        self.with_notes(|worker, _| act(worker))
    }

    #[inline(always)]
    fn with_notes<R>(
        &'static self,
        act: impl FnOnce(&mut Worker<W>, AllNotes<'_>) -> R,
    ) -> Result<Option<R>, Panicked> {
        let mut turn = self.state.turn();
        let (state, notes) = turn.parts();
        let Some(worker) = &mut state.worker else {
            return Ok(None);
        };
        match panics::catch("edge", || act(worker, notes)) {
            Ok(done) => {
                if worker.wants_thread() {
                    worker.host.on_thread_woken();
                    self.ordered.notify_one();
                }
                Ok(Some(done))
            }
            Err(panicked) => {
                let (state, notes) = turn.parts();
                state.restart(self, notes);
                Err(panicked)
            }
        }
    }

    /// Decides a request side by side with others, if the cache or admission answers it. The error in the result is a request that
    /// needs a turn.
    ///
    /// # Errors
    /// If the edge panicked: it has been replaced by then.
    #[inline(always)]
    pub(crate) fn answer_hit<R: Request<Waker = W>>(
        &'static self,
        (request, (root, route)): (&R, (RootId, Option<&RouteConfig>)),
        head: &Head<'_, R::Headers<'_>>,
        reply: &mut LocalReply,
    ) -> Result<Result<Decided, Arrival>, Panicked> {
        let mut begun = 0;
        let hit = self.state.read(|state, notes| {
            begun = state.begun;
            let edge = &state.worker.as_ref()?.edge;
            let root = match route {
                None => root,
                Some(route) => state.views.get(&(route.id(), root))?.id,
            };
            let decide = || {
                let begin = || Box::new(edge.hit_notes(system::random_name()));
                let notes = notes.get_or_insert_with(begin);
                let write = |answer: &Answer<'_>| reply.write(answer);
                match edge.on_hit(notes, (request, root), head, worker::now(), write) {
                    Hit::Passes => Ok(Decided::Passes),
                    Hit::Answered => Ok(Decided::Answered),
                    Hit::Undecided(admitted) => Err(Arrival::Admitted(admitted)),
                }
            };
            Some(panics::catch("edge", decide))
        });
        match hit.flatten() {
            Some(Ok(decided)) => Ok(decided),
            Some(Err(panicked)) => {
                self.on_panicked_hit(begun);
                Err(panicked)
            }
            None => Ok(Err(Arrival::New)),
        }
    }

    /// A request has panicked beside others, at the edge of that number. Others may have too.
    #[cold]
    fn on_panicked_hit(&'static self, begun: u64) {
        let mut turn = self.state.turn();
        let (state, notes) = turn.parts();
        if state.begun == begun {
            state.restart(self, notes);
        }
    }

    /// Runs `act` with the edge, on a route that has a configuration of its own.
    pub(crate) fn with_route<R>(
        &'static self,
        route: &RouteConfig,
        root: RootId,
        act: impl FnOnce(&mut Worker<W>, RootId) -> R,
    ) -> Result<Option<R>, Panicked> {
        let view = self.state.turn().view(route, root);
        self.with(|worker| act(worker, view.unwrap_or(root)))
    }

    /// Waits until the edge has ordered callouts.
    pub(crate) async fn ordered(&self) {
        self.ordered.notified().await;
    }

    /// Takes the orders of the edge, grouped by callout, each group with the longest permitted body of its answer in bytes.
    pub(crate) fn take_orders(&self) -> Vec<(Vec<Order>, usize)> {
        let mut state = self.state.turn();
        let worker = state.worker.as_mut();
        worker.map(Worker::take_orders).unwrap_or_default()
    }

    /// The configuration of a route has ended.
    pub fn forget_route(&self, route: &RouteConfig) {
        self.forget_views(|(of, _)| *of == route.id());
    }

    fn forget_views(&self, is_it: impl Fn(&(u64, RootId)) -> bool) {
        let mut state = self.state.turn();
        let ProcessState { views, worker, .. } = &mut *state;
        views.retain(|key, view| {
            let is_it = is_it(key);
            if let Some(worker) = worker.as_mut().filter(|_| is_it) {
                worker.edge.on_route_end(view.id);
            }
            !is_it
        });
    }
}

/// The notes of all threads.
type AllNotes<'t> = Notes<'t, ThreadNotes>;

/// The notes of threads that have some.
fn of_threads(notes: AllNotes<'_>) -> Vec<&mut HitNotes> {
    notes.filter_map(Option::as_deref_mut).collect()
}

impl<W: Waker> Receiver for Process<W> {
    fn on_redis(&'static self, event: (ConnectionToken, RedisEvent<'_>)) -> bool {
        self.with(|worker| worker.on_redis(event)).is_ok()
    }

    fn shared(&self) -> Option<&'static dyn SharedTable> {
        self.shared
    }
}

impl<W: Waker> ProcessState<W> {
    fn next_root(&mut self) -> RootId {
        self.last_root = self.last_root.wrapping_add(1).max(NO_ROOT + 1);
        self.last_root
    }

    /// The root by which the edge identifies a route.
    fn view(&mut self, route: &RouteConfig, root: RootId) -> Option<RootId> {
        let key = (route.id(), root);
        if let Some(view) = self.views.get(&key) {
            return Some(view.id);
        }
        let of_root = self.roots.iter().find(|other| other.id == root)?;
        let settings = Arc::new(route.settings(&of_root.settings));
        let id = self.next_root();
        let worker = self.worker.as_mut()?;
        worker.edge.on_route(id, Arc::clone(&settings));
        self.views.insert(key, View { id, settings });
        Some(id)
    }

    /// Replaces the edge after a panic: a new one with the same configurations decides the waiting requests again.
    #[cold]
    fn restart(&mut self, process: &'static Process<W>, notes: AllNotes<'_>) {
        let Some(before) = self.worker.take() else {
            return;
        };
        let Some(first) = self.roots.first() else {
            return;
        };
        self.restarts.note(Instant::now());
        let mut notes: Vec<_> = notes.collect();
        let threads = notes.iter_mut().filter_map(|notes| notes.as_deref_mut());
        let rest = before.into_rest(&mut threads.collect::<Vec<_>>());
        notes.into_iter().for_each(|notes| *notes = None);
        self.begun += 1;
        // A second panic, over the configurations themselves, leaves no edge: requests pass then, until the next configuration
        // begins.
        let begun = panics::catch("begin_again", || {
            let mut worker = Worker::new(process, &first.settings);
            for root in &self.roots {
                worker.begin_root(root.id, Arc::clone(&root.settings));
            }
            for view in self.views.values() {
                worker.edge.on_route(view.id, Arc::clone(&view.settings));
            }
            worker.take_over(rest);
            worker
        });
        self.worker = begun.ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tick_when_restarts_repeat_waits_longer() {
        let start = Instant::now();
        let mut restarts = Restarts::default();
        assert!(restarts.permit_tick(start));
        let mut now = start;
        for millis in [100, 200, 400, 800, 1_600, 3_200, 5_000, 5_000] {
            restarts.note(now);
            let pause = Duration::from_millis(millis);
            assert!(!restarts.permit_tick(now + pause - Duration::from_millis(1)));
            now += pause;
            assert!(restarts.permit_tick(now), "after {millis} ms");
        }
        now += Restarts::ROW_ENDS_AFTER;
        restarts.note(now);
        assert!(restarts.permit_tick(now + Duration::from_millis(100)));
    }

    #[test]
    fn tick_when_requests_keep_restarting_is_still_permitted() {
        let start = Instant::now();
        let mut restarts = Restarts::default();
        let moments = (0..600).map(|n| start + Duration::from_millis(100) * n);
        let permitted = moments.filter(|now| {
            let permitted = restarts.permit_tick(*now);
            restarts.note(*now);
            permitted
        });
        assert!(permitted.count() > 12, "of a minute, each 5 s at least");
    }
}
