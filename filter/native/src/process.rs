//! The edge of a process, shared in turns by its workers, the main thread and the thread of the module.
//!
//! A turn is the work of `Edge` for one request, one batch of answers or one tick: no system call except a non-blocking write to
//! Redis, and no call into Envoy that could reenter. A panic in a turn ends the edge, and a new one begins, empty; waiting requests
//! are decided again.

use crate::abi::MainScheduler;
use crate::metrics::{DefinedMetrics, MetricChanges};
use crate::orders::Order;
use crate::panics::{self, Panicked};
use crate::redis::{self, Receiver};
use crate::routes::RouteConfig;
use crate::worker::Worker;
use edgelink_filter_core::edge::RootId;
use edgelink_filter_core::host::{ConnectionToken, RedisEvent};
use edgelink_filter_core::settings::Settings;
use edgelink_wire::backoff::Bounds;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A configuration as held by Envoy.
pub(crate) struct Config {
    pub(crate) process: &'static Process,
    /// The number by which the edge identifies it; [`NO_ROOT`] for a configuration that is only validated.
    pub(crate) root: RootId,
    pub(crate) metrics: DefinedMetrics,
}

/// The root of a configuration that is only validated.
pub(crate) const NO_ROOT: RootId = 0;

/// All edges of the process: one for each name of a configuration.
static PROCESSES: Mutex<Vec<&'static Process>> = Mutex::new(Vec::new());

/// An edge with its configurations and its tick.
pub(crate) struct Process {
    name: Box<[u8]>,
    state: Mutex<ProcessState>,
    /// Milliseconds between two ticks.
    tick_millis: AtomicU32,
    is_ticking: AtomicBool,
}

#[derive(Default)]
struct ProcessState {
    /// The edge; `None` without a configuration.
    worker: Option<Worker>,
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
    scheduler: MainScheduler,
}

