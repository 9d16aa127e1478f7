//! What is counted.
//!
//! Counting happens in the worker's memory and goes to the proxy once a tick, so that a redirect costs no host call
//! for it. At most one tick's counts are lost when the proxy dies; a worker that ends in order flushes first.

mod outcomes;
mod shares;

pub use outcomes::{
    CalloutOutcome, ClickOutcome, Connection, ErrandOutcome, FeedOutcome, Outcome, RedisOutcome,
    Tier,
};

pub(crate) use shares::Shares;

use crate::background::ErrandKind;
use crate::host::Metrics;

/// One of the proxy's statistics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    /// Requests answered, by tier and outcome.
    Requests(Tier, Outcome),
    /// Callouts, by outcome.
    Callouts(CalloutOutcome),
    /// Lookups in Redis, by outcome.
    Redis(RedisOutcome),
    /// Messages of the feed, by what they told.
    Feed(FeedOutcome),
    /// Attempts to connect to Redis.
    Attempts(Connection),
    /// Errands, by outcome.
    Errands(ErrandKind, ErrandOutcome),
    /// Clicks, by what became of them.
    Clicks(ClickOutcome),
    /// Milliseconds from sending a lookup's callout to its end.
    CalloutMillis,
    /// Entries in the LRUs of all workers.
    LruEntries,
    /// Bytes of them.
    LruBytes,
    /// Connections to Redis that stand, of all workers.
    Connected(Connection),
    /// Workers where admission is in effect.
    Admission,
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
            .chain(RedisOutcome::ALL.map(Self::Redis))
            .chain(FeedOutcome::ALL.map(Self::Feed))
            .chain(Connection::ALL.map(Self::Attempts))
            .chain(
                ErrandKind::ALL.into_iter().flat_map(|kind| {
                    ErrandOutcome::ALL.map(|outcome| Self::Errands(kind, outcome))
                }),
            )
            .chain(ClickOutcome::ALL.map(Self::Clicks))
            .chain([Self::CalloutMillis, Self::LruEntries, Self::LruBytes])
            .chain(Connection::ALL.map(Self::Connected))
            .chain([Self::Admission])
    }

    /// The place of the statistic in a table of all of them, counters first.
    #[must_use]
    pub fn index(self) -> usize {
        match self {
            Self::Requests(tier, outcome) => tier as usize * Outcome::ALL.len() + outcome as usize,
            Self::Callouts(outcome) => CALLOUTS + outcome as usize,
            Self::Redis(outcome) => REDIS + outcome as usize,
            Self::Feed(outcome) => FEED + outcome as usize,
            Self::Attempts(connection) => ATTEMPTS + connection as usize,
            Self::Errands(kind, outcome) => {
                ERRANDS + kind as usize * ErrandOutcome::ALL.len() + outcome as usize
            }
            Self::Clicks(outcome) => CLICKS + outcome as usize,
            Self::CalloutMillis => COUNTERS,
            Self::LruEntries => COUNTERS + 1,
            Self::LruBytes => COUNTERS + 2,
            Self::Connected(connection) => COUNTERS + 3 + connection as usize,
            Self::Admission => COUNTERS + 3 + Connection::ALL.len(),
        }
    }

    /// How it behaves.
    #[must_use]
    pub fn kind(self) -> MetricKind {
        match self {
            Self::Requests(..)
            | Self::Callouts(_)
            | Self::Redis(_)
            | Self::Feed(_)
            | Self::Attempts(_)
            | Self::Errands(..)
            | Self::Clicks(_) => MetricKind::Counter,
            Self::CalloutMillis => MetricKind::Histogram,
            Self::LruEntries | Self::LruBytes | Self::Connected(_) | Self::Admission => {
                MetricKind::Gauge
            }
        }
    }

    /// Its name at the proxy, with characters only that Prometheus takes once dots have become underscores.
    #[must_use]
    pub fn name(self) -> String {
        match self {
            Self::Requests(tier, outcome) => {
                let tier = tier.name().replace('-', "_");
                format!("edgelink.requests.{tier}.{}", outcome.name())
            }
            Self::Callouts(outcome) => format!("edgelink.callouts.{}", outcome.name()),
            Self::Redis(outcome) => format!("edgelink.redis.{}", outcome.name()),
            Self::Feed(outcome) => format!("edgelink.feed.{}", outcome.name()),
            Self::Attempts(connection) => format!("edgelink.redis_attempts.{}", connection.name()),
            Self::Connected(connection) => {
                format!("edgelink.redis_connected.{}", connection.name())
            }
            Self::Errands(kind, outcome) => {
                format!("edgelink.{}.{}", kind.name(), outcome.name())
            }
            Self::Clicks(outcome) => format!("edgelink.clicks.{}", outcome.name()),
            Self::Admission => "edgelink.admission".to_owned(),
            Self::CalloutMillis => "edgelink.callout_ms".to_owned(),
            Self::LruEntries => "edgelink.lru_entries".to_owned(),
            Self::LruBytes => "edgelink.lru_bytes".to_owned(),
        }
    }
}

