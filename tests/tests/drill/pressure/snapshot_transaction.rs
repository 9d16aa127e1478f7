//! A transaction with a snapshot stays open, as that of a dump does, while links change.

use crate::production::{alias, create};
use crate::propagation::{await_everywhere, change_to, watchers};
use crate::seconds;
use edgelink_tests::servers::RedisServer;
use edgelink_tests::stack::{Connection, ControlPlane, Production, ProductionOptions};
use serde_json::json;
use sqlx::{Connection as _, MySqlConnection, raw_sql};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};

/// How long the transaction is open; `EDGELINK_TEST_DRILL_SECONDS` sets another time.
const OPEN_SECONDS: u64 = 1_200;
/// PATCHes a second; `EDGELINK_TEST_DRILL_RATE` sets another rate.
const RATE: u64 = 300;
const CLIENTS: u64 = 32;
/// The links that change, beside the one that is watched.
const LINKS: usize = 1_000;
const LOAD: &str = "load";
const WATCHED: &str = "watched";
/// The goal: p99 of a change at a worker, as a multiple of that without the transaction.
const GOAL: f64 = 1.5;

/// `make pressure`.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "a drill: make pressure"]
async fn snapshot_transaction() {
    let open = seconds("EDGELINK_TEST_DRILL_SECONDS", OPEN_SECONDS);
    let rate = seconds("EDGELINK_TEST_DRILL_RATE", RATE).as_secs();
    let redis = RedisServer::start().await;
    let production = Production::start(&ProductionOptions::direct(&redis)).await;
    create(&production.control_planes[0], LOAD, LINKS).await;
    create(&production.control_planes[0], WATCHED, 1).await;
    let production = Arc::new(production);
    let load = Load::start(&production, rate);
    let mut change = 0;
    // As long as the part of the time at whose end most removed rows are kept.
    let part = open / 4;
    let mut without = changes(&production, &mut change, part).await;
    let database = production
        .database
        .execute("SHOW DATABASES LIKE 'test\\_%'");
    let mut dump = MySqlConnection::connect(&production.database.url(database.trim()))
        .await
        .expect("a connection");
    let begin = "START TRANSACTION WITH CONSISTENT SNAPSHOT; SELECT COUNT(*) FROM outbox";
    raw_sql(begin).execute(&mut dump).await.expect("a snapshot");
    let patched = load.patched.load(Ordering::Relaxed);
    let begun = Instant::now();
    while begun.elapsed() < open - part {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let mut with = changes(&production, &mut change, part).await;
    let meanwhile = load.patched.load(Ordering::Relaxed) - patched;
    let refused = load.finish().await;
    let (before, after) = (quantiles(&mut without), quantiles(&mut with));
    let ratio = after.1.as_secs_f64() / before.1.as_secs_f64();
    println!("\na snapshot open for {open:?}, {meanwhile} PATCHes meanwhile, {refused} refused");
    println!("from PATCH to all workers:");
    println!(
        "    without it   p50 {:.1?}, p99 {:.1?} of {}",
        before.0,
        before.1,
        without.len()
    );
    println!(
        "    at its end   p50 {:.1?}, p99 {:.1?} of {}",
        after.0,
        after.1,
        with.len()
    );
    println!("    p99 is {ratio:.2} times that without it (goal: {GOAL})");
    assert!(meanwhile > 0 && !without.is_empty() && !with.is_empty());
    assert_eq!(refused, 0);
    drop(dump);
}

/// Changes the watched link again and again: how long each change took to be everywhere.
async fn changes(production: &Production, change: &mut usize, time: Duration) -> Vec<Duration> {
    let control_plane = &production.control_planes[0];
    let mut api = control_plane.connect().await;
    // Envoy closes those that were idle meanwhile.
    let mut watchers = watchers(production).await;
    let code = alias(WATCHED, 0);
    let mut times = Vec::new();
    let end = Instant::now() + time;
    while Instant::now() < end {
        *change += 1;
        let sent = Instant::now();
        let status = patch(control_plane, &mut api, &code, *change).await;
        assert_eq!(status, 200);
        await_everywhere(&mut watchers, &code, *change, sent).await;
        times.push(sent.elapsed());
    }
    times
}

async fn patch(
    control_plane: &ControlPlane,
    api: &mut Connection,
    code: &str,
    change: usize,
) -> u16 {
    let body = json!({ "longUrl": change_to(change) });
    let path = format!("/links/{code}");
    let answer = control_plane.api_over(api, "PATCH", &path, &body).await;
    answer.expect("an answer").status
}

/// The half and the 99th part of hundred.
fn quantiles(times: &mut [Duration]) -> (Duration, Duration) {
    times.sort_unstable();
    let at = |share: usize| times[(times.len() - 1) * share / 100];
    (at(50), at(99))
}

/// Clients that change links at a rate.
struct Load {
    stop: Arc<AtomicBool>,
    patched: Arc<AtomicU64>,
    clients: JoinSet<u64>,
}

impl Load {
    fn start(production: &Arc<Production>, rate: u64) -> Self {
        let (stop, patched) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let mut clients = JoinSet::new();
        for client in 0..CLIENTS {
            let production = Arc::clone(production);
            let (stop, patched) = (Arc::clone(&stop), Arc::clone(&patched));
            clients.spawn(async move {
                let planes = &production.control_planes;
                let control_plane = &planes[usize::try_from(client).unwrap() % planes.len()];
                let mut api = control_plane.connect().await;
                let mut ticks = interval(Duration::from_secs_f64(CLIENTS as f64 / rate as f64));
                ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
                let (mut number, mut refused) = (usize::try_from(client).unwrap(), 0);
                while !stop.load(Ordering::Relaxed) {
                    ticks.tick().await;
                    number += usize::try_from(CLIENTS).unwrap();
                    let code = alias(LOAD, number % LINKS);
                    match patch(control_plane, &mut api, &code, number).await {
                        200 => patched.fetch_add(1, Ordering::Relaxed),
                        _ => {
                            refused += 1;
                            0
                        }
                    };
                }
                refused
            });
        }
        Self {
            stop,
            patched,
            clients,
        }
    }

    /// How many PATCHes were refused.
    async fn finish(self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        self.clients.join_all().await.into_iter().sum()
    }
}
