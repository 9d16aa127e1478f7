//! Authentication: API keys for people and programs, tokens for edges. Both are compared in constant time.
//!
//! Redirects need no key, nor do `/health/*` and `/metrics`, because probes and Prometheus send none. Keep the last two from
//! the public by the network.

pub mod api_key;
mod first_key;
mod key_verifier;

pub use first_key::{AdminKeyError, ensure_admin_key};

pub(crate) use key_verifier::KeyVerifier;

use crate::config::Secret;
use crate::problem::{Kind, Problem};
use crate::store::ApiKeyRow;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use http::{HeaderMap, header};
use sha2::{Digest, Sha256};
use std::sync::Arc;
use subtle::{Choice, ConstantTimeEq};

const API_KEY_HEADER: &str = "x-api-key";

/// The API key of a request, which [`require_api_key`] puts into its extensions.
#[derive(Clone, Debug)]
pub(crate) struct Caller(Arc<ApiKeyRow>);

impl Caller {
    /// The public part of the key.
    pub(crate) fn id(&self) -> &str {
        &self.0.id
    }
}

/// The tokens that edges may send; several at once while they are being rotated.
pub(crate) struct EdgeTokens(Vec<[u8; 32]>);

impl EdgeTokens {
    pub(crate) fn new(tokens: &[Secret]) -> Self {
        Self(tokens.iter().map(|token| hash(token.expose())).collect())
    }

    /// Whether `token` is one of them. All hashes are compared, so that the time shows neither length nor place of a
    /// difference.
    pub(crate) fn contains(&self, token: &str) -> bool {
        let token = hash(token);
        self.0
            .iter()
            .fold(Choice::from(0), |found, known| found | known.ct_eq(&token))
            .into()
    }
}

fn hash(token: &str) -> [u8; 32] {
    Sha256::digest(token).into()
}

/// Lets requests with a valid API key through.
pub(crate) async fn require_api_key(
    State(keys): State<Arc<KeyVerifier>>,
    mut request: Request,
    next: Next,
) -> Result<Response, Problem> {
    let key = bearer(request.headers())
        .or_else(|| visible(request.headers(), API_KEY_HEADER))
        .ok_or_else(|| {
            Problem::new(Kind::Unauthorized)
                .with_detail("send a key as 'Authorization: Bearer <key>' or as 'X-Api-Key: <key>'")
        })?;
    let row = keys.verify(key).await?;
    let row =
        row.ok_or_else(|| Problem::new(Kind::Unauthorized).with_detail("the key is not valid"))?;
    request.extensions_mut().insert(Caller(row));
    Ok(next.run(request).await)
}

/// Lets requests with one of the edges' tokens through.
pub(crate) async fn require_edge_token(
    State(tokens): State<Arc<EdgeTokens>>,
    request: Request,
    next: Next,
) -> Result<Response, Problem> {
    let is_known = bearer(request.headers()).is_some_and(|token| tokens.contains(token));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_token_of_a_rotation_is_known_and_no_other() {
        let tokens = EdgeTokens::new(&[Secret::new("old-token"), Secret::new("new-token")]);
        assert!(tokens.contains("old-token"));
        assert!(tokens.contains("new-token"));
        for other in ["", "old-toke", "old-token ", "OLD-TOKEN"] {
            assert!(!tokens.contains(other), "{other}");
        }
        assert!(!EdgeTokens::new(&[]).contains(""));
    }
}
