//! The store over any database that has [`Statements`].

use super::calls::Connections;
use super::change;
use super::create::{self, ChunkLimits, Outcome};
use super::domains::DomainKeys;
use super::fault::Fault;
use super::publisher::Newest;
use super::revisions::LastRevisions;
use super::rows::{FoundRow, KeyRow, LinkRow, NewRow};
use super::session::Session;
use super::statements::{ListRange, Statements};
use crate::model::Link;
use crate::store::{
    ApiKeyRow, ChangeError, ChangeFn, CheckFn, CreateError, ISSUERS, ListCursor, ListQuery,
    NewLink, PublisherStore, Segment, Store, StoreError,
};
use async_trait::async_trait;
use edgelink_wire::{Domain, LinkKey, Record};
use sqlx::Database;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// How long the lease for migrating lasts without being renewed.
const MIGRATION_LEASE: Duration = Duration::from_secs(20);

/// A [`Store`] in a SQL database.
pub(in crate::store) struct SqlStore<DB: Database> {
    connections: Connections<DB>,
    max_rows: usize,
    max_bytes: Arc<AtomicUsize>,
    domains: DomainKeys,
    last_revisions: LastRevisions,
    newest: Newest,
}

impl<DB: Database> SqlStore<DB>
where
    Session<DB>: Statements,
{
    /// A store over these connections, where one INSERT may carry `max_rows` links and `max_bytes`, which follows the
    /// server's settings.
    pub(in crate::store) fn new(
        connections: Connections<DB>,
        max_rows: usize,
        max_bytes: Arc<AtomicUsize>,
    ) -> Self {
        Self {
            connections,
            max_rows,
            max_bytes,
            domains: DomainKeys::default(),
            last_revisions: LastRevisions::default(),
            newest: Newest::default(),
        }
    }

    /// The connections to the database.
    pub(super) fn connections(&self) -> &Connections<DB> {
        &self.connections
    }

    async fn take_migration(&self, owner: &str, time: Duration) -> Result<bool, StoreError> {
        let milliseconds = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        self.connections
            .write("asking who migrates the schema", |mut session| async move {
                let taken = session.take_migration(owner, milliseconds).await;
                (taken, session)
            })
            .await
    }

    /// What the database has said last of revisions.
    pub(super) fn last_revisions(&self) -> &LastRevisions {
        &self.last_revisions
    }

    /// The newest that was read of the row of the publisher.
    pub(super) fn newest(&self) -> &Newest {
        &self.newest
    }

    /// An error if the database went back behind `token`, and was not repaired yet.
    pub(super) async fn check_token(
        &self,
        context: &'static str,
        token: u64,
    ) -> Result<(), StoreError> {
        if self.publisher().await?.token >= token {
            return Ok(());
        }
        let reason =
            "the database went back, and the publisher has not skipped the numbers of before yet";
        Err(StoreError {
            context,
            transient: true,
            source: reason.into(),
        })
    }

    /// The database's clock, unix milliseconds.
    pub(super) async fn now(&self) -> Result<u64, StoreError> {
        let last = self.last_revisions();
        if let Some(guess) = last.guess() {
            return Ok(guess.now_millis());
        }
        let revisions = self
            .connections
            .read("asking for the time", |mut session| async move {
                (session.revisions().await, session)
            })
            .await?;
        last.note(revisions);
        Ok(revisions.now_millis())
    }

    pub(super) async fn domain_key(&self, domain: &Domain) -> Result<u32, StoreError> {
        if let Some(id) = self.domains.get(domain) {
            return Ok(id);
        }
        let id = self
            .connections
            .write("adding a domain", |mut session| async move {
                (change::add_domain(&mut session, domain).await, session)
            })
            .await?;
        self.domains.insert(domain.clone(), id);
        Ok(id)
    }

    pub(super) async fn new_rows(
        &self,
        links: Vec<NewLink>,
        now: u64,
    ) -> Result<Vec<NewRow>, StoreError> {
        let mut rows = Vec::with_capacity(links.len());
        for link in links {
            check_numbers(&link)?;
            let domain_id = self.domain_key(&link.key.domain).await?;
            rows.push(NewRow::new(link, domain_id, now));
        }
        Ok(rows)
    }

    pub(super) fn limits(&self) -> ChunkLimits {
        ChunkLimits {
            rows: self.max_rows,
            bytes: self.max_bytes.load(Ordering::Relaxed),
        }
    }
}

