//! The circuit breaker of Redis: lookups do not wait, again and again, for a Redis that does not answer.

use super::RedisError;
use edgelink_wire::breaker::CircuitBreaker;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// The time after a failure without a call. Then one call is let through, and the others go on without Redis until it is
/// answered.
const COOL_OFF: Duration = Duration::from_millis(250);

/// Remembers whether Redis answered the last call.
pub(super) struct Breaker {
    start: Instant,
    circuit: Mutex<CircuitBreaker>,
}

impl Default for Breaker {
    fn default() -> Self {
        Self {
            start: Instant::now(),
            circuit: Mutex::new(CircuitBreaker::new(1)),
        }
    }
}

impl Breaker {
    /// Whether to make a call.
    pub(super) fn allows(&self) -> bool {
        const COOL_OFF_MS: u64 = COOL_OFF.as_millis() as u64;
        self.circuit().permits(self.now(), COOL_OFF_MS)
    }

    /// Notes how a call ended. An error that Redis itself answered is an answer.
    pub(super) fn note<T>(&self, result: &Result<T, RedisError>) {
        match result {
            Err(error @ RedisError::Away(_)) => {
                if self.circuit().fail(self.now()) {
                    tracing::warn!(%error, "Redis does not answer: lookups go on without it");
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
    async fn after_a_failure_one_call_in_a_while_is_let_through_until_one_succeeds() {
        let breaker = Breaker::default();
        assert!(breaker.allows() && breaker.allows());
        breaker.note(&away());
        advance(COOL_OFF - Duration::from_millis(1)).await;
        assert!(!breaker.allows());
        advance(Duration::from_millis(1)).await;
        assert!(breaker.allows());
        assert!(!breaker.allows());
        advance(COOL_OFF).await;
        assert!(breaker.allows());
        breaker.note(&Ok(()));
        assert!(breaker.allows() && breaker.allows());
    }

    #[test]
    fn an_error_that_redis_answers_is_an_answer() {
        let breaker = Breaker::default();
        let refused = RedisError::Refused(Error::new(ErrorKind::Unknown, "OOM"));
        breaker.note::<()>(&Err(refused));
        assert!(breaker.allows());
    }
}
