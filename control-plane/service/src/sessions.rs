//! Sessions of the console, begun by an API key, a password or a provider of OpenID Connect. They are in the database, so that
//! each control plane knows them; the database has only the hash of a token.

use crate::api_key::ApiKey;
use crate::caller::Caller;
use crate::key_verifier::KeyVerifier;
use crate::problem::{Kind, Problem};
use edgelink_model::clock;
use edgelink_model::tenancy::{Bounds, Role};
use edgelink_store::{ApiKeyRow, KeyHolder, NewSession, StoredSession, UserRow};
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use subtle::ConstantTimeEq;

const TOKEN_BYTES: usize = 32;

/// Token in the cookie of a browser: 256 random bits. A login makes it the token of a session.
#[derive(Clone)]
pub struct Token([u8; TOKEN_BYTES]);

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

impl Token {
    /// A new random token.
    pub fn generate() -> Result<Self, Problem> {
        let mut bytes = [0; TOKEN_BYTES];
        getrandom::fill(&mut bytes).map_err(|error| {
            tracing::error!(%error, "failed to generate a session token; answering 500");
            Problem::new(Kind::Internal)
        })?;
        Ok(Self(bytes))
    }

    /// The token of a text of 64 hexadecimal digits.
    pub fn parse(text: &str) -> Option<Self> {
        let mut bytes = [0; TOKEN_BYTES];
        hex::decode_to_slice(text, &mut bytes).ok()?;
        Some(Self(bytes))
    }

    /// The text of the cookie; never log it.
    pub fn expose(&self) -> String {
        hex::encode(self.0)
    }

    fn hash(&self) -> [u8; 32] {
        Sha256::digest(self.0).into()
    }

    /// A secret for a purpose, in 64 hexadecimal digits. It is derived from the token, and reveals neither the token nor the
    /// secrets for other purposes.
    pub fn secret_for(&self, purpose: &str) -> String {
        let mac = Hmac::<Sha256>::new_from_slice(&self.0);
        let mac = mac.map(|mac| mac.chain_update(purpose).finalize().into_bytes());
        mac.map(hex::encode).unwrap_or_default()
    }

    /// The anti-forgery token in each form of the console, which other sites cannot know.
    pub fn form_token(&self) -> String {
        self.secret_for("form")
    }

    /// True if a form has sent [`Self::form_token`]; compared in constant time.
    pub fn has_sent(&self, form_token: &str) -> bool {
        let expected = self.form_token();
        !expected.is_empty() && bool::from(expected.as_bytes().ct_eq(form_token.as_bytes()))
    }
}

/// The way in which a person has logged in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoginWay {
    /// An API key.
    Key,
    /// Password of the user.
    Password,
    /// A provider of OpenID Connect.
    Provider,
}

impl LoginWay {
    /// The word for it in the audit log.
    fn word(self) -> &'static str {
        match self {
            Self::Key => "key",
            Self::Password => "password",
            Self::Provider => "oidc",
        }
    }
}

/// The session of a user who has logged in.
#[derive(Clone, Debug)]
pub struct LoginSession {
    /// The user as a caller, with its rights.
    pub caller: Caller,
    /// The user.
    pub user: UserRow,
    /// The hash of the user's password.
    pub password_hash: Option<String>,
    /// The way in which the user has logged in.
    pub way: LoginWay,
}

impl KeyVerifier {
    /// Begins a session of the user of an API key; `None` if it is not a valid key.
    pub async fn log_in_by_key(
        &self,
        text: &str,
        address: IpAddr,
    ) -> Result<Option<Token>, Problem> {
        let (Some(holder), Some(key)) = (self.verify(text).await?, ApiKey::parse(text)) else {
            return Ok(None);
        };
        let token = Token::generate()?;
        let new = NewSession {
            token_hash: token.hash(),
            user_id: holder.key.user_id,
            tenant_id: holder.key.tenant_id,
            key_id: Some(key.id().to_owned()),
            proof: of_key(&key.secret_hash()),
            way: LoginWay::Key.word(),
            address,
        };
        self.store.insert_session(&new, self.limits).await?;
        Ok(Some(token))
    }

    /// Begins a session of a user who has given the right password, which has that hash.
    pub async fn log_in_by_password(
        &self,
        user: &UserRow,
        hash: &str,
        address: IpAddr,
    ) -> Result<Token, Problem> {
        let by = (LoginWay::Password, of_password(hash));
        self.begin(user, by, address).await
    }

    /// Begins a session of a user who is that person at the provider of OpenID Connect.
    pub async fn log_in_by_identity(
        &self,
        user: &UserRow,
        identity: &[u8; 32],
        address: IpAddr,
    ) -> Result<Token, Problem> {
        let by = (LoginWay::Provider, of_identity(identity));
        self.begin(user, by, address).await
    }

