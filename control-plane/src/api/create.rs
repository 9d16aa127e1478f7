//! `POST /links`.

use super::body::JsonObject;
use super::fields::Fields;
use super::idempotency::{self, RequestId, Route};
use super::many::{CarefulOrder, Made};
use super::{values, view};
use crate::app::App;
use crate::auth::Caller;
use crate::config::LinksConfig;
use crate::issuer::IssueError;
use crate::links::{CreateFailure, Order};
use crate::model::LinkContent;
use crate::problem::{FieldError, Kind, Problem};
use crate::store::Receipt;
use axum::extract::{Extension, State};
use axum::response::Response;
use edgelink_wire::LinkKey;
use http::HeaderMap;
use serde_json::{Map, Value};
use std::cell::OnceCell;
use std::collections::HashSet;
use std::sync::Arc;

pub(crate) async fn create(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    JsonObject(object): JsonObject,
) -> Result<Response, Problem> {
    let links = &app.config.links;
    let id = RequestId::of(&headers, &caller, Route::One)?;
    let receipt = id.map(|id| id.receipt(0, &object));
    let order = parse(object, links, &caller, receipt)?;
    let aliases = code_like_aliases(&app, [&order]);
    let from = app.feed.end();
    let response = carry_out(&app, order).await?;
    app.feed.await_told(from, aliases, &app.config.feed).await;
    Ok(response)
}

/// The keys that edges take for codes that were never issued until they are told better.
pub(super) fn code_like_aliases<'a>(
    app: &App,
    orders: impl IntoIterator<Item = &'a CarefulOrder>,
) -> HashSet<String> {
    let space = OnceCell::new();
    let key = |order: &'a CarefulOrder| {
        let slug = order.order.slug.as_ref()?;
        let space = space.get_or_init(|| app.config.links.code_space());
        space.number(slug.as_str().as_bytes())?;
        Some(LinkKey::new(order.order.domain.clone(), slug.clone()).to_string())
    };
    orders.into_iter().filter_map(key).collect()
}

async fn carry_out(app: &App, order: CarefulOrder) -> Result<Response, Problem> {
    let links = &app.config.links;
    if !order.find_if_exists && order.receipt.is_none() {
        let link = app.creator.create(order.order).await?;
        return Ok(view::created(&link, links));
    }
    match app.careful.one(order).await? {
        Made::New(link) => Ok(view::created(&link, links)),
        Made::Before(link) => Ok(replayed(view::created(&link, links))),
        Made::Found(link) => Ok(view::found(&link, links)),
        Made::FoundBefore(link) => Ok(replayed(view::found(&link, links))),
    }
}

fn replayed(mut response: Response) -> Response {
    response
        .headers_mut()
        .insert(idempotency::REPLAYED, idempotency::TRUE);
    response
}

pub(super) fn parse(
    object: Map<String, Value>,
    links: &LinksConfig,
    caller: &Caller,
    receipt: Option<Receipt>,
) -> Result<CarefulOrder, Problem> {
    let mut fields = Fields::new(object);
    let target = fields.required("longUrl", |value| values::target(value, links));
    let slug = fields.optional("customSlug", values::slug);
    let domain = fields.optional("domain", |value| values::domain(value, links));
    let valid_since = fields.optional("validSince", values::time);
    let valid_until = fields.optional("validUntil", values::time);
    let redirect = fields.optional("redirectStatus", values::redirect);
    let forward_query = fields.optional("forwardQuery", values::flag);
    let title = fields.optional("title", values::title);
    let tags = fields.optional("tags", values::tags);
    let state = fields.optional("state", values::state);
    let find_if_exists = fields.optional("findIfExists", values::flag);
    if let Err(reason) = values::check_validity(valid_since, valid_until) {
        fields.refuse("validUntil", reason);
    }
    fields.finish()?;
    // A missing target was refused above.
    let target = target.ok_or_else(|| Problem::new(Kind::Validation))?;
    let content = LinkContent {
        target,
        redirect: redirect.unwrap_or_default(),
        state: state.unwrap_or_default(),
        valid_since,
        valid_until,
        forward_query: forward_query.unwrap_or(true),
        title,
        tags: tags.unwrap_or_default(),
    };
    let domain = domain.unwrap_or_else(|| links.default_domain().clone());
    Ok(CarefulOrder {
        order: Order {
            domain,
            slug,
            content,
            owner: caller.id().to_owned(),
        },
        find_if_exists: find_if_exists.unwrap_or(false),
        receipt,
    })
}

impl From<CreateFailure> for Problem {
    fn from(failure: CreateFailure) -> Self {
        match failure {
            CreateFailure::SlugTaken => {
                Self::new(Kind::SlugTaken).with_errors(vec![FieldError::new(
                    "customSlug",
                    "is taken on this domain",
                )])
            }
            CreateFailure::Overloaded => Self::new(Kind::Overloaded),
            CreateFailure::CodesTaken(_) => {
                tracing::error!(error = %failure, "no code was found for a link");
                Self::new(Kind::CodesTaken)
            }
            CreateFailure::Issue(IssueError::Store(error)) | CreateFailure::Store(error) => {
                error.into()
            }
            CreateFailure::Issue(error @ IssueError::Exhausted { .. }) => {
                tracing::error!(%error, "configure a longer links.code_length");
                Self::new(Kind::CodesExhausted)
            }
            CreateFailure::Issue(
                error @ (IssueError::Source { .. } | IssueError::ClockWentBack { .. }),
            ) => {
                tracing::error!(%error, "there are no numbers for new links");
                Self::new(Kind::IssuerUnavailable)
            }
            CreateFailure::Issue(IssueError::Closed) => Self::new(Kind::Stopping),
        }
    }
}
