//! Authentication: API keys for people and programs, tokens for edges. Both are compared in constant time.
//!
//! Redirects need no key, nor do `/health/*` and `/metrics`, because probes and Prometheus send none. Keep the last two from
//! the public by the network.

pub mod permission;

pub use edgelink_service::first_key::{AdminKeyError, ensure_admin_key};

pub use edgelink_service::caller::Caller;
pub use edgelink_service::caller::Login;
pub(crate) use edgelink_service::key_verifier::KeyVerifier;

use super::admitted::Admitted;
use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use edgelink_service::problem::{Kind, Problem};
use edgelink_settings::admission::Refusal;
use edgelink_settings::config::{AuthConfig, Secret};
use edgelink_settings::reloaded::Reloaded;
use http::{HeaderMap, header};
use sha2::{Digest, Sha256};
use std::borrow::Cow;
use std::sync::Arc;
use subtle::{Choice, ConstantTimeEq};

const API_KEY_HEADER: &str = "x-api-key";

/// The tokens that edges may send; several at once while they are being rotated.
pub struct EdgeTokens(Vec<[u8; 32]>);

impl EdgeTokens {
    pub(crate) fn new(tokens: &[Secret]) -> Self {
        Self(tokens.iter().map(|token| hash(token.expose())).collect())
    }

    /// The tokens of `config` and of its file, which is read again when it changes.
    ///
    /// # Errors
    /// A description of the error in the file.
    pub fn reloaded(config: &AuthConfig) -> Result<Arc<Reloaded<Self>>, String> {
        let files = config.edge_token_file.iter().cloned().collect();
        let config = config.clone();
        Reloaded::new("auth.edge_token_file", files, move |files| {
            let tokens = config.tokens_with(files.first());
            tokens
                .map(|tokens| Self::new(&tokens))
                .map_err(str::to_owned)
        })
    }

    /// True if there is no token for edges.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// True if `token` is one of the tokens. All hashes are compared, so that the time reveals neither length nor position of a
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

/// The base path of the admin API.
const API: &str = "/api/v1";

/// The base paths of Shlink's API, the newest version last: all have the same routes.
pub const SHLINK_VERSIONS: [&str; 3] = ["/rest/v1", "/rest/v2", SHLINK];

const SHLINK: &str = "/rest/v3";

/// Identifies the caller of a request by its API key.
///
/// # Errors
/// The answer to a request without a valid key with the right that it needs.
pub(crate) async fn require_api_key(
    keys: &KeyVerifier,
    request: &mut Request,
) -> Result<(), Response> {
    let caller = authenticate(keys, request.headers()).await;
    let caller = caller.map_err(Problem::into_response)?;
    // A path that does not exist requires no right.
    let refusal =
        route(request).and_then(|route| permission::refusal(&caller, request.method(), &route));
    if let Some(refusal) = refusal {
        return Err(refusal);
    }
    identify(request, &caller).map_err(|refusal| Problem::from(refusal).into_response())?;
    request.extensions_mut().insert(caller);
    Ok(())
}

/// Counts the permits of a request for its caller.
pub fn identify(request: &Request, caller: &Caller) -> Result<(), Refusal> {
    Admitted::of(request.extensions()).identify(caller.tenant_id(), caller.id())
}

/// The API key in a request, unchecked; `None` if there is none.
pub(crate) fn sent_key(headers: &HeaderMap) -> Option<&str> {
    bearer(headers).or_else(|| visible(headers, API_KEY_HEADER))
}

async fn authenticate(keys: &KeyVerifier, headers: &HeaderMap) -> Result<Caller, Problem> {
    let key = sent_key(headers).ok_or_else(|| {
        Problem::new(Kind::Unauthorized)
            .with_detail("send a key as 'Authorization: Bearer <key>' or as 'X-Api-Key: <key>'")
    })?;
    caller_of(keys, key).await
}

/// The caller with that API key.
pub async fn caller_of(keys: &KeyVerifier, key: &str) -> Result<Caller, Problem> {
    let holder = keys.verify(key).await?;
    let holder = holder
        .ok_or_else(|| Problem::new(Kind::Unauthorized).with_detail("the key is not valid"))?;
    Ok(Caller::new(holder))
}

/// Refuses a request whose key was revoked or changed since it was let through, while its body was arriving.
pub async fn check_again(
    keys: &KeyVerifier,
    headers: &HeaderMap,
    caller: &Caller,
) -> Result<(), Problem> {
    let now = match caller.login() {
        Login::Key => authenticate(keys, headers).await?,
        Login::Session(token_hash) => keys.caller_of_session(&token_hash).await?,
    };
    if now.may_the_same(caller) {
        return Ok(());
    }
    Err(Problem::new(Kind::Forbidden).with_detail("the key was changed while the body came"))
}

/// The route below [`API`], or with [`SHLINK`] in front, as the router has it; `None` if the path does not exist.
pub(crate) fn route(request: &Request) -> Option<Cow<'_, str>> {
    let path = request.extensions().get::<MatchedPath>()?.as_str();
    if let Some(path) = path.strip_prefix(API) {
        return Some(path.into());
    }
    if path.starts_with(SHLINK) {
        return Some(path.into());
    }
    let older = SHLINK_VERSIONS
        .iter()
        .find_map(|base| path.strip_prefix(base));
    older.map(|path| format!("{SHLINK}{path}").into())
}

/// True if a request has a header that may contain an API key.
pub(crate) fn sends_key(headers: &HeaderMap) -> bool {
    headers.contains_key(header::AUTHORIZATION) || headers.contains_key(API_KEY_HEADER)
}

/// Lets requests through that have one of the edges' tokens.
pub(crate) async fn require_edge_token(
    State(tokens): State<Arc<Reloaded<EdgeTokens>>>,
    request: Request,
    next: Next,
) -> Result<Response, Problem> {
    let tokens = tokens.current();
    let is_known = bearer(request.headers()).is_some_and(|token| tokens.contains(token));
    if is_known {
        Ok(next.run(request).await)
    } else {
        Err(Problem::new(Kind::Unauthorized).with_detail("the edge token is missing or not valid"))
    }
}

/// The token of `Authorization: Bearer` (RFC 6750, section 2.1); the scheme's case does not matter.
pub(crate) fn bearer(headers: &HeaderMap) -> Option<&str> {
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
    fn edge_token_when_of_the_rotation_is_known() {
        let tokens = EdgeTokens::new(&[Secret::new("old-token"), Secret::new("new-token")]);
        assert!(tokens.contains("old-token"));
        assert!(tokens.contains("new-token"));
        for other in ["", "old-toke", "old-token ", "OLD-TOKEN"] {
            assert!(!tokens.contains(other), "{other}");
        }
        assert!(!EdgeTokens::new(&[]).contains(""));
    }
}
