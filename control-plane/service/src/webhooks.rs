//! Use cases of webhooks.

use super::accounts::keys::Rotation;
use super::accounts::no_random;
use super::caller::{Caller, Right};
use super::fields::Reason;
use super::page::{self, Page};
use super::request::request;
use super::schemas::{self, EventName};
use super::values;
use crate::problem::{Kind, Problem};
use edgelink_feed::webhooks::{WebhookUrl, new_secret};
use edgelink_model::clock;
use edgelink_settings::config::{Config, WebhooksConfig};
pub use edgelink_store::{Delivery, WebhookRow};
use edgelink_store::{LinkEvent, Store, WEBHOOKS_AGE, WebhookState};
use serde_json::{Map, Value, json};
use std::sync::Arc;

request! {
    /// A webhook to be created.
    #[schema(example = json!({ "url": "https://hooks.example/edgelink", "events": ["link.created", "link.deleted"] }))]
    pub struct NewWebhook(settings: &WebhooksConfig) {
        /// Where events are sent: https, on one of the hosts that the configuration allows.
        #[schema(format = "webhook-url", max_length = 2000)]
        "url" url: required WebhookUrl as String = |value| url_of(value, settings);
        /// By default all of them; not null.
        #[schema(nullable = false, min_items = 1)]
        "events" events: not_null Vec<LinkEvent> as Vec<EventName> = events;
        /// By default `active`; not null.
        #[schema(nullable = false)]
        "state" state: not_null WebhookState as schemas::WebhookState = state;
    }
}

request! {
    /// A JSON merge patch (RFC 7396) of a webhook; no field is null.
    #[schema(example = json!({ "events": ["link.created"], "state": "paused" }))]
    pub struct WebhookPatch(settings: &WebhooksConfig) {
        #[schema(nullable = false, format = "webhook-url", max_length = 2000)]
        "url" url: not_null WebhookUrl as String = |value| url_of(value, settings);
        #[schema(nullable = false, min_items = 1)]
        "events" events: not_null Vec<LinkEvent> as Vec<EventName> = events;
        #[schema(nullable = false)]
        "state" state: not_null WebhookState as schemas::WebhookState = state;
    }
}

impl WebhookPatch {
    fn apply(&self, old: &WebhookRow) -> WebhookRow {
        let mut new = old.clone();
        if let Some(url) = &self.url {
            url.as_str().clone_into(&mut new.url);
        }
        if let Some(events) = &self.events {
            new.events.clone_from(events);
        }
        if let Some(state) = self.state {
            new.state = state;
            new.failures = 0;
            new.failing_since = None;
        }
        new
    }
}

/// The use cases of webhooks.
pub struct Webhooks {
    store: Arc<Store>,
    config: Arc<Config>,
}

impl Webhooks {
    /// Creates the use cases of webhooks.
    pub fn new(store: Arc<Store>, config: Arc<Config>) -> Self {
        Self { store, config }
    }

    /// The settings by which URLs are checked.
    pub fn settings(&self) -> &WebhooksConfig {
        &self.config.webhooks
    }

    /// Creates a webhook. Its secret is shown this once.
    pub async fn create(
        &self,
        caller: &Caller,
        request: NewWebhook,
    ) -> Result<WebhookRow, Problem> {
        caller.require(Right::Administer)?;
        let row = WebhookRow {
            id: 0,
            tenant_id: caller.tenant_id(),
            url: request.url.as_str().to_owned(),
            events: request.events.unwrap_or_else(|| LinkEvent::ALL.to_vec()),
            secret: new_secret().map_err(no_random)?,
            previous_secret: None,
            state: request.state.unwrap_or(WebhookState::Active),
            failures: 0,
            failing_since: None,
            created_at: 0,
            updated_at: 0,
        };
        let detail = json!({ "url": origin(&row.url) });
        let actor = caller.actor();
        let row = self.store.insert_webhook(&row, &actor, detail).await??;
        take_effect(&row).await;
        Ok(row)
    }

    /// A page of the webhooks of the caller's tenant, after the one with that number.
    pub async fn list(
        &self,
        caller: &Caller,
        limit: u32,
        after: Option<u64>,
    ) -> Result<Page<WebhookRow>, Problem> {
        caller.require(Right::Administer)?;
        let list = self
            .store
            .list_webhooks(caller.tenant_id(), after.unwrap_or(0), limit + 1);
        let mut items = list.await?;
        let next = page::cut(&mut items, limit).map(|webhook| page::place(webhook.id));
        Ok(Page { items, next })
    }

    /// A webhook of the caller's tenant.
    pub async fn find(&self, caller: &Caller, id: u64) -> Result<WebhookRow, Problem> {
        caller.require(Right::Administer)?;
        let row = self.store.find_webhook(caller.tenant_id(), id).await?;
        row.ok_or_else(|| Problem::new(Kind::NotFound))
    }

