//! Purges expired links and old tombstones, in batches.

use super::events::{EventWriter, LinkEvent};
use super::outbox::OutboxBatches;
use super::rows::links_by_id;
use super::terms;
use super::visits;
use crate::Store;
use edgelink_database::classes::Class;
use edgelink_database::columns::numbers;
use edgelink_database::error::{Fault, StoreError};
use edgelink_database::revisions::RevisionBasis;
use edgelink_database::run;
use edgelink_database::session::Session;
use edgelink_database::sql::sql;
use edgelink_wire::Record;

impl Store {
    /// Deletes up to `limit` links that expired at least `grace_seconds` ago by the database's clock. Returns their number.
    /// Like any deletion, it is published and leaves a tombstone. Target, title, tags and details
    /// are removed at once.
    pub async fn purge_expired(&self, grace_seconds: u64, limit: u32) -> Result<u64, StoreError> {
        let call = self
            .write("sweep_expired", "deleting expired links")
            .of(Class::Background);
        let events = self.events.as_deref();
        let swept = run!(call, |session| sweep(session, grace_seconds, limit, events)
            .await);
        self.notify_listener(&[]);
        swept
    }

    /// Counts the links that [`Store::purge_expired`] would delete, up to `limit`.
    pub async fn count_expired(&self, grace_seconds: u64, limit: u32) -> Result<u64, StoreError> {
        let call = self
            .read("count_expired", "counting expired links")
            .of(Class::Background);
        run!(call, |session| {
            let dialect = session.dialect();
            let (now, index) = (
                dialect.now_seconds,
                dialect.force_index("links_valid_until"),
            );
            let query = sql(format!(
                "SELECT COUNT(*) FROM (SELECT id FROM links{index} WHERE valid_until <= {now} - ? \
                 AND deleted_at IS NULL LIMIT ?) AS expired"
            ));
            let query = query.bind(grace_seconds.cast_signed()).bind(limit);
            let (count,): (i64,) = session.fetch_one(query).await?;
            Ok(count.cast_unsigned())
        })
    }

    /// Removes up to `limit` tombstones of links deleted at least `kept_millis` ago by the database's clock. Returns their
    /// number. The floor of revisions covers theirs: a new link with the key gets a greater one. Their
    /// clicks are removed first; `None` if only some of these are.
    pub async fn purge_tombstones(
        &self,
        kept_millis: u64,
        limit: u32,
    ) -> Result<Option<u64>, StoreError> {
        let call = self
            .write("purge_tombstones", "purging tombstones")
            .of(Class::Background);
        run!(call, |session| purge(session, kept_millis, limit).await)
    }
}

async fn sweep(
    session: &mut Session,
    grace: u64,
    limit: u32,
    events: Option<&EventWriter>,
) -> Result<u64, Fault> {
    session.begin().await?;
    let dialect = session.dialect();
    let (now, for_update, greatest) = (dialect.now_seconds, dialect.for_update, dialect.greatest);
    let index = dialect.force_index("links_valid_until");
    let query = sql(format!(
        "SELECT id FROM links{index} WHERE valid_until <= {now} - ? AND deleted_at IS NULL \
         ORDER BY valid_until LIMIT ?{for_update}"
    ));
    let query = query.bind(grace.cast_signed()).bind(limit);
    let ids = numbers(session, query).await?;
    if ids.is_empty() {
        session.rollback().await?;
        return Ok(0);
    }
    let revisions = RevisionBasis::read(session).await?;
    let (first, now) = (revisions.first(), revisions.now_millis());
    let mut changes = OutboxBatches::default();
    let links = links_by_id(session, &ids).await?;
    for link in &links {
        let rev = revisions.after(link.rev);
        changes.push(&link.key(), &Record::Absent { rev });
    }
    // The hash too, so that the link is not found by its removed target.
    let empty = sql(format!(
        "UPDATE links SET url = '', url_hash = 0, title = NULL, tags = '[]', external_id = NULL, details = NULL, \
         valid_since = NULL, valid_until = NULL, rev = {greatest}(rev + 1, ?), deleted_at = ?, updated_at = ? WHERE id IN "
    ));
    let empty = empty.bind(first).bind(now).bind(now).list(&ids);
    session.execute(empty).await?;
    terms::remove(session, &links).await?;
    visits::remove(session, &ids).await?;
    changes.append_outbox(session, now).await?;
    if let Some(events) = events {
        let deleted = links.iter().map(|link| (LinkEvent::Deleted, link));
        events.append(session, now, deleted).await?;
    }
    session.commit(ids.len()).await?;
    Ok(ids.len() as u64)
}

/// Removes tombstones; `None` if only some of their clicks are removed. Caches may hold their revisions, so the floor is raised to
/// the greatest of them.
async fn purge(session: &mut Session, kept: u64, limit: u32) -> Result<Option<u64>, Fault> {
    session.begin().await?;
    let dialect = session.dialect();
    let (now, for_update) = (dialect.now_millis, dialect.for_update);
    let index = dialect.force_index("links_live_on_domain");
    let select = format!(
        "SELECT id, rev FROM links{index} WHERE domain_id = ? AND deleted_at <= CAST({now} AS SIGNED) - ? \
         ORDER BY deleted_at LIMIT ?{for_update}"
    );
    let mut tombstones: Vec<(u64, u64)> = Vec::new();
    for domain_id in numbers(session, sql("SELECT id FROM domains")).await? {
        let room = u64::from(limit).saturating_sub(tombstones.len() as u64);
        if room == 0 {
            break;
        }
        let query = sql(select.clone()).bind(domain_id).bind(kept.cast_signed());
        let of_domain: Vec<(u64, u64)> = session.fetch_all(query.bind(room)).await?;
        tombstones.extend(of_domain);
    }
    let Some(greatest) = tombstones.iter().map(|(_, rev)| *rev).max() else {
        session.rollback().await?;
        return Ok(Some(0));
    };
    let ids: Vec<u64> = tombstones.iter().map(|(id, _)| *id).collect();
    if !edgelink_click_store::remove(session, &ids).await? {
        session.commit(ids.len()).await?;
        return Ok(None);
    }
    let delete = sql("DELETE FROM links WHERE id IN ").list(&ids);
    session.execute(delete).await?;
    visits::remove(session, &ids).await?;
    RevisionBasis::raise_floor(session, greatest).await?;
    session.commit(ids.len()).await?;
    Ok(Some(ids.len() as u64))
}
