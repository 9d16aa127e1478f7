//! Numbers out of segments that are drawn from the store: `number = sequence * 1000 + issuer`.
//!
//! An instance leases one of 1,000 issuers and draws segments of sequences from it, so that instances do not meet on a
//! row. Numbers are taken from the current segment without a lock; when a tenth of it is used, the next one is drawn in
//! the background, so that a slow or absent database is not noticed for the length of a segment and more.
//!
//! A number is issued once because a draw moves the issuer's row on in one atomic statement and is never repeated. The
//! lease is only about order: an instance that was stopped for an hour goes on with the segments that it has, and then
//! leases another issuer.
//!
//! A database that is restored gives out once more what was drawn since the backup. So nothing is drawn from one that this
//! process knows to have gone back (see [`crate::store::PublisherStore`]), and once the publisher has skipped numbers, the
//! segments that were drawn before are given up. What is not covered: a process that was started after the restore, and so
//! knows of nothing, until the publisher has noticed; and more numbers lost than are skipped.
//!
//! One issuer at a time is enough for an instance: a draw is one statement for up to 100,000 numbers. Under load it comes to
//! the bound that the edges know (see [`crate::relay`]), a million links after another for a new database, and then goes
//! on with the issuer that has drawn least; there are a thousand times as many numbers below the bound.

mod heartbeat;
mod options;
mod run;
mod step;
mod supply;

pub use options::SegmentOptions;

use super::{IssueError, NumberSource};
use crate::store::{Segment, Store};
use arc_swap::ArcSwap;
use async_trait::async_trait;
use run::Run;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use supply::Supply;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

/// How long a shutdown waits for a draw that is under way.
const LAST_DRAW: Duration = Duration::from_secs(5);

/// Issues numbers from segments of a leased issuer.
pub struct SegmentIssuer(Arc<Inner>);

struct Inner {
    /// What numbers are taken from. Replaced with `state` locked.
    current: ArcSwap<Run>,
    state: Mutex<State>,
    /// Told whenever a draw has ended, well or not.
    drawn: Notify,
    supply: Arc<Supply>,
    patience: Duration,
    closing: CancellationToken,
}

#[derive(Default)]
struct State {
    next: Option<Arc<Run>>,
    is_drawing: bool,
    is_closed: bool,
    failure: Option<Failure>,
}

/// Why the last draw failed.
#[derive(Clone)]
enum Failure {
    Exhausted(u8),
    Other { reason: String, transient: bool },
}

/// What a caller finds.
enum Look {
    Number(u64),
    Wait,
    Closed,
}

impl SegmentIssuer {
    /// An issuer that leases and draws when it is first asked for a number.
    ///
    /// # Panics
    /// Outside of a Tokio runtime, where its lease could not be renewed.
    #[must_use]
    pub fn start(store: Arc<Store>, options: SegmentOptions) -> Arc<Self> {
        let closing = CancellationToken::new();
        let patience = options.patience;
        let supply = Arc::new(Supply::new(store, options));
        tokio::spawn(heartbeat::beat(Arc::clone(&supply), closing.clone()));
        Arc::new(Self(Arc::new(Inner {
            current: ArcSwap::from_pointee(Run::empty()),
            state: Mutex::default(),
            drawn: Notify::new(),
            supply,
            patience,
            closing,
        })))
    }
}

impl Drop for SegmentIssuer {
    fn drop(&mut self) {
        self.0.closing.cancel();
    }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn look(self: &Arc<Self>) -> Look {
        loop {
            let run = self.current.load();
            if run.is_since(self.supply.skipped_in())
                && let Some(taken) = run.take()
            {
                if taken.is_low {
                    self.draw_unless_enough(&mut self.lock(), None);
                }
                return Look::Number(taken.number);
            }
            let mut state = self.lock();
            if state.is_closed {
                return Look::Closed;
            }
            if !Arc::ptr_eq(&run, &self.current.load()) {
                continue;
            }
            let Some(next) = state.next.take() else {
                // There is a rest if numbers were skipped since it was drawn.
                self.draw_unless_enough(&mut state, run.close());
                return Look::Wait;
            };
            self.current.store(next);
        }
    }

    fn draw_unless_enough(self: &Arc<Self>, state: &mut State, rest: Option<Segment>) {
        if state.is_closed || state.is_drawing || state.next.is_some() {
            return;
        }
        state.is_drawing = true;
        tokio::spawn(Arc::clone(self).draw(rest));
    }

