//! KnownServers of HTTP/2 that fail in chosen ways.

use bytes::Bytes;
use edgelink_wire::FeedPoint;
use edgelink_wire::feed_stream::{MEDIA_TYPE, PATH, frame_head, read_acknowledgement};
use edgelink_wire::{FeedBatch, FeedBatchHead, FeedPosition};
use h2::server::{self, SendResponse};
use h2::{Reason, RecvStream};
use http::Response;
use http::request::Parts;
use std::future::pending;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::{Notify, watch};
use tokio_rustls::TlsAcceptor;

/// What a server does with a request.
#[derive(Clone, Copy)]
pub(super) enum Behaviour {
    /// Answers with a status and a body.
    Answer(u16, &'static str),
    /// Closes the connection.
    Break,
    /// Reads and writes nothing any more.
    Freeze,
    /// Refuses the request.
    Refuse,
    /// Answers once it is released.
    Wait,
    /// Sends the feed as a stream, and answers everything else.
    Feed,
}

impl Behaviour {
    pub(super) const OK: Self = Self::Answer(200, "");
}

#[derive(Default)]
struct State {
    seen: Vec<(Parts, Vec<u8>)>,
    connections: usize,
    open: usize,
    /// The acknowledgements of streams.
    acknowledged: Vec<FeedPoint>,
}

struct ClientState {
    behaviour: Mutex<Behaviour>,
    state: watch::Sender<State>,
    released: Notify,
    /// The end of the feed, of generation 1.
    end: watch::Sender<u64>,
    killed: Notify,
}

/// A server.
pub(super) struct Peer {
    pub(super) address: SocketAddr,
    shared: Arc<ClientState>,
}

impl Peer {
    pub(super) async fn start(behaviour: Behaviour) -> Self {
        Self::with(behaviour, None).await
    }

    pub(super) async fn with(behaviour: Behaviour, tls: Option<TlsAcceptor>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(ClientState {
            behaviour: Mutex::new(behaviour),
            state: watch::Sender::default(),
            released: Notify::new(),
            end: watch::Sender::new(1),
            killed: Notify::new(),
        });
        let of_task = Arc::clone(&shared);
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (shared, tls) = (Arc::clone(&of_task), tls.clone());
                tokio::spawn(async move {
                    match tls {
                        None => shared.serve(stream).await,
                        Some(tls) => {
                            if let Ok(stream) = tls.accept(stream).await {
                                shared.serve(stream).await;
                            }
                        }
                    }
                });
            }
        });
        Self { address, shared }
    }

    pub(super) fn behave(&self, behaviour: Behaviour) {
        *self.shared.behaviour.lock().unwrap() = behaviour;
    }

    /// Answers requests that wait.
    pub(super) fn release(&self) {
        self.shared.released.notify_waiters();
    }

    /// Moves the end of the feed by one.
    pub(super) fn push(&self) {
        self.shared.end.send_modify(|end| *end += 1);
    }

    /// Closes all connections.
    pub(super) fn kill(&self) {
        self.shared.killed.notify_waiters();
    }

    pub(super) fn acknowledged(&self) -> Vec<FeedPoint> {
        self.shared.state.borrow().acknowledged.clone()
    }

    pub(super) async fn until_acknowledged(&self, count: usize) {
        let mut state = self.shared.state.subscribe();
        let all = state.wait_for(|state| state.acknowledged.len() >= count);
        all.await.unwrap();
    }

    pub(super) fn seen(&self) -> Vec<(Parts, Vec<u8>)> {
        self.shared.state.borrow().seen.clone()
    }

    pub(super) fn count(&self) -> usize {
        self.shared.state.borrow().seen.len()
    }

    pub(super) fn connections(&self) -> usize {
        self.shared.state.borrow().connections
    }

    pub(super) async fn until_seen(&self, count: usize) {
        let mut state = self.shared.state.subscribe();
        state
            .wait_for(|state| state.seen.len() >= count)
            .await
            .unwrap();
    }

    pub(super) async fn until_disconnected(&self) {
        let mut state = self.shared.state.subscribe();
        state.wait_for(|state| state.open == 0).await.unwrap();
    }
}