    async fn begin(
        &self,
        user: &UserRow,
        (way, proof): (LoginWay, [u8; 32]),
        address: IpAddr,
    ) -> Result<Token, Problem> {
        let token = Token::generate()?;
        let new = NewSession {
            token_hash: token.hash(),
            user_id: user.id,
            tenant_id: user.tenant_id,
            key_id: None,
            proof,
            way: way.word(),
            address,
        };
        self.store.insert_session(&new, self.limits).await?;
        Ok(token)
    }

    /// Ends the session with that token.
    pub async fn log_out(&self, token: &Token) -> Result<(), Problem> {
        Ok(self.store.remove_session(&token.hash()).await?)
    }

    /// The session with that token, which a request by a person extends; `None` if there is none, or the key or password of its
    /// login is no longer valid.
    pub async fn session(
        &self,
        token: &Token,
        is_of_person: bool,
    ) -> Result<Option<LoginSession>, Problem> {
        self.session_of(&token.hash(), is_of_person).await
    }

    /// The caller of a session that has begun.
    pub async fn caller_of_session(&self, hash: &[u8; 32]) -> Result<Caller, Problem> {
        let session = self.session_of(hash, false).await?;
        let ended = || Problem::new(Kind::Unauthorized).with_detail("the session has ended");
        session.map(|session| session.caller).ok_or_else(ended)
    }

    async fn session_of(
        &self,
        hash: &[u8; 32],
        is_of_person: bool,
    ) -> Result<Option<LoginSession>, Problem> {
        let stored = if is_of_person {
            self.store.use_session(hash, self.limits).await?
        } else {
            self.store.find_session(hash, self.limits).await?
        };
        let Some(stored) = stored else {
            return Ok(None);
        };
        let holder = match &stored.key_id {
            Some(id) => self.holder(id).await?,
            None => Some(Arc::new(of_user(&stored.user))),
        };
        let Some((holder, way)) = holder.and_then(|holder| {
            let way = way(&stored, &holder)?;
            Some((holder, way))
        }) else {
            return Ok(None);
        };
        Ok(Some(LoginSession {
            caller: Caller::of_session(holder, *hash),
            way,
            user: stored.user,
            password_hash: stored.logins.password_hash,
        }))
    }
}

/// The way of the login, if the key, password or identity used for it is still valid.
fn way(stored: &StoredSession, holder: &KeyHolder) -> Option<LoginWay> {
    let key = &holder.key;
    let previous = key
        .previous
        .filter(|secret| clock::unix_millis() < secret.until);
    let proofs = match stored.key_id {
        Some(_) => [
            Some((of_key(&key.secret_hash), LoginWay::Key)),
            previous.map(|secret| (of_key(&secret.hash), LoginWay::Key)),
        ],
        None => {
            let logins = &stored.logins;
            let password = logins.password_hash.as_deref().map(of_password);
            let identity = logins.identity.as_deref().map(of_identity);
            [
                password.map(|proof| (proof, LoginWay::Password)),
                identity.map(|proof| (proof, LoginWay::Provider)),
            ]
        }
    };
    let mut proofs = proofs.into_iter().flatten();
    let found = proofs.find(|(proof, _)| *proof == stored.proof);
    found.map(|(_, way)| way)
}

fn of_key(secret_hash: &[u8; 32]) -> [u8; 32] {
    proof("key", secret_hash)
}

fn of_password(hash: &str) -> [u8; 32] {
    proof("password", hash.as_bytes())
}

fn of_identity(hash: &[u8]) -> [u8; 32] {
    proof("identity", hash)
}

fn proof(kind: &str, of: &[u8]) -> [u8; 32] {
    Sha256::new()
        .chain_update(kind)
        .chain_update(of)
        .finalize()
        .into()
}

/// The rights of a user who has logged in without a key: everything the role allows, as with a key that is bound to nothing. No
/// real key has its id.
fn of_user(user: &UserRow) -> KeyHolder {
    let key = ApiKeyRow {
        id: format!("user-{}", user.id),
        name: user.name.clone(),
        secret_hash: [0; 32],
        previous: None,
        tenant_id: user.tenant_id,
        user_id: user.id,
        role: Role::Admin,
        bounds: Bounds::default(),
        expires_at: None,
        quota: None,
        used: 0,
        created_at: user.created_at,
        last_used_at: None,
    };
    KeyHolder {
        key,
        user_role: user.role,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn form_token_when_of_another_session_is_refused() {
        let (one, other) = (Token([1; 32]), Token([2; 32]));
        assert!(one.has_sent(&one.form_token()));
        for wrong in [
            "",
            &other.form_token(),
            &one.form_token()[1..],
            &one.expose(),
        ] {
            assert!(!one.has_sent(wrong), "{wrong}");
        }
        assert!(!format!("{one:?}").contains("01"));
    }

    #[test]
    fn session_token_when_written_and_read_is_equal() {
        let token = Token::generate().unwrap();
        let read = Token::parse(&token.expose()).unwrap();
        assert_eq!(read.hash(), token.hash());
        for wrong in ["", "00", &"g".repeat(64), &"0".repeat(66)] {
            assert!(Token::parse(wrong).is_none(), "{wrong}");
        }
    }
}
