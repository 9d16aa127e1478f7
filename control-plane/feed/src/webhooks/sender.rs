//! A single attempt to deliver an event.
//!
//! Connections go to checked addresses only: the name is resolved once for each connection, and all of its addresses must be allowed.
//! Redirects are not followed, proxies of the environment are not used, and only the head of the response is read.

use super::addresses::is_allowed;
use super::signature::signatures;
use bytes::Bytes;
use edgelink_model::clock;
use edgelink_settings::config::WebhooksConfig;
use edgelink_store::{AttemptOutcome, Delivery, WebhookRow};
use http::{HeaderMap, Request, StatusCode, header};
use http_body_util::Full;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::dns::Name;
use hyper_util::rt::TokioExecutor;
use std::error::Error;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use std::vec::IntoIter;
use tower::util::BoxCloneSyncService;
use url::{Host, Url};

/// The longest URL in bytes.
const MAX_URL_LENGTH: usize = 2000;

/// The longest time that an endpoint may ask not to be bothered.
const LONGEST_WISH: Duration = Duration::from_hours(24);

/// Longest stored reason of a failure, in bytes.
const MAX_REASON_LENGTH: usize = 200;

const USER_AGENT: &str = concat!("edgelink/", env!("CARGO_PKG_VERSION"));

type AddressLookup = BoxCloneSyncService<Name, IntoIter<SocketAddr>, io::Error>;

/// Sends events.
pub(super) struct Sender {
    http: Client<HttpsConnector<HttpConnector<AddressLookup>>, Full<Bytes>>,
    settings: Arc<WebhooksConfig>,
}

impl Sender {
    /// Creates a sender to the addresses that the settings allow.
    ///
    /// # Errors
    /// The system's certificates cannot be read.
    pub(super) fn new(settings: &WebhooksConfig) -> io::Result<Self> {
        let settings = Arc::new(settings.clone());
        let mut http = HttpConnector::new_with_resolver(address_lookup(&settings));
        http.enforce_http(false);
        let provider = rustls::crypto::ring::default_provider();
        let https = HttpsConnectorBuilder::new()
            .with_provider_and_native_roots(provider)?
            .https_or_http()
            .enable_http1()
            .wrap_connector(http);
        let http = Client::builder(TokioExecutor::new())
            // A kept connection would outlive a change of the allowed addresses.
            .pool_max_idle_per_host(0)
            .build(https);
        Ok(Self { http, settings })
    }

    /// Sends a delivery to a webhook.
    pub(super) async fn send(&self, webhook: &WebhookRow, delivery: &Delivery) -> AttemptOutcome {
        let answer = self.request(webhook, delivery).await;
        let (answer, error) = match answer {
            Ok(answer) if answer.status.is_success() => (Some(answer), None),
            Ok(answer) => {
                let error = format!("the answer is {}", answer.status.as_u16());
                (Some(answer), Some(error))
            }
            Err(error) => (None, Some(cut(&error))),
        };
        AttemptOutcome {
            response_status: answer.map(|answer| answer.status.as_u16()),
            error,
            retry_in: answer.and_then(|answer| answer.retry_after),
        }
    }

    /// Sends the request, and reads the head of the response; the reason if there is none.
    async fn request(
        &self,
        webhook: &WebhookRow,
        delivery: &Delivery,
    ) -> Result<AnswerHead, String> {
        // The settings may have changed since the webhook was created.
        let url = WebhookUrl::parse(&webhook.url, &self.settings);
        url.map_err(|error| format!("the URL {error}"))?;
        let request = request(webhook, delivery).map_err(|error| error.to_string())?;
        let answer = tokio::time::timeout(self.settings.timeout_ms, self.http.request(request));
        match answer.await {
            Ok(Ok(answer)) => Ok(AnswerHead {
                status: answer.status(),
                retry_after: retry_after(answer.headers()),
            }),
            Ok(Err(error)) => Err(root_cause(&error)),
            Err(_) => Err("there was no answer in time".to_owned()),
        }
    }
}

/// The head of a response.
#[derive(Clone, Copy, Debug)]
struct AnswerHead {
    status: StatusCode,
    /// Milliseconds for which no further request is wanted, at most [`LONGEST_WISH`].
    retry_after: Option<u64>,
}

