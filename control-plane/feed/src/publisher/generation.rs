//! Generations of the feed: continuing one with a new lease, and beginning another.

use super::error::PublishError;
use super::{Publisher, WriteState};
use edgelink_model::drawn::Drawn;
use edgelink_redis::{Append, Appended, StoredState};
use edgelink_settings::telemetry::prometheus::{FEED_GENERATIONS, PUBLISHER_FENCED};
use edgelink_store::{FeedKind, Past, PublisherState};
use edgelink_wire::FeedPosition;
use edgelink_wire::feed::{Beat, FeedMessage};
use metrics::counter;
use std::time::Duration;
use tokio::time::Instant;

/// Pause between repairs of a database that went back: a copy of the database keeps the name of its installation, and two
/// copies that publish to one Redis would repair themselves in turn. Each repair skips at most half of the numbers left
/// below the bound, so that some remain to be issued until the bound has risen.
const REPAIR_PAUSE: Duration = Duration::from_secs(10);

/// Time in microseconds for which caches may keep records published before the database went back, if later ones are unknown.
const KEPT_MICROS: u64 = 24 * 3600 * 1_000_000;

/// The reason for a new generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GenerationReason {
    /// The feed belongs to this process, which has just taken the lease.
    Local,
    /// Redis has no state of the feed.
    Empty,
    /// Redis has lost writes.
    Lost,
    /// A master of Redis was replaced or restarted.
    Nodes,
    /// Caches have to drop everything, requested by `edgelink flush`.
    Flushed,
    /// The database is older than what was published.
    WentBack(u64),
}

impl GenerationReason {
    fn as_str(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Empty => "empty",
            Self::Lost => "lost",
            Self::Nodes => "nodes",
            Self::Flushed => "flush",
            Self::WentBack(_) => "database",
        }
    }

    /// The past that the database assumes: without a state in Redis, caches may have records of a lost database.
    fn past(self, drawn: Drawn) -> Past {
        match self {
            Self::Local | Self::Empty | Self::Flushed => Past::Unknown,
            Self::Lost | Self::Nodes => Past::Kept,
            Self::WentBack(token) => Past::WentBack { token, drawn },
        }
    }
}

impl Publisher {
    /// Continues the feed after the last publisher, or begins a generation.
    pub(super) async fn resume_generation(&mut self) -> Result<(), PublishError> {
        let Some(token) = self.lease.token() else {
            return Err(PublishError::Restart);
        };
        if let Some(token) = self.lease.loss() {
            return self.begin(GenerationReason::WentBack(token)).await;
        }
        if self.writing.is_some() {
            return Ok(());
        }
        if self.destination.kind() == FeedKind::Local {
            return self.begin(GenerationReason::Local).await;
        }
        let nodes = self.destination.nodes().await?;
        let Some(stored) = self.destination.stored_state().await? else {
            return self.begin(GenerationReason::Empty).await;
        };
        let state = self.lease.state().clone();
        if stored.installation != state.installation {
            return Err(PublishError::Foreign(stored.installation));
        }
        self.bound.note(stored.drawn);
        let is_ours = stored.owner == self.lease.owner();
        if stored.token > token || (stored.token == token && !is_ours) {
            self.handle_fenced(stored.token).await?;
            return Err(PublishError::Restart);
        }
        // Otherwise Redis has not seen the repair yet, regardless of the lost database's clock.
        let knows_repair = stored.flushed_in >= state.skipped_in;
        if stored.generation > state.generation && knows_repair {
            // A generation begins in the database first, so Redis cannot be ahead of it.
            self.begin(GenerationReason::WentBack(stored.token)).await
        } else if state.flushed_in > stored.flushed_in {
            self.begin(GenerationReason::Flushed).await
        } else if stored.generation != state.generation {
            self.begin(GenerationReason::Lost).await
        } else if stored.nodes != nodes {
            self.begin(GenerationReason::Nodes).await
        } else {
            self.writing = Some(WriteState {
                generation: state.generation,
                position: state.position,
                nodes,
            });
            Ok(())
        }
    }

    /// Handles a newer token in Redis: another replica has the lease by now, or the database is older than Redis.
    pub(super) async fn handle_fenced(&mut self, seen: u64) -> Result<(), PublishError> {
        counter!(PUBLISHER_FENCED).increment(1);
        self.stop_writing();
        // Another process can only have had our token if the database has issued it twice.
        if self.lease.token() == Some(seen) {
            self.lease.went_back(seen);
        }
        self.lease.ask(None).await?;
        let token = self.lease.token();
        if token.is_some_and(|token| token <= seen || self.lease.loss().is_some()) {
            self.lease.went_back(seen);
        }
        Ok(())
    }

