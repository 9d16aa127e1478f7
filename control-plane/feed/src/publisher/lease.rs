//! The lease that makes one replica publish at a time, and detects a database that went back.

use crate::Feed;
use edgelink_store::{FeedKind, LeaseClaim, PublisherState, Store, StoreError};
use edgelink_wire::{FeedPoint, FeedPosition};
use rand::random;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// The lease, held or not.
pub(super) struct Lease {
    store: Arc<Store>,
    feed: Arc<Feed>,
    owner: String,
    kind: FeedKind,
    duration: Duration,
    held: Option<HeldLease>,
    /// Earliest time of the next request for the lease.
    ask_at: Instant,
    seen: SeenRow,
    lost: Option<UnrepairedLoss>,
    /// The row at the last read.
    state: PublisherState,
}

/// A lease that is ours.
#[derive(Clone, Copy, Debug)]
struct HeldLease {
    /// Measured from before the query, so that it never outlasts the lease in the database.
    until: Instant,
    token: u64,
}

/// A loss in the database that is not known to be repaired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct UnrepairedLoss {
    /// The greatest token from before.
    token: u64,
    /// The generation of the last skip in the row when the loss was detected.
    skipped_in: u64,
}

impl UnrepairedLoss {
    /// True if another process has repaired the database.
    fn is_repaired(self, state: &PublisherState) -> bool {
        state.token > self.token && state.skipped_in != self.skipped_in
    }
}

/// The newest row read or written so far: it goes back only if the database does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SeenRow {
    token: u64,
    generation: u64,
    position: FeedPosition,
}

impl SeenRow {
    /// True if a row is older than the newest one; otherwise it replaces that.
    fn is_older(&mut self, state: &PublisherState) -> bool {
        let next = Self {
            token: state.token,
            generation: state.generation,
            position: state.position,
        };
        let is_same = next.generation == self.generation;
        let is_older = next.token < self.token
            || next.generation < self.generation
            || (is_same && next.position < self.position);
        if !is_older {
            *self = next;
        }
        is_older
    }
}

impl Lease {
    pub(super) fn new(
        store: Arc<Store>,
        feed: Arc<Feed>,
        kind: FeedKind,
        duration: Duration,
    ) -> Self {
        Self {
            store,
            feed,
            owner: format!("{:032x}", random::<u128>()),
            kind,
            duration,
            held: None,
            ask_at: Instant::now(),
            seen: SeenRow::default(),
            lost: None,
            state: PublisherState::default(),
        }
    }

    /// The name of this process.
    pub(super) fn owner(&self) -> &str {
        &self.owner
    }

    /// The newest token; `None` without the lease.
    pub(super) fn token(&self) -> Option<u64> {
        self.held.map(|held| held.token)
    }

    /// The row at the last read.
    pub(super) fn state(&self) -> &PublisherState {
        &self.state
    }

    /// Takes or renews the lease if due, and records the published position. True if this process holds it.
    pub(super) async fn hold(&mut self, published: Option<FeedPoint>) -> Result<bool, StoreError> {
        let now = Instant::now();
        if let Some(held) = self.held {
            let is_due = held.until <= now + self.duration * 2 / 3;
            return if is_due {
                self.ask(published).await
            } else {
                Ok(true)
            };
        }
        if now < self.ask_at {
            return Ok(false);
        }
        self.ask_at = now + self.duration / 10;
        // Taken before the row is read, which must not be older than earlier reads.
        let newest = self.store.newest_token();
        let state = self.store.publisher().await?;
        if state.token < newest {
            self.note_loss(newest, state.skipped_in);
        }
        self.note(now, state);
        if !self.state.admits(&self.claim(None)) {
            return Ok(false);
        }
        self.ask(None).await
    }

    /// Takes or renews the lease at once. True if this process holds it.
    pub(super) async fn ask(&mut self, published: Option<FeedPoint>) -> Result<bool, StoreError> {
        let now = Instant::now();
        let was_held = self.held.take().is_some();
        let before = self.seen;
        let taken = self
            .store
            .take_publisher_lease(&self.claim(published))
            .await?;
        if taken.is_some() != was_held {
            let is_held = taken.is_some();
            tracing::info!(is_held, "the publisher's lease changed hands");
        }
        let Some(state) = taken else {
            self.mark_lost();
            return Ok(false);
        };
        self.held = Some(HeldLease {
            until: now + self.duration,
            token: state.token,
        });
        // Every take raises the token, so an equal one shows a loss as well.
        if state.token <= before.token {
            self.note_loss(before.token, state.skipped_in);
        }
        self.note(now, state);
        Ok(true)
    }

