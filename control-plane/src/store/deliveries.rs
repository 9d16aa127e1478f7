//! Deliveries of events to webhooks: which are due, and what became of them.

use super::calls::{Store, run};
use super::error::{Fault, StoreError};
use super::events::{NewDeliveries, NewDelivery, body, message_id};
use super::rows::name;
use super::session::Session;
use super::sql::{Sql, sql};
use super::webhooks::{Row, WebhookRow, select};
use serde_json::json;

/// The event of a delivery that only tests the webhook.
pub const PING: &str = "ping";

/// A delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// Its key, which grows.
    pub id: u64,
    /// The id of the message, the same at each attempt.
    pub message_id: String,
    /// What has happened.
    pub event: String,
    /// What is sent: JSON.
    pub body: String,
    /// `pending`, `delivered` or `failed`.
    pub state: String,
    /// How often it was attempted.
    pub attempts: u32,
    /// The status of the last answer, if there was any.
    pub response_status: Option<u16>,
    /// Why the last attempt has failed; `None` if it did not.
    pub error: Option<String>,
    /// Unix time in milliseconds.
    pub created_at: u64,
    /// When the next attempt is due, unix time in milliseconds; `None` if there will be none.
    pub next_at: Option<u64>,
}

/// What became of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// The status of the answer, if there was any.
    pub response_status: Option<u16>,
    /// Why it has failed; `None` if it did not.
    pub error: Option<String>,
    /// After how many milliseconds it is retried if it has failed; `None` if that was the last attempt.
    pub retry_in: Option<u64>,
}

impl Store {
    /// Adds a delivery that only tests a webhook.
    pub async fn ping_webhook(&self, webhook: &WebhookRow) -> Result<Delivery, StoreError> {
        let now = self.now().await?;
        let data = json!({ "webhookId": webhook.id });
        let ping = NewDelivery {
            webhook_id: webhook.id,
            event: PING,
            message_id: message_id(),
            body: body(PING, now, &data),
            now,
        };
        let id = ping.message_id.clone();
        let deliveries = NewDeliveries::one(ping);
        let call = self.write("ping_webhook", "testing a webhook");
        let made = run!(call, |session| {
            session.begin().await?;
            deliveries.write(session, usize::MAX).await?;
            let query = deliveries_of("webhook_id = ? AND message_id = ? ORDER BY id DESC LIMIT 1");
            let row: DeliveryRow = session
                .fetch_one(query.bind(webhook.id).bind(id.as_str()))
                .await?;
            session.commit(1).await?;
            row.into_delivery()
        });
        self.forget_webhooks();
        made
    }

    /// Deliveries to a webhook, newest first, before that id.
    pub async fn list_deliveries(
        &self,
        webhook_id: u64,
        before: Option<u64>,
        limit: u32,
    ) -> Result<Vec<Delivery>, StoreError> {
        let call = self.read("list_deliveries", "listing deliveries");
        run!(call, |session| {
            let query = deliveries_of("webhook_id = ? AND id < ? ORDER BY id DESC LIMIT ?");
            let before = before.unwrap_or(i64::MAX.cast_unsigned());
            let query = query.bind(webhook_id).bind(before).bind(limit);
            read(session, query).await
        })
    }

    /// Active webhooks with a delivery that is due, `limit` at most, without `busy` ones.
    pub async fn due_webhooks(
        &self,
        busy: &[u64],
        limit: u32,
    ) -> Result<Vec<WebhookRow>, StoreError> {
        let call = self.read("due_webhooks", "looking for deliveries");
        run!(call, |session| {
            let now = session.dialect().now_millis;
            let mut query = select(&format!(
                "state = 'active' AND EXISTS (SELECT 1 FROM webhook_deliveries d WHERE d.waiting = webhooks.id \
                 AND d.next_at <= {now})"
            ));
            if !busy.is_empty() {
                query = query.push(" AND id NOT IN ").list(busy);
            }
            let query = query.push(" ORDER BY id LIMIT ?").bind(limit);
            let rows: Vec<Row> = session.fetch_all(query).await?;
            rows.into_iter().map(Row::into_webhook).collect()
        })
    }

    /// Deliveries to a webhook that are due, the one that waits longest first.
    pub async fn due_deliveries(
        &self,
        webhook_id: u64,
        limit: u32,
    ) -> Result<Vec<Delivery>, StoreError> {
        let call = self.read("due_deliveries", "looking for deliveries");
        run!(call, |session| {
            let now = session.dialect().now_millis;
            let query = deliveries_of(&format!(
                "waiting = ? AND next_at <= {now} ORDER BY next_at, id LIMIT ?"
            ));
            read(session, query.bind(webhook_id).bind(limit)).await
        })
    }

    /// Age of the oldest delivery that waits, of active webhooks, in milliseconds; `None` if none waits.
    pub async fn oldest_waiting_millis(&self) -> Result<Option<u64>, StoreError> {
        let call = self.read("oldest_waiting_millis", "measuring deliveries");
        run!(call, |session| {
            let now = session.dialect().now_millis;
            let query = sql(format!(
                "SELECT {now} AS now, (SELECT MIN((SELECT MIN(d.created_at) FROM webhook_deliveries d \
                 WHERE d.waiting = w.id)) FROM webhooks w WHERE w.state = 'active') AS oldest"
            ));
            let (now, oldest): (u64, Option<u64>) = session.fetch_one(query).await?;
            Ok(oldest.map(|oldest| now.saturating_sub(oldest)))
        })
    }

