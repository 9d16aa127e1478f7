//! A link of which thousands of workers have leased visits.

use edgelink_tests::scenario::{DOMAIN, Request};
use edgelink_tests::servers::MariaDb;
use edgelink_tests::stack::{Connection, ControlPlane, EDGE_TOKEN};
use edgelink_wire::visits::SettledBlock;
use edgelink_wire::{VisitsAnswer, VisitsRequest};
use serde_json::json;
use std::time::{Duration, Instant};

/// Workers that hold a block.
const WORKERS: u32 = 8_000;
/// Leases that are timed.
const LEASES: u64 = 500;
const GOAL: Duration = Duration::from_millis(5);

/// `make pressure`.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "prints times: make pressure"]
async fn many_leases() {
    let database = MariaDb::start();
    let url = database.database();
    let control_plane = ControlPlane::with_variables(&[("EDGELINK_STORE_URL", &url)]).await;
    let link = control_plane.link("crowded").max_visits(1_000_000_000);
    link.create().await;
    let mut connection = Connection::open(control_plane.address())
        .await
        .expect("a connection");
    lease(&mut connection, 1, None).await;
    // As leases that control planes of before the sums have written.
    database.execute(&format!(
        "USE test_0; INSERT INTO visit_leases (link_id, worker, number, size, settled, lease_until) \
         SELECT l.id, UNHEX(MD5(s.seq)), 1, 1, 0, 9000000000000 FROM seq_1_to_{WORKERS} s, links l; \
         UPDATE visits SET changes = changes + 1"
    ));
    let start = Instant::now();
    lease(&mut connection, 2, Some(1)).await;
    let first = start.elapsed();
    let mut times = Vec::new();
    for number in 3..LEASES + 3 {
        let start = Instant::now();
        lease(&mut connection, number, Some(number - 1)).await;
        times.push(start.elapsed());
    }
    times.sort_unstable();
    let at = |share: usize| times[(times.len() - 1) * share / 100];
    println!("\n{WORKERS} workers hold blocks of one link");
    println!("the first lease, which adds them up   {first:.2?}");
    println!(
        "p50 of the next                       {:.2?} (goal: {GOAL:?})",
        at(50)
    );
    println!("p99                                   {:.2?}", at(99));
    let shown = control_plane
        .api("GET", "/links/crowded", &json!(null))
        .await;
    let leased = shown.body["visits"]["leased"].as_u64().expect("a count");
    assert!(leased > u64::from(WORKERS), "{shown:?}");
}

/// Leases visits, and gives those of the block with that number back.
async fn lease(connection: &mut Connection, number: u64, settled: Option<u64>) {
    let request = VisitsRequest {
        worker: [7; 16],
        number,
        settled: settled.map(|number| SettledBlock { number, spent: 1 }),
        wants: true,
    };
    let path = format!("/edge/v1/visits/{DOMAIN}/crowded");
    let authorization = format!("Bearer {EDGE_TOKEN}");
    let sent =
        Request::new("POST", path.as_bytes()).header("authorization", authorization.as_bytes());
    let answer = connection.exchange(&sent, &request.to_bytes()).await;
    let answer = answer.expect("an answer");
    assert_eq!(answer.status, 200, "{answer:?}");
    let answer = VisitsAnswer::decode(&answer.body).expect("visits");
    assert!(answer.visits > 0, "{answer:?}");
}
