//! The user of a page.

use axum::extract::FromRequestParts;
pub(super) use edgelink_http::auth::Caller;
use edgelink_service::caller::Right;
use edgelink_service::problem::{Kind, Problem};
use edgelink_service::sessions::{LoginSession, Token};
use http::request::Parts;
use std::sync::Arc;

/// A session with its token. `guard` puts it into the extensions of the request.
#[derive(Clone, Debug)]
pub(super) struct SignedIn {
    pub(super) session: Arc<LoginSession>,
    pub(super) token: Token,
}

impl SignedIn {
    pub(super) fn caller(&self) -> &Caller {
        &self.session.caller
    }

    pub(super) fn has(&self, right: Right) -> bool {
        self.caller().has(right)
    }

    /// Refuses a page whose forms need a right that the user does not have.
    pub(super) fn check(&self, right: Right) -> Result<(), Problem> {
        if self.has(right) {
            Ok(())
        } else {
            Err(Problem::new(Kind::Forbidden))
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
