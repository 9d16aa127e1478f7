//! A connection to a server: TCP, TLS, HTTP/2, and the notice that it is dead.

use super::server::RequestLane;
use super::{CalloutAnswer, CalloutRequest};
use crate::tls::client_config;
use bytes::Bytes;
use edgelink_filter_core::settings::{ServerAddress, Tls};
use h2::client::{self, SendRequest};
use h2::{Ping, PingPong, Reason, RecvStream, SendStream};
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::response::Parts;
use rustls::pki_types::ServerName;
use std::future::pending;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsConnector;

/// Bytes of a request's answer, and of all of them, that may wait to be read.
const WINDOW: u32 = 256 << 10;
const CONNECTION_WINDOW: u32 = 1 << 20;

/// Maximum length of the headers of an answer, in bytes.
const MAX_HEADERS: u32 = 16 << 10;

/// The failure of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AttemptFailure {
    /// False if the server has certainly not seen the request.
    pub(super) is_seen: bool,
    /// False if the connection works on.
    pub(super) is_of_connection: bool,
}

impl AttemptFailure {
    const UNSENT: Self = Self {
        is_seen: false,
        is_of_connection: true,
    };
}

impl From<h2::Error> for AttemptFailure {
    fn from(error: h2::Error) -> Self {
        // A server that says goodbye names the last request that it has seen, and only later ones fail by it.
        let is_refused = error.is_reset() && error.reason() == Some(Reason::REFUSED_STREAM);
        let is_unseen = error.is_remote() && (error.is_go_away() || is_refused);
        Self {
            is_seen: !is_unseen,
            is_of_connection: !error.is_reset(),
        }
    }
}

/// Signs of life of a connection.
#[derive(Default)]
struct Pulse {
    /// Number of requests without an answer, but for polls.
    waiting: AtomicUsize,
    /// Number of answers, or parts of them.
    heard: AtomicUsize,
    /// True if an answer of any kind was awaited in vain.
    is_suspect: AtomicBool,
    wake: Notify,
}

/// A request without an answer, until it is dropped.
struct UnansweredRequest<'a>(&'a Pulse);

impl Pulse {
    fn wait(&self) -> UnansweredRequest<'_> {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        self.wake.notify_one();
        UnansweredRequest(self)
    }

    fn is_waiting(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0 || self.is_suspect.load(Ordering::Relaxed)
    }

    /// Completes when the server has not answered for three `period`s: a request has waited for one of them, and a ping for two.
    async fn silence(&self, ping: &mut PingPong, period: Duration) {
        loop {
            while !self.is_waiting() {
                self.wake.notified().await;
            }
            let heard = self.heard.load(Ordering::Relaxed);
            sleep(period).await;
            if !self.is_waiting() || self.heard.load(Ordering::Relaxed) != heard {
                continue;
            }
            self.is_suspect.store(false, Ordering::Relaxed);
            match timeout(2 * period, ping.ping(Ping::opaque())).await {
                Ok(Ok(_)) => {}
                // The connection itself says why.
                Ok(Err(_)) => pending().await,
                Err(_) => return,
            }
        }
    }
}

impl Drop for UnansweredRequest<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The identity of a connection.
pub(super) struct ConnectionId(Arc<Pulse>);

impl PartialEq for ConnectionId {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// The body of a request.
pub(super) enum RequestBody {
    Whole(Bytes),
    /// It goes on while the answer comes.
    Open,
}

/// A request whose answer has begun. Both end when this is dropped.
pub(super) struct Sent {
    pub(super) head: Parts,
    pub(super) answer: RecvStream,
    pub(super) body: SendStream<Bytes>,
}

/// A handle to a connection, which ends when no handle and no request is left.
#[derive(Clone)]
pub(super) struct ConnectionHandle {
    sender: SendRequest<Bytes>,
    pulse: Arc<Pulse>,
}

impl ConnectionHandle {
    pub(super) fn id(&self) -> ConnectionId {
        ConnectionId(Arc::clone(&self.pulse))
    }

    /// Makes sure that the connection is alive.
    pub(super) fn suspect(&self) {
        self.pulse.is_suspect.store(true, Ordering::Relaxed);
        self.pulse.wake.notify_one();
    }

    /// Sends a request, and receives its answer.
    pub(super) async fn exchange(
        &self,
        request: &CalloutRequest,
        head: http::Request<()>,
    ) -> Result<CalloutAnswer, AttemptFailure> {
        // A poll waits for changes.
        let _waiting = (request.lane == RequestLane::Requests).then(|| self.pulse.wait());
        let body = RequestBody::Whole(request.body.clone());
        let sent = self.send(head, body).await?;
        self.receive(sent, request.max_body).await
    }

