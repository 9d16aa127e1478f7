//! What a load balancer in front of Envoy sees while it drains.

use edgelink_tests::scenario::{Reply, Request, link};
use edgelink_tests::stack::{
    Behaviour, Connection, Deployment, Envoy, EnvoyOptions, Filter, Process, REPORTS,
    ScriptedControlPlane, root, until,
};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tempfile::TempDir;
use tokio::task::JoinSet;

const LIMIT: Duration = Duration::from_secs(10);

#[tokio::test]
async fn envoy_when_draining_is_unhealthy_but_answers() {
    if Filter::lacks("a drain") {
        return;
    }
    let edgelink = Deployment::start(&EnvoyOptions::default()).await;
    let path = edgelink.link("").create().await.path();
    let envoy = &edgelink.envoy;
    assert_eq!(envoy.follow("/health/live").await.status, 200);

    envoy.admin_post("/healthcheck/fail").await;
    until("it is not healthy", LIMIT, async || {
        (envoy.follow("/health/live").await.status == 503).then_some(())
    })
    .await;
    let answer = envoy.follow(&path).await;
    assert_eq!(answer.status, 302, "{answer:?}");
    assert_eq!(answer.header("connection"), Some("close"), "{answer:?}");
    let of_probes = answer.header("x-envoy-immediate-health-check-fail");
    assert_eq!(of_probes, None, "redirects pay for Envoy's check of health");

    envoy.admin_post("/healthcheck/ok").await;
    until("it is healthy again", LIMIT, async || {
        (envoy.follow("/health/live").await.status == 200).then_some(())
    })
    .await;
}

/// With `/healthcheck/fail` before it, as control-plane/book/docs/operate/envoy.md says.
#[tokio::test]
async fn listeners_when_draining_are_unhealthy_but_answer() {
    if Filter::lacks("a drain") {
        return;
    }
    let edgelink = Deployment::start(&EnvoyOptions::default()).await;
    let path = edgelink.link("").create().await.path();
    let envoy = &edgelink.envoy;

    envoy.admin_post("/healthcheck/fail").await;
    envoy.admin_post("/drain_listeners?graceful").await;

    until("it is not healthy", LIMIT, async || {
        (envoy.follow("/health/live").await.status == 503).then_some(())
    })
    .await;
    assert_eq!(envoy.follow(&path).await.status, 302);
}

/// `envoy/deploy/systemd/drain.sh`, as systemd runs it before it stops Envoy.
fn drain(envoy: &Envoy, folder: &TempDir) -> Process {
    let mut command = Command::new(root().join("envoy/deploy/systemd/drain.sh"));
    command
        .env(
            "EDGELINK_ADMIN_PORT",
            envoy.admin_interface().port().to_string(),
        )
        .env("EDGELINK_DRAIN_SECONDS", "60");
    Process::start("drain.sh", command, folder.path().join("drain.log"))
}

/// A visitor who follows a link over one connection until Envoy ends that, and counts in `clicks`.
async fn follow_until_the_end(edge: SocketAddr, path: String, clicks: Arc<AtomicU64>) {
    let mut connection = Connection::open(edge).await.expect("a connection");
    loop {
        let answer = connection.exchange(&Request::get(&path), b"").await;
        let answer = answer.expect("an answer");
        assert_eq!(answer.status, 302, "{answer:?}");
        clicks.fetch_add(1, Ordering::Relaxed);
        if answer.header("connection") == Some("close") {
            return;
        }
    }
}

/// As an edge is stopped for an upgrade: `drain.sh`, then SIGTERM.
#[tokio::test(flavor = "multi_thread")]
async fn clicks_when_their_edge_ends_count_once() {
    if Filter::lacks("a drain") {
        return;
    }
    let mut edgelink = Deployment::start(&EnvoyOptions {
        workers: 2,
        clicks: "true",
        feed: "poll",
        ..EnvoyOptions::default()
    })
    .await;
    let path = edgelink.link("").create().await.path();
    let clicks = Arc::new(AtomicU64::new(0));
    let mut visitors = JoinSet::new();
    for _ in 0..8 {
        let edge = edgelink.envoy.edge();
        visitors.spawn(follow_until_the_end(edge, path.clone(), clicks.clone()));
    }
    until("there are clicks", LIMIT, async || {
        (clicks.load(Ordering::Relaxed) > 500).then_some(())
    })
    .await;

    let folder = TempDir::new().expect("a folder");
    let mut draining = drain(&edgelink.envoy, &folder);
    visitors.join_all().await;
    assert!(draining.await_end().await.success(), "{}", draining.log());
    let ended = edgelink.envoy.process().terminate().await;
    assert!(ended.success(), "{ended}");

    // What Envoy has not reported by now, it never will.
    let clicks = clicks.load(Ordering::Relaxed);
    let accounts = edgelink
        .control_plane
        .api("GET", "/clicks/accounting", &Value::Null)
        .await;
    let wanted = json!({ "sent": clicks, "counted": clicks, "dropped": 0, "undescribed": 0 });
    assert_eq!(accounts.body, wanted);
}

#[tokio::test]
async fn drain_when_clicks_are_not_taken_waits() {
    if Filter::lacks("a drain") {
        return;
    }
    let control_plane = ScriptedControlPlane::start().await;
    control_plane.script(
        "abc",
        Behaviour::Reply(Reply::Link(link("https://a.example/"))),
    );
    let refusal = b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n";
    control_plane.script(REPORTS, Behaviour::Bytes(refusal.to_vec()));
    let options = EnvoyOptions {
        clicks: "true",
        ..EnvoyOptions::default()
    };
    let envoy = Envoy::start(&options, &[control_plane.address()]).await;
    assert_eq!(envoy.follow("/abc").await.status, 302);

    let folder = TempDir::new().expect("a folder");
    let mut draining = drain(&envoy, &folder);
    // With pauses of 100, 200, 400 ... ms between them this is longer than a drain without clicks takes.
    until(
        "reports are repeated",
        Duration::from_secs(30),
        async || (control_plane.report_heads().len() >= 7).then_some(()),
    )
    .await;
    assert!(draining.is_running(), "{}", draining.log());
    // 204, as a control plane that has counted them.
    control_plane.script(REPORTS, Behaviour::Reply(Reply::Hang));
    assert!(draining.await_end().await.success(), "{}", draining.log());
    let stats = envoy.figures().await;
    assert_eq!(stats.get("edgelink.clicks.acknowledged"), 1);
}
