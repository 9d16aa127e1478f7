//! A collector of traces that accepts OTLP over HTTP.

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::routing::post;
use http::StatusCode;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode as SpanStatus;
use prost::Message;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::future::pending;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use tokio::net::TcpListener;

/// Treatment of spans by a collector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CollectorKind {
    /// It accepts them.
    Taking,
    /// It answers 503.
    Refusing,
    /// It never answers.
    Silent,
}

/// A span as received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceSpan {
    /// The process that sent it (`service.name`).
    pub service: String,
    /// Its name.
    pub name: String,
    /// The id of its trace, in hexadecimal digits.
    pub trace: String,
    /// Its own id.
    pub id: String,
    /// Id of its parent span; empty if there is none.
    pub parent: String,
    /// True for a server span; spans of outgoing calls are client spans.
    pub is_server: bool,
    /// Set if it failed.
    pub has_failed: bool,
    /// Other attributes, texts and numbers.
    pub attributes: BTreeMap<String, String>,
}

impl TraceSpan {
    /// Value of an attribute; empty if there is none of that name.
    #[must_use]
    pub fn attribute(&self, name: &str) -> &str {
        self.attributes.get(name).map_or("", String::as_str)
    }
}

/// A collector that runs for the length of a test.
#[derive(Debug)]
pub struct Collector {
    address: SocketAddr,
    received: Received,
}

type Received = Arc<Mutex<Vec<TraceSpan>>>;

impl Collector {
    /// Starts a collector that accepts spans.
    pub async fn start() -> Self {
        Self::of(CollectorKind::Taking).await
    }

    /// Starts a collector of that kind.
    ///
    /// # Panics
    /// Panics if there is no free port.
    pub async fn of(kind: CollectorKind) -> Self {
        let received = Received::default();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await;
        let listener = listener.expect("a free port");
        let address = listener.local_addr().expect("an address");
        let router = Router::new().route("/v1/traces", post(receive));
        let router = router.with_state((kind, received.clone()));
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { address, received }
    }

    /// Listening address.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its URL.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// All accepted spans.
    ///
    /// # Panics
    /// Panics if a request was not OTLP.
    #[must_use]
    pub fn spans(&self) -> Vec<TraceSpan> {
        self.received.lock().expect("spans").clone()
    }

    /// Spans of a trace.
    #[must_use]
    pub fn spans_of(&self, trace: &str) -> Vec<TraceSpan> {
        let mut spans = self.spans();
        spans.retain(|span| span.trace == trace);
        spans
    }
}

async fn receive(
    State((kind, received)): State<(CollectorKind, Received)>,
    body: Bytes,
) -> StatusCode {
    match kind {
        CollectorKind::Taking => {}
        CollectorKind::Refusing => return StatusCode::SERVICE_UNAVAILABLE,
        CollectorKind::Silent => return pending().await,
    }
    let mut received = received.lock().expect("spans");
    let message = ExportTraceServiceRequest::decode(body).expect("a message of OTLP");
    for of_process in message.resource_spans {
        let resource = of_process.resource.unwrap_or_default();
        let resource = texts(resource.attributes);
        let service = &resource["service.name"];
        let spans = of_process.scope_spans.into_iter().flat_map(|of| of.spans);
        received.extend(spans.map(|span| read(service.clone(), span)));
    }
    StatusCode::OK
}

fn read(service: String, span: Span) -> TraceSpan {
    TraceSpan {
        service,
        is_server: span.kind() == SpanKind::Server,
        has_failed: span
            .status
            .is_some_and(|status| status.code() == SpanStatus::Error),
        name: span.name,
        trace: digits(&span.trace_id),
        id: digits(&span.span_id),
        parent: digits(&span.parent_span_id),
        attributes: texts(span.attributes),
    }
}

fn texts(attributes: Vec<KeyValue>) -> BTreeMap<String, String> {
    let text = |AnyValue { value }| match value {
        Some(Value::StringValue(text)) => text,
        Some(Value::IntValue(number)) => number.to_string(),
        other => format!("{other:?}"),
    };
    attributes
        .into_iter()
        .map(|KeyValue { key, value, .. }| (key, value.map(text).unwrap_or_default()))
        .collect()
}

fn digits(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut digits, byte| {
        let _ = write!(digits, "{byte:02x}");
        digits
    })
}
