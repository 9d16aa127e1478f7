//! Links that have a limit of visits.

use crate::helpers::{Answer, Running, send};
use edgelink_tests::stack::until;
use edgelink_wire::visits::{
    MAX_RETURNS_LENGTH, RETURNS_MEDIA_TYPE, RETURNS_PATH, ReturnOutcome, SettledBlock, VisitReturn,
    VisitReturns, WORKER_HEADER, worker_text,
};
use edgelink_wire::{VisitsAnswer, VisitsRequest};
use reqwest::Method;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

const TARGET: &str = "https://example.com/";

async fn visits(server: &Running, slug: &str) -> Value {
    let link = server.get(&format!("/links/{slug}")).await.expect(200);
    link["visits"].clone()
}

async fn ask(server: &Running, slug: &str, body: Vec<u8>) -> Answer {
    let path = format!("/edge/v1/visits/go.example:8080/{slug}");
    let request = server.plain(Method::POST, &path);
    let request = request.bearer_auth("first-token-of-the-edges").body(body);
    send(request).await
}

/// How many visits a worker gets, who says what it has spent of the block with that number.
async fn lease(server: &Running, slug: &str, number: u64, settled: Option<(u64, u64)>) -> u64 {
    let request = VisitsRequest {
        worker: [7; 16],
        number,
        settled: settled.map(|(number, spent)| SettledBlock { number, spent }),
        wants: true,
    };
    let answer = ask(server, slug, request.to_bytes()).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(answer.header("content-type"), VisitsAnswer::MEDIA_TYPE);
    let answer = VisitsAnswer::decode(&answer.body).unwrap();
    assert_eq!(answer.number, number);
    answer.visits
}

