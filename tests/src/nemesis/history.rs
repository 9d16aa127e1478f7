//! The recorded requests, answers, faults and repairs with their times: one line of JSON for each event, in order of
//! time.

use super::rollups::WrittenClicks;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Microseconds since the start of the run, on a clock that no fault moves.
pub(super) type Micros = u64;

/// Value of a code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Value {
    /// There is no link: 404.
    Absent,
    /// The link is switched off: 410.
    Disabled,
    /// A redirect. Every write of a target contains a unique number.
    Target(u64),
    /// A link whose first rule sends visitors with [`PICK`] in their query to another target.
    Ruled {
        /// The target of the link.
        plain: u64,
        /// The target of the rule.
        picked: u64,
    },
}

/// Query of visitors who meet the condition of a rule.
pub(super) const PICK: &str = "pick=1";

/// End of an attempt, in place of a status, if its connection was kept open from an earlier request and has been closed
/// meanwhile.
pub(super) const CLOSED: &str = "499";

/// Visible part of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum View {
    /// The whole value, as an API client sees it.
    Whole,
    /// A visitor who meets no condition.
    Plain,
    /// A visitor who meets the condition of the first rule.
    Picked,
}

impl View {
    /// Visible part of a value.
    pub(crate) fn of(self, value: Value) -> Value {
        match (value, self) {
            (Value::Ruled { plain, .. }, Self::Plain) => Value::Target(plain),
            (Value::Ruled { picked, .. }, Self::Picked) => Value::Target(picked),
            (value, _) => value,
        }
    }
}

/// The part that is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Via {
    /// An Envoy, by its number.
    Envoy(usize),
    /// A control plane, by its number.
    ControlPlane(usize),
    /// The control plane without Redis that is started by mistake.
    Stray,
}

impl fmt::Display for Via {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Envoy(number) => write!(f, "envoy-{number}"),
            Self::ControlPlane(number) => write!(f, "cp-{number}"),
            Self::Stray => f.write_str("stray"),
        }
    }
}

/// A host in the requests of visitors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Host {
    /// The domain of the link.
    #[default]
    Own,
    /// A host without a domain, which is served by the default domain.
    Unknown,
}

/// Reason for visiting a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// A person followed it.
    #[default]
    Click,
    /// A browser fetches it in case a person follows it.
    Prefetch,
}

/// Request of a client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ask {
    /// A change of a link, until its outcome is known. The code of a link with a generated code is known once it was
    /// answered.
    Write {
        /// `create`, `change`, `rules`, `disable`, `enable`, `delete`, `restore`, `move` for the code that a link leaves,
        /// or `move here`.
        kind: String,
        /// The code.
        code: Option<String>,
        /// Value of the code afterwards.
        value: Value,
    },
    /// The link as the API shows it.
    Read {
        /// The code.
        code: String,
        /// The part asked.
        via: Via,
    },
    /// The link as a visitor sees it.
    Follow {
        /// The code.
        code: String,
        /// The part asked.
        via: Via,
        /// Set if the visitor meets the condition of a rule.
        #[serde(default)]
        picks: bool,
        /// Host of the request.
        #[serde(default)]
        host: Host,
    },
    /// A limit of visits, for a new link or raised for an existing one.
    Limit {
        /// The code.
        code: String,
        /// Target of the link.
        target: u64,
        /// The limit.
        max: u64,
        /// Target of visitors once the limit is reached; without one they receive 410.
        #[serde(default)]
        expired: Option<u64>,
    },
    /// A visit of a link that has a limit.
    Visit {
        /// The code.
        code: String,
        /// The part asked.
        via: Via,
        /// The purpose.
        #[serde(default)]
        purpose: Purpose,
    },
    /// The number of used visits of a link, as the API shows it.
    Count {
        /// The code.
        code: String,
        /// The part asked.
        via: Via,
    },
}

