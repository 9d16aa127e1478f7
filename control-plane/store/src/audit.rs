//! The audit log: who changed what. An entry is written in the transaction of the change.

mod history;

use crate::Store;
use edgelink_database::classes::Class;
use edgelink_database::columns::name;
use edgelink_database::error::{Fault, StoreError};
use edgelink_database::revisions::TOLERANCE_MILLIS;
use edgelink_database::run;
use edgelink_database::session::Session;
use edgelink_database::sql::{Sql, StatementForm, Value, sql};
use serde_json::Value as Json;

impl Store {
    /// Entries of a tenant, newest first.
    pub async fn audit_entries(&self, query: &AuditQuery) -> Result<Vec<AuditEntry>, StoreError> {
        run!(
            self.read("audit_entries", "reading the audit log"),
            |session| {
                let rows = select(session, query).await?;
                rows.into_iter().map(AuditRow::into_entry).collect()
            }
        )
    }

    /// Writes an entry about a change that is not in this database.
    pub async fn append_audit(&self, entry: &Entry<'_>) -> Result<(), StoreError> {
        let call = self.write("append_audit", "writing to the audit log");
        run!(call, |session| {
            session.begin().await?;
            append(session, entry).await?;
            session.commit(1).await
        })
    }

    /// Entries about the link at `subject` created at `created_at`, in unix milliseconds; newest first. Entries about earlier links
    /// at that address, which may have belonged to others, are left out.
    pub async fn link_history(
        &self,
        query: &AuditQuery,
        subject: &str,
        created_at: u64,
    ) -> Result<Vec<AuditEntry>, StoreError> {
        run!(
            self.read("link_history", "reading the history of a link"),
            |session| {
                let query = AuditQuery {
                    subject: Some(subject.to_owned()),
                    after: history::predecessors_end(session, query.tenant_id, subject).await?,
                    // The time of creation may be an estimate.
                    since: created_at.saturating_sub(TOLERANCE_MILLIS),
                    ..query.clone()
                };
                let rows = select(session, &query).await?;
                rows.into_iter().map(AuditRow::into_entry).collect()
            }
        )
    }

    /// Removes up to `limit` entries older than `kept_millis` by the database's clock. Returns their number.
    pub async fn purge_audit(&self, kept_millis: u64, limit: u32) -> Result<u64, StoreError> {
        run!(
            self.write("purge_audit", "purging the audit log")
                .of(Class::Background),
            |session| {
                let now = session.dialect().now_millis;
                let old = format!("at < CAST({now} AS SIGNED) - ? ORDER BY at");
                let old = sql(old).bind(kept_millis.cast_signed());
                session.purge("audit", "id", old, limit).await
            }
        )
    }
}

/// The author of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Actor {
    /// The tenant.
    pub tenant_id: u32,
    /// The id of the API key.
    pub key_id: String,
    /// The user of the key.
    pub user_id: Option<u64>,
}

impl Actor {
    /// The command line on the server, which has no key.
    #[must_use]
    pub fn command_line(tenant_id: u32) -> Self {
        Self {
            tenant_id,
            key_id: "-".to_owned(),
            user_id: None,
        }
    }

    /// The user of a console session, with the API key if the login used one.
    #[must_use]
    pub fn of_session(tenant_id: u32, user_id: u64, key_id: Option<String>) -> Self {
        Self {
            tenant_id,
            key_id: key_id.unwrap_or_else(|| format!("user-{user_id}")),
            user_id: Some(user_id),
        }
    }
}

/// An entry to be written.
#[derive(Clone, Debug)]
pub struct Entry<'a> {
    /// The author of the change.
    pub actor: &'a Actor,
    /// The action, such as `link.update`; at most 64 bytes.
    pub action: &'static str,
    /// The changed object, such as `link:go.example/abc`; at most 400 bytes.
    pub subject: String,
    /// Details of the change, never a secret.
    pub detail: Json,
}

/// A stored entry.
#[derive(Clone, Debug, PartialEq)]
pub struct AuditEntry {
    /// Grows with time.
    pub id: u64,
    /// Unix time in milliseconds, by the database's clock.
    pub at: u64,
    /// The author of the change.
    pub actor: Actor,
    /// The action.
    pub action: String,
    /// The changed object.
    pub subject: String,
    /// Details of the change.
    pub detail: Json,
}

/// Query for entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditQuery {
    /// Only entries of this tenant.
    pub tenant_id: u32,
    /// Only entries with this subject.
    pub subject: Option<String>,
    /// Only entries of this actor: the id of an API key, or `-`.
    pub actor: Option<String>,
    /// Only entries with this action.
    pub action: Option<String>,
    /// Only entries before this id.
    pub before: Option<u64>,
    /// Only entries after this id.
    pub after: u64,
    /// Only entries of this time or later, in unix milliseconds.
    pub since: u64,
    /// Most entries returned.
    pub limit: u32,
}

