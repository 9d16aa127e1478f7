//! The database's clock, estimated without a query.

use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::time::Instant;

/// The drift of two clocks, as a share of the elapsed time.
const DRIFT: f64 = 200e-6;

/// A lower bound of the database's clock, unix time in microseconds: its newest answer, plus the time since the query.
#[derive(Debug, Default)]
pub struct DatabaseClock(Mutex<Option<ClockReading>>);

#[derive(Clone, Copy, Debug)]
struct ClockReading {
    /// Time of the query.
    asked: Instant,
    /// Its answer, unix time in microseconds.
    micros: u64,
}

impl DatabaseClock {
    /// Records the database's answer `micros` to a query at `asked`.
    pub fn note(&self, asked: Instant, micros: u64) {
        let mut reading = self.reading();
        if reading.is_none_or(|last| last.asked <= asked) {
            *reading = Some(ClockReading { asked, micros });
        }
    }

    /// Lower bound of the clock at `at`, in unix microseconds; `None` before the first answer.
    #[must_use]
    pub fn at_most(&self, at: Instant) -> Option<u64> {
        let reading = (*self.reading())?;
        let passed = at.saturating_duration_since(reading.asked);
        let passed = passed + passed.mul_f64(DRIFT);
        let passed = u64::try_from(passed.as_micros()).unwrap_or(u64::MAX);
        Some(reading.micros.saturating_add(passed))
    }

    fn reading(&self) -> MutexGuard<'_, Option<ClockReading>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[tokio::test(start_paused = true)]
    async fn clock_when_noted_runs_on_from_before_the_query() {
        let clock = DatabaseClock::default();
        let asked = Instant::now();
        assert_eq!(clock.at_most(asked), None);
        tokio::time::advance(Duration::from_millis(300)).await;
        clock.note(asked, 5_000_000);
        assert_eq!(clock.at_most(asked), Some(5_000_000));
        let now = clock.at_most(Instant::now()).unwrap();
        assert!((5_300_000..5_301_000).contains(&now), "{now}");
        // A late answer to an earlier query is ignored; a clock that was set back is believed.
        clock.note(asked - Duration::from_secs(1), 9_000_000);
        assert_eq!(clock.at_most(asked), Some(5_000_000));
        clock.note(asked, 1_000_000);
        assert_eq!(clock.at_most(asked), Some(1_000_000));
    }
}