/// Reads the header `Retry-After` (RFC 9110, section 10.2.3): seconds, or a date.
fn retry_after(headers: &HeaderMap) -> Option<u64> {
    let text = headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim();
    let wish = match text.parse::<u64>() {
        Ok(seconds) => Duration::from_secs(seconds),
        Err(_) => {
            let date = httpdate::parse_http_date(text).ok()?;
            date.duration_since(SystemTime::now()).unwrap_or_default()
        }
    };
    u64::try_from(wish.min(LONGEST_WISH).as_millis()).ok()
}

fn request(webhook: &WebhookRow, delivery: &Delivery) -> Result<Request<Full<Bytes>>, http::Error> {
    let now = clock::unix_millis();
    let previous = webhook.previous_secret.as_ref();
    let previous = previous
        .filter(|(_, until)| *until > now)
        .map(|(secret, _)| secret);
    let secrets = [&webhook.secret].into_iter().chain(previous);
    let (id, timestamp) = (delivery.message_id.as_str(), now / 1000);
    let signatures = signatures(secrets, id, timestamp, &delivery.body);
    Request::post(webhook.url.as_str())
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::USER_AGENT, USER_AGENT)
        .header("webhook-id", id)
        .header("webhook-timestamp", timestamp)
        .header("webhook-signature", signatures)
        .body(Full::from(delivery.body.clone()))
}

/// Creates a resolver that refuses names with an address that is not allowed.
fn address_lookup(settings: &Arc<WebhooksConfig>) -> AddressLookup {
    let settings = Arc::clone(settings);
    BoxCloneSyncService::new(tower::service_fn(move |name: Name| {
        let settings = Arc::clone(&settings);
        async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let found: Vec<SocketAddr> = found.collect();
            let is_allowed =
                |address: &SocketAddr| is_allowed(address.ip(), &settings.allowed_networks);
            match found.iter().find(|address| !is_allowed(address)) {
                Some(address) => {
                    // The tenant sees the error, which must not reveal internal addresses.
                    tracing::warn!(%name, address = %address.ip(), "webhook not sent: its host has an address that is not public");
                    Err(io::Error::other(NOT_PUBLIC))
                }
                None => Ok(found.into_iter()),
            }
        }
    }))
}

/// The error of a host with an address that is not allowed.
const NOT_PUBLIC: &str = "the host has an address that is not public";

/// A URL to which events may be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebhookUrl(String);

/// The error of a refused URL.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    #[error("must be a URL of at most 2000 bytes")]
    NoUrl,
    #[error("must begin with https://")]
    Scheme,
    #[error("must have no user, password or fragment")]
    Parts,
    #[error("must be on one of the hosts that the configuration allows (webhooks.allowed_hosts)")]
    Host,
    #[error("must not be on an address that is not public")]
    Address,
}

impl WebhookUrl {
    /// Parses a URL. A host name is resolved when connecting.
    pub fn parse(text: &str, settings: &WebhooksConfig) -> Result<Self, UrlError> {
        let url = Url::parse(text).map_err(|_| UrlError::NoUrl)?;
        if url.as_str().len() > MAX_URL_LENGTH {
            return Err(UrlError::NoUrl);
        }
        match url.scheme() {
            "https" => {}
            "http" if settings.allow_http => {}
            _ => return Err(UrlError::Scheme),
        }
        if !url.username().is_empty() || url.password().is_some() || url.fragment().is_some() {
            return Err(UrlError::Parts);
        }
        let host = url.host().ok_or(UrlError::NoUrl)?.to_owned();
        let mut hosts = settings.allowed_hosts.iter();
        if !hosts.any(|allowed| allowed.matches(&host)) {
            return Err(UrlError::Host);
        }
        let address = match host {
            Host::Ipv4(address) => Some(IpAddr::from(address)),
            Host::Ipv6(address) => Some(IpAddr::from(address)),
            Host::Domain(_) => None,
        };
        let networks = &settings.allowed_networks;
        if address.is_none_or(|address| is_allowed(address, networks)) {
            Ok(Self(url.into()))
        } else {
            Err(UrlError::Address)
        }
    }

    /// The URL.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The root cause of an error.
fn root_cause(error: &dyn Error) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}

