//! The module's own connections to control planes: HTTP/2, one connection to a server, over which all requests of the process go.
//!
//! Each address of a configured host is a server. A process asks one of them, chosen at random, as long as that answers; another one
//! takes its place where it does not. hyper is not used, but its HTTP/2 is: a ping has to be sent just when an answer is missing, and a
//! request may be sent again only if the server has not seen the first attempt.

mod connection;
mod feed;
mod server;
mod servers;
mod token;

use crate::tls::client_config;
use bytes::Bytes;
use edgelink_filter_core::control_plane::Outgoing;
use edgelink_filter_core::control_plane::callout::Response;
use edgelink_filter_core::settings::ControlPlane;
use edgelink_wire::settings::InvalidField;
use feed::FeedStream;
use http::header::{AUTHORIZATION, CONTENT_LENGTH};
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri};
use server::RequestLane;
use servers::{KnownServers, Resolve, Unavailable, look_up};
use std::sync::Arc;
use std::time::Duration;
use token::EdgeToken;
use tokio::time::{Instant, timeout_at};

/// The header that says for how many milliseconds more the answer is awaited: the control plane gives up what is late.
const EXPECTED_TIMEOUT: HeaderName = HeaderName::from_static("x-envoy-expected-rq-timeout-ms");

/// Maximum number of attempts of a request.
const ATTEMPTS: usize = 3;

/// A receiver of messages for the log of the host.
pub type Log = Arc<dyn Fn(&str) + Send + Sync>;

/// The attempts that a request may have beyond the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Retry {
    /// Only if no server has seen the earlier ones.
    Unseen,
    /// Also if a connection broke before the answer.
    Broken,
}

/// A request to the control planes.
#[derive(Clone, Debug)]
pub struct CalloutRequest {
    method: Method,
    authority: Authority,
    path: PathAndQuery,
    headers: HeaderMap,
    body: Bytes,
    timeout: Duration,
    max_body: usize,
    retry: Retry,
    lane: RequestLane,
}

impl CalloutRequest {
    /// The request that the edge wants to be sent; an answer has a body of at most `max_body` bytes. `None` if HTTP cannot express it.
    pub fn of(outgoing: &Outgoing<'_>, max_body: usize) -> Option<Self> {
        let (mut method, mut authority, mut path) = (Method::GET, None, None);
        let mut headers = HeaderMap::with_capacity(outgoing.headers.len());
        let mut retry = Retry::Unseen;
        for (name, value) in &outgoing.headers {
            match *name {
                ":method" => method = Method::from_bytes(value.as_bytes()).ok()?,
                ":authority" => authority = Some(Authority::try_from(*value).ok()?),
                ":path" => path = Some(PathAndQuery::try_from(*value).ok()?),
                // For Envoy, which retries by itself.
                "x-envoy-retry-on" if value.split(',').any(|on| on == "reset") => {
                    retry = Retry::Broken;
                }
                name if name.starts_with("x-envoy-") => {}
                name => {
                    let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
                    headers.append(name, HeaderValue::from_str(value).ok()?);
                }
            }
        }
        if let Some(authorization) = headers.get_mut(AUTHORIZATION) {
            authorization.set_sensitive(true);
        }
        if !outgoing.body.is_empty() {
            headers.insert(CONTENT_LENGTH, outgoing.body.len().into());
        }
        let path = path?;
        Some(Self {
            lane: RequestLane::of(path.path()),
            method,
            authority: authority?,
            path,
            headers,
            body: Bytes::copy_from_slice(outgoing.body),
            timeout: Duration::from_millis(outgoing.timeout_millis.into()),
            max_body,
            retry,
        })
    }

    /// The head of an attempt.
    fn head(&self, scheme: Scheme, token: Option<HeaderValue>) -> Option<http::Request<()>> {
        let uri = Uri::builder()
            .scheme(scheme)
            .authority(self.authority.clone());
        let uri = uri.path_and_query(self.path.clone()).build().ok()?;
        let mut head = http::Request::new(());
        *head.method_mut() = self.method.clone();
        *head.uri_mut() = uri;
        *head.headers_mut() = self.headers.clone();
        if let Some(token) = token {
            head.headers_mut().insert(AUTHORIZATION, token);
        }
        Some(head)
    }
}

/// The end of a request. Without an answer all is empty; a timeout is a 504, as from Envoy.
#[derive(Clone, Debug, Default)]
pub struct CalloutAnswer {
    status: Option<StatusCode>,
    content_type: Option<HeaderValue>,
    retry_after: Option<HeaderValue>,
    /// The body; empty if it is longer than the request allows.
    pub body: Vec<u8>,
}