/// Outcome of an operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OperationOutcome {
    /// A write has taken effect.
    Done {
        /// The code.
        code: String,
        /// Start of the acknowledged attempt, or of the reading that showed the write.
        since: Micros,
        /// Value that a link was restored to, if it differs from the one its client deleted: a database that was itself
        /// restored may have an older tombstone.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        shown: Option<Value>,
        /// Set if an answer confirmed the write, rather than a reading.
        #[serde(default)]
        is_answered: bool,
    },
    /// It is unknown whether a write took effect, but it is not in effect from now on: a reading that began at `since`
    /// showed something else.
    Undone {
        /// Start of that reading.
        since: Micros,
    },
    /// It is unknown whether a write took effect, or ever will.
    Unknown,
    /// The result of a reading, or of following a link.
    Answer {
        /// The value.
        value: Value,
        /// The tier that answered a visitor.
        tier: Option<String>,
    },
    /// Visits used, as reported by edges so far, and visits leased to edges.
    Counted {
        /// Used.
        used: u64,
        /// Out.
        leased: u64,
    },
    /// 503, or another answer without information about the link.
    Unavailable {
        /// The status.
        status: u16,
    },
    /// No answer in time, or a broken connection.
    NoAnswer {
        /// The error.
        error: String,
    },
    /// An answer that no part of the product should ever give.
    Strange {
        /// The answer.
        answer: String,
    },
}

impl OperationOutcome {
    /// A write that took effect as requested; `is_answered` if an answer confirmed it.
    pub(super) fn done(code: &str, since: Micros, is_answered: bool) -> Self {
        Self::Done {
            code: code.to_owned(),
            since,
            shown: None,
            is_answered,
        }
    }
}

/// A line of the history.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// A client sends a request.
    Invoke {
        /// The number of the operation.
        op: u64,
        /// The request.
        ask: Ask,
    },
    /// A write was attempted once.
    Attempt {
        /// The number of the operation.
        op: u64,
        /// Start of the attempt.
        since: Micros,
        /// The part asked.
        via: Via,
        /// The status, [`CLOSED`], or the reason why there was none.
        end: String,
    },
    /// A client knows the outcome.
    Complete {
        /// The number of the operation.
        op: u64,
        /// The outcome.
        outcome: OperationOutcome,
    },
    /// A fault begins.
    Break {
        /// The number of the fault.
        fault: u64,
        /// Its kind.
        kind: String,
        /// The affected part, and details.
        detail: String,
    },
    /// An additional effect of a fault.
    Note {
        /// The number of the fault.
        fault: u64,
        /// The effect.
        text: String,
    },
    /// A fault ends.
    Heal {
        /// The number of the fault.
        fault: u64,
    },
    /// The database was copied between `since` and now.
    Copied {
        /// The number of the copy.
        copy: u64,
        /// Start of copying.
        since: Micros,
    },
    /// A copy replaced the database between `since` and now.
    Restored {
        /// The number of the copy.
        copy: u64,
        /// Time when the database was stopped.
        since: Micros,
    },
    /// Totals of clicks at the end.
    Clicks {
        /// Clicks counted according to the API.
        counted: u64,
        /// Clicks acknowledged to Envoys, less the ones that restored databases lost.
        acknowledged: u64,
        /// By code.
        by_code: Vec<(String, u64)>,
        /// Totals of the rollups of tenants.
        written: Box<WrittenClicks>,
        /// Number of reports waiting to be written.
        waiting: u64,
        /// Clicks sent, counted, dropped and without attributes, as reported by workers.
        by_worker: [u64; 4],
        /// The four numbers summed over the hours of all edges.
        by_hour: [u64; 4],
    },
    /// From now on a webhook must be notified of every change of a link.
    Subscribed,
    /// A webhook received an event.
    Delivered {
        /// The id of the message.
        id: String,
        /// Its type.
        event: String,
        /// The code of the link.
        code: String,
        /// The link, as visitors who meet no condition see it.
        value: Option<Value>,
        /// Digest of the body.
        digest: String,
        /// Set if a signature is correct.
        is_signed: bool,
        /// Status of the answer.
        status: u16,
    },
    /// A part was started at `since`, and serves by now or has not become ready in time.
    Started {
        /// Its name.
        part: String,
        /// Time of the start.
        since: Micros,
        /// Set if it serves.
        is_ready: bool,
    },
    /// The database assigned an id to a tenant, a domain, a user or a webhook.
    Identified {
        /// Kind of the entity.
        kind: String,
        /// The id.
        id: u64,
        /// Its identity within its kind: name and time of creation.
        name: String,
    },
    /// A log line about a change on its way to the edges, logged at another time than this event's.
    Logged {
        /// Time of the log line.
        at: Micros,
        /// The part that logged it.
        part: String,
        /// The step.
        step: Step,
    },
    /// An event that must not happen and that no client sees: a part exited on its own, a VM was replaced.
    Unexpected {
        /// Description of the event.
        text: String,
    },
    /// From now on everything must answer as without faults, until the next fault.
    Sweep,
}

