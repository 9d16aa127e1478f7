//! When the control plane is silent, only one lookup in a while finds out whether it still is.
//!
//! A control plane that refuses or answers nonsense does so at once, and may do so for one link only. One that lets
//! callouts time out makes visitors wait for nothing, so timeouts, and only those, open the circuit.

use crate::time::Moment;

/// So many timeouts without an answer in between open the circuit.
const THRESHOLD: u32 = 8;

/// The state of the circuit.
#[derive(Debug, Default)]
pub(crate) struct Breaker {
    timeouts: u32,
    last_try: Moment,
}

impl Breaker {
    /// Whether lookups are held back.
    pub(crate) fn is_open(&self) -> bool {
        self.timeouts >= THRESHOLD
    }

    /// Asks to send a lookup. While the circuit is open, one a `pause` (milliseconds) is let through.
    pub(crate) fn permits(&mut self, now: Moment, pause: u64) -> bool {
        let permits = self.would_permit(now, pause);
        if permits && self.is_open() {
            self.last_try = now;
        }
        permits
    }

    /// Whether a lookup would be let through.
    pub(crate) fn would_permit(&self, now: Moment, pause: u64) -> bool {
        !self.is_open() || self.last_try.age(now) >= pause
    }

    /// Whether no lookup was tried for so many milliseconds, so that the control plane may long be there again.
    pub(crate) fn is_rested(&self, now: Moment, millis: u64) -> bool {
        self.last_try.age(now) >= millis
    }

    /// An answer came, whatever it was: the control plane is not silent.
    pub(crate) fn answered(&mut self) {
        self.timeouts = 0;
    }

    /// A lookup timed out.
    pub(crate) fn timed_out(&mut self, now: Moment) {
        self.timeouts = self.timeouts.saturating_add(1);
        self.last_try = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Moment {
        Moment::from_millis(millis)
    }

    fn open(now: Moment) -> Breaker {
        let mut breaker = Breaker::default();
        for _ in 0..THRESHOLD {
            assert!(breaker.permits(now, 1_000));
            breaker.timed_out(now);
        }
        breaker
    }

    #[test]
    fn it_opens_after_timeouts_in_a_row_and_lets_one_through_in_a_while() {
        let mut breaker = open(at(5_000));
        assert!(breaker.is_open());
        assert!(!breaker.permits(at(5_999), 1_000));
        assert!(breaker.permits(at(6_000), 1_000));
        assert!(!breaker.permits(at(6_000), 1_000));
    }

    #[test]
    fn an_answer_closes_it() {
        let mut breaker = open(at(5_000));
        breaker.answered();
        assert!(breaker.permits(at(5_000), 1_000));
        breaker.timed_out(at(5_000));
        assert!(!breaker.is_open());
    }
}
