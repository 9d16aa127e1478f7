//! Three control planes on one MariaDB, creating at full speed while everything is killed in turn.

use crate::acknowledged::Answers;
use crate::clients::Clients;
use crate::replica::Replica;
use crate::seconds;
use edgelink_tests::servers::MariaDb;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use tokio::time::{Instant, sleep, sleep_until};

/// Short, so that a stopped process is past it soon.
const LEASE_SECONDS: u64 = 5;
const CLIENTS_EACH: usize = 16;
const DATABASE_CRASHES: u32 = 10;

/// `make chaos-issuers`.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes more than a minute: make chaos-issuers"]
async fn chaos() {
    let time = seconds("EDGELINK_TEST_DRILL_SECONDS", 60);
    let folder = TempDir::new().expect("a temporary folder");
    let mut database = MariaDb::start();
    let url = database.database();
    let lease = LEASE_SECONDS.to_string();
    let variables = [
        ("EDGELINK_STORE_URL", url.as_str()),
        ("EDGELINK_NUMBERS_LEASE_SECONDS", lease.as_str()),
        (
            "EDGELINK_LINKS_CODE_KEY",
            "000102030405060708090a0b0c0d0e0f",
        ),
    ];
    let mut replicas = Vec::new();
    for name in ["one", "two", "three"] {
        replicas.push(Replica::start(name, folder.path(), &variables).await);
    }
    let urls: Vec<String> = replicas.iter().map(Replica::url).collect();
    let answers = Arc::new(Answers::new());
    let clients = Clients::start(&urls, &replicas[0].key(), CLIENTS_EACH, &answers);

    let end = Instant::now() + time;
    let crashes = tokio::task::spawn_blocking(move || {
        crash_database(&mut database, time);
        database
    });
    let stops = disturb(replicas, end).await;
    let database = crashes.await.expect("the database");
    clients.finish().await;
    println!("\nchaos for {time:?}: {DATABASE_CRASHES} crashes of MariaDB, {stops}");
    answers.verify(&database, "test_0");
    assert!(answers.count() > 0);
}

/// Kills the database and starts it again, evenly over `time`.
fn crash_database(database: &mut MariaDb, time: Duration) {
    let start = std::time::Instant::now();
    for crash in 1..=DATABASE_CRASHES {
        let due = time * crash / (DATABASE_CRASHES + 1);
        std::thread::sleep(due.saturating_sub(start.elapsed()));
        database.restart();
    }
}

/// The first control plane is stopped past its lease again and again, the others are killed in turn.
async fn disturb(mut replicas: Vec<Replica>, end: Instant) -> String {
    let past_lease = Duration::from_secs(LEASE_SECONDS + 2);
    let (mut kills, mut stops) = (0, 0);
    let mut victim = 1;
    let mut goes_on = Instant::now() + past_lease;
    replicas[0].stop();
    let mut is_stopped = true;
    while Instant::now() < end {
        sleep(Duration::from_millis(1300)).await;
        replicas[victim].crash();
        kills += 1;
        victim = 3 - victim;
        if Instant::now() >= goes_on {
            if is_stopped {
                replicas[0].cont();
                stops += 1;
            } else {
                replicas[0].stop();
            }
            is_stopped = !is_stopped;
            goes_on = Instant::now() + past_lease;
        }
    }
    replicas[0].cont();
    sleep_until(end + Duration::from_secs(5)).await;
    format!("{kills} of control planes, {stops} stops past the lease")
}
