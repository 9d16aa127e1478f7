//! Redis.

use super::error::Checks;
use super::{FeedConfig, Secret};
use crate::redis::RedisOptions;
use serde::Deserialize;
use std::time::Duration;

/// Redis, which all control planes of a deployment share.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "a section")]
pub struct RedisConfig {
    /// `redis://user:password@host:port`, `redis-sentinel://host:port?sentinelServiceName=name&node=host:port` or
    /// `redis-cluster://host:port?node=host:port`; `rediss` instead of `redis` for TLS. Default none: this process is the
    /// only control plane, and links are cached in it alone.
    pub url: Option<Secret>,
    /// How long one command of a lookup may take, in milliseconds, 10 to 10,000. Default 100. What takes longer is given up,
    /// and the database asked instead; keep it well below the time that an edge waits for the control plane.
    pub timeout_ms: u64,
}

impl Default for RedisConfig {
    fn default() -> Self {
        Self {
            url: None,
            timeout_ms: 100,
        }
    }
}

const SCHEMES: &[&str] = &[
    "redis://",
    "rediss://",
    "redis-sentinel://",
    "rediss-sentinel://",
    "redis-cluster://",
    "rediss-cluster://",
];

impl RedisConfig {
    pub(super) fn check(&self, checks: &mut Checks) {
        let url = self.url.as_ref().map(Secret::expose);
        if url.is_some_and(|url| !SCHEMES.iter().any(|scheme| url.starts_with(scheme))) {
            checks.refuse(
                "redis.url",
                "must start with 'redis://', 'redis-sentinel://' or 'redis-cluster://', or the same with 'rediss'",
            );
        }
        checks.range("redis.timeout_ms", self.timeout_ms, &(10..=10_000));
    }

    /// How Redis is reached, where there is one.
    pub(crate) fn options(&self, feed: &FeedConfig) -> Option<RedisOptions> {
        Some(RedisOptions {
            url: self.url.as_ref()?.expose().to_owned(),
            timeout: Duration::from_millis(self.timeout_ms),
            feed_length: feed.stream_length,
            feed_bytes: feed.stream_bytes,
        })
    }
}
