//! What was asked, answered, broken and mended, and when: a line of JSON for each event, in the order of their times.

use super::rollups::WrittenClicks;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Microseconds since the start of the run, on a clock that is never moved.
pub(super) type Micros = u64;

/// What a code stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Value {
    /// There is no link: 404.
    Absent,
    /// The link is switched off: 410.
    Disabled,
    /// A redirect. Every write of a target has a number of its own in it.
    Target(u64),
    /// A link whose first rule leads visitors with [`PICK`] in their query elsewhere than others.
    Ruled {
        /// The target of the link.
        plain: u64,
        /// That of the rule.
        picked: u64,
    },
}

/// What a visitor sends in the query to meet the condition of a rule.
pub(super) const PICK: &str = "pick=1";

/// How an attempt ends, instead of a status, whose connection was kept open from an earlier request and is closed meanwhile.
pub(super) const CLOSED: &str = "499";

/// How much of a value is seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum View {
    /// A client of the API sees all of it.
    Whole,
    /// A visitor who meets no condition.
    Plain,
    /// A visitor who meets the condition of the first rule.
    Picked,
}

impl View {
    /// What is seen of a value.
    pub(crate) fn of(self, value: Value) -> Value {
        match (value, self) {
            (Value::Ruled { plain, .. }, Self::Plain) => Value::Target(plain),
            (Value::Ruled { picked, .. }, Self::Picked) => Value::Target(picked),
            (value, _) => value,
        }
    }
}

/// Through which part something is asked.
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

/// A host under which visitors ask.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Host {
    /// The domain of the link.
    #[default]
    Own,
    /// One that no domain has, which stands for the default domain.
    Unknown,
}

/// Why a link is visited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// A person has followed it.
    #[default]
    Click,
    /// A browser fetches it in case a person follows it.
    Prefetch,
}

/// What a client asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ask {
    /// A change of a link, until it is known whether it has happened. Of a link with a generated code the code is
    /// known when it was answered.
    Write {
        /// `create`, `change`, `rules`, `disable`, `enable`, `delete`, `restore`, `move` for the code that a link
        /// leaves, or `move here`.
        kind: String,
        /// The code.
        code: Option<String>,
        /// What the code stands for afterwards.
        value: Value,
    },
    /// The link as the API shows it.
    Read {
        /// The code.
        code: String,
        /// Who is asked.
        via: Via,
    },
    /// The link as a visitor sees it.
    Follow {
        /// The code.
        code: String,
        /// Who is asked.
        via: Via,
        /// Whether the visitor meets the condition of a rule.
        #[serde(default)]
        picks: bool,
        /// Under which host the link is asked for.
        #[serde(default)]
        host: Host,
    },
    /// A limit of visits, of a new link or of one whose limit is raised.
    Limit {
        /// The code.
        code: String,
        /// Where the link leads.
        target: u64,
        /// The limit.
        max: u64,
        /// Where visitors are sent when it is reached; otherwise they are told that the link is gone.
        #[serde(default)]
        expired: Option<u64>,
    },
    /// A visit of a link that has a limit.
    Visit {
        /// The code.
        code: String,
        /// Who is asked.
        via: Via,
        /// Why.
        #[serde(default)]
        purpose: Purpose,
    },
    /// How many visits of a link are used, as the API shows it.
    Count {
        /// The code.
        code: String,
        /// Who is asked.
        via: Via,
    },
}

/// What became of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OperationOutcome {
    /// A write has happened.
    Done {
        /// The code.
        code: String,
        /// When the attempt began that was acknowledged, or the reading that showed the write.
        since: Micros,
        /// What a link was restored to, where that is not what its client has deleted: a database that was itself
        /// restored may have an older tombstone.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        shown: Option<Value>,
        /// Whether an answer said so, and not a reading.
        #[serde(default)]
        is_answered: bool,
    },
    /// Whether a write has happened is not known, but from now on it is not in effect: reading that began at `since`
    /// has shown something else.
    Undone {
        /// When that reading began.
        since: Micros,
    },
    /// Whether a write has happened, or ever will, is not known.
    Unknown,
    /// What was read, or followed.
    Answer {
        /// The value.
        value: Value,
        /// The tier that answered a visitor.
        tier: Option<String>,
    },
    /// How many visits are used, as far as edges have said, and how many are out at edges.
    Counted {
        /// Used.
        used: u64,
        /// Out.
        leased: u64,
    },
    /// 503 or another answer that says nothing about the link.
    Unavailable {
        /// The status.
        status: u16,
    },
    /// No answer in time, or a broken connection.
    NoAnswer {
        /// Why.
        error: String,
    },
    /// An answer that no part of the product should give.
    Strange {
        /// What it was.
        answer: String,
    },
}

