//! Deliveries of events to webhooks: the due ones, and their outcomes.

use super::events::{NewDeliveries, NewDelivery, body, message_id};
use super::webhooks::{WebhookColumns, WebhookRow, select};
use crate::Store;
use edgelink_database::classes::Class;
use edgelink_database::columns::{name, numbers};
use edgelink_database::error::{Fault, StoreError};
use edgelink_database::lines::RowLine;
use edgelink_database::run;
use edgelink_database::session::Session;
use edgelink_database::sql::{Sql, lookups, sql};
use serde_json::json;

/// The event of test deliveries.
pub const PING: &str = "ping";

/// A delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// Its key, which grows.
    pub id: u64,
    /// The id of the message, identical in all attempts.
    pub message_id: String,
    /// The event.
    pub event: String,
    /// The body sent: JSON.
    pub body: String,
    /// `pending`, `delivered` or `failed`.
    pub state: String,
    /// Number of attempts.
    pub attempts: u32,
    /// The status of the last answer, if there was any.
    pub response_status: Option<u16>,
    /// Error of the last attempt; `None` if it succeeded.
    pub error: Option<String>,
    /// Unix time in milliseconds.
    pub created_at: u64,
    /// Time of the next attempt, in unix milliseconds; `None` if there will be none.
    pub next_at: Option<u64>,
}

/// Outcome of a delivery attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttemptOutcome {
    /// The status of the answer, if there was any.
    pub response_status: Option<u16>,
    /// Its error; `None` if it succeeded.
    pub error: Option<String>,
    /// Milliseconds until the retry of a failed attempt; `None` if it was the last one.
    pub retry_in: Option<u64>,
}

/// Policy for a webhook whose attempts have all failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FailurePolicy {
    /// The pause before the next attempt of any delivery, in milliseconds; it applies after [`MANY_FAILURES`].
    pub pause_millis: u64,
    /// Milliseconds of failures, without a day of rest in between, after which the webhook is disabled.
    pub disable_after_millis: u64,
}

/// Consecutive failures after which a webhook gets one delivery at a time, with pauses.
pub const MANY_FAILURES: u32 = 5;

/// Time without attempts after which failures are counted from zero.
const REST_MILLIS: u64 = 24 * 60 * 60 * 1000;

