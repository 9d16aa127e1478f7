//! The time in the units of links and records, and pauses between retries.

use edgelink_wire::backoff::Bounds;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Unix time in milliseconds; 0 if the clock is before 1970.
#[must_use]
pub fn unix_millis() -> u64 {
    u64::try_from(since_epoch().as_millis()).unwrap_or(u64::MAX)
}

/// Unix time in microseconds; 0 if the clock is before 1970.
#[must_use]
pub fn unix_micros() -> u64 {
    u64::try_from(since_epoch().as_micros()).unwrap_or(u64::MAX)
}

/// Unix time in seconds; 0 if the clock is before 1970.
#[must_use]
pub fn unix_seconds() -> u64 {
    since_epoch().as_secs()
}

/// The pause before a retry after `failures` in a row, at least one; the longest one without a source of randomness.
pub fn pause_after(failures: u32, bounds: Bounds) -> Duration {
    let longest = bounds.longest_millis(failures);
    let pause = getrandom::u64().map_or(longest, |random| bounds.spread_millis(failures, random));
    Duration::from_millis(pause)
}

fn since_epoch() -> Duration {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
}
