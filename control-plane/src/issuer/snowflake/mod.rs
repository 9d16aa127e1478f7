//! Numbers made of time: 41 bits of milliseconds since 2025, 10 bits of worker, 8 bits of sequence.
//!
//! 59 bits need codes of 10 digits (62^10 > 2^59); shorter ones are refused at the start. 256 numbers a millisecond and
//! worker; the time lasts until 2094.
//!
//! A worker number alone does not keep two instances apart: the one that was stopped and goes on, or the one whose clock
//! is behind that of the previous holder, would make the same numbers again. So a worker reserves *time* in the store, by
//! compare-and-set, some seconds ahead, and makes numbers only of milliseconds that it has reserved. What is reserved
//! stays its own even when the worker number has gone to another, who starts behind it.

mod workers;

pub use workers::StoredWorkers;

use super::{IssueError, NumberSource};
use async_trait::async_trait;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// 2025-01-01T00:00:00Z in unix milliseconds.
pub const EPOCH_MS: u64 = 1_735_689_600_000;

/// The bits of the sequence: how many numbers of one millisecond there are.
pub const SEQUENCE_BITS: u32 = 8;

/// The bits of the worker. Issuers are 0 to 999.
pub const WORKER_BITS: u32 = 10;

/// The only code length that holds the numbers.
pub const CODE_LENGTH: u8 = 10;

/// A clock that goes back no further than this is waited for, in milliseconds; NTP steps of this size happen.
pub const TOLERATED_MS: u64 = 5;

/// How far ahead time is reserved, in milliseconds.
pub const RESERVED_MS: u64 = 10_000;

/// How long the store is left alone after a failure, in milliseconds.
const PAUSE_MS: u64 = 250;

const TIME_BITS: u32 = 41;
const SEQUENCES: u64 = 1 << SEQUENCE_BITS;

/// The time of a machine.
#[async_trait]
pub trait Clock: Send + Sync + 'static {
    /// Unix time in milliseconds.
    fn unix_ms(&self) -> u64;

    /// Returns after about `ms` milliseconds.
    async fn wait_ms(&self, ms: u64);
}

/// The clock of this machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

#[async_trait]
impl Clock for SystemClock {
    fn unix_ms(&self) -> u64 {
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
    }

    async fn wait_ms(&self, ms: u64) {
        tokio::time::sleep(Duration::from_millis(ms)).await;
    }
}

/// Milliseconds of one worker that nobody else makes numbers of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reservation {
    /// 0 to 1023.
    pub worker: u16,
    /// In unix milliseconds.
    pub time: Range<u64>,
}

/// Where worker numbers and their time come from.
#[async_trait]
pub trait Reservations: Send + Sync + 'static {
    /// Reserves time that starts at or behind `now` and ends at least [`RESERVED_MS`] behind it, all in unix milliseconds.
    /// The worker may be another one than before.
    async fn reserve(&self, now: u64) -> Result<Reservation, IssueError>;

    /// Gives back what is left from `from` on, and the worker with it.
    async fn release(&self, rest: Reservation);
}

/// Issues numbers made of time.
pub struct Snowflake<C>(Arc<Inner<C>>);

struct Inner<C> {
    clock: C,
    reservations: Arc<dyn Reservations>,
    state: Mutex<State>,
    /// One reservation at a time.
    reserving: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct State {
    reservation: Option<Reservation>,
    last_ms: u64,
    /// How many numbers of `last_ms` are used.
    used: u64,
    renewing: bool,
    closed: bool,
}

enum Step {
    Number(u64),
    Wait(u64),
    Reserve,
}

/// How often a caller looks again before it gives up: each look is behind a wait of a millisecond or more.
const MAX_LOOKS: usize = 1000;

impl<C: Clock> Snowflake<C> {
    /// An issuer that reserves its first time when it is first asked for a number.
    #[must_use]
    pub fn new(clock: C, reservations: Arc<dyn Reservations>) -> Self {
        Self(Arc::new(Inner {
            clock,
            reservations,
            state: Mutex::default(),
            reserving: tokio::sync::Mutex::default(),
        }))
    }
}

impl<C: Clock> Inner<C> {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn step(self: &Arc<Self>) -> Result<Step, IssueError> {
        let mut state = self.lock();
        // Under the lock: the time that one caller has read is never behind that of the one before.
        let now = self.clock.unix_ms();
        let step = state.step(now)?;
        if state.runs_out(now) && !state.renewing {
            state.renewing = true;
            tokio::spawn(Arc::clone(self).renew());
        }
        Ok(step)
    }

