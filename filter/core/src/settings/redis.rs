//! The section `redis` of the plugin configuration.

use super::FEED_LRU_BYTES;
use super::written::{RedisFeedSection, RedisMode, RedisSection, Written};
use crate::feed;
use crate::resp::client::{Auth, Mode, Settings};
use crate::resp::scan::Limits;
use edgelink_wire::backoff::Bounds;
use edgelink_wire::record::MAX_URL_LENGTH;
use edgelink_wire::settings::Problems;

/// The most bytes of an answer to a lookup: a target, and 2048 for everything else.
const LOOKUP_REPLY_BYTES: usize = MAX_URL_LENGTH + 2_048;

/// The most bytes of an entry of the feed: a target, and 2048 for everything else.
const FEED_ENTRY_BYTES: usize = MAX_URL_LENGTH + 2_048;

/// The longest string that is read of the feed, in bytes. An entry that is longer than any of this version is none that
/// can be understood, but it is read and passed over: it would come again after every reconnect.
const FEED_STRING_BYTES: u32 = 1 << 20;

/// The least `freshSeconds` with which a feed is allowed, in milliseconds: of one with a beat a second it is known that it was
/// up to date two to three seconds ago. With less, neither the feed nor Redis would ever count.
const FEED_FRESH: u64 = 3_000;

/// How Redis is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redis {
    /// The name of the proxy's cluster that leads to the bridge.
    pub cluster: String,
    /// The connection for lookups.
    pub lookups: Settings,
    /// The reader of the feed; nothing without a feed.
    pub feed: Option<feed::Settings>,
}

impl RedisSection {
    /// Checks what one value does not show.
    pub(super) fn check(&self, all: &Written, problems: &mut Problems) {
        if self.dead_after_millis < self.timeout_millis {
            problems.refuse("redis.deadAfterMs", "must be at least redis.timeoutMs");
        }
        if self.max_backoff_millis < self.backoff_millis {
            problems.refuse("redis.maxBackoffMs", "must be at least redis.backoffMs");
        }
        match (&self.user, &self.password) {
            (_, Some(_)) if self.mode == RedisMode::Pooled && self.feed.is_none() => {
                let must = "must be left out: in mode pooled Envoy authenticates";
                problems.refuse("redis.password", must);
            }
            (_, Some(password)) if password.is_empty() => {
                problems.refuse("redis.password", "must be at least one character long");
            }
            (Some(_), None) => {
                problems.refuse("redis.user", "must be given together with redis.password");
            }
            _ => {}
        }
        if let Some(feed) = &self.feed {
            feed.check(all, problems);
        }
    }

    fn direct(&self, name: String) -> Mode {
        let user = self.user.clone();
        let auth = self.password.clone();
        Mode::Direct {
            auth: auth.map(|password| Auth { user, password }),
            name,
            database: self.database,
        }
    }
}

impl RedisFeedSection {
    fn check(&self, all: &Written, problems: &mut Problems) {
        let fresh = all.fresh_seconds * 1_000;
        if self.block_millis * 2 > fresh {
            problems.refuse("redis.feed.blockMs", "must be at most half of freshSeconds");
        }
        if fresh < FEED_FRESH {
            problems.refuse("freshSeconds", "must be at least 3 with redis.feed");
        }
        if all.lru.max_bytes < FEED_LRU_BYTES {
            problems.refuse("lru.maxBytes", "must be at least 1048576 with redis.feed");
        }
    }
}

impl From<RedisSection> for Redis {
    fn from(section: RedisSection) -> Self {
        let name = section.client_name.0.clone();
        let feed_mode = section.direct(format!("{name}-feed"));
        let lookups = Settings {
            mode: match section.mode {
                RedisMode::Direct => section.direct(name),
                RedisMode::Pooled => Mode::Pooled,
            },
            connect_timeout_ms: section.connect_timeout_millis,
            timeout_ms: section.timeout_millis,
            dead_after_ms: section.dead_after_millis,
            max_waiting: section.max_pending,
            max_unanswered_bytes: section.max_buffered_bytes,
            max_batch: section.max_batch,
            limits: limits(1, LOOKUP_REPLY_BYTES),
            backoff: Bounds {
                first_ms: section.backoff_millis,
                cap_ms: section.max_backoff_millis,
            },
        };
        let feed = section.feed.map(|feed| feed::Settings {
            connection: Settings {
                mode: feed_mode,
                // Its requests wait for the next change, and are not to wait for each other.
                max_batch: 1,
                limits: feed_limits(feed.batch),
                ..lookups.clone()
            },
            block_ms: feed.block_millis,
            batch: feed.batch,
        });
        Self {
            cluster: section.cluster.0,
            lookups,
            feed,
        }
    }
}

/// What a reply with so many parts of so many bytes needs, and `XINFO STREAM`, which has two entries in it.
fn limits(parts: u32, part_bytes: usize) -> Limits {
    let parts = parts.max(2);
    Limits {
        bulk_bytes: u32::try_from(part_bytes).unwrap_or(u32::MAX),
        array_elements: parts.max(64),
        reply_bytes: part_bytes.saturating_mul(usize::try_from(parts).unwrap_or(usize::MAX)),
    }
}

/// The same for entries of the feed, and room for the first and the last one in `XINFO STREAM` to be as long as may be.
fn feed_limits(batch: u32) -> Limits {
    let limits = limits(batch, FEED_ENTRY_BYTES);
    let longest = usize::try_from(FEED_STRING_BYTES).unwrap_or(usize::MAX);
    Limits {
        bulk_bytes: FEED_STRING_BYTES,
        reply_bytes: limits.reply_bytes.saturating_add(longest.saturating_mul(4)),
        ..limits
    }
}

#[cfg(test)]
mod tests;
