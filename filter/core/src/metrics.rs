//! What is counted.
//!
//! Counting happens in the worker's memory and goes to the proxy once a tick, so that a redirect costs no host call
//! for it. At most one tick's counts are lost when the proxy dies; a worker that ends in order flushes first.

use crate::host::Metrics;

/// Who answered a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tier {
    /// The worker's own cache.
    Lru,
    /// The proxy's shared data.
    SharedData,
    /// The control plane, or nobody when it had to and could not.
    ControlPlane,
    /// A cache, with a record that is no longer fresh.
    Stale,
}

impl Tier {
    const ALL: [Self; 4] = [Self::Lru, Self::SharedData, Self::ControlPlane, Self::Stale];

    /// The tier in the header `x-edgelink-tier`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Lru => "lru",
            Self::SharedData => "shared-data",
            Self::ControlPlane => "control-plane",
            Self::Stale => "stale",
        }
    }
}

/// What a request was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A redirect.
    Redirect,
    /// 404: no such link, or not valid yet.
    NotFound,
    /// 410: switched off or no longer valid.
    Gone,
    /// 503: nobody could tell.
    Unavailable,
}

impl Outcome {
    const ALL: [Self; 4] = [
        Self::Redirect,
        Self::NotFound,
        Self::Gone,
        Self::Unavailable,
    ];
}

/// How a callout ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CalloutOutcome {
    /// A link.
    Ok,
    /// The knowledge that there is none.
    Absent,
    /// An answer that is none, or none at all.
    Failed,
    /// No answer in time.
    Timeout,
    /// Not sent: a bound was reached, the control plane has been silent, or the proxy refused.
    Rejected,
}

impl CalloutOutcome {
    const ALL: [Self; 5] = [
        Self::Ok,
        Self::Absent,
        Self::Failed,
        Self::Timeout,
        Self::Rejected,
    ];
}

/// One of the proxy's statistics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    /// Requests answered, by tier and outcome.
    Requests(Tier, Outcome),
    /// Callouts, by outcome.
    Callouts(CalloutOutcome),
    /// Milliseconds from sending a callout to its end.
    CalloutMillis,
    /// Entries in the LRUs of all workers.
    LruEntries,
    /// Bytes of them.
    LruBytes,
}

/// How a statistic behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// Only grows.
    Counter,
    /// Goes up and down.
    Gauge,
    /// A distribution.
    Histogram,
}

impl Metric {
    /// Every statistic, each at the place [`Metric::index`] gives.
    pub fn all() -> impl Iterator<Item = Self> {
        let requests = Tier::ALL
            .into_iter()
            .flat_map(|tier| Outcome::ALL.map(|outcome| Self::Requests(tier, outcome)));
        requests
            .chain(CalloutOutcome::ALL.map(Self::Callouts))
            .chain([Self::CalloutMillis, Self::LruEntries, Self::LruBytes])
    }

    /// The place of the statistic in a table of all of them.
    #[must_use]
    pub fn index(self) -> usize {
        match self {
            Self::Requests(tier, outcome) => tier as usize * Outcome::ALL.len() + outcome as usize,
            Self::Callouts(outcome) => REQUESTS + outcome as usize,
            Self::CalloutMillis => REQUESTS + CALLOUTS,
            Self::LruEntries => REQUESTS + CALLOUTS + 1,
            Self::LruBytes => REQUESTS + CALLOUTS + 2,
        }
    }

    /// How it behaves.
    #[must_use]
    pub fn kind(self) -> MetricKind {
        match self {
            Self::Requests(..) | Self::Callouts(_) => MetricKind::Counter,
            Self::CalloutMillis => MetricKind::Histogram,
            Self::LruEntries | Self::LruBytes => MetricKind::Gauge,
        }
    }

