//! Export of spans to the collector: a bounded queue, and the task that sends its spans.

use super::Tracer;
use crate::config::{TelemetryConfig, server_url};
use crate::https::{self, HttpsClient, with_causes};
use crate::telemetry::LogThrottle;
use crate::telemetry::prometheus::SPANS;
use bytes::Bytes;
use http::{HeaderValue, Request, StatusCode, header};
use http_body_util::{BodyExt, Full, Limited};
use metrics::counter;
use opentelemetry::trace::TracerProvider;
use opentelemetry::{Context, KeyValue};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::transform::common::tonic::ResourceAttributesWithSchema;
use opentelemetry_proto::transform::trace::tonic::group_spans_by_resource_and_scope;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{
    Sampler, SdkTracerProvider, Span as SdkSpan, SpanData, SpanProcessor,
};
use prost::Message;
use std::error::Error;
use std::io;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;
use tokio::time::{timeout, timeout_at};
use tokio_util::sync::CancellationToken;

/// Longest response of a collector in bytes.
const MAX_ANSWER_BYTES: usize = 1 << 16;

/// Shortest interval between log lines about lost spans.
const LOG_INTERVAL: Duration = Duration::from_mins(1);

/// Creates the tracer and the exporter of its spans; `None` without a collector.
///
/// # Errors
/// The certificates that the system trusts cannot be read.
pub fn start(config: &TelemetryConfig) -> io::Result<Option<(Tracer, Exporter)>> {
    let url = config.otlp_url.as_deref().map(server_url);
    // An invalid URL was refused with the configuration.
    let Some(Ok(url)) = url else {
        return Ok(None);
    };
    let (queue, spans) = mpsc::channel(config.max_queued_spans);
    let resource = Resource::builder()
        .with_service_name(config.service_name.clone())
        .with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")))
        .build();
    let exporter = Exporter {
        spans,
        resource: (&resource).into(),
        http: https::client_of(&url)?,
        url: format!("{}/v1/traces", url.as_str().trim_end_matches('/')),
        max_batch: config.max_batch_spans,
        interval: config.interval_ms,
        timeout: config.timeout_ms,
        log: LogThrottle::every(LOG_INTERVAL),
    };
    let provider = SdkTracerProvider::builder()
        .with_sampler(Sampler::AlwaysOn)
        .with_span_processor(SpanQueue(queue))
        .build();
    let tracer = Tracer {
        spans: provider.tracer("edgelink"),
        percent: config.trace_percent,
    };
    Ok(Some((tracer, exporter)))
}

/// The sending end of the queue.
#[derive(Debug)]
struct SpanQueue(mpsc::Sender<SpanData>);

impl SpanProcessor for SpanQueue {
    fn on_start(&self, _: &mut SdkSpan, _: &Context) {}

    fn on_end(&self, span: SpanData) {
        if self.0.try_send(span).is_err() {
            counter!(SPANS, "outcome" => "full").increment(1);
        }
    }

    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _: Duration) -> OTelSdkResult {
        Ok(())
    }
}

/// Sends spans to the collector.
pub struct Exporter {
    spans: mpsc::Receiver<SpanData>,
    /// Attributes of this process in all spans.
    resource: ResourceAttributesWithSchema,
    http: HttpsClient,
    url: String,
    max_batch: usize,
    interval: Duration,
    timeout: Duration,
    log: LogThrottle,
}

/// The error of an export.
#[derive(Debug, thiserror::Error)]
enum ExportError {
    #[error("no answer in time")]
    TimedOut,
    #[error("it answered {0}")]
    Refused(StatusCode),
    #[error("{}", with_causes(.0.as_ref()))]
    Connection(Box<dyn Error + Send + Sync>),
}

