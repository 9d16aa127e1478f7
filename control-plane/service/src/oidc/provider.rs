//! The provider: its metadata, its keys, and requests to it.

use super::error::OidcError;
use super::keys::Key;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use edgelink_settings::config::trusted_url;
use edgelink_settings::https::{HttpsClient, with_causes};
use http::request::Builder;
use http::{HeaderValue, Request, StatusCode, header};
use http_body_util::{BodyExt, Full, Limited};
use serde_json::{Map, Value};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use url::Url;
use url::form_urlencoded::{Serializer, byte_serialize};

/// The longest answer in bytes.
const MAX_ANSWER_BYTES: usize = 1 << 20;

/// Time for which metadata and keys are cached.
const FRESH: Duration = Duration::from_hours(1);

/// Pause of requests after a failure.
const FAILURE_PAUSE: Duration = Duration::from_secs(2);

/// Pause before keys are fetched again although none of them matches a token.
const KEYS_PAUSE: Duration = Duration::from_secs(10);

/// Metadata of a provider (OpenID Connect Discovery 1.0).
#[derive(Debug)]
pub(super) struct Metadata {
    pub(super) authorization_endpoint: Url,
    token_endpoint: Url,
    jwks_uri: Url,
    userinfo_endpoint: Option<Url>,
    /// True if the client's secret is accepted in the form only.
    is_secret_in_form: bool,
}

/// A client of the provider.
pub(super) struct Provider {
    http: HttpsClient,
    issuer: String,
    timeout: Duration,
    metadata: CachedValue<Metadata>,
    keys: CachedValue<Vec<Key>>,
}

/// A cached value that is not fetched for each login.
struct CachedValue<T> {
    value: Mutex<Option<(Instant, Arc<T>)>>,
    /// Locked during a fetch; holds the time of the last failure.
    asking: tokio::sync::Mutex<Option<Instant>>,
}

impl<T> CachedValue<T> {
    fn none() -> Self {
        Self {
            value: Mutex::new(None),
            asking: tokio::sync::Mutex::new(None),
        }
    }

    /// Returns the fresh value, or fetches it with `ask`: one request at a time, and none for a while after a failure. Meanwhile the
    /// previous value is used, however old it is.
    async fn get(
        &self,
        ask: impl Future<Output = Result<T, OidcError>>,
    ) -> Result<Arc<T>, OidcError> {
        let known = || self.younger_than(FRESH);
        if let Some(known) = known() {
            return Ok(known);
        }
        let before = self.younger_than(Duration::MAX);
        let mut failed = match (self.asking.try_lock(), &before) {
            (Ok(failed), _) => failed,
            (Err(_), Some(before)) => return Ok(before.clone()),
            (Err(_), None) => self.asking.lock().await,
        };
        if let Some(known) = known() {
            return Ok(known);
        }
        let has_failed = failed.is_some_and(|since| since.elapsed() < FAILURE_PAUSE);
        let asked = if has_failed {
            Err(OidcError::Unavailable(
                "it did not answer a moment ago".to_owned(),
            ))
        } else {
            ask.await
        };
        match (asked, before) {
            (Ok(value), _) => {
                *failed = None;
                Ok(self.keep(value))
            }
            (Err(error), before) => {
                if !has_failed {
                    *failed = Some(Instant::now());
                }
                before.ok_or(error)
            }
        }
    }

    fn younger_than(&self, age: Duration) -> Option<Arc<T>> {
        let kept = self.value.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = kept.as_ref().filter(|(since, _)| since.elapsed() < age);
        kept.map(|(_, value)| value.clone())
    }

    fn keep(&self, value: T) -> Arc<T> {
        let value = Arc::new(value);
        let mut kept = self.value.lock().unwrap_or_else(PoisonError::into_inner);
        *kept = Some((Instant::now(), value.clone()));
        value
    }
}

impl Provider {
    pub(super) fn new(http: HttpsClient, issuer: String, timeout: Duration) -> Self {
        Self {
            http,
            issuer,
            timeout,
            metadata: CachedValue::none(),
            keys: CachedValue::none(),
        }
    }

    pub(super) async fn metadata(&self) -> Result<Arc<Metadata>, OidcError> {
        let issuer = self.issuer.trim_end_matches('/');
        let url = format!("{issuer}/.well-known/openid-configuration");
        let ask = async {
            let answer = self.ask_for(Request::get(url)).await?;
            Metadata::read(&answer, &self.issuer).map_err(OidcError::Unavailable)
        };
        self.metadata.get(ask).await
    }

