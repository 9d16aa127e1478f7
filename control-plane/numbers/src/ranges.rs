//! The issuer of numbers from ranges, which are drawn from a slow source: a database, or ZooKeeper.
//!
//! After a tenth of a range is used, the next one is drawn in the background, so that a slow or absent source is not
//! noticed for the length of a range and more. Each number is issued once because each range is drawn once.
//!
//! A restored database hands out again what was drawn since the backup. So no range is drawn from a database that this process
//! knows to have gone back, and once the publisher has skipped numbers ([`RangeSource::skipped_in`]), earlier ranges
//! are dropped. Not covered: a process that was started after the restore, and so is unaware of it, until the publisher
//! notices; and losing more numbers than are skipped.

use super::source::{IssueError, NumberSource};
use async_trait::async_trait;
use edgelink_model::clock::pause_after;
use edgelink_settings::telemetry::LogThrottle;
use edgelink_wire::backoff::Bounds;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Time that a caller waits for a number, and so a creation for a source that does not answer.
pub(super) const MAX_WAIT: Duration = Duration::from_millis(1500);

/// The pauses before retries of a draw.
pub(super) const BACKOFF: Bounds = Bounds {
    first_millis: 50,
    cap_millis: 1_000,
};

/// Time that a shutdown waits for a draw in progress. Later numbers are skipped.
const LAST_DRAW: Duration = Duration::from_secs(5);

/// A source of ranges. A range is drawn again only after it was returned.
#[async_trait]
pub(super) trait RangeSource: Send + Sync + 'static {
    /// The generation of the last skip of numbers known to this process.
    fn skipped_in(&self) -> u64 {
        0
    }

    /// Draws a range, which is not empty. Bounded in time.
    async fn draw(&self) -> Result<NumberRange, IssueError>;

    /// Returns the unused rest of a range. `false` if others have drawn since, and the rest is skipped.
    async fn give_back(&self, rest: NumberRange) -> Result<bool, IssueError>;

    /// Maintains what draws need (a lease); runs until the issuer ends.
    async fn maintain(&self) {}

    /// Releases what draws needed, after the last range was returned.
    async fn release(&self) {}
}

/// Equally spaced numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct NumberRange {
    /// The first number.
    pub(super) start: u64,
    /// The end, exclusive: a multiple of `stride` after `start`.
    pub(super) end: u64,
    /// The distance of two numbers.
    pub(super) stride: u64,
}

impl NumberRange {
    /// The numbers from `start` up to `end`, exclusive.
    pub(super) fn consecutive(start: u64, end: u64) -> Self {
        let stride = 1;
        Self { start, end, stride }
    }

    fn is_empty(&self) -> bool {
        self.start >= self.end
    }

    fn take(&mut self) -> Option<u64> {
        let number = self.start;
        (number < self.end).then(|| {
            self.start += self.stride;
            number
        })
    }
}

/// Issues the numbers of ranges in order.
pub(super) struct RangeIssuer<S>(Arc<SharedRanges<S>>);

struct SharedRanges<S> {
    name: &'static str,
    source: S,
    max_wait: Duration,
    backoff: Bounds,
    /// Throttles logs of permanent failures, which occur with every creation.
    throttle: LogThrottle,
    ranges: Mutex<Ranges>,
    /// Notified when a range should be drawn.
    wanted: Notify,
    /// Notified when a draw has succeeded or failed.
    drawn: Notify,
    closing: CancellationToken,
    tasks: TaskTracker,
}

#[derive(Default)]
struct Ranges {
    current: DrawnRange,
    next: Option<DrawnRange>,
    is_closed: bool,
    /// Error of the last draw; a permanent one is kept only while draws pause.
    failure: Option<IssueError>,
}

#[derive(Clone, Copy, Default)]
struct DrawnRange {
    rest: NumberRange,
    /// The number at which a tenth is used, and the next range is drawn.
    low_from: u64,
    /// The generation of the last skip when it was drawn.
    skipped_in: u64,
}

impl<S: RangeSource> RangeIssuer<S> {
    /// Starts an issuer that draws its first range on the first request. `name` names the source in errors.
    ///
    /// # Panics
    /// Outside of a Tokio runtime, which runs the draws.
    pub(super) fn start(
        name: &'static str,
        source: S,
        max_wait: Duration,
        backoff: Bounds,
    ) -> Arc<Self> {
        let shared = Arc::new(SharedRanges {
            name,
            source,
            max_wait,
            backoff,
            throttle: LogThrottle::new(),
            ranges: Mutex::default(),
            wanted: Notify::new(),
            drawn: Notify::new(),
            closing: CancellationToken::new(),
            tasks: TaskTracker::new(),
        });
        let (drawing, maintaining) = (Arc::clone(&shared), Arc::clone(&shared));
        shared.tasks.spawn(async move { drawing.draw().await });
        shared.tasks.spawn(async move {
            let maintain = maintaining.source.maintain();
            maintaining.closing.run_until_cancelled(maintain).await
        });
        Arc::new(Self(shared))
    }
}

impl<S> Drop for RangeIssuer<S> {
    fn drop(&mut self) {
        self.0.closing.cancel();
    }
}

impl<S: RangeSource> SharedRanges<S> {
    fn lock(&self) -> MutexGuard<'_, Ranges> {
        self.ranges.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next number; `None` if it has to be waited for.
    fn take(&self) -> Result<Option<u64>, IssueError> {
        let mut ranges = self.lock();
        if ranges.is_closed {
            return Err(IssueError::Closed);
        }
        // Under the lock: no range at hand is newer than this.
        ranges.drop_skipped(self.source.skipped_in());
        let number = ranges.take();
        let failure = ranges.failure.as_ref();
        let permanent = failure.filter(|failure| !failure.is_transient());
        if permanent.is_none() && ranges.is_low() {
            self.wanted.notify_one();
        }
        match (number, permanent) {
            (None, Some(failure)) => Err(failure.repeat(self.name)),
            (number, _) => Ok(number),
        }
    }