    /// Reserves more time before it is needed. A failure shows when the time has run out.
    async fn renew(self: Arc<Self>) {
        if let Err(error) = self.reserve(State::runs_out).await {
            tracing::warn!(%error, "no more time could be reserved for numbers");
            self.clock.wait_ms(PAUSE_MS).await;
        }
        self.lock().renewing = false;
    }

    /// Reserves time where it is still `needed` when it is this caller's turn.
    async fn reserve(&self, needed: fn(&State, u64) -> bool) -> Result<(), IssueError> {
        let _turn = self.reserving.lock().await;
        let now = self.clock.unix_ms();
        if !needed(&self.lock(), now) {
            return Ok(());
        }
        let reserved = self.reservations.reserve(now).await?;
        let late = self.lock().put(reserved);
        if let Some(rest) = late {
            self.reservations.release(rest).await;
        }
        Ok(())
    }
}

impl State {
    fn step(&mut self, now: u64) -> Result<Step, IssueError> {
        if self.closed {
            return Err(IssueError::Closed);
        }
        let Some(reservation) = self.reservation.as_ref().filter(|_| !self.lacks(now)) else {
            return Ok(Step::Reserve);
        };
        // Behind a reservation starts what another worker has used, be its clock ahead or ours behind.
        let floor = self.last_ms.max(reservation.time.start);
        if now < floor {
            return wait_for(floor - now);
        }
        let used = if now == self.last_ms { self.used } else { 0 };
        if used == SEQUENCES {
            return Ok(Step::Wait(1));
        }
        let number = number(now, reservation.worker, used)?;
        (self.last_ms, self.used) = (now, used + 1);
        Ok(Step::Number(number))
    }

    /// Whether no number can be made at `now` for lack of reserved time.
    fn lacks(&self, now: u64) -> bool {
        let reserved = self.reservation.as_ref();
        reserved.is_none_or(|reserved| now.max(self.last_ms) >= reserved.time.end)
    }

    /// Whether less than half of what is reserved ahead is left.
    fn runs_out(&self, now: u64) -> bool {
        let reserved = self.reservation.as_ref();
        reserved.is_none_or(|reserved| now + RESERVED_MS / 2 >= reserved.time.end)
    }

    /// Keeps what was reserved, and answers what came too late to be used.
    fn put(&mut self, mut reserved: Reservation) -> Option<Reservation> {
        if self.closed {
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
        self.closed = true;
        let mut rest = self.reservation.take()?;
        rest.time.start = rest.time.start.max(self.last_ms + 1);
        (!rest.time.is_empty()).then_some(rest)
    }
}

fn wait_for(back: u64) -> Result<Step, IssueError> {
    if back > TOLERATED_MS {
        return Err(IssueError::ClockWentBack { by_ms: back });
    }
    Ok(Step::Wait(back))
}

fn number(now: u64, worker: u16, sequence: u64) -> Result<u64, IssueError> {
    let time = now.checked_sub(EPOCH_MS).ok_or(IssueError::ClockWentBack {
        by_ms: EPOCH_MS - now.min(EPOCH_MS),
    })?;
    if time >> TIME_BITS != 0 {
        return Err(IssueError::Exhausted {
            length: CODE_LENGTH,
        });
    }
    Ok(time << (WORKER_BITS + SEQUENCE_BITS) | u64::from(worker) << SEQUENCE_BITS | sequence)
}

#[async_trait]
impl<C: Clock> NumberSource for Snowflake<C> {
    async fn next_number(&self) -> Result<u64, IssueError> {
        for _ in 0..MAX_LOOKS {
            match self.0.step()? {
                Step::Number(number) => return Ok(number),
                Step::Wait(ms) => self.0.clock.wait_ms(ms).await,
                Step::Reserve => self.0.reserve(State::lacks).await?,
            }
        }
        Err(IssueError::Source {
            name: "snowflake",
            reason: format!("all {SEQUENCES} numbers of every millisecond are taken by others"),
            transient: true,
        })
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
