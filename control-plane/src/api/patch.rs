//! `PATCH /links/{code}`: a JSON merge patch (RFC 7396). What is missing stays, null goes back to the default. With
//! `If-Match` it is applied only to what the client has seen.

use super::body::JsonObject;
use super::fields::Fields;
use super::if_match::IfMatch;
use super::key::RequestedLink;
use super::{values, view};
use crate::app::App;
use crate::config::LinksConfig;
use crate::model::LinkContent;
use crate::problem::{FieldError, Kind, Problem};
use crate::store::ChangeError;
use crate::target::TargetUrl;
use axum::extract::State;
use axum::response::Response;
use edgelink_wire::{LinkKey, LinkState, RedirectStatus};
use serde_json::{Map, Value};
use std::sync::Arc;

const IF_MATCH: &str = "If-Match";

pub(crate) async fn patch(
    State(app): State<Arc<App>>,
    RequestedLink(key): RequestedLink,
    if_match: IfMatch,
    JsonObject(object): JsonObject,
) -> Result<Response, Problem> {
    let links = &app.config.links;
    let patch = Patch::parse(object, links)?;
    let seen = seen_content(&app, &key, &if_match).await?;
    let change = Box::new(move |content: &LinkContent| {
        if seen.as_ref().is_some_and(|seen| seen != content) {
            return Err(changed_meanwhile());
        }
        patch.apply(content)
    });
    match app.store.update_link(&key, change).await? {
        Some(Ok(link)) => Ok(view::found(&link, links)),
        Some(Err(error)) => Err(error.into()),
        None => Err(Problem::new(Kind::LinkNotFound)),
    }
}

/// What the client has seen, where it names that; a link of another revision is refused. The change is made only if the
/// content is still this one when the row is locked.
async fn seen_content(
    app: &App,
    key: &LinkKey,
    if_match: &IfMatch,
) -> Result<Option<LinkContent>, Problem> {
    if !if_match.is_given() {
        return Ok(None);
    }
    let link = app.store.find_link(key).await?;
    let link = link.ok_or_else(|| Problem::new(Kind::LinkNotFound))?;
    if if_match.holds_for(&link) {
        Ok(Some(link.content))
    } else {
        Err(Problem::new(Kind::PreconditionFailed))
    }
}

fn changed_meanwhile() -> ChangeError {
    ChangeError {
        field: IF_MATCH,
        reason: "names a revision that is no longer the current one".to_owned(),
    }
}

/// The new values of those fields that are to change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Patch {
    target: Option<TargetUrl>,
    redirect: Option<RedirectStatus>,
    state: Option<LinkState>,
    valid_since: Option<Option<u64>>,
    valid_until: Option<Option<u64>>,
    forward_query: Option<bool>,
    title: Option<Option<String>>,
    tags: Option<Vec<String>>,
}

impl Patch {
    fn parse(object: Map<String, Value>, links: &LinksConfig) -> Result<Self, Problem> {
        let mut fields = Fields::new(object);
        let target = fields.change("longUrl", |value| values::target(value, links));
        if target == Some(None) {
            fields.refuse("longUrl", "must not be null");
        }
        let or_default = |change: Option<Option<bool>>| change.map(|value| value.unwrap_or(true));
        let patch = Self {
            target: target.flatten(),
            valid_since: fields.change("validSince", values::time),
            valid_until: fields.change("validUntil", values::time),
            redirect: fields
                .change("redirectStatus", values::redirect)
                .map(Option::unwrap_or_default),
            forward_query: or_default(fields.change("forwardQuery", values::flag)),
            title: fields.change("title", values::title),
            tags: fields
                .change("tags", values::tags)
                .map(Option::unwrap_or_default),
            state: fields
                .change("state", values::state)
                .map(Option::unwrap_or_default),
        };
        fields.finish().map(|()| patch)
    }

    /// Validity is checked on what comes out, for the patch may hold one end of it only.
    fn apply(&self, old: &LinkContent) -> Result<LinkContent, ChangeError> {
        let new = LinkContent {
            target: self.target.clone().unwrap_or_else(|| old.target.clone()),
            redirect: self.redirect.unwrap_or(old.redirect),
            state: self.state.unwrap_or(old.state),
            valid_since: self.valid_since.unwrap_or(old.valid_since),
            valid_until: self.valid_until.unwrap_or(old.valid_until),
            forward_query: self.forward_query.unwrap_or(old.forward_query),
            title: self.title.clone().unwrap_or_else(|| old.title.clone()),
            tags: self.tags.clone().unwrap_or_else(|| old.tags.clone()),
        };
        values::check_validity(new.valid_since, new.valid_until).map_err(|reason| ChangeError {
            field: "validUntil",
            reason: reason.to_owned(),
        })?;
        Ok(new)
    }
}

impl From<ChangeError> for Problem {
    fn from(error: ChangeError) -> Self {
        if error.field == IF_MATCH {
            return Self::new(Kind::PreconditionFailed);
        }
        Self::validation(vec![FieldError::new(error.field, error.reason)])
    }
}
