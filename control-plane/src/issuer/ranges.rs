//! Numbers out of ranges that are drawn from somewhere slow: the next range is fetched while the current one is used.

use super::{IssueError, NumberSource};
use async_trait::async_trait;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// Where ranges come from. A range once drawn is nobody else's, ever.
#[async_trait]
pub(super) trait RangeSource: Send + Sync + 'static {
    /// What changes when numbers that were drawn are not to be used any more.
    fn skipped_in(&self) -> u64 {
        0
    }

    /// Draws a range, which is not empty. Bounded in time.
    async fn draw(&self) -> Result<Range<u64>, IssueError>;

    /// Gives back the unused rest of a range. `false` where somebody has drawn since: the rest is lost then.
    async fn give_back(&self, rest: Range<u64>) -> Result<bool, IssueError>;
}

/// How long callers wait for a range at most, and with it how long a creation can hang on a source that does not answer.
const PATIENCE: Duration = Duration::from_millis(1500);

/// How long a source is left alone after a failure.
const PAUSE: Duration = Duration::from_millis(250);

/// Issues the numbers of ranges in order.
pub(super) struct RangeIssuer<S>(Arc<Inner<S>>);

struct Inner<S> {
    name: &'static str,
    source: S,
    state: Mutex<State>,
    /// Told whenever a draw has ended, well or not.
    drawn: Notify,
}

#[derive(Default)]
struct State {
    skipped_in: u64,
    current: Range<u64>,
    /// How many numbers of `current` are left when the next range is fetched.
    refill_at: u64,
    next: Option<Range<u64>>,
    drawing: bool,
    failure: Option<Failure>,
    closed: bool,
}

struct Failure {
    at: Instant,
    reason: String,
    transient: bool,
}

enum Taken {
    Number(u64),
    Nothing,
    Failed { reason: String, transient: bool },
    Closed,
}

impl<S: RangeSource> RangeIssuer<S> {
    /// An issuer that draws its first range when it is first asked for a number. `name` is that of the source in errors.
    pub(super) fn new(name: &'static str, source: S) -> Self {
        Self(Arc::new(Inner {
            name,
            source,
            state: Mutex::default(),
            drawn: Notify::new(),
        }))
    }
}

impl<S: RangeSource> Inner<S> {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(self: &Arc<Self>) -> Taken {
        let mut state = self.lock();
        if state.closed {
            return Taken::Closed;
        }
        let skipped_in = self.source.skipped_in();
        if state.skipped_in != skipped_in {
            state.skipped_in = skipped_in;
            state.next = None;
            let rest = std::mem::take(&mut state.current);
            if !rest.is_empty() {
                let inner = Arc::clone(self);
                tokio::spawn(async move { inner.give_back(rest).await });
            }
        }
        let number = state.take();
        if state.wants_range() {
            state.drawing = true;
            tokio::spawn(Arc::clone(self).refill());
        }
        match number {
            Some(number) => Taken::Number(number),
            None => state.nothing(),
        }
    }

    async fn refill(self: Arc<Self>) {
        let skipped_in = self.source.skipped_in();
        let drawn = self.source.draw().await;
        let late = self.lock().put(drawn, skipped_in);
        self.drawn.notify_waiters();
        if let Some(range) = late {
            self.give_back(range).await;
        }
    }

    async fn give_back(&self, rest: Range<u64>) {
        let (start, end) = (rest.start, rest.end);
        match self.source.give_back(rest).await {
            Ok(true) => tracing::debug!(source = self.name, start, end, "numbers given back"),
            Ok(false) => {
                tracing::info!(source = self.name, start, end, "unused numbers are skipped");
            }
            Err(error) => {
                tracing::warn!(source = self.name, start, end, %error, "unused numbers are skipped");
            }
        }
    }
}

impl State {
    fn take(&mut self) -> Option<u64> {
        if self.current.is_empty() {
            self.current = self.next.take()?;
            // A tenth is used by then.
            self.refill_at = (self.current.end - self.current.start) / 10 * 9;
        }
        self.current.next()
    }

    fn wants_range(&self) -> bool {
        let low = self.current.end - self.current.start <= self.refill_at;
        let paused = self
            .failure
            .as_ref()
            .is_some_and(|failure| failure.at.elapsed() < PAUSE);
        low && self.next.is_none() && !self.drawing && !paused
    }

    /// Why there is no number: one is on its way, or the last draw has failed and it is too early for another.
    fn nothing(&self) -> Taken {
        match &self.failure {
            Some(failure) if !self.drawing => Taken::Failed {
                reason: failure.reason.clone(),
                transient: failure.transient,
            },
            _ => Taken::Nothing,
        }
    }

    /// Keeps what was drawn, and answers the range that came too late to be used.
    fn put(
        &mut self,
        drawn: Result<Range<u64>, IssueError>,
        skipped_in: u64,
    ) -> Option<Range<u64>> {
        self.drawing = false;
        match drawn {
            Ok(range) if self.closed || self.skipped_in != skipped_in => return Some(range),
            Ok(range) => {
                self.next = Some(range);
                self.failure = None;
            }
            Err(error) => {
                tracing::warn!(%error, "no range of numbers could be drawn");
                self.failure = Some(Failure {
                    at: Instant::now(),
                    reason: error.to_string(),
                    transient: error.is_transient(),
                });
            }
        }
        None
    }
}

#[async_trait]
impl<S: RangeSource> NumberSource for RangeIssuer<S> {
    async fn next_number(&self) -> Result<u64, IssueError> {
        let name = self.0.name;
        let deadline = tokio::time::Instant::now() + PATIENCE;
        loop {
            // Before the look: a draw that ends in between is not missed.
            let drawn = self.0.drawn.notified();
            match self.0.take() {
                Taken::Number(number) => return Ok(number),
                Taken::Closed => return Err(IssueError::Closed),
                Taken::Failed { reason, transient } => {
                    return Err(IssueError::Source {
                        name,
                        reason,
                        transient,
                    });
                }
                Taken::Nothing => {}
            }
            if tokio::time::timeout_at(deadline, drawn).await.is_err() {
                let reason = format!("no answer within {} ms", PATIENCE.as_millis());
                let transient = true;
                return Err(IssueError::Source {
                    name,
                    reason,
                    transient,
                });
            }
        }
    }

    async fn shutdown(&self) {
        let (current, next) = {
            let mut state = self.0.lock();
            state.closed = true;
            (std::mem::take(&mut state.current), state.next.take())
        };
        self.0.drawn.notify_waiters();
        // The later range first: only from the top can ranges go back.
        for rest in next
            .into_iter()
            .chain([current])
            .filter(|rest| !rest.is_empty())
        {
            self.0.give_back(rest).await;
        }
    }
}

#[cfg(test)]
mod tests;
