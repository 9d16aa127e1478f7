//! Metrics for Prometheus. Names and labels are a contract with dashboards and alerts.

use metrics::{Unit, describe_counter, describe_gauge, describe_histogram};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use std::sync::OnceLock;

/// Requests answered, by `route` (the pattern, never the path), `method` and `status`.
pub(crate) const HTTP_REQUESTS: &str = "edgelink_http_requests_total";
/// Time from the head of a request to the head of its response, by `route` and `method`.
pub(crate) const HTTP_SECONDS: &str = "edgelink_http_request_duration_seconds";
/// Connections that were closed at once because their address had as many as it may have.
pub(crate) const CONNECTIONS_REFUSED: &str = "edgelink_http_connections_refused_total";
/// Calls of the store that failed, by `operation` and `transient`.
pub(crate) const STORE_ERRORS: &str = "edgelink_store_errors_total";
/// Time of the calls of the store, by `operation`.
pub(crate) const STORE_SECONDS: &str = "edgelink_store_call_duration_seconds";
/// Numbers taken from the issuer.
pub(crate) const NUMBERS_ISSUED: &str = "edgelink_numbers_issued_total";
/// Links created, by `kind`: `generated` or `alias`.
pub(crate) const LINKS_CREATED: &str = "edgelink_links_created_total";
/// Redirects answered by the control plane itself, by `outcome`.
pub(crate) const REDIRECTS: &str = "edgelink_redirects_total";
/// Lookups by edges, by `outcome`: `link` or `absent`.
pub(crate) const EDGE_LOOKUPS: &str = "edgelink_edge_lookups_total";
/// Transactions that create what has arrived together. `edgelink_links_created_total` over it is their mean size.
pub(crate) const CREATE_BATCHES: &str = "edgelink_create_batches_total";
/// The share of all numbers of this code length that is used up, 0 to 1.
pub(crate) const ISSUER_USED: &str = "edgelink_issuer_used_ratio";
/// How many of the 1,000 issuers are held, by all instances.
pub(crate) const ISSUERS_HELD: &str = "edgelink_issuers_held";
/// How many numbers the next segment has.
pub(crate) const ISSUER_STEP: &str = "edgelink_issuer_step";
/// Segments drawn, by `outcome`: `ok` or `failed`.
pub(crate) const SEGMENTS_DRAWN: &str = "edgelink_issuer_segments_total";
/// Calls of Redis that failed, by `operation` and `kind`.
pub(crate) const REDIS_ERRORS: &str = "edgelink_redis_errors_total";
/// Time of the calls of Redis, by `operation`.
pub(crate) const REDIS_SECONDS: &str = "edgelink_redis_call_duration_seconds";
/// Changes that were published.
pub(crate) const RELAY_PUBLISHED: &str = "edgelink_relay_published_total";
/// Rounds of the relay that failed; the changes wait.
pub(crate) const RELAY_FAILURES: &str = "edgelink_relay_failures_total";
/// Changes that this version cannot read.
pub(crate) const RELAY_MALFORMED: &str = "edgelink_relay_malformed_total";
/// 1 where this replica publishes, else 0.
pub(crate) const RELAY_LEADER: &str = "edgelink_relay_leader";
/// Who publishes as far as this process knows: 1 for one `publisher`, 0 for the others: `this`, `another`, `elsewhere`,
/// `gave up` or `unknown`.
pub(crate) const PUBLISHER_STATE: &str = "edgelink_publisher_state";
/// Appends that were refused because a newer publisher is there.
pub(crate) const PUBLISHER_FENCED: &str = "edgelink_publisher_fenced_total";
/// For how long the oldest change has waited to be published.
pub(crate) const OUTBOX_AGE: &str = "edgelink_outbox_age_seconds";
/// Rows of changes that wait to be published, counted up to 100,000.
pub(crate) const OUTBOX_ROWS: &str = "edgelink_outbox_rows";
/// How old the feed is: everything that was committed longer ago has come.
pub(crate) const FEED_AGE: &str = "edgelink_feed_age_seconds";
/// Generations of the feed that this process has begun, by `reason`: `local`, `empty`, `lost`, `nodes` or `database`.
pub(crate) const FEED_GENERATIONS: &str = "edgelink_feed_generations_total";
/// How often changes were missing in the feed.
pub(crate) const FEED_GAPS: &str = "edgelink_feed_gaps_total";
/// Entries of the feed that are not ours.
pub(crate) const FEED_MALFORMED: &str = "edgelink_feed_malformed_total";
/// Records in Redis that are not ours.
pub(crate) const REDIS_MALFORMED: &str = "edgelink_redis_malformed_records_total";
/// Links resolved, by `tier`: `memory`, `catalog`, `redis` or `database`.
pub(crate) const RESOLUTIONS: &str = "edgelink_resolutions_total";
/// Clicks counted.
pub(crate) const CLICKS_COUNTED: &str = "edgelink_clicks_counted_total";
/// Batches of clicks that came in, by `outcome`: `new` or `repeated`.
pub(crate) const CLICK_BATCHES: &str = "edgelink_click_batches_total";