impl Store {
    /// Adds a test delivery to a webhook, and ends its pause after failures.
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
        let call = call.locking([RowLine::Webhook(webhook.id)]);
        let made = run!(call, |session| {
            session.begin().await?;
            deliveries.write(session, usize::MAX).await?;
            let now = session.dialect().now_millis;
            let retry = sql(format!(
                "UPDATE webhooks SET next_at = {now} WHERE id = ? AND next_at > {now}"
            ));
            session.execute(retry.bind(webhook.id)).await?;
            let query = deliveries_of("webhook_id = ? AND message_id = ? ORDER BY id DESC LIMIT 1");
            let row: DeliveryRow = session
                .fetch_one(query.bind(webhook.id).bind(id.as_str()))
                .await?;
            session.commit(1).await?;
            row.into_delivery()
        });
        if let Some(events) = &self.events {
            events.notify();
        }
        made
    }

    /// Deliveries to a webhook before this id, newest first.
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

    /// Active webhooks with a due delivery, and an id greater than `after`, ordered by id; without `busy` ones and
    /// webhooks of `busy_tenants`.
    pub async fn due_webhooks(
        &self,
        after: u64,
        busy: &[u64],
        busy_tenants: &[u32],
        limit: u32,
    ) -> Result<Vec<WebhookRow>, StoreError> {
        let settled = self.now().await?.saturating_sub(SETTLE_MILLIS);
        let marks = self.delivery_marks.all();
        let call = self
            .read("due_webhooks", "looking for deliveries")
            .of(Class::Background);
        run!(call, |session| {
            let now = session.dialect().now_millis;
            let due = due_from(session, &marks).await?;
            for (id, _) in &marks {
                if !due.contains(id) {
                    self.delivery_marks.note(*id, settled);
                }
            }
            let marked: Vec<u64> = marks.iter().map(|(id, _)| *id).collect();
            let query = select(&format!(
                "state = 'active' AND id > ? AND next_at <= {now} AND ("
            ));
            let mut query = query.bind(after);
            if !due.is_empty() {
                query = query.push("id IN ").list(&due).push(" OR ");
            }
            if !marked.is_empty() {
                query = query.push("id NOT IN ").list(&marked).push(" AND ");
            }
            query = query.push(&format!(
                "EXISTS (SELECT 1 FROM webhook_deliveries d WHERE d.waiting = webhooks.id AND d.next_at <= {now}))"
            ));
            if !busy.is_empty() {
                query = query.push(" AND id NOT IN ").list(busy);
            }
            if !busy_tenants.is_empty() {
                query = query.push(" AND tenant_id NOT IN ").list(busy_tenants);
            }
            let query = query.push(" ORDER BY id LIMIT ?").bind(limit);
            let rows: Vec<WebhookColumns> = session.fetch_all(query).await?;
            rows.into_iter().map(WebhookColumns::into_webhook).collect()
        })
    }

    /// The current state of a webhook, and its due deliveries, the longest waiting first, without those in progress: at most `limit`
    /// including these, and one after [`MANY_FAILURES`]. `None` if the webhook is not active, or pauses after failures.
    pub async fn due_deliveries(
        &self,
        webhook_id: u64,
        under_way: &[u64],
        limit: usize,
    ) -> Result<Option<(WebhookRow, Vec<Delivery>)>, StoreError> {
        let settled = self.now().await?.saturating_sub(SETTLE_MILLIS);
        let from = self.delivery_marks.of(webhook_id);
        let call = self
            .read("due_deliveries", "looking for deliveries")
            .of(Class::Background);
        run!(call, |session| {
            let now = session.dialect().now_millis;
            let query = select(&format!("id = ? AND state = 'active' AND next_at <= {now}"));
            let row: Option<WebhookColumns> =
                session.fetch_optional(query.bind(webhook_id)).await?;
            let Some(webhook) = row.map(WebhookColumns::into_webhook).transpose()? else {
                return Ok(None);
            };
            let is_probed = webhook.failures >= MANY_FAILURES;
            let limit = if is_probed { 1 } else { limit };
            let free = limit.saturating_sub(under_way.len());
            let query = deliveries_of(&format!(
                "waiting = ? AND next_at >= ? AND next_at <= {now}"
            ));
            let mut query = query.bind(webhook_id).bind(from);
            if !under_way.is_empty() {
                query = query.push(" AND id NOT IN ").list(under_way);
            }
            let query = query.push(" ORDER BY next_at, id LIMIT ?");
            let due = read(session, query.bind(free as u64)).await?;
            // Deliveries in progress count as waiting too.
            if under_way.is_empty() {
                let oldest = due.first().and_then(|delivery| delivery.next_at);
                let from = oldest.map_or(settled, |oldest| oldest.min(settled));
                self.delivery_marks.note(webhook_id, from);
            }
            Ok(Some((webhook, due)))
        })
    }

    /// Milliseconds for which the longest due delivery of active webhooks has been due; `None` if none waits.
    pub async fn longest_due_millis(&self) -> Result<Option<u64>, StoreError> {
        let call = self
            .read("longest_due_millis", "measuring deliveries")
            .of(Class::Background);
        run!(call, |session| {
            let now = session.dialect().now_millis;
            let query = sql(format!(
                "SELECT {now} AS now, (SELECT MIN((SELECT MIN(d.next_at) FROM webhook_deliveries d \
                 WHERE d.waiting = w.id)) FROM webhooks w WHERE w.state = 'active') AS oldest"
            ));
            let (now, oldest): (u64, Option<u64>) = session.fetch_one(query).await?;
            Ok(oldest.map(|oldest| now.saturating_sub(oldest)))
        })
    }

    /// Stores the outcomes of delivery attempts, and their effect on the webhook: a success resets its failures, and if all have
    /// failed, `policy` applies. Returns true if that disables it.
    pub async fn note_attempts(
        &self,
        webhook_id: u64,
        outcomes: &[(u64, AttemptOutcome)],
        policy: FailurePolicy,
    ) -> Result<bool, StoreError> {
        let call = self
            .write("note_attempts", "storing outcomes of deliveries")
            .of(Class::Background);
        let has_success = outcomes.iter().any(|(_, outcome)| outcome.error.is_none());
        let disabled = run!(call, |session| {
            session.begin().await?;
            for (id, outcome) in outcomes {
                note_delivery(session, *id, outcome).await?;
            }
            let disabled = if has_success {
                note_success(session, webhook_id).await.map(|()| false)?
            } else {
                note_failures(session, webhook_id, outcomes.len(), policy).await?
            };
            session.commit(1).await?;
            Ok(disabled)
        })?;
        if disabled {
            self.forget_webhooks();
        }
        Ok(disabled)
    }

    /// Disables an active webhook with more than `max` waiting deliveries. Returns true if it did.
    pub async fn disable_if_full(&self, webhook_id: u64, max: u64) -> Result<bool, StoreError> {
        let call = self
            .write("disable_if_full", "counting deliveries")
            .of(Class::Background);
        let disabled = run!(call, |session| {
            let count = sql(
                "SELECT COUNT(*) FROM (SELECT 1 FROM webhook_deliveries WHERE waiting = ? AND next_at >= ? LIMIT ?) some",
            );
            let from = self.delivery_marks.of(webhook_id);
            let count = count.bind(webhook_id).bind(from).bind(max + 1);
            let (waiting,): (i64,) = session.fetch_one(count).await?;
            if waiting.cast_unsigned() <= max {
                return Ok(false);
            }
            let disable = disable(session, webhook_id, "");
            Ok(session.autocommit(disable).await? > 0)
        })?;
        if disabled {
            self.forget_webhooks();
        }
        Ok(disabled)
    }

    /// Removes up to `limit` deliveries created more than `kept_millis` ago by the database's clock, either waiting or settled ones.
    /// Returns their number.
    pub async fn purge_deliveries(
        &self,
        is_waiting: bool,
        kept_millis: u64,
        limit: u32,
    ) -> Result<u64, StoreError> {
        let call = self
            .write("purge_deliveries", "purging deliveries")
            .of(Class::Background);
        run!(call, |session| {
            let now = session.dialect().now_millis;
            let not = if is_waiting { " NOT" } else { "" };
            let old = format!(
                "created_at < CAST({now} AS SIGNED) - ? AND waiting IS{not} NULL ORDER BY created_at"
            );
            let old = sql(old).bind(kept_millis.cast_signed());
            session.purge("webhook_deliveries", "id", old, limit).await
        })
    }
}

