//! The publisher's operations: the outbox, and the row in which the replicas agree on which of them publishes and how
//! far the feed has come.

use super::bounds;
use super::calls::{Store, run};
use super::dialect::Dialect;
use super::error::{Fault, StoreError};
use super::issuers::ISSUERS;
use super::leases::MAX_LEASE_MILLIS;
use super::outbox::PendingBatch;
use super::packed::Packed;
use super::session::Session;
use super::sql::{Sql, sql};
use edgelink_wire::FeedPosition;

/// By how many sequences every issuer is advanced at most when the database went back, so that numbers of lost links
/// are not issued again. An issuer is advanced by half of what is left to the bound at most: raising the bound takes
/// [`bounds::BOUND_LEAD_MILLIS`], and links are created meanwhile.
pub const NUMBERS_SKIPPED: u64 = 1_000_000;

/// How long a publisher of another kind waits after the last lease has ended, in milliseconds, unless it was given
/// back.
pub const OTHER_KIND_WAIT_MILLIS: u64 = 30_000;

/// The kind of feed that a publisher writes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FeedKind {
    /// Its own process.
    Local,
    /// Redis, for all replicas that have the same one.
    Redis,
}

impl Store {
    /// The row that the replicas agree on.
    pub async fn publisher(&self) -> Result<PublisherState, StoreError> {
        let call = self.read("publisher", "reading the row of the publisher");
        let read = run!(call, |session| read(session, "").await);
        read.inspect(|state| self.note(state))
    }

    /// The greatest [`PublisherState::token`] that this process has read, without asking the database.
    #[must_use]
    pub fn newest_token(&self) -> u64 {
        self.newest.token()
    }

    /// [`PublisherState::skipped_in`] of the row with that token. Numbers drawn before it are not used any more:
    /// another process may have drawn the same from a database that had gone back.
    #[must_use]
    pub fn skipped_in(&self) -> u64 {
        self.newest.skipped_in()
    }

    /// An error if the database went back behind `token` and is not repaired yet.
    pub(super) async fn check_token(
        &self,
        context: &'static str,
        token: u64,
    ) -> Result<(), StoreError> {
        if self.publisher().await?.token >= token {
            return Ok(());
        }
        Err(StoreError {
            context,
            transient: true,
            source: "the database went back, and the publisher has not skipped the numbers of before yet".into(),
        })
    }

    fn note(&self, state: &PublisherState) {
        self.newest.note(state.token, state.skipped_in);
    }

    /// The oldest changes that are not published yet, in `limit` batches at most, and the row as of the same moment.
    pub async fn pending(&self, limit: u32) -> Result<Pending, StoreError> {
        run!(self.read("pending", "reading the outbox"), |session| {
            // Sorted by numbers alone: MariaDB would copy all rows with their contents into a temporary table.
            let query = select(
                session.dialect(),
                ", o.id, o.link_keys, o.records",
                "LEFT JOIN (SELECT id FROM outbox ORDER BY id LIMIT ?) AS oldest ON TRUE \
                 LEFT JOIN outbox o ON o.id = oldest.id WHERE p.id = 1",
            );
            let mut pending = Pending::default();
            for row in session.fetch_all::<PendingRow>(query.bind(limit)).await? {
                pending.state = row.publisher.into_state();
                if let (Some(id), Some(keys), Some(records)) = (row.id, row.link_keys, row.records)
                {
                    pending.batches.push(PendingBatch {
                        id,
                        keys: keys.into(),
                        records: records.into(),
                    });
                }
            }
            pending.batches.sort_by_key(|batch| batch.id);
            self.note(&pending.state);
            Ok(pending)
        })
    }

