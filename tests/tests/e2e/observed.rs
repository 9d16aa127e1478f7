//! What operators see of requests: access logs, traces, and probes of readiness.

use edgelink_tests::scenario::{Reply, Request, link};
use edgelink_tests::stack::{
    Behaviour, Collector, ControlPlane, Envoy, EnvoyOptions, Filter, ScriptedControlPlane,
    TraceSpan, free_port, until,
};
use serde_json::Value;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;
use tempfile::TempDir;

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
async fn access_log_when_a_request_ends_has_its_outcome() {
    if Filter::lacks("an access log that is switched on at run time") {
        return;
    }
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

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "b7ad6b7169203331";

fn traceparent(flags: &str) -> String {
    format!("00-{TRACE}-{PARENT}-{flags}")
}

fn traced(path: &str, flags: &str) -> Request {
    Request::get(path).header("traceparent", traceparent(flags).as_bytes())
}

/// An Envoy and the control plane behind it, both of which send their spans to a collector.
async fn traced_stack(collector: &Collector) -> (ControlPlane, Envoy) {
    let url = collector.url();
    let control_plane = ControlPlane::with_variables(&[
        ("EDGELINK_TELEMETRY_OTLP_URL", &url),
        ("EDGELINK_TELEMETRY_INTERVAL_MS", "10"),
        ("EDGELINK_LOG_FILTER", "info,edgelink=debug"),
    ])
    .await;
    let address = collector.address().to_string();
    let own = [
        ("EDGELINK_OTLP", address.as_str()),
        ("EDGELINK_TRACE_PERCENT", "0"),
        ("EDGELINK_TRACE_PARENTS", "true"),
        ("EDGELINK_DESCRIBE", "outcome,tier"),
    ];
    let options = EnvoyOptions {
        public_pages: true,
        ..options(&own)
    };
    let envoy = Envoy::start(&options, &[control_plane.address()]).await;
    (control_plane, envoy)
}

/// The span of Envoy in the trace, and the server's span of the control plane, once they are there.
async fn spans_of_both(collector: &Collector) -> (TraceSpan, TraceSpan) {
    until("spans of Envoy and the control plane", LIMIT, async || {
        let mut spans = collector.spans_of(TRACE);
        spans.retain(|span| span.is_server);
        let of = |service| spans.iter().find(move |span| span.service == service);
        Some((of("edgelink-edge")?.clone(), of("edgelink")?.clone()))
    })
    .await
}

/// A trace of a client goes on at Envoy, at the control plane that the filter asks, and at its database.
#[tokio::test]
async fn trace_when_a_client_sends_one_reaches_the_database() {
    if Filter::lacks("spans") {
        return;
    }
    let collector = Collector::start().await;
    let (mut control_plane, envoy) = traced_stack(&collector).await;
    for code in ["known", "other"] {
        control_plane.link(code).create().await;
    }
    assert_eq!(envoy.visit(&traced("/other", "00")).await.status, 302);
    assert_eq!(envoy.visit(&traced("/known", "01")).await.status, 302);
    let (edge, lookup) = spans_of_both(&collector).await;
    assert_eq!((&*edge.parent, &*lookup.parent), (PARENT, PARENT));
    assert_eq!(edge.attribute("edgelink.tier"), "control-plane");
    assert_eq!(lookup.name, "GET /edge/v1/links/{domain}/{code}");
    assert_eq!(lookup.attribute("http.response.status_code"), "200");

    control_plane.process().terminate().await;
    let spans = collector.spans();
    let (servers, calls): (Vec<_>, Vec<_>) = spans
        .iter()
        .filter(|span| span.service == "edgelink")
        .partition(|span| span.is_server);
    assert_eq!(servers, [&lookup]);
    assert!(!calls.is_empty(), "{spans:?}");
    for call in calls {
        assert_eq!((&*call.trace, &call.parent), (TRACE, &lookup.id));
        assert_eq!(call.attribute("db.system.name"), "sqlite");
    }
    let log = control_plane.process().log();
    let answered = log.lines().filter(|line| line.contains("answered"));
    let traced = answered.filter(|line| line.contains(TRACE));
    assert_eq!(traced.count(), 1, "{log}");
}

/// What Envoy passes on itself, a page for visitors, is below Envoy's span.
#[tokio::test]
async fn page_when_from_the_control_plane_is_traced_below_envoy() {
    if Filter::lacks("spans") {
        return;
    }
    let collector = Collector::start().await;
    let (control_plane, envoy) = traced_stack(&collector).await;
    control_plane.link("known").create().await;
    assert_eq!(envoy.visit(&traced("/known+", "01")).await.status, 200);
    let (edge, page) = spans_of_both(&collector).await;
    assert_eq!((&*edge.parent, &page.parent), (PARENT, &edge.id));
}

/// A client that asks to be traced is traced no more than others, and the control plane hears nothing of its trace.
#[tokio::test]
async fn trace_when_a_client_asks_for_it_follows_the_percentage() {
    if Filter::lacks("spans") {
        return;
    }
    let control_plane = ScriptedControlPlane::start().await;
    script(&control_plane, "abc");
    for percent in ["100", "0"] {
        let collector = Collector::start().await;
        let options = options(&[
            ("EDGELINK_OTLP", &collector.address().to_string()),
            ("EDGELINK_TRACE_PERCENT", percent),
        ]);
        let envoy = Envoy::start(&options, &[control_plane.address()]).await;
        let request = traced("/abc", "01").header("tracestate", b"a=b");
        assert_eq!(envoy.visit(&request).await.status, 302);
        let heads = control_plane.lookup_heads("abc");
        assert!(heads.iter().all(|head| !head.contains(TRACE)), "{heads:?}");
        if percent == "100" {
            until("the span of Envoy is there", LIMIT, async || {
                (!collector.spans().is_empty()).then_some(())
            })
            .await;
            assert_eq!(collector.spans_of(TRACE).len(), 0);
        }
    }
}

#[tokio::test]
async fn lookup_when_sent_has_the_traceparent_of_its_visitor() {
    let control_plane = ScriptedControlPlane::start().await;
    script(&control_plane, "abc");
    let options = options(&[("EDGELINK_TRACE_PARENTS", "true")]);
    let envoy = Envoy::start(&options, &[control_plane.address()]).await;
    assert_eq!(envoy.visit(&traced("/abc", "00")).await.status, 302);
    let heads = control_plane.lookup_heads("abc");
    let header = format!("traceparent: {}", traceparent("00"));
    assert!(heads[0].contains(&header), "{heads:?}");
    let other = Request::get("/unknown").header("traceparent", b"00-evil\"");
    assert_eq!(envoy.visit(&other).await.status, 404);
    let heads = control_plane.lookup_heads("unknown");
    assert!(!heads[0].contains("evil"), "{heads:?}");
}

#[tokio::test]
async fn edge_when_it_has_snapshot_and_feed_is_ready() {
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
    assert_eq!(envoy.figures().await.get("edgelink.snapshot.ok"), 1);
    if Filter::lacks("a drain") {
        return;
    }
    envoy.admin_post("/healthcheck/fail").await;
    until("it drains", LIMIT, async || {
        (envoy.follow(PROBE).await.status == 503).then_some(())
    })
    .await;
}

#[tokio::test]
async fn edge_when_without_a_control_plane_is_live_but_not_ready() {
    let nothing = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
    let options = EnvoyOptions {
        feed: "poll",
        ..EnvoyOptions::default()
    };
    let envoy = Envoy::start(&options, &[nothing]).await;
    envoy
        .await_figures(|stats| stats.get("edgelink.snapshot.failed") > 0)
        .await;
    assert_eq!(envoy.follow(PROBE).await.status, 503);
    assert_eq!(envoy.follow("/health/live").await.status, 200);
}
