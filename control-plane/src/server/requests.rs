//! Serves the requests of a connection: HTTP/1.1 or HTTP/2. A client chooses by ALPN over TLS, and by its first bytes without.

use super::handshake::{Handshake, PeerRole};
use super::seat::{InFlight, Occupied, held};
use super::unsent::{Streams, watched};
use axum::Router;
use edgelink_http::client_address::PeerIp;
use edgelink_settings::config::Config;
use http::{HeaderName, HeaderValue, Request, header};
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulConnection;
use hyper_util::service::TowerToHyperService;
use std::fmt::Display;
use std::future::pending;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};
use tokio_io_timeout::TimeoutStream;
use tokio_util::sync::CancellationToken;
use tower_http::add_extension::AddExtension;

/// Largest request head in bytes; a longer one is answered with 431.
const MAX_HEAD_BYTES: usize = 32_768;
/// The largest buffer of a connection, and of a request in HTTP/2, in bytes.
const MAX_BUFFER_BYTES: usize = 65_536;
/// Most concurrent requests of an HTTP/2 connection.
const MAX_STREAMS: u32 = 128;
/// Time limit of a request head on a connection for probes.
const PROBE_HEADER_TIMEOUT: Duration = Duration::from_secs(2);
/// Time for which an HTTP/2 connection without an open stream is kept after GOAWAY, so that the client can acknowledge it, or begin if
/// it has not yet.
const GOAWAY_TIMEOUT: Duration = Duration::from_secs(5);

/// The first bytes of HTTP/2, which are no request of HTTP/1.1 (RFC 9113, section 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Pause before the first bytes are looked at again when there are too few.
const PREFACE_PAUSE: Duration = Duration::from_millis(10);

const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

type Stream = Pin<Box<TimeoutStream<TcpStream>>>;
type Handler = TowerToHyperService<AddExtension<Router, PeerIp>>;

/// Servers of connections.
#[derive(Clone)]
pub(super) struct HttpServer {
    header_timeout: Duration,
    handshake_timeout: Duration,
    http1: http1::Builder,
    http2: http2::Builder<Streams>,
}

impl HttpServer {
    /// Creates servers with this time limit of request heads; all other limits come from the configuration.
    fn with(header_timeout: Duration, config: &Config) -> Self {
        let mut http1 = http1::Builder::new();
        http1
            .timer(TokioTimer::new())
            .header_read_timeout(header_timeout)
            .max_header_size(MAX_HEAD_BYTES)
            .max_buf_size(MAX_BUFFER_BYTES);
        let mut http2 = http2::Builder::new(Streams {
            write_timeout: config.server.write_timeout_ms,
        });
        http2
            .timer(TokioTimer::new())
            .keep_alive_interval(header_timeout)
            .keep_alive_timeout(header_timeout)
            .max_concurrent_streams(MAX_STREAMS)
            .max_header_list_size(MAX_HEAD_BYTES as u32)
            .max_send_buf_size(MAX_BUFFER_BYTES)
            .initial_stream_window_size(MAX_BUFFER_BYTES as u32);
        Self {
            header_timeout,
            handshake_timeout: config.tls.handshake_timeout_ms,
            http1,
            http2,
        }
    }

    /// Creates servers for connections within `server.max_connections`.
    pub(super) fn new(config: &Config) -> Self {
        Self::with(config.server.header_timeout_ms, config)
    }

    /// Creates servers for probes: one request per connection. Over TLS these are offered HTTP/1.1 only ([`super::tls::Protocols`]).
    pub(super) fn for_probes(config: &Config) -> Self {
        let header_timeout = config.server.header_timeout_ms.min(PROBE_HEADER_TIMEOUT);
        let mut http = Self::with(header_timeout, config);
        http.http1.keep_alive(false);
        http
    }

    /// Serves a connection to its end, which after `stop` comes once the requests in flight are answered.
    pub(super) async fn serve(
        &self,
        stream: Stream,
        (handler, seat): (Handler, Option<Arc<Occupied>>),
        handshake: Option<Handshake>,
        stop: &CancellationToken,
    ) {
        let requests = Requests::new(handler, seat);
        // In boxes: a connection takes the memory of its own protocol only, and once.
        let ended = match handshake {
            // A connection for probes has one request.
            None if requests.seat.is_some() && self.is_http2(stream.get_ref()).await => {
                Box::pin(self.serve_http2(stream, requests, stop)).await
            }
            None => Box::pin(self.serve_http1(stream, requests, stop)).await,
            Some(handshake) => Box::pin(self.serve_tls(stream, requests, handshake, stop)).await,
        };
        if let Err(error) = ended {
            tracing::debug!(error, "connection ended early");
        }
    }