/// Milliseconds after which no earlier delivery can still appear: transactions are shorter.
const SETTLE_MILLIS: u64 = 10_000;

/// The webhooks with a due delivery, among those with marks.
async fn due_from(session: &mut Session, marks: &[(u64, u64)]) -> Result<Vec<u64>, Fault> {
    let (now, part) = (session.dialect().now_millis, session.dialect().part);
    let first = format!(
        "{part}SELECT waiting FROM webhook_deliveries WHERE waiting = ? AND next_at >= ? AND next_at <= {now} LIMIT 1)"
    );
    let mut due = Vec::new();
    for marks in lookups(marks) {
        let query = sql("").join(" UNION ALL ", marks, |sql, (id, from)| {
            sql.push(&first).bind(*id).bind(*from)
        });
        due.extend(numbers(session, query).await?);
    }
    Ok(due)
}

/// Stores an attempt, unless the delivery no longer waits because another process has made it too.
async fn note_delivery(
    session: &mut Session,
    id: u64,
    outcome: &AttemptOutcome,
) -> Result<(), Fault> {
    let now = session.dialect().now_millis;
    let (state, waiting) = match (&outcome.error, outcome.retry_in) {
        (None, _) => ("delivered", "NULL"),
        (Some(_), None) => ("failed", "NULL"),
        (Some(_), Some(_)) => ("pending", "waiting"),
    };
    let note = sql(format!(
        "UPDATE webhook_deliveries SET state = ?, waiting = {waiting}, attempts = attempts + 1, \
         next_at = {now} + ?, response_status = ?, error = ? WHERE id = ? AND waiting IS NOT NULL"
    ));
    let note = note
        .bind(state)
        .bind(outcome.retry_in.unwrap_or(0))
        .bind(outcome.response_status)
        .bind(outcome.error.as_deref())
        .bind(id);
    session.execute(note).await.map(drop)
}

async fn note_success(session: &mut Session, id: u64) -> Result<(), Fault> {
    let note = sql(
        "UPDATE webhooks SET failures = 0, failing_since = NULL, next_at = 0 WHERE id = ? AND failures > 0",
    );
    session.execute(note.bind(id)).await.map(drop)
}

/// Stores failures. Returns true if they disable the webhook.
async fn note_failures(
    session: &mut Session,
    id: u64,
    count: usize,
    policy: FailurePolicy,
) -> Result<bool, Fault> {
    let now = session.dialect().now_millis;
    // MySQL evaluates assignments from left to right: they are ordered to use the old values.
    let note = sql(format!(
        "UPDATE webhooks SET failing_since = CASE WHEN failing_since IS NULL OR (next_at > 0 AND next_at + ? < {now}) \
         THEN {now} ELSE failing_since END, \
         next_at = {now} + CASE WHEN failures + ? >= ? THEN ? ELSE 0 END, failures = failures + ? WHERE id = ?"
    ));
    let note = note
        .bind(REST_MILLIS)
        .bind(count as u64)
        .bind(MANY_FAILURES)
        .bind(policy.pause_millis)
        .bind(count as u64)
        .bind(id);
    session.execute(note).await?;
    let disable = disable(session, id, &format!(" AND failing_since + ? <= {now}"));
    let disable = disable.bind(policy.disable_after_millis);
    Ok(session.execute(disable).await? > 0)
}

/// Disables an active webhook under a condition.
fn disable<'v>(session: &Session, id: u64, condition: &str) -> Sql<'v> {
    let now = session.dialect().now_millis;
    let disable = sql(format!(
        "UPDATE webhooks SET state = 'disabled', updated_at = {now} WHERE id = ? AND state = 'active'{condition}"
    ));
    disable.bind(id)
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
