//! A round of the publisher: writes the outbox to Redis and the feed, in an order in which no change is lost.

use super::error::PublishError;
use super::generation::GenerationReason;
use super::messages::messages;
use super::{Publisher, WriteState};
use edgelink_redis::{Append, Appended};
use edgelink_settings::telemetry::prometheus::PUBLISHER_CHANGES;
use edgelink_store::{BoundState, MAX_BATCH_BYTES, OutboxRuns, PendingBatch, PublisherState};
use edgelink_wire::Record;
use edgelink_wire::feed::{Beat, FeedMessage};
use edgelink_wire::record::RecordBytes;
use metrics::counter;
use std::time::Duration;
use tokio::time::Instant;

/// Bytes that are published and deleted together, bounded so that few changes are repeated when a publisher dies.
const GROUP_BYTES: usize = 4 * MAX_BATCH_BYTES;

/// Changes in one message to Redis.
const AT_ONCE: usize = 256;

/// Numbers of beats for each token.
const BEATS_A_TOKEN: u64 = 1 << 20;

/// Time after which published rows are deleted from the outbox.
const FORGET_AFTER: Duration = Duration::from_millis(500);

/// Published rows that are deleted at once, or runs of their numbers: what is in between is read in each round.
const MAX_UNFORGOTTEN: usize = 256;
const MAX_RUNS: usize = 32;

/// Published rows that are still in the outbox.
#[derive(Debug, Default)]
pub(super) struct UnforgottenRows {
    rows: OutboxRuns,
    /// When the first of them was published.
    since: Option<Instant>,
}

impl UnforgottenRows {
    fn note(&mut self, batches: &[PendingBatch]) {
        for batch in batches {
            self.rows.add(batch.id, batch.created_at);
        }
        self.since.get_or_insert_with(Instant::now);
    }

    /// The time at which they are to be deleted; `None` without any.
    pub(super) fn forget_at(&self) -> Option<Instant> {
        self.since.map(|since| since + FORGET_AFTER)
    }

    /// Makes them be published again.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    fn is_full(&self) -> bool {
        self.rows.rows() >= MAX_UNFORGOTTEN || self.rows.count() >= MAX_RUNS
    }
}

/// A read of the outbox.
#[derive(Clone, Copy, Debug)]
struct OutboxRead {
    /// Time at which it began.
    asked: Instant,
    /// Time at which it ended.
    answered: Instant,
    /// The database's clock when it began: unix time in microseconds.
    at: u64,
}

impl OutboxRead {
    /// Upper bound of its age, in milliseconds.
    fn age_millis(self) -> u32 {
        let millis = self.asked.elapsed().as_micros().div_ceil(1000);
        u32::try_from(millis).unwrap_or(u32::MAX)
    }
}

impl Publisher {
    /// Publishes the outbox, the hot links, and a beat if it is due.
    pub(super) async fn publish_all(&mut self) -> Result<(), PublishError> {
        self.resume_generation().await?;
        loop {
            // Read first, so that the beat after the read is no older than necessary.
            let mut bound = self.due_bound().await?;
            let asked = Instant::now();
            let published = &self.unforgotten.rows;
            let pending = self.store.pending_beside(published, self.config.batch);
            let pending = pending.await?;
            let read = OutboxRead {
                asked,
                answered: Instant::now(),
                at: pending.state.now,
            };
            self.verify_lease(asked, pending.state).await?;
            if pending.went_back {
                self.handle_lost_changes().await?;
            }
            for batches in groups(&pending.batches) {
                self.publish(batches, read).await?;
            }
            let count = u32::try_from(pending.batches.len()).unwrap_or(u32::MAX);
            if count < self.config.batch {
                self.forget(FORGET_AFTER).await?;
                self.publish_hot().await?;
                // A beat may have become due meanwhile.
                if bound.is_none() {
                    bound = self.due_bound().await?;
                }
                let Some(bound) = bound else {
                    return Ok(());
                };
                self.look_for_late_changes().await?;
                return self.beat(read, bound).await;
            }
        }
    }

    /// Repeats the round from the oldest change below the low-water mark of the outbox, if there is one.
    async fn look_for_late_changes(&mut self) -> Result<(), PublishError> {
        let (token, _) = self.writing()?;
        let mark = self.lease.state().outbox_mark;
        let Some(row) = self.low_water.look(&self.store, mark).await else {
            return Ok(());
        };
        tracing::info!(
            row,
            mark,
            "found a change committed long after later ones; publishing it now"
        );
        self.low_water.clear();
        self.store.lower_outbox_mark(token, row).await?;
        Err(PublishError::Restart)
    }