    /// The keys of changes that are not published yet, of `limit` batches at most, and the row as of the same moment.
    pub async fn pending_keys(&self, limit: u32) -> Result<PendingKeys, StoreError> {
        let call = self.read("pending_keys", "reading the keys of the outbox");
        run!(call, |session| {
            let query = select(
                session.dialect(),
                ", o.link_keys",
                "LEFT JOIN outbox o ON o.id >= 0 WHERE p.id = 1 LIMIT ?",
            );
            let mut pending = PendingKeys::default();
            for row in session.fetch_all::<PendingRow>(query.bind(limit)).await? {
                pending.state = row.publisher.into_state();
                pending.keys.extend(row.link_keys.map(Packed::from));
            }
            self.note(&pending.state);
            Ok(pending)
        })
    }

    /// Takes or renews the lease and raises the token; the row after that, or `None` if another replica has the lease,
    /// or its kind has to wait.
    pub async fn take_publisher_lease(
        &self,
        claim: &LeaseClaim<'_>,
    ) -> Result<Option<PublisherState>, StoreError> {
        let call = self.write("take_publisher_lease", "taking the publisher's lease");
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

    /// Gives the lease back before its time if `owner` has it.
    pub async fn release_publisher_lease(&self, owner: &str) -> Result<(), StoreError> {
        let call = self.write(
            "release_publisher_lease",
            "giving back the publisher's lease",
        );
        run!(call, |session| {
            let mut state = begin_and_lock(session).await?;
            if state.owner != owner {
                return session.rollback().await;
            }
            state.lease_until = 0;
            write_and_commit(session, &state).await
        })
    }

    /// Removes batches that are published, the last of them as the entry at `position`. `false`, and none is removed, if
    /// `token` is not the newest one.
    pub async fn forget_published(
        &self,
        token: u64,
        position: FeedPosition,
        ids: &[u64],
    ) -> Result<bool, StoreError> {
        let call = self.write("forget_published", "clearing the outbox");
        run!(call, |session| {
            session.begin().await?;
            // A late call never sets the position back.
            let note = sql(
                "UPDATE publisher SET position_millis = ?, position_sequence = ? WHERE id = 1 AND token = ? \
             AND (position_millis < ? OR position_millis = ? AND position_sequence <= ?)",
            );
            let (millis, sequence) = (position.millis, position.sequence);
            let note = note.bind_all([millis, sequence, token, millis, millis, sequence]);
            if session.execute(note).await? == 0 {
                session.rollback().await?;
                return Ok(false);
            }
            let remove = sql("DELETE FROM outbox WHERE id IN ").list(ids);
            session.execute(remove).await?;
            session.commit(ids.len()).await?;
            Ok(true)
        })
    }

    /// Begins a generation in which no change is published yet; the row after that, or `None` if `token` is not the newest.
    pub async fn begin_generation(
        &self,
        token: u64,
        past: Past,
    ) -> Result<Option<PublisherState>, StoreError> {
        let call = self.write("begin_generation", "beginning a generation");
        run!(call, |session| {
            let mut state = begin_and_lock(session).await?;
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
                skip_numbers(session, state.generation).await?;
                state.skipped_in = state.generation;
            }
            write_and_commit(session, &state).await?;
            self.note(&state);
            Ok(Some(state))
        })
    }
}

/// The row that the replicas agree on.
#[derive(Clone, Debug, Default, PartialEq, Eq, sqlx_macros::FromRow)]
pub struct PublisherState {
    /// The database's clock when the row was read: unix time in microseconds. What was committed before was visible.
    pub now: u64,
    /// The process that has, or had, the lease.
    pub owner: String,
    /// When the lease ends: unix time in milliseconds, 0 after it was given back.
    pub lease_until: u64,
    /// Grows with every take and renewal of the lease.
    pub token: u64,
    /// The generation of the feed; 0 before the first.
    pub generation: u64,
    /// The last entry of that generation that is known to be published; the start if there is none.
    #[sqlx(skip)]
    pub position: FeedPosition,
    /// The kind of feed that the owner writes to, as [`FeedKind::as_str`] says it; empty before the first.
    pub kind: String,
    /// No greater revision was published of a link that has no row, or of which the row is older.
    pub rev_floor: u64,
    /// The name of this database.
    pub installation: String,
    /// The generation in which numbers were skipped last, because the database had gone back; 0 if they never were.
    pub skipped_in: u64,
}

