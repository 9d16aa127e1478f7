//! The health of an edge, as the accounting of clicks shows it.

use edgelink_model::timestamp::Time;
use edgelink_store::{EdgeHealth, RequestSums};
use serde::Serialize;
use utoipa::ToSchema;

/// How an edge is doing, by its workers that were heard of in the last minute. They say so every 10 seconds from their first request
/// on, if they report clicks.
#[expect(missing_docs, reason = "openapi.json does not describe all fields")]
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = EdgeHealth)]
pub struct HealthView {
    /// When it was heard of last.
    #[schema(value_type = String, format = "date-time")]
    pub heard_at: Time,
    /// Whether none of its workers was heard of in the last minute.
    pub silent: bool,
    /// How many of its workers were heard of in the last minute; those of an edge that has started again meanwhile twice.
    pub workers: u64,
    /// Milliseconds from the moment up to which every change of the feed was known to the worker that was furthest behind, to its
    /// report; null if a worker had read no feed, or the edge is silent.
    pub feed_lag_ms: Option<u64>,
    /// How many of the workers have admission in effect.
    pub admitting_workers: u64,
    /// The share of looked-up links that were answered by the worker's own cache or shared data, without Redis and control plane: from
    /// 0 to 1, rounded to four digits; null if none was looked up. Requests that admission refuses are no such.
    pub hit_share: Option<f64>,
    pub requests: RequestsView,
}

/// How many requests of the 50 to 60 seconds before the reports each tier has answered.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = RequestsByTier)]
pub struct RequestsView {
    /// The worker's own cache.
    pub(crate) lru: u64,
    /// The shared data of the workers.
    pub(crate) shared_data: u64,
    /// Admission, with 404 and without a lookup: the code was never issued.
    pub admission: u64,
    /// Redis.
    pub(crate) redis: u64,
    /// The control plane, or none at all: 503.
    pub(crate) control_plane: u64,
    /// A cache, with a record that was no longer fresh, because asking failed.
    pub(crate) stale: u64,
}

impl HealthView {
    pub(crate) fn new(health: &EdgeHealth) -> Self {
        Self {
            heard_at: Time::of_millis(health.heard_at),
            silent: health.workers == 0,
            workers: health.workers,
            feed_lag_ms: health.feed_lag_millis,
            admitting_workers: health.admitting,
            hit_share: hit_share(&health.requests),
            requests: RequestsView::new(&health.requests),
        }
    }
}

impl RequestsView {
    fn new(requests: &RequestSums) -> Self {
        Self {
            lru: requests.lru,
            shared_data: requests.shared_data,
            admission: requests.admission,
            redis: requests.redis,
            control_plane: requests.control_plane,
            stale: requests.stale,
        }
    }
}

fn hit_share(requests: &RequestSums) -> Option<f64> {
    let hits = requests.lru + requests.shared_data;
    let all = hits + requests.redis + requests.control_plane + requests.stale;
    let share = || (hits as f64 / all as f64 * 10_000.0).round() / 10_000.0;
    (all > 0).then(share)
}
