//! What operators see: log lines and metrics.

pub(crate) mod prometheus;

use crate::config::{LogConfig, LogFormat};
use std::io::IsTerminal;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::util::{SubscriberInitExt, TryInitError};

/// The time between two lines of a kind that is throttled.
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

/// Holds log lines that would come with every request down to one in a while: when the last one was written, and how many
/// were left out since.
#[derive(Debug)]
pub(crate) struct LogThrottle(Mutex<Lines>);

#[derive(Debug)]
struct Lines {
    last: Option<Instant>,
    left_out: u64,
}

impl LogThrottle {
    pub(crate) const fn new() -> Self {
        Self(Mutex::new(Lines {
            last: None,
            left_out: 0,
        }))
    }

    /// How many lines of this kind were left out since the last one; `None` if the line at `now` is left out too.
    pub(crate) fn admit(&self, now: Instant) -> Option<u64> {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_early = |last| now.saturating_duration_since(last) < LOG_INTERVAL;
        if lines.last.is_some_and(is_early) {
            lines.left_out += 1;
            return None;
        }
        lines.last = Some(now);
        Some(std::mem::take(&mut lines.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_in_a_while_is_admitted_with_the_number_of_those_left_out() {
        let (throttle, start) = (LogThrottle::new(), Instant::now());
        assert_eq!(throttle.admit(start), Some(0));
        assert_eq!(throttle.admit(start), None);
        assert_eq!(throttle.admit(start + Duration::from_millis(9_999)), None);
        assert_eq!(throttle.admit(start + LOG_INTERVAL), Some(2));
        assert_eq!(throttle.admit(start + LOG_INTERVAL), None);
        assert_eq!(throttle.admit(start + 3 * LOG_INTERVAL), Some(1));
    }
}
