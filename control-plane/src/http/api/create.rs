//! `POST /links`.

use super::body::JsonObject;
use super::draft::Draft;
use super::fields::Fields;
use super::idempotency::{self, RequestId, Route};
use super::properties::Properties;
use super::schema;
use super::{quota, values, view};
use crate::config::LinksConfig;
use crate::feed::AwaitedChanges;
use crate::http::app::App;
use crate::http::auth::Caller;
use crate::http::tenant_links::TenantLinks;
use crate::links::model::History;
use crate::problem::Problem;
use crate::service::order::{FulfilledOrder, Order};
use crate::store::{ChangeError, Receipt};
use axum::extract::{Extension, State};
use axum::response::Response;
use http::HeaderMap;
use serde_json::{Map, Value};
use std::sync::Arc;

/// Creates a link.
///
/// The 201 is sent after the commit. An alias can be followed at every edge then.
#[utoipa::path(
    post,
    path = "/links",
    operation_id = "createLink",
    tag = "links",
    params(schema::Idempotency),
    request_body = schema::NewLink,
    responses(
        (
            status = 201, description = "The link was created",
            body = view::LinkView<'static>,
            headers(
                ("ETag" = String, description = "The revision"),
                ("Location" = String, description = "The resource"),
            ),
        ),
        (
            status = 200, description = "`findIfExists`: there is such a link",
            body = view::LinkView<'static>,
            headers(("ETag" = String, description = "The revision")),
        ),
    )
)]
pub(crate) async fn create(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    JsonObject(object): JsonObject,
) -> Result<Response, Problem> {
    let links = &app.links(&caller);
    let id = RequestId::of(&headers, &caller, Route::One)?;
    let receipt = id.map(|id| id.receipt(0, &object));
    let draft = parse(object, links, &caller, receipt)?;
    let order = draft.hash(&app.passwords, caller.claim()).await?;
    let (made, awaited) = carry_out(&app, &caller, order).await?;
    Ok(awaited.attach_to(answer(&made, links)))
}

/// Carries an order out within the caller's quota.
pub(crate) async fn carry_out(
    app: &App,
    caller: &Caller,
    order: Order,
) -> Result<(FulfilledOrder, AwaitedChanges), Problem> {
    let is_alias = order.alias.is_some();
    let from = app.feed.end();
    let made = quota::create(app, caller, order).await?;
    // Edges answer an alias with 404 until the feed has carried it.
    let awaited = AwaitedChanges::new(from, made.new_link().filter(|_| is_alias));
    Ok((made, awaited))
}

fn answer(made: &FulfilledOrder, links: &LinksConfig) -> Response {
    let mut response = match made.is_found {
        true => view::found(&made.link, links),
        false => view::created(&made.link, links),
    };
    if made.is_replayed {
        let headers = response.headers_mut();
        headers.insert(idempotency::REPLAYED, idempotency::TRUE);
    }
    response
}

/// The order for the link.
pub(crate) fn parse(
    object: Map<String, Value>,
    links: &TenantLinks<'_>,
    caller: &Caller,
    receipt: Option<Receipt>,
) -> Result<Draft, Problem> {
    let (order, properties) = read(Fields::new(object), links, caller, receipt)?;
    Ok(Draft::new(order, properties.into_new_password()))
}

/// The same of fields of which others were read before, and the properties that they name.
pub(super) fn read(
    mut fields: Fields,
    links: &TenantLinks<'_>,
    caller: &Caller,
    receipt: Option<Receipt>,
) -> Result<(Order, Properties), Problem> {
    let target = fields.required("longUrl", |value| values::target(value, links));
    let alias = fields.optional("customSlug", |value| values::alias(value, links));
    let default = caller.default_domain(links.default_domain());
    let domain = values::place(&mut fields, default, caller, links);
    let find_if_exists = fields.optional("findIfExists", values::flag);
    let mut properties = Properties::read(&mut fields, links).by(caller);
    if let Some(target) = target.clone() {
        properties.set_target(target);
    }
    // A missing target is refused; what else is wrong is named all the same.
    let content = properties.apply(links.new_content(&domain, target));
    if let Err(ChangeError::Invalid { field, reason }) = &content {
        fields.refuse(field, reason.clone());
    }
    fields.finish()?;
    let content = content?;
    let order = Order {
        domain,
        alias,
        content,
        owner: caller.id().to_owned(),
        owner_id: caller.user_id(),
        scope: caller.scope().clone(),
        history: History::default(),
        number: None,
        find_if_exists: find_if_exists.unwrap_or(false),
        receipt,
    };
    Ok((order, properties))
}
