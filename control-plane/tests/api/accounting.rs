//! What became of clicks, by edge and interval.

use crate::helpers::{Running, send, until};
use edgelink_wire::clicks::{ClickBatch, encode};
use edgelink_wire::health::{self, RequestsByTier, WorkerHealth};
use reqwest::Method;
use serde_json::{Value, json};
use sqlx::{Connection, Executor, SqliteConnection};

const TOKEN: &str = "first-token-of-the-edges";

pub(crate) async fn report(server: &Running, edge: &str, batch: ClickBatch<'_>) {
    let request = server.plain(Method::POST, "/edge/v1/clicks");
    let request = request.bearer_auth(TOKEN).header("x-edgelink-edge", edge);
    let answer = send(request.body(encode(&[batch]))).await;
    assert_eq!(answer.status, 204);
}

pub(crate) fn batch(worker: u8, seq: u64, clicks: u64) -> ClickBatch<'static> {
    ClickBatch {
        worker: [worker; 16],
        seq,
        total: 10 * seq,
        dropped: seq,
        undescribed: 1,
        clicks: vec![("go.example:8080/x", clicks)],
        ..ClickBatch::default()
    }
}

fn accounts(sent: u64, counted: u64, dropped: u64, undescribed: u64) -> Value {
    json!({ "sent": sent, "counted": counted, "dropped": dropped, "undescribed": undescribed })
}

fn with(mut accounts: Value, name: &str, value: Value) -> Value {
    accounts[name] = value;
    accounts
}

#[tokio::test]
async fn accounting_when_grouped_by_edge_worker_or_day_adds_up() {
    let server = Running::start().await;
    report(&server, "fra", batch(1, 1, 4)).await;
    report(&server, "fra", batch(1, 2, 5)).await;
    report(&server, "fra", batch(1, 2, 5)).await;
    report(&server, "ams", batch(2, 1, 6)).await;
    // No name, as it is too long.
    report(&server, &"x".repeat(65), batch(3, 1, 7)).await;
    let ask = async |query: &str| {
        let answer = server.get(&format!("/clicks/accounting{query}")).await;
        answer.expect(200)
    };
    let all = accounts(40, 22, 4, 4);
    assert_eq!(ask("").await, all);
    let by_edge = ask("?groupBy=edge").await;
    let of_edge = |accounts, edge| with(with(accounts, "edge", edge), "health", Value::Null);
    let data = json!([
        of_edge(accounts(20, 9, 2, 2), json!("fra")),
        of_edge(accounts(10, 7, 1, 1), Value::Null),
        of_edge(accounts(10, 6, 1, 1), json!("ams")),
    ]);
    let expected = with(with(all.clone(), "groupBy", json!("edge")), "data", data);
    assert_eq!(by_edge, with(expected, "other", accounts(0, 0, 0, 0)));
    let by_worker = ask("?groupBy=worker").await;
    assert_eq!(by_worker["data"][0]["worker"], "01".repeat(16));
    assert_eq!(by_worker["data"][0]["edge"], "fra");
    let from = "2026-01-01T00:30:00Z";
    let later = ask(&format!("?from={from}&groupBy=day")).await;
    assert_eq!(later["from"], "2026-01-01T00:00:00Z");
    assert_eq!(later.get("to"), None);
    let day = later["data"][0]["start"].as_str().unwrap();
    assert!(day.ends_with("T00:00:00Z"), "{day}");
    let sum = |name: &str| -> u64 {
        let days = later["data"].as_array().unwrap().iter();
        days.map(|day| day[name].as_u64().unwrap()).sum()
    };
    assert_eq!((sum("sent"), sum("counted")), (40, 22));
    let earlier = ask(&format!("?to={from}")).await;
    let expected = with(accounts(0, 0, 0, 0), "to", json!("2026-01-01T01:00:00Z"));
    assert_eq!(earlier, expected);
}

