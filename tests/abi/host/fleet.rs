//! An Envoy process, as a test drives it.

use super::hostcalls::metric::Metric;
use super::module::Module;
use super::plugin::{Cluster, FailurePolicy, Plugin};
use super::shared::{LogLine, Shared, Thread};
use super::vm::{StartError, StartFailure, Vm};
use super::worker::Worker;
use std::rc::Rc;
use std::time::Duration;

/// When the virtual clock starts: 2026-01-01.
const START: Duration = Duration::from_secs(1_767_225_600);

/// How a fleet is to be.
#[derive(Clone, Debug)]
pub struct FleetBuilder {
    module: Module,
    plugin: Plugin,
    workers: usize,
}

impl FleetBuilder {
    /// The plugin configuration.
    #[must_use]
    pub fn configuration(mut self, configuration: impl Into<Vec<u8>>) -> Self {
        self.plugin.configuration = configuration.into();
        self
    }

    /// A cluster that callouts may go to.
    #[must_use]
    pub fn cluster(mut self, name: &str, cluster: Cluster) -> Self {
        self.plugin
            .clusters
            .insert(name.as_bytes().to_vec(), cluster);
        self
    }

    /// What happens after a trap.
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

    /// How many worker threads there are; one, unless said otherwise.
    #[must_use]
    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = workers;
        self
    }

    /// Starts it as Envoy does: a canary that is thrown away, the main thread, then the workers.
    ///
    /// # Errors
    /// Where the plugin does not start.
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

/// A process with its threads. Nothing happens in it unless the test does it: no tick, no answer, no passing of time.
pub struct Fleet {
    shared: Rc<Shared>,
    main: Worker,
    workers: Vec<Worker>,
}

impl Fleet {
    /// Describes a fleet.
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
    /// Where there is no such worker.
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

    /// Sets the wall clock, forth or back, and nothing else happens: timers and ages go by the monotonic one.
    pub fn set_clock(&mut self, now: Duration) {
        self.shared.clock.set_wall(now);
    }

    /// Lets time pass in which the process is stopped: nothing ticks and nothing times out meanwhile.
    pub fn freeze(&mut self, time: Duration) {
        self.shared.clock.pass(time);
    }

    /// Moves the clocks forth; callouts that take too long by then time out. Nothing ticks.
    pub fn advance(&mut self, time: Duration) {
        self.shared.clock.pass(time);
        for worker in self.threads() {
            worker.expire();
        }
    }

    /// Moves the clocks forth to whatever happens next by itself, a tick or a timeout, but by no more than `limit`, and
    /// lets it happen. Returns by how much.
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

    /// A counter's, gauge's or histogram's value, by the name that the module has given.
    #[must_use]
    pub fn metric(&self, name: &str) -> Option<Metric> {
        let metrics = self.shared.metrics.borrow();
        let mut found = metrics.0.iter().filter(|((_, each), _)| each == name);
        found.next().map(|(_, metric)| metric.clone())
    }

    /// The value of a counter; 0 where there is none of that name.
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

    /// What was logged so far, by every thread.
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

    /// Lets another thread set a key right before the next time that a module sets it: a CAS number that the module has
    /// read before no longer fits.
    pub fn race_for_shared_data(&mut self, key: &[u8], value: impl Into<Vec<u8>>) {
        let mut data = self.shared.data.borrow_mut();
        data.races.insert(key.to_owned(), value.into());
    }

    /// The keys in shared data.
    #[must_use]
    pub fn shared_data_keys(&self) -> Vec<Vec<u8>> {
        self.shared.data.borrow().keys()
    }

    /// How many keys shared data has, which never become fewer, and how many bytes keys and values have.
    #[must_use]
    pub fn shared_data_size(&self) -> (usize, usize) {
        self.shared.data.borrow().size()
    }

    /// No VM has failed.
    ///
    /// # Panics
    /// Where one has.
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
