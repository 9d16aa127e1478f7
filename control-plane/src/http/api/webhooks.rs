//! `/webhooks`: where events of the tenant's links are sent.

use super::accounts::{self, ResourceId, created, no_random};
use super::body::JsonObject;
use super::fields::{Fields, Reason};
use super::{page, schema, values};
use crate::clock;
use crate::config::WebhooksConfig;
use crate::http::app::App;
use crate::http::auth::Caller;
use crate::problem::{Kind, Problem};
use crate::store::{Delivery, LinkEvent, WEBHOOKS_AGE, WebhookError, WebhookRow, WebhookState};
use crate::timestamp;
use crate::webhooks::{WebhookUrl, new_secret, secret_text};
use axum::Json;
use axum::extract::{Extension, RawQuery, State};
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::sync::Arc;
use utoipa::ToSchema;

/// A webhook as the API shows it.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Webhook)]
struct WebhookView {
    id: u64,
    /// The secret that signs, in the answers that make it only.
    #[serde(skip_serializing_if = "Option::is_none")]
    secret: Option<String>,
    url: String,
    events: Vec<&'static str>,
    /// `active`, `paused`, or `disabled`: it has failed for too long, or too many deliveries wait.
    state: &'static str,
    /// When it failed first since it last succeeded.
    failing_since: Option<String>,
    created_at: String,
    updated_at: String,
}

impl WebhookView {
    fn new(row: WebhookRow) -> Self {
        Self {
            id: row.id,
            secret: None,
            url: row.url,
            events: row.events.iter().map(|event| event.word()).collect(),
            state: row.state.word(),
            failing_since: row.failing_since.map(timestamp::from_millis),
            created_at: timestamp::from_millis(row.created_at),
            updated_at: timestamp::from_millis(row.updated_at),
        }
    }

    /// With the secret, which is shown this once.
    fn with_secret(row: WebhookRow) -> Self {
        Self {
            secret: Some(secret_text(&row.secret)),
            ..Self::new(row)
        }
    }
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = WebhookPage)]
struct WebhooksView {
    webhooks: Vec<WebhookView>,
    next_cursor: Option<String>,
}

/// A delivery as the API shows it.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Delivery)]
struct DeliveryView {
    /// The id of the message: the header `webhook-id` of each attempt.
    id: String,
    event: String,
    /// `pending`, `delivered` or `failed`.
    state: String,
    attempts: u32,
    /// The status of the last answer.
    response_status: Option<u16>,
    /// Why the last attempt has failed.
    error: Option<String>,
    created_at: String,
    /// When the next attempt is due.
    next_at: Option<String>,
}

impl DeliveryView {
    fn new(delivery: Delivery) -> Self {
        Self {
            id: delivery.message_id,
            event: delivery.event,
            state: delivery.state,
            attempts: delivery.attempts,
            response_status: delivery.response_status,
            error: delivery.error,
            created_at: timestamp::from_millis(delivery.created_at),
            next_at: delivery.next_at.map(timestamp::from_millis),
        }
    }
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = DeliveryPage)]
struct DeliveriesView {
    deliveries: Vec<DeliveryView>,
    next_cursor: Option<String>,
}

impl From<WebhookError> for Problem {
    fn from(error: WebhookError) -> Self {
        match error {
            WebhookError::NotFound => Self::new(Kind::NotFound),
            WebhookError::TooMany => Self::new(Kind::TooManyWebhooks),
        }
    }
}

