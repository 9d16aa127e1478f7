//! `If-Match` (RFC 9110, section 13.1.1): changes a link only if it has a revision that the client names. `If-None-Match`
//! (section 13.1.2): reads it only if it has none of them.

use axum::extract::FromRequestParts;
use edgelink_model::links::model::Link;
use edgelink_service::revisions::{self, Revisions};
use http::header::{self, HeaderName};
use http::request::Parts;
use std::convert::Infallible;

/// The revisions that `If-Match` names; any revision without the header.
pub(crate) struct IfMatch(pub(crate) Revisions);

impl<S: Sync> FromRequestParts<S> for IfMatch {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        let tags = tags(parts, &header::IF_MATCH);
        Ok(Self(Revisions::of_tags(tags.as_deref())))
    }
}

/// The entity tags of a header, if it was sent.
fn tags(parts: &Parts, name: &HeaderName) -> Option<String> {
    let lines = parts.headers.get_all(name).iter();
    // Bytes that are not UTF-8 match no entity tag.
    let texts: Vec<_> = lines
        .map(|line| String::from_utf8_lossy(line.as_bytes()))
        .collect();
    (!texts.is_empty()).then(|| texts.join(","))
}

/// The entity tags of `If-None-Match`, if it was sent.
pub(crate) struct IfNoneMatch(Option<String>);

impl<S: Sync> FromRequestParts<S> for IfNoneMatch {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Self(tags(parts, &header::IF_NONE_MATCH)))
    }
}

impl IfNoneMatch {
    /// True if the revision of the link is among the tags. Weak tags match as well (section 8.8.3.2).
    pub(crate) fn has(&self, link: &Link) -> bool {
        let current = entity_tag(link);
        let is_meant = |tag: &str| tag == "*" || tag.strip_prefix("W/").unwrap_or(tag) == current;
        let tags = self.0.as_deref().unwrap_or_default();
        tags.split(',').map(str::trim).any(is_meant)
    }
}

/// The revision of the link as a strong entity tag.
pub(crate) fn entity_tag(link: &Link) -> String {
    revisions::tag_of(link.rev)
}