    /// Begins a generation, in the database first, so that no link is denied by the feed before it.
    pub(super) async fn begin(&mut self, reason: GenerationReason) -> Result<(), PublishError> {
        self.stop_writing();
        let Some(generation) = self.begin_in_database(reason).await? else {
            return Ok(());
        };
        let bound = self.bound.current(&self.store).await?.bound;
        // Asked after the repair, which must not depend on Redis: later, no process may know that it is needed.
        let nodes = self.destination.nodes().await?;
        let stored = self.destination.stored_state().await?;
        let Some(token) = self.lease.token() else {
            return Ok(());
        };
        // This beat names the generation, but confirms no change: the changes in the outbox follow it. The next beat is
        // sent after all of them.
        let beat = Beat {
            bound,
            generation,
            number: self.next_number(),
            at: 0,
            age_millis: u32::MAX,
        };
        self.beat_at = Instant::now();
        let mut messages = vec![FeedMessage::Beat(beat)];
        if must_flush(self.lease.state(), stored.as_ref()) {
            messages.push(FeedMessage::Flush);
        }
        let mut writing = WriteState {
            generation,
            position: FeedPosition::START,
            nodes,
        };
        let order = Append {
            begins: true,
            ..self.order(token, &writing, Some((beat.number, &writing.nodes)))
        };
        match self.destination.append(&order, &messages).await? {
            Appended::At(position) => {
                writing.position = position;
                self.writing = Some(writing);
                // Where the database went back, other rows may get their numbers.
                self.unforgotten.clear();
            }
            // The repeated round finds out why.
            Appended::Fenced(_) | Appended::GoneBack(_) => {}
            Appended::Foreign(installation) => return Err(PublishError::Foreign(installation)),
        }
        Ok(())
    }

    /// Begins a generation in the database, and repairs it if it went back; `None` if another process has the lease.
    async fn begin_in_database(
        &mut self,
        reason: GenerationReason,
    ) -> Result<Option<u64>, PublishError> {
        if let GenerationReason::WentBack(token) = reason {
            self.lease.went_back(token);
        }
        // A database that went back is repaired, whatever the reason of the generation.
        let lost = self.lease.loss();
        let reason = lost.map_or(reason, GenerationReason::WentBack);
        let last_repair = self.repaired.filter(|_| lost.is_some());
        if last_repair.is_some_and(|at| at.elapsed() < REPAIR_PAUSE) {
            return Err(PublishError::WentBackAgain);
        }
        let Some(token) = self.lease.token() else {
            return Ok(None);
        };
        if lost.is_some() {
            self.note_stored_drawn().await;
        }
        let asked = Instant::now();
        let past = reason.past(self.bound.drawn());
        let Some(state) = self.store.begin_generation(token, past).await? else {
            self.lease.mark_lost();
            return Ok(None);
        };
        let generation = state.generation;
        self.lease.begin(asked, state);
        if lost.is_some() {
            self.repaired = Some(asked);
        }
        let reason = reason.as_str();
        counter!(FEED_GENERATIONS, "reason" => reason).increment(1);
        tracing::warn!(
            generation,
            reason,
            "beginning a new generation of the feed; caches will look every link up again"
        );
        Ok(Some(generation))
    }

    /// Merges the extent of drawn numbers in Redis, because the publisher that knew it may be gone. The repair does not wait for an
    /// unresponsive Redis.
    async fn note_stored_drawn(&mut self) {
        match self.destination.stored_state().await {
            Ok(Some(stored)) if stored.installation == self.lease.state().installation => {
                self.bound.note(stored.drawn);
            }
            Ok(_) => {}
            Err(error) => {
                tracing::warn!(%error, "reading the drawn numbers in Redis failed; repairing from those known to this process");
            }
        }
    }
}

/// True if caches have to drop everything, because the database went back or was flushed, and no flush was published since.
/// This is stored in the database, because the publisher that repaired it may be gone by then.
fn must_flush(state: &PublisherState, stored: Option<&StoredState>) -> bool {
    match stored {
        Some(stored) => state.flushed_in > 0 && state.flushed_in != stored.flushed_in,
        None => state.now.saturating_sub(state.flushed_in) < KEPT_MICROS,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cache_when_database_went_back_is_flushed_once() {
        const NOW: u64 = 10 * KEPT_MICROS;
        const RECENT: u64 = NOW - KEPT_MICROS + 1;
        for (flushed_in, stored, expected) in [
            (0, None, false),
            (0, Some(0), false),
            (7, Some(0), true),
            (7, Some(7), false),
            // From a lost database.
            (7, Some(8), true),
            (RECENT, None, true),
            (RECENT - 1, None, false),
            (NOW + 1, None, true),
        ] {
            let state = PublisherState {
                now: NOW,
                flushed_in,
                ..PublisherState::default()
            };
            let stored = stored.map(|flushed_in| StoredState {
                flushed_in,
                ..StoredState::default()
            });
            let is_owed = must_flush(&state, stored.as_ref());
            assert_eq!(is_owed, expected, "{flushed_in} {stored:?}");
        }
    }
}
