//! `PATCH /links/{code}`: a JSON merge patch (RFC 7396). A missing field stays, null sets the default.

use super::body::JsonObject;
use super::fields::Fields;
use super::if_match::IfMatch;
use super::one::{self, RequestedLink};
use super::properties::Properties;
use super::schema;
use super::view;
use crate::feed::AwaitedChanges;
use crate::http::app::App;
use crate::http::auth::Caller;
use crate::http::tenant_links::TenantLinks;
use crate::links::model::Link;
use crate::problem::Problem;
use axum::extract::{Extension, State};
use axum::response::Response;
use edgelink_wire::LinkKey;
use serde_json::{Map, Value};
use std::sync::Arc;

/// Changes a link.
///
/// A JSON merge patch (RFC 7396).
#[utoipa::path(
    patch,
    path = "/links/{code}",
    operation_id = "changeLink",
    tag = "links",
    params(schema::OfCode, schema::OfDomain, schema::IfMatch),
    request_body = schema::LinkPatch,
    responses(
        (
            status = 200, description = "The link as it is now",
            body = view::LinkView<'static>,
            headers(("ETag" = String, description = "The revision")),
        ),
    )
)]
pub(crate) async fn patch(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    RequestedLink(key): RequestedLink,
    if_match: IfMatch,
    JsonObject(object): JsonObject,
) -> Result<Response, Problem> {
    let links = &app.links(&caller);
    let patch = parse(object, links)?;
    let (link, awaited) = carry_out(&app, caller, key, if_match, patch).await?;
    Ok(awaited.attach_to(view::found(&link, links)))
}

/// Changes a link that the caller may see.
pub(crate) async fn carry_out(
    app: &App,
    caller: Caller,
    key: LinkKey,
    if_match: IfMatch,
    patch: Properties,
) -> Result<(Link, AwaitedChanges), Problem> {
    let patch = patch.by(&caller);
    if let Some(password) = patch.new_password() {
        app.passwords.hash(password, caller.claim()).await?;
    }
    let apply = move |content| patch.apply(content);
    one::change(app, caller, key, if_match, apply).await
}

pub(crate) fn parse(
    object: Map<String, Value>,
    links: &TenantLinks<'_>,
) -> Result<Properties, Problem> {
    let mut fields = Fields::new(object);
    let properties = Properties::read(&mut fields, links);
    fields.finish().map(|()| properties)
}
