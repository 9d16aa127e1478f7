//! Logins with OpenID Connect: authorization code with PKCE, state and nonce (OpenID Connect Core 1.0, section 3.1).
//!
//! It does not know edgelink's users: it yields the identity that the provider asserts, with the claims about that person. A
//! [`OidcLogin`] needs no server-side state; all of its protection derives from one random token that the browser holds.

mod claims;
mod error;
mod id_token;
mod keys;
mod provider;

pub use claims::{Claims, Identity};
pub use error::OidcError;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use edgelink_model::clock;
use edgelink_settings::config::OidcConfig;
use edgelink_settings::https;
use id_token::{ExpectedClaims, verify};
use provider::Provider;
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::io;
use tokio::time::timeout;
use url::Url;

/// Path at which a login begins.
pub const BEGIN: &str = "/console/oidc/login";

/// Path to which the provider redirects browsers.
pub const CALLBACK: &str = "/console/oidc/callback";

/// The secrets of one login, which the browser keeps until it comes back.
#[derive(Clone, Debug)]
pub struct OidcLogin {
    /// Returned by the provider through the browser.
    pub state: String,
    /// Returned in the ID token.
    pub nonce: String,
    /// Proves to the provider that the presenter of the code has begun the login (PKCE).
    pub verifier: String,
}

/// The client of the provider.
pub struct Oidc {
    config: OidcConfig,
    provider: Provider,
    redirect_uri: String,
}

impl Oidc {
    /// Creates the client of the configured provider; `None` if there is none.
    ///
    /// # Errors
    /// The system's certificates cannot be read.
    pub fn new(config: &OidcConfig) -> io::Result<Option<Self>> {
        let (Some(issuer), Some(origin)) = (&config.issuer, &config.console_url) else {
            return Ok(None);
        };
        let provider = Provider::new(https::client()?, issuer.clone(), config.timeout_ms);
        Ok(Some(Self {
            redirect_uri: format!("{origin}{CALLBACK}"),
            provider,
            config: config.clone(),
        }))
    }

    /// Settings of the provider and of logins by it.
    pub fn config(&self) -> &OidcConfig {
        &self.config
    }

    /// True if an answer names the configured issuer (RFC 9207).
    pub fn is_issuer(&self, issuer: &str) -> bool {
        self.config.issuer.as_deref() == Some(issuer)
    }

    /// The URL at which a browser logs in at the provider.
    pub async fn authorization_url(&self, login: &OidcLogin) -> Result<Url, OidcError> {
        let metadata = self.provider.metadata().await?;
        let mut url = metadata.authorization_endpoint.clone();
        let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(&login.verifier));
        url.query_pairs_mut().extend_pairs([
            ("response_type", "code"),
            ("client_id", &self.config.client_id),
            ("redirect_uri", &self.redirect_uri),
            ("scope", &self.config.scopes.join(" ")),
            ("state", &login.state),
            ("nonce", &login.nonce),
            ("code_challenge", &challenge),
            ("code_challenge_method", "S256"),
        ]);
        Ok(url)
    }

    /// Exchanges the code from the browser for the identity that has logged in.
    pub async fn identity(&self, login: &OidcLogin, code: &str) -> Result<Identity, OidcError> {
        let identity = timeout(self.config.timeout_ms, self.ask(login, code)).await;
        identity.unwrap_or_else(|_| {
            let late = "no answer in time (oidc.timeout_ms)";
            Err(OidcError::Unavailable(late.to_owned()))
        })
    }

    async fn ask(&self, login: &OidcLogin, code: &str) -> Result<Identity, OidcError> {
        let tokens = self.tokens(login, code).await?;
        let expected = ExpectedClaims {
            issuer: self.config.issuer.as_deref().unwrap_or_default(),
            client_id: &self.config.client_id,
            nonce: &login.nonce,
            now: clock::unix_seconds(),
        };
        let keys = self.provider.keys().await?;
        let mut claims = verify(&tokens.id_token, &keys, &expected);
        // The provider may have rotated its keys, even under an unchanged id.
        if claims.is_err()
            && let Some(keys) = self.provider.newer_keys().await?
        {
            claims = verify(&tokens.id_token, &keys, &expected);
        }
        let mut claims = Claims(claims.map_err(OidcError::Invalid)?);
        let subject = claims.text("sub").unwrap_or_default();
        if subject.is_empty() || subject.len() > 255 {
            return Err(OidcError::Invalid(
                "the ID token has no subject of 1 to 255 bytes".to_owned(),
            ));
        }
        if self.lacks(&claims) {
            let further = self.provider.user_info(&tokens.access_token).await?;
            claims.complete(&subject, further)?;
        }
        Ok(claims.identity(&self.config, &subject))
    }

    /// True if the ID token lacks claims that the settings name; the user info may have them.
    fn lacks(&self, claims: &Claims) -> bool {
        let role_claim = self.config.role_claim.as_deref();
        claims.find(&self.config.name_claim).is_none()
            || role_claim.is_some_and(|claim| claims.find(claim).is_none())
    }

    async fn tokens(&self, login: &OidcLogin, code: &str) -> Result<TokenResponse, OidcError> {
        let secret = self.config.client_secret_file.as_ref();
        let secret = secret.map(|file| file.text().trim());
        let form = [
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", &self.redirect_uri),
            ("code_verifier", &login.verifier),
        ];
        let answer = self
            .provider
            .token(&form, &self.config.client_id, secret)
            .await?;
        let text = |name: &str| answer.get(name).and_then(Value::as_str).map(str::to_owned);
        let id_token = text("id_token");
        let id_token =
            id_token.ok_or_else(|| OidcError::Invalid("it has no ID token".to_owned()))?;
        Ok(TokenResponse {
            id_token,
            access_token: text("access_token").unwrap_or_default(),
        })
    }
}

struct TokenResponse {
    id_token: String,
    access_token: String,
}
