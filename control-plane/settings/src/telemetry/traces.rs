//! Traces: spans of sampled requests and of their database calls.
//!
//! A request is sampled if its `traceparent` is, or, without one, by `telemetry.trace_percent`. Other requests create no span and
//! allocate nothing, because they have no [`Trace`] in which spans could begin. Ended spans wait in a queue for the
//! [`export::Exporter`]; if it is full they are lost, and nothing blocks.

mod export;

pub use export::start;

use edgelink_wire::{TRACEPARENT, TraceParent};
use http::HeaderMap;
use opentelemetry::trace::{
    Span as _, SpanBuilder, SpanContext, SpanId, SpanKind, Status, TraceContextExt, TraceFlags,
    TraceId, TraceState, Tracer as _,
};
use opentelemetry::{Context, KeyValue, Value};
use opentelemetry_sdk::trace::{SdkTracer, Span as SdkSpan};
use rand::random_range;
use std::borrow::Cow;

/// Longest path in a span, in bytes. Visitors may send longer ones.
const MAX_PATH_BYTES: usize = 256;

tokio::task_local! {
    /// The task's place in a trace; unset if nothing is traced.
    static CURRENT: Trace;
}

/// Starts traces, and continues those of clients.
#[derive(Debug)]
pub struct Tracer {
    spans: SdkTracer,
    /// The share of requests without `traceparent` that are traced.
    percent: u32,
}

impl Tracer {
    /// The trace of a request with these headers; `None` if it is not sampled.
    pub fn sample(&self, headers: &HeaderMap) -> Option<Trace> {
        let mut parents = headers.get_all(TRACEPARENT).iter();
        let parent = match (parents.next(), parents.next()) {
            (Some(parent), None) => TraceParent::parse(parent.as_bytes()),
            _ => None,
        };
        let parent = match parent {
            Some(parent) => parent.is_sampled.then(|| context(parent))?,
            None => self.draws().then(Context::new)?,
        };
        let spans = self.spans.clone();
        Some(Trace { spans, parent })
    }

    /// True if this request falls into the traced share.
    fn draws(&self) -> bool {
        self.percent > 0 && random_range(0..100) < self.percent
    }
}

fn context(parent: TraceParent) -> Context {
    let (trace, span) = (TraceId::from(parent.trace_id), SpanId::from(parent.span_id));
    let state = TraceState::default();
    let parent = SpanContext::new(trace, span, TraceFlags::SAMPLED, true, state);
    Context::new().with_remote_span_context(parent)
}

/// A place in a sampled trace, below which spans begin.
#[derive(Clone, Debug)]
pub struct Trace {
    spans: SdkTracer,
    /// The parent span; without one the next span is the root of the trace.
    parent: Context,
}

impl Trace {
    /// The current task's place; `None` if it does not work for a sampled request.
    pub fn current() -> Option<Self> {
        CURRENT.try_with(Self::clone).ok()
    }

    /// Begins the span of a request. `method` is one of a few labels, `route` the matched pattern.
    pub fn request(&self, method: &'static str, route: Option<&str>, path: &str) -> Span {
        let (name, method) = match method {
            "OTHER" => ("HTTP", "_OTHER"),
            known => (known, known),
        };
        let length = path.floor_char_boundary(MAX_PATH_BYTES);
        let mut attributes = vec![
            KeyValue::new("http.request.method", method),
            KeyValue::new(
                "url.path",
                path.get(..length).unwrap_or_default().to_owned(),
            ),
        ];
        let name = match route {
            Some(route) => {
                attributes.push(KeyValue::new("http.route", route.to_owned()));
                format!("{name} {route}").into()
            }
            None => name.into(),
        };
        self.begin(SpanKind::Server, name, attributes)
    }

    fn begin(&self, kind: SpanKind, name: Cow<'static, str>, attributes: Vec<KeyValue>) -> Span {
        let span = SpanBuilder::from_name(name)
            .with_kind(kind)
            .with_attributes(attributes);
        let span = self.spans.build_with_context(span, &self.parent);
        Span {
            spans: self.spans.clone(),
            span: Box::new(span),
        }
    }
}

/// A span of a sampled trace. It ends when it is dropped.
#[derive(Debug)]
pub struct Span {
    spans: SdkTracer,
    span: Box<SdkSpan>,
}

impl Span {
    /// The place in the trace below this span.
    pub fn below(&self) -> Trace {
        let parent = self.span.span_context().clone();
        Trace {
            spans: self.spans.clone(),
            parent: Context::new().with_remote_span_context(parent),
        }
    }

    /// The id of the trace.
    pub fn trace_id(&self) -> TraceId {
        self.span.span_context().trace_id()
    }

    /// Sets an attribute, named by the semantic conventions of OpenTelemetry.
    pub fn note(&mut self, name: &'static str, value: impl Into<Value>) {
        self.span.set_attribute(KeyValue::new(name, value));
    }

    /// Marks the span as failed. The kind is one of a few words, never a message of the database, which may contain values.
    pub fn fail(&mut self, kind: impl Into<Value>) {
        self.note("error.type", kind);
        self.span.set_status(Status::error(""));
    }
}

/// Begins the span of a database call; `None` if the task does not work for a sampled request.
pub fn database_span(system: &'static str, operation: &'static str) -> Option<Span> {
    let begin = |trace: &Trace| {
        let attributes = vec![
            KeyValue::new("db.system.name", system),
            KeyValue::new("db.operation.name", operation),
        ];
        trace.begin(SpanKind::Client, operation.into(), attributes)
    };
    CURRENT.try_with(begin).ok()
}

/// Runs work within a trace, if there is one.
pub async fn within<F: Future>(trace: Option<Trace>, work: F) -> F::Output {
    match trace {
        Some(trace) => CURRENT.scope(trace, work).await,
        None => work.await,
    }
}

#[cfg(test)]
mod tests;