impl ClientState {
    async fn serve(self: Arc<Self>, stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) {
        self.state.send_modify(|state| {
            state.connections += 1;
            state.open += 1;
        });
        let mut connection = server::handshake(stream).await.unwrap();
        let killed = self.killed.notified();
        tokio::pin!(killed);
        killed.as_mut().enable();
        loop {
            let accepted = tokio::select! {
                accepted = connection.accept() => accepted,
                () = &mut killed => None,
            };
            let Some(Ok((request, mut respond))) = accepted else {
                break;
            };
            let behaviour = *self.behaviour.lock().unwrap();
            let (head, mut body) = request.into_parts();
            let shared = Arc::clone(&self);
            let is_stream = head.uri.path() == PATH;
            let serve = async move {
                let mut bytes = Vec::new();
                if is_stream && matches!(behaviour, Behaviour::Feed) {
                    let seen = |state: &mut State| state.seen.push((head, Vec::new()));
                    shared.state.send_modify(seen);
                    return shared.feed(respond, body).await;
                }
                while !is_stream && let Some(Ok(chunk)) = body.data().await {
                    let _ = body.flow_control().release_capacity(chunk.len());
                    bytes.extend_from_slice(&chunk);
                }
                // It is waiting before it is seen.
                let released = shared.released.notified();
                tokio::pin!(released);
                released.as_mut().enable();
                shared
                    .state
                    .send_modify(|state| state.seen.push((head, bytes)));
                match behaviour {
                    Behaviour::Answer(status, body) => answer(respond, (status, body)),
                    Behaviour::Feed => answer(respond, (200, "")),
                    Behaviour::Wait => {
                        released.await;
                        answer(respond, (200, ""));
                    }
                    Behaviour::Refuse => respond.send_reset(Reason::REFUSED_STREAM),
                    Behaviour::Break | Behaviour::Freeze => {}
                }
            };
            match behaviour {
                Behaviour::Break => break,
                Behaviour::Freeze => pending().await,
                _ => tokio::spawn(serve),
            };
        }
        self.state.send_modify(|state| state.open -= 1);
    }
}

impl ClientState {
    /// Answers each acknowledgement by a frame without a message, once the feed has gone on, and notes it.
    async fn feed(self: Arc<Self>, mut respond: SendResponse<Bytes>, mut body: RecvStream) {
        let head = Response::builder().header("content-type", MEDIA_TYPE);
        let mut sender = respond
            .send_response(head.body(()).unwrap(), false)
            .unwrap();
        let mut end = self.end.subscribe();
        let mut point = (1, FeedPosition::START);
        loop {
            let is_behind = |end: &u64| *end > point.1.millis;
            let next = FeedPosition::new(*end.wait_for(is_behind).await.unwrap(), 0);
            let head = FeedBatchHead {
                generation: 1,
                next,
                ..FeedBatchHead::default()
            };
            let batch = FeedBatch::encode(head, [].iter());
            let frame = [frame_head(batch.len()), batch].concat();
            // In two parts, as they may come.
            let (start, rest) = frame.split_at(frame.len() / 2);
            for part in [start, rest] {
                if sender.send_data(part.to_vec().into(), false).is_err() {
                    return;
                }
            }
            let Some(Ok(acknowledged)) = body.data().await else {
                return;
            };
            point = read_acknowledgement(&mut &acknowledged[..])
                .unwrap()
                .unwrap();
            self.state
                .send_modify(|state| state.acknowledged.push(point));
        }
    }
}

fn answer(mut respond: SendResponse<Bytes>, (status, body): (u16, &'static str)) {
    let head = Response::builder()
        .status(status)
        .header("content-type", "text/peer")
        .header("retry-after", "7")
        .body(())
        .unwrap();
    // The client may have given up.
    if let Ok(mut sender) = respond.send_response(head, false) {
        let _ = sender.send_data(Bytes::from_static(body.as_bytes()), true);
    }
}

/// An address at which no server listens.
pub(super) async fn dead_address() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    listener.local_addr().unwrap()
}

/// A server of HTTP/1.1.
pub(super) async fn http1() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let _ = stream.read(&mut [0; 64]).await;
            let _ = stream
                .write_all(b"HTTP/1.1 400 Bad CalloutRequest\r\ncontent-length: 0\r\n\r\n")
                .await;
        }
    });
    address
}

/// A server that answers a first request by a goodbye that says that it has seen none, and is gone then.
pub(super) async fn goodbye() -> (SocketAddr, Arc<AtomicBool>) {
    const SETTINGS: u8 = 4;
    const PING: u8 = 6;
    const HEADERS: u8 = 1;
    const PREFACE: usize = 24;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let ended = Arc::<AtomicBool>::default();
    let is_over = Arc::clone(&ended);
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        drop(listener);
        stream.read_exact(&mut [0; PREFACE]).await.unwrap();
        stream
            .write_all(&[0, 0, 0, SETTINGS, 0, 0, 0, 0, 0])
            .await
            .unwrap();
        loop {
            let mut head = [0; 9];
            stream.read_exact(&mut head).await.unwrap();
            let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
            let mut payload = vec![0; length as usize];
            stream.read_exact(&mut payload).await.unwrap();
            match (head[3], head[4]) {
                (SETTINGS, 0) => stream
                    .write_all(&[0, 0, 0, SETTINGS, 1, 0, 0, 0, 0])
                    .await
                    .unwrap(),
                (PING, 0) => {
                    let pong = [&[0, 0, 8, PING, 1, 0, 0, 0, 0][..], &payload].concat();
                    stream.write_all(&pong).await.unwrap();
                }
                (HEADERS, _) => {
                    is_over.store(true, Ordering::Relaxed);
                    let goaway = [0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
                    stream.write_all(&goaway).await.unwrap();
                    return;
                }
                _ => {}
            }
        }
    });
    (address, ended)
}
