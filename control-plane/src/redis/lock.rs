//! The lock under which one replica looks a link up for all.

use super::scripts::Run;
use super::{Redis, RedisError};
use edgelink_wire::redis::link_key;
use fred::interfaces::{ClientLike, KeysInterface};
use fred::types::{Expiration, SetOptions, Value};
use rand::random;
use std::time::Duration;

/// A lock that is ours until it is released, ends by itself, or is taken away by a change of the link.
#[derive(Debug)]
pub struct Lock {
    generation: u64,
    key: String,
    token: String,
}

impl Lock {
    /// The generation that the link is looked up in, and its key.
    pub(super) fn place(&self) -> (u64, &str) {
        (self.generation, &self.key)
    }

    /// What tells our lock from that of others.
    pub(super) fn token(&self) -> &str {
        &self.token
    }
}

/// The key of a lock. Keys of links have no braces, so both are in the slot that the link's key has.
pub(super) fn lock_key(generation: u64, key: &str) -> String {
    format!("lock:{{{}}}", link_key(generation, key))
}

impl Redis {
    /// Takes the lock of a link in a generation, unless somebody has it. It ends after `duration`.
    ///
    /// # Errors
    /// Where Redis does not answer; it may be locked then.
    pub async fn lock(
        &self,
        generation: u64,
        key: &str,
        duration: Duration,
    ) -> Result<Option<Lock>, RedisError> {
        let token = format!("{:032x}", random::<u128>());
        let milliseconds = i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
        let client = self.commands.with_options(&self.in_lookup());
        let call = client.set::<Option<String>, _, _>(
            lock_key(generation, key),
            token.as_str(),
            Some(Expiration::PX(milliseconds)),
            Some(SetOptions::NX),
            false,
        );
        let answer = self.look("lock", Box::pin(call)).await?;
        Ok(answer.map(|_| Lock {
            generation,
            key: key.to_owned(),
            token,
        }))
    }

    /// Releases a lock without a record.
    ///
    /// # Errors
    /// Where Redis does not answer. The lock then ends by itself.
    pub async fn unlock(&self, lock: Lock) -> Result<(), RedisError> {
        let run = Run {
            keys: vec![lock_key(lock.generation, &lock.key)],
            arguments: vec![Value::from(lock.token)],
        };
        let options = self.in_lookup();
        let call = self.scripts.unlock.run(&self.commands, &options, run);
        self.look("unlock", Box::pin(call)).await.map(drop)
    }
}
