//! Time for a change to reach every worker that polls the feed, and cost of the waiting workers.

use crate::options::Options;
use crate::process::{cpu_time, open_files, others, pin, resident};
use crate::report::{Claim, Limit, Section, Table};
use crate::rounds::{median, percentile};
use edgelink_tests::scenario::Request;
use edgelink_tests::servers::RedisServer;
use edgelink_tests::stack::{
    Connection, ControlPlane, EDGE_TOKEN, Production, ProductionOptions, until,
};
use edgelink_wire::feed_batch::POLLER_HEADER;
use edgelink_wire::feed_stream::{self, read_frame, write_acknowledgement};
use edgelink_wire::visits::worker_text;
use edgelink_wire::{FeedBatch, FeedPosition};
use http::StatusCode;
use serde_json::json;
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{interval, sleep};

const LINKS: usize = 50;
const MANY: usize = 10_000;
const WAIT_MILLIS: u32 = 2_000;
/// Pauses of a worker after failed polls.
const PAUSE: Duration = Duration::from_millis(50);
const MAX_PAUSE: Duration = Duration::from_secs(2);
/// Settings that bound the workers of a control plane, with defaults too low for many workers at one address.
const BOUNDS: [&str; 3] = [
    "EDGELINK_FEED_MAX_POLLS",
    "EDGELINK_SERVER_MAX_CONNECTIONS",
    "EDGELINK_SERVER_MAX_CONNECTIONS_PER_ADDRESS",
];
const MANY_PACE: Duration = Duration::from_secs(2);
const WAITING: Duration = Duration::from_secs(10);
const LIMIT: Duration = Duration::from_secs(60);
/// Marker before the number of a change in a target, which has [`DIGITS`].
const MARK: &str = "/change/";
const DIGITS: usize = 8;
/// Most workers of a small deployment, to which the goals apply.
const FEW: usize = 50;
/// Goals for the milliseconds of a PATCH, which is answered when all workers have the change: the median, and the 99th percentile.
const GOALS: (f64, f64) = (8.0, 25.0);

/// How workers follow the feed.
#[derive(Clone, Copy, Debug)]
enum Way {
    /// As in Wasm: by long polls over HTTP/1.1.
    Polls,
    /// As in native hosts: by a stream over HTTP/2 of which each frame is acknowledged.
    Stream,
}

impl Way {
    fn name(self) -> &'static str {
        match self {
            Self::Polls => "polls",
            Self::Stream => "stream",
        }
    }
}

/// Changes received by a worker, with their times. A `None` stands for an answer to a poll.
type Arrivals = Arc<Mutex<Vec<Option<(usize, Instant)>>>>;

/// Workers that follow the feed until they are dropped.
struct Workers {
    tasks: JoinSet<()>,
    arrivals: Arrivals,
}

/// Times at which each change was sent and answered.
struct Changes {
    first: usize,
    times: Vec<(Instant, Instant)>,
    /// Number of 503 answers, after which the change was sent again.
    refused: usize,
}

/// A run's figures, in milliseconds.
struct FeedFigures {
    p50: f64,
    p99: f64,
    last: f64,
    /// Time since the answer until the last worker has the change; negative before it.
    last_answered: f64,
    /// Median and 99th percentile of the times of a PATCH.
    patch: (f64, f64),
    /// Processor time of control planes and Redis, for each change.
    cpu: f64,
    /// Share of a processor used by each control plane.
    shares: Vec<f64>,
    /// Changes refused with 503, and sent again.
    refused: usize,
}

/// Resources used by a process.
#[derive(Clone, Copy, Debug)]
struct Load {
    cpu: Duration,
    memory: u64,
    files: usize,
}

/// The servers of the feed.
struct FeedField<'a> {
    planes: &'a [ControlPlane],
    /// Control planes and Redis.
    processes: Vec<u32>,
}