// Where the counters of each kind begin in the table.
const CALLOUTS: usize = Tier::ALL.len() * Outcome::ALL.len();
const REDIS: usize = CALLOUTS + CalloutOutcome::ALL.len();
const FEED: usize = REDIS + RedisOutcome::ALL.len();
const ATTEMPTS: usize = FEED + FeedOutcome::ALL.len();
const ERRANDS: usize = ATTEMPTS + Connection::ALL.len();
const CLICKS: usize = ERRANDS + ErrandKind::ALL.len() * ErrandOutcome::ALL.len();
const COUNTERS: usize = CLICKS + ClickOutcome::ALL.len();

/// What a worker contributes to the gauges, which are those of all workers together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Levels {
    pub(crate) lru_entries: usize,
    pub(crate) lru_bytes: usize,
    pub(crate) lookup_connections: usize,
    pub(crate) feed_connections: usize,
    pub(crate) admission: usize,
}

impl Levels {
    const COUNT: usize = 5;

    /// The reverse of [`Self::all`].
    fn from_all(levels: [usize; Self::COUNT]) -> Self {
        let [
            lru_entries,
            lru_bytes,
            lookup_connections,
            feed_connections,
            admission,
        ] = levels;
        Self {
            lru_entries,
            lru_bytes,
            lookup_connections,
            feed_connections,
            admission,
        }
    }

    fn all(&self) -> [(Metric, usize); Self::COUNT] {
        [
            (Metric::LruEntries, self.lru_entries),
            (Metric::LruBytes, self.lru_bytes),
            (
                Metric::Connected(Connection::Lookup),
                self.lookup_connections,
            ),
            (Metric::Connected(Connection::Feed), self.feed_connections),
            (Metric::Admission, self.admission),
        ]
    }
}

/// Counts that wait for the next tick.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    waiting: Waiting,
    told: Levels,
}

#[derive(Debug)]
struct Waiting([u32; COUNTERS]);

impl Default for Waiting {
    fn default() -> Self {
        Self([0; COUNTERS])
    }
}

impl Counts {
    /// Counts one more.
    pub(crate) fn count(&mut self, metric: Metric) {
        self.count_more(metric, 1);
    }

    /// Counts so many more.
    pub(crate) fn count_more(&mut self, metric: Metric, by: u32) {
        if let Some(count) = self.waiting.0.get_mut(metric.index()) {
            *count = count.saturating_add(by);
        }
    }

    /// What the gauges have of this worker.
    pub(crate) fn told(&mut self) -> &mut Levels {
        &mut self.told
    }

    /// Hands everything over: of the gauges what has changed since they were told last.
    pub(crate) fn flush(&mut self, levels: Levels, to: &mut impl Metrics) {
        for (metric, count) in Metric::all().zip(&mut self.waiting.0) {
            if *count > 0 {
                to.add(metric, i64::from(std::mem::take(count)));
            }
        }
        let before = std::mem::replace(&mut self.told, levels);
        for ((metric, told), (_, is)) in before.all().into_iter().zip(levels.all()) {
            let [told, is] = [told, is].map(|level| i64::try_from(level).unwrap_or(i64::MAX));
            if told != is {
                to.add(metric, is.saturating_sub(told));
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
    fn every_statistic_is_in_the_readme() {
        let readme = include_str!("../../README.md");
        for metric in Metric::all() {
            let name = metric.name();
            let mut parts = name.split('.').skip(1);
            let base = format!("`edgelink_{}`", parts.next().unwrap());
            let is_about = |line: &&str| {
                line.split('|')
                    .nth(1)
                    .is_some_and(|cell| cell.contains(&base))
            };
            let row = readme.lines().find(is_about);
            let row = row.unwrap_or_else(|| panic!("{name}"));
            assert!(parts.all(|value| row.contains(value)), "{name}: {row}");
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
        counts.count_more(Metric::Attempts(Connection::Feed), 3);
        for level in [3, 2] {
            let levels = Levels {
                lru_entries: level,
                lru_bytes: level * 100,
                feed_connections: 1,
                ..Levels::default()
            };
            counts.flush(levels, &mut stats);
        }
        let told = |name: &str| stats.0.get(name).copied();
        assert_eq!(told("edgelink.requests.lru.redirect"), Some(2));
        assert_eq!(told("edgelink.callouts.rejected"), Some(1));
        assert_eq!(told("edgelink.lru_entries"), Some(2));
        assert_eq!(told("edgelink.lru_bytes"), Some(200));
        assert_eq!(told("edgelink.redis_attempts.feed"), Some(3));
        assert_eq!(told("edgelink.redis_connected.feed"), Some(1));
        assert_eq!(stats.0.len(), 6);
    }
}
