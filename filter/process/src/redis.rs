//! The connection to Redis, by TCP or TLS, on the thread of the module.
//!
//! With a single server the protocol is the core's concern; this module transports bytes, and coalesces messages that workers send while
//! the thread is writing. With a Redis Cluster or Sentinels, the client of [`pool`] carries lookups out.

mod pool;

use crate::proxy::SharedTable;
use crate::thread::{spawn, warn_once};
use crate::tls::client_config;
use edgelink_filter_core::host::{ConnectionToken, HashLookup, RedisEvent};
use edgelink_filter_core::settings::{RedisSettings, Servers};
use rustls::pki_types::ServerName;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::AbortHandle;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Bytes that are read at a time.
const CHUNK: usize = 64 << 10;

/// The edge that a connection is for.
pub(crate) trait Receiver: Sync {
    /// Handles what has happened to a connection. Returns false to end it.
    fn on_redis(&'static self, event: (ConnectionToken, RedisEvent<'_>)) -> bool;

    /// The memory that it shares with those of other processes, if it does.
    fn shared(&self) -> Option<&'static dyn SharedTable> {
        None
    }
}

/// A connection to Redis, which ends when this is dropped.
pub(crate) struct Connection {
    unsent: ThreadSender,
    task: AbortHandle,
}

/// The work of a connection, until it ends.
type Carried = Pin<Box<dyn Future<Output = io::Result<()>> + Send>>;

/// Messages for the thread.
enum ThreadSender {
    Bytes(UnboundedSender<Vec<u8>>, Arc<QuickWay>),
    Lookups(UnboundedSender<HashLookup>),
}

/// Fast path of bytes from a worker to the socket without a thread switch, while nothing else is queued.
#[derive(Default)]
struct QuickWay {
    /// The socket; set once connected, unless TLS is in between.
    socket: OnceLock<Arc<TcpStream>>,
    /// Number of messages that the thread has to write first.
    unwritten: AtomicUsize,
}

impl QuickWay {
    /// Writes as many bytes as possible without blocking; returns their number.
    fn write(&self, bytes: &[u8]) -> usize {
        let is_free = self.unwritten.load(Ordering::Acquire) == 0;
        let socket = self.socket.get().filter(|_| is_free);
        socket.map_or(0, |socket| socket.try_write(bytes).unwrap_or(0))
    }
}

impl Connection {
    /// Starts connecting. The receiver is notified when the connection has ended, but not if it was dropped.
    pub(crate) fn open(
        receiver: &'static dyn Receiver,
        token: ConnectionToken,
        settings: RedisSettings,
    ) -> Option<Self> {
        let to = (receiver, token);
        let (unsent, carried): (_, Carried) = if settings.lookups.has_client {
            let (unsent, taken) = unbounded_channel();
            let carried = async move { pool::run(to, &settings, taken).await };
            (ThreadSender::Lookups(unsent), Box::pin(carried))
        } else {
            let (unsent, taken) = unbounded_channel();
            let way = Arc::<QuickWay>::default();
            let of_task = Arc::clone(&way);
            let carried = async move { run(to, &settings.servers, taken, &of_task).await };
            (ThreadSender::Bytes(unsent, way), Box::pin(carried))
        };
        let task = spawn(async move {
            if let Err(error) = carried.await {
                warn_once(format!("redis: {error}"));
            }
            receiver.on_redis((token, RedisEvent::Closed));
        })?;
        Some(Self { unsent, task })
    }

    /// Sends bytes, queueing them until connected. Returns false if the connection has ended. Calls must not overlap; the lock of
    /// the edge guarantees that.
    pub(crate) fn send(&self, bytes: &[u8]) -> bool {
        let ThreadSender::Bytes(unsent, way) = &self.unsent else {
            return false;
        };
        let written = way.write(bytes);
        match bytes.get(written..) {
            None | Some([]) => true,
            Some(rest) => {
                way.unwritten.fetch_add(1, Ordering::Release);
                unsent.send(rest.to_vec()).is_ok()
            }
        }
    }