/// The table.
pub(crate) async fn run(options: &Options) -> Section {
    let mut section = Section::new("Changes at workers");
    section.text(&format!(
        "Changes by PATCH at one control plane, and simulated workers that follow the feed at all of them, by long polls as \
         in Wasm or by a stream as in native hosts, with waits of {WAIT_MILLIS} ms, each on a connection of its own. Milliseconds from the PATCH being sent until a worker has the \
         change, and of the PATCH itself, which is answered when all have it. CPU: of control planes and Redis, \
         which have one processor; the workers have the rest. Two control planes and MariaDB; 10 changes a second, medians of \
         rounds in turns; with the most workers one change every 2 seconds."
    ));
    let mut table = Table::new([
        "workers",
        "by",
        "p50, ms",
        "p99, ms",
        "last of all, ms",
        "last since the answer, ms",
        "PATCH p50, ms",
        "PATCH p99, ms",
        "CPU a change, ms",
    ]);
    few(options, &mut table, &mut section).await;
    let mut costs = Vec::new();
    for way in [Way::Polls, Way::Stream] {
        costs.push(many(options, way, &mut table).await);
    }
    section.text(&table);
    for (text, table) in costs {
        section.text(&text);
        section.text(&table);
    }
    section
}

async fn few(options: &Options, table: &mut Table, section: &mut Section) {
    const COUNTS: [(usize, Way); 6] = [
        (2, Way::Stream),
        (50, Way::Stream),
        (500, Way::Stream),
        (2_000, Way::Stream),
        (50, Way::Polls),
        (2_000, Way::Polls),
    ];
    let (rounds, changes) = options.size.pick((5, 50), (1, 20));
    let redis = RedisServer::start().await;
    let none = ProductionOptions {
        envoys: 0,
        variables: BOUNDS.map(|name| (name, (2 * MANY).to_string())).to_vec(),
        ..ProductionOptions::direct(&redis)
    };
    let mut production = Production::start(&none).await;
    let field = FeedField::new(&mut production.control_planes, &redis).await;
    let mut all = COUNTS.map(|_| Vec::new());
    for round in 0..rounds {
        for (place, (workers, figures)) in COUNTS.iter().zip(&mut all).enumerate() {
            let first = (round * COUNTS.len() + place) * changes;
            let pace = Duration::from_millis(100);
            let run = field.measure(*workers, first..first + changes, pace);
            figures.push(run.await);
        }
    }
    for ((count, way), figures) in COUNTS.iter().zip(&all) {
        let by = way.name();
        let last = figures.iter().map(|run| run.last_answered);
        let last = last.fold(f64::NEG_INFINITY, f64::max);
        let of =
            |each: fn(&FeedFigures) -> f64| median(&figures.iter().map(each).collect::<Vec<_>>());
        let (p50, p99) = (of(|run| run.patch.0), of(|run| run.patch.1));
        table.row(cells((*count, *way), figures));
        section.claim(
            Claim::from(last <= 0.0),
            format!("{count} workers by {by}: each had each change when it was answered, the last {last:.1} ms after"),
        );
        if *count > FEW {
            continue;
        }
        for (millis, goal, name) in [(p50, GOALS.0, "p50"), (p99, GOALS.1, "p99")] {
            let what = format!("{count} workers by {by}: PATCH {name}, ms:");
            section.goal(millis, Limit::AtMost(goal), &what);
        }
    }
}