impl Exporter {
    /// Sends spans until `stop`, and then the rest.
    pub async fn run(mut self, stop: CancellationToken) {
        let mut batch = Vec::new();
        while !stop.is_cancelled() && !self.spans.is_closed() {
            tokio::select! {
                () = stop.cancelled() => {}
                () = self.gather(&mut batch) => {}
            }
            if !batch.is_empty() {
                self.send(std::mem::take(&mut batch), self.end()).await;
            }
        }
        self.spans.close();
        let end = self.end();
        while self.spans.recv_many(&mut batch, self.max_batch).await > 0 {
            self.send(std::mem::take(&mut batch), end).await;
        }
    }

    /// Waits for a span, and then for further ones until the batch is full or the interval has passed.
    async fn gather(&mut self, batch: &mut Vec<SpanData>) {
        if self.spans.recv_many(batch, self.max_batch).await == 0 {
            return;
        }
        let interval = self.interval;
        let further = async {
            while batch.len() < self.max_batch {
                let room = self.max_batch - batch.len();
                if self.spans.recv_many(batch, room).await == 0 {
                    return;
                }
            }
        };
        // Spans that arrive by then are in the batch.
        let _ = timeout(interval, further).await;
    }

    /// Deadline for an export that begins now.
    fn end(&self) -> tokio::time::Instant {
        tokio::time::Instant::now() + self.timeout
    }

    /// Sends spans, which are lost if the collector has not accepted them by `end`.
    async fn send(&self, batch: Vec<SpanData>, end: tokio::time::Instant) {
        let count = batch.len() as u64;
        let posted = timeout_at(end, self.post(batch)).await;
        let failed = match posted.unwrap_or(Err(ExportError::TimedOut)) {
            Ok(rejected) => rejected.min(count),
            Err(error) => {
                self.log(&error, count);
                count
            }
        };
        counter!(SPANS, "outcome" => "failed").increment(failed);
        counter!(SPANS, "outcome" => "sent").increment(count - failed);
    }

    fn log(&self, error: &ExportError, spans: u64) {
        if let Some(suppressed) = self.log.admit(Instant::now()) {
            let url = &self.url;
            tracing::warn!(%error, url, spans, suppressed, "spans lost: the collector did not accept them");
        }
    }

    /// Posts spans, and returns the number that the collector has rejected.
    async fn post(&self, batch: Vec<SpanData>) -> Result<u64, ExportError> {
        let resource_spans = group_spans_by_resource_and_scope(batch, &self.resource);
        let message = ExportTraceServiceRequest { resource_spans };
        let protobuf = HeaderValue::from_static("application/x-protobuf");
        let request = Request::post(&self.url)
            .header(header::CONTENT_TYPE, protobuf)
            .body(Full::new(Bytes::from(message.encode_to_vec())));
        let request = request.map_err(|error| ExportError::Connection(error.into()))?;
        let answer = self.http.request(request).await;
        let answer = answer.map_err(|error| ExportError::Connection(error.into()))?;
        let status = answer.status();
        let body = Limited::new(answer.into_body(), MAX_ANSWER_BYTES).collect();
        let body = body.await.map_err(ExportError::Connection)?.to_bytes();
        if !status.is_success() {
            return Err(ExportError::Refused(status));
        }
        Ok(rejected(body))
    }
}

/// Number of rejected spans in a response; 0 if it cannot be read.
fn rejected(answer: Bytes) -> u64 {
    let answer = ExportTraceServiceResponse::decode(answer).ok();
    let partial = answer.and_then(|answer| answer.partial_success);
    partial.map_or(0, |partial| partial.rejected_spans.max(0).cast_unsigned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use opentelemetry_proto::tonic::collector::trace::v1::ExportTracePartialSuccess;

    #[test]
    fn rejected_spans_when_answered_are_counted() {
        let answer = |rejected_spans| {
            let partial_success = Some(ExportTracePartialSuccess {
                rejected_spans,
                error_message: String::new(),
            });
            let answer = ExportTraceServiceResponse { partial_success };
            Bytes::from(answer.encode_to_vec())
        };
        assert_eq!(rejected(answer(3)), 3);
        assert_eq!(rejected(answer(-3)), 0);
        for other in ["", "{}"] {
            assert_eq!(rejected(Bytes::from(other)), 0, "{other:?}");
        }
    }
}