#[async_trait]
impl<DB: Database> Store for SqlStore<DB>
where
    Session<DB>: Statements,
{
    async fn migrate(&self) -> Result<(), StoreError> {
        let owner = format!("{:016x}", getrandom::u64().unwrap_or_default());
        while !self.take_migration(&owner, MIGRATION_LEASE).await? {
            tracing::info!("waiting for another instance to migrate the schema");
            tokio::time::sleep(MIGRATION_LEASE / 20).await;
        }
        let migrating = self
            .connections
            .write("migrating the schema", |mut session| async move {
                (session.migrate().await, session)
            });
        let renewing = async {
            loop {
                tokio::time::sleep(MIGRATION_LEASE / 4).await;
                if let Err(error) = self.take_migration(&owner, MIGRATION_LEASE).await {
                    tracing::warn!(%error, "the lease for migrating the schema is renewed later");
                }
            }
        };
        let migrated = tokio::select! {
            migrated = migrating => migrated,
            () = renewing => Ok(()),
        };
        // Given back, or else it ends by itself.
        let _ = self.take_migration(&owner, Duration::ZERO).await;
        migrated
    }

    async fn ping(&self) -> Result<(), StoreError> {
        self.connections
            .read("asking for a sign of life", |mut session| async move {
                (session.ping().await, session)
            })
            .await
    }

    async fn draw_segment(&self, issuer: u16, step: u32) -> Result<Option<Segment>, StoreError> {
        let context = "drawing a segment";
        if issuer >= ISSUERS {
            return Err(refuse(context, format!("there is no issuer {issuer}")));
        }
        let token = self.newest.token();
        let drawn = self
            .connections
            .write(context, |mut session| async move {
                (session.draw(issuer, step, token).await, session)
            })
            .await?;
        if drawn.is_none() {
            self.check_token(context, token).await?;
        }
        Ok(drawn)
    }

    async fn return_segment(&self, rest: Segment) -> Result<bool, StoreError> {
        let token = self.newest.token();
        self.connections
            .write("giving back a segment", |mut session| async move {
                (session.give_back(rest, token).await, session)
            })
            .await
    }

    async fn create_links(
        &self,
        links: Vec<NewLink>,
    ) -> Result<Vec<Result<Link, CreateError>>, StoreError> {
        if links.is_empty() {
            return Ok(Vec::new());
        }
        let now = self.now().await?;
        let rows = self.new_rows(links, now).await?;
        let (new, limits) = (rows.as_slice(), self.limits());
        let last = self.last_revisions();
        let outcomes = self
            .connections
            .write("creating links", |mut session| async move {
                let outcomes = create::create_links(&mut session, new, limits, last, now).await;
                (outcomes, session)
            })
            .await?;
        Ok(rows.into_iter().zip(outcomes).map(answer).collect())
    }

    async fn are_taken(&self, links: &[(u64, LinkKey)]) -> Result<Vec<bool>, StoreError> {
        let mut looked_up = Vec::with_capacity(links.len());
        for (id, key) in links {
            looked_up.push((*id, self.domain_key(&key.domain).await?, &key.code));
        }
        let links = looked_up.as_slice();
        self.connections
            .read("looking for free codes", |mut session| async move {
                (create::are_taken(&mut session, links).await, session)
            })
            .await
    }

    async fn find_link(&self, key: &LinkKey) -> Result<Option<Link>, StoreError> {
        self.connections
            .read("finding a link", |mut session| async move {
                let row = session.find_link(key).await;
                (row.and_then(live_link), session)
            })
            .await
    }

    async fn resolve(&self, key: &LinkKey) -> Result<Record<String>, StoreError> {
        self.connections
            .read("resolving a link", |mut session| async move {
                let row = session.look_up(key).await;
                (row.and_then(record), session)
            })
            .await
    }

    async fn update_link(
        &self,
        key: &LinkKey,
        change: ChangeFn,
    ) -> Result<Option<Result<Link, ChangeError>>, StoreError> {
        let change = &change;
        self.connections
            .write("changing a link", |mut session| async move {
                let answer = change::update_link(&mut session, key, change).await;
                (answer, session)
            })
            .await
    }

    async fn delete_link(
        &self,
        key: &LinkKey,
        check: CheckFn,
    ) -> Result<Option<Result<(), ChangeError>>, StoreError> {
        let check = &check;
        self.connections
            .write("deleting a link", |mut session| async move {
                let answer = change::delete_link(&mut session, key, check).await;
                (answer, session)
            })
            .await
    }

    async fn list_links(&self, query: &ListQuery) -> Result<Vec<Link>, StoreError> {
        self.connections
            .read("listing links", |mut session| async move {
                let rows = list(&mut session, query).await;
                (rows.and_then(links), session)
            })
            .await
    }

    async fn insert_api_key(&self, key: &ApiKeyRow) -> Result<(), StoreError> {
        self.connections
            .write("adding an API key", |mut session| async move {
                (session.insert_api_key(key).await, session)
            })
            .await
    }

    async fn find_api_key(&self, id: &str) -> Result<Option<ApiKeyRow>, StoreError> {
        self.connections
            .read("finding an API key", |mut session| async move {
                let row = session.find_api_key(id).await;
                let key = row.and_then(|row| row.map(KeyRow::into_key).transpose());
                (key, session)
            })
            .await
    }

    async fn has_api_keys(&self) -> Result<bool, StoreError> {
        self.connections
            .read("looking for API keys", |mut session| async move {
                (session.has_api_keys().await, session)
            })
            .await
    }

    async fn list_api_keys(&self) -> Result<Vec<ApiKeyRow>, StoreError> {
        self.connections
            .read("listing API keys", |mut session| async move {
                let rows = session.list_api_keys().await;
                (rows.and_then(keys), session)
            })
            .await
    }

    async fn delete_api_key(&self, id: &str) -> Result<bool, StoreError> {
        self.connections
            .write("forgetting an API key", |mut session| async move {
                (session.delete_api_key(id).await, session)
            })
            .await
    }
}

