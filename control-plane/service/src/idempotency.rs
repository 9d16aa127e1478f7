//! Requests that are safe to retry, by a key of their clients (draft-ietf-httpapi-idempotency-key-header).
//!
//! The transaction that creates a link stores a receipt under the hash of API key and `Idempotency-Key`. A repeated request, at
//! any replica and after any crash, is answered from the receipt: the same link, as it was then. Errors leave no receipt,
//! because they have created nothing: the request is carried out again.

use super::caller::Caller;
use crate::problem::{Kind, Problem};
use edgelink_store::{Receipt, Store};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

/// The longest key, in characters.
const MAX_KEY_LENGTH: usize = 255;

/// The hash of a request's key, caller and route.
#[derive(Clone, Debug)]
pub struct RequestId {
    hash: [u8; 32],
    /// A hash of this key and the whole API key, of whose secret the database has a hash only. Passwords are mixed with it
    /// before they become part of a fingerprint. So readers of the database who know this key cannot try passwords out by
    /// the fingerprint either.
    secret: [u8; 32],
}

impl RequestId {
    /// The id of a request with that `Idempotency-Key`, by a caller who has sent `api_key`. An equal key of another caller or for
    /// another route gives another id.
    ///
    /// # Errors
    /// A problem if the key is malformed.
    pub fn new(key: &str, caller: &Caller, route: Route, api_key: &[u8]) -> Result<Self, Problem> {
        let key = unquoted(key).ok_or_else(invalid)?;
        let hash = Sha256::new()
            .chain_update(caller.id())
            .chain_update([0])
            .chain_update(key)
            .chain_update(route.suffix());
        Ok(Self {
            hash: hash.finalize().into(),
            secret: secret(api_key, key),
        })
    }

    /// Stores the fingerprint of the whole request.
    ///
    /// # Errors
    /// A problem if the key was used for another request, or the store's.
    pub(crate) async fn claim(&self, store: &Store, whole: WholeRequest) -> Result<(), Problem> {
        let fingerprint = whole.0.finalize().into();
        if store.claim_request(&self.hash, &fingerprint).await? {
            Ok(())
        } else {
            Err(Problem::new(Kind::IdempotencyKeyReused))
        }
    }

    /// The receipt of a link of this request.
    pub fn receipt(&self, item: u32, object: &Map<String, Value>) -> Receipt {
        Receipt {
            request: self.hash,
            item,
            fingerprint: self.fingerprint(object),
        }
    }

    /// The receipt of the link at an index of this request.
    pub(crate) fn receipt_at(&self, index: usize, object: &Map<String, Value>) -> Receipt {
        self.receipt(u32::try_from(index).unwrap_or(u32::MAX), object)
    }

    fn fingerprint(&self, object: &Map<String, Value>) -> [u8; 32] {
        // Objects are sorted by their keys, so the order and the white space of the body do not matter.
        let canonical =
            |object: &Map<String, Value>| serde_json::to_vec(object).unwrap_or_default();
        let Some(Value::String(password)) = object.get("password") else {
            return Sha256::digest(canonical(object)).into();
        };
        let password = Sha256::new()
            .chain_update(self.secret)
            .chain_update(password)
            .finalize();
        let mut object = object.clone();
        object.insert("password".to_owned(), hex::encode(password).into());
        Sha256::digest(canonical(&object)).into()
    }
}

/// The problem of a request whose key is malformed, or given more than once.
pub fn invalid() -> Problem {
    Problem::new(Kind::InvalidIdempotencyKey).with_detail(format!(
        "Idempotency-Key must be given once, with 1 to {MAX_KEY_LENGTH} visible characters"
    ))
}

/// A hash of the API key that was sent, and of the key of the request.
fn secret(api_key: &[u8], key: &str) -> [u8; 32] {
    let secret = Sha256::new()
        .chain_update(b"password\0")
        .chain_update(api_key)
        .chain_update([0])
        .chain_update(key);
    secret.finalize().into()
}

/// The route of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// `POST /links`.
    One,
    /// `POST /links/bulk`.
    Bulk,
    /// `POST /import`.
    Import,
}

impl Route {
    /// An ending that no key has.
    fn suffix(self) -> &'static [u8] {
        match self {
            Self::One => b"\0one",
            // None, as before routes were distinguished: an import that continues after an upgrade finds its receipts.
            Self::Bulk => b"",
            Self::Import => b"\0import",
        }
    }
}

/// All items of a request, for its fingerprint.
#[derive(Default)]
pub(crate) struct WholeRequest(Sha256);

impl WholeRequest {
    /// Adds an item.
    pub(crate) fn add(&mut self, id: &RequestId, item: &Value) {
        let fingerprint = match item {
            Value::Object(object) => id.fingerprint(object),
            item => Sha256::digest(serde_json::to_vec(item).unwrap_or_default()).into(),
        };
        self.0.update(fingerprint);
    }
}

/// The key: a quoted string (RFC 8941), or without quotes as most clients send it.
fn unquoted(value: &str) -> Option<&str> {
    let value = value.trim();
    let inner = value
        .strip_prefix('"')
        .map_or(Some(value), |rest| rest.strip_suffix('"'))?;
    let is_key = (1..=MAX_KEY_LENGTH).contains(&inner.len())
        && inner
            .bytes()
            .all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\'));
    is_key.then_some(inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_when_quoted_equals_the_unquoted() {
        assert_eq!(unquoted("\"8e03978e\""), Some("8e03978e"));
        assert_eq!(unquoted(" 8e03978e "), Some("8e03978e"));
        let long = "k".repeat(MAX_KEY_LENGTH);
        assert_eq!(unquoted(&long), Some(long.as_str()));
    }

    #[test]
    fn fingerprint_when_password_or_secret_differs_is_another() {
        let id = |secret| RequestId {
            hash: [0; 32],
            secret: [secret; 32],
        };
        let fingerprint = |secret, object: Value| {
            let Value::Object(object) = object else {
                unreachable!()
            };
            id(secret).fingerprint(&object)
        };
        let with = |password: &str| serde_json::json!({ "longUrl": "u", "password": password });
        assert_eq!(fingerprint(1, with("a")), fingerprint(1, with("a")));
        assert_ne!(fingerprint(1, with("a")), fingerprint(1, with("b")));
        assert_ne!(fingerprint(1, with("a")), fingerprint(2, with("a")));
        let without = serde_json::json!({ "longUrl": "u" });
        assert_eq!(fingerprint(1, without.clone()), fingerprint(2, without));
    }

    #[test]
    fn secret_when_api_key_or_key_differs_is_another() {
        let one = secret(b"edgelink_1_a", "k");
        assert_eq!(secret(b"edgelink_1_a", "k"), one);
        assert_ne!(secret(b"edgelink_1_b", "k"), one);
        assert_ne!(secret(b"edgelink_1_a", "l"), one);
    }

    #[test]
    fn key_when_malformed_is_refused() {
        for value in [
            "",
            "\"\"",
            "\"",
            "\"a",
            "a\"",
            "a b",
            "a\\b",
            "\u{e4}",
            &"k".repeat(256),
        ] {
            assert_eq!(unquoted(value), None, "{value:?}");
        }
    }
}
