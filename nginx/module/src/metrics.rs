//! SharedMetrics of all workers, in memory that they share and that outlives reloads, and their text for Prometheus.
//!
//! Workers add to counters and histograms with each tick. A gauge is a sum over the workers that live: each has a row of its own,
//! which counts only while its process is there.

use edgelink_filter_core::metrics::{ClickOutcome, Metric, MetricKind, Series};
use edgelink_process::metrics::MetricChanges;
use edgelink_process::panics;
use std::fmt::Write;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

/// Counters and gauges that there is room for, by [`Metric::index`].
const METRICS: usize = 512;

/// Workers that may have a row at once, those that end after a reload included.
const ROWS: usize = 1_024;

/// Gauges of a row; [`Metric`] has four.
const GAUGES: usize = 4;

/// Upper bounds of the buckets of histograms in milliseconds, as Envoy has them.
const BUCKETS: [u64; 18] = [
    1, 5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000, 60_000, 300_000, 600_000,
    1_800_000, 3_600_000,
];

/// The metrics of all workers. Memory of zeros is a valid one.
#[repr(C)]
pub(crate) struct SharedMetrics {
    counters: [AtomicU64; METRICS],
    panics: AtomicU64,
    callouts: Histogram,
    record_ages: Histogram,
    rows: [WorkerGauges; ROWS],
}

/// The gauges of a worker.
#[repr(C, align(64))]
pub(crate) struct WorkerGauges {
    /// The process; 0 without one.
    process: AtomicU64,
    /// Requests that wait.
    waiting: AtomicI64,
    feed_lag_millis: AtomicU64,
    gauges: [AtomicI64; GAUGES],
}

#[repr(C)]
struct Histogram {
    /// Values up to the bound of each bucket and above the previous one; the last is of values above all bounds.
    buckets: [AtomicU64; BUCKETS.len() + 1],
    sum: AtomicU64,
}

impl Histogram {
    fn record(&self, value: u64) {
        let place = BUCKETS.partition_point(|bound| *bound < value);
        if let Some(bucket) = self.buckets.get(place) {
            bucket.fetch_add(1, Ordering::Relaxed);
        }
        self.sum.fetch_add(value, Ordering::Relaxed);
    }

    fn write(&self, name: &str, text: &mut String) {
        let mut count = 0;
        let _infallible = writeln!(text, "# TYPE {name} histogram");
        let bounds = BUCKETS.iter().map(u64::to_string);
        for (bucket, bound) in self.buckets.iter().zip(bounds.chain(["+Inf".to_owned()])) {
            count += bucket.load(Ordering::Relaxed);
            let _infallible = writeln!(text, "{name}_bucket{{le=\"{bound}\"}} {count}");
        }
        let sum = self.sum.load(Ordering::Relaxed);
        let _infallible = writeln!(text, "{name}_sum {sum}\n{name}_count {count}");
    }
}

impl WorkerGauges {
    /// Sets the number of requests that wait.
    pub(crate) fn set_waiting(&self, count: usize) {
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        self.waiting.store(count, Ordering::Relaxed);
    }

    fn clear(&self) {
        self.waiting.store(0, Ordering::Relaxed);
        self.feed_lag_millis.store(0, Ordering::Relaxed);
        self.gauges
            .iter()
            .for_each(|gauge| gauge.store(0, Ordering::Relaxed));
    }

    fn gauge(&self, metric: Metric) -> Option<&AtomicI64> {
        let place = match metric {
            Metric::LruEntries => 0,
            Metric::LruBytes => 1,
            Metric::RedisConnected => 2,
            Metric::Admission => 3,
            _ => return None,
        };
        self.gauges.get(place)
    }
}

/// The clicks that a worker has counted and of which the control plane has not heard, nor will it not.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Unreported(i64);

impl Unreported {
    /// True if there are any.
    pub(crate) fn is_some(self) -> bool {
        self.0 > 0
    }

    fn note(&mut self, metric: Metric, by: i64) {
        match metric {
            Metric::Clicks(ClickOutcome::Sent) => self.0 += by,
            Metric::Clicks(ClickOutcome::Acknowledged | ClickOutcome::Dropped) => self.0 -= by,
            _ => {}
        }
    }
}

impl SharedMetrics {
    /// Takes a row for a worker: a free one, or that of a process that is gone. `None` if all are taken.
    pub(crate) fn take_row(
        &self,
        process: u64,
        is_alive: impl Fn(u64) -> bool,
    ) -> Option<&WorkerGauges> {
        self.rows.iter().find(|row| {
            let holder = row.process.load(Ordering::Acquire);
            if holder != 0 && holder != process && is_alive(holder) {
                return false;
            }
            let (acquired, missed) = (Ordering::AcqRel, Ordering::Relaxed);
            let is_taken = row
                .process
                .compare_exchange(holder, process, acquired, missed)
                .is_ok();
            if is_taken {
                row.clear();
            }
            is_taken
        })
    }

