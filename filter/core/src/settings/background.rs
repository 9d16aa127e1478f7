//! The sections `snapshot`, `poll` and `admission` of the plugin configuration.

use super::redis::FEED_LRU_BYTES;
use super::{ControlPlane, Raw, Redis, SettingsError, within, wrong};
use crate::cache::freshness::Lifetimes;
use serde::Deserialize;

/// What is done with the control plane besides lookups.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Background {
    /// How a snapshot is fetched; nothing where none is.
    pub snapshot: Option<Snapshot>,
    /// How the control plane is polled for the feed; nothing where it is not.
    pub poll: Option<Poll>,
    /// How long the feed may be silent while admission is in effect, in milliseconds; nothing without admission.
    pub admission_silence: Option<u64>,
}

/// How a snapshot is fetched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// Milliseconds after which the proxy gives it up.
    pub timeout_millis: u32,
    /// The longest snapshot that is read, in bytes.
    pub max_bytes: usize,
    /// The longest pause between two attempts, in milliseconds.
    pub max_backoff_millis: u64,
}

/// How the control plane is polled for the feed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Poll {
    /// Milliseconds for which the control plane holds a poll while there is nothing to tell.
    pub wait_millis: u32,
    /// Milliseconds after which the proxy gives a poll up.
    pub timeout_millis: u32,
    /// The longest pause between two attempts, in milliseconds.
    pub max_backoff_millis: u64,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(super) struct RawSnapshot {
    /// Milliseconds that fetching it may take, 100 to 60000; default 5000.
    timeout_ms: u64,
    /// Bytes of the longest snapshot that is read, 1024 to 67108864; default 16777216. A longer one is as good as none.
    /// A worker's memory grows by about twice the length while one is read, and never shrinks.
    max_bytes: u64,
    /// Milliseconds between two attempts at most, 200 to 600000; default 30000. The first pause is 200, and they double.
    max_backoff_ms: u64,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(super) struct RawPoll {
    /// Milliseconds for which the control plane may hold a poll, 100 to 60000; default 2000. At most half of
    /// `freshSeconds`, or records would grow old between two answers; no shorter than the control plane's heartbeat does
    /// any good. A poll times out `controlPlane.timeoutMs` later.
    wait_ms: u64,
    /// Milliseconds between two attempts at most, 50 to 60000; default 2000. The first pause is 50, and they double.
    max_backoff_ms: u64,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(super) struct RawAdmission {
    /// Seconds for which the feed may be silent until everything is looked up again, 1 to 55; default 5. A new alias that
    /// looks like a generated code may be 404 for that long. The control plane's own rule is 60.
    max_silence_seconds: u64,
}

impl Default for RawSnapshot {
    fn default() -> Self {
        Self {
            timeout_ms: 5_000,
            max_bytes: 16 << 20,
            max_backoff_ms: 30_000,
        }
    }
}

impl Default for RawPoll {
    fn default() -> Self {
        Self {
            wait_ms: 2_000,
            max_backoff_ms: 2_000,
        }
    }
}

impl Default for RawAdmission {
    fn default() -> Self {
        Self {
            max_silence_seconds: 5,
        }
    }
}

impl Background {
    pub(super) fn check(
        raw: &Raw,
        lives: &Lifetimes,
        control_plane: &ControlPlane,
        redis: Option<&Redis>,
    ) -> Result<Self, SettingsError> {
        let timeout = control_plane.timeout_millis;
        let snapshot = raw.snapshot.as_ref().map(RawSnapshot::check);
        let poll = raw.poll.as_ref().map(|poll| poll.check(lives, timeout));
        let (snapshot, poll) = (snapshot.transpose()?, poll.transpose()?);
        let feed = redis.and_then(|redis| redis.feed.as_ref());
        if poll.is_some() && feed.is_some() {
            return Err(wrong("poll", "left out: the feed is read from Redis"));
        }
        if poll.is_some() && raw.lru.max_bytes < FEED_LRU_BYTES {
            return Err(wrong("lru.maxBytes", "at least 1048576 with poll"));
        }
        let polled = poll.as_ref().map(|poll| u64::from(poll.wait_millis));
        let period = polled.or(feed.map(|feed| feed.block_ms));
        let admission = raw.admission.as_ref().map(|admission| {
            let period = period.filter(|_| snapshot.is_some());
            let expected = "left out, or given with snapshot, and poll or redis.feed";
            admission.check(period.ok_or_else(|| wrong("admission", expected))?)
        });
        Ok(Self {
            admission_silence: admission.transpose()?,
            snapshot,
            poll,
        })
    }
}

impl RawSnapshot {
    fn check(&self) -> Result<Snapshot, SettingsError> {
        let (timeout, backoff) = (self.timeout_ms, self.max_backoff_ms);
        Ok(Snapshot {
            timeout_millis: within("snapshot.timeoutMs", timeout, 100..=60_000)?,
            max_bytes: within("snapshot.maxBytes", self.max_bytes, 1_024..=64 << 20)?,
            max_backoff_millis: within("snapshot.maxBackoffMs", backoff, 200..=600_000)?,
        })
    }
}

impl RawPoll {
    fn check(&self, lives: &Lifetimes, timeout: u32) -> Result<Poll, SettingsError> {
        let wait_millis: u32 = within("poll.waitMs", self.wait_ms, 100..=60_000)?;
        if u64::from(wait_millis) * 2 > lives.fresh {
            return Err(wrong("poll.waitMs", "at most half of freshSeconds"));
        }
        Ok(Poll {
            wait_millis,
            timeout_millis: wait_millis.saturating_add(timeout),
            max_backoff_millis: within("poll.maxBackoffMs", self.max_backoff_ms, 50..=60_000)?,
        })
    }
}

impl RawAdmission {
    /// The silence in milliseconds, which must not be shorter than two signs of life of the feed, `period` milliseconds
    /// each, are apart.
    fn check(&self, period: u64) -> Result<u64, SettingsError> {
        const FIELD: &str = "admission.maxSilenceSeconds";
        let seconds: u64 = within(FIELD, self.max_silence_seconds, 1..=55)?;
        let silence = seconds * 1_000;
        if silence < period.saturating_mul(2) {
            let expected = "at least twice redis.feed.blockMs or poll.waitMs";
            return Err(wrong(FIELD, expected));
        }
        Ok(silence)
    }
}

#[cfg(test)]
mod tests;
