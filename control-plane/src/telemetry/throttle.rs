//! Log lines that would come with every request, held down to one in a while.

use std::sync::Mutex;
use std::time::{Duration, Instant};

/// The time between two lines of a kind.
const INTERVAL: Duration = Duration::from_secs(10);

/// When the last line of a kind was written, and how many were left out since.
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
        let mut lines = self
            .0
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        let is_early = |last| now.saturating_duration_since(last) < INTERVAL;
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
        assert_eq!(throttle.admit(start + INTERVAL), Some(2));
        assert_eq!(throttle.admit(start + INTERVAL), None);
        assert_eq!(throttle.admit(start + 3 * INTERVAL), Some(1));
    }
}
