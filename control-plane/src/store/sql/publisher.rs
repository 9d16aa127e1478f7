//! The publisher's part of the store.

use super::SqlStore;
use super::fault::Fault;
use super::relay::text;
use super::rows::Unsigned;
use super::session::Session;
use super::statements::Statements;
use crate::store::{
    ISSUERS, LeaseClaim, NUMBERS_SKIPPED, OutboxSize, Packed, Past, Pending, PendingBatch,
    PendingKeys, PublisherState, PublisherStore, StoreError,
};
use async_trait::async_trait;
use edgelink_wire::FeedPosition;
use sqlx::Database;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The newest that this process has read of the row. A row with a lower token is that of a database that went back, and nothing
/// is drawn from it: others may have been given the same numbers. Once the publisher has repaired it, its token is higher, and
/// the numbers behind those of before.
///
/// A process that has read nothing of what was lost draws until then, as long as no other one has repaired the database.
#[derive(Debug, Default)]
pub(in crate::store) struct Newest(Mutex<Known>);

/// What is kept of a row.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    token: u64,
    /// Of the row with that token: generations of a database that is lost may be higher.
    skipped_in: u64,
}

impl Newest {
    /// The greatest token.
    pub(in crate::store) fn token(&self) -> u64 {
        self.known().token
    }