    /// Sends a request, and receives the head of its answer.
    pub(super) async fn send(
        &self,
        head: http::Request<()>,
        body: RequestBody,
    ) -> Result<Sent, AttemptFailure> {
        let sender = self.sender.clone().ready().await;
        let mut sender = sender.map_err(|_| AttemptFailure::UNSENT)?;
        let is_empty = matches!(&body, RequestBody::Whole(body) if body.is_empty());
        let sent = sender.send_request(head, is_empty);
        let (response, mut sending) = sent.map_err(|_| AttemptFailure::UNSENT)?;
        if let RequestBody::Whole(body) = body
            && !is_empty
        {
            // It waits for the window of the server where it is.
            sending.send_data(body, true)?;
        }
        let (head, answer) = response.await?.into_parts();
        self.heard();
        Ok(Sent {
            head,
            answer,
            body: sending,
        })
    }

    /// Receives an answer; its body is empty if it is longer than `limit` bytes.
    pub(super) async fn receive(
        &self,
        mut sent: Sent,
        limit: usize,
    ) -> Result<CalloutAnswer, AttemptFailure> {
        let mut body = Vec::new();
        while let Some(chunk) = self.next_chunk(&mut sent.answer).await? {
            if chunk.len() > limit - body.len() {
                body.clear();
                break;
            }
            body.extend_from_slice(&chunk);
        }
        let header = |name| sent.head.headers.get(name).cloned();
        Ok(CalloutAnswer {
            status: Some(sent.head.status),
            content_type: header(CONTENT_TYPE),
            retry_after: header(RETRY_AFTER),
            body,
        })
    }

    /// Receives the next bytes of an answer; `None` at its end.
    pub(super) async fn next_chunk(
        &self,
        answer: &mut RecvStream,
    ) -> Result<Option<Bytes>, AttemptFailure> {
        let Some(chunk) = answer.data().await.transpose()? else {
            return Ok(None);
        };
        self.heard();
        answer.flow_control().release_capacity(chunk.len())?;
        Ok(Some(chunk))
    }

    fn heard(&self) {
        self.pulse.heard.fetch_add(1, Ordering::Relaxed);
    }
}

/// The work of a connection, until it ends. The error says why it broke.
pub(super) type Driven = Pin<Box<dyn Future<Output = io::Result<()>> + Send>>;

/// Bytes in both directions.
trait ByteStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> ByteStream for T {}

/// Connects to an address of a server. It is connected when it has answered a ping; later ones are sent when it has owed an answer
/// for a `period`.
pub(super) async fn connect(
    (server, address): (&ServerAddress, SocketAddr),
    tls: Option<&Tls>,
    period: Duration,
) -> io::Result<(ConnectionHandle, Driven)> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let stream: Box<dyn ByteStream> = match tls {
        None => Box::new(stream),
        Some(tls) => Box::new(encrypt(stream, server, tls).await?),
    };
    let mut builder = client::Builder::new();
    builder
        .initial_window_size(WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_header_list_size(MAX_HEADERS)
        // Answers may come for long after their requests were given up.
        .max_local_error_reset_streams(None)
        .enable_push(false);
    let handshake = builder.handshake(stream).await;
    let (sender, mut connection) = handshake.map_err(io::Error::other)?;
    let no_pings = || io::Error::other("the connection cannot send pings");
    let mut ping = connection.ping_pong().ok_or_else(no_pings)?;
    let mut connection = Box::pin(connection);
    tokio::select! {
        biased;
        ended = &mut connection => {
            ended.map_err(io::Error::other)?;
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        pong = ping.ping(Ping::opaque()) => pong.map(drop).map_err(io::Error::other)?,
    }
    let pulse = Arc::<Pulse>::default();
    let handle = ConnectionHandle {
        sender,
        pulse: Arc::clone(&pulse),
    };
    let driven = Box::pin(async move {
        tokio::select! {
            biased;
            ended = connection => ended.map_err(io::Error::other),
            () = pulse.silence(&mut ping, period) => Err(io::Error::other("no answer to a ping")),
        }
    });
    Ok((handle, driven))
}

async fn encrypt(
    stream: TcpStream,
    server: &ServerAddress,
    tls: &Tls,
) -> io::Result<tokio_rustls::client::TlsStream<TcpStream>> {
    let name = tls
        .server_name
        .clone()
        .unwrap_or_else(|| server.host.clone());
    let name = ServerName::try_from(name).map_err(io::Error::other)?;
    let config = client_config(tls);
    let mut config = config.map_err(|wrong| io::Error::other(wrong.reason))?;
    config.alpn_protocols = vec![b"h2".to_vec()];
    let connector = TlsConnector::from(Arc::new(config));
    let stream = connector.connect(name, stream).await?;
    if stream.get_ref().1.alpn_protocol() != Some(b"h2") {
        return Err(io::Error::other("the server does not offer HTTP/2"));
    }
    Ok(stream)
}