    /// Changes a webhook. Once active again it continues with the waiting deliveries. The audit log has the patch as it was sent,
    /// but only the origin of a URL.
    pub async fn change(
        &self,
        caller: &Caller,
        id: u64,
        patch: WebhookPatch,
        mut detail: Map<String, Value>,
    ) -> Result<WebhookRow, Problem> {
        caller.require(Right::Administer)?;
        if let Some(url) = &patch.url {
            detail.insert("url".to_owned(), json!(origin(url.as_str())));
        }
        let change = Box::new(move |row: &WebhookRow| patch.apply(row));
        let entry = ("webhook.update", Value::Object(detail));
        let actor = caller.actor();
        let changed = self.store.change_webhook(id, &actor, entry, change);
        let row = changed.await??;
        take_effect(&row).await;
        Ok(row)
    }

    /// Removes a webhook. What waits for its delivery is not sent.
    pub async fn delete(&self, caller: &Caller, id: u64) -> Result<(), Problem> {
        caller.require(Right::Administer)?;
        Ok(self.store.delete_webhook(id, &caller.actor()).await??)
    }

    /// Replaces the secret of a webhook. The new one is shown this once.
    pub async fn rotate(
        &self,
        caller: &Caller,
        id: u64,
        rotation: Rotation,
    ) -> Result<WebhookRow, Problem> {
        caller.require(Right::Administer)?;
        let overlap = rotation.overlap_seconds.unwrap_or(0);
        let secret = new_secret().map_err(no_random)?;
        let now = clock::unix_millis();
        let until = now + overlap * 1000;
        let change = Box::new(move |row: &WebhookRow| {
            // The answer of an earlier rotation may be lost: the receiver knows for sure only the secret before it.
            let previous = row.previous_secret.filter(|(_, until)| *until > now);
            let previous = previous.map_or(row.secret, |(secret, _)| secret);
            WebhookRow {
                secret,
                previous_secret: (overlap > 0).then_some((previous, until)),
                ..row.clone()
            }
        });
        let entry = ("webhook.rotate", json!({ "overlapSeconds": overlap }));
        let actor = caller.actor();
        let changed = self.store.change_webhook(id, &actor, entry, change);
        Ok(changed.await??)
    }

    /// Sends a test event to a webhook.
    pub async fn ping(&self, caller: &Caller, id: u64) -> Result<Delivery, Problem> {
        let webhook = self.find(caller, id).await?;
        Ok(self.store.ping_webhook(&webhook).await?)
    }

    /// A page of the deliveries to a webhook, newest first, before the one with that number.
    pub async fn deliveries(
        &self,
        caller: &Caller,
        id: u64,
        limit: u32,
        before: Option<u64>,
    ) -> Result<Page<Delivery>, Problem> {
        let webhook = self.find(caller, id).await?;
        let list = self.store.list_deliveries(webhook.id, before, limit + 1);
        let mut items = list.await?;
        let next = page::cut(&mut items, limit).map(|last| page::place(last.id));
        Ok(Page { items, next })
    }
}

/// Waits until all control planes know a webhook that is active now, so that no event of a later change is missed.
async fn take_effect(row: &WebhookRow) {
    if row.state == WebhookState::Active {
        tokio::time::sleep(WEBHOOKS_AGE).await;
    }
}

/// The part of a URL that is written to the audit log: path and query may contain a password of the receiver.
fn origin(url: &str) -> Option<String> {
    let url = url::Url::parse(url).ok()?;
    Some(url.origin().ascii_serialization())
}

fn url_of(value: &Value, settings: &WebhooksConfig) -> Result<WebhookUrl, Reason> {
    let url = WebhookUrl::parse(values::text(value)?, settings);
    url.map_err(|error| Reason::Owned(error.to_string()))
}

fn events(value: &Value) -> Result<Vec<LinkEvent>, Reason> {
    let refusal = || {
        let words = LinkEvent::ALL.map(LinkEvent::word).join(", ");
        Reason::Owned(format!("must be a list of {words}, at least one"))
    };
    let items = value.as_array().filter(|items| !items.is_empty());
    let items = items.ok_or_else(refusal)?.iter();
    let event = |item: &Value| item.as_str().and_then(LinkEvent::of_word);
    let events: Option<Vec<LinkEvent>> = items.map(event).collect();
    events.ok_or_else(refusal)
}

/// A state that a request may set.
fn state(value: &Value) -> Result<WebhookState, Reason> {
    match values::text(value)? {
        "active" => Ok(WebhookState::Active),
        "paused" => Ok(WebhookState::Paused),
        _ => Err("must be active or paused".into()),
    }
}