/// A step of a change on its way to the edges, or an event that may delay changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// The publisher has written a change to the feed.
    Published {
        /// The key of the link or domain.
        key: String,
        /// Trigger of the publisher's look: `change`, `nudge` or `poll`.
        woken: String,
        /// Milliseconds since then spent waiting for the database.
        store_millis: u64,
        /// Milliseconds since then spent waiting for Redis.
        redis_millis: u64,
    },
    /// A control plane has read a change from the feed.
    Read {
        /// The key of the link or domain.
        key: String,
    },
    /// A change was acknowledged.
    Acknowledged {
        /// The key of the link or domain.
        key: String,
        /// Reason for the end of the wait: `carried`, `late`, or `not current`.
        wait: String,
    },
    /// The publisher's lease was released, or taken.
    LeaseChanged,
    /// A control plane lost a connection to Redis, or reconnected.
    RedisChanged,
    /// A control plane refused a poll of the feed.
    PollRefused {
        /// The reason.
        why: String,
    },
    /// An edge could not read the feed.
    PollFailed {
        /// The error, as logged by the edge.
        why: String,
    },
    /// An edge reads the feed again.
    PollWorks,
}

/// An event and its time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// The time.
    pub at: Micros,
    /// The event.
    pub what: What,
}

/// The append-only history of a run.
#[derive(Debug)]
pub(super) struct History {
    start: Instant,
    /// Wall-clock time at that moment, since 1970.
    started: Duration,
    next: AtomicU64,
    file: Mutex<BufWriter<File>>,
}

impl History {
    /// Begins a history in a file.
    ///
    /// # Panics
    /// Panics if the file cannot be created.
    #[must_use]
    pub(super) fn begin(path: &Path) -> Self {
        let file = File::create(path).expect("a file for the history");
        Self {
            start: Instant::now(),
            started: SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .unwrap_or_default(),
            next: AtomicU64::new(1),
            file: Mutex::new(BufWriter::new(file)),
        }
    }

    /// Time since the start of the run.
    ///
    /// # Panics
    /// Panics after some 500,000 years only.
    #[must_use]
    pub(super) fn now(&self) -> Micros {
        u64::try_from(self.start.elapsed().as_micros()).expect("a short run")
    }

    /// Converts a time of day in a log; `None` if it is before this history. Logs use the wall clock.
    pub(super) fn at_time_of_day(&self, time: Duration) -> Option<Micros> {
        const DAY: u128 = 24 * 3600 * 1_000_000;
        let start = self.started.as_micros() % DAY;
        let since = (time.as_micros() + DAY - start) % DAY;
        u64::try_from(since)
            .ok()
            .filter(|since| *since < self.now())
    }

    /// Returns a number unique among operations and faults.
    pub(super) fn number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// Appends an event and returns its time.
    ///
    /// # Panics
    /// Panics if the file cannot be written.
    pub(super) fn add(&self, what: What) -> Micros {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let at = self.now(); // under the lock, so that lines are in order
        serde_json::to_writer(&mut *file, &Event { at, what }).expect("a line of the history");
        file.write_all(b"\n").expect("a line of the history");
        at
    }

    /// Begins an operation.
    pub(super) fn invoke(&self, ask: Ask) -> u64 {
        let op = self.number();
        self.add(What::Invoke { op, ask });
        op
    }

    /// Ends an operation.
    pub(super) fn complete(&self, op: u64, outcome: OperationOutcome) -> Micros {
        self.add(What::Complete { op, outcome })
    }

    /// Writes buffered events to the file.
    ///
    /// # Panics
    /// Panics if the file cannot be written.
    pub(super) fn flush(&self) {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.flush().expect("the history");
    }
}

/// Reads a history.
///
/// # Panics
/// Panics if it cannot be read.
#[must_use]
pub fn read(path: &Path) -> Vec<Event> {
    let file = BufReader::new(File::open(path).expect("a history"));
    file.lines()
        .map(|line| serde_json::from_str(&line.expect("a line")).expect("an event"))
        .collect()
}
