//! The publisher's operations: the outbox, and the row by which the replicas agree on the publisher and the
//! position of the feed.

mod state;

pub use state::{FeedKind, LeaseClaim, OTHER_KIND_WAIT_MILLIS, PublisherState};

use super::bounds;
use super::ids::skip_ids;
use super::issuers::ISSUERS;
use super::outbox::{OutboxRuns, PendingBatch};
use super::packed::Packed;
use crate::Store;
use edgelink_database::classes::Class;
use edgelink_database::columns::numbers;
use edgelink_database::dialect::{Dialect, GUARD};
use edgelink_database::error::{Fault, Remedy, StoreError};
use edgelink_database::run;
use edgelink_database::session::Session;
use edgelink_database::sql::{Sql, sql};
use edgelink_model::drawn::Drawn;
use edgelink_wire::FeedPosition;

/// Most sequences by which every issuer is advanced when the database went back by an unspecified number of links, so that
/// numbers of lost links are not issued again. It is advanced from its position, or from a later one known to have been
/// drawn; but at most half way to the bound, as raising the bound takes [`bounds::BOUND_LEAD_MILLIS`], and links are
/// created meanwhile.
pub const NUMBERS_SKIPPED: u64 = 1_000_000;

/// The rows of `counters` that store generations: [`PublisherState::skipped_in`], [`PublisherState::flushed_in`].
const SKIPPED: &str = "skipped_in";
const FLUSHED: &str = "flushed_in";

impl Store {
    /// Reads the row shared by the replicas.
    pub async fn publisher(&self) -> Result<PublisherState, StoreError> {
        let call = self
            .read("publisher", "reading the row of the publisher")
            .of(Class::Control);
        let read = run!(call, |session| read(session, "").await);
        read.inspect(|state| self.note(state))
    }

    /// The greatest [`PublisherState::token`] read by this process, without a query.
    #[must_use]
    pub fn newest_token(&self) -> u64 {
        self.newest.token()
    }

    /// [`PublisherState::skipped_in`] of the row with that token. Numbers drawn before it are no longer used:
    /// another process may have drawn the same ones from a database that had gone back.
    #[must_use]
    pub fn skipped_in(&self) -> u64 {
        self.newest.skipped_in()
    }

    /// Fails if the database went back behind `token` and is not repaired yet.
    pub(super) async fn check_token(
        &self,
        context: &'static str,
        token: u64,
    ) -> Result<(), StoreError> {
        if self.publisher().await?.token >= token {
            return Ok(());
        }
        Err(Fault::WentBack.into_error(context, Remedy::Later))
    }

    fn note(&self, state: &PublisherState) {
        if self.newest.note(state.token, state.skipped_in) {
            self.domains.clear();
        }
        self.outbox_mark.set(state.outbox_mark);
    }

    /// The oldest changes above the low-water mark, in up to `limit` batches, and the row of the publisher, read at one moment.
    pub async fn pending(&self, limit: u32) -> Result<Pending, StoreError> {
        self.pending_beside(&OutboxRuns::default(), limit).await
    }

    /// [`Self::pending`] without the batches of `published`, which are in the outbox still unless the database went back.
    pub async fn pending_beside(
        &self,
        published: &OutboxRuns,
        limit: u32,
    ) -> Result<Pending, StoreError> {
        let call = self
            .read("pending", "reading the outbox")
            .of(Class::Control);
        run!(call, |session| {
            // Only numbers are sorted: MariaDB would copy all rows with their contents into a temporary table.
            let columns = format!(
                ", (SELECT COUNT(*) FROM outbox WHERE {published_rows}) AS kept, \
                 (SELECT CAST(COALESCE(SUM(created_at), 0) AS UNSIGNED) FROM outbox WHERE {published_rows}) AS kept_times, \
                 o.id, o.link_keys, o.records, o.created_at",
                published_rows = published.condition(),
            );
            let index = session.dialect().force_index("PRIMARY");
            let join = format!(
                "LEFT JOIN (SELECT id FROM outbox{index} WHERE id > ?{} ORDER BY id LIMIT ?) AS oldest ON TRUE \
                 LEFT JOIN outbox o ON o.id = oldest.id WHERE p.id = 1",
                " AND id < ? OR id > ?".repeat(published.padded().count())
            );
            let beside = (published, limit);
            let rows = self.above_mark(session, &columns, &join, beside).await?;
            let mut pending = Pending::default();
            for row in rows {
                pending.state = row.publisher.into_state();
                pending.went_back = !published.are(row.kept, row.kept_times);
                if let (Some(id), Some(keys), Some(records)) = (row.id, row.link_keys, row.records)
                {
                    pending.batches.push(PendingBatch {
                        id,
                        keys: keys.into(),
                        records: records.into(),
                        created_at: row.created_at.unwrap_or_default(),
                    });
                }
            }
            pending.batches.sort_by_key(|batch| batch.id);
            Ok(pending)
        })
    }

