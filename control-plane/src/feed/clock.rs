//! What the clock of the database shows, without asking it.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// By how much two clocks may run apart, as a share of the time that has passed.
const DRIFT: f64 = 200e-6;

/// A bound on the database's clock: unix time in microseconds. It is the latest that the database was asked for, plus all the time
/// that has passed since before it was asked.
#[derive(Debug, Default)]
pub struct DatabaseClock(Mutex<Option<Reading>>);

#[derive(Clone, Copy, Debug)]
struct Reading {
    /// Before the database was asked.
    asked: Instant,
    /// What it answered.
    micros: u64,
}

impl DatabaseClock {
    /// Notes that the database, asked at `asked`, said that it was `micros`.
    pub fn note(&self, asked: Instant, micros: u64) {
        let mut reading = self.reading();
        if reading.is_none_or(|last| last.asked <= asked) {
            *reading = Some(Reading { asked, micros });
        }
    }

    /// What the clock of the database shows at `at`, or less; `None` if it was never asked.
    #[must_use]
    pub fn at_most(&self, at: Instant) -> Option<u64> {
        let reading = (*self.reading())?;
        let passed = at.saturating_duration_since(reading.asked);
        let passed = passed + passed.mul_f64(DRIFT);
        let passed = u64::try_from(passed.as_micros()).unwrap_or(u64::MAX);
        Some(reading.micros.saturating_add(passed))
    }

    fn reading(&self) -> MutexGuard<'_, Option<Reading>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A difference of two times of the database.
pub(super) fn micros(micros: u64) -> Duration {
    Duration::from_micros(micros)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_clock_runs_on_from_before_the_question() {
        let clock = DatabaseClock::default();
        let asked = Instant::now();
        assert_eq!(clock.at_most(asked), None);
        tokio::time::advance(Duration::from_millis(300)).await;
        clock.note(asked, 5_000_000);
        assert_eq!(clock.at_most(asked), Some(5_000_000));
        let now = clock.at_most(Instant::now()).unwrap();
        assert!((5_300_000..5_301_000).contains(&now), "{now}");
        // An answer to an earlier question that comes later is passed over; a clock that was set back is believed.
        clock.note(asked - Duration::from_secs(1), 9_000_000);
        assert_eq!(clock.at_most(asked), Some(5_000_000));
        clock.note(asked, 1_000_000);
        assert_eq!(clock.at_most(asked), Some(1_000_000));
    }
}