    /// Gives a rest back, and draws until there is a segment or the end has come.
    async fn draw(self: Arc<Self>, rest: Option<Segment>) {
        if let Some(rest) = rest {
            self.supply.give_back(rest).await;
        }
        let mut failures = 0;
        while !self.closing.is_cancelled() {
            let skipped_in = self.supply.skipped_in();
            match self.supply.draw().await {
                Ok(segment) => return self.put(segment, skipped_in).await,
                Err(error) => {
                    failures += 1;
                    tracing::warn!(%error, failures, "no segment of numbers could be drawn");
                    self.lock().failure = Some(Failure::from(&error));
                    self.drawn.notify_waiters();
                    let pause = tokio::time::sleep(self.supply.pause(failures));
                    let _ = self.closing.run_until_cancelled(pause).await;
                }
            }
        }
        self.end_draw();
    }

    /// Keeps a segment, or gives it back where it comes too late to be used.
    async fn put(&self, segment: Segment, skipped_in: u64) {
        if !self.keep(segment, skipped_in) {
            self.supply.give_back(segment).await;
            self.end_draw();
        }
    }

    fn keep(&self, segment: Segment, skipped_in: u64) -> bool {
        let mut state = self.lock();
        state.failure = None;
        if state.is_closed {
            return false;
        }
        state.next = Some(Arc::new(Run::new(segment, skipped_in)));
        // Together with `next`: from here on somebody may take it and begin the next draw.
        state.is_drawing = false;
        drop(state);
        self.drawn.notify_waiters();
        true
    }

    fn end_draw(&self) {
        self.lock().is_drawing = false;
        self.drawn.notify_waiters();
    }

    /// What to say to somebody who has waited in vain.
    fn failure(&self) -> IssueError {
        let waited = Failure::Other {
            reason: format!(
                "no segment was drawn within {} ms",
                self.patience.as_millis()
            ),
            transient: true,
        };
        self.lock().failure.clone().unwrap_or(waited).into()
    }

    fn has_failed_for_good(&self) -> bool {
        let state = self.lock();
        state.failure.as_ref().is_some_and(Failure::is_permanent)
    }

    /// Returns when no draw is under way, or after [`LAST_DRAW`].
    async fn await_last_draw(&self) {
        let deadline = Instant::now() + LAST_DRAW;
        loop {
            let mut drawn = std::pin::pin!(self.drawn.notified());
            drawn.as_mut().enable();
            if !self.lock().is_drawing || timeout_at(deadline, drawn).await.is_err() {
                return;
            }
        }
    }
}

#[async_trait]
impl NumberSource for SegmentIssuer {
    async fn next_number(&self) -> Result<u64, IssueError> {
        let inner = &self.0;
        // Nearly always there is one, and no clock has to be read.
        if let Look::Number(number) = inner.look() {
            return Ok(number);
        }
        let deadline = Instant::now() + inner.patience;
        loop {
            let mut drawn = std::pin::pin!(inner.drawn.notified());
            // Before the look: a draw that ends in between is not missed.
            drawn.as_mut().enable();
            match inner.look() {
                Look::Number(number) => return Ok(number),
                Look::Closed => return Err(IssueError::Closed),
                Look::Wait => {}
            }
            if inner.has_failed_for_good() || timeout_at(deadline, drawn).await.is_err() {
                return Err(inner.failure());
            }
        }
    }

    async fn shutdown(&self) {
        let inner = &self.0;
        let next = {
            let mut state = inner.lock();
            state.is_closed = true;
            state.next.take()
        };
        let current = inner.current.load_full().close();
        inner.closing.cancel();
        inner.drawn.notify_waiters();
        inner.await_last_draw().await;
        // The later segment first: an issuer can only go back from where it stands.
        let next = next.and_then(|next| next.close());
        for rest in next.into_iter().chain(current) {
            inner.supply.give_back(rest).await;
        }
        inner.supply.release().await;
    }
}

impl Failure {
    fn is_permanent(&self) -> bool {
        match self {
            Self::Exhausted(_) => true,
            Self::Other { transient, .. } => !transient,
        }
    }
}

impl From<&IssueError> for Failure {
    fn from(error: &IssueError) -> Self {
        match error {
            IssueError::Exhausted { length } => Self::Exhausted(*length),
            error => Self::Other {
                reason: error.to_string(),
                transient: error.is_transient(),
            },
        }
    }
}

impl From<Failure> for IssueError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Exhausted(length) => Self::Exhausted { length },
            Failure::Other { reason, transient } => Self::Source {
                name: supply::NAME,
                reason,
                transient,
            },
        }
    }
}
