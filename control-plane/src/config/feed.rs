//! The feed of changes.

use super::RelayConfig;
use super::error::Checks;
use crate::feed::RingLimits;
use serde::Deserialize;
use std::time::Duration;

/// The feed of changes that edges follow.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "a section")]
pub struct FeedConfig {
    /// About how many changes the stream in Redis keeps, 1,000 to 10,000,000. Default 100,000. An edge that was away for
    /// longer drops its caches and starts anew.
    pub stream_length: u64,
    /// About how many bytes the stream in Redis takes, 1,048,576 to 1,099,511,627,776. Default 67,108,864. It is cut to that
    /// before it grows, so that long targets do not fill Redis.
    pub stream_bytes: u64,
    /// Up to which age the feed is current, in milliseconds, 1,000 to 5,000, and at least twice `relay.heartbeat_ms`. Default
    /// 4,000. What is cached counts while it is; with an older feed the database is asked for every link, and edges that
    /// poll are sent to another control plane.
    pub max_age_ms: u64,
    /// How many changes each control plane keeps for edges that poll, 100 to 10,000,000. Default 65,536.
    pub entries: usize,
    /// How many bytes of changes each control plane keeps for edges that poll, 65,536 to 4,294,967,296. Default 33,554,432.
    pub bytes: usize,
    /// For how long a poll may wait for a change, in milliseconds, 100 to 60,000. Default 30,000. Who asks for more waits for
    /// that long.
    pub max_wait_ms: u64,
    /// How many polls may wait at once, 1 to 1,000,000. Default 4,096. Further ones are answered 503 at once.
    pub max_polls: usize,
    /// For how long the creation of an alias, a change or a deletion waits until the feed has told of it, in milliseconds, 0 to
    /// 10,000. Default 500. Answered earlier, the alias may be 404 at edges for a moment, and what was changed be as before.
    pub alias_wait_ms: u64,
    /// For how much longer it waits then, so that edges have heard of it, in milliseconds, 0 to 10,000. Default 25.
    pub alias_settle_ms: u64,
}

impl Default for FeedConfig {
    fn default() -> Self {
        Self {
            stream_length: 100_000,
            stream_bytes: 67_108_864,
            max_age_ms: 4_000,
            entries: 65_536,
            bytes: 33_554_432,
            max_wait_ms: 30_000,
            max_polls: 4_096,
            alias_wait_ms: 500,
            alias_settle_ms: 25,
        }
    }
}

impl FeedConfig {
    pub(super) fn check(&self, relay: &RelayConfig, checks: &mut Checks) {
        checks.range(
            "feed.stream_length",
            self.stream_length,
            &(1_000..=10_000_000),
        );
        checks.range(
            "feed.stream_bytes",
            self.stream_bytes,
            &(1_048_576..=1_099_511_627_776),
        );
        checks.range("feed.max_age_ms", self.max_age_ms, &(1_000..=5_000));
        if self.max_age_ms < relay.heartbeat_ms.saturating_mul(2) {
            checks.refuse(
                "feed.max_age_ms",
                "must be at least twice relay.heartbeat_ms: one beat that is late would make the feed too old",
            );
        }
        checks.range("feed.entries", self.entries, &(100..=10_000_000));
        checks.range("feed.bytes", self.bytes, &(65_536..=4_294_967_296));
        checks.range("feed.max_wait_ms", self.max_wait_ms, &(100..=60_000));
        checks.range("feed.max_polls", self.max_polls, &(1..=1_000_000));
        checks.range("feed.alias_wait_ms", self.alias_wait_ms, &(0..=10_000));
        checks.range("feed.alias_settle_ms", self.alias_settle_ms, &(0..=10_000));
    }

    pub(crate) fn limits(&self) -> RingLimits {
        RingLimits {
            entries: self.entries,
            bytes: self.bytes,
        }
    }

    pub(crate) fn max_age(&self) -> Duration {
        Duration::from_millis(self.max_age_ms)
    }

    pub(crate) fn max_wait(&self) -> Duration {
        Duration::from_millis(self.max_wait_ms)
    }
    pub(crate) fn alias_wait(&self) -> Duration {
        Duration::from_millis(self.alias_wait_ms)
    }

    pub(crate) fn alias_settle(&self) -> Duration {
        Duration::from_millis(self.alias_settle_ms)
    }
}
