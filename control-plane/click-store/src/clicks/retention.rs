//! Retention of clicks.

/// Retention of clicks, in days.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClickRetention {
    /// Rollups of hours.
    pub hours: u64,
    /// Rollups of days.
    pub days: u64,
    /// Single clicks, orphan visits, and reports that cannot be read.
    pub raw: u64,
}
