//! Tests of sampling, and of the bound of the queue.

use super::export::Exporter;
use super::*;
use crate::config::TelemetryConfig;
use edgelink_model::allocations;
use futures_util::FutureExt;
use http::HeaderValue;
use metrics_exporter_prometheus::PrometheusBuilder;

const SAMPLED: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const UNSAMPLED: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";

fn headers(parents: &[&'static str]) -> HeaderMap {
    let header = |parent: &&'static str| (TRACEPARENT, HeaderValue::from_static(parent));
    let mut headers = HeaderMap::new();
    for (name, value) in parents.iter().map(header) {
        headers.append(name, value);
    }
    headers
}

fn tracing(trace_percent: u32, max_queued_spans: usize) -> (Tracer, Exporter) {
    let config = TelemetryConfig {
        otlp_url: Some("http://127.0.0.1:4318".to_owned()),
        trace_percent,
        max_queued_spans,
        ..TelemetryConfig::default()
    };
    start(&config).unwrap().unwrap()
}

#[test]
fn tracing_when_without_a_collector_is_off() {
    assert!(start(&TelemetryConfig::default()).unwrap().is_none());
}

#[test]
fn trace_when_client_decides_follows_it() {
    for (percent, parents, is_traced) in [
        (0, &[SAMPLED] as &[_], true),
        (100, &[UNSAMPLED], false),
        (0, &[], false),
        (100, &[], true),
        (0, &["00-evil-01"], false),
        (100, &["00-evil-01"], true),
        (0, &[SAMPLED, SAMPLED], false),
    ] {
        let (tracer, _exporter) = tracing(percent, 10);
        let trace = tracer.sample(&headers(parents));
        assert_eq!(trace.is_some(), is_traced, "{percent} {parents:?}");
    }
    let (tracer, _exporter) = tracing(50, 10);
    let none = HeaderMap::new();
    let traced = (0..1_000).filter(|_| tracer.sample(&none).is_some());
    assert!((300..700).contains(&traced.count()));
}

#[test]
fn request_when_not_sampled_allocates_nothing() {
    let (tracer, _exporter) = tracing(0, 10);
    let none = HeaderMap::new();
    let unsampled = headers(&[UNSAMPLED]);
    let sampled = headers(&[SAMPLED]);
    let request = async |headers| {
        let trace = tracer.sample(headers);
        let is_traced = trace.is_some();
        let work = async {
            assert_eq!(Trace::current().is_some(), is_traced);
            drop(database_span("sqlite", "find_link"));
        };
        within(trace, work).await;
    };
    let cost = |headers| allocations::count_of(|| request(headers).now_or_never().unwrap());
    assert_eq!((cost(&none), cost(&unsampled)), (0, 0));
    assert!(cost(&sampled) > 0);
}

#[test]
fn spans_when_beyond_the_queue_are_counted_as_lost() {
    let recorder = PrometheusBuilder::new().build_recorder();
    metrics::with_local_recorder(&recorder, || {
        let (tracer, _exporter) = tracing(0, 2);
        let trace = tracer.sample(&headers(&[SAMPLED])).unwrap();
        for _ in 0..5 {
            drop(trace.request("GET", Some("/{code}"), "/x"));
        }
    });
    let metrics = recorder.handle().render();
    let lost = r#"edgelink_spans_total{outcome="full"} 3"#;
    assert!(metrics.contains(lost), "{metrics}");
}
