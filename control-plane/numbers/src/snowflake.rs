//! Numbers derived from time: 41 bits of milliseconds since 2025, 10 bits of worker, 8 bits of sequence.
//!
//! 59 bits need codes of 10 digits (62^10 > 2^59); shorter ones are refused at the start. 256 numbers for each
//! millisecond and worker; the time lasts until 2094.
//!
//! A worker number alone does not keep two instances apart: one that was paused and continues, or one whose clock is
//! behind that of the previous holder, would repeat numbers. So a worker reserves *time* in the store, by
//! compare-and-set, some seconds ahead, and makes numbers from reserved milliseconds only. They stay its own even when
//! another instance takes the worker number, which starts after them.

mod workers;

use super::source::{IssueError, NumberSource};
use async_trait::async_trait;
use edgelink_model::clock::unix_millis;
use edgelink_settings::config::SNOWFLAKE_CODE_LENGTH;
use edgelink_store::Store;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use workers::StoredWorkers;

/// The source's name in the configuration.
const NAME: &str = "snowflake";

/// 2025-01-01T00:00:00Z in unix milliseconds.
const EPOCH_MILLIS: u64 = 1_735_689_600_000;

const TIME_BITS: u32 = 41;

/// Workers are 0 to 999.
const WORKER_BITS: u32 = 10;

const SEQUENCE_BITS: u32 = 8;

/// Numbers per millisecond and worker.
const SEQUENCES: u64 = 1 << SEQUENCE_BITS;

/// Backward step of the clock that is waited out; NTP steps of this size happen.
const TOLERATED_MILLIS: u64 = 5;

/// Milliseconds by which time is reserved ahead.
const RESERVED_MILLIS: u64 = 10_000;

/// The pause before a retry of a reservation.
const PAUSE_MILLIS: u64 = 250;

/// The most attempts of a caller: each follows a wait of a millisecond or more.
const MAX_ATTEMPTS: usize = 1000;

/// Starts to issue numbers derived from time, which is reserved on the first request.
#[must_use]
pub fn snowflake(store: Arc<Store>) -> Arc<dyn NumberSource> {
    Arc::new(Snowflake::new(Box::new(unix_millis), StoredWorkers(store)))
}

/// Returns unix time in milliseconds.
type Clock = Box<dyn Fn() -> u64 + Send + Sync>;

/// Milliseconds of one worker that are exclusive to this instance.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Reservation {
    /// 0 to 1023.
    worker: u16,
    /// In unix milliseconds.
    time: Range<u64>,
}

/// A source of workers and their time.
#[async_trait]
trait Reservations: Send + Sync + 'static {
    /// Reserves time that starts at or after `now` and ends at least [`RESERVED_MILLIS`] after it: for the worker of
    /// `held`, unless another instance has taken it.
    async fn reserve(&self, held: Option<Reservation>, now: u64)
    -> Result<Reservation, IssueError>;

    /// Releases unused time, and the worker with it.
    async fn release(&self, rest: Reservation);
}

/// Issues numbers derived from time.
struct Snowflake<R>(Arc<SharedTime<R>>);

struct SharedTime<R> {
    clock: Clock,
    reservations: R,
    time: Mutex<ReservedTime>,
    /// One reservation at a time.
    reserving: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct ReservedTime {
    reservation: Option<Reservation>,
    last_millis: u64,
    /// Used numbers of `last_millis`.
    used: u64,
    is_renewing: bool,
    is_closed: bool,
}

/// The outcome of an attempt to make a number.
enum Attempt {
    Number(u64),
    Wait { millis: u64 },
    Reserve,
}

impl<R: Reservations> Snowflake<R> {
    fn new(clock: Clock, reservations: R) -> Self {
        Self(Arc::new(SharedTime {
            clock,
            reservations,
            time: Mutex::default(),
            reserving: tokio::sync::Mutex::default(),
        }))
    }
}

impl<R: Reservations> SharedTime<R> {
    fn lock(&self) -> MutexGuard<'_, ReservedTime> {
        self.time.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn attempt(self: &Arc<Self>) -> Result<Attempt, IssueError> {
        let mut time = self.lock();
        // Read under the lock, so that no caller gets an earlier time than the previous one.
        let now = (self.clock)();
        let attempt = time.attempt(now)?;
        if time.runs_out(now) && !time.is_renewing {
            time.is_renewing = true;
            tokio::spawn(Arc::clone(self).renew());
        }
        Ok(attempt)
    }

