//! `POST /links`.

use super::body::JsonObject;
use super::fields::Fields;
use super::{values, view};
use crate::app::App;
use crate::auth::Caller;
use crate::config::LinksConfig;
use crate::issuer::IssueError;
use crate::links::{CreateFailure, Order};
use crate::model::LinkContent;
use crate::problem::{FieldError, Kind, Problem};
use axum::extract::{Extension, State};
use axum::response::Response;
use serde_json::{Map, Value};
use std::sync::Arc;

pub(crate) async fn create(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    JsonObject(object): JsonObject,
) -> Result<Response, Problem> {
    let order = parse(object, &app.config.links, &caller)?;
    let link = app.creator.create(order).await?;
    Ok(view::created(&link, &app.config.links))
}

fn parse(
    object: Map<String, Value>,
    links: &LinksConfig,
    caller: &Caller,
) -> Result<Order, Problem> {
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
    Ok(Order {
        domain,
        slug,
        content,
        owner: caller.id().to_owned(),
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
