//! Visitors who come at a rate, and look at what they are answered.

use edgelink_tests::scenario::{Answer, Request};
use edgelink_tests::stack::{Connection, Nginx, until};
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{Interval, MissedTickBehavior, interval_at, sleep};
use tokio_rustls::client::TlsStream;

/// How long a visitor waits before connecting again.
const PAUSE: Duration = Duration::from_millis(10);
/// How many wrong answers are kept to be shown.
const SHOWN: usize = 10;

/// What visitors ask for, and what is right.
pub(crate) trait Journey: Send + Sync + 'static {
    /// The path of the `n`th request of all.
    fn path(&self, n: u64) -> String;

    /// The `n`th request, with its headers.
    fn request(&self, n: u64) -> Request {
        Request::get(&self.path(n))
    }

    /// Whether an answer is right to a request that was sent at `sent`.
    fn is_right(&self, path: &str, answer: &Answer, sent: Instant) -> bool;

    /// Whether visitors ask again, over another connection, if the one that they had kept ends: so do browsers, for a server may end
    /// a connection that is idle.
    fn asks_again(&self) -> bool {
        false
    }
}

/// Where visitors come in.
pub(crate) trait Door: Clone + Send + Sync + 'static {
    /// What their connections are over.
    type Stream: AsyncRead + AsyncWrite + Unpin + Send;

    /// Opens a connection.
    fn open(&self) -> impl Future<Output = io::Result<Connection<Self::Stream>>> + Send;
}

/// An edge.
impl Door for SocketAddr {
    type Stream = TcpStream;

    async fn open(&self) -> io::Result<Connection> {
        Connection::open(*self).await
    }
}

/// nginx, by TLS.
impl Door for Arc<Nginx> {
    type Stream = TlsStream<TcpStream>;

    async fn open(&self) -> io::Result<Connection<Self::Stream>> {
        self.connect().await
    }
}

/// How visitors come.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    pub(crate) connections: usize,
    /// Requests a second of all together; none for as fast as they are answered.
    pub(crate) rate: Option<u32>,
}

impl Pace {
    /// When a connection has to send a request: each at another time, so that they come evenly.
    fn ticks(self, connection: usize) -> Option<Interval> {
        let rate = f64::from(self.rate?);
        let first = Instant::now() + Duration::from_secs_f64(connection as f64 / rate);
        let period = Duration::from_secs_f64(self.connections as f64 / rate);
        let mut ticks = interval_at(first.into(), period);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
        Some(ticks)
    }
}

/// What visitors saw.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) right: u64,
    pub(crate) wrong: u64,
    pub(crate) unanswered: u64,
    /// Requests whose connection had ended, and that were sent over another one.
    pub(crate) again: u64,
    pub(crate) tiers: BTreeMap<String, u64>,
    /// Microseconds from when a request was sent to its answer.
    pub(crate) latencies: Vec<u32>,
    pub(crate) examples: Vec<String>,
}

impl Seen {
    pub(crate) fn all(&self) -> u64 {
        self.right + self.wrong + self.unanswered
    }

    /// The latency in milliseconds that such a share of the answers did not exceed.
    pub(crate) fn quantile(&mut self, share: f64) -> f64 {
        self.latencies.sort_unstable();
        let last = self.latencies.len().saturating_sub(1);
        let at = (last as f64 * share) as usize;
        self.latencies
            .get(at)
            .map_or(f64::NAN, |us| f64::from(*us) / 1000.0)
    }

    pub(crate) fn print(&mut self, what: &str) {
        let (p50, p99, max) = (self.quantile(0.5), self.quantile(0.99), self.quantile(1.0));
        println!(
            "{what}: {} requests, {} right, {} wrong, {} without an answer; p50 {p50:.2} ms, p99 {p99:.2} ms, max {max:.1} ms; by tier {:?}",
            self.all(),
            self.right,
            self.wrong,
            self.unanswered,
            self.tiers,
        );
        for example in &self.examples {
            println!("    wrong: {example}");
        }
    }

    fn add(&mut self, other: Self) {
        self.right += other.right;
        self.wrong += other.wrong;
        self.unanswered += other.unanswered;
        self.again += other.again;
        for (tier, count) in other.tiers {
            *self.tiers.entry(tier).or_default() += count;
        }
        self.latencies.extend(other.latencies);
        self.examples.extend(other.examples);
        self.examples.truncate(SHOWN);
    }