impl AuditQuery {
    /// The first entries of a tenant.
    #[must_use]
    pub fn of_tenant(tenant_id: u32, limit: u32) -> Self {
        Self {
            tenant_id,
            subject: None,
            actor: None,
            action: None,
            before: None,
            after: 0,
            since: 0,
            limit,
        }
    }
}

/// Writes an entry as a part of the transaction of the change.
pub(super) async fn append(session: &mut Session, entry: &Entry<'_>) -> Result<(), Fault> {
    let now = session.dialect().now_millis;
    let detail = entry.detail.to_string();
    let insert = sql(format!(
        "INSERT INTO audit (at, tenant_id, actor, user_id, action, subject, detail) VALUES ({now}, ?, ?, ?, ?, ?, ?)"
    ));
    let insert = insert
        .bind(entry.actor.tenant_id)
        .bind(entry.actor.key_id.as_str())
        .bind(entry.actor.user_id)
        .bind(entry.action)
        .bind(entry.subject.as_str())
        .bind(Value::Text(&detail));
    session.execute(insert).await.map(drop)
}

/// An entry of one of several changes.
#[derive(Clone, Debug)]
pub(super) struct NewEntry {
    pub(super) actor: Actor,
    pub(super) action: &'static str,
    pub(super) subject: String,
    /// JSON.
    pub(super) detail: String,
}

impl NewEntry {
    /// Approximate number of bytes of the row in a packet to the server.
    fn wire_size(&self) -> usize {
        const NUMBERS: usize = 256;
        NUMBERS + self.subject.len() + self.detail.len()
    }

    fn values(&self, now: u64) -> [Value<'_>; 7] {
        [
            now.into(),
            self.actor.tenant_id.into(),
            self.actor.key_id.as_str().into(),
            self.actor.user_id.into(),
            self.action.into(),
            self.subject.as_str().into(),
            Value::Text(&self.detail),
        ]
    }
}

/// The statements that add the entries of several changes as a part of their transaction, at `now`, unix milliseconds. One takes up
/// to `max_bytes`, or one entry.
pub(super) fn additions(
    entries: &[NewEntry],
    now: u64,
    form: StatementForm,
    max_bytes: usize,
) -> impl Iterator<Item = Sql<'_>> {
    const INSERT: &str =
        "INSERT INTO audit (at, tenant_id, actor, user_id, action, subject, detail) ";
    let largest = entries.iter().map(NewEntry::wire_size).max();
    let parts = form.cut(entries, max_bytes / largest.unwrap_or(1));
    parts.map(move |part| sql(INSERT).rows(part.iter().map(|entry| entry.values(now))))
}

/// The filters, the most selective first, with the index of each.
fn filters(query: &AuditQuery) -> [(&'static str, &'static str, Option<&str>); 3] {
    [
        ("subject", "audit_of_subject", query.subject.as_deref()),
        ("actor", "audit_of_actor", query.actor.as_deref()),
        ("action", "audit_of_action", query.action.as_deref()),
    ]
}

async fn select(session: &mut Session, query: &AuditQuery) -> Result<Vec<AuditRow>, Fault> {
    let filters = filters(query);
    let mut given = filters.iter().filter(|(.., value)| value.is_some());
    let index = given
        .next()
        .map_or("audit_of_tenant", |(_, index, _)| index);
    let index = session.dialect().force_index(index);
    let mut select = sql(format!(
        "SELECT id, at, tenant_id, actor, user_id, action, subject, detail FROM audit{index} WHERE tenant_id = ?"
    ));
    select = select.bind(query.tenant_id);
    for (column, _, value) in filters {
        if let Some(value) = value {
            select = select.push(" AND ").push(column).push(" = ?").bind(value);
        }
    }
    let before = query.before.unwrap_or(i64::MAX.cast_unsigned());
    let select = select
        .push(" AND id > ? AND id < ? AND at >= ? ORDER BY id DESC LIMIT ?")
        .bind_all([query.after, before, query.since])
        .bind(query.limit);
    session.fetch_all(select).await
}

#[derive(Debug, sqlx_macros::FromRow)]
struct AuditRow {
    id: u64,
    at: u64,
    tenant_id: u32,
    actor: Vec<u8>,
    user_id: Option<u64>,
    action: Vec<u8>,
    subject: Vec<u8>,
    detail: String,
}

impl AuditRow {
    fn into_entry(self) -> Result<AuditEntry, Fault> {
        let detail = serde_json::from_str(&self.detail);
        Ok(AuditEntry {
            id: self.id,
            at: self.at,
            actor: Actor {
                tenant_id: self.tenant_id,
                key_id: name(&self.actor)?,
                user_id: self.user_id,
            },
            action: name(&self.action)?,
            subject: name(&self.subject)?,
            detail: detail.map_err(|error| Fault::corrupt("detail of an audit entry", &error))?,
        })
    }
}
