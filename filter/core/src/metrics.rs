//! The statistics of the proxy, and the counts that wait for it.
//!
//! Counting happens in the worker's memory and goes to the proxy once a tick, so that a redirect costs no host call
//! for it. At most one tick's counts are lost when the proxy dies; a worker that ends in order flushes first.

mod labels;
mod recent;
mod shares;

pub use labels::{
    BackgroundKind, BackgroundOutcome, CalloutOutcome, ClickOutcome, FeedOutcome, PassedOutcome,
    RedisOutcome, Tier, UnlockOutcome, VisitsOutcome,
};

pub(crate) use recent::RecentRequests;
pub(crate) use shares::Shares;

use edgelink_wire::Outcome;

/// The proxy's statistics.
pub trait Metrics {
    /// Adds to a counter (only upwards) or a gauge.
    fn add(&mut self, metric: Metric, by: i64);

    /// Puts a value into a histogram.
    fn record(&mut self, metric: Metric, value: u64);
}

/// Type of a statistic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// Only grows.
    Counter,
    /// Goes up and down.
    Gauge,
    /// A distribution.
    Histogram,
}

/// Defines the statistics: description, type, labels and name of each.
macro_rules! metrics {
    ($(
        $(#[doc = $help:literal])+
        $kind:ident $metric:ident $(($($label:ident: $values:ident),+))? = $name:literal,
    )+) => {
        /// One of the proxy's statistics.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Metric {
            $($(#[doc = $help])+ $metric $(($($values),+))?,)+
        }

        /// The definitions, in their order.
        enum Definition {
            $($metric,)+
        }

        /// Number of statistics of each definition: one for each combination of its labels.
        const SIZES: &[usize] = &[$(1 $($(* $values::ALL.len())+)?),+];

        impl Metric {
            /// Every statistic, in the order of [`Metric::index`].
            pub fn all() -> impl Iterator<Item = Self> {
                std::iter::empty()$(.chain(metrics!(@each $metric $($($values)+)?)))+
            }

            /// Index of the statistic in a table of all of them.
            #[must_use]
            pub fn index(self) -> usize {
                match self {
                    $(Self::$metric $(($($label),+))? => {
                        const START: usize = size_before(Definition::$metric as usize);
                        START $(+ metrics!(@place $($label $values)+))?
                    })+
                }
            }

            /// Its type.
            #[must_use]
            pub fn kind(self) -> MetricKind {
                match self {
                    $(Self::$metric { .. } => MetricKind::$kind,)+
                }
            }

            /// Its name at the proxy, with only characters that Prometheus accepts once dots have become underscores.
            #[must_use]
            pub fn name(self) -> String {
                let parts = match self {
                    $(Self::$metric $(($($label),+))? => vec!["edgelink", $name, $($($label.name()),+)?],)+
                };
                let parts: Vec<_> = parts.into_iter().filter(|part| !part.is_empty()).collect();
                parts.join(".").replace('-', "_")
            }

            /// Names and values of its labels, for a proxy that supports labels.
            fn labels(self) -> Vec<(&'static str, &'static str)> {
                match self {
                    $(Self::$metric $(($($label),+))? => vec![$($((stringify!($label), $label.name())),+)?],)+
                }
            }
        }
    };
    (@each $metric:ident) => { [Self::$metric] };
    (@each $metric:ident $a:ident) => { $a::ALL.map(Self::$metric) };
    (@each $metric:ident $a:ident $b:ident) => {
        $a::ALL.into_iter().flat_map(|a| $b::ALL.map(|b| Self::$metric(a, b)))
    };
    (@place $a:ident $as:ident) => { $a as usize };
    (@place $a:ident $as:ident $b:ident $bs:ident) => { $a as usize * $bs::ALL.len() + $b as usize };
}

metrics! {
    /// Requests answered, by tier and outcome.
    Counter Requests(tier: Tier, outcome: Outcome) = "requests",
    /// Requests for codes without a link that pass, by the tier that found none.
    Counter Passed(tier: Tier, outcome: PassedOutcome) = "requests",
    /// Callouts, by outcome.
    Counter Callouts(outcome: CalloutOutcome) = "callouts",
    /// Lookups in Redis, by outcome.
    Counter Redis(outcome: RedisOutcome) = "redis",
    /// Messages of the feed, by kind.
    Counter Feed(outcome: FeedOutcome) = "feed",
    /// Attempts to connect to Redis.
    Counter RedisAttempts = "redis_attempts.lookup",
    /// Background callouts, by outcome; named for their purpose.
    Counter Background(kind: BackgroundKind, outcome: BackgroundOutcome) = "",
    /// Clicks, by outcome.
    Counter Clicks(outcome: ClickOutcome) = "clicks",
    /// Requests for visits of limited links, by outcome.
    Counter Visits(outcome: VisitsOutcome) = "visits",
    /// Forms with passwords, by outcome.
    Counter Unlocks(outcome: UnlockOutcome) = "unlocks",
    /// Milliseconds from sending a lookup's callout to its end: the proxy's histograms take whole numbers only.
    Histogram CalloutMillis = "callout_milliseconds",
    /// Entries in the LRUs of all workers.
    Gauge LruEntries = "lru_entries",
    /// Bytes of these entries.
    Gauge LruBytes = "lru_bytes",
    /// Established connections to Redis, of all workers.
    Gauge RedisConnected = "redis_connected.lookup",
    /// Workers where admission is in effect.
    Gauge Admission = "admission",
}

/// A statistic as a proxy with labels knows it; the bootstrap of a proxy without them derives it from [`Metric::name`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Series {
    /// The name, common to all values of the labels.
    pub name: String,
    /// Names and values of the labels.
    pub labels: Vec<(String, String)>,
}

impl From<Metric> for Series {
    fn from(metric: Metric) -> Self {
        let name = metric.name();
        let is_of_connection = matches!(metric, Metric::RedisAttempts | Metric::RedisConnected);
        let mut labels: Vec<_> = metric
            .labels()
            .into_iter()
            // It is part of the name.
            .filter(|(name, _)| *name != "kind")
            .map(|(name, value)| (format!("edgelink_{name}"), value.replace('-', "_")))
            .collect();
        if is_of_connection {
            let connection = name.rsplit('.').next().unwrap_or_default();
            labels.push(("edgelink_connection".to_owned(), connection.to_owned()));
        }
        let mut parts: Vec<_> = name.split('.').collect();
        parts.truncate(parts.len() - labels.len());
        Self {
            name: parts.join("."),
            labels,
        }
    }
}

/// Number of statistics of the first `count` definitions.
#[allow(
    clippy::indexing_slicing,
    reason = "evaluated by the compiler: out of bounds would not build"
)]
const fn size_before(count: usize) -> usize {
    let (mut size, mut place) = (0, 0);
    while place < count {
        size += SIZES[place];
        place += 1;
    }
    size
}