    /// Returns the keys of the provider.
    pub(super) async fn keys(&self) -> Result<Arc<Vec<Key>>, OidcError> {
        self.keys.get(self.ask_for_keys()).await
    }

    /// Fetches the current keys after a token matched none of the cached ones; `None` if these are recent.
    pub(super) async fn newer_keys(&self) -> Result<Option<Arc<Vec<Key>>>, OidcError> {
        match self.keys.younger_than(KEYS_PAUSE) {
            Some(_) => Ok(None),
            None => Ok(Some(self.keys.keep(self.ask_for_keys().await?))),
        }
    }

    async fn ask_for_keys(&self) -> Result<Vec<Key>, OidcError> {
        let url = self.metadata().await?.jwks_uri.clone();
        let answer = self.ask_for(Request::get(url.as_str())).await?;
        let keys = Key::all(&answer);
        if keys.is_empty() {
            Err(OidcError::Unavailable("it has no usable keys".to_owned()))
        } else {
            Ok(keys)
        }
    }

    /// Requests tokens from the token endpoint.
    pub(super) async fn token(
        &self,
        form: &[(&str, &str)],
        client_id: &str,
        secret: Option<&str>,
    ) -> Result<Value, OidcError> {
        let metadata = self.metadata().await?;
        let (request, body) = metadata.token_request(form, client_id, secret);
        let (status, answer) = self.ask(request, body).await?;
        match status {
            StatusCode::OK => Ok(answer),
            status if status.is_client_error() => Err(OidcError::Refused(reason(status, &answer))),
            status => Err(OidcError::Unavailable(reason(status, &answer))),
        }
    }

    /// Requests the claims that are not in the ID token; none if the provider has no such endpoint.
    pub(super) async fn user_info(
        &self,
        access_token: &str,
    ) -> Result<Map<String, Value>, OidcError> {
        let metadata = self.metadata().await?;
        let Some(url) = &metadata.userinfo_endpoint else {
            return Err(OidcError::Invalid(
                "the ID token lacks a claim, and there is no user info".to_owned(),
            ));
        };
        let request = Request::get(url.as_str())
            .header(header::AUTHORIZATION, format!("Bearer {access_token}"));
        match self.ask_for(request).await? {
            Value::Object(claims) => Ok(claims),
            _ => Err(OidcError::Invalid(
                "the user info is no JSON object".to_owned(),
            )),
        }
    }

    async fn ask_for(&self, request: Builder) -> Result<Value, OidcError> {
        let (status, answer) = self.ask(request, Bytes::new()).await?;
        match status {
            StatusCode::OK => Ok(answer),
            status => Err(OidcError::Unavailable(reason(status, &answer))),
        }
    }

    /// Sends a request and returns status and JSON of the response; null if it is not JSON.
    async fn ask(&self, request: Builder, body: Bytes) -> Result<(StatusCode, Value), OidcError> {
        let request = request
            .header(header::ACCEPT, "application/json")
            .body(Full::new(body));
        let request = request.map_err(|error| OidcError::Unavailable(error.to_string()))?;
        let path = request.uri().path().to_owned();
        let exchange = async {
            let answer = self.http.request(request).await;
            let (head, body) = answer.map_err(|error| with_causes(&error))?.into_parts();
            let body = Limited::new(body, MAX_ANSWER_BYTES).collect().await;
            let body = body.map_err(|error| with_causes(&*error))?.to_bytes();
            Ok::<_, String>((
                head.status,
                serde_json::from_slice(&body).unwrap_or_default(),
            ))
        };
        let answered = tokio::time::timeout(self.timeout, exchange).await;
        let answered =
            answered.unwrap_or_else(|_| Err("no answer in time (oidc.timeout_ms)".to_owned()));
        answered.map_err(|error| OidcError::Unavailable(format!("{path}: {error}")))
    }
}

/// The authorization of a client by its secret (RFC 6749, section 2.3.1).
fn basic(client_id: &str, secret: &str) -> HeaderValue {
    let encoded = |text: &str| byte_serialize(text.as_bytes()).collect::<String>();
    let pair = format!("{}:{}", encoded(client_id), encoded(secret));
    let text = format!("Basic {}", STANDARD.encode(pair));
    let mut value = HeaderValue::try_from(text).unwrap_or(HeaderValue::from_static(""));
    value.set_sensitive(true);
    value
}

