//! An Envoy process, driven by a test.

use super::hostcalls::metric::Metric;
use super::module::Module;
use super::plugin::{Cluster, FailurePolicy, Plugin};
use super::shared::{LogLine, Shared, Thread};
use super::vm::{StartError, StartFailure, Vm};
use super::worker::Worker;
use std::rc::Rc;
use std::time::Duration;

/// Start of the virtual clock: 2026-01-01.
const START: Duration = Duration::from_secs(1_767_225_600);

/// Configuration of a fleet.
#[derive(Clone, Debug)]
pub struct FleetBuilder {
    module: Module,
    plugin: Plugin,
    workers: usize,
}

impl FleetBuilder {
    /// Sets the plugin configuration.
    #[must_use]
    pub fn configuration(mut self, configuration: impl Into<Vec<u8>>) -> Self {
        self.plugin.configuration = configuration.into();
        self
    }

    /// Adds a cluster that callouts may go to.
    #[must_use]
    pub fn cluster(mut self, name: &str, cluster: Cluster) -> Self {
        self.plugin
            .clusters
            .insert(name.as_bytes().to_vec(), cluster);
        self
    }

    /// Sets the reaction to a trap.
    #[must_use]
    pub fn failure_policy(mut self, policy: FailurePolicy) -> Self {
        self.plugin.failure_policy = policy;
        self
    }

    /// Lets the filter hold headers and see the body.
    #[must_use]
    pub fn allow_on_headers_stop_iteration(mut self) -> Self {
        self.plugin.allow_on_headers_stop_iteration = true;
        self
    }

    /// Sets the number of worker threads; the default is one.
    #[must_use]
    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = workers;
        self
    }

    /// Starts it as Envoy does: a canary that is discarded, the main thread, then the workers.
    ///
    /// # Errors
    /// Fails if the plugin does not start.
    pub fn start(self) -> Result<Fleet, StartError> {
        let shared = Rc::new(Shared::new(START));
        let plugin = Rc::new(self.plugin);
        let start = |thread| Worker::start(thread, &self.module, &shared, &plugin);
        let threads = || -> Result<(Worker, Vec<Worker>), StartFailure> {
            Vm::start(&self.module, &shared, &plugin, Thread::Canary, 0)?;
            let main = start(Thread::Main)?;
            let workers = (0..self.workers).map(|index| start(Thread::Worker(index)));
            Ok((main, workers.collect::<Result<_, _>>()?))
        };
        match threads() {
            Ok((main, workers)) => Ok(Fleet {
                shared,
                main,
                workers,
            }),
            Err(failure) => {
                let log = shared.log.borrow().clone();
                Err(StartError { failure, log })
            }
        }
    }
}

/// A process with its threads. Nothing happens in it unless the test triggers it: no tick, no answer, no passing of time.
pub struct Fleet {
    shared: Rc<Shared>,
    main: Worker,
    workers: Vec<Worker>,
}

impl Fleet {
    /// Begins the configuration of a fleet.
    #[must_use]
    pub fn of(module: &Module) -> FleetBuilder {
        FleetBuilder {
            module: module.clone(),
            plugin: Plugin::default(),
            workers: 1,
        }
    }

    /// A worker, counted from 0.
    ///
    /// # Panics
    /// Panics if there is no such worker.
    pub fn worker(&mut self, index: usize) -> &mut Worker {
        &mut self.workers[index]
    }

    /// The main thread, which has a configured plugin too.
    pub fn main(&mut self) -> &mut Worker {
        &mut self.main
    }

    /// The time since 1970.
    #[must_use]
    pub fn now(&self) -> Duration {
        self.shared.clock.now()
    }

    /// Sets the wall clock, forward or back, and nothing else happens: timers and ages use the monotonic clock.
    pub fn set_clock(&mut self, now: Duration) {
        self.shared.clock.set_wall(now);
    }

