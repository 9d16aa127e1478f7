//! Webhooks, to which events of links are sent.

use super::accounts::lock_tenant;
use super::audit::{Actor, Entry, append};
use super::events::{EventWriter, LinkEvent, ShowLink};
use super::ids::{IdTable, next_id};
use crate::Store;
use edgelink_database::columns::name;
use edgelink_database::error::{Fault, StoreError};
use edgelink_database::lines::RowLine;
use edgelink_database::run;
use edgelink_database::session::Session;
use edgelink_database::sql::{Sql, sql};
use serde_json::{Value as Json, json};
use std::fmt;
use std::sync::Arc;

/// The most webhooks of a tenant.
const MAX_WEBHOOKS: u64 = 20;

/// A webhook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebhookRow {
    /// Its id.
    pub id: u64,
    /// Its tenant.
    pub tenant_id: u32,
    /// The valid URL to which events are sent.
    pub url: String,
    /// The subscribed events.
    pub events: Vec<LinkEvent>,
    /// The signing key.
    pub secret: SigningKey,
    /// The key before the last rotation, and the time until which it signs as well, in unix milliseconds.
    pub previous_secret: Option<(SigningKey, u64)>,
    /// State of the delivery of events.
    pub state: WebhookState,
    /// Number of failures since its last success.
    pub failures: u32,
    /// Time of the first failure since its last success, or a day without attempts, in unix milliseconds.
    pub failing_since: Option<u64>,
    /// Unix time in milliseconds.
    pub created_at: u64,
    /// Unix time in milliseconds.
    pub updated_at: u64,
}

/// A signing key.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SigningKey(pub [u8; 32]);

impl fmt::Debug for SigningKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Secret")
    }
}

/// State of a webhook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WebhookState {
    /// It gets events.
    Active,
    /// It gets no events, because its owner paused it.
    Paused,
    /// It gets no events, because it has failed for too long, or too many deliveries wait.
    Disabled,
}

impl WebhookState {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Active, Self::Paused, Self::Disabled];

    /// The word for it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Paused => "paused",
            Self::Disabled => "disabled",
        }
    }
}

/// Reason why a webhook is not created or changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WebhookError {
    /// It does not exist, or belongs to another tenant.
    #[error("there is no such webhook")]
    NotFound,
    /// The tenant has reached its limit.
    #[error("there are too many webhooks")]
    TooMany,
}

/// Computes the new row of a webhook from the present one. It is called again after a deadlock.
type WebhookChange = Box<dyn Fn(&WebhookRow) -> WebhookRow + Send + Sync>;

impl Store {
    /// Returns a handle to this store that writes events for webhooks; `show` presents a link in them.
    #[must_use]
    pub fn with_events(&self, show: ShowLink) -> Arc<Self> {
        let mut store = self.clone();
        store.events = Some(Arc::new(EventWriter::new(show, self.db.clone())));
        Arc::new(store)
    }

    /// Waits until this process has written an event, or changed a webhook; forever if it does not write events.
    pub async fn event_written(&self) {
        match &self.events {
            Some(events) => events.written().await,
            None => std::future::pending().await,
        }
    }

    /// Makes the next event read the webhooks again.
    pub(super) fn forget_webhooks(&self) {
        if let Some(events) = &self.events {
            events.forget_webhooks();
        }
    }

    /// Creates a webhook in the actor's tenant. Of the row, only `url`, `events`, `secret` and `state` are used;
    /// the audit log gets `detail`.
    pub async fn insert_webhook(
        &self,
        row: &WebhookRow,
        actor: &Actor,
        detail: Json,
    ) -> Result<Result<WebhookRow, WebhookError>, StoreError> {
        let token = self.newest.token();
        let call = self.write("insert_webhook", "adding a webhook");
        let call = call.locking([RowLine::Tenant(actor.tenant_id)]);
        let made = run!(call, |session| {
            session.begin().await?;
            lock_tenant(session, actor.tenant_id).await?;
            let made = insert(session, row, (actor, detail.clone()), token).await?;
            session.end(made).await
        });
        self.forget_webhooks();
        made
    }

