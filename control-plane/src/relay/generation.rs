//! The generations of the feed: what the publisher finds with a new lease, and when another one begins.

use super::lease::Hold;
use super::outlet::RelayError;
use super::{Relay, Step, Writing};
use crate::redis::{Append, Appended, StoredState};
use crate::store::{FeedKind, Past, PublisherState};
use crate::telemetry::prometheus::{FEED_GENERATIONS, PUBLISHER_FENCED};
use edgelink_wire::FeedPosition;
use edgelink_wire::feed::{Beat, FeedMessage};
use metrics::counter;
use std::time::Duration;
use tokio::time::Instant;

/// At least so long after a repair of a database that went back, this process does not repair it again: a copy of the database
/// keeps the name of its installation, and two copies that claim one Redis would repair themselves in turn. Each repair skips half
/// of what is left below the bound at most, so that there is something to issue until the bound has risen, however often that is.
const REPAIR_PAUSE: Duration = Duration::from_secs(10);

/// For how long caches may keep what they were told before the database went back, in microseconds, where it is not known what they
/// were told since.
const KEPT_MICROS: u64 = 24 * 3600 * 1_000_000;

/// Why a generation begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    /// It is the feed of this process, which has just taken the lease.
    Local,
    /// Redis has nothing of ours.
    Empty,
    /// Redis is not as it was left.
    Lost,
    /// Another process has taken the place of a master of Redis.
    Nodes,
    /// The database is older than what was published.
    WentBack(u64),
}

impl Reason {
    fn as_str(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Empty => "empty",
            Self::Lost => "lost",
            Self::Nodes => "nodes",
            Self::WentBack(_) => "database",
        }
    }

    /// Whatever Redis does not know, a cache elsewhere may have been told by a database that is not this one any more.
    fn past(self) -> Past {
        match self {
            Self::Local | Self::Empty => Past::Unknown,
            Self::Lost | Self::Nodes => Past::Kept,
            Self::WentBack(token) => Past::WentBack { token },
        }
    }
}

impl Relay {
    /// Finds out, with a new lease, whether the feed goes on where the last publisher left it.
    pub(super) async fn take_up(&mut self) -> Result<Step, RelayError> {
        if self.lease.token().is_none() {
            return Ok(Step::Again);
        }
        if self.writing.is_some() {
            return Ok(Step::On);
        }
        if let Some(token) = self.lease.lost() {
            self.begin(Reason::WentBack(token)).await?;
            return Ok(Step::On);
        }
        if self.outlet.kind() == FeedKind::Local {
            self.begin(Reason::Local).await?;
            return Ok(Step::On);
        }
        let nodes = self.outlet.nodes().await?;
        let Some(stored) = self.outlet.stored_state().await? else {
            self.begin(Reason::Empty).await?;
            return Ok(Step::On);
        };
        let state = self.lease.state().clone();
        if stored.installation != state.installation {
            return Err(RelayError::Foreign(stored.installation));
        }
        let token = self.lease.token().unwrap_or(0);
        let is_ours = stored.owner == self.lease.owner();
        if stored.token > token || (stored.token == token && !is_ours) {
            return self.fenced(stored.token).await;
        }
        // Otherwise it is behind the one that it was not told of yet, whatever the clock of the lost database was.
        let is_told = stored.skipped_in >= state.skipped_in;
        if stored.generation > state.generation && is_told {
            // It begins in the database first.
            self.begin(Reason::WentBack(stored.token)).await?;
        } else if stored.generation != state.generation {
            self.begin(Reason::Lost).await?;
        } else if stored.nodes != nodes {
            self.begin(Reason::Nodes).await?;
        } else {
            self.writing = Some(Writing {
                generation: state.generation,
                position: state.position,
                nodes,
            });
        }
        Ok(Step::On)
    }

    /// Redis has seen this newer token. Either another replica has the lease by now, or the database is older than Redis.
    pub(super) async fn fenced(&mut self, seen: u64) -> Result<Step, RelayError> {
        counter!(PUBLISHER_FENCED).increment(1);
        self.stop_writing();
        // No other process can have had the token that is ours, unless the database has given it out twice.
        let is_twice = self.lease.token() == Some(seen);
        if is_twice {
            self.lease.went_back(seen);
        }
        match self.lease.ask(None).await? {
            Hold::Not => self.lease.lose(),
            Hold::WentBack(token) => self.begin(Reason::WentBack(token.max(seen))).await?,
            Hold::Still | Hold::Fresh => {
                if self.lease.token().is_some_and(|token| token <= seen) {
                    self.begin(Reason::WentBack(seen)).await?;
                }
            }
        }
        Ok(Step::Again)
    }