    /// The keys of unpublished changes above the low-water mark, of up to `limit` batches, and the row of the publisher, read at one
    /// moment.
    pub async fn pending_keys(&self, limit: u32) -> Result<PendingKeys, StoreError> {
        let call = self
            .read("pending_keys", "reading the keys of the outbox")
            .of(Class::Lookups);
        run!(call, |session| {
            let join = "LEFT JOIN outbox o ON o.id > ? WHERE p.id = 1 LIMIT ?";
            let beside = (&OutboxRuns::default(), limit);
            let rows = self
                .above_mark(session, ", o.link_keys", join, beside)
                .await?;
            let mut pending = PendingKeys::default();
            for row in rows {
                pending.state = row.publisher.into_state();
                pending.keys.extend(row.link_keys.map(Packed::from));
            }
            Ok(pending)
        })
    }

    /// The row of the publisher with rows of the outbox above its mark. The cached mark is bound as a value, because no
    /// database looks up a range by a column; if it is above the mark in the row, the database has gone back, or another process has
    /// lowered the mark.
    async fn above_mark(
        &self,
        session: &mut Session,
        columns: &str,
        join: &str,
        (published, limit): (&OutboxRuns, u32),
    ) -> Result<Vec<PendingRow>, Fault> {
        loop {
            let mark = self.outbox_mark.get();
            let query = select(session.dialect(), columns, join);
            // The columns about published rows come twice, and the rows beside them once.
            let columns = if published.rows() == 0 { 0 } else { 2 };
            let query = (0..columns).fold(query, |query, _| query.bind_all(published.bounds()));
            let query = query.bind(mark).bind_all(published.bounds());
            let query = query.bind(limit);
            let rows: Vec<PendingRow> = session.fetch_all(query).await?;
            let Some(row) = rows.first() else {
                return Err(Fault::Sql(sqlx::Error::RowNotFound));
            };
            let state = &row.publisher.state;
            self.note(state);
            if state.outbox_mark >= mark {
                return Ok(rows);
            }
        }
    }

    /// Takes or renews the lease and raises the token. Returns the updated row, or `None` if another replica has the
    /// lease, or the claim has to wait because of its kind.
    pub async fn take_publisher_lease(
        &self,
        claim: &LeaseClaim<'_>,
    ) -> Result<Option<PublisherState>, StoreError> {
        let call = self
            .write("take_publisher_lease", "taking the publisher's lease")
            .of(Class::Control);
        run!(call, |session| {
            let mut state = begin_and_lock(session).await?;
            if !state.admits(claim) {
                session.rollback().await?;
                return Ok(None);
            }
            state.grant(claim);
            write_and_commit(session, &state).await?;
            self.note(&state);
            Ok(Some(state))
        })
    }

    /// Releases the lease before it expires, if `owner` has it.
    pub async fn release_publisher_lease(&self, owner: &str) -> Result<(), StoreError> {
        let call = self
            .write(
                "release_publisher_lease",
                "releasing the lease of the publisher",
            )
            .of(Class::Control);
        run!(call, |session| {
            let mut state = begin_and_lock(session).await?;
            if state.owner != owner {
                return session.rollback().await;
            }
            state.lease_until = 0;
            write_and_commit(session, &state).await
        })
    }

