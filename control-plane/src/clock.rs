//! The time, in the units that links and records use.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Unix time in milliseconds; 0 for a clock that stands before 1970.
#[must_use]
pub(crate) fn unix_millis() -> u64 {
    u64::try_from(since_epoch().as_millis()).unwrap_or(u64::MAX)
}

/// Unix time in microseconds; 0 for a clock that stands before 1970.
#[must_use]
pub(crate) fn unix_micros() -> u64 {
    u64::try_from(since_epoch().as_micros()).unwrap_or(u64::MAX)
}

/// Unix time in seconds; 0 for a clock that stands before 1970.
#[must_use]
pub(crate) fn unix_seconds() -> u64 {
    since_epoch().as_secs()
}

fn since_epoch() -> Duration {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
}