    fn note(&self, state: &PublisherState) {
        let mut known = self.known();
        if state.token >= known.token {
            *known = Known {
                token: state.token,
                skipped_in: state.skipped_in,
            };
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The row of the publisher as a query answers it.
#[derive(Debug, sqlx_macros::FromRow)]
pub(in crate::store) struct PublisherRow {
    now: Unsigned,
    owner: Vec<u8>,
    lease_until: Unsigned,
    token: Unsigned,
    generation: Unsigned,
    position_millis: Unsigned,
    position_sequence: Unsigned,
    kind: Vec<u8>,
    rev_floor: Unsigned,
    installation: Vec<u8>,
    skipped_in: Option<Unsigned>,
}

/// That row with a row of the outbox, if there is any.
#[derive(Debug, sqlx_macros::FromRow)]
pub(in crate::store) struct PendingRow {
    #[sqlx(flatten)]
    publisher: PublisherRow,
    id: Option<Unsigned>,
    link_keys: Option<Vec<u8>>,
    records: Option<Vec<u8>>,
}

/// That row with the keys of a row of the outbox, if there is any.
#[derive(Debug, sqlx_macros::FromRow)]
pub(in crate::store) struct PendingKeysRow {
    #[sqlx(flatten)]
    publisher: PublisherRow,
    link_keys: Option<Vec<u8>>,
}

/// How much is in the outbox as a query answers it.
#[derive(Debug, sqlx_macros::FromRow)]
pub(in crate::store) struct OutboxRow {
    now: Unsigned,
    oldest: Option<Unsigned>,
    rows_waiting: Unsigned,
}

/// The columns of [`PublisherRow`] but the time.
macro_rules! publisher_columns {
    () => {
        "p.owner, p.lease_until, p.token, p.generation, p.position_millis, p.position_sequence, p.kind, p.rev_floor, \
         p.installation, (SELECT value FROM counters WHERE name = 'skipped_in') AS skipped_in"
    };
}
pub(in crate::store) use publisher_columns;

/// The single statements for the publisher, in one dialect. Those that write are part of a transaction.
pub(in crate::store) trait PublisherStatements: Send {
    /// The row.
    fn publisher(&mut self) -> impl Future<Output = Result<PublisherRow, Fault>> + Send;

    /// The row, locked until the end of the transaction.
    fn lock_publisher(&mut self) -> impl Future<Output = Result<PublisherRow, Fault>> + Send;

    /// Replaces the row, but for what the installation is.
    fn write_publisher(
        &mut self,
        state: &PublisherState,
    ) -> impl Future<Output = Result<(), Fault>> + Send;

    /// The oldest rows of the outbox in any order, by one statement with the row.
    fn pending(
        &mut self,
        limit: u32,
    ) -> impl Future<Output = Result<Vec<PendingRow>, Fault>> + Send;

    /// The keys of the outbox, by one statement with the row.
    fn pending_keys(
        &mut self,
        limit: u32,
    ) -> impl Future<Output = Result<Vec<PendingKeysRow>, Fault>> + Send;

    /// How much is in the outbox.
    fn outbox_size(&mut self) -> impl Future<Output = Result<OutboxRow, Fault>> + Send;

    /// Notes how far was published; `false` if `token` is not the newest one, or if more is noted.
    fn note_published(
        &mut self,
        token: u64,
        position: FeedPosition,
    ) -> impl Future<Output = Result<bool, Fault>> + Send;

    /// Removes rows of the outbox.
    fn forget_changes(&mut self, ids: &[u64]) -> impl Future<Output = Result<(), Fault>> + Send;

    /// Moves all number sources of the database on by `count`, issuers by half of what is left to the sequence `end` at most, and
    /// notes the generation in which that is.
    fn skip_numbers(
        &mut self,
        count: u64,
        end: u64,
        generation: u64,
    ) -> impl Future<Output = Result<(), Fault>> + Send;
}

impl PublisherRow {
    fn into_state(self) -> Result<PublisherState, Fault> {
        Ok(PublisherState {
            now: self.now.0,
            owner: text(self.owner)?,
            lease_until: self.lease_until.0,
            token: self.token.0,
            generation: self.generation.0,
            position: FeedPosition::new(self.position_millis.0, self.position_sequence.0),
            kind: text(self.kind)?,
            rev_floor: self.rev_floor.0,
            installation: text(self.installation)?,
            skipped_in: self.skipped_in.map_or(0, |generation| generation.0),
        })
    }
}

fn pending(rows: Vec<PendingRow>) -> Result<Pending, Fault> {
    let mut pending = Pending::default();
    for row in rows {
        pending.state = row.publisher.into_state()?;
        if let (Some(id), Some(keys), Some(records)) = (row.id, row.link_keys, row.records) {
            pending.batches.push(PendingBatch {
                id: id.0,
                keys: keys.into(),
                records: records.into(),
            });
        }
    }
    pending.batches.sort_by_key(|batch| batch.id);
    Ok(pending)
}

fn pending_keys(rows: Vec<PendingKeysRow>) -> Result<PendingKeys, Fault> {
    let mut pending = PendingKeys::default();
    for row in rows {
        pending.state = row.publisher.into_state()?;
        pending.keys.extend(row.link_keys.map(Packed::from));
    }
    Ok(pending)
}

impl From<OutboxRow> for OutboxSize {
    fn from(row: OutboxRow) -> Self {
        let oldest = row.oldest.map_or(u64::MAX, |at| at.0);
        Self {
            rows: row.rows_waiting.0,
            age_millis: (row.now.0 / 1000).saturating_sub(oldest),
        }
    }
}

/// Takes the lease where the claim is admitted.
async fn take_lease<S: Statements>(
    session: &mut S,
    claim: &LeaseClaim<'_>,
) -> Result<Option<PublisherState>, Fault> {
    session.begin().await?;
    let mut state = session.lock_publisher().await?.into_state()?;
    if !state.admits(claim) {
        session.rollback().await?;
        return Ok(None);
    }
    claim.owner.clone_into(&mut state.owner);
    claim.kind.as_str().clone_into(&mut state.kind);
    state.lease_until = (state.now / 1000).saturating_add(claim.milliseconds);
    state.token += 1;
    let published = claim
        .published
        .filter(|(generation, _)| *generation == state.generation);
    // An order that comes late never sets it back.
    state.position = published.map_or(state.position, |(_, position)| position.max(state.position));
    session.write_publisher(&state).await?;
    session.commit(1).await?;
    Ok(Some(state))
}

async fn release_lease<S: Statements>(session: &mut S, owner: &str) -> Result<(), Fault> {
    session.begin().await?;
    let mut state = session.lock_publisher().await?.into_state()?;
    if state.owner != owner {
        return session.rollback().await;
    }
    state.lease_until = 0;
    session.write_publisher(&state).await?;
    session.commit(1).await
}

async fn forget<S: Statements>(
    session: &mut S,
    token: u64,
    position: FeedPosition,
    ids: &[u64],
) -> Result<bool, Fault> {
    session.begin().await?;
    if !session.note_published(token, position).await? {
        session.rollback().await?;
        return Ok(false);
    }
    session.forget_changes(ids).await?;
    session.commit(ids.len()).await?;
    Ok(true)
}

async fn begin_generation<S: Statements>(
    session: &mut S,
    token: u64,
    past: Past,
) -> Result<Option<PublisherState>, Fault> {
    session.begin().await?;
    let mut state = session.lock_publisher().await?.into_state()?;
    if state.token != token {
        session.rollback().await?;
        return Ok(None);
    }
    state.generation = state.now.max(state.generation + 1);
    state.position = FeedPosition::START;
    if past != Past::Kept {
        state.rev_floor = state.now.max(state.rev_floor);
    }
    if let Past::WentBack { token } = past {
        state.token = state.token.max(token) + 1;
        let bound = session.bound_state().await?.bound();
        session
            .skip_numbers(
                NUMBERS_SKIPPED,
                bound / u64::from(ISSUERS),
                state.generation,
            )
            .await?;
        state.skipped_in = state.generation;
    }
    session.write_publisher(&state).await?;
    session.commit(1).await?;
    Ok(Some(state))
}

#[async_trait]
impl<DB: Database> PublisherStore for SqlStore<DB>
where
    Session<DB>: Statements,
{
    fn newest_token(&self) -> u64 {
        self.newest().token()
    }

    fn skipped_in(&self) -> u64 {
        self.newest().known().skipped_in
    }

    async fn publisher(&self) -> Result<PublisherState, StoreError> {
        let read = self
            .connections()
            .read("reading who publishes", |mut session| async move {
                let row = session.publisher().await;
                (row.and_then(PublisherRow::into_state), session)
            })
            .await;
        read.inspect(|state| self.newest().note(state))
    }

    async fn pending(&self, limit: u32) -> Result<Pending, StoreError> {
        let read = self
            .connections()
            .read("reading the outbox", |mut session| async move {
                let rows = PublisherStatements::pending(&mut session, limit).await;
                (rows.and_then(pending), session)
            })
            .await;
        read.inspect(|pending| self.newest().note(&pending.state))
    }

    async fn pending_keys(&self, limit: u32) -> Result<PendingKeys, StoreError> {
        let read = self
            .connections()
            .read("reading the keys of the outbox", |mut session| async move {
                let rows = PublisherStatements::pending_keys(&mut session, limit).await;
                (rows.and_then(pending_keys), session)
            })
            .await;
        read.inspect(|pending| self.newest().note(&pending.state))
    }

    async fn outbox_size(&self) -> Result<OutboxSize, StoreError> {
        self.connections()
            .read("measuring the outbox", |mut session| async move {
                let row = PublisherStatements::outbox_size(&mut session).await;
                (row.map(OutboxSize::from), session)
            })
            .await
    }

    async fn take_publisher_lease(
        &self,
        claim: &LeaseClaim<'_>,
    ) -> Result<Option<PublisherState>, StoreError> {
        let taken = self
            .connections()
            .write("taking the publisher's lease", |mut session| async move {
                (take_lease(&mut session, claim).await, session)
            })
            .await;
        taken.inspect(|state| state.iter().for_each(|state| self.newest().note(state)))
    }

    async fn release_publisher_lease(&self, owner: &str) -> Result<(), StoreError> {
        self.connections()
            .write(
                "giving back the publisher's lease",
                |mut session| async move { (release_lease(&mut session, owner).await, session) },
            )
            .await
    }

    async fn forget_published(
        &self,
        token: u64,
        position: FeedPosition,
        ids: &[u64],
    ) -> Result<bool, StoreError> {
        self.connections()
            .write("clearing the outbox", |mut session| async move {
                let is_done = forget(&mut session, token, position, ids).await;
                (is_done, session)
            })
            .await
    }

    async fn begin_generation(
        &self,
        token: u64,
        past: Past,
    ) -> Result<Option<PublisherState>, StoreError> {
        let begun = self
            .connections()
            .write("beginning a generation", |mut session| async move {
                (begin_generation(&mut session, token, past).await, session)
            })
            .await;
        begun.inspect(|state| state.iter().for_each(|state| self.newest().note(state)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_were_skipped_last_where_the_row_with_the_newest_token_says() {
        let newest = Newest::default();
        for (token, skipped_in, expected) in [
            (5, 0, (5, 0)),
            // The clock was ahead when this one was repaired, which is lost.
            (7, 900, (7, 900)),
            (6, 0, (7, 900)),
            (8, 300, (8, 300)),
            (7, 900, (8, 300)),
        ] {
            newest.note(&PublisherState {
                token,
                skipped_in,
                ..PublisherState::default()
            });
            let known = *newest.known();
            assert_eq!((known.token, known.skipped_in), expected);
        }
    }
}
