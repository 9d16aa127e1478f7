//! Two control planes on one database that do not share a feed: during a rolling restart, or by mistake.

use crate::helpers::{Answer, Running, send, until};
use edgelink_wire::{FeedBatch, Snapshot};
use reqwest::Method;
use serde_json::{Value, json};

const TOKEN: &str = "first-token-of-the-edges";

async fn edge(server: &Running, path: &str) -> Answer {
    let request = server.plain(Method::GET, &format!("/edge/v1{path}"));
    send(request.bearer_auth(TOKEN)).await
}

async fn feed(server: &Running) -> Value {
    let ready = send(server.plain(Method::GET, "/health/ready")).await;
    ready.expect(200)["feed"].clone()
}

async fn await_publisher(server: &Running, who: &str) {
    until(who, async || feed(server).await["publisher"] == who).await;
}

async fn await_feed(server: &Running) {
    until("a current feed", async || {
        feed(server).await["current"] == true
    })
    .await;
}

#[tokio::test]
async fn link_when_created_in_a_rolling_restart_redirects() {
    let old = Running::start().await;
    await_feed(&old).await;
    let new = old.another().await;
    await_publisher(&new, "elsewhere").await;
    // Both know all keys from before.
    for server in [&old, &new] {
        assert_eq!(server.follow("/promo").await.status, 404);
    }
    old.link("promo").create().await;
    new.link("other").create().await;
    for server in [&old, &new] {
        for path in ["/promo", "/other"] {
            assert_eq!(server.follow(path).await.status, 302, "{path}");
        }
    }
    old.begin_stop();
    old.stopped().await;
    assert_eq!(new.follow("/promo").await.status, 302);
    await_publisher(&new, "this").await;
    await_feed(&new).await;
    new.link("third").create().await;
    for path in ["/promo", "/other", "/third"] {
        assert_eq!(new.follow(path).await.status, 302, "{path}");
    }
}

#[tokio::test]
async fn server_when_not_the_publisher_answers_from_the_database() {
    let first = Running::start().await;
    await_feed(&first).await;
    let second = first.another().await;
    await_publisher(&second, "elsewhere").await;
    assert_eq!(feed(&second).await["current"], false);
    edge(&second, "/feed").await.problem(503, "overloaded");
    edge(&second, "/snapshot").await.problem(503, "overloaded");
    let metrics = send(second.plain(Method::GET, "/metrics")).await;
    // The recorder is shared by all servers of this test process, so only the names are certain.
    for name in [
        "edgelink_publisher_state",
        "edgelink_outbox_age_seconds",
        "edgelink_outbox_rows",
        "edgelink_feed_age_seconds",
        "edgelink_feed_generations_total",
    ] {
        assert!(
            metrics.text().contains(&format!("# HELP {name} ")),
            "{name}"
        );
    }
    // Changes by the one are what the other answers, at once and again and again.
    first.link("x").create().await;
    for round in 0..20 {
        let target = format!("https://example.com/{round}");
        first
            .patch("/links/x", &json!({ "longUrl": target }))
            .await
            .expect(200);
        second.follow("/x").await.redirects(302, &target);
    }
    assert_eq!(first.delete("/links/x").await.status, 204);
    assert_eq!(second.follow("/x").await.status, 404);
}

#[tokio::test]
async fn publisher_when_it_takes_over_begins_a_generation() {
    let first = Running::start().await;
    await_feed(&first).await;
    let before = FeedBatch::decode(&edge(&first, "/feed").await.body)
        .unwrap()
        .head;
    let second = first.another().await;
    first.begin_stop();
    first.stopped().await;
    await_feed(&second).await;
    let (generation, position) = (before.generation, before.next);
    let path = format!("/feed?after={position}&generation={generation}");
    let after = FeedBatch::decode(&edge(&second, &path).await.body)
        .unwrap()
        .head;
    assert!(after.gap && after.generation > generation);
    until("a snapshot", async || {
        edge(&second, "/snapshot").await.status == 200
    })
    .await;
    let snapshot = edge(&second, "/snapshot").await.body;
    assert_eq!(
        Snapshot::decode(&snapshot).unwrap().generation,
        after.generation
    );
}

#[tokio::test]
async fn changes_when_server_stops_are_published() {
    // The publisher looks when it is woken, at a beat, and at the end.
    let server = Running::start().await;
    await_feed(&server).await;
    server.link("x").create().await;
    for round in 0..20 {
        let change = json!({ "title": format!("{round}") });
        server.patch("/links/x", &change).await.expect(200);
    }
    server.begin_stop();
    let folder = server.stopped().await;
    let url = format!("sqlite://{}", folder.path().join("edgelink.db").display());
    let config = edgelink_settings::config::StoreConfig::at(&url);
    let store = edgelink_store::connect(&config).await.unwrap();
    let pending = store.pending(10).await.unwrap();
    assert!(pending.batches.is_empty());
    assert_eq!(pending.state.lease_until, 0, "the lease is given back");
}
