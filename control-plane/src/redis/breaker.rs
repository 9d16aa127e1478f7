//! Not waiting for a Redis that does not answer, again and again.

use super::RedisError;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::time::Instant;

/// For how long nobody asks after a failure. Then one call goes out to see, and the others go on without Redis until it has
/// answered.
const COOL_OFF: Duration = Duration::from_millis(250);

/// Remembers whether Redis answered the last time.
pub(super) struct Breaker {
    start: Instant,
    /// Milliseconds since the start at which somebody may try again; 0 while all is well.
    retry_at: AtomicU64,
}

impl Default for Breaker {
    fn default() -> Self {
        Self {
            start: Instant::now(),
            retry_at: AtomicU64::new(0),
        }
    }
}

impl Breaker {
    /// Whether to ask.
    pub(super) fn allows(&self) -> bool {
        let retry_at = self.retry_at.load(Ordering::Relaxed);
        if retry_at == 0 {
            return true;
        }
        let now = self.now();
        now >= retry_at
            && self
                .retry_at
                .compare_exchange(retry_at, later(now), Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
    }

    /// Notes how a call went. An error that Redis itself answered is an answer.
    pub(super) fn note<T>(&self, result: &Result<T, RedisError>) {
        match result {
            Err(error @ RedisError::Away(_)) => {
                if self.retry_at.swap(later(self.now()), Ordering::Relaxed) == 0 {
                    tracing::warn!(%error, "going on without Redis");
                }
            }
            Err(RedisError::Skipped) => {}
            _ => {
                if self.retry_at.swap(0, Ordering::Relaxed) != 0 {
                    tracing::info!("Redis answers again");
                }
            }
        }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

fn later(now: u64) -> u64 {
    const COOL_OFF_MS: u64 = COOL_OFF.as_millis() as u64;
    now.saturating_add(COOL_OFF_MS)
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