    /// Gives the row of a worker back.
    pub(crate) fn give_back(row: &WorkerGauges) {
        row.clear();
        row.process.store(0, Ordering::Release);
    }

    /// Adds what has changed in a worker.
    pub(crate) fn add(
        &self,
        row: Option<&WorkerGauges>,
        changes: MetricChanges,
        clicks: &mut Unreported,
    ) {
        for (metric, by) in changes.added {
            clicks.note(metric, by);
            match metric.kind() {
                MetricKind::Gauge => {
                    if let Some(gauge) = row.and_then(|row| row.gauge(metric)) {
                        gauge.fetch_add(by, Ordering::Relaxed);
                    }
                }
                _ => {
                    if let Some(counter) = self.counters.get(metric.index()) {
                        counter.fetch_add(by.unsigned_abs(), Ordering::Relaxed);
                    }
                }
            }
        }
        for (metric, value) in changes.recorded {
            if metric == Metric::CalloutMillis {
                self.callouts.record(value);
            }
        }
        if let Some((row, lag)) = row.zip(changes.feed_lag_millis) {
            row.feed_lag_millis.store(lag, Ordering::Relaxed);
        }
        if let Some(age) = changes.record_age_millis {
            self.record_ages.record(age);
        }
        self.panics.fetch_add(panics::take(), Ordering::Relaxed);
    }

    /// The text for Prometheus, with the names that Envoy has.
    pub(crate) fn text(&self, is_alive: impl Fn(u64) -> bool) -> String {
        let mut text = String::with_capacity(16 << 10);
        let rows: Vec<_> = self
            .rows
            .iter()
            .filter(|row| {
                let process = row.process.load(Ordering::Acquire);
                process != 0 && is_alive(process)
            })
            .collect();
        let mut last = String::new();
        for metric in Metric::all() {
            let value = match metric.kind() {
                MetricKind::Histogram => {
                    self.callouts.write(&plain(&metric.name()), &mut text);
                    continue;
                }
                MetricKind::Gauge => {
                    let gauges = rows.iter().filter_map(|row| row.gauge(metric));
                    let sum: i64 = gauges.map(|gauge| gauge.load(Ordering::Relaxed)).sum();
                    sum.max(0).unsigned_abs()
                }
                MetricKind::Counter => self
                    .counters
                    .get(metric.index())
                    .map_or(0, |counter| counter.load(Ordering::Relaxed)),
            };
            let Series { name, labels } = metric.into();
            let name = plain(&name);
            if name != last {
                write_type(&name, metric.kind(), &mut text);
                last.clone_from(&name);
            }
            let labels: Vec<_> = labels
                .iter()
                .map(|(label, value)| format!("{label}=\"{value}\""))
                .collect();
            let labels = match labels.as_slice() {
                [] => String::new(),
                labels => format!("{{{}}}", labels.join(",")),
            };
            let _infallible = writeln!(text, "{name}{labels} {value}");
        }
        self.record_ages
            .write("edgelink_record_age_milliseconds", &mut text);
        let lags = rows.iter().map(|row| &row.feed_lag_millis);
        let lag = lags.map(|lag| lag.load(Ordering::Relaxed)).max();
        let waiting = rows.iter().map(|row| row.waiting.load(Ordering::Relaxed));
        let waiting = waiting.sum::<i64>().max(0).unsigned_abs();
        let panics = self.panics.load(Ordering::Relaxed);
        for (name, kind, value) in [
            ("edgelink_panics", MetricKind::Counter, panics),
            (
                "edgelink_feed_lag_milliseconds",
                MetricKind::Gauge,
                lag.unwrap_or_default(),
            ),
            ("edgelink_waiting_requests", MetricKind::Gauge, waiting),
            ("edgelink_workers", MetricKind::Gauge, rows.len() as u64),
        ] {
            write_type(name, kind, &mut text);
            let _infallible = writeln!(text, "{name} {value}");
        }
        text
    }
}

fn plain(name: &str) -> String {
    name.replace('.', "_")
}

fn write_type(name: &str, kind: MetricKind, text: &mut String) {
    let kind = match kind {
        MetricKind::Counter => "counter",
        MetricKind::Gauge => "gauge",
        MetricKind::Histogram => "histogram",
    };
    let _infallible = writeln!(text, "# TYPE {name} {kind}");
}