    /// Lets time pass while the process is stopped: nothing ticks and nothing times out meanwhile.
    pub fn freeze(&mut self, time: Duration) {
        self.shared.clock.pass(time);
    }

    /// Advances the clocks; overdue callouts time out. Nothing ticks.
    pub fn advance(&mut self, time: Duration) {
        self.shared.clock.pass(time);
        for worker in self.threads() {
            worker.expire();
        }
    }

    /// Advances the clocks to the next tick or timeout, but by no more than `limit`, and triggers it. Returns the time
    /// advanced.
    pub fn step(&mut self, limit: Duration) -> Duration {
        let now = self.shared.clock.monotonic();
        let events = self.threads().filter_map(|worker| worker.next_event());
        let next = events.min().unwrap_or(now + limit);
        let step = next.saturating_sub(now).min(limit);
        self.advance(step);
        for worker in self.threads() {
            worker.tick_if_due();
        }
        step
    }

    /// Lets time pass, with all ticks and timeouts.
    pub fn pass(&mut self, time: Duration) {
        let end = self.shared.clock.monotonic() + time;
        while self.shared.clock.monotonic() < end {
            let left = end - self.shared.clock.monotonic();
            self.step(left);
        }
    }

    /// Value of a counter, gauge or histogram, by the name that the module defined.
    #[must_use]
    pub fn metric(&self, name: &str) -> Option<Metric> {
        let metrics = self.shared.metrics.borrow();
        let mut found = metrics.0.iter().filter(|((_, each), _)| each == name);
        found.next().map(|(_, metric)| metric.clone())
    }

    /// Value of a counter; 0 if there is none of that name.
    #[must_use]
    pub fn counter(&self, name: &str) -> u64 {
        match self.metric(name) {
            Some(Metric::Counter(value)) => value,
            _ => 0,
        }
    }

    /// The names of all metrics.
    #[must_use]
    pub fn metric_names(&self) -> Vec<String> {
        let metrics = self.shared.metrics.borrow();
        metrics.0.keys().map(|(_, name)| name.clone()).collect()
    }

    /// Log lines so far, of all threads.
    #[must_use]
    pub fn log(&self) -> Vec<LogLine> {
        self.shared.log.borrow().clone()
    }

    /// The value of a key in shared data, and its CAS number.
    #[must_use]
    pub fn shared_data(&self, key: &[u8]) -> Option<(Vec<u8>, u32)> {
        self.shared.data.borrow().get(key)
    }

    /// Sets a key in shared data, as another VM would.
    pub fn set_shared_data(&mut self, key: &[u8], value: impl Into<Vec<u8>>) {
        let set = self.shared.data.borrow_mut().set(key, value.into(), 0);
        set.expect("no CAS number, no mismatch");
    }

    /// Lets another thread set a key right before a module next sets it: a CAS number that the module read before no
    /// longer matches.
    pub fn race_for_shared_data(&mut self, key: &[u8], value: impl Into<Vec<u8>>) {
        let mut data = self.shared.data.borrow_mut();
        data.races.insert(key.to_owned(), value.into());
    }

    /// The keys in shared data.
    #[must_use]
    pub fn shared_data_keys(&self) -> Vec<Vec<u8>> {
        self.shared.data.borrow().keys()
    }

    /// Number of keys in shared data, which never decreases, and bytes of keys and values.
    #[must_use]
    pub fn shared_data_size(&self) -> (usize, usize) {
        self.shared.data.borrow().size()
    }

    /// Asserts that no VM has failed.
    ///
    /// # Panics
    /// Panics if one has.
    #[track_caller]
    pub fn assert_unharmed(&mut self) {
        for worker in self.threads() {
            let failures = worker.failures();
            assert!(failures.is_empty(), "{:?}: {failures:#?}", worker.thread());
        }
    }

    fn threads(&mut self) -> impl Iterator<Item = &mut Worker> {
        std::iter::once(&mut self.main).chain(&mut self.workers)
    }
}
