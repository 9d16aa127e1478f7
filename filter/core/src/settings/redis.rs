//! The section `redis` of the plugin configuration.

use super::{SettingsError, header_value, within, wrong};
use crate::cache::freshness::Lifetimes;
use crate::feed;
use crate::resp::client::{Auth, Mode, Settings};
use crate::resp::scan::Limits;
use edgelink_wire::backoff::Bounds;
use edgelink_wire::record::MAX_URL_LENGTH;
use serde::Deserialize;

/// The most bytes of an answer to a lookup: a target, and 2048 for everything else.
const LOOKUP_REPLY_BYTES: usize = MAX_URL_LENGTH + 2_048;

/// The most bytes of an entry of the feed: a target, and 2048 for everything else.
const FEED_ENTRY_BYTES: usize = MAX_URL_LENGTH + 2_048;

/// The longest string that is read of the feed, in bytes. An entry that is longer than any of this version is none that
/// can be understood, but it is read and passed over: it would come again after every reconnect.
const FEED_STRING_BYTES: u32 = 1 << 20;

/// The smallest LRU with which a feed is allowed, in bytes: it has to remember the changes of the last seconds.
pub(super) const FEED_LRU_BYTES: u64 = 1 << 20;

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

/// The section as it is written.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Raw {
    /// `direct`: a Redis server at the other end of the bridge. `pooled`: Envoy's `redis_proxy`, which knows Redis
    /// Cluster and authenticates itself. Required.
    mode: RawMode,
    /// The name of the cluster that leads to the bridge's listener; default `resp_bridge`.
    #[serde(default = "cluster")]
    cluster: String,
    /// The ACL user; default: Redis's own default user. Only with `password`.
    user: Option<String>,
    /// The password; default none. Not with `pooled` and no feed, where nobody would be told.
    password: Option<String>,
    /// The database of lookups and feed, 0 to 65535; default 0. Redis Cluster has only 0.
    #[serde(default)]
    database: u64,
    /// What `CLIENT LIST` shows; default `edgelink`. The feed's connection has `-feed` behind it.
    #[serde(default = "client_name")]
    client_name: String,
    /// Milliseconds for connecting, AUTH and the like, 10 to 60000; default 500.
    #[serde(default = "five_hundred")]
    connect_timeout_ms: u64,
    /// Milliseconds for a lookup, 1 to 60000; default 150. Then the control plane is asked. As fine as the ticks are.
    #[serde(default = "one_hundred_and_fifty")]
    timeout_ms: u64,
    /// Milliseconds after which a connection that answers nothing is closed, `timeoutMs` to 60000; default 1000. Until
    /// then, every lookup waits for its timeout in vain.
    #[serde(default = "one_thousand")]
    dead_after_ms: u64,
    /// Lookups in flight a worker, 1 to 100000; default 1024. Further ones go to the control plane.
    #[serde(default = "max_pending")]
    max_pending: u64,
    /// Bytes of lookups in flight a worker, 1024 to 67108864; default 1048576.
    #[serde(default = "max_buffered_bytes")]
    max_buffered_bytes: u64,
    /// Lookups that are gathered while others are unanswered and sent in one message, 1 to 1000; default 32. With 1, each
    /// is sent at once: up to a round trip sooner, and for more of the processor under load.
    #[serde(default = "max_batch")]
    max_batch: u64,
    /// Milliseconds before the first attempt to connect again, 1 to 60000; default 50. Doubles with each failure.
    #[serde(default = "fifty")]
    backoff_ms: u64,
    /// Milliseconds before any attempt at most, `backoffMs` to 60000; default 2000.
    #[serde(default = "two_thousand")]
    max_backoff_ms: u64,
    /// Whether and how changes are read from the stream `feed`; default not at all. `{}` is enough.
    feed: Option<RawFeed>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