const SECONDS: &[f64] = &[
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
];

static RECORDER: OnceLock<Option<PrometheusHandle>> = OnceLock::new();

/// The recorder of this process, installed when it is asked for first; nothing where another one is in place already.
/// There is one for a process, not one for a server, because that is how the `metrics` macros find it.
pub(crate) fn recorder() -> Option<&'static PrometheusHandle> {
    RECORDER.get_or_init(install).as_ref()
}

fn install() -> Option<PrometheusHandle> {
    let recorder = PrometheusBuilder::new()
        .set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), SECONDS)
        .inspect_err(|error| tracing::error!(%error, "the buckets of the histograms are not valid"))
        .ok()?
        .build_recorder();
    let handle = recorder.handle();
    metrics::set_global_recorder(recorder)
        .inspect_err(|error| tracing::error!(%error, "metrics stay empty"))
        .ok()?;
    describe();
    Some(handle)
}

fn describe() {
    describe_counter!(
        HTTP_REQUESTS,
        "Requests answered, by route, method and status."
    );
    describe_histogram!(
        HTTP_SECONDS,
        Unit::Seconds,
        "Time to the head of the response."
    );
    describe_counter!(
        CONNECTIONS_REFUSED,
        "Connections closed at once: their address had as many as it may have."
    );
    describe_counter!(STORE_ERRORS, "Calls of the store that failed.");
    describe_histogram!(
        STORE_SECONDS,
        Unit::Seconds,
        "Time of the calls of the store."
    );
    describe_counter!(NUMBERS_ISSUED, "Numbers taken from the issuer.");
    describe_counter!(LINKS_CREATED, "Links created, generated codes and aliases.");
    describe_counter!(
        REDIRECTS,
        "Redirects answered by the control plane itself, by outcome."
    );
    describe_counter!(REDIS_ERRORS, "Calls of Redis that failed.");
    describe_histogram!(REDIS_SECONDS, Unit::Seconds, "Time of the calls of Redis.");
    describe_counter!(RELAY_PUBLISHED, "Changes published.");
    describe_counter!(RELAY_FAILURES, "Rounds of the relay that failed.");
    describe_counter!(RELAY_MALFORMED, "Changes that cannot be read.");
    describe_gauge!(RELAY_LEADER, "1 where this replica publishes.");
    describe_gauge!(
        PUBLISHER_STATE,
        "Who publishes as far as this replica knows."
    );
    describe_counter!(
        PUBLISHER_FENCED,
        "Appends refused because a newer publisher is there."
    );
    describe_gauge!(
        OUTBOX_AGE,
        Unit::Seconds,
        "For how long the oldest change has waited to be published."
    );
    describe_gauge!(OUTBOX_ROWS, "Rows of changes that wait to be published.");
    describe_gauge!(
        FEED_AGE,
        Unit::Seconds,
        "Everything that was committed longer ago has come."
    );
    describe_counter!(
        FEED_GENERATIONS,
        "Generations of the feed that this replica has begun, by reason."
    );
    describe_counter!(FEED_GAPS, "How often changes were missing in the feed.");
    describe_counter!(FEED_MALFORMED, "Entries of the feed that are not ours.");
    describe_counter!(REDIS_MALFORMED, "Records in Redis that are not ours.");
    describe_counter!(RESOLUTIONS, "Links resolved, by tier.");
    describe_counter!(CLICKS_COUNTED, "Clicks counted.");
    describe_counter!(CLICK_BATCHES, "Batches of clicks that came in, by outcome.");
    describe_counter!(EDGE_LOOKUPS, "Lookups by edges, by outcome.");
    describe_counter!(CREATE_BATCHES, "Transactions that create links.");
    describe_gauge!(ISSUER_USED, "The share of all numbers that is used up.");
    describe_gauge!(ISSUERS_HELD, "How many of the 1,000 issuers are held.");
    describe_gauge!(ISSUER_STEP, "How many numbers the next segment has.");
    describe_counter!(SEGMENTS_DRAWN, "Segments drawn, by outcome.");
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_metric_is_in_the_readme() {
        let readme = include_str!("../../README.md");
        let is_name = |text: &&str| {
            text.starts_with("edgelink_")
                && text.len() > "edgelink_".len()
                && text
                    .bytes()
                    .all(|byte| byte == b'_' || byte.is_ascii_lowercase())
        };
        for source in [include_str!("prometheus.rs"), include_str!("../sweeper.rs")] {
            let names: Vec<&str> = source.split('"').filter(is_name).collect();
            assert!(!names.is_empty());
            for name in names {
                assert!(readme.contains(&format!("`{name}`")), "{name}");
            }
        }
    }
}
