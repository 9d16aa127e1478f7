//! Keys and tokens.

use super::error::Checks;
use super::{Secret, text};
use serde::Deserialize;
use std::path::PathBuf;
use std::time::Duration;

/// Below this a token can be guessed.
const MIN_TOKEN_LENGTH: usize = 16;

/// Keys and tokens.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "a section")]
pub struct AuthConfig {
    /// What edges send as bearer token to `/edge/v1`: visible ASCII, at least 16 characters, no commas. Several are for
    /// rotation: add the new one here, change the edges, take the old one away. Default none: the edge API refuses
    /// everybody.
    pub edge_tokens: Vec<Secret>,
    /// A file with further tokens, one a line. Default none.
    pub edge_token_file: Option<PathBuf>,
    /// Where the first start, when there are no API keys, writes the admin key that it makes, readable for its owner
    /// only. A file that is there already and holds a key is taken as it is. Default none: no key is made, and
    /// `edgelink keys create` makes one.
    pub admin_key_file: Option<PathBuf>,
    /// For how long a key that was looked up is not looked up again, in milliseconds, 0 to 60,000. Default 2,000. A
    /// revoked key works for that much longer; 0 asks the database at every request.
    pub key_cache_ms: u64,
    /// How many keys are kept in that cache, 1 to 1,000,000. Default 10,000, a few megabytes.
    pub key_cache_entries: u64,
    /// How many keys that were never found may be looked up at once, 1 to 1,000. Default 4. With further ones a request is
    /// answered 503 at once. Keys in use do not count: those who make keys up cannot keep them from the database.
    pub max_key_lookups: usize,
}

impl Default for AuthConfig {
    fn default() -> Self {
        Self {
            edge_tokens: Vec::new(),
            edge_token_file: None,
            admin_key_file: None,
            key_cache_ms: 2_000,
            key_cache_entries: 10_000,
            max_key_lookups: 4,
        }
    }
}

impl AuthConfig {
    pub(super) fn complete(&mut self, checks: &mut Checks) {
        checks.range("auth.key_cache_ms", self.key_cache_ms, &(0..=60_000));
        checks.range(
            "auth.key_cache_entries",
            self.key_cache_entries,
            &(1..=1_000_000),
        );
        checks.range("auth.max_key_lookups", self.max_key_lookups, &(1..=1_000));
        if !self.edge_tokens.iter().all(is_token) {
            checks.refuse("auth.edge_tokens", TOKEN_RULE);
        }
        if let Some(path) = &self.edge_token_file {
            match text::read_file(path).and_then(|text| tokens(&text)) {
                Ok(tokens) => self.edge_tokens.extend(tokens),
                Err(reason) => checks.refuse("auth.edge_token_file", reason),
            }
        }
    }

    pub(crate) fn key_cache_time(&self) -> Duration {
        Duration::from_millis(self.key_cache_ms)
    }
}

const TOKEN_RULE: &str = "must hold tokens of at least 16 visible ASCII characters without commas, for example from: openssl rand -hex 32";

fn tokens(text: &str) -> Result<Vec<Secret>, String> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let tokens: Vec<Secret> = lines.map(Secret::new).collect();
    if tokens.is_empty() || !tokens.iter().all(is_token) {
        return Err(TOKEN_RULE.to_owned());
    }
    Ok(tokens)
}

fn is_token(token: &Secret) -> bool {
    let token = token.expose();
    token.len() >= MIN_TOKEN_LENGTH
        && token
            .bytes()
            .all(|byte| byte.is_ascii_graphic() && byte != b',')
}
