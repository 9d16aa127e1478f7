//! What became of clicks, by edge and interval.

use crate::helpers::{Running, send};
use edgelink_wire::clicks::{ClickBatch, encode};
use reqwest::Method;
use serde_json::{Value, json};

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
async fn clicks_are_accounted_for_by_edge_and_worker_and_over_any_interval() {
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
    let data = json!([
        with(accounts(20, 9, 2, 2), "edge", json!("fra")),
        with(accounts(10, 7, 1, 1), "edge", Value::Null),
        with(accounts(10, 6, 1, 1), "edge", json!("ams")),
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

#[tokio::test]
async fn wrong_parameters_of_the_accounting_are_named() {
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