/// Error of an unsuccessful response, safe to log.
fn reason(status: StatusCode, answer: &Value) -> String {
    let text = |name: &str| answer.get(name).and_then(Value::as_str).unwrap_or_default();
    let said = format!("{} {}", text("error"), text("error_description"));
    let said: String = said.trim().chars().take(200).collect();
    format!("{status} {said:?}")
}

impl Metadata {
    fn token_request(
        &self,
        form: &[(&str, &str)],
        client_id: &str,
        secret: Option<&str>,
    ) -> (Builder, Bytes) {
        let mut body = Serializer::new(String::new());
        body.extend_pairs(form);
        let mut request = Request::post(self.token_endpoint.as_str());
        match secret {
            Some(secret) if !self.is_secret_in_form => {
                request = request.header(header::AUTHORIZATION, basic(client_id, secret));
            }
            secret => {
                body.append_pair("client_id", client_id);
                body.extend_pairs(secret.map(|secret| ("client_secret", secret)));
            }
        }
        let request = request.header(header::CONTENT_TYPE, "application/x-www-form-urlencoded");
        (request, body.finish().into())
    }

    fn read(answer: &Value, issuer: &str) -> Result<Self, String> {
        let text = |name: &str| answer.get(name).and_then(Value::as_str);
        if text("issuer") != Some(issuer) {
            return Err("it describes another issuer".to_owned());
        }
        // An issuer reached by TLS must not refer to endpoints without it.
        let is_by_tls = issuer.starts_with("https:");
        let may_be = |url: &Url| !is_by_tls || url.scheme() == "https";
        let url = |name: &str| text(name).map(|text| trusted_url(text).filter(may_be));
        let needed = |name: &str| {
            let url = url(name).flatten();
            url.ok_or_else(|| format!("its {name} is no https URL"))
        };
        let methods = answer.get("token_endpoint_auth_methods_supported");
        let takes = |method: &str| {
            let methods = methods.and_then(Value::as_array);
            methods.map(|methods| methods.iter().any(|each| each == method))
        };
        Ok(Self {
            authorization_endpoint: needed("authorization_endpoint")?,
            token_endpoint: needed("token_endpoint")?,
            jwks_uri: needed("jwks_uri")?,
            userinfo_endpoint: url("userinfo_endpoint").flatten(),
            is_secret_in_form: takes("client_secret_basic") == Some(false)
                && takes("client_secret_post") == Some(true),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn provider_when_its_metadata_is_untrusted_is_refused() {
        let good = json!({
            "issuer": "https://login.example", "authorization_endpoint": "https://login.example/auth?a=b",
            "token_endpoint": "https://login.example/token", "jwks_uri": "https://keys.example/",
        });
        let read = |change: (&str, Value)| {
            let mut metadata = good.clone();
            metadata[change.0] = change.1;
            Metadata::read(&metadata, "https://login.example")
        };
        assert!(
            !read(("scopes_supported", json!([])))
                .unwrap()
                .is_secret_in_form
        );
        let methods = "token_endpoint_auth_methods_supported";
        assert!(
            read((methods, json!(["client_secret_post"])))
                .unwrap()
                .is_secret_in_form
        );
        assert!(
            !read((
                methods,
                json!(["client_secret_post", "client_secret_basic"])
            ))
            .unwrap()
            .is_secret_in_form
        );
        for (name, value) in [
            ("issuer", json!("https://login.example/")),
            ("token_endpoint", json!("http://login.example/token")),
            ("authorization_endpoint", json!("javascript:alert(1)")),
            ("jwks_uri", json!(null)),
            ("jwks_uri", json!("http://127.0.0.1:7/keys")),
        ] {
            assert!(read((name, value)).is_err(), "{name}");
        }
    }

    #[test]
    fn client_secret_when_encoded_follows_the_standard() {
        let value = basic("a b", "c:ü");
        let text = value.to_str().unwrap().strip_prefix("Basic ").unwrap();
        assert_eq!(STANDARD.decode(text).unwrap(), b"a+b:c%3A%C3%BC");
    }
}