    fn claim(&self, published: Option<FeedPoint>) -> LeaseClaim<'_> {
        LeaseClaim {
            owner: &self.owner,
            kind: self.kind,
            lease_millis: u64::try_from(self.duration.as_millis()).unwrap_or(u64::MAX),
            published,
            seen: (self.seen.generation, self.seen.position),
            lost: self.lost.map(|lost| lost.token),
        }
    }

    /// Records that the database went back behind that token: this or another process has to repair it.
    fn note_loss(&mut self, token: u64, skipped_in: u64) {
        let known = self.lost.map_or(0, |lost| lost.token);
        self.lost = Some(UnrepairedLoss {
            token: token.max(known),
            skipped_in,
        });
    }

    /// Records that the database went back behind that token, which the row does not show.
    pub(super) fn went_back(&mut self, token: u64) {
        self.note_loss(token, self.state.skipped_in);
    }

    /// The greatest token from before an unrepaired loss; `None` without one.
    pub(super) fn loss(&self) -> Option<u64> {
        self.lost.map(|lost| lost.token)
    }

    /// Records a row from a query at `asked`. True if it shows that the database went back.
    pub(super) fn note(&mut self, asked: Instant, state: PublisherState) -> bool {
        self.feed.clock().note(asked, state.now);
        let is_older = self.seen.is_older(&state);
        if is_older {
            self.note_loss(self.seen.token, state.skipped_in);
        } else {
            self.lost.take_if(|lost| lost.is_repaired(&state));
        }
        self.state = state;
        is_older
    }

    /// Records a written position of the feed's generation: a read with an earlier one comes from a database that went back, even if
    /// only by that write.
    pub(super) fn note_position(&mut self, generation: u64, position: FeedPosition) {
        if generation == self.seen.generation {
            self.seen.position = self.seen.position.max(position);
        }
    }

    /// Records the row of a new generation of this process, with which the database is repaired.
    pub(super) fn begin(&mut self, asked: Instant, state: PublisherState) {
        self.seen = SeenRow::default();
        self.lost = None;
        if let Some(held) = &mut self.held {
            held.token = state.token;
        }
        self.note(asked, state);
    }

    /// Records that another process has the lease.
    pub(super) fn mark_lost(&mut self) {
        self.held = None;
        self.ask_at = Instant::now() + self.duration / 10;
    }

    /// Asks for the lease again without waiting for the end of a pause.
    pub(super) fn end_pause(&mut self) {
        self.ask_at = Instant::now();
    }

    /// Releases the lease, so that another replica need not wait for its end, and does not ask for it for `pause`.
    pub(super) async fn release(&mut self, pause: Duration) {
        self.ask_at = Instant::now() + pause;
        if self.held.take().is_none() {
            return;
        }
        if let Err(error) = self.store.release_publisher_lease(&self.owner).await {
            tracing::warn!(%error, "failed to release the publisher lease; it will expire");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn row_when_older_than_one_seen_is_noticed() {
        let state = |token, generation, position| PublisherState {
            token,
            generation,
            position: FeedPosition::new(position, 0),
            ..PublisherState::default()
        };
        let mut seen = SeenRow::default();
        for (row, is_older) in [
            ((5, 100, 7), false),
            ((5, 100, 7), false),
            ((6, 100, 7), false),
            // The published position went back.
            ((6, 100, 6), true),
            ((5, 100, 9), true),
            ((7, 99, 9), true),
            // Positions of two generations cannot be compared.
            ((7, 200, 0), false),
            ((7, 200, 1), false),
            ((7, 200, 0), true),
        ] {
            let (token, generation, position) = row;
            assert_eq!(
                seen.is_older(&state(token, generation, position)),
                is_older,
                "{row:?}"
            );
        }
    }
}