    /// Its name at the proxy, with characters only that Prometheus takes once dots have become underscores.
    #[must_use]
    pub fn name(self) -> String {
        match self {
            Self::Requests(tier, outcome) => {
                let tier = tier.name().replace('-', "_");
                let outcome = match outcome {
                    Outcome::Redirect => "redirect",
                    Outcome::NotFound => "not_found",
                    Outcome::Gone => "gone",
                    Outcome::Unavailable => "unavailable",
                };
                format!("edgelink.requests.{tier}.{outcome}")
            }
            Self::Callouts(outcome) => {
                let outcome = match outcome {
                    CalloutOutcome::Ok => "ok",
                    CalloutOutcome::Absent => "absent",
                    CalloutOutcome::Failed => "failed",
                    CalloutOutcome::Timeout => "timeout",
                    CalloutOutcome::Rejected => "rejected",
                };
                format!("edgelink.callouts.{outcome}")
            }
            Self::CalloutMillis => "edgelink.callout_ms".to_owned(),
            Self::LruEntries => "edgelink.lru_entries".to_owned(),
            Self::LruBytes => "edgelink.lru_bytes".to_owned(),
        }
    }
}

const REQUESTS: usize = Tier::ALL.len() * Outcome::ALL.len();
const CALLOUTS: usize = CalloutOutcome::ALL.len();

/// Counts that wait for the next tick.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    waiting: [u32; REQUESTS + CALLOUTS],
    lru_entries: i64,
    lru_bytes: i64,
}

impl Counts {
    /// Counts one more.
    pub(crate) fn count(&mut self, metric: Metric) {
        if let Some(count) = self.waiting.get_mut(metric.index()) {
            *count = count.saturating_add(1);
        }
    }

    /// Hands everything over. The gauges are those of all workers together, so each adds what has changed of its own.
    pub(crate) fn flush(&mut self, lru_entries: usize, lru_bytes: usize, to: &mut impl Metrics) {
        for (metric, count) in Metric::all().zip(&mut self.waiting) {
            if *count > 0 {
                to.add(metric, i64::from(std::mem::take(count)));
            }
        }
        let gauges = [
            (Metric::LruEntries, &mut self.lru_entries, lru_entries),
            (Metric::LruBytes, &mut self.lru_bytes, lru_bytes),
        ];
        for (metric, told, is) in gauges {
            let is = i64::try_from(is).unwrap_or(i64::MAX);
            if *told != is {
                to.add(metric, is.saturating_sub(*told));
                *told = is;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    #[derive(Default)]
    struct Stats(HashMap<String, i64>);

    impl Metrics for Stats {
        fn add(&mut self, metric: Metric, by: i64) {
            assert_ne!(by, 0, "Envoy takes no zero");
            *self.0.entry(metric.name()).or_default() += by;
        }

        fn record(&mut self, _: Metric, _: u64) {}
    }

    #[test]
    fn every_statistic_has_a_place_and_a_name_of_its_own() {
        let names: Vec<_> = Metric::all().map(Metric::name).collect();
        for (place, metric) in Metric::all().enumerate() {
            assert_eq!(metric.index(), place);
            assert_eq!(
                names.iter().filter(|name| **name == metric.name()).count(),
                1
            );
            let legal = |c: char| c.is_ascii_lowercase() || c == '_' || c == '.';
            assert!(metric.name().chars().all(legal), "{}", metric.name());
        }
    }

    #[test]
    fn what_was_counted_is_handed_over_once_and_gauges_by_difference() {
        let mut counts = Counts::default();
        let mut stats = Stats::default();
        let redirect = Metric::Requests(Tier::Lru, Outcome::Redirect);
        counts.count(redirect);
        counts.count(redirect);
        counts.count(Metric::Callouts(CalloutOutcome::Rejected));
        counts.flush(3, 300, &mut stats);
        counts.flush(2, 200, &mut stats);
        let told = |name: &str| stats.0.get(name).copied();
        assert_eq!(told("edgelink.requests.lru.redirect"), Some(2));
        assert_eq!(told("edgelink.callouts.rejected"), Some(1));
        assert_eq!(told("edgelink.lru_entries"), Some(2));
        assert_eq!(told("edgelink.lru_bytes"), Some(200));
        assert_eq!(stats.0.len(), 4);
    }
}