    /// Removes published batches, the last of them published as the entry at `position` or before, and raises the low-water mark of the
    /// outbox to `mark` if it is lower. Returns `false` without a change if `token` is not the newest one. It may be repeated.
    pub async fn forget_published(
        &self,
        token: u64,
        position: FeedPosition,
        published: &OutboxRuns,
        mark: u64,
    ) -> Result<bool, StoreError> {
        let call = self
            .write("forget_published", "clearing the outbox")
            .of(Class::Control);
        run!(call, |session| {
            // A late call never moves the position back.
            let greatest = session.dialect().greatest;
            let note = sql(format!(
                "UPDATE publisher SET position_millis = ?, position_sequence = ?, outbox_mark = {greatest}(outbox_mark, ?) \
                 WHERE id = 1 AND token = ? AND (position_millis < ? OR position_millis = ? AND position_sequence <= ?)"
            ));
            let (millis, sequence) = (position.millis, position.sequence);
            let note = note.bind_all([millis, sequence, mark, token, millis, millis, sequence]);
            let count = published.rows();
            if session.dialect().takes_scripts() {
                let mut script = format!("{}; ", session.dialect().begin);
                note.write_literally(&mut script);
                script.push_str(&format!("; SELECT IF(ROW_COUNT() > 0, 0, {GUARD})"));
                if let Some(removal) = published.removal() {
                    script.push_str("; ");
                    removal.write_literally(&mut script);
                }
                script.push_str("; ");
                return match session.commit_script::<(i64,)>(script, count, || {}).await {
                    Err(fault) if fault.is_refused_by_guard() => {
                        session.rollback().await?;
                        Ok(false)
                    }
                    committed => committed.map(|_| true),
                };
            }
            session.begin().await?;
            if session.execute(note).await? == 0 {
                session.rollback().await?;
                return Ok(false);
            }
            if let Some(removal) = published.removal() {
                session.execute(removal).await?;
            }
            session.commit(count).await?;
            Ok(true)
        })
    }

    /// Begins a generation without published changes. Returns the updated row, or `None` if `token` is not the newest.
    pub async fn begin_generation(
        &self,
        token: u64,
        past: Past,
    ) -> Result<Option<PublisherState>, StoreError> {
        let call = self
            .write("begin_generation", "beginning a generation")
            .of(Class::Control);
        run!(call, |session| {
            let mut state = begin_and_lock(session).await?;
            if state.token != token {
                session.rollback().await?;
                return Ok(None);
            }
            state.begin_generation();
            if past != Past::Kept {
                state.rev_floor = state.now.max(state.rev_floor);
            }
            if let Past::WentBack { token, drawn } = past {
                state.token = state.token.max(token) + 1;
                skip_numbers(session, &mut state, None, drawn).await?;
            }
            write_and_commit(session, &state).await?;
            self.note(&state);
            Ok(Some(state))
        })
    }

    /// Makes all caches, Redis included, drop everything: the publisher notices the new generation, and publishes one
    /// that invalidates them. Returns the updated row, and the numbers skipped.
    pub async fn flush(
        &self,
        reason: FlushReason,
    ) -> Result<(PublisherState, Option<Skipped>), StoreError> {
        run!(
            self.write("flush", "flushing the caches")
                .of(Class::Control),
            |session| {
                let mut state = begin_and_lock(session).await?;
                state.begin_generation();
                state.rev_floor = state.now.max(state.rev_floor);
                let skipped = match reason {
                    FlushReason::Caches => {
                        note_generation(session, FLUSHED, state.generation).await?;
                        None
                    }
                    FlushReason::Restored { links_since } => {
                        let drawn = Drawn::default();
                        Some(skip_numbers(session, &mut state, links_since, drawn).await?)
                    }
                };
                state.flushed_in = state.generation;
                write_and_commit(session, &state).await?;
                self.note(&state);
                Ok((state, skipped))
            }
        )
    }
}

/// Reason why all caches have to drop everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlushReason {
    /// Their records may be wrong.
    Caches,
    /// The database was restored from a backup: in addition, numbers that may have been issued since are skipped.
    Restored {
        /// Most links created since. `None` if unknown: then [`NUMBERS_SKIPPED`] applies.
        links_since: Option<u64>,
    },
}

