//! Who looks at a page.

use crate::http::auth::Caller;
use crate::http::auth::sessions::{Session, Token};
use crate::problem::{Kind, Problem};
use axum::extract::FromRequestParts;
use http::Method;
use http::request::Parts;
use std::sync::Arc;

/// Somebody who has logged in, and the token of the session; `guard` puts it into the extensions of the request.
#[derive(Clone, Debug)]
pub(super) struct SignedIn {
    pub(super) session: Arc<Session>,
    pub(super) token: Token,
}

impl SignedIn {
    pub(super) fn caller(&self) -> &Caller {
        &self.session.caller
    }

    /// Whether the user may send such a request to the API.
    pub(super) fn may(&self, method: &Method, path: &str) -> bool {
        self.caller().may(method, path)
    }

    /// Refuses a page of which the user may send nothing.
    pub(super) fn check(&self, method: &Method, path: &str) -> Result<(), Problem> {
        match self.may(method, path) {
            true => Ok(()),
            false => Err(Problem::new(Kind::Forbidden)),
        }
    }
}

impl<S: Sync> FromRequestParts<S> for SignedIn {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let signed_in = parts.extensions.get::<Self>();
        signed_in
            .cloned()
            .ok_or_else(|| Problem::new(Kind::Unauthorized))
    }
}