    /// True if the client begins with HTTP/2.
    async fn is_http2(&self, stream: &TcpStream) -> bool {
        let looking = async {
            let mut first = [0; PREFACE.len()];
            loop {
                let count = stream.peek(&mut first).await.unwrap_or(0);
                match first.get(..count) {
                    Some(PREFACE) => return true,
                    Some(some) if count > 0 && PREFACE.starts_with(some) => {
                        sleep(PREFACE_PAUSE).await;
                    }
                    _ => return false,
                }
            }
        };
        timeout(self.header_timeout, looking).await.unwrap_or(false)
    }

    async fn serve_tls(
        &self,
        stream: Stream,
        requests: Requests,
        handshake: Handshake,
        stop: &CancellationToken,
    ) -> Result<(), String> {
        let sender = handshake.sender;
        let handshake = handshake.finish(stream, self.handshake_timeout);
        let Some(Some(stream)) = stop.run_until_cancelled(handshake).await else {
            return Ok(());
        };
        let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
        let requests = Requests {
            over_tls: Some(sender),
            ..requests
        };
        if is_http2 {
            Box::pin(self.serve_http2(stream, requests, stop)).await
        } else {
            Box::pin(self.serve_http1(stream, requests, stop)).await
        }
    }

    async fn serve_http1(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        requests: Requests,
        stop: &CancellationToken,
    ) -> Result<(), String> {
        let requests = service_fn(move |request| {
            let in_flight = requests.begin();
            let answer = requests.call(request);
            async move {
                let in_flight = or_never(in_flight).await;
                answer.await.map(|answer| held(answer, in_flight))
            }
        });
        let connection = self.http1.serve_connection(TokioIo::new(stream), requests);
        finish(connection, stop.cancelled(), pending()).await
    }

    async fn serve_http2(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        requests: Requests,
        stop: &CancellationToken,
    ) -> Result<(), String> {
        let requests = Requests {
            is_http2: true,
            ..requests
        };
        let streams = requests.streams.clone();
        let asked = async {
            tokio::select! {
                () = stop.cancelled() => {}
                () = streams.idle(self.header_timeout) => {}
            }
        };
        let requests = service_fn(move |request| {
            let open = requests.streams.open();
            let in_flight = requests.begin();
            let answer = requests.call(request);
            async move {
                let in_flight = or_never(in_flight).await;
                answer
                    .await
                    .map(|answer| watched(answer, (open, in_flight)))
            }
        });
        let connection = self.http2.serve_connection(TokioIo::new(stream), requests);
        finish(connection, asked, streams.idle(GOAWAY_TIMEOUT)).await
    }
}

/// Runs a connection to its end: gracefully once `asked` completes, and at once when `given_up` completes after that.
async fn finish<C: GracefulConnection<Error: Display>>(
    connection: C,
    asked: impl Future<Output = ()>,
    given_up: impl Future<Output = ()>,
) -> Result<(), String> {
    let mut connection = pin!(connection);
    let ended = tokio::select! {
        // The connection comes first: a received request is answered.
        biased;
        ended = connection.as_mut() => Some(ended),
        () = asked => {
            connection.as_mut().graceful_shutdown();
            tokio::select! {
                ended = connection => Some(ended),
                () = given_up => None,
            }
        }
    };
    ended.map_or(Ok(()), |ended| ended.map_err(|error| error.to_string()))
}

/// Counts the streams of an HTTP/2 connection, because the protocol does not limit idle connections.
#[derive(Debug, Default)]
struct StreamCounts {
    begun: AtomicU64,
    open: AtomicU64,
}

/// A stream that counts as open until it is dropped.
#[derive(Debug)]
struct OpenStream(Arc<StreamCounts>);