/// Creates a webhook. Its secret is shown this once.
#[utoipa::path(
    post,
    path = "/webhooks",
    operation_id = "createWebhook",
    tag = "webhooks",
    request_body = schema::NewWebhook,
    responses(
        (
            status = 201, description = "The webhook, with its secret",
            body = WebhookView,
            headers(("Location" = String, description = "The resource")),
        ),
    )
)]
pub(crate) async fn create(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    JsonObject(object): JsonObject,
) -> Result<Response, Problem> {
    let mut fields = Fields::new(object);
    let url = fields.required("url", |value| url(value, &app.config.webhooks));
    let patch = WebhookPatch {
        url: url.clone(),
        events: accounts::change(&mut fields, "events", events),
        state: accounts::change(&mut fields, "state", state),
    };
    fields.finish()?;
    let row = patch.apply(&WebhookRow {
        id: 0,
        tenant_id: caller.tenant_id(),
        url: String::new(),
        events: LinkEvent::ALL.to_vec(),
        secret: new_secret().map_err(no_random)?,
        previous_secret: None,
        state: WebhookState::Active,
        failures: 0,
        failing_since: None,
        created_at: 0,
        updated_at: 0,
    });
    let detail = json!({ "url": origin(&row.url) });
    let actor = caller.actor();
    let row = app.store.insert_webhook(&row, &actor, detail).await??;
    take_effect(&row).await;
    let location = format!("/api/v1/webhooks/{}", row.id);
    Ok(created(&WebhookView::with_secret(row), &location))
}

/// Waits until all control planes know a webhook that is active now: events of later changes are not missed.
async fn take_effect(row: &WebhookRow) {
    if row.state == WebhookState::Active {
        tokio::time::sleep(WEBHOOKS_AGE).await;
    }
}

/// What of a URL is written to the audit log: path and query may hold a password of the receiver.
fn origin(url: &str) -> Option<String> {
    let url = url::Url::parse(url).ok()?;
    Some(url.origin().ascii_serialization())
}

/// Lists the webhooks of the tenant.
#[utoipa::path(
    get,
    path = "/webhooks",
    operation_id = "listWebhooks",
    tag = "webhooks",
    params(schema::Page),
    responses((status = 200, description = "A page of webhooks", body = WebhooksView))
)]
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let (limit, after) = page::parameters(query.as_deref())?;
    let list = app
        .store
        .list_webhooks(caller.tenant_id(), after.unwrap_or(0), limit + 1);
    let mut webhooks = list.await?;
    let next_cursor = page::cut(&mut webhooks, limit).map(|webhook| page::place(webhook.id));
    let webhooks = webhooks.into_iter().map(WebhookView::new).collect();
    Ok(Json(WebhooksView {
        webhooks,
        next_cursor,
    })
    .into_response())
}

/// Gets a webhook.
#[utoipa::path(
    get,
    path = "/webhooks/{id}",
    operation_id = "getWebhook",
    tag = "webhooks",
    params(("id" = u64, Path, description = "The number of the webhook")),
    responses((status = 200, description = "The webhook", body = WebhookView))
)]
pub(crate) async fn get(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    ResourceId(id): ResourceId,
) -> Result<Response, Problem> {
    let row = find(&app, &caller, &id).await?;
    Ok(Json(WebhookView::new(row)).into_response())
}

async fn find(app: &App, caller: &Caller, id: &str) -> Result<WebhookRow, Problem> {
    let id = accounts::id(id)?;
    let row = app.store.find_webhook(caller.tenant_id(), id).await?;
    row.ok_or_else(|| Problem::new(Kind::NotFound))
}

/// Changes a webhook.
///
/// A JSON merge patch (RFC 7396). One that is made active goes on with what still waits.
#[utoipa::path(
    patch,
    path = "/webhooks/{id}",
    operation_id = "changeWebhook",
    tag = "webhooks",
    params(("id" = u64, Path, description = "The number of the webhook")),
    request_body = schema::WebhookPatch,
    responses((status = 200, description = "The webhook as it is now", body = WebhookView))
)]
pub(crate) async fn patch(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    ResourceId(id): ResourceId,
    JsonObject(object): JsonObject,
) -> Result<Response, Problem> {
    let id = accounts::id(&id)?;
    let mut detail = object.clone();
    let patch = WebhookPatch::parse(object, &app.config.webhooks)?;
    if let Some(url) = &patch.url {
        detail.insert("url".to_owned(), json!(origin(url.as_str())));
    }
    let change = Box::new(move |row: &WebhookRow| patch.apply(row));
    let entry = ("webhook.update", Value::Object(detail));
    let actor = caller.actor();
    let changed = app.store.change_webhook(id, &actor, entry, change);
    let row = changed.await??;
    take_effect(&row).await;
    Ok(Json(WebhookView::new(row)).into_response())
}

