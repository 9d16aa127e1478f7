//! Passwords of links: hashed and checked with Argon2id (RFC 9106), a few at a time, on blocking threads.

use crate::problem::{Kind, Problem};
use argon2::password_hash::phc::PasswordHash;
use argon2::{Algorithm, Argon2, Params, PasswordHasher, PasswordVerifier, Version};
use edgelink_model::deadline;
use edgelink_model::text::composed;
use edgelink_settings::admission::{Admission, Bounds, Claim, Permit};
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::time::Instant;

/// Cost of one hash, by the OWASP Password Storage Cheat Sheet: memory in KiB, passes over it, and threads.
const MEMORY_KIB: u32 = 19_456;
const PASSES: u32 = 2;
const THREADS: u32 = 1;

/// Number of passwords hashed at once, and also of passwords checked at once: each takes a core, and [`MEMORY_KIB`].
const AT_ONCE: usize = 2;

/// Limit on the number of passwords waiting for their turn. Beyond it, the last one of the address, key or tenant that has most
/// is refused.
const MAX_WAITING: usize = 512;

/// Longest wait of a password for its turn.
const PATIENCE: Duration = Duration::from_secs(10);

/// Limit on the items of a request that set a password: hashing one takes some ten milliseconds of a core.
pub const MAX_PER_REQUEST: usize = 100;

/// The new password of a link. All clones share the hash once there is one; the text never appears in a message.
#[derive(Clone)]
pub struct NewPassword(Arc<Inner>);

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
    /// A password that is not hashed yet, in Unicode's form NFC (RFC 8265, section 4.2): it may be given on another keyboard.
    pub(crate) fn new(text: &str) -> Self {
        Self(Arc::new(Inner {
            text: composed(text).into_owned(),
            hash: OnceLock::new(),
        }))
    }

    /// The hash as a PHC string. Empty as long as there is none; a link with it could not be opened by any password.
    pub fn hash(&self) -> &str {
        self.0.hash.get().map_or("", String::as_str)
    }

    fn text(&self) -> &[u8] {
        self.0.text.as_bytes()
    }
}

/// Hashes and checks passwords, with separate bounds, so that visitors and the API do not wait for each other.
pub struct Passwords {
    hashing: Admission,
    checking: Admission,
}

impl Default for Passwords {
    fn default() -> Self {
        Self::new()
    }
}

impl Passwords {
    /// Creates the bounds of hashing and of checking, with all turns free.
    pub fn new() -> Self {
        let turns = |name| {
            Admission::new(Bounds {
                waiting: MAX_WAITING,
                ..Bounds::new(name, AT_ONCE)
            })
        };
        Self {
            hashing: turns("the number of passwords that are hashed at once"),
            checking: turns("the number of passwords that are checked at once"),
        }
    }

    /// Hashes a new password, for all its clones, when it is the setter's turn.
    ///
    /// # Errors
    /// A problem if too many wait.
    pub async fn hash(&self, password: &NewPassword, setter: Claim) -> Result<(), Problem> {
        let until = deadline::or_sooner(Instant::now() + PATIENCE);
        let turn = self.hashing.take(setter, until).await?;
        let held = password.clone();
        let hash = run(turn, move || hash(held.text())).await??;
        // Another hash that was set first is as good.
        let _ = password.0.hash.set(hash);
        Ok(())
    }

    /// Checks a password against a hash when it is the giver's turn: in form NFC, and as it was given, as older hashes are.
    /// Hashes are compared in constant time.
    ///
    /// # Errors
    /// A problem if too many wait.
    pub async fn check(
        &self,
        hash: String,
        password: Vec<u8>,
        giver: Claim,
    ) -> Result<bool, Problem> {
        let until = deadline::or_sooner(Instant::now() + PATIENCE);
        let turn = self.checking.take(giver, until).await?;
        let is_right = move || {
            let Ok(hash) = PasswordHash::new(&hash) else {
                return false;
            };
            let is = |password: &[u8]| Argon2::default().verify_password(password, &hash).is_ok();
            let other = str::from_utf8(&password).map(composed);
            let other = other.ok().filter(|other| other.as_bytes() != password);
            other.is_some_and(|other| is(other.as_bytes())) || is(&password)
        };
        run(turn, is_right).await
    }
}

