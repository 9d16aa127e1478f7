//! Metrics for Prometheus: the table of all of them, and their recorder. Names and labels are a contract with
//! dashboards and alerts.

use metrics::{Key, Level, Metadata, Recorder, Unit};
use metrics_exporter_prometheus::{
    Matcher, PrometheusBuilder, PrometheusHandle, PrometheusRecorder,
};
use std::sync::OnceLock;

/// A metric in its description and in the reference.
struct Metric {
    name: &'static str,
    kind: PrometheusType,
    /// The labels with their values, as listed in the reference.
    labels: &'static str,
    meaning: &'static str,
}

enum PrometheusType {
    Counter,
    Gauge,
    Histogram,
}

/// Makes a constant of each metric, and the table [`METRICS`]. This is the one place of a metric: the reference in
/// the book is generated from it (`make reference`).
macro_rules! metrics {
    ($($(#[doc = $meaning:literal])+ $constant:ident: $kind:ident $name:literal $(, $labels:literal)?;)+) => {
        $($(#[doc = $meaning])+ pub const $constant: &str = $name;)+

        const METRICS: &[Metric] = &[$(Metric {
            name: $name,
            kind: PrometheusType::$kind,
            labels: concat!("", $($labels)?),
            meaning: concat!($($meaning),+),
        }),+];
    };
}

metrics! {
    /// Requests answered; `route` is the pattern.
    HTTP_REQUESTS: Counter "edgelink_http_requests_total", "`route`, `method`, `status`";
    /// From the head of the request to the head of its response.
    HTTP_SECONDS: Histogram "edgelink_http_request_duration_seconds", "`route`, `method`";
    /// Connections closed at once: their address had `max_connections_per_address`.
    CONNECTIONS_REFUSED: Counter "edgelink_http_connections_refused_total";
    /// Claims for a permit that were refused, by what is bounded: all permits were taken (`full`), the address, key or tenant had its share
    /// (`share`), or there would have been none in time (`late`).
    ADMISSION_REFUSALS: Counter "edgelink_admission_refusals_total", "`bound` (a setting, or the name of what is bounded), `reason` (full, share, late)";
    /// TLS handshakes that failed: the client took longer than `tls.handshake_timeout_ms` (`late`), closed the connection (`left`), or did
    /// not agree with the server, also on a certificate (`refused`).
    HANDSHAKE_FAILURES: Counter "edgelink_tls_handshake_failures_total", "`listener` (main, edge, public, metrics), `cause` (late, left, refused)";
    /// 1 while files that are read again and again cannot be used as they are by now, so that what was read before stays in use.
    FILES_UNUSABLE: Gauge "edgelink_files_unusable", "`files` (tls, auth.edge_token_file)";
    /// When the certificate in use ends, in seconds since 1970; of several authorities the first end.
    CERTIFICATE_END: Gauge "edgelink_certificate_expiry_timestamp_seconds", "`certificate` (server, edge_client_ca)";
    /// Requests refused with 429, by the limit that they exceed.
    REQUESTS_LIMITED: Counter "edgelink_requests_limited_total", "`policy` (address, key, global)";
    /// Requests whose limits counted in this process alone, because Redis did not answer.
    LIMITS_DEGRADED: Counter "edgelink_limits_degraded_total";
    /// Calls of the database.
    STORE_SECONDS: Histogram "edgelink_store_call_duration_seconds", "`operation`";
    /// Calls that failed; `transient="false"` does not go away by itself.
    STORE_ERRORS: Counter "edgelink_store_errors_total", "`operation`, `transient`";
    /// Clients that listen to clicks (`GET /api/v1/events`).
    LIVE_LISTENERS: Gauge "edgelink_live_listeners";
    /// Calls of Redis.
    REDIS_SECONDS: Histogram "edgelink_redis_call_duration_seconds", "`operation`";
    /// Calls that failed; `skipped`: not sent, for Redis did not answer a moment ago.
    REDIS_ERRORS: Counter "edgelink_redis_errors_total", "`operation`, `kind` (url, away, refused, malformed, skipped)";
    /// Records in Redis that cannot be read; they are replaced.
    REDIS_MALFORMED: Counter "edgelink_redis_malformed_records_total";
    /// Lookups by where they were answered; `known_keys`: the filter of known keys says that there is no such link.
    RESOLUTIONS: Counter "edgelink_resolutions_total", "`tier` (memory, known_keys, redis, database)";
    /// Lookups by edges.
    EDGE_LOOKUPS: Counter "edgelink_edge_lookups_total", "`outcome` (link, absent, failed)";
    /// Visitors answered by the control plane itself.
    REDIRECTS: Counter "edgelink_redirects_total", "`outcome` (redirect, expired, locked, not_allowed, withheld, not_found, gone, unavailable)";
    /// Visits of links that have a limit, leased to workers of edges or taken by visitors of the control plane itself.
    VISITS_LEASED: Counter "edgelink_visits_leased_total";
    /// Passwords that visitors gave, also at edges.
    UNLOCKS: Counter "edgelink_unlocks_total", "`outcome` (opened, wrong, limited, not_locked, failed)";
    /// Logins to the console by password or API key.
    CONSOLE_LOGINS: Counter "edgelink_console_logins_total", "`outcome` (opened, wrong, limited)";
    /// Links created.
    LINKS_CREATED: Counter "edgelink_links_created_total", "`kind` (generated, alias)";
    /// Transactions that create links: of requests that arrive together, or a chunk of a bulk request.
    CREATE_BATCHES: Counter "edgelink_create_batches_total";
    /// Numbers taken from the source.
    NUMBERS_ISSUED: Counter "edgelink_numbers_issued_total";
    /// `segment`: share of all numbers of the code length that is used up, 0 to 1; the log warns from 0.9.
    ISSUER_USED: Gauge "edgelink_issuer_used_ratio";
    /// `segment`: how many of the 1,000 issuers are leased, by all instances.
    ISSUERS_HELD: Gauge "edgelink_issuers_held";
    /// `segment`: numbers of the next draw.
    ISSUER_STEP: Gauge "edgelink_issuer_step";
    /// Segments drawn.
    SEGMENTS_DRAWN: Counter "edgelink_issuer_segments_total", "`outcome` (ok, failed)";
    /// 1 where this replica publishes.
    PUBLISHER_LEADER: Gauge "edgelink_publisher_leader";
    /// 1 for who publishes as far as this replica knows. `elsewhere`: a process whose feed does not come here, so
    /// that the database answers everything; the same `redis.url` is missing.
    PUBLISHER_STATE: Gauge "edgelink_publisher_state", "`publisher` (this, another, elsewhere, gave up, unknown)";
    /// Appends refused because a newer publisher is there.
    PUBLISHER_FENCED: Counter "edgelink_publisher_fenced_total";
    /// Changes published.
    PUBLISHER_CHANGES: Counter "edgelink_publisher_changes_total";
    /// Rounds of the publisher that failed; the changes wait.
    PUBLISHER_FAILURES: Counter "edgelink_publisher_failures_total";
    /// Changes in the outbox that this version cannot read.
    PUBLISHER_MALFORMED: Counter "edgelink_publisher_malformed_total";
    /// Age of the oldest change in the outbox. Published ones are deleted within a second.
    OUTBOX_AGE: Gauge "edgelink_outbox_age_seconds";
    /// Changes in the outbox, counted up to 100,000.
    OUTBOX_ROWS: Gauge "edgelink_outbox_rows";
    /// Everything that was committed longer ago has come by the feed; `+Inf` while that is not known. Above
    /// `feed.max_age_ms` nothing cached is used.
    FEED_AGE: Gauge "edgelink_feed_age_seconds";
    /// How often everything was asked for again because Redis, or the database, is not as it was left.
    FEED_GENERATIONS: Counter "edgelink_feed_generations_total", "`reason` (local, empty, lost, nodes, flush, database)";
    /// How often changes were missing in the feed.
    FEED_GAPS: Counter "edgelink_feed_gaps_total";
    /// From the commit of a change that a client waits for until it is answered, by why it is: every worker has acknowledged the change
    /// (`acknowledged`), or all but some whose leases ended (`expired`), or not all in `feed.alias_wait_ms` (`late`), or the feed
    /// is not current (`not_current`).
    CHANGE_VISIBLE_SECONDS: Histogram "edgelink_change_visible_seconds", "`outcome` (acknowledged, expired, late, not_current)";
    /// Entries of the feed that cannot be read.
    FEED_MALFORMED: Counter "edgelink_feed_malformed_total";
    /// Clicks counted.
    CLICKS_COUNTED: Counter "edgelink_clicks_counted_total";
    /// Clicks that edges have dropped, as their reports say.
    CLICKS_DROPPED: Counter "edgelink_clicks_dropped_total";
    /// Clicks counted that have lost their attributes at the edge.
    CLICKS_UNDESCRIBED: Counter "edgelink_clicks_undescribed_total";
    /// Batches of clicks.
    CLICK_BATCHES: Counter "edgelink_click_batches_total", "`outcome` (new, repeated)";
    /// Bytes of reports of clicks that wait to be written, where this replica takes reports; above `analytics.max_queued_bytes`
    /// reports are 503.
    CLICK_QUEUE_BYTES: Gauge "edgelink_click_queue_bytes";
    /// For how long the oldest report of clicks waits to be written, where this replica writes them; otherwise 0.
    CLICK_QUEUE_AGE: Gauge "edgelink_click_queue_age_seconds";
    /// Clicks written into the engine of analytics.
    CLICKS_WRITTEN: Counter "edgelink_clicks_written_total";
    /// Attempts to write clicks that failed; they are repeated.
    CLICK_WRITE_FAILURES: Counter "edgelink_click_write_failures_total";
    /// Reports of clicks that were set aside in the queue, because they cannot be written.
    CLICKS_ASIDE: Counter "edgelink_click_reports_aside_total";
    /// Attempts to deliver an event to a webhook; `retried` and `failed`: without success, `failed` for the last time.
    WEBHOOK_ATTEMPTS: Counter "edgelink_webhook_attempts_total", "`outcome` (delivered, retried, failed)";
    /// For how long the delivery to an active webhook that is due longest is due, where this replica delivers; otherwise 0.
    WEBHOOK_AGE: Gauge "edgelink_webhook_age_seconds";
    /// Webhooks disabled: they have failed for `webhooks.disable_after_seconds`, or more than `webhooks.max_waiting` deliveries wait.
    WEBHOOKS_DISABLED: Counter "edgelink_webhooks_disabled_total", "`reason` (failing, full, gone)";
    /// Spans of sampled requests; `full`: lost, because `telemetry.max_queued_spans` waited, `failed`: lost, because the collector did not
    /// take them.
    SPANS: Counter "edgelink_spans_total", "`outcome` (sent, full, failed)";
    /// Rows purged; `unhashed` are not purged, but given their hash; `undelivered` are deliveries to webhooks that still waited.
    PURGED: Counter "edgelink_purged_total", "`kind` (links, tombstones, receipts, unhashed, clicks, click_ids, conversions, audit, deliveries, undelivered, visit_leases, sessions, edge_health)";
    /// Purges that failed; they are retried.
    PURGE_FAILURES: Counter "edgelink_purge_failures_total", "`kind`";
    /// Links past their retention that the last purge has left, counted up to `purge.count_limit`; above 0, purging does not
    /// keep up.
    PURGE_DUE: Gauge "edgelink_purge_due_links";
    /// Reports of abuse that the operator has not closed, at the end of the last purge.
    REPORTS_OPEN: Gauge "edgelink_reports_open";
}

const SECONDS: &[f64] = &[
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
];

static RECORDER: OnceLock<Option<PrometheusHandle>> = OnceLock::new();

/// The recorder of this process, installed on first use; `None` if another one is in place already.
/// There is one for a process, not one for a server, because the `metrics` macros find it globally.
pub fn recorder() -> Option<&'static PrometheusHandle> {
    RECORDER.get_or_init(install).as_ref()
}

fn install() -> Option<PrometheusHandle> {
    let recorder = build()?;
    let handle = recorder.handle();
    metrics::set_global_recorder(recorder)
        .inspect_err(|error| tracing::error!(%error, "installing the metrics recorder failed; metrics stay empty"))
        .ok()?;
    Some(handle)
}

fn build() -> Option<PrometheusRecorder> {
    let recorder = PrometheusBuilder::new()
        .set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), SECONDS)
        .inspect_err(|error| tracing::error!(%error, "invalid histogram buckets"))
        .ok()?
        .build_recorder();
    describe(&recorder);
    show_at_zero(&recorder);
    Some(recorder)
}

/// Exposes counters before their first event, which Prometheus's `increase` would miss otherwise. This is not possible for
/// counters with labels, whose values are not known in advance.
fn show_at_zero(recorder: &PrometheusRecorder) {
    let metadata = Metadata::new(module_path!(), Level::INFO, None);
    for metric in METRICS {
        if matches!(metric.kind, PrometheusType::Counter) && metric.labels.is_empty() {
            drop(recorder.register_counter(&Key::from_static_name(metric.name), &metadata));
        }
    }
}

fn describe(recorder: &PrometheusRecorder) {
    for metric in METRICS {
        let name = metric.name.into();
        let labels = match metric.labels {
            "" => String::new(),
            labels => format!(" By {labels}."),
        };
        let (unit, meaning) = (
            unit_of(metric.name),
            format!("{}{labels}", metric.meaning.trim()).into(),
        );
        match metric.kind {
            PrometheusType::Counter => recorder.describe_counter(name, unit, meaning),
            PrometheusType::Gauge => recorder.describe_gauge(name, unit, meaning),
            PrometheusType::Histogram => recorder.describe_histogram(name, unit, meaning),
        }
    }
}

fn unit_of(name: &str) -> Option<Unit> {
    name.ends_with("_seconds").then_some(Unit::Seconds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use edgelink_model::reference;

    #[test]
    fn metric_reference_when_generated_equals_the_book() {
        let mut table = "| metric | labels | meaning |\n|---|---|---|\n".to_owned();
        for Metric {
            name,
            labels,
            meaning,
            ..
        } in METRICS
        {
            let space = if labels.is_empty() { "" } else { " " };
            table += &format!("| `{name}` |{space}{labels} |{meaning} |\n");
        }
        reference::assert_generated("metrics", &table);
    }

    #[test]
    fn counter_when_without_labels_is_there_at_the_start() {
        let shown = build().expect("a recorder").handle().render();
        let is_counter = |metric: &&Metric| matches!(metric.kind, PrometheusType::Counter);
        let (plain, labelled): (Vec<_>, Vec<_>) = METRICS
            .iter()
            .filter(is_counter)
            .partition(|metric| metric.labels.is_empty());
        assert!(plain.len() > 10, "{}", plain.len());
        for metric in plain {
            let line = format!("\n{} 0\n", metric.name);
            assert!(shown.contains(&line), "{} is not in {shown}", metric.name);
        }
        for metric in labelled {
            assert!(!shown.contains(metric.name), "{}", metric.name);
        }
    }

    #[test]
    fn metric_name_when_listed_ends_as_prometheus_asks() {
        for metric in METRICS {
            let name = metric.name;
            assert!(
                name.starts_with("edgelink_") && !name.ends_with("_ms"),
                "{name}"
            );
            match metric.kind {
                PrometheusType::Counter => assert!(name.ends_with("_total"), "{name}"),
                PrometheusType::Histogram => assert!(unit_of(name).is_some(), "{name}"),
                PrometheusType::Gauge => assert!(!name.ends_with("_total"), "{name}"),
            }
        }
    }
}