impl CalloutAnswer {
    /// An answer with this status, these values of `content-type` and `retry-after`, and this body.
    #[cfg(feature = "testing")]
    pub fn of(status: &str, [content_type, retry_after]: [&str; 2], body: &[u8]) -> Self {
        let value = |text: &str| HeaderValue::from_str(text).ok().filter(|it| !it.is_empty());
        Self {
            status: status.parse().ok(),
            content_type: value(content_type),
            retry_after: value(retry_after),
            body: body.to_vec(),
        }
    }

    fn timeout() -> Self {
        Self {
            status: Some(StatusCode::GATEWAY_TIMEOUT),
            ..Self::default()
        }
    }

    /// The answer as the edge takes it.
    pub fn response(&self) -> Response<'_> {
        Response {
            status: self
                .status
                .as_ref()
                .map_or(b"", |status| status.as_str().as_bytes()),
            content_type: bytes_of(self.content_type.as_ref()),
            body: &self.body,
        }
    }

    /// The value of `retry-after`.
    pub fn retry_after(&self) -> &[u8] {
        bytes_of(self.retry_after.as_ref())
    }
}

fn bytes_of(value: Option<&HeaderValue>) -> &[u8] {
    value.map_or(b"", HeaderValue::as_bytes)
}

/// A client of the control planes. It is to be called within a runtime of tokio. Its connections end with the last clone.
#[derive(Clone)]
pub struct ControlPlanes(Arc<ClientState>);

struct ClientState {
    servers: Arc<KnownServers>,
    token: EdgeToken,
    /// The stream of the feed, between two polls.
    stream: tokio::sync::Mutex<Option<Box<FeedStream>>>,
}

impl ControlPlanes {
    /// Creates a client, which connects with the first request.
    ///
    /// # Errors
    /// A file of the settings that cannot be used.
    pub fn new(settings: &ControlPlane, log: Log) -> Result<Self, InvalidField> {
        Self::with_resolver(settings, log, Box::new(look_up))
    }

    fn with_resolver(
        settings: &ControlPlane,
        log: Log,
        resolve: Resolve,
    ) -> Result<Self, InvalidField> {
        let invalid = |InvalidField { field, reason }| InvalidField {
            field: format!("controlPlane.{field}"),
            reason,
        };
        if let Some(tls) = &settings.servers.tls {
            client_config(tls).map_err(invalid)?;
        }
        let token = EdgeToken::new(settings.servers.token_file.clone(), Arc::clone(&log));
        let token = token.map_err(invalid)?;
        let servers = KnownServers::new(settings, log, resolve);
        Ok(Self(Arc::new(ClientState {
            servers,
            token,
            stream: tokio::sync::Mutex::default(),
        })))
    }

    /// Sends a request, to further servers if the first ones fail, and returns its answer within its timeout.
    pub async fn call(&self, request: CalloutRequest) -> CalloutAnswer {
        let deadline = Instant::now() + request.timeout;
        if request.lane == RequestLane::Feed {
            let streamed = Box::pin(self.0.stream_poll(&request, deadline)).await;
            if let Some(answer) = streamed {
                return answer;
            }
        }
        let servers = &self.0.servers;
        let mut tried = Vec::new();
        for _ in 0..ATTEMPTS {
            let found = timeout_at(deadline, servers.connected(request.lane, &tried)).await;
            let (server, connection) = match found {
                Ok(Ok(found)) => found,
                Ok(Err(Unavailable)) => break,
                Err(_) => return CalloutAnswer::timeout(),
            };
            let token = self.0.token.current();
            let Some(mut head) = request.head(server.scheme(), token.clone()) else {
                break;
            };
            let left = deadline.saturating_duration_since(Instant::now());
            let left = u64::try_from(left.as_millis()).unwrap_or(u64::MAX);
            head.headers_mut().insert(EXPECTED_TIMEOUT, left.into());
            let exchange = async {
                let _permit = server.permit(request.lane).await;
                connection.exchange(&request, head).await
            };
            match timeout_at(deadline, exchange).await {
                // The token was replaced a moment ago.
                Ok(Ok(answer))
                    if answer.status == Some(StatusCode::UNAUTHORIZED)
                        && self.0.token.is_replaced(token.as_ref()) => {}
                Ok(Ok(answer)) => {
                    let is_failure = answer.status.is_none_or(|status| status.is_server_error());
                    server.note(request.lane, is_failure);
                    return answer;
                }
                Ok(Err(failure)) => {
                    if failure.is_of_connection {
                        servers.on_broken(&server, &connection);
                    }
                    if failure.is_seen {
                        server.note(request.lane, true);
                    }
                    if failure.is_seen && request.retry == Retry::Unseen {
                        break;
                    }
                    tried.push(server.address());
                }
                Err(_) => {
                    server.note(request.lane, true);
                    connection.suspect();
                    return CalloutAnswer::timeout();
                }
            }
        }
        CalloutAnswer::default()
    }
}

#[cfg(test)]
mod tests;
