//! `If-Match` (RFC 9110, section 13.1.1): changes a link only if it has a revision that the client names.

use crate::links::model::Link;
use crate::problem::{FieldError, Kind, Problem};
use crate::store::ChangeError;
use axum::extract::FromRequestParts;
use http::header;
use http::request::Parts;
use std::convert::Infallible;

/// The entity tags of `If-Match`, if it was sent.
pub(crate) struct IfMatch(Option<String>);

impl<S: Sync> FromRequestParts<S> for IfMatch {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        let lines = parts.headers.get_all(header::IF_MATCH).iter();
        // Bytes that are no text match no entity tag.
        let texts: Vec<_> = lines
            .map(|line| String::from_utf8_lossy(line.as_bytes()))
            .collect();
        Ok(Self((!texts.is_empty()).then(|| texts.join(","))))
    }
}

impl IfMatch {
    /// Refuses a link whose revision is not among the tags. Weak tags never match (section 8.8.3.2).
    pub(crate) fn check(&self, link: &Link) -> Result<(), ChangeError> {
        let Some(tags) = &self.0 else {
            return Ok(());
        };
        let current = entity_tag(link);
        let is_meant = |tag: &str| tag == "*" || tag == current;
        if tags.split(',').map(str::trim).any(is_meant) {
            return Ok(());
        }
        Err(ChangeError::Changed)
    }
}

impl From<ChangeError> for Problem {
    fn from(error: ChangeError) -> Self {
        match error {
            ChangeError::Hidden => Self::new(Kind::LinkNotFound),
            ChangeError::Changed => Self::new(Kind::PreconditionFailed),
            ChangeError::Invalid { field, reason } => {
                Self::validation(vec![FieldError::new(field, reason)])
            }
        }
    }
}

/// The revision of the link as a strong entity tag.
pub(crate) fn entity_tag(link: &Link) -> String {
    format!("\"{}\"", link.rev)
}