/// The outbox.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pending {
    /// The row as of the same moment.
    pub state: PublisherState,
    /// The oldest batches, in the order in which they are to be published.
    pub batches: Vec<PendingBatch>,
}

/// The keys in the outbox.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PendingKeys {
    /// The row as of the same moment.
    pub state: PublisherState,
    /// The keys of each batch.
    pub keys: Vec<Packed>,
}

/// The claim of a process to the lease.
#[derive(Clone, Copy, Debug)]
pub struct LeaseClaim<'a> {
    /// A name that no other process has.
    pub owner: &'a str,
    /// The kind of feed that it writes to.
    pub kind: FeedKind,
    /// For how long, in milliseconds.
    pub lease_millis: u64,
    /// The generation that it publishes in, and the last entry that is known to be published there.
    pub published: Option<(u64, FeedPosition)>,
    /// The greatest token before the database went back; `None` if it is not known to have. A lease of the same kind
    /// with no greater token is void, because its owner does not know.
    pub lost: Option<u64>,
}

/// What is known of the database's past when a generation begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Past {
    /// The past is what was published.
    Kept,
    /// The past may differ from what was published: what is read from now on counts as newer than all of that.
    Unknown,
    /// The database went back behind what was published: in addition, a token above `token` is taken, and no number is
    /// issued that may have been before.
    WentBack {
        /// The greatest token that is known.
        token: u64,
    },
}

impl FeedKind {
    /// The name in the database.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Redis => "redis",
        }
    }
}

impl PublisherState {
    /// Whether the lease had expired when the row was read.
    #[must_use]
    pub fn has_expired(&self) -> bool {
        self.lease_end() <= self.now / 1000
    }

    /// When the lease expires or has expired, in unix milliseconds.
    fn lease_end(&self) -> u64 {
        let most = (self.now / 1000).saturating_add(MAX_LEASE_MILLIS);
        Some(self.lease_until)
            .filter(|until| *until <= most)
            .unwrap_or(0)
    }

    /// Whether that claim may take the lease.
    #[must_use]
    pub fn admits(&self, claim: &LeaseClaim<'_>) -> bool {
        let now = self.now / 1000;
        let is_same_kind = self.kind.is_empty() || self.kind == claim.kind.as_str();
        let is_void = is_same_kind && claim.lost.is_some_and(|lost| self.token <= lost);
        if self.owner == claim.owner || is_void {
            return true;
        }
        let end = self.lease_end();
        let is_free = is_same_kind || end == 0;
        let wait = if is_free { 0 } else { OTHER_KIND_WAIT_MILLIS };
        end.saturating_add(wait) <= now
    }

    /// Gives the lease to a claim that is admitted.
    fn grant(&mut self, claim: &LeaseClaim<'_>) {
        claim.owner.clone_into(&mut self.owner);
        claim.kind.as_str().clone_into(&mut self.kind);
        self.lease_until = (self.now / 1000).saturating_add(claim.lease_millis);
        self.token += 1;
        let published = claim
            .published
            .filter(|(generation, _)| *generation == self.generation);
        // A late call never sets the position back.
        self.position =
            published.map_or(self.position, |(_, position)| position.max(self.position));
    }
}

/// The row of the publisher as a query returns it.
#[derive(Debug, sqlx_macros::FromRow)]
struct PublisherRow {
    /// All fields but the position.
    #[sqlx(flatten)]
    state: PublisherState,
    position_millis: u64,
    position_sequence: u64,
}

/// That row with a row of the outbox, or with columns of it; `None` if there is no row, or the column was not selected.
#[derive(Debug, sqlx_macros::FromRow)]
struct PendingRow {
    #[sqlx(flatten)]
    publisher: PublisherRow,
    #[sqlx(default)]
    id: Option<u64>,
    link_keys: Option<Vec<u8>>,
    #[sqlx(default)]
    records: Option<Vec<u8>>,
}