/// Number of statistics.
const METRICS: usize = size_before(SIZES.len());

/// The gauges, in the order in which [`Levels`] has them.
const GAUGES: [Metric; 4] = [
    Metric::LruEntries,
    Metric::LruBytes,
    Metric::RedisConnected,
    Metric::Admission,
];

/// Contribution of a worker to the gauges, which are sums over all workers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Levels([usize; GAUGES.len()]);

impl Levels {
    /// The levels that `level` gives for each gauge.
    pub(crate) fn of(level: impl FnMut(Metric) -> usize) -> Self {
        Self(GAUGES.map(level))
    }

    fn all(&self) -> impl Iterator<Item = (Metric, i64)> {
        let levels = self.0.map(|level| i64::try_from(level).unwrap_or(i64::MAX));
        GAUGES.into_iter().zip(levels)
    }
}

/// Counts that wait for the next tick.
#[derive(Debug)]
pub(crate) struct Counts {
    waiting: [u32; METRICS],
    flushed: Levels,
}

impl Default for Counts {
    fn default() -> Self {
        Self {
            waiting: [0; METRICS],
            flushed: Levels::default(),
        }
    }
}

impl Counts {
    /// Counts one more.
    pub(crate) fn count(&mut self, metric: Metric) {
        self.count_more(metric, 1);
    }

    /// Counts `by` more.
    pub(crate) fn count_more(&mut self, metric: Metric, by: u32) {
        if let Some(count) = self.waiting.get_mut(metric.index()) {
            *count = count.saturating_add(by);
        }
    }

    /// Takes over the counts of another thread.
    pub(crate) fn take_over(&mut self, other: &mut Self) {
        for (count, other) in self.waiting.iter_mut().zip(&mut other.waiting) {
            *count = count.saturating_add(std::mem::take(other));
        }
    }

