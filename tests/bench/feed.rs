//! How long a change takes to be at every worker that polls the feed, and what workers cost that wait for one.

use crate::options::Options;
use crate::process::{cpu_time, others, pin, resident};
use crate::report::{Section, Table};
use crate::rounds::median;
use edgelink_tests::scenario::{DOMAIN, Request};
use edgelink_tests::servers::RedisServer;
use edgelink_tests::stack::{
    Connection, ControlPlane, EDGE_TOKEN, Production, ProductionOptions, until,
};
use edgelink_wire::redis::FEED_STREAM;
use edgelink_wire::{FeedBatch, FeedPosition};
use serde_json::json;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{interval, sleep};

const LINKS: usize = 50;
const WAIT_MILLIS: u32 = 2_000;
/// As a worker pauses after polls that failed.
const PAUSE: Duration = Duration::from_millis(50);
const MAX_PAUSE: Duration = Duration::from_secs(2);
const LIMIT: Duration = Duration::from_secs(60);
/// In front of the number of a change in a target, which has [`DIGITS`].
const MARK: &str = "/change/";
const DIGITS: usize = 8;

/// How a worker follows the feed.
#[derive(Clone, Copy)]
enum Way {
    /// By long polls of a control plane.
    Poll(SocketAddr),
    /// By `XREAD BLOCK` of the stream that control planes follow, at a port.
    Stream(u16),
}

/// Which change came to a worker, and when. A `None` stands for an answer without any.
type Arrivals = Arc<Mutex<Vec<Option<(usize, Instant)>>>>;

/// Workers that follow the feed.
struct Workers {
    tasks: JoinSet<()>,
    arrivals: Arrivals,
}

/// The writer's side of a run: when each change was sent, and when it was answered.
struct Changes {
    first: usize,
    times: Vec<(Instant, Instant)>,
}

/// A run's figures, in milliseconds.
#[derive(Default)]
struct Figures {
    p50: f64,
    p99: f64,
    last: f64,
    /// Since the answer; below zero before it.
    p99_answered: f64,
    /// Of control planes and Redis, for each change.
    cpu: f64,
}

/// The table.
pub(crate) async fn run(options: &Options) -> Section {
    let mut section = Section::new("Changes at workers");
    section.text(&format!(
        "Two control planes, MariaDB and Redis; 10 changes a second by PATCH at one of them, and simulated workers that follow \
         the feed at both by long polls of {WAIT_MILLIS} ms on a connection each. Milliseconds from the PATCH being sent \
         until a worker has the change; the answer to the PATCH is meant to come after that. CPU: of control planes and Redis. Medians of \
         rounds in turns."
    ));
    if options.wants("few") {
        section.text(&few(options).await);
    }
    if options.wants("many") {
        section
            .text(&"One control plane with SQLite and Redis, and 10,000 workers that wait at it:");
        section.text(&many(options).await);
    }
    section
}

async fn few(options: &Options) -> Table {
    let (rounds, changes) = options.size.pick((3, 50), (1, 20));
    let redis = RedisServer::start().await;
    let mut production = Production::start(&ProductionOptions {
        envoys: 0,
        ..ProductionOptions::direct(&redis)
    })
    .await;
    let planes = &mut production.control_planes;
    let mut processes: Vec<u32> = planes
        .iter_mut()
        .map(|plane| plane.process().id())
        .collect();
    processes.push(redis.process_id());
    separate(&processes);
    create_links(&planes[0]).await;
    let polls: Vec<Way> = planes
        .iter()
        .map(|plane| Way::Poll(plane.address()))
        .collect();
    let streams = vec![Way::Stream(redis.port())];
    let kinds = [("poll", &polls), ("stream", &streams)];
    let mut first = 0;
    let mut table = Table::new(HEAD);
    for count in [0, 2, 50, 500] {
        let mut all = [Vec::new(), Vec::new()];
        for _ in 0..rounds {
            for ((_, ways), figures) in kinds.iter().zip(&mut all) {
                let pace = Duration::from_millis(100);
                let run = measure(
                    &planes[0],
                    ways,
                    count,
                    &processes,
                    first..first + changes,
                    pace,
                );
                figures.push(run.await);
                first += changes;
            }
        }
        for ((name, _), figures) in kinds.iter().zip(&all) {
            row(&mut table, name, count, figures);
        }
    }
    table
}