/// Measures a large deployment: adds its row, and returns the cost of its workers for each control plane.
async fn many(options: &Options, way: Way, table: &mut Table) -> (String, Table) {
    let (count, changes) = options.size.pick((MANY, 100), (1_000, 5));
    let redis = RedisServer::start().await;
    let none = ProductionOptions {
        envoys: 0,
        variables: BOUNDS.map(|name| (name, (2 * count).to_string())).to_vec(),
        ..ProductionOptions::direct(&redis)
    };
    let mut production = Production::start(&none).await;
    let field = FeedField::new(&mut production.control_planes, &redis).await;
    let before = field.loads();
    let mut workers = Workers::start(field.planes, (count, way));
    workers.await_answers(count * 3).await;
    let (start, begun) = (Instant::now(), field.loads());
    sleep(WAITING).await;
    let (waited, waiting) = (start.elapsed(), field.loads());
    workers.assert_running();
    drop(workers);
    let figures = field.measure((count, way), 0..changes, MANY_PACE).await;
    let mut costs = Table::new([
        "control plane",
        "memory without workers, MB",
        "with them, MB",
        "bytes a worker",
        "open files",
        "CPU while they wait, %",
        "CPU while links change, %",
    ]);
    let each = count / field.planes.len();
    for (place, share) in figures.shares.iter().enumerate() {
        let (before, begun, waiting) = (before[place], begun[place], waiting[place]);
        let idle = (waiting.cpu - begun.cpu).as_secs_f64() / waited.as_secs_f64();
        costs.row([
            (place + 1).to_string(),
            (before.memory >> 20).to_string(),
            (waiting.memory >> 20).to_string(),
            (waiting.memory.saturating_sub(before.memory) / each as u64).to_string(),
            waiting.files.to_string(),
            format!("{:.0}", idle * 100.0),
            format!("{:.0}", share * 100.0),
        ]);
    }
    let text = format!(
        "{count} workers by {} at two control planes, while they wait for changes and get beats alone, and while a link changes \
         every {} seconds, {changes} times ({} were 503 and sent again):",
        way.name(),
        MANY_PACE.as_secs(),
        figures.refused
    );
    table.row(cells((count, way), &[figures]));
    (text, costs)
}

fn cells((count, way): (usize, Way), figures: &[FeedFigures]) -> [String; 9] {
    let cell = |figure: fn(&FeedFigures) -> f64| {
        let values: Vec<f64> = figures.iter().map(figure).collect();
        format!("{:.1}", median(&values))
    };
    [
        count.to_string(),
        way.name().to_owned(),
        cell(|figures| figures.p50),
        cell(|figures| figures.p99),
        cell(|figures| figures.last),
        cell(|figures| figures.last_answered),
        cell(|figures| figures.patch.0),
        cell(|figures| figures.patch.1),
        cell(|figures| figures.cpu),
    ]
}

impl<'a> FeedField<'a> {
    /// Creates the links to change; servers run on the first processor, this process on the others.
    async fn new(planes: &'a mut [ControlPlane], redis: &RedisServer) -> Self {
        let processes = planes.iter_mut().map(|plane| plane.process().id());
        let processes: Vec<u32> = processes.chain([redis.process_id()]).collect();
        pin(&processes, "0");
        pin(&[std::process::id()], &others());
        for link in 0..LINKS {
            let slug = format!("change-{link}");
            planes[0].link(&slug).create().await;
        }
        Self { planes, processes }
    }

    /// Resources used by each control plane.
    fn loads(&self) -> Vec<Load> {
        let planes = self.processes.iter().take(self.planes.len());
        let load = |&process: &u32| Load {
            cpu: cpu_time(&[process]),
            memory: resident(&[process]),
            files: open_files(process),
        };
        planes.map(load).collect()
    }

    async fn measure(
        &self,
        (count, way): (usize, Way),
        numbers: Range<usize>,
        pace: Duration,
    ) -> FeedFigures {
        let mut workers = Workers::start(self.planes, (count, way));
        workers.await_answers(count * 3).await;
        // The workers before these are waited for until their leases end.
        let change = json!({ "longUrl": "https://example.com/begun" });
        self.planes[0]
            .api("PATCH", "/links/change-0", &change)
            .await;
        let wanted = numbers.len() * count;
        let (start, cpu) = (Instant::now(), cpu_time(&self.processes));
        let before = self.loads();
        let changes = Changes::make(&self.planes[0], numbers, pace).await;
        until("every worker has every change", LIMIT, async || {
            workers.assert_running();
            (workers.changes() >= wanted).then_some(())
        })
        .await;
        let cpu = cpu_time(&self.processes) - cpu;
        let took = start.elapsed();
        let share = |(after, before): (Load, Load)| {
            (after.cpu - before.cpu).as_secs_f64() / took.as_secs_f64()
        };
        FeedFigures {
            shares: self.loads().into_iter().zip(before).map(share).collect(),
            ..changes.figures(&workers, cpu)
        }
    }
}

