//! Throttles log lines that would come with every request.

/// Milliseconds between two lines of a kind.
const INTERVAL_MILLIS: u64 = 10_000;

/// Admits at most one line of a kind every 10 seconds.
#[derive(Debug, Default)]
pub(crate) struct LogThrottle {
    next_millis: u64,
}

impl LogThrottle {
    /// True if a line may be written now, by the steady clock in milliseconds. If so, the next one has to wait.
    pub(crate) fn is_due(&mut self, now: u64) -> bool {
        let is_due = now >= self.next_millis;
        if is_due {
            self.next_millis = now.saturating_add(INTERVAL_MILLIS);
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_when_another_was_just_logged_is_not_due() {
        let mut throttle = LogThrottle::default();
        assert!(throttle.is_due(5));
        assert!(!throttle.is_due(INTERVAL_MILLIS + 4));
        assert!(throttle.is_due(INTERVAL_MILLIS + 5));
    }
}
