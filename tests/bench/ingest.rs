//! Clicks per second that a control plane ingests into each engine, and their cost in CPU and disk space.

mod lane;
mod visits;

use crate::options::Options;
use crate::process::{cpu_time, others, pin};
use crate::report::{Claim, Limit, Section, Table};
use crate::rounds::median;
use edgelink_tests::stack::{Connection, ControlPlane, until};
use lane::{LANES, Lane, Servers};
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;
use tokio::time::sleep;
use visits::{EVENTS_OF_BATCH, LINKS, Visits};

/// Connections used for reports.
const CONNECTIONS: usize = 8;

/// Longest time for all clicks to reach the engine.
const LIMIT: Duration = Duration::from_secs(600);

/// Interval between queries for the number of clicks written by the control plane.
const POLL: Duration = Duration::from_millis(50);

/// Pause before a refused report is sent again.
const PAUSE: Duration = Duration::from_millis(20);

const MILLION: f64 = 1e6;

/// Results of a run.
#[derive(Clone, Debug)]
struct Figures {
    /// Clicks acknowledged per second.
    acknowledged: f64,
    /// Clicks per second until all were in the engine.
    written: f64,
    /// Seconds of CPU per million clicks.
    control_plane: f64,
    mariadb: f64,
    clickhouse: f64,
    /// Bytes on disk per click.
    bytes: f64,
    /// Clicks in the engine, and clicks sent.
    counted: (u64, u64),
}

/// The table.
pub(crate) async fn run(options: &Options) -> Section {
    let rounds = options.size.pick(3, 1);
    let lanes: Vec<&Lane> = LANES
        .iter()
        .filter(|lane| options.wants(lane.name))
        .collect();
    let mut all: Vec<Vec<Figures>> = vec![Vec::new(); lanes.len()];
    for _ in 0..rounds {
        for (lane, figures) in lanes.iter().zip(&mut all) {
            let seen = measure(lane, options.size.pick(2_000_000, 200_000)).await;
            eprintln!("{}: {seen:?}", lane.name);
            figures.push(seen);
        }
    }
    report(&lanes, &all)
}

async fn measure(lane: &Lane, events: usize) -> Figures {
    let own = std::process::id();
    pin(&[own], &others());
    let servers = Servers::start(lane);
    // A process starts as many threads as its parent has processors.
    pin(&[own], "0");
    let mut plane = servers.control_plane(lane).await;
    pin(&[own], &others());
    pin(&[plane.process().id()], "0");
    let keys = visits::create(&plane).await;
    let before = servers.bytes();
    let mut visits = Visits::new(keys);
    let each = events / EVENTS_OF_BATCH / CONNECTIONS;
    let requests = (0..CONNECTIONS).map(|_| visits.requests(each)).collect();
    let sent = (CONNECTIONS * each * EVENTS_OF_BATCH) as u64;
    let times = |plane: u32| {
        let of = |process: Option<u32>| process.map_or(0.0, |it| cpu_time(&[it]).as_secs_f64());
        [Some(plane), Some(servers.mariadb()), servers.clickhouse()].map(of)
    };
    let process = plane.process().id();
    let earlier = times(process);
    let start = Instant::now();
    let acknowledged = send(plane.address(), requests, start);
    let written = await_written(&plane, sent, start);
    let (acknowledged, written) = tokio::join!(acknowledged, written);
    let later = times(process);
    let cpu = |place: usize| (later[place] - earlier[place]) * MILLION / sent as f64;
    let [control_plane, mariadb, clickhouse] = [0, 1, 2].map(cpu);
    plane.process().terminate().await;
    Figures {
        acknowledged: sent as f64 / acknowledged,
        written: sent as f64 / written,
        control_plane,
        mariadb,
        clickhouse,
        bytes: (servers.bytes() - before) as f64 / sent as f64,
        counted: (servers.counted(), sent),
    }
}

/// Sends requests, one after another on each connection; returns the seconds until all are acknowledged.
async fn send(address: SocketAddr, requests: Vec<Vec<Vec<u8>>>, start: Instant) -> f64 {
    let mut tasks: JoinSet<()> = requests
        .into_iter()
        .map(|requests| send_over_one(address, requests))
        .collect();
    while let Some(ended) = tasks.join_next().await {
        ended.expect("all are acknowledged");
    }
    start.elapsed().as_secs_f64()
}