#[tokio::test]
async fn use_limit_when_changed_or_removed_is_shown() {
    let server = Running::start().await;
    let link = server.link("a").max_visits(3).create().await;
    assert_eq!(link["maxVisits"], 3);
    assert_eq!(
        visits(&server, "a").await,
        json!({ "used": 0, "leased": 0 })
    );
    for (limit, shown) in [
        (json!(1_000_000_000_000_u64), 1_000_000_000_000_u64),
        (json!(1), 1),
    ] {
        let changed = server
            .patch("/links/a", &json!({ "maxVisits": limit }))
            .await;
        assert_eq!(changed.expect(200)["maxVisits"], json!(shown));
    }
    let changed = server
        .patch("/links/a", &json!({ "maxVisits": null }))
        .await;
    assert_eq!(changed.expect(200)["maxVisits"], Value::Null);
    assert_eq!(visits(&server, "a").await, Value::Null);
    for wrong in [
        json!(0),
        json!(-1),
        json!(1.5),
        json!("1"),
        json!(1_000_000_000_001_u64),
    ] {
        let answer = server
            .patch("/links/a", &json!({ "maxVisits": wrong }))
            .await;
        assert_eq!(answer.problem(422, "validation"), ["maxVisits"]);
    }
    let history = server.get("/links/a/history").await.expect(200);
    let history = history.to_string();
    assert!(
        history.contains(r#""maxVisits":{"from":1,"to":null}"#),
        "{history}"
    );
}

#[tokio::test]
async fn link_when_its_uses_are_spent_answers_410() {
    let server = Running::start().await;
    server.link("a").max_visits(2).create().await;
    for used in 1..=2 {
        send(server.plain(Method::HEAD, "/a"))
            .await
            .redirects(302, TARGET);
        server.follow("/a").await.redirects(302, TARGET);
        assert_eq!(visits(&server, "a").await["used"], used);
    }
    for _ in 0..2 {
        server.follow("/a").await.page(410, "no longer available");
    }
    let head = send(server.plain(Method::HEAD, "/a")).await;
    assert_eq!(head.status, 410);
    let link = server.get("/links/a").await;
    let unchanged = server
        .api(Method::GET, "/links/a")
        .header("if-none-match", link.header("etag"));
    assert_eq!(
        send(unchanged).await.status,
        200,
        "the count may have changed"
    );
    let resolved = server.api(Method::POST, "/links/a/resolve");
    let resolved = send(resolved.json(&json!({}))).await.expect(200);
    assert_eq!(resolved["outcome"], "gone");

    server
        .patch("/links/a", &json!({ "maxVisits": 3 }))
        .await
        .expect(200);
    server.follow("/a").await.redirects(302, TARGET);
    server.follow("/a").await.page(410, "no longer available");
    let history = server.get("/links/a/history").await.expect(200);
    let reached = history.to_string().matches("link.limit-reached").count();
    assert_eq!(reached, 2, "once for each limit: {history}");
}

#[tokio::test]
async fn worker_when_it_leases_uses_returns_unspent_ones() {
    let server = Running::start().await;
    server.link("a").max_visits(10).create().await;
    assert_eq!(lease(&server, "a", 1, None).await, 5);
    assert_eq!(lease(&server, "a", 1, None).await, 5, "sent again");
    assert_eq!(
        visits(&server, "a").await,
        json!({ "used": 0, "leased": 5 })
    );
    assert_eq!(lease(&server, "a", 2, Some((1, 3))).await, 3);
    assert_eq!(
        visits(&server, "a").await,
        json!({ "used": 3, "leased": 3 })
    );
    for _ in 0..4 {
        server.follow("/a").await.redirects(302, TARGET);
    }
    server.follow("/a").await.page(410, "no longer available");
    assert_eq!(lease(&server, "a", 3, Some((2, 2))).await, 1);
    assert_eq!(lease(&server, "a", 4, Some((3, 1))).await, 0);
    assert_eq!(
        visits(&server, "a").await,
        json!({ "used": 10, "leased": 0 })
    );
}

#[tokio::test]
async fn lease_request_when_malformed_or_stale_is_refused() {
    let server = Running::start().await;
    server.link("a").max_visits(10).create().await;
    for body in [Vec::new(), vec![9], vec![0; 1_000]] {
        let answer = ask(&server, "a", body).await;
        answer.problem(400, "invalid-visits");
    }
    lease(&server, "a", 2, None).await;
    let stale = VisitsRequest {
        worker: [7; 16],
        number: 1,
        settled: None,
        wants: true,
    };
    let answer = ask(&server, "a", stale.to_bytes()).await;
    answer.problem(409, "stale-visits");
    let path = "/edge/v1/visits/go.example:8080/a";
    let answer = send(server.plain(Method::POST, path)).await;
    answer.problem(401, "unauthorized");
    assert_eq!(lease(&server, "none", 1, None).await, 0);
}

#[tokio::test]
async fn uses_when_link_is_restored_or_moved_go_on() {
    let server = Running::start().await;
    server.link("a").max_visits(2).create().await;
    server.follow("/a").await.redirects(302, TARGET);
    server.delete("/links/a").await;
    let restored = server.api(Method::POST, "/links/a/restore");
    send(restored).await.expect(200);
    assert_eq!(visits(&server, "a").await["used"], 1);
    server.delete("/links/a").await;
    server.link("a").max_visits(2).create().await;
    assert_eq!(visits(&server, "a").await["used"], 0);
    server.follow("/a").await.redirects(302, TARGET);

    let moved = server.api(Method::POST, "/links/a/move");
    let moved = moved.json(&json!({ "customSlug": "b" }));
    send(moved).await;
    assert_eq!(visits(&server, "b").await["used"], 1);
}

async fn give_back(server: &Running, body: Vec<u8>) -> Answer {
    let request = server.plain(Method::POST, RETURNS_PATH);
    let request = request.bearer_auth("first-token-of-the-edges").body(body);
    send(request).await
}

fn returns(keys: &[&str]) -> Vec<u8> {
    let settled = Some(SettledBlock {
        number: 1,
        spent: 1,
    });
    let returned = |key: &&str| VisitReturn {
        key: format!("go.example:8080/{key}").into_bytes().leak(),
        number: 2,
        settled,
    };
    let returns = VisitReturns {
        worker: [7; 16],
        returns: keys.iter().map(returned).collect(),
    };
    returns.to_bytes()
}

#[tokio::test]
async fn blocks_when_of_several_links_return_by_one_request() {
    let server = Running::start().await;
    for slug in ["a", "b"] {
        server.link(slug).max_visits(10).create().await;
        assert_eq!(lease(&server, slug, 1, None).await, 5);
    }
    let body = returns(&["a", "none", "no code", "b"]);
    for _ in 0..2 {
        let answer = give_back(&server, body.clone()).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        assert_eq!(answer.header("content-type"), RETURNS_MEDIA_TYPE);
        let outcomes = ReturnOutcome::decode(&answer.body, 4).unwrap();
        let [settled, later] = [ReturnOutcome::Settled, ReturnOutcome::Later];
        assert_eq!(outcomes, [settled, settled, later, settled]);
        for slug in ["a", "b"] {
            let shown = visits(&server, slug).await;
            assert_eq!(shown, json!({ "used": 1, "leased": 0 }));
        }
    }
}

#[tokio::test]
async fn returns_when_malformed_are_refused_by_field() {
    let server = Running::start().await;
    let head = b"\x010123456789abcdef";
    for (tail, field) in [
        (&b"\x01\x03d/a\x05\x00\x01"[..], "spent"),
        (b"\x81\x02", "returns"),
    ] {
        let answer = give_back(&server, [&head[..], tail].concat()).await;
        answer.problem(400, "invalid-visits");
        let text = String::from_utf8(answer.body.to_vec()).unwrap();
        assert!(text.contains(field), "{text}");
    }
    let answer = give_back(&server, vec![1; MAX_RETURNS_LENGTH + 1]).await;
    answer.problem(413, "body-too-large");
    let answer = send(server.plain(Method::POST, RETURNS_PATH)).await;
    answer.problem(401, "unauthorized");
}

#[tokio::test]
async fn block_when_its_worker_is_heard_of_is_leased_to_no_other() {
    let server = Running::with(&[
        ("EDGELINK_VISITS_LEASE_MS", "100"),
        ("EDGELINK_VISITS_GRACE_MS", "400"),
    ])
    .await;
    server.link("a").max_visits(1).create().await;
    assert_eq!(lease(&server, "a", 1, None).await, 1);
    let ask = async |worker: u8, number: u64| {
        let request = VisitsRequest {
            worker: [worker; 16],
            number,
            settled: None,
            wants: true,
        };
        let answer = ask(&server, "a", request.to_bytes()).await;
        VisitsAnswer::decode(&answer.body).unwrap().visits
    };
    let poll = async |worker: &str| {
        let request = server.plain(Method::GET, "/edge/v1/feed?after=0-0&generation=0&waitMs=0");
        let request = request.bearer_auth("first-token-of-the-edges");
        send(request.header(WORKER_HEADER, worker)).await
    };
    // Ten times as long as a block of a silent worker stays out.
    let end = Instant::now() + Duration::from_secs(8);
    let mut number = 0;
    while Instant::now() < end {
        poll(&worker_text(&[7; 16])).await;
        number += 1;
        assert_eq!(ask(8, number).await, 0);
    }
    until(
        "the block comes back",
        Duration::from_secs(20),
        async || {
            poll("of no worker").await;
            number += 1;
            (ask(8, number).await == 1).then_some(())
        },
    )
    .await;
}

const BOT: &str = "facebookexternalhit/1.1 (+http://www.facebook.com/externalhit_uatext.php)";

#[tokio::test]
async fn use_when_prefetched_or_by_a_spared_bot_is_not_taken() {
    let server = Running::start().await;
    server.link("a").max_visits(1).create().await;
    for (name, value) in [
        ("sec-purpose", "prefetch"),
        ("purpose", "prefetch"),
        ("x-moz", "prefetch"),
    ] {
        let request = server.plain(Method::GET, "/a").header(name, value);
        let answer = send(request).await;
        assert_eq!(answer.status, 503, "{answer:?}");
        assert_eq!(answer.header("cache-control"), "no-store");
        assert_eq!(answer.header("location"), "");
        assert_eq!(visits(&server, "a").await["used"], 0);
    }
    let link = server.get("/links/a").await.expect(200);
    assert_eq!(link["botsUseVisits"], true);
    let ask = async |user_agent: &str| {
        let request = server.plain(Method::GET, "/a");
        send(request.header("user-agent", user_agent)).await.status
    };
    let spared = json!({ "botsUseVisits": false });
    let changed = server.patch("/links/a", &spared).await.expect(200);
    assert_eq!(changed["botsUseVisits"], false);
    let history = server.get("/links/a/history").await.expect(200);
    let change = r#""botsUseVisits":{"from":null,"to":false}"#;
    assert!(history.to_string().contains(change), "{history}");
    assert_eq!(ask(BOT).await, 503);
    let dry_run = server.api(Method::POST, "/links/a/resolve");
    let dry_run = dry_run.json(&json!({ "userAgent": BOT }));
    let dry_run = send(dry_run).await.expect(200);
    assert_eq!(
        (&dry_run["outcome"], &dry_run["status"]),
        (&json!("withheld"), &json!(503))
    );
    assert_eq!(visits(&server, "a").await["used"], 0);
    assert_eq!(ask("Mozilla/5.0 Firefox/127.0").await, 302);
    assert_eq!(ask(BOT).await, 410, "none are left");
    let change = json!({ "botsUseVisits": null, "maxVisits": 2 });
    let changed = server.patch("/links/a", &change).await.expect(200);
    assert_eq!(changed["botsUseVisits"], true);
    assert_eq!(ask(BOT).await, 302);
    let wrong = server
        .patch("/links/a", &json!({ "botsUseVisits": 1 }))
        .await;
    assert_eq!(wrong.problem(422, "validation"), ["botsUseVisits"]);
}