/// The new values of the fields that change.
#[derive(Clone)]
struct WebhookPatch {
    url: Option<WebhookUrl>,
    events: Option<Vec<LinkEvent>>,
    state: Option<WebhookState>,
}

impl WebhookPatch {
    fn parse(object: Map<String, Value>, settings: &WebhooksConfig) -> Result<Self, Problem> {
        let mut fields = Fields::new(object);
        let patch = Self {
            url: accounts::change(&mut fields, "url", |value| url(value, settings)),
            events: accounts::change(&mut fields, "events", events),
            state: accounts::change(&mut fields, "state", state),
        };
        fields.finish().map(|()| patch)
    }

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

fn url(value: &Value, settings: &WebhooksConfig) -> Result<WebhookUrl, Reason> {
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

/// Removes a webhook. What waits for its delivery is not sent.
#[utoipa::path(
    delete,
    path = "/webhooks/{id}",
    operation_id = "deleteWebhook",
    tag = "webhooks",
    params(("id" = u64, Path, description = "The number of the webhook")),
    responses((status = 204, description = "The webhook is removed"))
)]
pub(crate) async fn delete(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    ResourceId(id): ResourceId,
) -> Result<Response, Problem> {
    let id = accounts::id(&id)?;
    app.store.delete_webhook(id, &caller.actor()).await??;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// Replaces the secret of a webhook.
///
/// The one before signs as well for `overlapSeconds`; if that one was to be replaced already, the one before it.
#[utoipa::path(
    post,
    path = "/webhooks/{id}/rotate",
    operation_id = "rotateWebhook",
    tag = "webhooks",
    params(("id" = u64, Path, description = "The number of the webhook")),
    request_body = schema::Rotation,
    responses((status = 200, description = "The webhook, with its new secret", body = WebhookView))
)]
pub(crate) async fn rotate(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    ResourceId(id): ResourceId,
    JsonObject(object): JsonObject,
) -> Result<Response, Problem> {
    let id = accounts::id(&id)?;
    let overlap = accounts::overlap(object)?;
    let secret = new_secret().map_err(no_random)?;
    let now = clock::unix_millis();
    let until = now + overlap * 1000;
    let change = Box::new(move |row: &WebhookRow| {
        // The answer of an earlier rotation may be lost: what the receiver knows for sure is the one before it.
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
    let changed = app.store.change_webhook(id, &actor, entry, change);
    Ok(Json(WebhookView::with_secret(changed.await??)).into_response())
}

/// Sends an event that only tests a webhook; one that is not active gets it when it is activated.
#[utoipa::path(
    post,
    path = "/webhooks/{id}/ping",
    operation_id = "pingWebhook",
    tag = "webhooks",
    params(("id" = u64, Path, description = "The number of the webhook")),
    responses((status = 202, description = "The delivery, which waits for its first attempt", body = DeliveryView))
)]
pub(crate) async fn ping(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    ResourceId(id): ResourceId,
) -> Result<Response, Problem> {
    let webhook = find(&app, &caller, &id).await?;
    let delivery = app.store.ping_webhook(&webhook).await?;
    Ok((StatusCode::ACCEPTED, Json(DeliveryView::new(delivery))).into_response())
}

/// Lists the deliveries to a webhook.
#[utoipa::path(
    get,
    path = "/webhooks/{id}/deliveries",
    operation_id = "listDeliveries",
    tag = "webhooks",
    params(("id" = u64, Path, description = "The number of the webhook"), schema::Page),
    responses((status = 200, description = "A page of deliveries, newest first", body = DeliveriesView))
)]
pub(crate) async fn deliveries(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    ResourceId(id): ResourceId,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let (limit, before) = page::parameters(query.as_deref())?;
    let webhook = find(&app, &caller, &id).await?;
    let list = app.store.list_deliveries(webhook.id, before, limit + 1);
    let mut deliveries = list.await?;
    let next_cursor = page::cut(&mut deliveries, limit).map(|last| page::place(last.id));
    let deliveries = deliveries.into_iter().map(DeliveryView::new).collect();
    Ok(Json(DeliveriesView {
        deliveries,
        next_cursor,
    })
    .into_response())
}