/// The settings of a root on a route.
struct View {
    id: RootId,
    settings: Arc<Settings>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Panics are caught while the lock is held, so it cannot be poisoned by them.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The configuration of a route has ended.
pub(crate) fn forget_route(route: &RouteConfig) {
    for process in &*lock(&PROCESSES) {
        process.forget_views(|(of, _)| *of == route.id());
    }
}

impl Process {
    /// The process with this name. It lives as long as the program: there is one for each name of a configuration.
    pub(crate) fn named(name: &[u8]) -> &'static Self {
        let mut processes = lock(&PROCESSES);
        let found = processes.iter().find(|process| *process.name == *name);
        if let Some(process) = found {
            return process;
        }
        let process: &'static Self = Box::leak(Box::new(Self {
            name: name.into(),
            state: Mutex::default(),
            tick_millis: AtomicU32::new(100),
            is_ticking: AtomicBool::new(false),
        }));
        processes.push(process);
        process
    }

    /// A configuration begins, and is in effect.
    ///
    /// # Errors
    /// If the edge panicked.
    pub(crate) fn begin(
        &'static self,
        settings: Settings,
        scheduler: MainScheduler,
    ) -> Result<RootId, Panicked> {
        let settings = Arc::new(settings);
        self.tick_millis
            .store(settings.tick_millis, Ordering::Relaxed);
        let root = {
            let mut state = lock(&self.state);
            let id = state.next_root();
            state.roots.push(ConfigRoot {
                id,
                settings: Arc::clone(&settings),
                scheduler,
            });
            let worker = state
                .worker
                .get_or_insert_with(|| Worker::new(self, &settings));
            if let Err(panicked) = panics::catch(|| worker.begin_root(id, settings)) {
                state.roots.retain(|root| root.id != id);
                state.restart(self);
                return Err(panicked);
            }
            id
        };
        if !self.is_ticking.swap(true, Ordering::Relaxed) {
            redis::spawn(self.keep_ticking());
        }
        Ok(root)
    }

    /// A configuration has ended.
    pub(crate) fn end(&'static self, root: RootId) {
        self.forget_views(|(_, of)| *of == root);
        let mut state = lock(&self.state);
        let ProcessState { worker, roots, .. } = &mut *state;
        let ended = worker
            .as_mut()
            .map(|worker| panics::catch(|| worker.end_root(root)));
        roots.retain(|other| other.id != root);
        if let Some(latest) = roots.last() {
            let tick_millis = latest.settings.tick_millis;
            self.tick_millis.store(tick_millis, Ordering::Relaxed);
        }
        if roots.is_empty() {
            state.worker = None;
        } else if matches!(ended, Some(Err(Panicked))) {
            state.restart(self);
        }
    }

    async fn keep_ticking(&'static self) {
        loop {
            let millis = self.tick_millis.load(Ordering::Relaxed);
            tokio::time::sleep(Duration::from_millis(millis.into())).await;
            if lock(&self.state).restarts.permit_tick(Instant::now()) {
                let _counted = self.with(Worker::tick);
            }
        }
    }

    /// Runs `act` with the edge; `None` if there is none.
    ///
    /// # Errors
    /// If it panicked: the edge has been replaced by then.
    #[inline(always)]
    pub(crate) fn with<R>(
        &'static self,
        act: impl FnOnce(&mut Worker) -> R,
    ) -> Result<Option<R>, Panicked> {
        let mut state = lock(&self.state);
        let Some(worker) = &mut state.worker else {
            return Ok(None);
        };
        let turn = || {
            #[cfg(test)]
            panics::asked::panic_in("edge");
            act(worker)
        };
        match panics::catch(turn) {
            Ok(done) => {
                if worker.wants_main_thread() {
                    state.wake_main_thread();
                }
                Ok(Some(done))
            }
            Err(panicked) => {
                state.restart(self);
                Err(panicked)
            }
        }
    }

    /// Runs `act` with the edge, on a route that has a configuration of its own.
    pub(crate) fn with_route<R>(
        &'static self,
        route: &RouteConfig,
        root: RootId,
        act: impl FnOnce(&mut Worker, RootId) -> R,
    ) -> Result<Option<R>, Panicked> {
        let view = lock(&self.state).view(route, root);
        self.with(|worker| act(worker, view.unwrap_or(root)))
    }

    /// Takes the work of the main thread for a configuration: none if another one is the home of the edge.
    pub(crate) fn take_orders(&self, root: RootId) -> Option<(Vec<Vec<Order>>, MetricChanges)> {
        let mut state = lock(&self.state);
        let worker = state.worker.as_mut()?;
        if worker.edge.home() == Some(root) {
            return Some(worker.take_orders());
        }
        if worker.host.has_orders() {
            state.wake_main_thread();
        }
        None
    }

    fn forget_views(&self, is_it: impl Fn(&(u64, RootId)) -> bool) {
        let mut state = lock(&self.state);
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

impl Receiver for Process {
    fn on_redis(&'static self, event: (ConnectionToken, RedisEvent<'_>)) -> bool {
        self.with(|worker| worker.on_redis(event)).is_ok()
    }
}

impl ProcessState {
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

    #[cold]
    fn wake_main_thread(&mut self) {
        let home = self.worker.as_mut().and_then(|worker| worker.edge.home());
        let home = self.roots.iter().find(|root| Some(root.id) == home);
        if let (Some(home), Some(worker)) = (home, &mut self.worker) {
            worker.host.is_main_thread_woken = true;
            home.scheduler.wake();
        }
    }

    /// Replaces the edge after a panic: a new one with the same configurations decides the waiting requests again.
    #[cold]
    fn restart(&mut self, process: &'static Process) {
        let Some(before) = self.worker.take() else {
            return;
        };
        let Some(first) = self.roots.first() else {
            return;
        };
        self.restarts.note(Instant::now());
        let rest = before.into_rest();
        // A second panic, over the configurations themselves, leaves no edge: requests pass then, until the next configuration
        // begins.
        let begun = panics::catch(|| {
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