    fn note(&mut self, path: &str, answer: &Answer, is_right: bool, took: Duration) {
        self.latencies
            .push(u32::try_from(took.as_micros()).unwrap_or(u32::MAX));
        let tier = answer.tier().unwrap_or("none").to_owned();
        *self.tiers.entry(tier).or_default() += 1;
        if is_right {
            self.right += 1;
            return;
        }
        self.wrong += 1;
        if self.examples.len() < SHOWN {
            let (status, location, tier) = (answer.status, answer.location(), answer.tier());
            self.examples
                .push(format!("{path}: {status}, {location:?}, {tier:?}"));
        }
    }
}

/// Visitors at work.
pub(crate) struct Visitors {
    stop: Arc<AtomicBool>,
    sent: Arc<AtomicU64>,
    tasks: JoinSet<Seen>,
}

impl Visitors {
    /// Sends them to these doors, in turns.
    pub(crate) fn start(doors: &[impl Door], pace: Pace, journey: &Arc<impl Journey>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let sent = Arc::new(AtomicU64::new(0));
        let mut tasks = JoinSet::new();
        for (connection, door) in (0..pace.connections).zip(doors.iter().cycle()) {
            let visitor = Visitor {
                door: door.clone(),
                stop: Arc::clone(&stop),
                sent: Arc::clone(&sent),
                journey: Arc::clone(journey),
            };
            tasks.spawn(visitor.go(pace.ticks(connection)));
        }
        Self { stop, sent, tasks }
    }

    /// How many requests were sent by now.
    pub(crate) fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Returns when that many requests were sent.
    pub(crate) async fn await_sent(&self, wanted: u64) {
        let limit = Duration::from_secs(600);
        until("visitors have come", limit, async || {
            (self.sent() >= wanted).then_some(())
        })
        .await;
    }

    /// Lets each visitor have the last answer.
    pub(crate) async fn finish(self) -> Seen {
        self.stop.store(true, Ordering::Relaxed);
        let mut seen = Seen::default();
        for each in self.tasks.join_all().await {
            seen.add(each);
        }
        seen
    }
}

struct Visitor<D, J> {
    door: D,
    stop: Arc<AtomicBool>,
    sent: Arc<AtomicU64>,
    journey: Arc<J>,
}

impl<D: Door, J: Journey> Visitor<D, J> {
    async fn go(self, mut ticks: Option<Interval>) -> Seen {
        let mut seen = Seen::default();
        let mut connection = None;
        while !self.stop.load(Ordering::Relaxed) {
            if let Some(ticks) = &mut ticks {
                ticks.tick().await;
            }
            let n = self.sent.fetch_add(1, Ordering::Relaxed);
            connection = self.visit(connection, n, &mut seen).await;
        }
        seen
    }

    /// Gives the connection back where it can be used again.
    async fn visit(
        &self,
        connection: Option<Connection<D::Stream>>,
        n: u64,
        seen: &mut Seen,
    ) -> Option<Connection<D::Stream>> {
        let request = self.journey.request(n);
        let sent = Instant::now();
        let was_kept = connection.is_some();
        let opened = match connection {
            Some(connection) => Ok(connection),
            None => self.door.open().await,
        };
        let Ok(mut connection) = opened else {
            seen.unanswered += 1;
            sleep(PAUSE).await;
            return None;
        };
        let mut answer = connection.exchange(&request, b"").await;
        if answer.is_err() && was_kept && self.journey.asks_again() {
            seen.again += 1;
            answer = match self.door.open().await {
                Ok(another) => {
                    connection = another;
                    connection.exchange(&request, b"").await
                }
                Err(error) => Err(error),
            };
        }
        match answer {
            Ok(answer) => {
                let path = self.journey.path(n);
                let is_right = self.journey.is_right(&path, &answer, sent);
                seen.note(&path, &answer, is_right, sent.elapsed());
                // nginx ends a connection with its thousandth answer.
                (answer.header("connection") != Some("close")).then_some(connection)
            }
            Err(_) => {
                seen.unanswered += 1;
                None
            }
        }
    }
}
