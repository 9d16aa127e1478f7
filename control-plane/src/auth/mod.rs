//! Who may do what: API keys for people and programs, tokens for edges. Both are compared in constant time.
//!
//! Three kinds of paths need no key: redirects, for that is what they are for, `/health/*` and `/metrics`, for probes and
//! Prometheus bring none. Keep the last two from the public by the network.

pub mod api_key;
mod edge_tokens;
mod first_key;
mod key_cache;
mod verifier;

pub use first_key::{AdminKeyError, ensure_admin_key};

pub(crate) use edge_tokens::EdgeTokens;
pub(crate) use verifier::KeyVerifier;

use crate::app::App;
use crate::problem::{Kind, Problem};
use crate::store::ApiKeyRow;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use http::{HeaderMap, header};
use std::sync::Arc;

const API_KEY_HEADER: &str = "x-api-key";

/// Who sends a request: the API key, which [`require_api_key`] has put into its extensions.
#[derive(Clone, Debug)]
pub(crate) struct Caller(Arc<ApiKeyRow>);

impl Caller {
    /// The public part of the key.
    pub(crate) fn id(&self) -> &str {
        &self.0.id
    }
}

/// Lets requests with a valid API key through.
pub(crate) async fn require_api_key(
    State(app): State<Arc<App>>,
    mut request: Request,
    next: Next,
) -> Result<Response, Problem> {
    let key = bearer(request.headers())
        .or_else(|| visible(request.headers(), API_KEY_HEADER))
        .ok_or_else(|| {
            Problem::new(Kind::Unauthorized)
                .with_detail("send a key as 'Authorization: Bearer <key>' or as 'X-Api-Key: <key>'")
        })?;
    let row = app.keys.verify(key).await?;
    let row =
        row.ok_or_else(|| Problem::new(Kind::Unauthorized).with_detail("the key is not valid"))?;
    request.extensions_mut().insert(Caller(row));
    Ok(next.run(request).await)
}

/// Lets requests with one of the edges' tokens through.
pub(crate) async fn require_edge_token(
    State(app): State<Arc<App>>,
    request: Request,
    next: Next,
) -> Result<Response, Problem> {
    let is_known = bearer(request.headers()).is_some_and(|token| app.edge_tokens.contains(token));
    if is_known {
        Ok(next.run(request).await)
    } else {
        Err(Problem::new(Kind::Unauthorized).with_detail("the edge token is missing or not valid"))
    }
}

/// The token of `Authorization: Bearer` (RFC 6750, section 2.1); the scheme's case does not matter.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = visible(headers, header::AUTHORIZATION.as_str())?.split_once(' ')?;
    scheme
        .eq_ignore_ascii_case("bearer")
        .then(|| token.trim_matches(' '))
}

fn visible<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}