/// A report that says how a worker is doing, as `health` is written.
pub(crate) async fn say(server: &Running, edge: &str, health: &str, batches: &[ClickBatch<'_>]) {
    let request = server.plain(Method::POST, "/edge/v1/clicks");
    let request = request.bearer_auth(TOKEN).header("x-edgelink-edge", edge);
    let request = request.header(health::HEADER, health);
    let answer = send(request.body(encode(batches))).await;
    assert_eq!(answer.status, 204);
}

pub(crate) fn health(worker: u8, feed_lag_millis: Option<u32>) -> String {
    let health = WorkerHealth {
        worker: [worker; 16],
        feed_lag_millis,
        is_admitting: feed_lag_millis.is_some(),
        requests: RequestsByTier {
            lru: 100,
            shared_data: 21,
            admission: 7,
            redis: 5,
            control_plane: 2,
            stale: 1,
        },
    };
    health.to_header()
}

/// What the edges say of how they are doing: names, and health without the time.
async fn healths(server: &Running) -> Vec<(Value, Value)> {
    let answer = server.get("/clicks/accounting?groupBy=edge").await;
    let mut answer = answer.expect(200);
    let data = answer["data"].as_array_mut().unwrap().iter_mut();
    let health = data.map(|edge| {
        let mut health = edge["health"].take();
        if let Some(health) = health.as_object_mut() {
            let heard_at = health.remove("heardAt").unwrap();
            assert!(heard_at.as_str().unwrap().ends_with('Z'), "{heard_at}");
        }
        (edge["edge"].clone(), health)
    });
    health.collect()
}

async fn change(server: &Running, statement: &'static str) {
    let mut database = SqliteConnection::connect(&server.database()).await.unwrap();
    database.execute(statement).await.unwrap();
}

#[tokio::test]
async fn edge_health_when_sent_with_or_without_clicks_is_shown() {
    let server = Running::start().await;
    report(&server, "old", batch(9, 1, 4)).await;
    say(&server, "fra", &health(1, Some(40)), &[batch(1, 2, 4)]).await;
    say(&server, "fra", &health(1, Some(120)), &[]).await;
    say(&server, "fra", &health(2, Some(80)), &[]).await;
    // No name.
    say(&server, "", &health(3, None), &[]).await;
    let requests = |workers: u64| {
        json!({
            "lru": 100 * workers, "sharedData": 21 * workers, "admission": 7 * workers,
            "redis": 5 * workers, "controlPlane": 2 * workers, "stale": workers,
        })
    };
    let fra = json!({
        "silent": false, "workers": 2, "feedLagMs": 120, "admittingWorkers": 2,
        // 121 of 129.
        "hitShare": 0.938, "requests": requests(2),
    });
    let unnamed = json!({
        "silent": false, "workers": 1, "feedLagMs": null, "admittingWorkers": 0,
        "hitShare": 0.938, "requests": requests(1),
    });
    let expected = [
        (json!("fra"), fra),
        (json!("old"), Value::Null),
        (Value::Null, unnamed),
    ];
    until("what the edges say is written", async || {
        healths(&server).await == expected
    })
    .await;
    let by_worker = server.get("/clicks/accounting?groupBy=worker").await;
    assert_eq!(by_worker.expect(200)["data"][0].get("health"), None);
}

#[tokio::test]
async fn edge_when_not_heard_of_for_a_minute_is_silent() {
    let server = Running::start().await;
    for worker in [1, 2] {
        say(&server, "fra", &health(worker, Some(40)), &[]).await;
    }
    let both = async || matches!(&*healths(&server).await, [(_, health)] if health["workers"] == 2);
    until("both workers are known", both).await;
    let past = "UPDATE edge_health SET reported_at = reported_at - 60000 WHERE worker = x'01010101010101010101010101010101'";
    change(&server, past).await;
    assert_eq!(healths(&server).await[0].1["workers"], 1);
    change(
        &server,
        "UPDATE edge_health SET reported_at = reported_at - 60000",
    )
    .await;
    let silent = json!({
        "silent": true, "workers": 0, "feedLagMs": null, "admittingWorkers": 0, "hitShare": null,
        "requests": { "lru": 0, "sharedData": 0, "admission": 0, "redis": 0, "controlPlane": 0, "stale": 0 },
    });
    assert_eq!(healths(&server).await, [(json!("fra"), silent)]);
}

#[tokio::test]
async fn edge_health_when_wrong_or_unwritable_loses_no_click() {
    let server = Running::start().await;
    let long = format!("{};x={}", health(1, None), "x".repeat(health::MAX_LENGTH));
    for (seq, wrong) in (1..).zip(["", "worker=1", "lru=1", &long]) {
        say(&server, "fra", wrong, &[batch(1, seq, 4)]).await;
    }
    say(&server, "ams", &health(2, Some(40)), &[]).await;
    until("what is right is written", async || {
        healths(&server).await.len() == 2
    })
    .await;
    assert_eq!(healths(&server).await[0], (json!("fra"), Value::Null));
    change(&server, "ALTER TABLE edge_health RENAME TO elsewhere").await;
    say(&server, "fra", &health(1, Some(40)), &[batch(1, 5, 4)]).await;
    let accounts = server.get("/clicks/accounting").await.expect(200);
    assert_eq!(accounts["counted"], 20);
}

#[tokio::test]
async fn accounting_when_parameters_are_wrong_names_them() {
    let server = Running::start().await;
    for (query, field) in [
        ("groupBy=tenant", "groupBy"),
        ("from=yesterday", "from"),
        ("from=2026-01-02T00:00:00Z&to=2026-01-01T00:00:00Z", "to"),
        ("edge=a", "edge"),
    ] {
        let answer = server.get(&format!("/clicks/accounting?{query}")).await;
        assert_eq!(answer.problem(422, "validation"), [field], "{query}");
    }
}