async fn many(options: &Options) -> Table {
    let (count, changes) = options.size.pick((10_000, 20), (1_000, 5));
    let redis = RedisServer::start().await;
    let mut plane = ControlPlane::with_variables(&[
        ("EDGELINK_DOMAINS", DOMAIN),
        ("EDGELINK_REDIS_URL", &redis.url()),
        ("EDGELINK_FEED_MAX_POLLS", "20000"),
        ("EDGELINK_API_MAX_CONNECTIONS", "20000"),
        ("EDGELINK_API_MAX_CONNECTIONS_PER_ADDRESS", "20000"),
    ])
    .await;
    let processes = [plane.process().id()];
    separate(&[processes[0], redis.process_id()]);
    create_links(&plane).await;
    let mut table = Table::new(HEAD);
    let ways = [Way::Poll(plane.address())];
    let before = resident(&processes);
    let workers = Workers::start(&ways, count);
    workers.await_answers(count * 3).await;
    let each = resident(&processes).saturating_sub(before) / count as u64;
    let (start, idle) = (Instant::now(), cpu_time(&processes));
    sleep(Duration::from_secs(5)).await;
    let idle = (cpu_time(&processes) - idle).as_secs_f64() / start.elapsed().as_secs_f64();
    drop(workers);
    let pace = Duration::from_secs(1);
    let figures = measure(&plane, &ways, count, &processes, 0..changes, pace).await;
    row(&mut table, "poll", count, &[figures]);
    eprintln!(
        "{each} bytes a waiting poll, {:.1} % of a processor without changes",
        idle * 100.0
    );
    table
}

const HEAD: [&str; 7] = [
    "workers",
    "by",
    "p50, ms",
    "p99, ms",
    "last of all, ms",
    "p99 since the answer, ms",
    "CPU a change, ms",
];

fn row(table: &mut Table, name: &str, count: usize, figures: &[Figures]) {
    let cell = |figure: fn(&Figures) -> f64| {
        let values: Vec<f64> = figures.iter().map(figure).collect();
        format!("{:.1}", median(&values))
    };
    let cells = [
        count.to_string(),
        name.to_owned(),
        cell(|figures| figures.p50),
        cell(|figures| figures.p99),
        cell(|figures| figures.last),
        cell(|figures| figures.p99_answered),
        cell(|figures| figures.cpu),
    ];
    // What was measured is seen even if the run does not come to its end.
    eprintln!("{}", cells.join(" | "));
    table.row(cells);
}

/// Servers on the first processor, this process on the others.
fn separate(servers: &[u32]) {
    pin(servers, "0");
    pin(&[std::process::id()], &others());
}

async fn create_links(plane: &ControlPlane) {
    for link in 0..LINKS {
        let body =
            json!({ "longUrl": "https://example.com/", "customSlug": format!("change-{link}") });
        plane.create(&body).await;
    }
}

async fn measure(
    plane: &ControlPlane,
    ways: &[Way],
    count: usize,
    processes: &[u32],
    numbers: std::ops::Range<usize>,
    pace: Duration,
) -> Figures {
    let workers = Workers::start(ways, count);
    workers.await_answers(count * 3).await;
    let wanted = numbers.len() * count;
    let cpu = cpu_time(processes);
    let changes = Changes::make(plane, numbers, pace).await;
    until("every worker has every change", LIMIT, async || {
        (workers.changes() >= wanted).then_some(())
    })
    .await;
    let cpu = cpu_time(processes) - cpu;
    changes.figures(&workers, cpu)
}

impl Changes {
    /// One after the other, in time with `pace`.
    async fn make(plane: &ControlPlane, numbers: std::ops::Range<usize>, pace: Duration) -> Self {
        let mut changes = Self {
            first: numbers.start,
            times: Vec::new(),
        };
        let mut connection = plane.connect().await;
        let mut ticks = interval(pace);
        for number in numbers {
            ticks.tick().await;
            let sent = Instant::now();
            let target = format!("https://example.com{MARK}{number:0DIGITS$}");
            let path = format!("/links/change-{}", number % LINKS);
            let body = json!({ "longUrl": target });
            let answer = plane.api_over(&mut connection, "PATCH", &path, &body).await;
            assert_eq!(answer.expect("an answer").status, 200);
            changes.times.push((sent, Instant::now()));
        }
        changes
    }

    fn figures(&self, workers: &Workers, cpu: Duration) -> Figures {
        let arrivals = workers.arrivals.lock().expect("a lock");
        let (mut sent, mut answered) = (Vec::new(), Vec::new());
        for (number, at) in arrivals.iter().flatten() {
            let times = number.checked_sub(self.first);
            if let Some(times) = times.and_then(|place| self.times.get(place)) {
                sent.push(millis(*at, times.0));
                answered.push(millis(*at, times.1));
            }
        }
        Figures {
            p50: percentile(&mut sent, 50),
            p99: percentile(&mut sent, 99),
            last: percentile(&mut sent, 100),
            p99_answered: percentile(&mut answered, 99),
            cpu: cpu.as_secs_f64() * 1e3 / self.times.len() as f64,
        }
    }
}

fn millis(at: Instant, since: Instant) -> f64 {
    let later = at.saturating_duration_since(since).as_secs_f64();
    (later - since.saturating_duration_since(at).as_secs_f64()) * 1e3
}

fn percentile(values: &mut [f64], share: usize) -> f64 {
    values.sort_by(f64::total_cmp);
    let place = values.len().saturating_sub(1) * share / 100;
    values.get(place).copied().unwrap_or(f64::NAN)
}