    /// Sends a lookup, queueing it until connected. Returns false if the connection has ended.
    pub(crate) fn look_up(&self, lookup: HashLookup) -> bool {
        let ThreadSender::Lookups(unsent) = &self.unsent else {
            return false;
        };
        unsent.send(lookup).is_ok()
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The transport of a connection.
enum Wire {
    Plain(TcpStream),
    Encrypted(Box<TlsStream<TcpStream>>),
}

async fn run(
    (receiver, token): (&'static dyn Receiver, ConnectionToken),
    servers: &Servers,
    mut unsent: UnboundedReceiver<Vec<u8>>,
    way: &QuickWay,
) -> io::Result<()> {
    let (wire, place) = connect(servers).await?;
    let mut wire = match wire {
        Wire::Plain(socket) => {
            return run_plain((receiver, token), (socket, place), unsent, way).await;
        }
        Wire::Encrypted(wire) => wire,
    };
    let mut bytes = Vec::with_capacity(CHUNK);
    loop {
        tokio::select! {
            read = wire.read_buf(&mut bytes) => {
                if read? == 0 || !hand_over((receiver, token), &mut bytes, place) {
                    return Ok(());
                }
            }
            sent = unsent.recv() => {
                let Some((sent, _)) = gather(sent, &mut unsent) else {
                    return Ok(());
                };
                wire.write_all(&sent).await?;
                wire.flush().await?;
            }
        }
    }
}

async fn run_plain(
    (receiver, token): (&'static dyn Receiver, ConnectionToken),
    (socket, place): (TcpStream, usize),
    mut unsent: UnboundedReceiver<Vec<u8>>,
    way: &QuickWay,
) -> io::Result<()> {
    let socket = Arc::new(socket);
    let socket = way.socket.get_or_init(|| socket);
    let mut bytes = Vec::with_capacity(CHUNK);
    loop {
        tokio::select! {
            ready = socket.readable() => {
                ready?;
                match socket.try_read_buf(&mut bytes) {
                    Ok(0) => return Ok(()),
                    Ok(_) => {
                        if !hand_over((receiver, token), &mut bytes, place) {
                            return Ok(());
                        }
                    }
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    Err(error) => return Err(error),
                }
            }
            sent = unsent.recv() => {
                let Some((sent, count)) = gather(sent, &mut unsent) else {
                    return Ok(());
                };
                write_all(socket, &sent).await?;
                way.unwritten.fetch_sub(count, Ordering::Release);
            }
        }
    }
}

/// Passes received bytes to the edge. Returns false to end the connection.
fn hand_over(
    (receiver, token): (&'static dyn Receiver, ConnectionToken),
    bytes: &mut Vec<u8>,
    place: usize,
) -> bool {
    keep_to(place);
    let goes_on = receiver.on_redis((token, RedisEvent::Data(bytes)));
    bytes.clear();
    goes_on
}

/// Coalesces the messages queued in the meantime. Returns the bytes and the number of messages; `None` when the edge is done.
fn gather(
    first: Option<Vec<u8>>,
    unsent: &mut UnboundedReceiver<Vec<u8>>,
) -> Option<(Vec<u8>, usize)> {
    let (mut bytes, mut count) = (first?, 1);
    while let Ok(more) = unsent.try_recv() {
        bytes.extend_from_slice(&more);
        count += 1;
    }
    Some((bytes, count))
}

async fn write_all(socket: &TcpStream, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        socket.writable().await?;
        match socket.try_write(bytes) {
            Ok(written) => bytes = bytes.get(written..).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Index of the server that is tried next.
static NEXT: AtomicUsize = AtomicUsize::new(0);

/// Connects to the next server, and logs in if the password is in a file. Returns the index of the server too: [`keep_to`] makes
/// it the first one tried next time; otherwise the following one is, even if this attempt is aborted.
async fn connect(servers: &Servers) -> io::Result<(Wire, usize)> {
    let count = servers.addresses.len().max(1);
    let place = NEXT.fetch_add(1, Ordering::Relaxed) % count;
    let address = servers.addresses.get(place).map(String::as_str);
    let address = address.unwrap_or_default();
    let wire = connect_to(address, servers).await;
    let wire = wire.map_err(|error| io::Error::new(error.kind(), format!("{address}: {error}")))?;
    Ok((wire, place))
}

/// Keeps a server that has answered as the first one to try.
fn keep_to(place: usize) {
    NEXT.store(place, Ordering::Relaxed);
}

async fn connect_to(address: &str, servers: &Servers) -> io::Result<Wire> {
    let mut stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let Some(tls) = &servers.tls else {
        log_in(&mut stream, servers).await?;
        return Ok(Wire::Plain(stream));
    };
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    let name = tls.server_name.as_deref().unwrap_or(host).to_owned();
    let name = ServerName::try_from(name).map_err(io::Error::other)?;
    let config = client_config(tls).map_err(|wrong| io::Error::other(wrong.reason))?;
    let connector = TlsConnector::from(Arc::new(config));
    let mut stream = connector.connect(name, stream).await?;
    log_in(&mut stream, servers).await?;
    Ok(Wire::Encrypted(Box::new(stream)))
}

/// Sends `AUTH`, before anything else, if the password is in a file.
async fn log_in(
    wire: &mut (impl AsyncRead + AsyncWrite + Unpin),
    servers: &Servers,
) -> io::Result<()> {
    let Some(file) = &servers.password_file else {
        return Ok(());
    };
    let password = std::fs::read_to_string(file)
        .map_err(|error| io::Error::new(error.kind(), format!("{file}: {error}")))?;
    let mut command = Vec::new();
    let (user, password) = (servers.user.as_deref(), password.trim_end());
    edgelink_filter_core::resp::write_auth(user, password, &mut command);
    wire.write_all(&command).await?;
    wire.flush().await?;
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n") && answer.len() < 1_024 {
        answer.push(wire.read_u8().await?);
    }
    match answer.as_slice() {
        b"+OK\r\n" => Ok(()),
        answer => {
            let answer = String::from_utf8_lossy(answer);
            Err(io::Error::other(format!("AUTH: {}", answer.trim_end())))
        }
    }
}
