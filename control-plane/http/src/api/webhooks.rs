//! `/webhooks`: receivers of the events of the tenant's links.

use super::accounts::{ResourceId, created};
use super::body::JsonObject;
use super::schema;
use crate::app::ApiCall;
use axum::Json;
use axum::extract::RawQuery;
use axum::response::{IntoResponse, Response};
use edgelink_feed::webhooks::secret_text;
use edgelink_model::timestamp;
pub(super) use edgelink_service::accounts::keys::Rotation;
use edgelink_service::page;
use edgelink_service::problem::Problem;
use edgelink_service::webhooks::{Delivery, WebhookRow};
use edgelink_service::webhooks::{NewWebhook, WebhookPatch};
use http::StatusCode;
use serde::Serialize;
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

    /// The view with the secret, which is shown this once.
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

/// Creates a webhook. Its secret is shown this once.
#[utoipa::path(
    post,
    path = "/webhooks",
    operation_id = "createWebhook",
    tag = "webhooks",
    request_body = NewWebhook,
    responses(
        (
            status = 201, description = "The webhook, with its secret",
            body = WebhookView,
            headers(("Location" = String, description = "The resource")),
        ),
    )
)]
pub(crate) async fn create(
    ApiCall { app, caller }: ApiCall,
    JsonObject(object): JsonObject,
) -> Result<Response, Problem> {
    let request = NewWebhook::read(object, app.webhooks.settings())?;
    let row = app.webhooks.create(&caller, request).await?;
    let location = format!("/api/v1/webhooks/{}", row.id);
    Ok(created(&WebhookView::with_secret(row), &location))
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
    ApiCall { app, caller }: ApiCall,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let (limit, after) = page::parameters(query.as_deref())?;
    let page = app.webhooks.list(&caller, limit, after).await?;
    let view = WebhooksView {
        webhooks: page.items.into_iter().map(WebhookView::new).collect(),
        next_cursor: page.next,
    };
    Ok(Json(view).into_response())
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
    ApiCall { app, caller }: ApiCall,
    ResourceId(id): ResourceId,
) -> Result<Response, Problem> {
    let row = app.webhooks.find(&caller, page::number(&id)?).await?;
    Ok(Json(WebhookView::new(row)).into_response())
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
    request_body = WebhookPatch,
    responses((status = 200, description = "The webhook as it is now", body = WebhookView))
)]
pub(crate) async fn patch(
    ApiCall { app, caller }: ApiCall,
    ResourceId(id): ResourceId,
    JsonObject(object): JsonObject,
) -> Result<Response, Problem> {
    let id = page::number(&id)?;
    let detail = object.clone();
    let patch = WebhookPatch::read(object, app.webhooks.settings())?;
    let row = app.webhooks.change(&caller, id, patch, detail).await?;
    Ok(Json(WebhookView::new(row)).into_response())
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
    ApiCall { app, caller }: ApiCall,
    ResourceId(id): ResourceId,
) -> Result<Response, Problem> {
    let id = page::number(&id)?;
    app.webhooks.delete(&caller, id).await?;
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
    request_body = Rotation,
    responses((status = 200, description = "The webhook, with its new secret", body = WebhookView))
)]
pub(crate) async fn rotate(
    ApiCall { app, caller }: ApiCall,
    ResourceId(id): ResourceId,
    JsonObject(object): JsonObject,
) -> Result<Response, Problem> {
    let id = page::number(&id)?;
    let rotation = Rotation::read(object)?;
    let row = app.webhooks.rotate(&caller, id, rotation).await?;
    Ok(Json(WebhookView::with_secret(row)).into_response())
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
    ApiCall { app, caller }: ApiCall,
    ResourceId(id): ResourceId,
) -> Result<Response, Problem> {
    let delivery = app.webhooks.ping(&caller, page::number(&id)?).await?;
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
    ApiCall { app, caller }: ApiCall,
    ResourceId(id): ResourceId,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let (limit, before) = page::parameters(query.as_deref())?;
    let id = page::number(&id)?;
    let page = app.webhooks.deliveries(&caller, id, limit, before).await?;
    let view = DeliveriesView {
        deliveries: page.items.into_iter().map(DeliveryView::new).collect(),
        next_cursor: page.next,
    };
    Ok(Json(view).into_response())
}