    /// Notes what became of an attempt, and of its webhook: it is disabled once it has failed for `disable_after` milliseconds.
    /// Returns whether that is so now.
    pub async fn note_attempt(
        &self,
        webhook: &WebhookRow,
        delivery: &Delivery,
        attempt: &Attempt,
        disable_after: u64,
    ) -> Result<bool, StoreError> {
        let call = self.write("note_attempt", "noting a delivery");
        let disabled = run!(call, |session| {
            session.begin().await?;
            note_delivery(session, delivery.id, attempt).await?;
            let disabled = match attempt.error {
                None => note_success(session, webhook).await?,
                Some(_) => note_failure(session, webhook.id, disable_after).await?,
            };
            session.commit(1).await?;
            Ok(disabled)
        })?;
        if disabled {
            self.forget_webhooks();
        }
        Ok(disabled)
    }

    /// Removes deliveries that were made `kept_millis` ago or earlier by the database's clock, `limit` at most; how many they were.
    pub async fn purge_deliveries(&self, kept_millis: u64, limit: u32) -> Result<u64, StoreError> {
        let call = self.write("purge_deliveries", "purging deliveries");
        run!(call, |session| {
            let dialect = session.dialect();
            let old = format!(
                "created_at < CAST({} AS SIGNED) - ? ORDER BY created_at",
                dialect.now_millis
            );
            let purge = sql(dialect.delete_some("webhook_deliveries", "id", &old));
            let purge = purge.bind(kept_millis.cast_signed()).bind(limit);
            session.autocommit(purge).await
        })
    }
}

async fn note_delivery(session: &mut Session, id: u64, attempt: &Attempt) -> Result<(), Fault> {
    let now = session.dialect().now_millis;
    let (state, waiting) = match (&attempt.error, attempt.retry_in) {
        (None, _) => ("delivered", "NULL"),
        (Some(_), None) => ("failed", "NULL"),
        (Some(_), Some(_)) => ("pending", "waiting"),
    };
    let note = sql(format!(
        "UPDATE webhook_deliveries SET state = ?, waiting = {waiting}, attempts = attempts + 1, \
         next_at = {now} + ?, response_status = ?, error = ? WHERE id = ?"
    ));
    let note = note
        .bind(state)
        .bind(attempt.retry_in.unwrap_or(0))
        .bind(attempt.response_status)
        .bind(attempt.error.as_deref())
        .bind(id);
    session.execute(note).await.map(drop)
}

async fn note_success(session: &mut Session, webhook: &WebhookRow) -> Result<bool, Fault> {
    if webhook.failing_since.is_some() {
        let note = sql("UPDATE webhooks SET failing_since = NULL WHERE id = ?").bind(webhook.id);
        session.execute(note).await?;
    }
    Ok(false)
}

async fn note_failure(session: &mut Session, id: u64, disable_after: u64) -> Result<bool, Fault> {
    let now = session.dialect().now_millis;
    let note = sql(format!(
        "UPDATE webhooks SET failing_since = {now} WHERE id = ? AND failing_since IS NULL"
    ));
    session.execute(note.bind(id)).await?;
    let disable = sql(format!(
        "UPDATE webhooks SET state = 'disabled', updated_at = {now} \
         WHERE id = ? AND state = 'active' AND failing_since + ? <= {now}"
    ));
    let disabled = session
        .execute(disable.bind(id).bind(disable_after))
        .await?;
    Ok(disabled > 0)
}

fn deliveries_of<'v>(condition: &str) -> Sql<'v> {
    sql(format!(
        "SELECT id, message_id, event, body, state, attempts, response_status, error, created_at, waiting, \
         next_at FROM webhook_deliveries WHERE {condition}"
    ))
}

async fn read(session: &mut Session, query: Sql<'_>) -> Result<Vec<Delivery>, Fault> {
    let rows: Vec<DeliveryRow> = session.fetch_all(query).await?;
    rows.into_iter().map(DeliveryRow::into_delivery).collect()
}

#[derive(Debug, sqlx_macros::FromRow)]
struct DeliveryRow {
    id: u64,
    message_id: Vec<u8>,
    event: Vec<u8>,
    body: String,
    state: Vec<u8>,
    attempts: u32,
    response_status: Option<u16>,
    error: Option<Vec<u8>>,
    created_at: u64,
    waiting: Option<u64>,
    next_at: u64,
}

impl DeliveryRow {
    fn into_delivery(self) -> Result<Delivery, Fault> {
        Ok(Delivery {
            id: self.id,
            message_id: name(&self.message_id)?,
            event: name(&self.event)?,
            body: self.body,
            state: name(&self.state)?,
            attempts: self.attempts,
            response_status: self.response_status,
            error: self.error.as_deref().map(name).transpose()?,
            created_at: self.created_at,
            next_at: self.waiting.map(|_| self.next_at),
        })
    }
}