async fn send_over_one(address: SocketAddr, requests: Vec<Vec<u8>>) {
    let mut connection = Connection::open(address).await.expect("a connection");
    for request in requests {
        loop {
            connection.send(&request).await.expect("a connection");
            let answer = connection.receive("POST").await.expect("an answer");
            if answer.status == 204 {
                break;
            }
            let text = String::from_utf8_lossy(&answer.body);
            assert_eq!(answer.status, 503, "{text}");
            eprintln!("refused: {text}");
            sleep(PAUSE).await;
        }
    }
}

/// Seconds until the control plane has written that many clicks.
async fn await_written(plane: &ControlPlane, clicks: u64, start: Instant) -> f64 {
    let before = clicks_written(plane).await;
    until("all clicks are written", LIMIT, async || {
        sleep(POLL).await;
        (clicks_written(plane).await >= before + clicks).then_some(())
    })
    .await;
    start.elapsed().as_secs_f64()
}

async fn clicks_written(plane: &ControlPlane) -> u64 {
    let url = format!("http://{}/metrics", plane.address());
    let answer = reqwest::get(&url).await.expect("metrics");
    let text = answer.text().await.expect("metrics");
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("edgelink_clicks_written_total "));
    line.map_or(0, |number| number.trim().parse().expect("a number"))
}

fn report(lanes: &[&Lane], all: &[Vec<Figures>]) -> Section {
    let mut section = Section::new("Clicks into each engine");
    section.text(&format!(
        "Reports over {CONNECTIONS} connections, encoded before, each a batch of {EVENTS_OF_BATCH} clicks of {LINKS} links (by \
         Zipf's law) with country, city, one of 200 user agents, language, often a referrer, sometimes UTM parameters, and visitors \
         by Zipf's law from a million. The control plane has one processor, with one worker; databases and the load share \
         the other. Acknowledged: the report is in the queue in MariaDB, of which the commit is on disk \
         (innodb_flush_log_at_trx_commit = 1). In the engine: until all clicks are counted and the queue is empty. CPU: seconds by a \
         million clicks, from the first report until then. Disk: files of MariaDB's tables of clicks, or parts of ClickHouse after merges, \
         by click, all of an hour or two."
    ));
    let mut table = Table::new([
        "engine",
        "acknowledged, k/s",
        "in the engine, k/s",
        "CPU of the control plane",
        "of MariaDB",
        "of ClickHouse",
        "k/s that the control plane's CPU allows",
        "disk, bytes a click",
    ]);
    for (lane, figures) in lanes.iter().zip(all) {
        table.row(cells(lane, figures));
    }
    section.text(&table);
    for (lane, figures) in lanes.iter().zip(all) {
        if let Some(goal) = lane.goal {
            let written = middle(figures, |figures| figures.written);
            let what = format!("clicks a second into {}", lane.name);
            section.goal(written, Limit::AtLeast(goal), &what);
            let cpu = middle(figures, |figures| figures.control_plane);
            let what = format!(
                "seconds of the control plane by a million clicks into {}",
                lane.name
            );
            section.goal(cpu, Limit::AtMost(MILLION / goal), &what);
        }
        for Figures {
            counted: (counted, sent),
            ..
        } in figures
        {
            let text = format!("{}: {counted} clicks are counted of {sent}", lane.name);
            section.claim(Claim::from(counted == sent), text);
        }
    }
    section
}

fn cells(lane: &Lane, figures: &[Figures]) -> [String; 8] {
    let thousands = |figure: fn(&Figures) -> f64| format!("{:.0}", middle(figures, figure) / 1e3);
    let seconds = |figure: fn(&Figures) -> f64| format!("{:.2}", middle(figures, figure));
    [
        lane.name.to_owned(),
        thousands(|figures| figures.acknowledged),
        thousands(|figures| figures.written),
        seconds(|figures| figures.control_plane),
        seconds(|figures| figures.mariadb),
        seconds(|figures| figures.clickhouse),
        thousands(|figures| MILLION / figures.control_plane),
        format!("{:.0}", middle(figures, |figures| figures.bytes)),
    ]
}

fn middle(figures: &[Figures], figure: impl Fn(&Figures) -> f64) -> f64 {
    median(&figures.iter().map(figure).collect::<Vec<_>>())
}
