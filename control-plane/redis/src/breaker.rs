//! The circuit breaker of Redis: lookups do not wait repeatedly for a Redis that does not answer.

use super::RedisError;
use edgelink_wire::breaker::CircuitBreaker;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// Time for which the breaker is open after a failure. Then one call is permitted (half-open), and the others continue
/// without Redis until it is answered.
const OPEN_TIME: Duration = Duration::from_millis(250);

/// The circuit breaker with its clock.
pub(super) struct RedisBreaker {
    start: Instant,
    circuit: Mutex<CircuitBreaker>,
}

impl Default for RedisBreaker {
    fn default() -> Self {
        Self {
            start: Instant::now(),
            circuit: Mutex::new(CircuitBreaker::new(1)),
        }
    }
}

impl RedisBreaker {
    /// True if a call may be made.
    pub(super) fn permits(&self) -> bool {
        const OPEN_MILLIS: u64 = OPEN_TIME.as_millis() as u64;
        self.circuit().permits(self.now(), OPEN_MILLIS)
    }

    /// Records the result of a call. An error reply of Redis counts as an answer.
    pub(super) fn note<T>(&self, result: &Result<T, RedisError>) {
        match result {
            Err(error @ RedisError::Away(_)) => {
                if self.circuit().fail(self.now()) {
                    tracing::warn!(%error, "Redis does not answer; lookups continue without it");
                }
            }
            Err(RedisError::Skipped) => {}
            _ => {
                if self.circuit().succeed() {
                    tracing::info!("Redis answers again");
                }
            }
        }
    }

    fn circuit(&self) -> MutexGuard<'_, CircuitBreaker> {
        self.circuit.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fred::error::{Error, ErrorKind};
    use tokio::time::advance;

    fn away() -> Result<(), RedisError> {
        Err(RedisError::Away(Error::new(ErrorKind::Timeout, "late")))
    }

    #[tokio::test(start_paused = true)]
    async fn breaker_when_open_permits_one_probe_until_success() {
        let breaker = RedisBreaker::default();
        assert!(breaker.permits() && breaker.permits());
        breaker.note(&away());
        advance(OPEN_TIME - Duration::from_millis(1)).await;
        assert!(!breaker.permits());
        advance(Duration::from_millis(1)).await;
        assert!(breaker.permits());
        assert!(!breaker.permits());
        advance(OPEN_TIME).await;
        assert!(breaker.permits());
        breaker.note(&Ok(()));
        assert!(breaker.permits() && breaker.permits());
    }

    #[test]
    fn breaker_when_redis_answers_an_error_stays_closed() {
        let breaker = RedisBreaker::default();
        let refused = RedisError::Refused(Error::new(ErrorKind::Unknown, "OOM"));
        breaker.note::<()>(&Err(refused));
        assert!(breaker.permits());
    }
}