    /// Returns a number as soon as there is one.
    async fn wait(&self) -> Result<u64, IssueError> {
        loop {
            // Created before the check, so that a draw that ends in between is not missed.
            let drawn = self.drawn.notified();
            if let Some(number) = self.take()? {
                return Ok(number);
            }
            drawn.await;
        }
    }

    /// The error of a caller that has waited too long.
    fn failure(&self) -> IssueError {
        if let Some(failure) = &self.lock().failure {
            return failure.repeat(self.name);
        }
        let max_wait = self.max_wait.as_millis();
        IssueError::transient(self.name, format!("no answer within {max_wait} ms"))
    }

    /// Draws ranges on demand, until the issuer ends.
    async fn draw(&self) {
        let mut failures = 0;
        let wanted = || self.closing.run_until_cancelled(self.wanted.notified());
        while wanted().await.is_some() {
            if !self.lock().is_low() {
                continue;
            }
            let skipped_in = self.source.skipped_in();
            match self.source.draw().await {
                Ok(range) => {
                    failures = 0;
                    self.lock().put(DrawnRange::new(range, skipped_in));
                    self.drawn.notify_waiters();
                }
                Err(error) => {
                    failures += 1;
                    self.pause(error, failures).await;
                }
            }
        }
    }

    /// Pauses after a failed draw. Then a transient failure is retried, and a permanent one is dropped: the next caller triggers
    /// a draw.
    async fn pause(&self, error: IssueError, failures: u32) {
        let (source, is_transient) = (self.name, error.is_transient());
        if is_transient {
            tracing::warn!(source, %error, failures, "drawing numbers failed; retrying");
        } else if let Some(left_out) = self.throttle.admit(Instant::now()) {
            tracing::warn!(source, %error, failures, left_out, "drawing numbers failed; the next creation retries");
        }
        self.lock().failure = Some(error);
        self.drawn.notify_waiters();
        let pause = tokio::time::sleep(pause_after(failures, self.backoff));
        self.closing.run_until_cancelled(pause).await;
        if is_transient {
            self.wanted.notify_one();
        } else {
            let mut ranges = self.lock();
            ranges.failure = None;
            // Consumes earlier requests: those callers have got the failure.
            pin!(self.wanted.notified()).enable();
        }
    }

    async fn give_back(&self, rest: NumberRange) {
        let (source, NumberRange { start, end, .. }) = (self.name, rest);
        match self.source.give_back(rest).await {
            Ok(true) => tracing::debug!(source, start, end, "returned unused numbers"),
            Ok(false) => tracing::info!(source, start, end, "skipped unused numbers"),
            Err(error) => {
                tracing::warn!(source, start, end, %error, "returning unused numbers failed; they are skipped");
            }
        }
    }
}

impl Ranges {
    /// Drops the ranges that were drawn before the last skip. They cannot be returned: the skip went past them.
    fn drop_skipped(&mut self, skipped_in: u64) {
        if self.current.skipped_in != skipped_in {
            let NumberRange { start, end, .. } = std::mem::take(&mut self.current).rest;
            if start < end {
                tracing::info!(start, end, "skipped unused numbers: the database went back");
            }
        }
        self.next.take_if(|next| next.skipped_in != skipped_in);
    }

    fn take(&mut self) -> Option<u64> {
        if self.current.rest.is_empty() {
            self.current = self.next.take()?;
        }
        self.current.rest.take()
    }

    /// True if the next range should be drawn.
    fn is_low(&self) -> bool {
        self.current.rest.start >= self.current.low_from && self.next.is_none()
    }

    fn put(&mut self, drawn: DrawnRange) {
        self.next = Some(drawn);
        self.failure = None;
    }

    /// The unused ranges, the last first: a source can only go back from its end.
    fn unused(&mut self) -> impl Iterator<Item = NumberRange> + use<> {
        let current = std::mem::take(&mut self.current);
        let ranges = self.next.take().into_iter().chain([current]);
        let rests = ranges.map(|range| range.rest);
        rests.filter(|rest| !rest.is_empty())
    }
}

impl DrawnRange {
    fn new(range: NumberRange, skipped_in: u64) -> Self {
        let tenth = (range.end - range.start) / range.stride / 10;
        Self {
            rest: range,
            low_from: range.start + tenth * range.stride,
            skipped_in,
        }
    }
}

#[async_trait]
impl<S: RangeSource> NumberSource for RangeIssuer<S> {
    async fn next_number(&self) -> Result<u64, IssueError> {
        let shared = &self.0;
        // Nearly always a number is at hand, and no timer is set.
        if let Some(number) = shared.take()? {
            return Ok(number);
        }
        let waited = timeout(shared.max_wait, shared.wait()).await;
        waited.unwrap_or_else(|_| Err(shared.failure()))
    }

    async fn shutdown(&self) {
        let shared = &self.0;
        shared.lock().is_closed = true;
        shared.closing.cancel();
        shared.drawn.notify_waiters();
        shared.tasks.close();
        let _ = timeout(LAST_DRAW, shared.tasks.wait()).await;
        let unused = shared.lock().unused();
        for rest in unused {
            shared.give_back(rest).await;
        }
        shared.source.release().await;
    }
}

#[cfg(test)]
mod tests;
