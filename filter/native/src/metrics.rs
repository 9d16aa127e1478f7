//! Metrics with labels: defined in Envoy, and updated on its main thread.

use crate::abi::{Configuration, StatKind};
use edgelink_filter_core::metrics::{self, Metric, Series};
use edgelink_process::metrics::MetricChanges;
use edgelink_process::panics;
use std::collections::HashMap;

/// The metrics defined by a configuration, each at its [`Metric::index`].
pub(crate) struct DefinedMetrics {
    defined: Vec<Option<Defined>>,
    /// `edgelink.panics`.
    panics: Option<usize>,
    /// `edgelink.feed_lag_milliseconds`.
    feed_lag: Option<usize>,
    /// `edgelink.record_age_milliseconds`.
    record_age: Option<usize>,
}

struct Defined {
    kind: StatKind,
    id: usize,
    /// The values of its labels.
    values: Vec<String>,
}

impl DefinedMetrics {
    /// Defines the metrics. A metric refused by Envoy is not counted; the rest works.
    pub(crate) fn define(envoy: Configuration<'_>) -> Self {
        let mut ids = HashMap::new();
        let define = |metric: Metric| {
            let kind = match metric.kind() {
                metrics::MetricKind::Counter => StatKind::Counter,
                metrics::MetricKind::Gauge => StatKind::Gauge,
                metrics::MetricKind::Histogram => StatKind::Histogram,
            };
            let Series { name, labels } = metric.into();
            let (names, values): (Vec<_>, Vec<_>) = labels.into_iter().unzip();
            let names: Vec<_> = names.iter().map(String::as_str).collect();
            let id = *ids
                .entry(name)
                .or_insert_with_key(|name| envoy.define(kind, name, &names));
            let defined = Defined {
                kind,
                id: id?,
                values,
            };
            // Envoy keeps a value as long as a configuration uses it: this one takes it over from the previous configuration.
            if !matches!(kind, StatKind::Histogram) {
                envoy.add(kind, defined.id, &defined.values, 0);
            }
            Some(defined)
        };
        Self {
            defined: Metric::all().map(define).collect(),
            panics: envoy.define(StatKind::Counter, "edgelink.panics", &[]),
            feed_lag: envoy.define(StatKind::Gauge, "edgelink.feed_lag_milliseconds", &[]),
            record_age: envoy.define(StatKind::Histogram, "edgelink.record_age_milliseconds", &[]),
        }
    }

    /// Passes changes to Envoy.
    pub(crate) fn apply(&self, envoy: Configuration<'_>, changes: MetricChanges) {
        let defined = |metric: Metric| self.defined.get(metric.index())?.as_ref();
        for (metric, by) in changes.added {
            if let Some(defined) = defined(metric) {
                envoy.add(defined.kind, defined.id, &defined.values, by);
            }
        }
        for (metric, value) in changes.recorded {
            if let Some(defined) = defined(metric) {
                envoy.record(defined.id, &defined.values, value);
            }
        }
        if let Some((id, lag)) = self.feed_lag.zip(changes.feed_lag_millis) {
            envoy.set(id, lag);
        }
        if let Some((id, age)) = self.record_age.zip(changes.record_age_millis) {
            envoy.record(id, &[], age);
        }
        let panics = panics::take();
        if let Some(id) = self.panics.filter(|_| panics > 0) {
            let panics = i64::try_from(panics).unwrap_or(i64::MAX);
            envoy.add(StatKind::Counter, id, &[], panics);
        }
    }
}
