//! The nemesis: clients use a deployment of real processes while faults drawn from a seed disturb it; a checker then
//! judges what the clients observed. The method is Jepsen's: record a history first, then judge it by the contract alone.
//!
//! [`run`] starts everything; [`check`] judges a history, including one recorded by an earlier run.

mod checker;
mod clicks;
mod clients;
pub mod clock;
mod deployment;
mod faults;
mod history;
mod logs;
mod part;
pub mod proxy;
mod receiver;
mod rollups;

use crate::stack::{Stats, root};
use clients::{Client, ClientContext, Clients, domains, read_back};
use deployment::{CONTROL_PLANES, DisturbedDeployment, ENVOYS};
use faults::{Nemesis, copy, plan, plan_pressure};
use history::{History, Via, What};
use receiver::{Receiver, await_deliveries};
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;
use tokio::time::sleep;

pub use checker::{Promise, Verdict, Violation, check, print};
pub use deployment::Shape;
pub use faults::SHORT_SEED;
pub use history::{Event, read};

/// Time that clients run before the first fault.
const WARM_UP: Duration = Duration::from_secs(4);
/// Time for everything to recover after the last fault of a storm; then the deployment is watched for a while.
const RECOVERY: Duration = Duration::from_secs(10);
const WATCHED: Duration = Duration::from_secs(7);
const SUPERVISION: Duration = Duration::from_millis(200);
const SETTLE_LIMIT: Duration = Duration::from_secs(10);
/// Connections opened to each Envoy at the end, enough that each of its workers gets one.
const SWEEPERS: usize = 8;

/// Load beside the faults: on or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pressure {
    /// Load beside the faults of a storm, and alone after it. Adds links on domains created by the API, tenants, visitors
    /// under unknown hosts, and prefetches.
    With,
    /// Faults only.
    Without,
}

/// Parameters of a run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Approximate time during which faults occur.
    pub time: Duration,
    /// Seed that the faults are drawn from.
    pub seed: u64,
    /// Redis topology.
    pub shape: Shape,
    /// Load beside the faults.
    pub pressure: Pressure,
    /// Names of the only kinds of faults to use; empty for all.
    pub only: Vec<String>,
}

/// Runs everything, prints the report, and returns the verdict.
///
/// # Panics
/// Panics if the deployment does not start, or `only` names an unknown kind of fault.
pub async fn run(options: Options) -> Verdict {
    let Options {
        time,
        seed,
        shape,
        pressure,
        only,
    } = options;
    println!("seed {seed}, shape {shape:?}, {pressure:?} pressure, {time:?} {only:?}");
    for name in &only {
        let kinds: Vec<&str> = faults::kinds().collect();
        assert!(
            kinds.contains(&name.as_str()),
            "no fault '{name}'; there are {kinds:?}"
        );
    }
    let folder = folder(seed);
    let deployment = Arc::new(DisturbedDeployment::start(shape).await);
    let file = folder.join("history.jsonl");
    let history = Arc::new(History::begin(&file));
    let clicks = Arc::new(clicks::Clicks::default());
    let mut background = JoinSet::new();
    background.spawn(clicks.clone().watch(deployment.clone()));
    background.spawn(supervise(deployment.clone(), history.clone()));
    let receiver = Receiver::start(&deployment, &history, seed).await;
    let clients = Clients::start(&deployment, &history, (seed, pressure));
    sleep(WARM_UP).await;
    let nemesis = Arc::new(Nemesis::new(&clients.shared, &clicks, &only));
    disturb(&nemesis, (seed, pressure), time).await;
    let shared = clients.finish().await;
    sweep(&shared).await;
    await_deliveries(&deployment).await;
    count_clicks(&shared, &clicks).await;
    drop(receiver);
    logs::read(&deployment, &history);
    history.flush();
    background.shutdown().await;

    let events = read(&file);
    let verdict = check(&events);
    println!("{}", print(&verdict, &events));
    let is_kept = std::env::var_os("NEMESIS_KEEP").is_some_and(|value| !value.is_empty());
    if verdict.violations.is_empty() && !is_kept {
        let _ = fs::remove_dir_all(&folder); // no longer needed
    } else {
        keep_logs(&deployment, &folder);
        println!("\nhistory and logs: {}", folder.display());
    }
    verdict
}

fn folder(seed: u64) -> PathBuf {
    let folder = root().join(format!("target/nemesis/{seed}"));
    fs::create_dir_all(&folder).expect("a folder for the history");
    folder
}

fn keep_logs(deployment: &DisturbedDeployment, folder: &std::path::Path) {
    let files = fs::read_dir(deployment.folder())
        .expect("the logs")
        .flatten();
    for file in files.filter(|file| file.path().extension().is_some_and(|end| end == "log")) {
        fs::copy(file.path(), folder.join(file.file_name())).expect("a copy of a log");
    }
}