    /// Checks that the row shows this process's lease and generation, and that the database did not go back.
    async fn verify_lease(
        &mut self,
        asked: Instant,
        state: PublisherState,
    ) -> Result<(), PublishError> {
        let generation = self.writing.as_ref().map(|writing| writing.generation);
        let is_ours = Some(state.token) == self.lease.token();
        let is_ours = is_ours && Some(state.generation) == generation;
        let is_older = self.lease.note(asked, state);
        if is_ours && !is_older {
            return Ok(());
        }
        // Also if the answer to a renewal was lost.
        self.stop_writing();
        self.lease.ask(None).await?;
        Err(PublishError::Restart)
    }

    /// Handles a database that has lost changes which were published.
    async fn handle_lost_changes(&mut self) -> Result<(), PublishError> {
        let (token, _) = self.writing()?;
        self.stop_writing();
        self.lease.went_back(token);
        self.lease.ask(None).await?;
        Err(PublishError::Restart)
    }

    /// Publishes a group, which is deleted from the outbox later.
    async fn publish(
        &mut self,
        batches: &[PendingBatch],
        read: OutboxRead,
    ) -> Result<(), PublishError> {
        if !self.hold_lease().await? || self.lease.loss().is_some() {
            return Err(PublishError::Restart);
        }
        let messages = messages(batches, self.lease.state().rev_floor);
        for some in messages.chunks(AT_ONCE) {
            let (_, writing) = self.writing()?;
            self.destination.cache(writing.generation, some).await?;
            self.append(some, None).await?;
            self.log_published(some, read);
            self.hot.note(some);
        }
        counter!(PUBLISHER_CHANGES).increment(messages.len() as u64);
        self.unforgotten.note(batches);
        if self.unforgotten.is_full() {
            self.forget(Duration::ZERO).await?;
        }
        Ok(())
    }

    /// Deletes what is published from the outbox, if the first of it was published so long ago: once for many groups, because it costs
    /// the database a transaction. A publisher that takes over before publishes it again.
    pub(super) async fn forget(&mut self, after: Duration) -> Result<(), PublishError> {
        let since = self.unforgotten.since;
        if since.is_none_or(|since| since.elapsed() < after) {
            return Ok(());
        }
        let (token, writing) = self.writing()?;
        let (generation, position) = (writing.generation, writing.position);
        // If the answer is lost, it is unknown whether they are deleted: those that are left are published again.
        let published = std::mem::take(&mut self.unforgotten).rows;
        // Ordered by number: all that were read up to the last one are removed.
        let mark = self.low_water.removed(published.last(), Instant::now());
        let forgotten = self
            .store
            .forget_published(token, position, &published, mark);
        let forgotten = forgotten.await;
        if !matches!(forgotten, Ok(true)) {
            // After a failure the database may carry it out later: with the next token it is refused, or was done before.
            self.stop_writing();
            self.lease.mark_lost();
            forgotten?;
            return Err(PublishError::Restart);
        }
        self.lease.note_position(generation, position);
        Ok(())
    }