/// Runs `work` on a blocking thread. A request that is cancelled meanwhile keeps its turn until `work` ends.
async fn run<T: Send + 'static>(
    turn: Permit,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Problem> {
    let work = move || {
        let done = work();
        drop(turn);
        done
    };
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|_| Problem::new(Kind::Internal))
}

fn hash(password: &[u8]) -> Result<String, Problem> {
    let internal = || Problem::new(Kind::Internal);
    let params = Params::new(MEMORY_KIB, PASSES, THREADS, None).map_err(|_| internal())?;
    let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
    let hash = argon2.hash_password(password).map_err(|error| {
        tracing::error!(%error, "failed to hash a password; answering 500");
        internal()
    })?;
    Ok(hash.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn password_when_hashed_matches_itself_only() {
        let passwords = Passwords::new();
        let (one, same) = (NewPassword::new("secret"), NewPassword::new("secret"));
        assert_eq!(one.hash(), "");
        let shared = one.clone();
        passwords.hash(&one, Claim::default()).await.unwrap();
        passwords.hash(&same, Claim::default()).await.unwrap();
        assert!(one.hash().starts_with("$argon2id$v=19$m=19456,t=2,p=1$"));
        assert_eq!(shared.hash(), one.hash());
        assert_ne!(same.hash(), one.hash(), "each has a salt of its own");
        for (password, is_right) in [("secret", true), ("Secret", false), ("", false)] {
            let checked = passwords
                .check(one.hash().to_owned(), password.into(), Claim::default())
                .await;
            assert_eq!(checked.unwrap(), is_right, "{password}");
        }
        for no_hash in ["", "secret", "$argon2id$v=19$m=19456,t=2,p=1$"] {
            let checked = passwords
                .check(no_hash.to_owned(), no_hash.into(), Claim::default())
                .await;
            assert!(!checked.unwrap(), "{no_hash}");
        }
        assert_eq!(format!("{one:?}"), "NewPassword(..)");
    }

    #[tokio::test]
    async fn password_when_typed_on_another_keyboard_matches() {
        let passwords = Passwords::new();
        let composed = NewPassword::new("Café");
        let decomposed = NewPassword::new("Cafe\u{301}");
        for new in [&composed, &decomposed] {
            passwords.hash(new, Claim::default()).await.unwrap();
        }
        let older = hash("Cafe\u{301}".as_bytes()).unwrap();
        let is = async |hash: &str, password: &str| {
            let checked = passwords.check(hash.to_owned(), password.into(), Claim::default());
            checked.await.unwrap()
        };
        for hash in [composed.hash(), decomposed.hash()] {
            assert!(is(hash, "Café").await && is(hash, "Cafe\u{301}").await);
        }
        assert!(is(&older, "Cafe\u{301}").await, "as it was given");
        assert!(!is(&older, "Cafe").await);
    }

    #[tokio::test]
    async fn tenant_when_it_sets_many_passwords_holds_up_no_other() {
        let passwords = Arc::new(Passwords::new());
        let running = [0; AT_ONCE].map(|_| passwords.hashing.try_take(of_tenant(1)).unwrap());
        let set = |tenant_id| {
            let passwords = passwords.clone();
            let hashed = async move {
                let password = NewPassword::new("a");
                passwords.hash(&password, of_tenant(tenant_id)).await
            };
            tokio::spawn(hashed)
        };
        let mut many: Vec<_> = (0..MAX_WAITING).map(|_| set(1)).collect();
        tokio::task::yield_now().await;
        let refused = passwords.hash(&NewPassword::new("a"), of_tenant(1)).await;
        assert_eq!(refused.unwrap_err().kind(), Kind::Overloaded);
        let other = set(2);
        let last = many.pop().unwrap().await.unwrap();
        assert_eq!(last.unwrap_err().kind(), Kind::Overloaded);
        drop(running);
        assert!(other.await.unwrap().is_ok());
        for each in many {
            each.abort();
        }
    }

    fn of_tenant(tenant_id: u32) -> Claim {
        Claim::default().by(tenant_id, "key")
    }
}
