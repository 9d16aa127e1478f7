//! `POST /links/{code}/restore` and `/links/{code}/move`.

use super::body::JsonObject;
use super::fields::Fields;
use super::if_match::IfMatch;
use super::one::{RequestedLink, outcome};
use super::schema;
use super::{values, view};
use crate::feed::AwaitedChanges;
use crate::http::app::App;
use crate::http::auth::Caller;
use crate::http::tenant_links::TenantLinks;
use crate::links::checked::CheckedContent;
use crate::links::model::Link;
use crate::problem::{FieldError, Kind, Problem};
use crate::service::moving::relocate;
use crate::store::LinkMove;
use axum::extract::{Extension, State};
use axum::response::Response;
use edgelink_wire::LinkKey;
use serde_json::{Map, Value};
use std::sync::Arc;

/// Restores a deleted link, with everything it had.
#[utoipa::path(
    post,
    path = "/links/{code}/restore",
    operation_id = "restoreLink",
    tag = "links",
    params(schema::OfCode, schema::OfDomain, schema::IfMatch),
    responses(
        (
            status = 200, description = "The link as it is now",
            body = view::LinkView<'static>,
            headers(("ETag" = String, description = "The revision")),
        ),
    )
)]
pub(crate) async fn restore(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    RequestedLink(key): RequestedLink,
    if_match: IfMatch,
) -> Result<Response, Problem> {
    let from = app.feed.end();
    let actor = caller.actor();
    let checked = app.clone();
    let check = Box::new(move |link: &Link| {
        caller.check(link)?;
        if_match.check(link)?;
        // It would be as good as a new one.
        checked.links(&caller).renewed(&link.content)
    });
    let restored = app.store.restore_link(&key, check, &actor).await?;
    let link = outcome(restored)?;
    let awaited = AwaitedChanges::new(from, [(key, link.rev)]);
    Ok(awaited.attach_to(view::found(&link, &app.config.links)))
}

/// Moves a link to another code or domain.
#[utoipa::path(
    post,
    path = "/links/{code}/move",
    operation_id = "moveLink",
    tag = "links",
    params(schema::OfCode, schema::OfDomain, schema::IfMatch),
    request_body = schema::Move,
    responses(
        (
            status = 201, description = "The link where it is now",
            body = view::LinkView<'static>,
            headers(
                ("ETag" = String, description = "The revision"),
                ("Location" = String, description = "The resource"),
            ),
        ),
    )
)]
pub(crate) async fn move_link(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    RequestedLink(key): RequestedLink,
    if_match: IfMatch,
    JsonObject(object): JsonObject,
) -> Result<Response, Problem> {
    let links = &app.links(&caller);
    let (to, keeps_old) = parse(object, &key, &caller, links)?;
    if keeps_old && caller.has_quota() {
        let detail = "a key with a quota cannot keep the old link";
        return Err(Problem::new(Kind::QuotaExhausted).with_detail(detail));
    }
    let from = app.feed.end();
    let (actor, scope) = (caller.actor(), caller.scope().clone());
    let checked = app.clone();
    let check = Arc::new(move |link: &Link| {
        caller.check(link)?;
        if_match.check(link)?;
        match keeps_old {
            // There is a new one beside it.
            true => checked.links(&caller).renewed(&link.content),
            false => Ok(CheckedContent::existing(link)),
        }
    });
    let wanted = LinkMove {
        from: key,
        to,
        keeps_old,
    };
    let moved = relocate(&app.store, &app.creator, &wanted, (&actor, scope), check).await?;
    let changed = moved.old.iter().chain([&moved.link]);
    let awaited = AwaitedChanges::new(from, changed.map(|link| (link.key(), link.rev)));
    Ok(awaited.attach_to(view::created(&moved.link, links)))
}

/// Where the link goes, and whether it stays where it was as well.
fn parse(
    object: Map<String, Value>,
    old: &LinkKey,
    caller: &Caller,
    links: &TenantLinks<'_>,
) -> Result<(LinkKey, bool), Problem> {
    let mut fields = Fields::new(object);
    let code = fields.optional("customSlug", |value| values::alias(value, links));
    let domain = values::place(&mut fields, &old.domain, caller, links);
    let keeps_old = fields.optional("keepOld", values::flag);
    fields.finish()?;
    let to = LinkKey::new(domain, code.unwrap_or_else(|| old.code.clone()));
    if to == *old {
        let error = FieldError::new("customSlug", "must be another one, or domain must be");
        return Err(Problem::validation(vec![error]));
    }
    Ok((to, keeps_old.unwrap_or(false)))
}