impl Workers {
    fn start(ways: &[Way], count: usize) -> Self {
        let arrivals = Arrivals::default();
        let mut tasks = JoinSet::new();
        for way in ways.iter().cycle().take(count) {
            let arrivals = arrivals.clone();
            match *way {
                Way::Poll(address) => tasks.spawn(poll(address, arrivals)),
                Way::Stream(port) => tasks.spawn(read_stream(port, arrivals)),
            };
        }
        Self { tasks, arrivals }
    }

    /// Returns when workers have had so many answers, with changes or without.
    async fn await_answers(&self, count: usize) {
        until("all workers wait", LIMIT, async || {
            assert!(self.tasks.is_empty() || count > 0);
            (self.arrivals.lock().expect("a lock").len() >= count).then_some(())
        })
        .await;
    }

    fn changes(&self) -> usize {
        self.arrivals
            .lock()
            .expect("a lock")
            .iter()
            .flatten()
            .count()
    }
}

/// What a worker notes of an answer: the changes in it that it has not seen.
fn note(bytes: &[u8], next: &mut usize, arrivals: &Arrivals) {
    let at = Instant::now();
    let mut arrivals = arrivals.lock().expect("a lock");
    arrivals.push(None);
    for rest in String::from_utf8_lossy(bytes).split(MARK).skip(1) {
        let number = rest.get(..DIGITS).and_then(|digits| digits.parse().ok());
        let number = number.expect("a number");
        if number >= *next {
            *next = number + 1;
            arrivals.push(Some((number, at)));
        }
    }
}

/// Follows the feed as the filter does.
async fn poll(address: SocketAddr, arrivals: Arrivals) {
    let mut connection = Connection::open(address).await.expect("a connection");
    let token = format!("Bearer {EDGE_TOKEN}");
    let (mut after, mut generation, mut next) = (FeedPosition::START, 0, 0);
    let mut pause = PAUSE;
    loop {
        let path =
            format!("/edge/v1/feed?after={after}&generation={generation}&waitMs={WAIT_MILLIS}");
        let request = Request::get(&path)
            .header("authorization", token.as_bytes())
            .header("accept", FeedBatch::MEDIA_TYPE.as_bytes());
        let answer = connection.exchange(&request, b"").await.expect("an answer");
        if answer.status == 503 {
            // The feed is not current, as before the first beat.
            sleep(pause.mul_f64(rand::random_range(0.5..1.0))).await;
            pause = (pause * 2).min(MAX_PAUSE);
            continue;
        }
        pause = PAUSE;
        assert_eq!(answer.status, 200, "{answer:?}");
        let batch = FeedBatch::decode(&answer.body).expect("a batch");
        (after, generation) = (batch.head.next, batch.head.generation);
        note(&answer.body, &mut next, &arrivals);
    }
}

/// Follows the stream in Redis.
async fn read_stream(port: u16, arrivals: Arrivals) {
    let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))
        .await
        .expect("Redis");
    stream.set_nodelay(true).expect("an option");
    let mut stream = BufReader::new(stream);
    let (mut after, mut next) = ("$".to_owned(), 0);
    loop {
        let words = [
            "XREAD",
            "COUNT",
            "1000",
            "BLOCK",
            &WAIT_MILLIS.to_string(),
            "STREAMS",
            FEED_STREAM,
            &after,
        ];
        let mut command = format!("*{}\r\n", words.len());
        for word in words {
            command += &format!("${}\r\n{word}\r\n", word.len());
        }
        stream
            .get_mut()
            .write_all(command.as_bytes())
            .await
            .expect("Redis");
        let (bytes, last) = read_reply(&mut stream).await;
        after = last.unwrap_or(after);
        note(&bytes, &mut next, &arrivals);
    }
}

/// A reply as it came, and the last id of an entry in it.
async fn read_reply(stream: &mut BufReader<TcpStream>) -> (Vec<u8>, Option<String>) {
    let (mut bytes, mut last, mut wanted, mut is_pair) = (Vec::new(), None, 1_usize, false);
    while wanted > 0 {
        wanted -= 1;
        let start = bytes.len();
        stream.read_until(b'\n', &mut bytes).await.expect("Redis");
        let line = std::str::from_utf8(&bytes[start..])
            .expect("text")
            .trim_end()
            .to_owned();
        let (kind, number) = line.split_at(1);
        let count = number.parse::<usize>().unwrap_or_default();
        match kind {
            "*" => wanted += count,
            "$" => {
                let start = bytes.len();
                bytes.resize(start + count + 2, 0);
                stream.read_exact(&mut bytes[start..]).await.expect("Redis");
                let text = std::str::from_utf8(&bytes[start..start + count]).unwrap_or_default();
                if is_pair && text.parse::<FeedPosition>().is_ok() {
                    last = Some(text.to_owned());
                }
            }
            _ => panic!("Redis answers {line}"),
        }
        is_pair = kind == "*" && count == 2;
    }
    (bytes, last)
}