    /// Requests of a tier that wait for the next flush, whatever their outcome.
    fn requests(&self, tier: Tier) -> u32 {
        let answered = Outcome::ALL.map(|outcome| Metric::Requests(tier, outcome));
        let passed = Metric::Passed(tier, PassedOutcome::Passed);
        let all = answered.into_iter().chain([passed]).map(Metric::index);
        let waiting = all.filter_map(|place| self.waiting.get(place));
        waiting.fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// Levels of this worker that are in the gauges.
    pub(crate) fn flushed(&mut self) -> &mut Levels {
        &mut self.flushed
    }

    /// Hands all counts over, and for the gauges the difference from the last flush.
    pub(crate) fn flush(&mut self, levels: Levels, to: &mut impl Metrics) {
        for (metric, count) in Metric::all().zip(&mut self.waiting) {
            if *count > 0 {
                to.add(metric, i64::from(std::mem::take(count)));
            }
        }
        let before = std::mem::replace(&mut self.flushed, levels);
        for ((metric, before), (_, now)) in before.all().zip(levels.all()) {
            if before != now {
                to.add(metric, now.saturating_sub(before));
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
    fn metric_when_listed_has_its_own_index_and_name() {
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
    fn gauge_when_listed_has_a_level() {
        let is_gauge = |metric: &Metric| metric.kind() == MetricKind::Gauge;
        let gauges: Vec<_> = Metric::all().filter(is_gauge).collect();
        assert_eq!(gauges, GAUGES);
    }

    #[test]
    fn metric_when_listed_is_in_the_reference() {
        let reference =
            include_str!("../../../control-plane/book/docs/reference/filter-metrics.md");
        for metric in Metric::all() {
            let name = metric.name();
            let mut parts = name.split('.').skip(1);
            let base = format!("`edgelink_{}`", parts.next().unwrap());
            let is_about = |line: &&str| {
                line.split('|')
                    .nth(1)
                    .is_some_and(|cell| cell.contains(&base))
            };
            let row = reference.lines().find(is_about);
            let row = row.unwrap_or_else(|| panic!("{name}"));
            assert!(parts.all(|value| row.contains(value)), "{name}: {row}");
        }
    }

    #[test]
    fn counter_when_listed_is_a_tag_of_the_bootstrap() {
        let bootstrap = include_str!("../../../envoy/bootstrap.yaml");
        let tags = bootstrap.lines().find(|line| line.contains("|callouts|"));
        let tags = tags.unwrap();
        for metric in Metric::all().filter(|metric| metric.kind() == MetricKind::Counter) {
            let name = metric.name();
            let base = name.split('.').nth(1).unwrap();
            let is_tagged = tags.split(['|', '(', ')', ':']).any(|tag| tag == base);
            let is_with_tier = base == "requests" || base == "redis_attempts";
            assert!(is_tagged || is_with_tier, "{name}");
        }
    }

    #[test]
    fn metric_when_split_into_labels_keeps_its_name() {
        let series = |metric: Metric| {
            let Series { name, labels } = metric.into();
            let labels: Vec<_> = labels
                .into_iter()
                .map(|(name, value)| format!("{name}={value}"))
                .collect();
            format!("{name}{{{}}}", labels.join(","))
        };
        for (metric, expected) in [
            (
                Metric::Requests(Tier::ControlPlane, Outcome::Redirect),
                "edgelink.requests{edgelink_tier=control_plane,edgelink_outcome=redirect}",
            ),
            (
                Metric::Background(BackgroundKind::Poll, BackgroundOutcome::Ok),
                "edgelink.poll{edgelink_outcome=ok}",
            ),
            (
                Metric::RedisAttempts,
                "edgelink.redis_attempts{edgelink_connection=lookup}",
            ),
            (Metric::LruBytes, "edgelink.lru_bytes{}"),
        ] {
            assert_eq!(series(metric), expected);
        }
        for metric in Metric::all() {
            let Series { name, labels } = metric.into();
            let values = labels.into_iter().map(|(_, value)| value);
            let parts: Vec<_> = [name].into_iter().chain(values).collect();
            assert_eq!(parts.join("."), metric.name());
        }
    }

    #[test]
    fn counts_when_flushed_are_handed_over_once() {
        let mut counts = Counts::default();
        let mut stats = Stats::default();
        let redirect = Metric::Requests(Tier::Lru, Outcome::Redirect);
        counts.count(redirect);
        counts.count(redirect);
        counts.count(Metric::Callouts(CalloutOutcome::Rejected));
        counts.count_more(Metric::RedisAttempts, 3);
        for level in [3, 2] {
            let levels = Levels::of(|gauge| match gauge {
                Metric::LruEntries => level,
                Metric::LruBytes => level * 100,
                Metric::RedisConnected => 1,
                _ => 0,
            });
            counts.flush(levels, &mut stats);
        }
        let value = |name: &str| stats.0.get(name).copied();
        assert_eq!(value("edgelink.requests.lru.redirect"), Some(2));
        assert_eq!(value("edgelink.callouts.rejected"), Some(1));
        assert_eq!(value("edgelink.lru_entries"), Some(2));
        assert_eq!(value("edgelink.lru_bytes"), Some(200));
        assert_eq!(value("edgelink.redis_attempts.lookup"), Some(3));
        assert_eq!(value("edgelink.redis_connected.lookup"), Some(1));
        assert_eq!(stats.0.len(), 6);
    }
}
