//! `PATCH /links/{code}`: a JSON merge patch (RFC 7396). A missing field stays, null sets the default.

use super::body::JsonObject;
use super::fields::Fields;
use super::if_match::IfMatch;
use super::one::RequestedLink;
use super::{values, view};
use crate::config::LinksConfig;
use crate::feed::AwaitedChanges;
use crate::http::app::App;
use crate::links::model::{Link, LinkContent};
use crate::links::target::TargetUrl;
use crate::problem::{Kind, Problem};
use crate::store::ChangeError;
use axum::extract::State;
use axum::response::Response;
use edgelink_wire::{LinkState, RedirectStatus};
use serde_json::{Map, Value};
use std::sync::Arc;

pub(crate) async fn patch(
    State(app): State<Arc<App>>,
    RequestedLink(key): RequestedLink,
    if_match: IfMatch,
    JsonObject(object): JsonObject,
) -> Result<Response, Problem> {
    let links = &app.config.links;
    let patch = Patch::parse(object, links)?;
    let change = Box::new(move |link: &Link| {
        if_match.check(link)?;
        patch.apply(&link.content)
    });
    let from = app.feed.end();
    match app.store.update_link(&key, change).await? {
        Some(Ok(link)) => {
            let awaited = AwaitedChanges::new(from, [(key, link.rev)]);
            Ok(awaited.attach_to(view::found(&link, links)))
        }
        Some(Err(error)) => Err(error.into()),
        None => Err(Problem::new(Kind::LinkNotFound)),
    }
}

/// The new values of the fields that change.
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

    /// The changed content. Validity is checked on it, because the patch may hold one end of it only.
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
