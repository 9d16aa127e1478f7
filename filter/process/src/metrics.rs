//! Metrics, collected until the proxy takes them.

use edgelink_filter_core::metrics::Metric;

/// Changes of metrics.
#[derive(Debug, Default)]
pub struct MetricChanges {
    /// Counters and gauges, and what is added to them.
    pub added: Vec<(Metric, i64)>,
    /// Histograms, and the values.
    pub recorded: Vec<(Metric, u64)>,
    /// Lag of the feed, in milliseconds.
    pub feed_lag_millis: Option<u64>,
    /// Age of the oldest record served by a cache, in milliseconds.
    pub record_age_millis: Option<u64>,
}

impl MetricChanges {
    /// True if nothing has changed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.added.is_empty()
            && self.recorded.is_empty()
            && self.feed_lag_millis.is_none()
            && self.record_age_millis.is_none()
    }
}
