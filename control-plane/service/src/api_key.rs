//! API keys: `edgelink_<id>_<secret>`, the id of 16 and the secret of 64 hexadecimal digits.
//!
//! The id finds the row and is no secret. The secret is 256 random bits and is kept as SHA-256 only: with that much
//! randomness a slow password hash would protect nothing.

use edgelink_model::tenancy::{Bounds, FIRST_TENANT, FIRST_USER, Role};
use edgelink_store::ApiKeyRow;
use sha2::{Digest, Sha256};
use std::fmt;
use subtle::ConstantTimeEq;

const PREFIX: &str = "edgelink_";
const ID_BYTES: usize = 8;
const SECRET_BYTES: usize = 32;

/// An API key as its owner has it.
#[derive(Clone)]
pub struct ApiKey {
    id: String,
    secret_hash: [u8; 32],
    text: String,
}

/// The system has no random numbers.
#[derive(Debug, thiserror::Error)]
#[error("no random numbers: {0}")]
pub struct RandomError(getrandom::Error);

impl ApiKey {
    /// A new random key.
    ///
    /// # Errors
    /// [`RandomError`] if the system has no random numbers.
    pub fn generate() -> Result<Self, RandomError> {
        let mut id = [0; ID_BYTES];
        let mut secret = [0; SECRET_BYTES];
        getrandom::fill(&mut id).map_err(RandomError)?;
        getrandom::fill(&mut secret).map_err(RandomError)?;
        Ok(Self::new(&hex::encode(id), &hex::encode(secret)))
    }

    /// Parses a text; `None` if it does not have the form of a key.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (id, secret) = text.strip_prefix(PREFIX)?.split_once('_')?;
        let is_key = is_hex(id, ID_BYTES) && is_hex(secret, SECRET_BYTES);
        is_key.then(|| Self::new(id, secret))
    }

    fn new(id: &str, secret: &str) -> Self {
        Self {
            id: id.to_owned(),
            secret_hash: Sha256::digest(secret).into(),
            text: format!("{PREFIX}{id}_{secret}"),
        }
    }

    /// The public part by which the key is found.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The whole key; never log it.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.text
    }

    /// A key with this id and a new random secret.
    ///
    /// # Errors
    /// [`RandomError`] if the system has no random numbers.
    pub fn rotated(id: &str) -> Result<Self, RandomError> {
        let mut secret = [0; SECRET_BYTES];
        getrandom::fill(&mut secret).map_err(RandomError)?;
        Ok(Self::new(id, &hex::encode(secret)))
    }

    /// SHA-256 of the secret part.
    #[must_use]
    pub fn secret_hash(&self) -> [u8; 32] {
        self.secret_hash
    }

    /// The row that is stored for an admin key of the first user. `created_at` is unix time in milliseconds.
    #[must_use]
    pub fn row(&self, name: &str, created_at: u64) -> ApiKeyRow {
        ApiKeyRow {
            id: self.id.clone(),
            name: name.to_owned(),
            secret_hash: self.secret_hash,
            previous: None,
            tenant_id: FIRST_TENANT,
            user_id: FIRST_USER,
            role: Role::Admin,
            bounds: Bounds::default(),
            expires_at: None,
            quota: None,
            used: 0,
            created_at,
            last_used_at: None,
        }
    }

    /// True if the secret is a valid one of `row` at `now`, unix time in milliseconds. Both the current and the previous secret are
    /// compared, each in constant time.
    #[must_use]
    pub fn matches(&self, row: &ApiKeyRow, now: u64) -> bool {
        let is_current = self.secret_hash.ct_eq(&row.secret_hash);
        let previous = row.previous.filter(|previous| now < previous.until);
        let previous = previous.map_or([0; 32], |previous| previous.hash);
        (is_current | self.secret_hash.ct_eq(&previous)).into()
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ApiKey({})", self.id)
    }
}

fn is_hex(text: &str, bytes: usize) -> bool {
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    text.len() == 2 * bytes && text.bytes().all(is_digit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use edgelink_store::PreviousSecret;

    #[test]
    fn key_when_written_and_parsed_matches_its_row_only() {
        let (key, other) = (ApiKey::generate().unwrap(), ApiKey::generate().unwrap());
        let read = ApiKey::parse(key.expose()).unwrap();
        assert_eq!(key.expose().len(), "edgelink_".len() + 16 + 1 + 64);
        assert_eq!(read.id(), key.id());
        assert!(read.matches(&key.row("a", 1), 1));
        assert!(!read.matches(&other.row("a", 1), 1));
    }

    #[test]
    fn key_when_rotated_matches_until_the_overlap_ends() {
        let old = ApiKey::generate().unwrap();
        let new = ApiKey::rotated(old.id()).unwrap();
        let row = ApiKeyRow {
            secret_hash: new.secret_hash(),
            previous: Some(PreviousSecret {
                hash: old.secret_hash(),
                until: 10,
            }),
            ..old.row("a", 1)
        };
        assert_eq!(new.id(), old.id());
        assert!(new.matches(&row, 9) && new.matches(&row, 10));
        assert!(old.matches(&row, 9) && !old.matches(&row, 10));
    }

    #[test]
    fn key_when_stored_is_the_sha_256_of_its_secret() {
        let text = format!("edgelink_{}_{}", "0".repeat(16), "0".repeat(64));
        let row = ApiKey::parse(&text).unwrap().row("a", 1);
        assert_eq!(
            hex::encode(row.secret_hash),
            "60e05bd1b195af2f94112fa7197a5c88289058840ce7c6df9693756bc6250f55"
        );
    }

    #[test]
    fn key_when_text_is_malformed_is_none() {
        let id = "0".repeat(16);
        let secret = "0".repeat(64);
        for text in [
            String::new(),
            "edgelink_".into(),
            format!("edgelink_{id}"),
            format!("edgelink_{id}_"),
            format!("edgelink_{id}_{secret}0"),
            format!("edgelink_{id}0_{secret}"),
            format!("edgelink_{id}_{}A", &secret[1..]),
            format!("edgelink_{id}_{}ä", &secret[2..]),
            format!("Edgelink_{id}_{secret}"),
            format!(" edgelink_{id}_{secret}"),
        ] {
            assert!(ApiKey::parse(&text).is_none(), "{text}");
        }
    }

    #[test]
    fn key_when_logged_hides_its_secret() {
        let key = ApiKey::generate().unwrap();
        assert_eq!(format!("{key:?}"), format!("ApiKey({})", key.id()));
    }
}
