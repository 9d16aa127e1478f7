//! Use cases of accounts: keys, users and tenants.

pub mod keys;
pub mod tenants;
pub mod users;

use super::caller::Caller;
use super::key_verifier::KeyVerifier;
use super::passwords::{NewPassword, Passwords};
use crate::problem::{Kind, Problem};
use edgelink_settings::config::Secret;
use edgelink_store::Store;
use std::sync::Arc;

/// The use cases of accounts.
pub struct Accounts {
    pub(crate) store: Arc<Store>,
    pub(crate) keys: Arc<KeyVerifier>,
    pub(crate) passwords: Arc<Passwords>,
}

impl Accounts {
    /// Creates the use cases. Keys that they change are forgotten by `keys`.
    pub fn new(store: Arc<Store>, keys: Arc<KeyVerifier>, passwords: Arc<Passwords>) -> Self {
        Self {
            store,
            keys,
            passwords,
        }
    }

    /// Hashes a password for storing.
    pub(crate) async fn hashed(
        &self,
        caller: &Caller,
        password: &NewPassword,
    ) -> Result<Secret, Problem> {
        self.passwords.hash(password, caller.claim()).await?;
        Ok(Secret::new(password.hash()))
    }
}

/// 500, because there is no source of randomness.
pub(crate) fn no_random(error: impl std::error::Error) -> Problem {
    tracing::error!(%error, "failed to generate a secret; answering 500");
    Problem::new(Kind::Internal)
}
