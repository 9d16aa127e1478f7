//! Traces: spans of sampled requests at a collector.

use crate::accounting::batch;
use crate::helpers::{Running, send, until};
use edgelink_tests::stack::{Collector, CollectorKind, TraceSpan};
use edgelink_wire::clicks::encode;
use metrics_exporter_prometheus::PrometheusBuilder;
use reqwest::{Method, RequestBuilder};
use serde_json::json;
use sqlx::{Connection, Executor, SqliteConnection};
use std::collections::BTreeMap;

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "b7ad6b7169203331";
const LINK: &str = r#"{"longUrl":"https://example.com/"}"#;

fn traced(request: RequestBuilder, flags: &str) -> RequestBuilder {
    request.header("traceparent", format!("00-{TRACE}-{PARENT}-{flags}"))
}

/// A server whose spans go to a collector, at the latest when it stops.
async fn with_collector(collector: &Collector, variables: &[(&str, &str)]) -> Running {
    let url = collector.url();
    let own = [
        ("EDGELINK_TELEMETRY_OTLP_URL", url.as_str()),
        ("EDGELINK_TELEMETRY_INTERVAL_MS", "60000"),
    ];
    Running::with(&[&own[..], variables].concat()).await
}

async fn stop(server: Running) {
    server.begin_stop();
    server.stopped().await;
}

/// The span of the only request, and those below it.
fn request_and_calls(spans: Vec<TraceSpan>) -> (TraceSpan, Vec<TraceSpan>) {
    let (mut requests, calls): (Vec<_>, Vec<_>) =
        spans.into_iter().partition(|span| span.is_server);
    assert_eq!(requests.len(), 1, "{requests:?} {calls:?}");
    let request = requests.remove(0);
    for call in &calls {
        assert_eq!((&call.parent, &call.trace), (&request.id, &request.trace));
    }
    (request, calls)
}

fn attributes(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    pairs.iter().map(own).collect()
}

#[tokio::test]
async fn request_when_sampled_has_a_span_above_its_store_calls() {
    let collector = Collector::start().await;
    let server = with_collector(&collector, &[]).await;
    let search = server.api(Method::GET, "/links?searchTerm=private");
    assert_eq!(send(traced(search, "01")).await.status, 200);
    stop(server).await;
    let spans = collector.spans();
    assert!(!format!("{spans:?}").contains("private"), "{spans:?}");
    let (request, calls) = request_and_calls(spans);
    assert_eq!((&*request.trace, &*request.parent), (TRACE, PARENT));
    assert_eq!(request.service, "edgelink");
    assert_eq!(request.name, "GET /api/v1/links");
    let expected = [
        ("http.request.method", "GET"),
        ("http.response.status_code", "200"),
        ("http.route", "/api/v1/links"),
        ("url.path", "/api/v1/links"),
    ];
    assert_eq!(request.attributes, attributes(&expected));
    let listing = calls.iter().find(|call| call.name == "list_links");
    let listing = listing.unwrap_or_else(|| panic!("{calls:?}"));
    let expected = [
        ("db.operation.name", "list_links"),
        ("db.system.name", "sqlite"),
    ];
    assert_eq!(listing.attributes, attributes(&expected));
}

#[tokio::test]
async fn transaction_when_shared_is_in_the_trace_of_a_request() {
    let collector = Collector::start().await;
    let server = with_collector(&collector, &[]).await;
    let creation = server.api(Method::POST, "/links");
    let creation = creation.header("content-type", "application/json");
    let creation = send(traced(creation.body(LINK), "01")).await;
    creation.expect(201);
    let clicks = server.plain(Method::POST, "/edge/v1/clicks");
    let clicks = clicks.bearer_auth("first-token-of-the-edges");
    let clicks = clicks.body(encode(&[batch(1, 1, 1)]));
    assert_eq!(send(traced(clicks, "01")).await.status, 204);
    stop(server).await;
    let spans = collector.spans();
    for (name, call) in [
        ("POST /api/v1/links", "create_links"),
        ("POST /edge/v1/clicks", "count_clicks"),
    ] {
        let request = spans.iter().find(|span| span.name == name);
        let request = request.unwrap_or_else(|| panic!("{name}: {spans:?}"));
        let is_below = |span: &TraceSpan| span.name == call && span.parent == request.id;
        assert!(spans.iter().any(is_below), "{call}: {spans:?}");
    }
}