impl Changes {
    /// Makes changes one after another, at the given pace.
    async fn make(plane: &ControlPlane, numbers: Range<usize>, pace: Duration) -> Self {
        let mut changes = Self {
            first: numbers.start,
            times: Vec::new(),
            refused: 0,
        };
        let mut connection = plane.connect().await;
        let mut ticks = interval(pace);
        for number in numbers {
            ticks.tick().await;
            let sent = Instant::now();
            let target = format!("https://example.com{MARK}{number:0DIGITS$}");
            let path = format!("/links/change-{}", number % LINKS);
            let body = json!({ "longUrl": target });
            loop {
                let answer = plane.api_over(&mut connection, "PATCH", &path, &body).await;
                let answer = answer.expect("an answer");
                if answer.status == 200 {
                    break;
                }
                assert_eq!(answer.status, 503, "{answer:?}");
                changes.refused += 1;
            }
            changes.times.push((sent, Instant::now()));
        }
        changes
    }

    fn figures(&self, workers: &Workers, cpu: Duration) -> FeedFigures {
        let arrivals = workers.arrivals.lock().expect("a lock");
        let (mut sent, mut answered) = (Vec::new(), Vec::new());
        for (number, at) in arrivals.iter().flatten() {
            let times = number.checked_sub(self.first);
            if let Some(times) = times.and_then(|place| self.times.get(place)) {
                sent.push(millis(*at, times.0));
                answered.push(millis(*at, times.1));
            }
        }
        let times = self.times.iter();
        let mut patches: Vec<f64> = times
            .map(|(sent, answered)| millis(*answered, *sent))
            .collect();
        FeedFigures {
            p50: percentile(&mut sent, 50),
            p99: percentile(&mut sent, 99),
            last: percentile(&mut sent, 100),
            last_answered: percentile(&mut answered, 100),
            patch: (percentile(&mut patches, 50), percentile(&mut patches, 99)),
            cpu: cpu.as_secs_f64() * 1e3 / self.times.len() as f64,
            shares: Vec::new(),
            refused: self.refused,
        }
    }
}

fn millis(at: Instant, since: Instant) -> f64 {
    let later = at.saturating_duration_since(since).as_secs_f64();
    (later - since.saturating_duration_since(at).as_secs_f64()) * 1e3
}

impl Workers {
    fn start(planes: &[ControlPlane], (count, way): (usize, Way)) -> Self {
        let arrivals = Arrivals::default();
        let mut tasks = JoinSet::new();
        let addresses = planes.iter().map(ControlPlane::address).cycle();
        for address in addresses.take(count) {
            match way {
                Way::Polls => tasks.spawn(poll(address, arrivals.clone())),
                Way::Stream => tasks.spawn(read_stream(address, arrivals.clone())),
            };
        }
        Self { tasks, arrivals }
    }

    /// Waits until workers have received that many answers, with or without changes.
    async fn await_answers(&mut self, count: usize) {
        until("all workers wait", LIMIT, async || {
            self.assert_running();
            (self.arrivals.lock().expect("a lock").len() >= count).then_some(())
        })
        .await;
    }

    /// Asserts that no worker has ended: none ends on its own.
    fn assert_running(&mut self) {
        let ended = self.tasks.try_join_next();
        assert!(ended.is_none(), "a worker has ended: {ended:?}");
    }

    fn changes(&self) -> usize {
        let arrivals = self.arrivals.lock().expect("a lock");
        arrivals.iter().flatten().count()
    }
}

