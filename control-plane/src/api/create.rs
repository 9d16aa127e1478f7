//! `POST /links`.

use super::body::JsonObject;
use super::fields::Fields;
use super::idempotency::{self, RequestId, Route};
use super::many::{CarefulOrder, Made};
use super::{values, view};
use crate::app::App;
use crate::auth::Caller;
use crate::config::LinksConfig;
use crate::feed::Untold;
use crate::links::{CreateFailure, Order};
use crate::model::LinkContent;
use crate::numbers::IssueError;
use crate::problem::{FieldError, Kind, Problem};
use crate::store::Receipt;
use axum::extract::{Extension, State};
use axum::response::Response;
use http::HeaderMap;
use serde_json::{Map, Value};
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
    let is_alias = order.order.slug.is_some();
    let from = app.feed.end();
    let made = carry_out(&app, order).await?;
    // Edges take an alias for a code that was never issued until they are told better.
    let untold = Untold::new(from, made.new_link().filter(|_| is_alias));
    Ok(untold.before(answer(&made, links)))
}

async fn carry_out(app: &App, order: CarefulOrder) -> Result<Made, Problem> {
    if order.find_if_exists || order.receipt.is_some() {
        return app.careful.one(order).await;
    }
    Ok(Made::New(app.creator.create(order.order).await?))
}

fn answer(made: &Made, links: &LinksConfig) -> Response {
    match made {
        Made::New(link) => view::created(link, links),
        Made::Before(link) => replayed(view::created(link, links)),
        Made::Found(link) => view::found(link, links),
        Made::FoundBefore(link) => replayed(view::found(link, links)),
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
