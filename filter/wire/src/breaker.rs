//! A circuit breaker: stops calls to a failing dependency, except for an occasional probe.

/// A circuit breaker. Its times are milliseconds of a clock that never goes back, passed in.
///
/// It is closed at first: all calls are let through. Consecutive failures open it; a pause after the last attempt it is
/// half-open, and lets one call through. A success closes it.
#[derive(Clone, Debug)]
pub struct CircuitBreaker {
    threshold: u32,
    failures: u32,
    last_try: u64,
}

impl CircuitBreaker {
    /// A closed breaker, which `threshold` consecutive failures open.
    #[must_use]
    pub const fn new(threshold: u32) -> Self {
        Self {
            threshold,
            failures: 0,
            last_try: 0,
        }
    }

    /// True if it is open or half-open: no call, or only one, is let through.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.failures >= self.threshold
    }

    /// True if a call would be let through: the breaker is closed, or half-open because `pause` has passed since the last attempt.
    #[must_use]
    pub fn would_permit(&self, now: u64, pause: u64) -> bool {
        !self.is_open() || self.is_rested(now, pause)
    }

    /// Asks to make a call. A half-open breaker lets this call through and is open again.
    pub fn permits(&mut self, now: u64, pause: u64) -> bool {
        let permits = self.would_permit(now, pause);
        if permits && self.is_open() {
            self.last_try = now;
        }
        permits
    }

    /// True if no call was attempted for `millis`, so that the dependency may have recovered.
    #[must_use]
    pub fn is_rested(&self, now: u64, millis: u64) -> bool {
        now.saturating_sub(self.last_try) >= millis
    }

    /// Records a success; returns true if it closed the breaker.
    pub fn succeed(&mut self) -> bool {
        let was_open = self.is_open();
        self.failures = 0;
        was_open
    }

    /// Records a failure; returns true if it opened the breaker.
    pub fn fail(&mut self, now: u64) -> bool {
        let was_open = self.is_open();
        self.failures = self.failures.saturating_add(1);
        self.last_try = now;
        !was_open && self.is_open()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(threshold: u32, now: u64) -> CircuitBreaker {
        let mut breaker = CircuitBreaker::new(threshold);
        for failure in 1..=threshold {
            assert!(breaker.permits(now, 1_000));
            assert_eq!(breaker.fail(now), failure == threshold);
        }
        breaker
    }

    #[test]
    fn breaker_when_failures_repeat_permits_one_call_per_pause() {
        for threshold in [1, 8] {
            let mut breaker = open(threshold, 5_000);
            assert!(breaker.is_open());
            assert!(!breaker.permits(5_999, 1_000));
            assert!(breaker.would_permit(6_000, 1_000) && breaker.permits(6_000, 1_000));
            assert!(!breaker.would_permit(6_000, 1_000) && !breaker.permits(6_000, 1_000));
            assert!(!breaker.fail(6_100), "it was open");
            assert!(!breaker.permits(7_099, 1_000));
            assert!(breaker.permits(7_100, 1_000));
        }
    }

    #[test]
    fn breaker_when_call_succeeds_closes() {
        let mut breaker = open(8, 5_000);
        assert!(breaker.succeed());
        assert!(!breaker.succeed(), "it was closed");
        assert!(breaker.permits(5_000, 1_000) && breaker.permits(5_000, 1_000));
        assert!(!breaker.fail(5_000));
        assert!(!breaker.is_open());
    }

    #[test]
    fn breaker_when_untried_for_a_pause_is_rested() {
        let mut breaker = open(1, 5_000);
        assert!(!breaker.is_rested(5_999, 1_000) && breaker.is_rested(6_000, 1_000));
        assert!(breaker.permits(6_000, 1_000));
        assert!(!breaker.is_rested(6_500, 1_000));
    }
}