    /// Begins a generation, in the database first, so that nothing is denied by the feed before it.
    pub(super) async fn begin(&mut self, reason: Reason) -> Result<(), RelayError> {
        self.stop_writing();
        if let Reason::WentBack(token) = reason {
            self.lease.went_back(token);
        }
        // Until it is repaired, it is, whatever else has happened meanwhile.
        let reason = self.lease.lost().map_or(reason, Reason::WentBack);
        if matches!(reason, Reason::WentBack(_)) {
            let is_again = |at: Instant| at.elapsed() < REPAIR_PAUSE;
            if self.repaired.is_some_and(is_again) {
                return Err(RelayError::WentBackAgain);
            }
        }
        let Some(token) = self.lease.token() else {
            return Ok(());
        };
        let asked = Instant::now();
        let Some(state) = self.store.begin_generation(token, reason.past()).await? else {
            self.lease.lose();
            return Ok(());
        };
        let generation = state.generation;
        self.lease.begin(asked, state);
        if matches!(reason, Reason::WentBack(_)) {
            self.repaired = Some(asked);
        }
        counter!(FEED_GENERATIONS, "reason" => reason.as_str()).increment(1);
        tracing::warn!(
            generation,
            reason = reason.as_str(),
            "a generation of the feed begins"
        );
        let bound = self.bound.current(self.store.as_ref()).await?;
        // After the repair, which has to be made even if Redis does not answer: perhaps no process knows of it later.
        let nodes = self.outlet.nodes().await?;
        let stored = self.outlet.stored_state().await?;
        self.writing = Some(Writing {
            generation,
            position: FeedPosition::START,
            nodes,
        });
        // It names the generation, and says of nothing that it is published: what waits in the outbox comes behind it, and some of
        // that may have changed again since. The next beat is sent once all of it is there.
        let beat = Beat {
            bound: bound.bound,
            generation,
            number: self.next_number(),
            at: 0,
            age_millis: u32::MAX,
        };
        self.beat_at = Instant::now();
        self.begin_outside(beat, stored.as_ref()).await
    }

    async fn begin_outside(
        &mut self,
        beat: Beat,
        stored: Option<&StoredState>,
    ) -> Result<(), RelayError> {
        let (Some(token), Some(writing)) = (self.lease.token(), self.writing.take()) else {
            return Ok(());
        };
        let order = Append {
            begins: true,
            ..self.order(token, &writing, Some((beat.number, &writing.nodes)))
        };
        let mut messages = vec![FeedMessage::Beat(beat)];
        if must_flush(self.lease.state(), stored) {
            messages.push(FeedMessage::Flush);
        }
        match self.outlet.append(&order, &messages).await? {
            Appended::At(position) => {
                self.writing = Some(Writing {
                    position,
                    ..writing
                });
            }
            // The round begins again, and finds out why.
            Appended::Fenced(_) | Appended::GoneBack(_) => {}
            Appended::Foreign(installation) => return Err(RelayError::Foreign(installation)),
        }
        Ok(())
    }
}

/// Whether caches have to drop everything, because the database went back and they were not told of it where that is published.
/// That is in the database, because the publisher that has repaired it may be gone by then.
fn must_flush(state: &PublisherState, stored: Option<&StoredState>) -> bool {
    match stored {
        Some(stored) => state.skipped_in > 0 && state.skipped_in != stored.skipped_in,
        None => state.now.saturating_sub(state.skipped_in) < KEPT_MICROS,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caches_drop_everything_until_they_were_told_to_since_the_database_went_back() {
        const NOW: u64 = 10 * KEPT_MICROS;
        const RECENT: u64 = NOW - KEPT_MICROS + 1;
        for (skipped_in, stored, expected) in [
            (0, None, false),
            (0, Some(0), false),
            (7, Some(0), true),
            (7, Some(7), false),
            // Of a database that was lost.
            (7, Some(8), true),
            (RECENT, None, true),
            (RECENT - 1, None, false),
            (NOW + 1, None, true),
        ] {
            let state = PublisherState {
                now: NOW,
                skipped_in,
                ..PublisherState::default()
            };
            let stored = stored.map(|skipped_in| StoredState {
                skipped_in,
                ..StoredState::default()
            });
            let is_owed = must_flush(&state, stored.as_ref());
            assert_eq!(is_owed, expected, "{skipped_in} {stored:?}");
        }
    }
}
