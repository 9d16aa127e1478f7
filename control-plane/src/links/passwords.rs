//! Passwords of links: hashed and checked with Argon2id (RFC 9106), a few at a time, on threads that may block.

use crate::problem::{Kind, Problem};
use argon2::password_hash::phc::PasswordHash;
use argon2::{Algorithm, Argon2, Params, PasswordHasher, PasswordVerifier, Version};
use std::fmt;
use std::sync::{Arc, OnceLock};
use tokio::sync::Semaphore;

/// What one hash takes, by the OWASP Password Storage Cheat Sheet: memory in KiB, passes over it, and threads.
const MEMORY_KIB: u32 = 19_456;
const PASSES: u32 = 2;
const THREADS: u32 = 1;

/// How many passwords are hashed at once, and how many are checked: each takes a core, and [`MEMORY_KIB`].
const AT_ONCE: usize = 2;

/// How many more wait for their turn; further ones are refused.
const MAX_WAITING: usize = 64;

/// The most items of a request that set a password: hashing one takes some ten milliseconds of a core.
pub(crate) const MAX_PER_REQUEST: usize = 100;

/// The new password of a link. Everything that holds it sees its hash once there is one; its text is in no message.
#[derive(Clone)]
pub(crate) struct NewPassword(Arc<Inner>);

struct Inner {
    text: String,
    hash: OnceLock<String>,
}

impl fmt::Debug for NewPassword {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NewPassword(..)")
    }
}

impl NewPassword {
    /// A password that is not hashed yet.
    pub(crate) fn new(text: &str) -> Self {
        Self(Arc::new(Inner {
            text: text.to_owned(),
            hash: OnceLock::new(),
        }))
    }

    /// The hash as a PHC string. Until there is one this is no hash, and so a link that no password opens.
    pub(crate) fn hash(&self) -> &str {
        self.0.hash.get().map_or("", String::as_str)
    }

    fn text(&self) -> &[u8] {
        self.0.text.as_bytes()
    }
}

/// Hashes and checks passwords, each within bounds of its own, so that visitors and the API do not wait for each other.
pub(crate) struct Passwords {
    hashing: Turns,
    checking: Turns,
}

struct Turns {
    running: Arc<Semaphore>,
    waiting: Semaphore,
}

impl Passwords {
    pub(crate) fn new() -> Self {
        Self {
            hashing: Turns::new(),
            checking: Turns::new(),
        }
    }

    /// Hashes a new password, for all who hold it.
    ///
    /// # Errors
    /// A problem if too many wait.
    pub(crate) async fn hash(&self, password: &NewPassword) -> Result<(), Problem> {
        let held = password.clone();
        let hash = self.hashing.run(move || hash(held.text())).await??;
        // It is the first, or as good.
        let _ = password.0.hash.set(hash);
        Ok(())
    }

    /// Whether that is the password with that hash. Hashes are compared in constant time.
    ///
    /// # Errors
    /// A problem if too many wait.
    pub(crate) async fn check(&self, hash: String, password: Vec<u8>) -> Result<bool, Problem> {
        let is_right = move || {
            let hash = PasswordHash::new(&hash);
            hash.is_ok_and(|hash| Argon2::default().verify_password(&password, &hash).is_ok())
        };
        self.checking.run(is_right).await
    }
}

impl Turns {
    fn new() -> Self {
        Self {
            running: Arc::new(Semaphore::new(AT_ONCE)),
            waiting: Semaphore::new(MAX_WAITING),
        }
    }

    /// Runs `work` when it is its turn. A request that is given up while it runs keeps its turn until it has run.
    async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Problem> {
        let waits = self.waiting.try_acquire();
        let Ok(waits) = waits else {
            return Err(Problem::new(Kind::Overloaded).with_detail("too many passwords wait"));
        };
        let turn = Arc::clone(&self.running).acquire_owned().await;
        let turn = turn.map_err(|_| Problem::new(Kind::Stopping))?;
        drop(waits);
        let work = move || {
            let done = work();
            drop(turn);
            done
        };
        tokio::task::spawn_blocking(work)
            .await
            .map_err(|_| Problem::new(Kind::Internal))
    }
}

fn hash(password: &[u8]) -> Result<String, Problem> {
    let internal = || Problem::new(Kind::Internal);
    let params = Params::new(MEMORY_KIB, PASSES, THREADS, None).map_err(|_| internal())?;
    let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
    let hash = argon2.hash_password(password).map_err(|error| {
        tracing::error!(%error, "a password could not be hashed: the request is answered with 500");
        internal()
    })?;
    Ok(hash.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_password_is_hashed_and_checked() {
        let passwords = Passwords::new();
        let (one, same) = (NewPassword::new("secret"), NewPassword::new("secret"));
        assert_eq!(one.hash(), "");
        let shared = one.clone();
        passwords.hash(&one).await.unwrap();
        passwords.hash(&same).await.unwrap();
        assert!(one.hash().starts_with("$argon2id$v=19$m=19456,t=2,p=1$"));
        assert_eq!(shared.hash(), one.hash());
        assert_ne!(same.hash(), one.hash(), "each has a salt of its own");
        for (password, is_right) in [("secret", true), ("Secret", false), ("", false)] {
            let checked = passwords
                .check(one.hash().to_owned(), password.into())
                .await;
            assert_eq!(checked.unwrap(), is_right, "{password}");
        }
        for no_hash in ["", "secret", "$argon2id$v=19$m=19456,t=2,p=1$"] {
            let checked = passwords.check(no_hash.to_owned(), no_hash.into()).await;
            assert!(!checked.unwrap(), "{no_hash}");
        }
        assert_eq!(format!("{one:?}"), "NewPassword(..)");
    }

    #[tokio::test]
    async fn few_run_at_once_and_some_wait() {
        let turns = Arc::new(Turns::new());
        let all = turns.running.clone();
        let taken = all.acquire_many(u32::try_from(AT_ONCE).unwrap()).await;
        let mut waiting = Vec::new();
        for _ in 0..MAX_WAITING {
            let turns = Arc::clone(&turns);
            waiting.push(tokio::spawn(async move { turns.run(|| ()).await.is_ok() }));
        }
        while turns.waiting.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
        let refused = turns.run(|| ()).await.unwrap_err();
        assert_eq!(refused.kind(), Kind::Overloaded);
        drop(taken);
        for each in waiting {
            assert!(each.await.unwrap());
        }
    }
}