#[tokio::test]
async fn request_when_not_sampled_has_no_span() {
    let collector = Collector::start().await;
    let server = with_collector(&collector, &[]).await;
    let list = || server.api(Method::GET, "/links");
    send(traced(list(), "00")).await.expect(200);
    send(list()).await.expect(200);
    let odd = list().header("traceparent", "00-evil-01");
    send(odd).await.expect(200);
    let last = server.plain(Method::GET, "/health/live");
    send(traced(last, "01")).await.expect(200);
    stop(server).await;
    let (request, calls) = request_and_calls(collector.spans());
    assert_eq!((&*request.name, calls.len()), ("GET /health/live", 0));
}

#[tokio::test]
async fn request_when_chosen_by_percentage_begins_a_trace() {
    let collector = Collector::start().await;
    let variables = [
        ("EDGELINK_TELEMETRY_TRACE_PERCENT", "100"),
        ("EDGELINK_TELEMETRY_SERVICE_NAME", "links of the test"),
    ];
    let server = with_collector(&collector, &variables).await;
    let path = format!("/api/{}", "x".repeat(1_000));
    let unmatched = server.plain(Method::DELETE, &path);
    assert_eq!(send(unmatched).await.status, 404);
    let list = server.api(Method::GET, "/links");
    send(traced(list, "00")).await.expect(200);
    stop(server).await;
    let (request, _) = request_and_calls(collector.spans());
    assert_eq!((&*request.name, &*request.parent), ("DELETE", ""));
    assert_eq!(request.service, "links of the test");
    assert_eq!(request.attribute("url.path"), &path[..256]);
    assert_eq!(request.attribute("http.route"), "");
}

#[tokio::test]
async fn spans_when_enough_or_due_are_sent() {
    let collector = Collector::start().await;
    let many = [("EDGELINK_TELEMETRY_MAX_BATCH_SPANS", "3")];
    let soon = [("EDGELINK_TELEMETRY_INTERVAL_MS", "1")];
    for (variables, requests) in [(&many, 3), (&soon, 1)] {
        let before = collector.spans().len();
        let server = with_collector(&collector, variables).await;
        for _ in 0..requests {
            let live = server.plain(Method::GET, "/health/live");
            send(traced(live, "01")).await.expect(200);
        }
        until("the spans are there", async || {
            collector.spans().len() == before + requests
        })
        .await;
        stop(server).await;
    }
}

#[tokio::test]
async fn span_when_its_request_or_call_failed_says_so() {
    let collector = Collector::start().await;
    let server = with_collector(&collector, &[]).await;
    let mut database = SqliteConnection::connect(&server.database()).await.unwrap();
    let broken = "ALTER TABLE webhooks RENAME TO elsewhere";
    database.execute(broken).await.unwrap();
    let webhooks = server.api(Method::GET, "/webhooks");
    assert_eq!(send(traced(webhooks, "01")).await.status, 500);
    stop(server).await;
    let (request, calls) = request_and_calls(collector.spans());
    assert!(request.has_failed, "{request:?}");
    assert_eq!(request.attribute("error.type"), "500");
    let failed: Vec<_> = calls.iter().filter(|call| call.has_failed).collect();
    assert_eq!(failed.len(), 1, "{calls:?}");
    assert_eq!(failed[0].attribute("error.type"), "error");
}

/// Has a collector lose spans until the metrics say so, while requests are answered.
async fn lose_spans(kind: CollectorKind, outcome: &str) {
    let recorder = PrometheusBuilder::new().build_recorder();
    let _guard = metrics::set_default_local_recorder(&recorder);
    let collector = Collector::of(kind).await;
    let variables = [
        ("EDGELINK_TELEMETRY_MAX_QUEUED_SPANS", "1"),
        ("EDGELINK_TELEMETRY_MAX_BATCH_SPANS", "1"),
        ("EDGELINK_TELEMETRY_TIMEOUT_MS", "500"),
    ];
    let server = with_collector(&collector, &variables).await;
    for n in 0..50 {
        let link = json!({ "longUrl": format!("https://example.com/{n}") });
        let creation = server.api(Method::POST, "/links").json(&link);
        send(traced(creation, "01")).await.expect(201);
    }
    let series = format!("edgelink_spans_total{{outcome=\"{outcome}\"}} ");
    let handle = recorder.handle();
    until("spans are lost", async || {
        let metrics = handle.render();
        let lost = metrics.lines().find_map(|line| line.strip_prefix(&series));
        lost.is_some_and(|count| count != "0")
    })
    .await;
    stop(server).await;
    assert_eq!(collector.spans(), []);
}

#[tokio::test]
async fn collector_when_silent_costs_spans_and_no_request() {
    lose_spans(CollectorKind::Silent, "full").await;
}

#[tokio::test]
async fn collector_when_refusing_costs_spans_and_no_request() {
    lose_spans(CollectorKind::Refusing, "failed").await;
}