    /// The webhook with this id in a tenant.
    pub async fn find_webhook(
        &self,
        tenant_id: u32,
        id: u64,
    ) -> Result<Option<WebhookRow>, StoreError> {
        run!(self.read("find_webhook", "finding a webhook"), |session| {
            find(session, tenant_id, id, "").await
        })
    }

    /// Webhooks of a tenant with an id greater than `after`, ordered by id.
    pub async fn list_webhooks(
        &self,
        tenant_id: u32,
        after: u64,
        limit: u32,
    ) -> Result<Vec<WebhookRow>, StoreError> {
        run!(self.read("list_webhooks", "listing webhooks"), |session| {
            let query = select("tenant_id = ? AND id > ? ORDER BY id LIMIT ?");
            let query = query.bind(tenant_id).bind(after).bind(limit);
            let rows: Vec<WebhookColumns> = session.fetch_all(query).await?;
            rows.into_iter().map(WebhookColumns::into_webhook).collect()
        })
    }

    /// Applies `change` to a webhook of the actor's tenant, and writes `action` and `detail` to the audit
    /// log.
    pub async fn change_webhook(
        &self,
        id: u64,
        actor: &Actor,
        (action, detail): (&'static str, Json),
        change: WebhookChange,
    ) -> Result<Result<WebhookRow, WebhookError>, StoreError> {
        let call = self.write("change_webhook", "changing a webhook");
        let call = call.locking([RowLine::Webhook(id)]);
        let changed = run!(call, |session| {
            session.begin().await?;
            let for_update = session.dialect().for_update;
            let Some(old) = find(session, actor.tenant_id, id, for_update).await? else {
                session.rollback().await?;
                return Ok(Err(WebhookError::NotFound));
            };
            update(session, &change(&old)).await?;
            let entry = Entry {
                actor,
                action,
                subject: subject(id),
                detail: detail.clone(),
            };
            append(session, &entry).await?;
            let new = find(session, actor.tenant_id, id, "").await?;
            session.commit(1).await?;
            Ok(new.ok_or(WebhookError::NotFound))
        });
        self.forget_webhooks();
        changed
    }

    /// Removes a webhook of the actor's tenant. Its deliveries are no longer attempted, and eventually purged.
    pub async fn delete_webhook(
        &self,
        id: u64,
        actor: &Actor,
    ) -> Result<Result<(), WebhookError>, StoreError> {
        let call = self.write("delete_webhook", "removing a webhook");
        let call = call.locking([RowLine::Webhook(id)]);
        let deleted = run!(call, |session| {
            session.begin().await?;
            let delete = sql("DELETE FROM webhooks WHERE id = ? AND tenant_id = ?");
            let delete = delete.bind(id).bind(actor.tenant_id);
            if session.execute(delete).await? == 0 {
                session.rollback().await?;
                return Ok(Err(WebhookError::NotFound));
            }
            let entry = Entry {
                actor,
                action: "webhook.delete",
                subject: subject(id),
                detail: json!({}),
            };
            append(session, &entry).await?;
            session.commit(1).await?;
            Ok(Ok(()))
        });
        self.forget_webhooks();
        deleted
    }
}

fn subject(id: u64) -> String {
    format!("webhook:{id}")
}

async fn insert(
    session: &mut Session,
    row: &WebhookRow,
    (actor, detail): (&Actor, Json),
    token: u64,
) -> Result<Result<WebhookRow, WebhookError>, Fault> {
    let query = sql("SELECT COUNT(*) FROM webhooks WHERE tenant_id = ?");
    let (count,): (i64,) = session.fetch_one(query.bind(actor.tenant_id)).await?;
    if count.cast_unsigned() >= MAX_WEBHOOKS {
        return Ok(Err(WebhookError::TooMany));
    }
    let id = next_id(session, IdTable::Webhooks, token).await?;
    let now = session.dialect().now_millis;
    let insert = sql(format!(
        "INSERT INTO webhooks (id, tenant_id, url, events, secret, state, created_at, updated_at) \
         VALUES ({id}, ?, ?, ?, ?, ?, {now}, {now})"
    ));
    let insert = insert.bind(actor.tenant_id).bind(row.url.as_str());
    let insert = insert.bind(bits(&row.events)).bind(&row.secret.0);
    session.execute(insert.bind(row.state.word())).await?;
    // As the tenant is locked, the newest one is this.
    let newest = select("tenant_id = ? ORDER BY id DESC LIMIT 1").bind(actor.tenant_id);
    let made: WebhookColumns = session.fetch_one(newest).await?;
    let made = made.into_webhook()?;
    let entry = Entry {
        actor,
        action: "webhook.create",
        subject: subject(made.id),
        detail,
    };
    append(session, &entry).await?;
    Ok(Ok(made))
}

async fn update(session: &mut Session, new: &WebhookRow) -> Result<(), Fault> {
    let now = session.dialect().now_millis;
    let update = sql(format!(
        "UPDATE webhooks SET url = ?, events = ?, secret = ?, previous_secret = ?, previous_until = ?, state = ?, \
         failures = ?, failing_since = ?, next_at = CASE WHEN ? = 0 THEN 0 ELSE next_at END, updated_at = {now} WHERE id = ?"
    ));
    let (previous, until) = new
        .previous_secret
        .as_ref()
        .map(|(key, at)| (&key.0, *at))
        .unzip();
    let update = update
        .bind(new.url.as_str())
        .bind(bits(&new.events))
        .bind(&new.secret.0)
        .bind(previous)
        .bind(until)
        .bind(new.state.word())
        .bind(new.failures)
        .bind(new.failing_since)
        .bind(new.failures)
        .bind(new.id);
    session.execute(update).await.map(drop)
}

async fn find(
    session: &mut Session,
    tenant_id: u32,
    id: u64,
    lock: &str,
) -> Result<Option<WebhookRow>, Fault> {
    let query = select("id = ? AND tenant_id = ?").push(lock);
    let row: Option<WebhookColumns> = session
        .fetch_optional(query.bind(id).bind(tenant_id))
        .await?;
    row.map(WebhookColumns::into_webhook).transpose()
}

fn bits(events: &[LinkEvent]) -> u32 {
    events.iter().fold(0, |bits, event| bits | event.bit())
}

/// A query for webhooks.
pub(super) fn select<'v>(condition: &str) -> Sql<'v> {
    sql(format!(
        "SELECT id, tenant_id, url, events, secret, previous_secret, previous_until, state, failures, failing_since, created_at, \
         updated_at FROM webhooks WHERE {condition}"
    ))
}

#[derive(Debug, sqlx_macros::FromRow)]
pub(super) struct WebhookColumns {
    id: u64,
    tenant_id: u32,
    url: Vec<u8>,
    events: u32,
    secret: Vec<u8>,
    previous_secret: Option<Vec<u8>>,
    previous_until: Option<u64>,
    state: Vec<u8>,
    failures: u32,
    failing_since: Option<u64>,
    created_at: u64,
    updated_at: u64,
}

impl WebhookColumns {
    pub(super) fn into_webhook(self) -> Result<WebhookRow, Fault> {
        let events = LinkEvent::ALL.into_iter();
        let word = name(&self.state)?;
        let state = WebhookState::ALL
            .into_iter()
            .find(|state| state.word() == word);
        let previous = self.previous_secret.zip(self.previous_until);
        let previous = previous.map(|(key, until)| Ok::<_, Fault>((secret(&key)?, until)));
        Ok(WebhookRow {
            id: self.id,
            tenant_id: self.tenant_id,
            url: name(&self.url)?,
            events: events
                .filter(|event| self.events & event.bit() != 0)
                .collect(),
            secret: secret(&self.secret)?,
            previous_secret: previous.transpose()?,
            state: state.ok_or_else(|| Fault::Corrupt(format!("state of a webhook is {word}")))?,
            failures: self.failures,
            failing_since: self.failing_since,
            created_at: self.created_at,
            updated_at: self.updated_at,
        })
    }
}

fn secret(bytes: &[u8]) -> Result<SigningKey, Fault> {
    let secret = bytes.try_into().map(SigningKey);
    secret.map_err(|error| Fault::corrupt("secret of a webhook", &error))
}