impl PublisherRow {
    fn into_state(self) -> PublisherState {
        PublisherState {
            position: FeedPosition::new(self.position_millis, self.position_sequence),
            ..self.state
        }
    }
}

/// A query for the row with the clock, other `columns`, and what follows the table. Its clock is the first value.
fn select<'v>(dialect: &Dialect, columns: &str, rest: &str) -> Sql<'v> {
    let (now, clock) = dialect.clock();
    sql(format!(
        "SELECT {now} AS now, CAST(p.owner AS CHAR) AS owner, p.lease_until, p.token, p.generation, p.position_millis, \
         p.position_sequence, CAST(p.kind AS CHAR) AS kind, p.rev_floor, CAST(p.installation AS CHAR) AS installation, \
         CAST(COALESCE((SELECT value FROM counters WHERE name = 'skipped_in'), 0) AS UNSIGNED) AS skipped_in{columns} \
         FROM publisher p {rest}"
    ))
    .bind_all(clock)
}

/// The row, with what follows the query: a lock, if any.
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

/// Advances all number sources of the database by [`NUMBERS_SKIPPED`], issuers by half of what is left to the bound at
/// most, and notes the generation.
async fn skip_numbers(session: &mut Session, generation: u64) -> Result<(), Fault> {
    let end = bounds::read(session).await?.bound / u64::from(ISSUERS);
    let (least, greatest) = (session.dialect().least, session.dialect().greatest);
    let issuers = sql(format!(
        "UPDATE issuers SET next = next + {least}(?, ({greatest}(?, next) - next) >> 1)"
    ));
    session
        .execute(issuers.bind(NUMBERS_SKIPPED).bind(end))
        .await?;
    let update = session.dialect().on_duplicate("name");
    let value = session.dialect().inserted("value");
    let counters = sql(format!(
        "INSERT INTO counters (name, value) VALUES ('numbers', ?){update} value = value + {value}"
    ));
    session.execute(counters.bind(NUMBERS_SKIPPED)).await?;
    let note = sql(format!(
        "INSERT INTO counters (name, value) VALUES ('skipped_in', ?){update} value = {value}"
    ));
    session.execute(note.bind(generation)).await.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(owner: &str, kind: FeedKind) -> LeaseClaim<'_> {
        LeaseClaim {
            owner,
            kind,
            lease_millis: 1,
            published: None,
            lost: None,
        }
    }

    #[test]
    fn a_lease_goes_to_another_kind_only_if_it_was_given_back_or_is_long_over() {
        let state = |lease_until: u64, now: u64| PublisherState {
            now: now * 1000,
            owner: "one".to_owned(),
            lease_until,
            kind: "redis".to_owned(),
            ..PublisherState::default()
        };
        for (lease_until, now, redis, local) in [
            (1000, 999, false, false),
            (1000, 1000, true, false),
            (1000, 30_999, true, false),
            (1000, 31_000, true, true),
            (0, 1, true, true),
            // The clock was ahead when the publisher died.
            (60_001, 1, false, false),
            (60_002, 1, true, true),
            (u64::MAX, 1, true, true),
        ] {
            let state = state(lease_until, now);
            assert!(state.admits(&claim("one", FeedKind::Redis)));
            assert_eq!(state.admits(&claim("two", FeedKind::Redis)), redis);
            assert_eq!(state.admits(&claim("two", FeedKind::Local)), local);
        }
        let held = PublisherState {
            token: 7,
            ..state(1000, 1)
        };
        for (lost, redis) in [(6, false), (7, true), (8, true)] {
            let claim = |kind| LeaseClaim {
                lost: Some(lost),
                ..claim("two", kind)
            };
            assert_eq!(held.admits(&claim(FeedKind::Redis)), redis);
            assert!(!held.admits(&claim(FeedKind::Local)));
        }
        let fresh = PublisherState::default();
        assert!(fresh.admits(&claim("two", FeedKind::Local)));
    }
}
