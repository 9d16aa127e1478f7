//! Settings of traces.

use super::value::server_url;
use edgelink_wire::settings::Problems;
use std::time::Duration;

edgelink_wire::settings! {
    snake_case;

    /// Traces: spans of requests, and of their uses of the database, are sent to an OpenTelemetry collector. A request with the header
    /// `traceparent` (W3C Trace Context) is traced if the flag in it says that it is sampled.
    pub struct TelemetryConfig {
        /// The collector, which takes OTLP over HTTP: spans go to `/v1/traces` below it. With `https` its certificate must be one that
        /// the system trusts. Without it nothing is traced.
        pub otlp_url: Option<String> = None, "http://127.0.0.1:4318";
        /// The name of the control plane in traces (`service.name`).
        pub service_name: String = "edgelink".to_owned();
        /// How many percent of the requests without `traceparent` are traced.
        pub trace_percent: u32 = 0, 0..=100;
        /// Spans that may wait to be sent. Further ones are lost, and counted; no request waits for them.
        pub max_queued_spans: usize = 2_048, 1..=1_000_000;
        /// Spans that are sent together at most.
        pub max_batch_spans: usize = 512, 1..=10_000;
        /// How long a span waits for others to be sent with.
        pub interval_ms: Duration = Duration::from_secs(1), 1..=60_000;
        /// Time for sending spans; then they are lost. When the control plane stops, what waits has that time once more.
        pub timeout_ms: Duration = Duration::from_secs(2), 10..=60_000;
    }
}

impl TelemetryConfig {
    pub(super) fn check(&self, problems: &mut Problems) {
        let url = self.otlp_url.as_deref().map(server_url);
        if let Some(Err(must)) = url {
            problems.refuse("telemetry.otlp_url", must);
        }
        if self.service_name.trim().is_empty() {
            problems.refuse("telemetry.service_name", "is empty");
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::config::{Config, Environment};

    fn load(variables: &[(&str, &str)]) -> Result<Config, String> {
        let own = |(name, value): &(&str, &str)| {
            (format!("EDGELINK_TELEMETRY_{name}"), (*value).to_owned())
        };
        let environment: Environment = variables.iter().map(own).collect();
        Config::load(None, &environment).map_err(|error| error.to_string())
    }

    #[test]
    fn collector_when_not_configured_is_none() {
        assert_eq!(load(&[]).unwrap().telemetry.otlp_url, None);
        for url in ["http://collector:4318", "https://otlp.example/edgelink/"] {
            let config = load(&[("OTLP_URL", url)]).unwrap();
            assert_eq!(config.telemetry.otlp_url.as_deref(), Some(url));
        }
    }

    #[test]
    fn field_when_wrong_is_refused_by_name() {
        for (variable, value) in [
            ("OTLP_URL", "collector:4318"),
            ("OTLP_URL", "grpc://collector"),
            ("OTLP_URL", "http://user@collector"),
            ("OTLP_URL", "http://:password@collector"),
            ("OTLP_URL", "http://collector/?a=b"),
            ("OTLP_URL", "http://collector/#a"),
            ("SERVICE_NAME", " "),
            ("TRACE_PERCENT", "101"),
            ("MAX_QUEUED_SPANS", "0"),
            ("MAX_BATCH_SPANS", "0"),
            ("INTERVAL_MS", "0"),
            ("TIMEOUT_MS", "9"),
        ] {
            let error = load(&[(variable, value)]).unwrap_err();
            let field = format!("\n  telemetry.{}", variable.to_lowercase());
            assert!(error.contains(&field), "{variable}={value}: {error}");
        }
    }
}