/// Follows the feed like native hosts.
async fn read_stream(address: SocketAddr, arrivals: Arrivals) {
    let socket = TcpStream::connect(address).await.expect("a connection");
    let (mut sender, connection) = h2::client::handshake(socket).await.expect("HTTP/2");
    // It ends with the sender.
    tokio::spawn(connection);
    let name = worker_text(&rand::random());
    let (mut point, mut next) = ((0, FeedPosition::START), 0);
    let mut pause = PAUSE;
    loop {
        let ((generation, after), path) = (point, feed_stream::PATH);
        let uri = format!(
            "http://control-plane{path}?after={after}&generation={generation}&waitMs={WAIT_MILLIS}"
        );
        let request = http::Request::post(uri)
            .header("authorization", format!("Bearer {EDGE_TOKEN}"))
            .header(POLLER_HEADER, &*name);
        let request = request.body(()).expect("a request");
        sender = sender.ready().await.expect("a connection");
        let (answer, mut acknowledgements) =
            sender.send_request(request, false).expect("a connection");
        let answer = answer.await.expect("an answer");
        if answer.status() == StatusCode::SERVICE_UNAVAILABLE {
            rest(&mut pause).await;
            continue;
        }
        pause = PAUSE;
        assert_eq!(answer.status(), StatusCode::OK);
        let (mut frames, mut unread) = (answer.into_body(), Vec::new());
        while let Some(chunk) = frames.data().await {
            let chunk = chunk.expect("a frame");
            let released = frames.flow_control().release_capacity(chunk.len());
            released.expect("a connection");
            unread.extend_from_slice(&chunk);
            let mut rest = unread.as_slice();
            if let Some(bytes) = read_frame(&mut rest, usize::MAX).expect("a frame") {
                let batch = FeedBatch::decode(bytes).expect("a batch");
                point = (batch.head.generation, batch.head.next);
                note(bytes, &mut next, &arrivals);
                let taken = unread.len() - rest.len();
                unread.drain(..taken);
                let mut acknowledgement = Vec::new();
                write_acknowledgement(point, &mut acknowledgement);
                let sent = acknowledgements.send_data(acknowledgement.into(), false);
                sent.expect("a connection");
            }
        }
    }
}

/// Follows the feed like the filter in Wasm.
async fn poll(address: SocketAddr, arrivals: Arrivals) {
    let mut connection = Connection::open(address).await.expect("a connection");
    let token = format!("Bearer {EDGE_TOKEN}");
    let name = worker_text(&rand::random());
    let (mut after, mut generation, mut next) = (FeedPosition::START, 0, 0);
    let mut pause = PAUSE;
    loop {
        let path =
            format!("/edge/v1/feed?after={after}&generation={generation}&waitMs={WAIT_MILLIS}");
        let request = Request::get(&path)
            .header("authorization", token.as_bytes())
            .header("accept", FeedBatch::MEDIA_TYPE.as_bytes())
            .header(POLLER_HEADER, name.as_bytes());
        let answer = connection.exchange(&request, b"").await.expect("an answer");
        if answer.status == 503 {
            rest(&mut pause).await;
            continue;
        }
        pause = PAUSE;
        assert_eq!(answer.status, 200, "{answer:?}");
        let batch = FeedBatch::decode(&answer.body).expect("a batch");
        (after, generation) = (batch.head.next, batch.head.generation);
        note(&answer.body, &mut next, &arrivals);
    }
}

/// Waits after an answer of a feed that is not current, as before the first beat, and longer the next time.
async fn rest(pause: &mut Duration) {
    sleep(pause.mul_f64(rand::random_range(0.5..1.0))).await;
    *pause = (*pause * 2).min(MAX_PAUSE);
}

/// Records an answer, and the changes in it that are new to the worker.
fn note(body: &[u8], next: &mut usize, arrivals: &Arrivals) {
    let at = Instant::now();
    let mut arrivals = arrivals.lock().expect("a lock");
    arrivals.push(None);
    for rest in String::from_utf8_lossy(body).split(MARK).skip(1) {
        let number = rest.get(..DIGITS).and_then(|digits| digits.parse().ok());
        let number = number.expect("a number");
        if number >= *next {
            *next = number + 1;
            arrivals.push(Some((number, at)));
        }
    }
}
