//! `edgelink flush`: what was changed behind the back of the control plane is everywhere.

use edgelink_tests::servers::RedisServer;
use edgelink_tests::stack::{Connection, Production, ProductionOptions, until};
use serde_json::json;
use std::time::Duration;

const OLD: &str = "https://example.com/old";
const NEW: &str = "https://example.com/new";
const LIMIT: Duration = Duration::from_secs(30);
/// Connections to the edge: enough that each worker has some.
const CONNECTIONS: usize = 16;

#[tokio::test(flavor = "multi_thread")]
async fn flush_when_run_makes_all_caches_ask_the_database() {
    let redis = RedisServer::start().await;
    let options = ProductionOptions {
        envoys: 1,
        ..ProductionOptions::direct(&redis)
    };
    let production = Production::start(&options).await;
    let [control_plane, other] = &production.control_planes[..] else {
        panic!("two control planes");
    };
    control_plane.link("cached").to(OLD).create().await;
    let envoy = &production.envoys[0];
    let mut visitors = Vec::new();
    for _ in 0..CONNECTIONS {
        visitors.push(envoy.connect().await);
    }
    until("all have the link", LIMIT, async || {
        lead_to(&mut visitors, OLD).await.then_some(())
    })
    .await;
    // As no API would do it: the revision stays, and no cache hears of it.
    let change = format!("UPDATE test_0.links SET url = '{NEW}'");
    production.database.execute(&change);
    assert!(lead_to(&mut visitors, OLD).await);

    let output = other.run(&["flush"]).await;
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{output:?}");
    assert!(text.contains("published: generation"), "{text}");
    until("all have the new one", LIMIT, async || {
        lead_to(&mut visitors, NEW).await.then_some(())
    })
    .await;
    let api = control_plane.api("GET", "/links/cached", &json!(null));
    assert_eq!(api.await.text("longUrl"), NEW);
    envoy.assert_unharmed().await;
}

/// Whether the link leads there on each connection.
async fn lead_to(visitors: &mut [Connection], target: &str) -> bool {
    let request = edgelink_tests::scenario::Request::get("/cached");
    for visitor in visitors {
        let answer = visitor.exchange(&request, b"").await.expect("an answer");
        if answer.location() != Some(target) {
            return false;
        }
    }
    true
}
