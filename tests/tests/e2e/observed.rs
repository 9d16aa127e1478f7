//! What operators see of requests: access logs, traces, and probes of readiness.

use axum::Router;
use axum::body::Bytes;
use edgelink_tests::scenario::{Reply, Request, link};
use edgelink_tests::stack::{
    Behaviour, ControlPlane, Envoy, EnvoyOptions, ScriptedControlPlane, free_port, until,
};
use serde_json::Value;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tempfile::TempDir;
use tokio::net::TcpListener;

const LIMIT: Duration = Duration::from_secs(30);
const PROBE: &str = "/health/ready";

fn options(variables: &[(&'static str, &str)]) -> EnvoyOptions {
    let variables = variables.iter();
    EnvoyOptions {
        variables: variables
            .map(|(name, value)| (*name, (*value).to_owned()))
            .collect(),
        ..EnvoyOptions::default()
    }
}

fn script(control_plane: &ScriptedControlPlane, code: &str) {
    let reply = Reply::Link(link("https://example.com/"));
    control_plane.script(code, Behaviour::Reply(reply));
}

#[tokio::test]
async fn access_logs_say_what_became_of_a_request() {
    let folder = TempDir::new().expect("a folder");
    let log = folder.path().join("access.log");
    let control_plane = ScriptedControlPlane::start().await;
    script(&control_plane, "abc");
    let options = options(&[
        ("EDGELINK_DESCRIBE", "outcome,tier,key"),
        ("EDGELINK_UNKNOWN_CODES", "pass"),
        ("EDGELINK_ACCESS_LOG", log.to_str().expect("a path of text")),
    ]);
    let envoy = Envoy::start(&options, &[control_plane.address()]).await;
    envoy
        .admin_post("/runtime_modify?edgelink.access_log=100")
        .await;
    for path in ["/abc", "/abc", "/unknown", "/unknown", "/a.b"] {
        envoy.follow(path).await;
    }
    let lines = until("all requests are logged", LIMIT, async || {
        let text = fs::read_to_string(&log).ok()?;
        let lines = text
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok());
        let lines: Vec<Value> = lines.collect();
        (lines.len() >= 5).then_some(lines)
    })
    .await;
    let said = |line: &Value| {
        ["outcome", "tier", "link"].map(|field| line[field].as_str().unwrap_or("-").to_owned())
    };
    let said: Vec<_> = lines.iter().map(said).collect();
    let expected = [
        ["redirect", "control-plane", "go.example/abc"],
        ["redirect", "lru", "go.example/abc"],
        ["passed", "control-plane", "go.example/unknown"],
        ["passed", "lru", "go.example/unknown"],
        ["-", "-", "-"],
    ];
    assert_eq!(said, expected);
    envoy.assert_unharmed().await;
}

/// The bodies that a collector was sent.
async fn collector() -> (SocketAddr, Arc<Mutex<Vec<Bytes>>>) {
    let bodies = Arc::new(Mutex::new(Vec::new()));
    let notes = Arc::clone(&bodies);
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await;
    let listener = listener.expect("a free port");
    let address = listener.local_addr().expect("an address");
    let router = Router::new().fallback(async move |body: Bytes| {
        notes.lock().expect("bodies").push(body);
    });
    tokio::spawn(async move { axum::serve(listener, router).await });
    (address, bodies)
}

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const TRACE_BYTES: [u8; 16] = 0x0af7_6519_16cd_43dd_8448_eb21_1c80_319c_u128.to_be_bytes();

fn has(body: &Bytes, part: &[u8]) -> bool {
    body.windows(part.len()).any(|bytes| bytes == part)
}

/// A client that asks to be traced is traced no more than others, and the control plane hears nothing of its trace.
#[tokio::test]
async fn a_client_has_no_say_in_what_is_traced() {
    let control_plane = ScriptedControlPlane::start().await;
    script(&control_plane, "abc");
    let parent = format!("00-{TRACE}-b7ad6b7169203331-01");
    for percent in ["100", "0"] {
        let (collector, bodies) = collector().await;
        let options = options(&[
            ("EDGELINK_OTLP", &collector.to_string()),
            ("EDGELINK_TRACE_PERCENT", percent),
        ]);
        let envoy = Envoy::start(&options, &[control_plane.address()]).await;
        let request = Request::get("/abc")
            .header("traceparent", parent.as_bytes())
            .header("tracestate", b"a=b");
        assert_eq!(envoy.visit(&request).await.status, 302);
        let heads = control_plane.lookup_heads("abc");
        assert!(heads.iter().all(|head| !head.contains(TRACE)), "{heads:?}");
        if percent == "100" {
            until("the span of Envoy is there", LIMIT, async || {
                (!bodies.lock().expect("bodies").is_empty()).then_some(())
            })
            .await;
            let bodies = bodies.lock().expect("bodies");
            assert!(bodies.iter().all(|body| !has(body, &TRACE_BYTES)));
        }
    }
}

/// A trace that a proxy has begun goes on at Envoy, which sends its span, and at the control plane that is asked.
#[tokio::test]
async fn a_trace_goes_through_envoy_to_the_control_plane() {
    let (collector, bodies) = collector().await;
    let control_plane = ScriptedControlPlane::start().await;
    script(&control_plane, "abc");
    let options = options(&[
        ("EDGELINK_OTLP", &collector.to_string()),
        ("EDGELINK_TRACE_PERCENT", "0"),
        ("EDGELINK_TRACE_PARENTS", "true"),
        ("EDGELINK_DESCRIBE", "outcome,tier"),
    ]);
    let envoy = Envoy::start(&options, &[control_plane.address()]).await;
    let parent = format!("00-{TRACE}-b7ad6b7169203331-01");
    let request = Request::get("/abc").header("traceparent", parent.as_bytes());
    assert_eq!(envoy.visit(&request).await.status, 302);

    let heads = control_plane.lookup_heads("abc");
    assert!(
        heads[0].contains(&format!("traceparent: {parent}")),
        "{heads:?}"
    );
    until("the span of Envoy is there", LIMIT, async || {
        let bodies = bodies.lock().expect("bodies");
        let mut spans = bodies.iter().filter(|body| has(body, &TRACE_BYTES));
        let is_whole = |span: &Bytes| {
            has(span, b"edgelink-edge")
                && has(span, b"edgelink.tier")
                && has(span, b"control-plane")
        };
        spans.any(is_whole).then_some(())
    })
    .await;
    let other = Request::get("/unknown").header("traceparent", b"00-evil\"");
    assert_eq!(envoy.visit(&other).await.status, 404);
    let heads = control_plane.lookup_heads("unknown");
    assert!(!heads[0].contains("evil"), "{heads:?}");
}

#[tokio::test]
async fn an_edge_is_ready_once_it_has_its_snapshot_and_has_read_the_feed() {
    let control_plane = ControlPlane::start().await;
    let options = EnvoyOptions {
        feed: "poll",
        ..EnvoyOptions::default()
    };
    let envoy = Envoy::start(&options, &[control_plane.address()]).await;
    until("it is ready", LIMIT, async || {
        (envoy.follow(PROBE).await.status == 200).then_some(())
    })
    .await;
    assert_eq!(
        envoy
            .stats("wasmcustom")
            .await
            .get("wasmcustom.edgelink.snapshot.ok"),
        1
    );
    envoy.admin_post("/healthcheck/fail").await;
    until("it drains", LIMIT, async || {
        (envoy.follow(PROBE).await.status == 503).then_some(())
    })
    .await;
}

#[tokio::test]
async fn an_edge_without_a_control_plane_is_live_and_not_ready() {
    let nothing = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
    let options = EnvoyOptions {
        feed: "poll",
        ..EnvoyOptions::default()
    };
    let envoy = Envoy::start(&options, &[nothing]).await;
    envoy
        .await_figures(|stats| stats.get("wasmcustom.edgelink.snapshot.failed") > 0)
        .await;
    assert_eq!(envoy.follow(PROBE).await.status, 503);
    assert_eq!(envoy.follow("/health/live").await.status, 200);
}
