//! Who looks at a page.

use super::layout::Tab;
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

    /// Whether the user may look at what is behind a tab.
    pub(super) fn sees(&self, tab: Tab) -> bool {
        let get = |path| self.may(&Method::GET, path);
        match tab {
            Tab::Overview | Tab::Links => get("/links"),
            Tab::Create => self.may(&Method::POST, "/links"),
            Tab::Tags => get("/tags"),
            Tab::Domains => get("/domains"),
            Tab::Keys => get("/keys"),
            Tab::Users => get("/users"),
            Tab::Audit => get("/audit"),
            Tab::Settings => true,
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
