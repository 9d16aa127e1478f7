//! How links are resolved.

use super::error::Checks;
use crate::resolve::{MemoryOptions, ResolveOptions};
use serde::Deserialize;
use std::time::Duration;

/// How links are resolved for edges and visitors.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "a section")]
pub struct ResolveConfig {
    /// How many bytes of links are kept in this process, 0 to 17,179,869,184. Default 67,108,864.
    pub cache_bytes: u64,
    /// For how long a link is kept in this process at most, in milliseconds, 1 to 60,000. Default 1,000. The feed replaces
    /// what has changed at once; this is the age that a link has where the feed says nothing and nobody notices.
    pub cache_ms: u64,
    /// For how long one control plane may look a link up while the others wait, in milliseconds, 100 to 60,000. Default
    /// 3,000. Keep it above the time that the database may take.
    pub lock_ms: u64,
    /// For how long a control plane waits for the lookup of another one before it asks the database itself, in milliseconds,
    /// 10 to 10,000. Default 300. Keep it below the time that an edge waits.
    pub lock_wait_ms: u64,
    /// How many lookups of the database may be under way at once, 1 to 1,000. Default 12: a few connections stay for
    /// everything else.
    pub max_lookups: usize,
}

impl Default for ResolveConfig {
    fn default() -> Self {
        Self {
            cache_bytes: 67_108_864,
            cache_ms: 1_000,
            lock_ms: 3_000,
            lock_wait_ms: 300,
            max_lookups: 12,
        }
    }
}

impl ResolveConfig {
    pub(super) fn check(&self, checks: &mut Checks) {
        checks.range(
            "resolve.cache_bytes",
            self.cache_bytes,
            &(0..=17_179_869_184),
        );
        checks.range("resolve.cache_ms", self.cache_ms, &(1..=60_000));
        checks.range("resolve.lock_ms", self.lock_ms, &(100..=60_000));
        checks.range("resolve.lock_wait_ms", self.lock_wait_ms, &(10..=10_000));
        checks.range("resolve.max_lookups", self.max_lookups, &(1..=1_000));
    }

    pub(crate) fn options(&self) -> ResolveOptions {
        ResolveOptions {
            memory: MemoryOptions {
                bytes: self.cache_bytes,
                time: Duration::from_millis(self.cache_ms),
            },
            lock: Duration::from_millis(self.lock_ms),
            lock_wait: Duration::from_millis(self.lock_wait_ms),
            max_lookups: self.max_lookups,
        }
    }
}