/// A page of links: first those of the very time at which the page before has ended.
async fn list<S: Statements>(session: &mut S, query: &ListQuery) -> Result<Vec<LinkRow>, Fault> {
    let domain = query.domain.as_ref();
    let Some(ListCursor { created_at, id }) = query.after else {
        return session
            .list_links(domain, ListRange::ALL, query.limit)
            .await;
    };
    let at = ListRange::At {
        created_at,
        below: id,
    };
    let mut rows = session.list_links(domain, at, query.limit).await?;
    let missing = query
        .limit
        .saturating_sub(u32::try_from(rows.len()).unwrap_or(u32::MAX));
    if missing > 0 {
        let before = ListRange::Before(created_at);
        rows.extend(session.list_links(domain, before, missing).await?);
    }
    Ok(rows)
}

/// Databases without unsigned numbers end at 2^63 - 1, so all of them do.
fn check_numbers(link: &NewLink) -> Result<(), StoreError> {
    let times = [link.content.valid_since, link.content.valid_until];
    let numbers = times.into_iter().flatten().chain([link.id]);
    match numbers.max() {
        Some(largest) if i64::try_from(largest).is_err() => {
            let reason = format!("{largest} is larger than any number of a link");
            Err(refuse("creating links", reason))
        }
        _ => Ok(()),
    }
}

fn refuse(context: &'static str, reason: String) -> StoreError {
    StoreError {
        context,
        transient: false,
        source: reason.into(),
    }
}

fn live_link(row: Option<LinkRow>) -> Result<Option<Link>, Fault> {
    row.filter(|row| !row.is_tombstone())
        .map(LinkRow::into_link)
        .transpose()
}

pub(super) fn links(rows: Vec<LinkRow>) -> Result<Vec<Link>, Fault> {
    rows.into_iter().map(LinkRow::into_link).collect()
}

fn keys(rows: Vec<KeyRow>) -> Result<Vec<ApiKeyRow>, Fault> {
    rows.into_iter().map(KeyRow::into_key).collect()
}

/// What caches are told. Of a link without a row, they may remember all up to the floor.
fn record(found: FoundRow) -> Result<Record<String>, Fault> {
    let FoundRow { revisions, link } = found;
    let Some(row) = link else {
        return Ok(Record::Absent {
            rev: revisions.effective(0),
        });
    };
    let rev = revisions.effective(row.rev());
    if row.is_tombstone() {
        return Ok(Record::Absent { rev });
    }
    let link = Link {
        rev,
        ..row.into_link()?
    };
    Ok(link.record().to_owned_record())
}

pub(super) fn answer((row, outcome): (NewRow, Outcome)) -> Result<Link, CreateError> {
    let rev = outcome?;
    Ok(Link { rev, ..row.link })
}
