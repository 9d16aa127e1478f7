//! `If-Match` (RFC 9110, section 13.1.1): change a link only if it is still the one that the client has seen.

use crate::model::Link;
use axum::extract::FromRequestParts;
use http::header;
use http::request::Parts;
use std::convert::Infallible;

/// The entity tags that a client names, where it does.
pub(crate) struct IfMatch(Option<String>);

impl<S: Sync> FromRequestParts<S> for IfMatch {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        let lines = parts.headers.get_all(header::IF_MATCH).iter();
        // Bytes that are no text match no tag of ours, which is what they should do.
        let texts: Vec<_> = lines
            .map(|line| String::from_utf8_lossy(line.as_bytes()))
            .collect();
        Ok(Self((!texts.is_empty()).then(|| texts.join(","))))
    }
}

impl IfMatch {
    /// Whether there is a condition at all.
    pub(crate) fn is_given(&self) -> bool {
        self.0.is_some()
    }

    /// Whether the link is one that the client means. Weak tags never are (section 8.8.3.2).
    pub(crate) fn holds_for(&self, link: &Link) -> bool {
        let Some(tags) = &self.0 else {
            return true;
        };
        let current = entity_tag(link);
        tags.split(',')
            .map(str::trim)
            .any(|tag| tag == "*" || tag == current)
    }
}

/// The revision of the link as a strong entity tag.
pub(crate) fn entity_tag(link: &Link) -> String {
    format!("\"{}\"", link.rev)
}