/// Number of sequences by which issuers were advanced, and of ids skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// The least advance of an issuer.
    pub least: u64,
    /// The greatest advance of an issuer.
    pub greatest: u64,
    /// The least number of ids skipped in any table of tenants, users, domains and webhooks.
    pub ids: u64,
}

/// The outbox.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pending {
    /// The row, read at the same moment.
    pub state: PublisherState,
    /// The oldest batches, in the order in which they are to be published.
    pub batches: Vec<PendingBatch>,
    /// True if published rows are missing: the database has lost them.
    pub went_back: bool,
}

/// The keys in the outbox.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PendingKeys {
    /// The row, read at the same moment.
    pub state: PublisherState,
    /// The keys of each batch.
    pub keys: Vec<Packed>,
}

/// Relation of the database's past to the feed when a generation begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Past {
    /// The past matches the published changes.
    Kept,
    /// The past may differ from the published changes: records read from now on count as newer than all of these.
    Unknown,
    /// The database went back behind the published changes: in addition, a token above `token` is taken, and numbers that may have
    /// been issued since are skipped, at most [`NUMBERS_SKIPPED`].
    WentBack {
        /// The greatest known token.
        token: u64,
        /// Numbers drawn by then.
        drawn: Drawn,
    },
}

/// The row of the publisher as a query returns it.
#[derive(Debug, sqlx_macros::FromRow)]
struct PublisherRow {
    /// All fields except the position.
    #[sqlx(flatten)]
    state: PublisherState,
    position_millis: u64,
    position_sequence: u64,
}

/// The row of the publisher with a row of the outbox, or columns of it; `None` without a row, or for columns not selected.
#[derive(Debug, sqlx_macros::FromRow)]
struct PendingRow {
    #[sqlx(flatten)]
    publisher: PublisherRow,
    #[sqlx(default)]
    id: Option<u64>,
    link_keys: Option<Vec<u8>>,
    #[sqlx(default)]
    records: Option<Vec<u8>>,
    #[sqlx(default)]
    created_at: Option<u64>,
    #[sqlx(default)]
    kept: i64,
    #[sqlx(default)]
    kept_times: u64,
}

impl PublisherRow {
    fn into_state(self) -> PublisherState {
        PublisherState {
            position: FeedPosition::new(self.position_millis, self.position_sequence),
            ..self.state
        }
    }
}

/// A query for the row with the clock and other `columns`; `rest` follows the table. The clock is the first value.
fn select<'v>(dialect: &Dialect, columns: &str, rest: &str) -> Sql<'v> {
    let (now, clock) = dialect.clock();
    sql(format!(
        "SELECT {now} AS now, CAST(p.owner AS CHAR) AS owner, p.lease_until, p.token, p.generation, p.position_millis, \
         p.position_sequence, CAST(p.kind AS CHAR) AS kind, p.rev_floor, p.outbox_mark, CAST(p.installation AS CHAR) AS installation, \
         CAST(COALESCE((SELECT value FROM counters WHERE name = '{SKIPPED}'), 0) AS UNSIGNED) AS skipped_in, \
         CAST(COALESCE((SELECT MAX(value) FROM counters WHERE name IN ('{SKIPPED}', '{FLUSHED}')), 0) AS UNSIGNED) \
         AS flushed_in{columns} \
         FROM publisher p {rest}"
    ))
    .bind_all(clock)
}

/// Reads the row; `lock` is a locking clause, or empty.
async fn read(session: &mut Session, lock: &str) -> Result<PublisherState, Fault> {
    let query = select(session.dialect(), "", &format!("WHERE p.id = 1{lock}"));
    let row: PublisherRow = session.fetch_one(query).await?;
    Ok(row.into_state())
}

/// Begins a transaction, and locks the row until it ends.
async fn begin_and_lock(session: &mut Session) -> Result<PublisherState, Fault> {
    session.begin().await?;
    read(session, session.dialect().for_update).await
}