impl OperationOutcome {
    /// A write has happened as it was asked for; `is_answered` if an answer said so.
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
    /// A client asks.
    Invoke {
        /// The number of the operation.
        op: u64,
        /// For what.
        ask: Ask,
    },
    /// A write was tried once.
    Attempt {
        /// The number of the operation.
        op: u64,
        /// When the attempt began.
        since: Micros,
        /// Who was asked.
        via: Via,
        /// The status, [`CLOSED`], or why there was none.
        end: String,
    },
    /// A client knows what became of it.
    Complete {
        /// The number of the operation.
        op: u64,
        /// What.
        outcome: OperationOutcome,
    },
    /// Something is broken.
    Break {
        /// The number of the fault.
        fault: u64,
        /// Its kind.
        kind: String,
        /// Of what, and how.
        detail: String,
    },
    /// What a fault has done, in addition.
    Note {
        /// The number of the fault.
        fault: u64,
        /// What.
        text: String,
    },
    /// It is mended.
    Heal {
        /// The number of the fault.
        fault: u64,
    },
    /// The database was copied between `since` and now.
    Copied {
        /// The number of the copy.
        copy: u64,
        /// When copying began.
        since: Micros,
    },
    /// A copy has taken the place of the database between `since` and now.
    Restored {
        /// The number of the copy.
        copy: u64,
        /// When the database was stopped.
        since: Micros,
    },
    /// What became of clicks, at the end.
    Clicks {
        /// That the API says were counted.
        counted: u64,
        /// Those acknowledged to Envoys, less those that restored databases have lost.
        acknowledged: u64,
        /// By code.
        by_code: Vec<(String, u64)>,
        /// What the rollups of tenants add up to.
        written: Box<WrittenClicks>,
        /// How many reports wait to be written.
        waiting: u64,
        /// How many were sent, counted, dropped and without attributes, as workers have said.
        by_worker: [u64; 4],
        /// The same, as the hours of all edges add up.
        by_hour: [u64; 4],
    },
    /// From now on a webhook is to be told of every change of a link.
    Subscribed,
    /// A webhook is told of an event.
    Delivered {
        /// The id of the message.
        id: String,
        /// Its type.
        event: String,
        /// The code of the link.
        code: String,
        /// What the link is, as visitors without conditions see it.
        value: Option<Value>,
        /// Of the body.
        digest: String,
        /// Whether a signature is right.
        is_signed: bool,
        /// What was answered.
        status: u16,
    },
    /// A part was started at `since`, and serves by now or has not become ready in time.
    Started {
        /// Its name.
        part: String,
        /// When it was started.
        since: Micros,
        /// Whether it serves.
        is_ready: bool,
    },
    /// The database has given an id to a tenant, a domain, a user or a webhook.
    Identified {
        /// Which of these.
        kind: String,
        /// The id.
        id: u64,
        /// What tells it from all others of its kind: its name, and when it was made.
        name: String,
    },
    /// What a log says of a change on its way to edges, at another time than that of this line.
    Logged {
        /// When the log says it.
        at: Micros,
        /// Whose log.
        part: String,
        /// What happened.
        step: Step,
    },
    /// Something that must not happen and that no client sees: a part has ended by itself, a VM was replaced.
    Unexpected {
        /// What.
        text: String,
    },
    /// From now on everything must answer as without faults, until something is broken.
    Sweep,
}

/// A step of a change on its way to edges, or what may hold changes up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// The publisher has written a change to the feed.
    Published {
        /// The key of the link or domain.
        key: String,
        /// Why the publisher looked: `change`, `nudge` or `poll`.
        woken: String,
        /// How long it has waited for the database since, in milliseconds.
        store_millis: u64,
        /// And for Redis.
        redis_millis: u64,
    },
    /// A control plane has read a change of the feed.
    Read {
        /// The key of the link or domain.
        key: String,
    },
    /// A change is acknowledged.
    Acknowledged {
        /// The key of the link or domain.
        key: String,
        /// Why no longer is waited: `carried`, `late`, or `not current`.
        wait: String,
    },
    /// The publisher's lease was given up, or taken.
    LeaseChanged,
    /// A control plane has lost a connection to Redis, or has one again.
    RedisChanged,
    /// A control plane has refused to say what is new on the feed.
    PollRefused {
        /// Why.
        why: String,
    },
    /// An edge could not read the feed.
    PollFailed {
        /// As the edge logs it.
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

/// The history of a run, which grows only.
#[derive(Debug)]
pub(super) struct History {
    start: Instant,
    /// What the wall clock showed then, as time since 1970.
    started: Duration,
    next: AtomicU64,
    file: Mutex<BufWriter<File>>,
}

impl History {
    /// Begins one in a file.
    ///
    /// # Panics
    /// Where the file cannot be made.
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

    /// The time.
    ///
    /// # Panics
    /// Never within some 500,000 years.
    #[must_use]
    pub(super) fn now(&self) -> Micros {
        u64::try_from(self.start.elapsed().as_micros()).expect("a short run")
    }

    /// The time that a log gives as its time of day; `None` if it is before this history. Logs go by the wall clock.
    pub(super) fn at_time_of_day(&self, time: Duration) -> Option<Micros> {
        const DAY: u128 = 24 * 3600 * 1_000_000;
        let start = self.started.as_micros() % DAY;
        let since = (time.as_micros() + DAY - start) % DAY;
        u64::try_from(since)
            .ok()
            .filter(|since| *since < self.now())
    }

    /// A number that no other operation or fault has.
    pub(super) fn number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// Appends an event and gives its time.
    ///
    /// # Panics
    /// Where the file cannot be written.
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

    /// Writes down what is still in memory.
    ///
    /// # Panics
    /// Where the file cannot be written.
    pub(super) fn flush(&self) {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.flush().expect("the history");
    }
}

/// Reads a history.
///
/// # Panics
/// Where it cannot be read.
#[must_use]
pub fn read(path: &Path) -> Vec<Event> {
    let file = BufReader::new(File::open(path).expect("a history"));
    file.lines()
        .map(|line| serde_json::from_str(&line.expect("a line")).expect("an event"))
        .collect()
}
