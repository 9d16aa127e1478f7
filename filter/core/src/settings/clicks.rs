//! The section `clicks` of the plugin configuration.

use super::{SettingsError, within, wrong};
use serde::Deserialize;

/// How clicks are counted and reported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clicks {
    /// Milliseconds between two batches.
    pub flush_millis: u64,
    /// Milliseconds after which the proxy gives a report up.
    pub timeout_millis: u32,
    /// The longest pause between two attempts, in milliseconds.
    pub max_backoff_millis: u64,
    /// Bytes of clicks that are not in a batch yet, besides those that stand in the LRU.
    pub max_bytes: usize,
    /// The most batches that wait.
    pub max_unsent: usize,
    /// Bytes of them.
    pub max_unsent_bytes: usize,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(super) struct Raw {
    /// Milliseconds between two batches of a worker, 100 to 60000; default 1000. Clicks are shown that much later, and at
    /// most so many are lost when the proxy dies.
    flush_ms: u64,
    /// Milliseconds that a report may take, 100 to 60000; default 2000.
    timeout_ms: u64,
    /// Milliseconds between two attempts at most, 100 to 600000; default 5000. The first pause is 100, and they double.
    max_backoff_ms: u64,
    /// Bytes a worker of links with clicks that are neither in the LRU nor in a batch, 1024 to 67108864; default 1048576.
    /// Further clicks are dropped and counted as such.
    max_bytes: u64,
    /// Batches a worker that wait for the control plane, 64 to 100000; default 512. Of further ones the oldest that was
    /// never sent is dropped, and its clicks are counted as such.
    max_unsent: u64,
    /// Bytes of such batches, 1048576 to 268435456, not below `maxBytes`; default 8388608.
    max_unsent_bytes: u64,
}

impl Default for Raw {
    fn default() -> Self {
        Self {
            flush_ms: 1_000,
            timeout_ms: 2_000,
            max_backoff_ms: 5_000,
            max_bytes: 1 << 20,
            max_unsent: 512,
            max_unsent_bytes: 8 << 20,
        }
    }
}

impl Raw {
    pub(super) fn check(&self) -> Result<Clicks, SettingsError> {
        let bytes = 1 << 20..=256 << 20;
        let clicks = Clicks {
            flush_millis: within("clicks.flushMs", self.flush_ms, 100..=60_000)?,
            timeout_millis: within("clicks.timeoutMs", self.timeout_ms, 100..=60_000)?,
            max_backoff_millis: within("clicks.maxBackoffMs", self.max_backoff_ms, 100..=600_000)?,
            max_bytes: within("clicks.maxBytes", self.max_bytes, 1_024..=64 << 20)?,
            max_unsent: within("clicks.maxUnsent", self.max_unsent, 64..=100_000)?,
            max_unsent_bytes: within("clicks.maxUnsentBytes", self.max_unsent_bytes, bytes)?,
        };
        if clicks.max_unsent_bytes < clicks.max_bytes {
            return Err(wrong("clicks.maxUnsentBytes", "at least clicks.maxBytes"));
        }
        Ok(clicks)
    }
}

#[cfg(test)]
mod tests;
