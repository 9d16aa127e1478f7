//! What the VMs of one Envoy process have in common.

use super::hostcalls::metric::Metrics;
use super::hostcalls::shared_data::SharedData;
use std::cell::{Cell, RefCell};
use std::time::Duration;

/// Which thread of Envoy a VM runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Thread {
    /// A VM that is only made to see whether it can be configured.
    Canary,
    /// The main thread, which takes no requests.
    Main,
    /// A worker, counted from 0.
    Worker(usize),
}

/// How grave a log line is, by the numbers of the ABI.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// 0.
    Trace,
    /// 1.
    Debug,
    /// 2; also what is written to standard output.
    Info,
    /// 3.
    Warn,
    /// 4; also what is written to standard error.
    Error,
    /// 5; the Rust SDK reports panics so.
    Critical,
}

/// A line that a module has logged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLine {
    /// Who logged it.
    pub thread: Thread,
    /// How grave it is.
    pub level: Level,
    /// The text; bytes that are no UTF-8 are replaced.
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

    /// The next byte of a sequence that is the same in every run (SplitMix64).
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

    /// The time since the machine was started: what timers and timeouts go by.
    pub(crate) fn monotonic(&self) -> Duration {
        self.monotonic.get()
    }

    /// Lets time pass.
    pub(crate) fn pass(&self, time: Duration) {
        self.wall.set(self.wall.get() + time);
        self.monotonic.set(self.monotonic.get() + time);
    }

    /// Sets the wall clock to a time since 1970, forth or back.
    pub(crate) fn set_wall(&self, now: Duration) {
        self.wall.set(now);
    }
}