/// Truncates a text to the size of its column.
fn cut(text: &str) -> String {
    text[..text.floor_char_boundary(MAX_REASON_LENGTH)].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use edgelink_store::SigningKey;
    use edgelink_wire::target::HostPattern;

    fn settings(hosts: &[&str]) -> WebhooksConfig {
        WebhooksConfig {
            allowed_hosts: hosts
                .iter()
                .filter_map(|host| HostPattern::parse(host))
                .collect(),
            ..WebhooksConfig::default()
        }
    }

    #[test]
    fn webhook_url_when_settings_forbid_it_is_refused() {
        let settings = settings(&["hooks.example", "*.a.example", "127.0.0.1", "1.1.1.1"]);
        for (url, expected) in [
            ("https://hooks.example/x?y", Ok(())),
            ("https://HOOKS.example:8443/", Ok(())),
            ("https://b.a.example", Ok(())),
            ("https://1.1.1.1/", Ok(())),
            ("http://hooks.example/", Err(UrlError::Scheme)),
            ("ftp://hooks.example/", Err(UrlError::Scheme)),
            ("https://a.example/", Err(UrlError::Host)),
            ("https://hooks.example.evil.example/", Err(UrlError::Host)),
            ("https://hooks.example@evil.example/", Err(UrlError::Parts)),
            ("https://hooks.example/#f", Err(UrlError::Parts)),
            ("https://127.0.0.1/", Err(UrlError::Address)),
            ("https://2130706433/", Err(UrlError::Address)),
            ("hooks.example", Err(UrlError::NoUrl)),
        ] {
            let parsed = WebhookUrl::parse(url, &settings).map(drop);
            assert_eq!(parsed, expected, "{url}");
        }
        let long = format!("https://hooks.example/{}", "x".repeat(1978));
        assert!(WebhookUrl::parse(&long, &settings).is_ok());
        assert_eq!(
            WebhookUrl::parse(&format!("{long}x"), &settings),
            Err(UrlError::NoUrl)
        );
    }

    #[tokio::test]
    async fn webhook_when_its_address_is_not_public_is_not_sent() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let settings = WebhooksConfig {
            allow_http: true,
            ..settings(&["localhost"])
        };
        let webhook = webhook(&format!("http://localhost:{port}/"));
        let sent = Sender::new(&settings)
            .unwrap()
            .send(&webhook, &delivery())
            .await;
        let error = sent.error.unwrap();
        assert!(error.ends_with(NOT_PUBLIC), "{error}");
        assert!(
            !error.contains("127.0.0.1") && !error.contains("::1"),
            "{error}"
        );
        let accepted = tokio::time::timeout(std::time::Duration::ZERO, listener.accept());
        assert!(accepted.await.is_err());
    }

    #[test]
    fn retry_after_when_sent_is_read_in_both_forms() {
        let read = |text: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::RETRY_AFTER, text.parse().unwrap());
            retry_after(&headers)
        };
        assert_eq!(read("120"), Some(120_000));
        assert_eq!(read("Wed, 21 Oct 2015 07:28:00 GMT"), Some(0));
        let day = Some(24 * 60 * 60 * 1000);
        assert_eq!(read("99999999"), day);
        assert_eq!(read("Fri, 21 Oct 2095 07:28:00 GMT"), day);
        for text in ["", "-1", "soon", "1.5"] {
            assert_eq!(read(text), None, "{text}");
        }
        assert_eq!(retry_after(&HeaderMap::new()), None);
    }

    fn webhook(url: &str) -> WebhookRow {
        WebhookRow {
            id: 1,
            tenant_id: 1,
            url: url.to_owned(),
            events: Vec::new(),
            secret: SigningKey([7; 32]),
            previous_secret: None,
            state: edgelink_store::WebhookState::Active,
            failures: 0,
            failing_since: None,
            created_at: 0,
            updated_at: 0,
        }
    }

    fn delivery() -> Delivery {
        Delivery {
            id: 1,
            message_id: "msg_1".to_owned(),
            event: "ping".to_owned(),
            body: "{}".to_owned(),
            state: "pending".to_owned(),
            attempts: 0,
            response_status: None,
            error: None,
            created_at: 0,
            next_at: Some(0),
        }
    }
}