impl StreamCounts {
    fn open(self: &Arc<Self>) -> OpenStream {
        self.begun.fetch_add(1, Ordering::Relaxed);
        self.open.fetch_add(1, Ordering::Relaxed);
        OpenStream(self.clone())
    }

    /// Completes when no stream has been open for `limit`.
    async fn idle(&self, limit: Duration) {
        let mut seen = self.begun.load(Ordering::Relaxed);
        loop {
            sleep(limit).await;
            let now = self.begun.load(Ordering::Relaxed);
            if now == seen && self.open.load(Ordering::Relaxed) == 0 {
                return;
            }
            seen = now;
        }
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Passes requests on, in a uniform form.
#[derive(Clone)]
struct Requests {
    handler: Handler,
    /// `None` in connections for probes.
    seat: Option<Arc<Occupied>>,
    /// `None` without TLS.
    over_tls: Option<PeerRole>,
    is_http2: bool,
    /// Streams of HTTP/2.
    streams: Arc<StreamCounts>,
}

impl Requests {
    /// Creates the service of a connection without TLS with this seat.
    fn new(handler: Handler, seat: Option<Arc<Occupied>>) -> Self {
        Self {
            handler,
            seat,
            over_tls: None,
            is_http2: false,
            streams: Arc::default(),
        }
    }

    /// Begins a request, which holds the seat of its connection while in flight. `None` if the connection is about to be closed.
    fn begin(&self) -> Option<Option<InFlight>> {
        match &self.seat {
            Some(seat) => seat.begin().map(Some),
            None => Some(None),
        }
    }
}

/// Returns the value, or waits forever: the connection is being closed.
async fn or_never<T>(value: Option<T>) -> T {
    match value {
        Some(value) => value,
        None => pending().await,
    }
}

impl Service<Request<Incoming>> for Requests {
    type Response = <Handler as Service<Request<Incoming>>>::Response;
    type Error = <Handler as Service<Request<Incoming>>>::Error;
    type Future = <Handler as Service<Request<Incoming>>>::Future;

    fn call(&self, mut request: Request<Incoming>) -> Self::Future {
        if self.is_http2 {
            unify(&mut request);
        }
        if let Some(sender) = self.over_tls {
            name_protocol(&mut request, sender);
        }
        self.handler.call(request)
    }
}

/// Gives a request of HTTP/2 the headers of HTTP/1.1: `Host` from `:authority`, which takes precedence, and one cookie line, which HTTP/2
/// may split (RFC 9113, sections 8.3.1 and 8.2.3).
fn unify<B>(request: &mut Request<B>) {
    let authority = request.uri().authority();
    let host = authority.and_then(|host| HeaderValue::try_from(host.as_str()).ok());
    let headers = request.headers_mut();
    if let Some(host) = host {
        headers.insert(header::HOST, host);
    }
    let cookies: Vec<&[u8]> = headers
        .get_all(header::COOKIE)
        .iter()
        .map(HeaderValue::as_bytes)
        .collect();
    if let (2.., Ok(cookies)) = (
        cookies.len(),
        HeaderValue::try_from(cookies.join(&b"; "[..])),
    ) {
        headers.insert(header::COOKIE, cookies);
    }
}

/// Names the protocol TLS to handlers, unless a trusted proxy has named its client's.
fn name_protocol<B>(request: &mut Request<B>, sender: PeerRole) {
    let headers = request.headers_mut();
    if sender == PeerRole::Client {
        headers.remove(FORWARDED_PROTO);
    }
    let https = HeaderValue::from_static("https");
    headers.entry(FORWARDED_PROTO).or_insert(https);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forwarded_proto_when_not_from_a_proxy_is_replaced() {
        for (sender, sent, expected) in [
            (PeerRole::Client, None, "https"),
            (PeerRole::Client, Some("http"), "https"),
            (PeerRole::Proxy, None, "https"),
            (PeerRole::Proxy, Some("http"), "http"),
        ] {
            let mut request = Request::new(());
            if let Some(sent) = sent {
                let sent = HeaderValue::from_static(sent);
                request.headers_mut().insert(FORWARDED_PROTO, sent);
            }
            name_protocol(&mut request, sender);
            let told: Vec<_> = request.headers().get_all(FORWARDED_PROTO).iter().collect();
            assert_eq!(told, [expected], "{sender:?}, {sent:?}");
        }
    }
}
