//! State shared by the VMs of one Envoy process.

use super::hostcalls::metric::Metrics;
use super::hostcalls::shared_data::SharedData;
use std::cell::{Cell, RefCell};
use std::time::Duration;

/// Thread of Envoy that a VM runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Thread {
    /// A VM created only to test whether it can be configured.
    Canary,
    /// The main thread, which receives no requests.
    Main,
    /// A worker, counted from 0.
    Worker(usize),
}

/// Severity of a log line, by the numbers of the ABI.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// 0.
    Trace,
    /// 1.
    Debug,
    /// 2; also for writes to standard output.
    Info,
    /// 3.
    Warn,
    /// 4; also for writes to standard error.
    Error,
    /// 5; used by the Rust SDK for panics.
    Critical,
}

/// A line logged by a module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLine {
    /// The thread that logged it.
    pub thread: Thread,
    /// Its severity.
    pub level: Level,
    /// The text; invalid UTF-8 is replaced.
    pub message: String,
}

/// The process: clock, shared data, metrics and log.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) clock: Clock,
    pub(crate) data: RefCell<SharedData>,
    pub(crate) metrics: RefCell<Metrics>,
    pub(crate) log: RefCell<Vec<LogLine>>,
    random: Cell<u64>,
}

impl Shared {
    pub(crate) fn new(now: Duration) -> Self {
        Self {
            clock: Clock::new(now),
            data: RefCell::default(),
            metrics: RefCell::default(),
            log: RefCell::default(),
            random: Cell::new(0x0005_EED0_F7E5_7500),
        }
    }

    /// Next byte of a fixed pseudo-random sequence (SplitMix64).
    pub(crate) fn random_byte(&self) -> u8 {
        let state = self.random.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.random.set(state);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed >> 56) as u8
    }
}

/// The clocks of a machine that has been up for an hour. They stand still until the test moves them.
#[derive(Debug)]
pub(crate) struct Clock {
    wall: Cell<Duration>,
    monotonic: Cell<Duration>,
}

impl Clock {
    fn new(now: Duration) -> Self {
        Self {
            wall: Cell::new(now),
            monotonic: Cell::new(Duration::from_secs(3_600)),
        }
    }

    /// The time since 1970.
    pub(crate) fn now(&self) -> Duration {
        self.wall.get()
    }

    /// Time since the machine was started, as used by timers and timeouts.
    pub(crate) fn monotonic(&self) -> Duration {
        self.monotonic.get()
    }

    /// Lets time pass.
    pub(crate) fn pass(&self, time: Duration) {
        self.wall.set(self.wall.get() + time);
        self.monotonic.set(self.monotonic.get() + time);
    }

    /// Sets the wall clock to a time since 1970, forward or back.
    pub(crate) fn set_wall(&self, now: Duration) {
        self.wall.set(now);
    }
}
