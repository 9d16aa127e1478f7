//! A provider of OpenID Connect that behaves as a test says.

use axum::extract::State;
use axum::routing::{get, post};
use axum::{Form, Json, Router};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use reqwest::StatusCode;
use ring::hmac;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

/// What a browser comes back with.
pub(super) const CODE: &str = "the-code";

/// How a provider answers.
#[derive(Clone)]
pub(super) struct Manner {
    /// Replaces claims of the ID token; null removes one.
    pub(super) claims: Value,
    pub(super) algorithm: &'static str,
    /// Whether a key signs that the provider does not publish.
    pub(super) is_forged: bool,
    pub(super) user_info: Value,
    pub(super) token_status: u16,
    pub(super) is_described: bool,
}

impl Default for Manner {
    fn default() -> Self {
        Self {
            claims: json!({}),
            algorithm: "ES256",
            is_forged: false,
            user_info: json!({ "sub": "subject", "preferred_username": "ada" }),
            token_status: 200,
            is_described: true,
        }
    }
}

pub(super) struct Provider {
    pub(super) issuer: String,
    key: EcdsaKeyPair,
    other_key: EcdsaKeyPair,
    manner: Mutex<Manner>,
    /// What the browser was sent with.
    pub(super) asked: Mutex<HashMap<String, String>>,
}

fn key() -> EcdsaKeyPair {
    let (kind, random) = (&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new());
    let document = EcdsaKeyPair::generate_pkcs8(kind, random).unwrap();
    EcdsaKeyPair::from_pkcs8(kind, document.as_ref(), random).unwrap()
}

pub(super) fn now() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_secs()
}

impl Provider {
    pub(super) async fn start() -> Arc<Self> {
        let listener = tokio::net::TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0)))
            .await
            .unwrap();
        let provider = Arc::new(Self {
            issuer: format!("http://{}", listener.local_addr().unwrap()),
            key: key(),
            other_key: key(),
            manner: Mutex::default(),
            asked: Mutex::default(),
        });
        let router = Router::new()
            .route("/.well-known/openid-configuration", get(describe))
            .route("/keys", get(keys))
            .route("/token", post(token))
            .route("/me", get(user_info))
            .with_state(provider.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        provider
    }

    pub(super) fn behave(&self, manner: Manner) {
        *self.manner.lock().unwrap() = manner;
    }

    fn id_token(&self) -> String {
        let manner = self.manner.lock().unwrap().clone();
        let nonce = self.asked.lock().unwrap()["nonce"].clone();
        let mut claims = json!({
            "iss": self.issuer, "aud": "edgelink", "sub": "subject", "nonce": nonce, "iat": now(), "exp": now() + 60,
        });
        for (name, value) in manner.claims.as_object().unwrap() {
            claims[name] = value.clone();
        }
        let head = json!({ "alg": manner.algorithm, "kid": "one" });
        let encoded = |part: &Value| URL_SAFE_NO_PAD.encode(part.to_string());
        let message = format!("{}.{}", encoded(&head), encoded(&claims));
        let key = if manner.is_forged {
            &self.other_key
        } else {
            &self.key
        };
        let signature = match manner.algorithm {
            "none" => String::new(),
            // As if what is published were a secret.
            "HS256" => {
                let secret = hmac::Key::new(hmac::HMAC_SHA256, key.public_key().as_ref());
                URL_SAFE_NO_PAD.encode(hmac::sign(&secret, message.as_bytes()))
            }
            _ => {
                URL_SAFE_NO_PAD.encode(key.sign(&SystemRandom::new(), message.as_bytes()).unwrap())
            }
        };
        format!("{message}.{signature}")
    }
}

async fn describe(State(provider): State<Arc<Provider>>) -> Result<Json<Value>, StatusCode> {
    let issuer = &provider.issuer;
    if provider.manner.lock().unwrap().is_described {
        Ok(Json(json!({
            "issuer": issuer, "authorization_endpoint": format!("{issuer}/auth"), "token_endpoint": format!("{issuer}/token"),
            "jwks_uri": format!("{issuer}/keys"), "userinfo_endpoint": format!("{issuer}/me"),
        })))
    } else {
        Err(StatusCode::BAD_GATEWAY)
    }
}

async fn keys(State(provider): State<Arc<Provider>>) -> Json<Value> {
    let point = provider.key.public_key().as_ref();
    let [x, y] = [&point[1..33], &point[33..]].map(|half| URL_SAFE_NO_PAD.encode(half));
    Json(
        json!({ "keys": [{ "kty": "EC", "crv": "P-256", "kid": "one", "use": "sig", "x": x, "y": y }] }),
    )
}

/// Gives tokens to the client that has begun the login and knows its secret.
async fn token(
    State(provider): State<Arc<Provider>>,
    headers: reqwest::header::HeaderMap,
    Form(form): Form<HashMap<String, String>>,
) -> Result<Json<Value>, (StatusCode, Json<Value>)> {
    let refused = |status: u16, error: &str| {
        let status = StatusCode::from_u16(status).unwrap();
        Err((status, Json(json!({ "error": error }))))
    };
    let status = provider.manner.lock().unwrap().token_status;
    if status != 200 {
        return refused(status, "server_error");
    }
    let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(&form["code_verifier"]));
    let asked = provider.asked.lock().unwrap().clone();
    let is_right = form["code"] == CODE
        && form["grant_type"] == "authorization_code"
        && form["redirect_uri"] == asked["redirect_uri"]
        && challenge == asked["code_challenge"]
        && headers["authorization"]
            == format!("Basic {}", STANDARD.encode("edgelink:the%2Fsecret"));
    if is_right {
        Ok(Json(
            json!({ "id_token": provider.id_token(), "access_token": "access", "token_type": "Bearer" }),
        ))
    } else {
        refused(400, "invalid_grant")
    }
}

async fn user_info(
    State(provider): State<Arc<Provider>>,
    headers: reqwest::header::HeaderMap,
) -> Result<Json<Value>, StatusCode> {
    if headers["authorization"] == "Bearer access" {
        Ok(Json(provider.manner.lock().unwrap().user_info.clone()))
    } else {
        Err(StatusCode::UNAUTHORIZED)
    }
}