    /// Reserves more time before it is needed. A failure shows once the time has run out.
    async fn renew(self: Arc<Self>) {
        if let Err(error) = self.reserve(ReservedTime::runs_out).await {
            tracing::warn!(%error, "reserving time for numbers failed; retrying");
            wait(PAUSE_MILLIS).await;
        }
        self.lock().is_renewing = false;
    }

    /// Reserves time if it is still `needed` when this caller's turn comes.
    async fn reserve(&self, needed: fn(&ReservedTime, u64) -> bool) -> Result<(), IssueError> {
        let _turn = self.reserving.lock().await;
        let now = (self.clock)();
        let held = {
            let time = self.lock();
            if !needed(&time, now) {
                return Ok(());
            }
            time.reservation.clone()
        };
        let reserved = self.reservations.reserve(held, now).await?;
        let late = self.lock().put(reserved);
        if let Some(rest) = late {
            self.reservations.release(rest).await;
        }
        Ok(())
    }
}

impl ReservedTime {
    fn attempt(&mut self, now: u64) -> Result<Attempt, IssueError> {
        if self.is_closed {
            return Err(IssueError::Closed);
        }
        let Some(reservation) = self.reservation.as_ref().filter(|_| !self.lacks(now)) else {
            return Ok(Attempt::Reserve);
        };
        // Time after a reservation may be another worker's, whichever clock is ahead.
        let floor = self.last_millis.max(reservation.time.start);
        match floor.saturating_sub(now) {
            0 => {}
            millis @ ..=TOLERATED_MILLIS => return Ok(Attempt::Wait { millis }),
            by_millis => return Err(IssueError::ClockWentBack { by_millis }),
        }
        let used = if now == self.last_millis {
            self.used
        } else {
            0
        };
        if used == SEQUENCES {
            return Ok(Attempt::Wait { millis: 1 });
        }
        let number = number(now, reservation.worker, used)?;
        (self.last_millis, self.used) = (now, used + 1);
        Ok(Attempt::Number(number))
    }

    /// True if no number can be made at `now` for lack of reserved time.
    fn lacks(&self, now: u64) -> bool {
        self.ends_by(now.max(self.last_millis))
    }

    /// True if less than half of the reserved time is left.
    fn runs_out(&self, now: u64) -> bool {
        self.ends_by(now + RESERVED_MILLIS / 2)
    }

    fn ends_by(&self, time: u64) -> bool {
        let reserved = self.reservation.as_ref();
        reserved.is_none_or(|reserved| reserved.time.end <= time)
    }

    /// Keeps a reservation, and returns it if it came too late to be used.
    fn put(&mut self, mut reserved: Reservation) -> Option<Reservation> {
        if self.is_closed {
            return Some(reserved);
        }
        if let Some(before) = &self.reservation
            && before.worker == reserved.worker
            && before.time.end == reserved.time.start
        {
            reserved.time.start = before.time.start;
        }
        self.reservation = Some(reserved);
        None
    }

    fn close(&mut self) -> Option<Reservation> {
        self.is_closed = true;
        let mut rest = self.reservation.take()?;
        rest.time.start = rest.time.start.max(self.last_millis + 1);
        (!rest.time.is_empty()).then_some(rest)
    }
}

async fn wait(millis: u64) {
    tokio::time::sleep(Duration::from_millis(millis)).await;
}

fn number(now: u64, worker: u16, sequence: u64) -> Result<u64, IssueError> {
    let time = now
        .checked_sub(EPOCH_MILLIS)
        .ok_or(IssueError::ClockWentBack {
            by_millis: EPOCH_MILLIS.saturating_sub(now),
        })?;
    if time >> TIME_BITS != 0 {
        return Err(IssueError::Exhausted {
            length: SNOWFLAKE_CODE_LENGTH,
        });
    }
    Ok(time << (WORKER_BITS + SEQUENCE_BITS) | u64::from(worker) << SEQUENCE_BITS | sequence)
}

#[async_trait]
impl<R: Reservations> NumberSource for Snowflake<R> {
    async fn next_number(&self) -> Result<u64, IssueError> {
        for _ in 0..MAX_ATTEMPTS {
            match self.0.attempt()? {
                Attempt::Number(number) => return Ok(number),
                Attempt::Wait { millis } => wait(millis).await,
                Attempt::Reserve => self.0.reserve(ReservedTime::lacks).await?,
            }
        }
        let reason = format!("all {SEQUENCES} numbers of every millisecond are taken by others");
        Err(IssueError::transient(NAME, reason))
    }

    async fn shutdown(&self) {
        let rest = self.0.lock().close();
        if let Some(rest) = rest {
            self.0.reservations.release(rest).await;
        }
    }
}

#[cfg(test)]
mod tests;