/// Replaces the row, except the installation, and commits.
async fn write_and_commit(session: &mut Session, state: &PublisherState) -> Result<(), Fault> {
    let update = sql(
        "UPDATE publisher SET owner = ?, lease_until = ?, token = ?, generation = ?, position_millis = ?, \
         position_sequence = ?, kind = ?, rev_floor = ? WHERE id = 1",
    );
    let update = update
        .bind(state.owner.as_str())
        .bind(state.lease_until)
        .bind(state.token)
        .bind(state.generation)
        .bind(state.position.millis)
        .bind(state.position.sequence)
        .bind(state.kind.as_str())
        .bind(state.rev_floor);
    session.execute(update).await?;
    session.commit(1).await
}

/// Advances all number sources of the database by `wanted`, or else beyond `drawn` by the rule of [`NUMBERS_SKIPPED`], and all ids, and
/// stores the generation. An issuer above the bound draws again once the publisher has raised it.
async fn skip_numbers(
    session: &mut Session,
    state: &mut PublisherState,
    wanted: Option<u64>,
    drawn: Drawn,
) -> Result<Skipped, Fault> {
    let mut skipped = advance_issuers(session, wanted, drawn).await?;
    skipped.ids = skip_ids(session, state.generation).await?;
    let update = session.dialect().on_duplicate("name");
    let (value, greatest) = (
        session.dialect().inserted("value"),
        session.dialect().greatest,
    );
    let wanted = wanted.unwrap_or(NUMBERS_SKIPPED);
    let counters = sql(format!(
        "INSERT INTO counters (name, value) VALUES ('numbers', ?){update} value = {greatest}(value + ?, {value})"
    ));
    let first = drawn.counted.saturating_add(wanted).min(i64::MAX as u64);
    let counters = counters.bind(first).bind(wanted);
    session.execute(counters).await?;
    note_generation(session, SKIPPED, state.generation).await?;
    state.skipped_in = state.generation;
    state.flushed_in = state.generation;
    Ok(skipped)
}

async fn advance_issuers(
    session: &mut Session,
    wanted: Option<u64>,
    drawn: Drawn,
) -> Result<Skipped, Fault> {
    // Every row is locked and written, so that none is drawn from meanwhile.
    let for_update = session.dialect().for_update;
    let next = format!("SELECT next FROM issuers ORDER BY issuer{for_update}");
    let before = numbers(session, sql(next.clone())).await?;
    let state = bounds::read(session).await?;
    let known = state.drawn;
    let (least, greatest) = (session.dialect().least, session.dialect().greatest);
    let advance = match wanted {
        Some(wanted) => sql("UPDATE issuers SET next = next + ?").bind(wanted),
        None => {
            if drawn.counts > known.counts {
                bounds::restore(session, drawn.counts).await?;
            }
            let issuers = u64::from(ISSUERS);
            // A bound raised just now, after an earlier repair for example, takes effect in a minute: beyond the effective one,
            // no link could be created until then.
            let end = known.counts.max(drawn.counts) / issuers;
            // Any issuer may have drawn the numbers missing in this copy of the database.
            let missing = drawn.sum.saturating_sub(known.sum);
            let furthest = drawn.allocated.div_ceil(issuers);
            let base = format!("{greatest}(next, {least}(next + ?, ?))");
            sql(format!(
                "UPDATE issuers SET next = {base} + {least}(?, ({greatest}(?, {base}) - {base}) >> 1)"
            ))
            .bind_all([missing, furthest, NUMBERS_SKIPPED, end])
            .bind_all([missing, furthest, missing, furthest])
        }
    };
    session.execute(advance).await?;
    let after = numbers(session, sql(next)).await?;
    let skipped = after
        .iter()
        .zip(&before)
        .map(|(after, before)| after - before);
    Ok(Skipped {
        least: skipped.clone().min().unwrap_or_default(),
        greatest: skipped.max().unwrap_or_default(),
        ids: 0,
    })
}

/// Stores a generation in the row with this name.
async fn note_generation(
    session: &mut Session,
    name: &'static str,
    generation: u64,
) -> Result<(), Fault> {
    let update = session.dialect().overwrite("name", ["value"]);
    let note = sql("INSERT INTO counters (name, value) VALUES (?, ?)").push(&update);
    session
        .execute(note.bind(name).bind(generation))
        .await
        .map(drop)
}