/// Restarts processes that exited on their own, as an orchestrator does: a control plane that finds no database, for one.
async fn supervise(deployment: Arc<DisturbedDeployment>, history: Arc<History>) {
    loop {
        for part in deployment.parts() {
            let has_ended = part.supervise();
            if has_ended && !part.name.starts_with("cp-") && part.name != "stray" {
                let text = format!("{} has ended by itself", part.name);
                history.add(What::Unexpected { text });
            }
        }
        sleep(SUPERVISION).await;
    }
}

/// Alternates storms of faults with quiet; each quiet period starts under load.
async fn disturb(nemesis: &Arc<Nemesis>, (seed, pressure): (u64, Pressure), time: Duration) {
    let start = Instant::now();
    let mut storm = 0;
    while storm == 0 || start.elapsed() + RECOVERY + WATCHED < time {
        copy(nemesis).await;
        let names = nemesis.names();
        let mut lanes = plan(seed, storm, names);
        let mut alone = Vec::new();
        if pressure == Pressure::With {
            lanes.push(plan_pressure(seed, 2 * storm, names, &lanes));
            alone = plan_pressure(seed, 2 * storm + 1, names, &[]);
        }
        let mut running = JoinSet::new();
        for lane in lanes {
            running.spawn(nemesis.clone().run(lane));
        }
        while let Some(ended) = running.join_next().await {
            ended.expect("a lane that ends well");
        }
        nemesis.await_all().await;
        sleep(RECOVERY).await;
        nemesis.clone().run(alone).await;
        sleep(WATCHED).await;
        storm += 1;
        println!(
            "{:>4} s: storm {storm} has ended",
            start.elapsed().as_secs()
        );
    }
}

/// Reads every link through every worker of every Envoy and every control plane.
async fn sweep(shared: &Arc<ClientContext>) {
    sleep(RECOVERY).await;
    shared.history.add(What::Sweep);
    let codes = shared.codes.all();
    let mut tasks = JoinSet::new();
    for number in 0..CONTROL_PLANES {
        let (shared, codes) = (shared.clone(), codes.clone());
        tasks.spawn(async move {
            let mut client = Client::new(Via::ControlPlane(number));
            for code in &codes {
                read_back(&shared, &mut client, code).await;
                client.follow(&shared, code, false).await;
            }
            for domain in domains() {
                client.follow(&shared, &domain, false).await;
            }
        });
    }
    for number in 0..ENVOYS {
        let mut visitors = Vec::new();
        for _ in 0..SWEEPERS {
            let mut visitor = Client::new(Via::Envoy(number));
            visitor.connect(shared).await;
            visitors.push(visitor);
        }
        let by_worker = shared.deployment.connections_by_worker(number).await;
        println!("envoy-{number}: connections by worker {by_worker:?}");
        for mut visitor in visitors {
            let (shared, codes) = (shared.clone(), codes.clone());
            tasks.spawn(async move {
                for code in codes.iter().cloned().chain(domains()) {
                    for picks in [false, true] {
                        visitor.follow(&shared, &code, picks).await;
                    }
                }
            });
        }
    }
    while let Some(ended) = tasks.join_next().await {
        ended.expect("a sweeper that ends well");
    }
}

/// Waits until Envoys have reported their clicks, then records the counts.
async fn count_clicks(shared: &Arc<ClientContext>, clicks: &clicks::Clicks) {
    let deployment = &shared.deployment;
    let start = Instant::now();
    while start.elapsed() < SETTLE_LIMIT {
        let mut open = 0;
        for number in 0..ENVOYS {
            let stats = deployment.stats(number, "edgelink.clicks").await;
            let stats = stats.unwrap_or_default();
            let figure = |name: &str| stats.get(&format!("edgelink.clicks.{name}"));
            open += figure("sent").saturating_sub(figure("acknowledged") + figure("dropped"));
        }
        if open == 0 {
            break;
        }
        sleep(SUPERVISION).await;
    }
    for number in 0..ENVOYS {
        let stats = deployment.stats(number, Stats::OF_CRASHES).await;
        if stats.is_some_and(|stats| stats.crashes() > 0) {
            let text = format!("envoy-{number}: a trap, or a panic");
            shared.history.add(What::Unexpected { text });
        }
    }
    // Reports may still arrive, and be written, between two queries: the counts are taken once they agree before and
    // after.
    let start = Instant::now();
    loop {
        let before = deployment.clicks_counted().await.expect("the database");
        let waiting = deployment.clicks_waiting().await.expect("the database");
        let acknowledged = clicks.acknowledged(deployment).await;
        let by_code = deployment.clicks_by_code().await.expect("the database");
        let written = deployment.clicks_written().await.expect("the database");
        let by_worker = deployment.accounts("click_workers").await;
        let by_hour = deployment.accounts("click_accounts").await;
        let counted = deployment.clicks_counted().await.expect("the database");
        let is_settled = waiting == 0 && before == counted;
        if !is_settled && start.elapsed() < SETTLE_LIMIT {
            sleep(SUPERVISION).await;
            continue;
        }
        shared.history.add(What::Clicks {
            counted,
            acknowledged,
            by_code,
            written: Box::new(written),
            waiting,
            by_worker: by_worker.expect("the database"),
            by_hour: by_hour.expect("the database"),
        });
        return;
    }
}
