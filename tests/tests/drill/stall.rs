//! A database that stops answering, and continues later.

use crate::acknowledged::Answers;
use crate::clients::{Clients, client};
use crate::replica::Replica;
use crate::seconds;
use edgelink_tests::servers::MariaDb;
use edgelink_tests::stack::until;
use serde_json::json;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// `make stalled-database`.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes more than a minute: make stalled-database"]
async fn stalled() {
    let time = seconds("EDGELINK_TEST_DRILL_SECONDS", 60);
    let folder = TempDir::new().expect("a temporary folder");
    let database = MariaDb::start();
    let url = database.database();
    let variables = [("EDGELINK_STORE_URL", url.as_str())];
    let replica = Replica::start("stalled", folder.path(), &variables).await;
    let answers = Arc::new(Answers::new());
    let clients = Clients::start(&[replica.url()], &replica.key(), 8, &answers);
    until("links are created", Duration::from_secs(10), async || {
        (answers.count() > 100).then_some(())
    })
    .await;
    let issued = issued(&replica).await;
    database.stop();
    let slowest = refusals(&replica, time).await;
    let issued_meanwhile = self::issued(&replica).await - issued;
    let before = answers.count();
    database.cont();
    let start = Instant::now();
    let well = until(
        "links are created again",
        Duration::from_secs(30),
        async || (answers.count() > before + 200).then(|| start.elapsed()),
    )
    .await;
    clients.finish().await;
    println!("\nMariaDB stopped for {time:?}");
    println!("numbers issued meanwhile    {issued_meanwhile}");
    println!("the slowest 503             {slowest:.2?} (goal: 2 s)");
    println!("200 links created within    {well:.2?} of its going on (goal: 5 s)");
    answers.verify(&database, "test_0");
}

/// Asks for links for `time`; gives how long the slowest answer took. All must be 503.
async fn refusals(replica: &Replica, time: Duration) -> Duration {
    let http = client();
    let key = replica.key();
    let end = Instant::now() + time;
    let mut slowest = Duration::ZERO;
    while Instant::now() < end {
        let start = Instant::now();
        let request = http.post(format!("{}/api/v1/links", replica.url()));
        let request = request.header("x-api-key", &key);
        let answer = request.json(&json!({ "longUrl": "https://example.com/" }));
        let answer = answer.send().await.expect("an answer");
        assert_eq!(answer.status(), 503);
        slowest = slowest.max(start.elapsed());
    }
    slowest
}

async fn issued(replica: &Replica) -> u64 {
    let text = reqwest::get(format!("{}/metrics", replica.url())).await;
    let text = text.expect("metrics").text().await.expect("text");
    let line = text
        .lines()
        .find(|line| line.starts_with("edgelink_numbers_issued_total"));
    let number = line.and_then(|line| line.split_whitespace().nth(1));
    number
        .and_then(|number| number.parse().ok())
        .expect("a number")
}