enum RawMode {
    Direct,
    Pooled,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct RawFeed {
    /// Milliseconds after which a quiet feed shows that it is alive, 100 to 60000; default 1000. At most half of
    /// `freshSeconds`, or records would grow old between two such signs.
    block_ms: u64,
    /// Entries that are read at a time, 1 to 1000; default 64. A worker holds so many of the longest at most, 10 KiB each.
    batch: u64,
}

impl Default for RawFeed {
    fn default() -> Self {
        Self {
            block_ms: one_thousand(),
            batch: 64,
        }
    }
}

fn cluster() -> String {
    "resp_bridge".to_owned()
}

fn client_name() -> String {
    "edgelink".to_owned()
}

fn fifty() -> u64 {
    50
}

fn one_hundred_and_fifty() -> u64 {
    150
}

fn five_hundred() -> u64 {
    500
}

fn one_thousand() -> u64 {
    1_000
}

fn two_thousand() -> u64 {
    2_000
}

fn max_pending() -> u64 {
    1_024
}

fn max_buffered_bytes() -> u64 {
    1 << 20
}

fn max_batch() -> u64 {
    32
}

impl Raw {
    pub(super) fn check(&self) -> Result<Redis, SettingsError> {
        let auth = self.auth()?;
        let backoff = self.backoff()?;
        let timeout_ms = within("redis.timeoutMs", self.timeout_ms, 1..=60_000)?;
        let dead_after = timeout_ms..=60_000;
        let direct = |auth, name| -> Result<Mode, SettingsError> {
            Ok(Mode::Direct {
                auth,
                name,
                database: within("redis.database", self.database, 0..=65_535)?,
            })
        };
        let name = header_value("redis.clientName", &self.client_name)?;
        let feed_mode = direct(auth.clone(), format!("{name}-feed"))?;
        let lookups = Settings {
            mode: match self.mode {
                RawMode::Direct => direct(auth, name)?,
                RawMode::Pooled => Mode::Pooled,
            },
            connect_timeout_ms: within(
                "redis.connectTimeoutMs",
                self.connect_timeout_ms,
                10..=60_000,
            )?,
            timeout_ms,
            dead_after_ms: within("redis.deadAfterMs", self.dead_after_ms, dead_after)?,
            max_waiting: within("redis.maxPending", self.max_pending, 1..=100_000)?,
            max_unanswered_bytes: within(
                "redis.maxBufferedBytes",
                self.max_buffered_bytes,
                1_024..=64 << 20,
            )?,
            max_batch: within("redis.maxBatch", self.max_batch, 1..=1_000)?,
            limits: limits(1, LOOKUP_REPLY_BYTES),
            backoff,
        };
        let feed = self
            .feed
            .as_ref()
            .map(|feed| feed.check(&lookups, feed_mode));
        Ok(Redis {
            cluster: header_value("redis.cluster", &self.cluster)?,
            feed: feed.transpose()?,
            lookups,
        })
    }

    fn auth(&self) -> Result<Option<Auth>, SettingsError> {
        if self.password.is_some() && matches!(self.mode, RawMode::Pooled) && self.feed.is_none() {
            return Err(wrong(
                "redis.password",
                "left out: in mode pooled Envoy authenticates",
            ));
        }
        match (&self.user, &self.password) {
            (Some(_), None) => Err(wrong("redis.user", "given together with redis.password")),
            (user, Some(password)) if !password.is_empty() => Ok(Some(Auth {
                user: user.clone(),
                password: password.clone(),
            })),
            (_, Some(_)) => Err(wrong("redis.password", "at least one character long")),
            (None, None) => Ok(None),
        }
    }

    fn backoff(&self) -> Result<Bounds, SettingsError> {
        let first_ms = within("redis.backoffMs", self.backoff_ms, 1..=60_000)?;
        let cap = first_ms..=60_000;
        Ok(Bounds {
            first_ms,
            cap_ms: within("redis.maxBackoffMs", self.max_backoff_ms, cap)?,
        })
    }
}

impl RawFeed {
    fn check(&self, lookups: &Settings, mode: Mode) -> Result<feed::Settings, SettingsError> {
        let batch = within("redis.feed.batch", self.batch, 1..=1_000)?;
        let connection = Settings {
            mode,
            // Its requests wait for the next change, and are not to wait for each other.
            max_batch: 1,
            limits: feed_limits(batch),
            ..lookups.clone()
        };
        Ok(feed::Settings {
            connection,
            block_ms: within("redis.feed.blockMs", self.block_ms, 100..=60_000)?,
            batch,
        })
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

impl Redis {
    /// Whether a feed is of use with the other settings.
    pub(super) fn check_feed(
        &self,
        lives: &Lifetimes,
        lru_bytes: u64,
    ) -> Result<(), SettingsError> {
        let Some(feed) = &self.feed else {
            return Ok(());
        };
        if feed.block_ms.saturating_mul(2) > lives.fresh {
            return Err(wrong("redis.feed.blockMs", "at most half of freshSeconds"));
        }
        if lives.fresh < FEED_FRESH {
            return Err(wrong("freshSeconds", "at least 3 with redis.feed"));
        }
        if lru_bytes < FEED_LRU_BYTES {
            return Err(wrong("lru.maxBytes", "at least 1048576 with redis.feed"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
