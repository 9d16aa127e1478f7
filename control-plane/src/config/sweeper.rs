//! Removing what is over.

use super::error::Checks;
use serde::Deserialize;
use std::time::Duration;

/// Removing what is over.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "a section")]
pub struct SweeperConfig {
    /// How often `serve` looks for what is over, in seconds, 1 to 86,400; 0 for never, then `edgelink sweep` is to be run.
    /// Default 60. Of several control planes one does it at a time.
    pub interval_seconds: u64,
    /// How long a link is kept after its `validUntil`, in seconds, 0 to 315,360,000 (ten years). Default 604,800 (a week).
    /// Until then it can be brought back by a later `validUntil`; then it is deleted.
    pub grace_seconds: u64,
    /// How long the tombstone of a deleted link is kept, in days, 8 to 3,650. Default 30. Longer than what caches keep by
    /// default (7 days), so that most of them hear of the deletion of the very link.
    pub tombstone_days: u64,
    /// How many rows one transaction removes, 1 to 10,000. Default 500.
    pub batch: u32,
}

impl Default for SweeperConfig {
    fn default() -> Self {
        Self {
            interval_seconds: 60,
            grace_seconds: 604_800,
            tombstone_days: 30,
            batch: 500,
        }
    }
}

impl SweeperConfig {
    pub(super) fn check(&self, checks: &mut Checks) {
        checks.range(
            "sweeper.interval_seconds",
            self.interval_seconds,
            &(0..=86_400),
        );
        checks.range(
            "sweeper.grace_seconds",
            self.grace_seconds,
            &(0..=315_360_000),
        );
        checks.range("sweeper.tombstone_days", self.tombstone_days, &(8..=3_650));
        checks.range("sweeper.batch", self.batch, &(1..=10_000));
    }

    pub(crate) fn interval(&self) -> Option<Duration> {
        (self.interval_seconds > 0).then(|| Duration::from_secs(self.interval_seconds))
    }
}
