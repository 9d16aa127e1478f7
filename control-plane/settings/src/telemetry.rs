//! The log, the metrics and the traces.

pub mod prometheus;
pub mod traces;

use crate::config::{LogConfig, LogFormat};
use std::io::IsTerminal;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::util::{SubscriberInitExt, TryInitError};

/// Default interval between log lines of a throttle.
const LOG_INTERVAL: Duration = Duration::from_secs(10);

/// Sends log lines to standard error from now on, for the whole process.
///
/// # Errors
/// [`TryInitError`] if a logger is set already.
pub fn init_log(config: &LogConfig) -> Result<(), TryInitError> {
    // The directives were checked with the configuration.
    let filter = EnvFilter::new(&config.filter);
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(std::io::stderr().is_terminal())
        .with_writer(std::io::stderr);
    match config.format {
        LogFormat::Text => log.finish().try_init(),
        LogFormat::Json => log.json().flatten_event(true).finish().try_init(),
    }
}

/// Throttles log lines that would occur with every request: at most one in an interval.
#[derive(Debug)]
pub struct LogThrottle {
    interval: Duration,
    state: Mutex<ThrottleState>,
}

#[derive(Debug)]
struct ThrottleState {
    last: Option<Instant>,
    suppressed: u64,
}

impl Default for LogThrottle {
    fn default() -> Self {
        Self::new()
    }
}

impl LogThrottle {
    /// Admits one line in [`LOG_INTERVAL`].
    #[must_use]
    pub const fn new() -> Self {
        Self::every(LOG_INTERVAL)
    }

    /// Admits one line in `interval`.
    pub(crate) const fn every(interval: Duration) -> Self {
        let state = ThrottleState {
            last: None,
            suppressed: 0,
        };
        Self {
            interval,
            state: Mutex::new(state),
        }
    }

    /// Number of lines suppressed since the last one; `None` if the line at `now` is suppressed, too.
    pub fn admit(&self, now: Instant) -> Option<u64> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let is_early = |last| now.saturating_duration_since(last) < self.interval;
        if state.last.is_some_and(is_early) {
            state.suppressed += 1;
            return None;
        }
        state.last = Some(now);
        Some(std::mem::take(&mut state.suppressed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_line_when_throttled_counts_the_ones_left_out() {
        let (throttle, start) = (LogThrottle::new(), Instant::now());
        assert_eq!(throttle.admit(start), Some(0));
        assert_eq!(throttle.admit(start), None);
        assert_eq!(throttle.admit(start + Duration::from_millis(9_999)), None);
        assert_eq!(throttle.admit(start + LOG_INTERVAL), Some(2));
        assert_eq!(throttle.admit(start + LOG_INTERVAL), None);
        assert_eq!(throttle.admit(start + 3 * LOG_INTERVAL), Some(1));
    }
}