    /// Logs the published keys, the cause of the round, and the time taken by the database and by Redis.
    fn log_published(&self, messages: &[FeedMessage<'_>], read: OutboxRead) {
        if !tracing::enabled!(tracing::Level::DEBUG) {
            return;
        }
        let (woken, at) = self.wakeup;
        let woken = woken.as_str();
        let store_ms = read.answered.saturating_duration_since(at).as_millis();
        let redis_ms = read.answered.elapsed().as_millis();
        for key in messages.iter().filter_map(FeedMessage::changed_key) {
            tracing::debug!(%key, %woken, store_ms, redis_ms, "a change is published");
        }
    }

    /// Publishes the links that have become hot.
    async fn publish_hot(&mut self) -> Result<(), PublishError> {
        let links = self.hot.take().await;
        for some in links.chunks(AT_ONCE) {
            let encode = |(_, record): &(_, Record<String>)| RecordBytes::of(&record.as_deref());
            let records: Vec<_> = some.iter().map(encode).collect();
            let messages = some.iter().zip(&records);
            let messages: Vec<FeedMessage<'_>> = messages
                .map(|((key, _), record)| FeedMessage::Put {
                    key,
                    record: record.as_deref(),
                    hot: true,
                })
                .collect();
            self.append(&messages, None).await?;
        }
        Ok(())
    }

    /// The bound for a beat; `None` if no beat is due.
    async fn due_bound(&mut self) -> Result<Option<BoundState>, PublishError> {
        if Instant::now() < self.beat_at {
            return Ok(None);
        }
        Ok(Some(self.bound.current(&self.store).await?))
    }

    /// Sends the beat which states that everything in `read` is published.
    async fn beat(&mut self, read: OutboxRead, bound: BoundState) -> Result<(), PublishError> {
        let nodes = self.destination.nodes().await?;
        let (_, writing) = self.writing()?;
        let generation = writing.generation;
        if writing.nodes != nodes {
            self.begin(GenerationReason::Nodes).await?;
            return Err(PublishError::Restart);
        }
        let beat = Beat {
            bound: bound.bound,
            generation,
            number: self.next_number(),
            at: read.at,
            age_millis: read.age_millis(),
        };
        self.append(&[FeedMessage::Beat(beat)], Some((beat.number, &nodes)))
            .await?;
        self.beat_at = Instant::now() + self.config.heartbeat_ms;
        if !bound.is_published {
            self.store.mark_bound_published(bound.bound).await?;
        }
        Ok(())
    }

    /// The number of the next beat, above all earlier ones of any process.
    pub(super) fn next_number(&mut self) -> u64 {
        let token = self.lease.token().unwrap_or(0);
        let first = token.saturating_mul(BEATS_A_TOKEN);
        self.number = first.max(self.number.saturating_add(1));
        self.number
    }

    /// Appends messages to the feed; begins a generation if Redis has lost the last write.
    async fn append(
        &mut self,
        messages: &[FeedMessage<'_>],
        beat: Option<(u64, &str)>,
    ) -> Result<(), PublishError> {
        let (token, writing) = self.writing()?;
        let order = self.order(token, writing, beat);
        let appended = self.destination.append(&order, messages).await?;
        match appended {
            Appended::At(position) => {
                if let Some(writing) = &mut self.writing {
                    writing.position = position;
                }
                return Ok(());
            }
            Appended::Fenced(token) => self.handle_fenced(token).await?,
            Appended::Foreign(installation) => return Err(PublishError::Foreign(installation)),
            Appended::GoneBack(what) => {
                tracing::warn!(
                    what,
                    "Redis has lost the last write; beginning a new generation"
                );
                let reason = match what.as_str() {
                    "state" => GenerationReason::Empty,
                    _ => GenerationReason::Lost,
                };
                self.begin(reason).await?;
            }
        }
        Err(PublishError::Restart)
    }

    /// The conditions under which messages are appended.
    pub(super) fn order<'a>(
        &'a self,
        token: u64,
        writing: &'a WriteState,
        beat: Option<(u64, &'a str)>,
    ) -> Append<'a> {
        let state = self.lease.state();
        Append {
            token,
            owner: self.lease.owner(),
            installation: &state.installation,
            generation: writing.generation,
            after: writing.position,
            begins: false,
            flushed_in: state.flushed_in,
            beat,
            drawn: self.bound.drawn(),
        }
    }

    /// The token and the generation; the round is repeated without either.
    fn writing(&self) -> Result<(u64, &WriteState), PublishError> {
        let writing = self.lease.token().zip(self.writing.as_ref());
        writing.ok_or(PublishError::Restart)
    }
}

/// Splits batches into groups that are published together, of at most [`GROUP_BYTES`] or of one batch.
fn groups(batches: &[PendingBatch]) -> impl Iterator<Item = &[PendingBatch]> {
    let mut bytes = 0;
    batches.chunk_by(move |batch, next| {
        bytes += batch.size();
        let fits = bytes + next.size() <= GROUP_BYTES;
        if !fits {
            bytes = 0;
        }
        fits
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use edgelink_store::Packed;

    #[test]
    fn group_when_batches_are_large_stays_within_its_bytes() {
        let batch = |size| PendingBatch {
            id: 0,
            keys: Packed::from(vec![0; size]),
            records: Packed::default(),
            created_at: 0,
        };
        let sizes = [1, GROUP_BYTES - 1, 1, GROUP_BYTES + 1, 1, 1];
        let batches = sizes.map(batch);
        let lengths: Vec<usize> = groups(&batches).map(<[_]>::len).collect();
        assert_eq!(lengths, [2, 1, 1, 2]);
        assert_eq!(groups(&[]).count(), 0);
    }
}
