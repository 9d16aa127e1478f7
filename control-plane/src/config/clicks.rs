//! Clicks, and the links that are hot by them.

use super::error::Checks;
use crate::clicks::HotOptions;
use serde::Deserialize;
use std::time::Duration;

/// Clicks, and the links that are hot by them.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "a section")]
pub struct ClicksConfig {
    /// How many links are hot at most, 0 to 10,000. Default 100. Edges keep them from their start on.
    pub hot_count: u32,
    /// How many of the last minutes make a link hot, 1 to 1,440. Default 5.
    pub hot_window_minutes: u64,
    /// How often the hot links are found, in milliseconds, 100 to 3,600,000. Default 10,000.
    pub hot_period_ms: u64,
    /// For how many minutes clicks by the minute are kept, 60 to 525,600. Default 10,080, a week. Then the sweeper
    /// removes them.
    pub keep_minutes: u64,
}

impl Default for ClicksConfig {
    fn default() -> Self {
        Self {
            hot_count: 100,
            hot_window_minutes: 5,
            hot_period_ms: 10_000,
            keep_minutes: 10_080,
        }
    }
}

impl ClicksConfig {
    pub(super) fn check(&self, checks: &mut Checks) {
        checks.range("clicks.hot_count", self.hot_count, &(0..=10_000));
        checks.range(
            "clicks.hot_window_minutes",
            self.hot_window_minutes,
            &(1..=1_440),
        );
        checks.range(
            "clicks.hot_period_ms",
            self.hot_period_ms,
            &(100..=3_600_000),
        );
        checks.range("clicks.keep_minutes", self.keep_minutes, &(60..=525_600));
    }

    pub(crate) fn options(&self) -> HotOptions {
        HotOptions {
            count: self.hot_count,
            window_minutes: self.hot_window_minutes,
            period: Duration::from_millis(self.hot_period_ms),
        }
    }
}
