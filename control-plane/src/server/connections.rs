//! Accepts connections, serves them, and closes them in order.

use super::addresses::{AddressCounts, CountedConnection};
use crate::config::ServerConfig;
use crate::http::client_address::Peer;
use crate::telemetry::LogThrottle;
use crate::telemetry::prometheus::CONNECTIONS_REFUSED;
use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use metrics::counter;
use std::io;
use std::net::IpAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};
use tokio_io_timeout::TimeoutStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower_http::add_extension::AddExtension;

/// The pause before accepting is retried when the system has no more sockets.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);
/// The largest head of a request in bytes; a longer one is answered 431.
const MAX_HEAD_BYTES: usize = 32_768;
/// The largest buffer of a connection in bytes.
const MAX_BUFFER_BYTES: usize = 65_536;

/// How long a client may take to send the head of a request in a connection that is for probes only.
const PROBE_HEADER_TIMEOUT: Duration = Duration::from_secs(2);

/// Accepts connections up to a bound, and some more for probes.
pub(super) struct Acceptor {
    listener: TcpListener,
    seats: Seats,
    addresses: Arc<AddressCounts>,
    write_timeout: Duration,
    http: http1::Builder,
    probe_http: http1::Builder,
}

/// The routers of the two kinds of connections.
#[derive(Clone)]
pub(super) struct Routers {
    /// For connections within `max_connections`.
    pub(super) all: Router,
    /// For further connections: probes and metrics only.
    pub(super) health: Router,
}

/// The connections that may still be opened.
struct Seats {
    all: Arc<Semaphore>,
    health: Arc<Semaphore>,
}

/// A permit for a connection, held until it is dropped.
struct Seat {
    kind: SeatKind,
    _permit: OwnedSemaphorePermit,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum SeatKind {
    All,
    Health,
}

impl Seats {
    /// Waits for a seat. The error never comes, since the semaphores are never closed.
    async fn wait(&self) -> Result<Seat, AcquireError> {
        tokio::select! {
            biased;
            permit = self.all.clone().acquire_owned() => Ok(SeatKind::All.with(permit?)),
            permit = self.health.clone().acquire_owned() => Ok(SeatKind::Health.with(permit?)),
        }
    }

    /// Exchanges a seat for probes for a full one if one has become free.
    fn improve(&self, seat: Seat) -> Seat {
        if seat.kind == SeatKind::All {
            return seat;
        }
        let permit = self.all.clone().try_acquire_owned();
        permit.map_or(seat, |permit| SeatKind::All.with(permit))
    }
}

impl SeatKind {
    fn with(self, permit: OwnedSemaphorePermit) -> Seat {
        Seat {
            kind: self,
            _permit: permit,
        }
    }
}

type HttpConnection = http1::Connection<
    TokioIo<Pin<Box<TimeoutStream<TcpStream>>>>,
    TowerToHyperService<AddExtension<Router, Peer>>,
>;

/// Connections that are still open.
pub(super) struct Connections {
    tasks: TaskTracker,
    stop: CancellationToken,
    cut: CancellationToken,
}

impl Acceptor {
    pub(super) fn new(listener: TcpListener, config: &ServerConfig) -> Self {
        let mut probe_http = http(config.header_timeout_ms.min(PROBE_HEADER_TIMEOUT));
        probe_http.keep_alive(false);
        Self {
            listener,
            seats: Seats {
                all: Arc::new(Semaphore::new(config.max_connections)),
                health: Arc::new(Semaphore::new(config.health_connections)),
            },
            addresses: AddressCounts::new(config.max_connections_per_address),
            write_timeout: config.write_timeout_ms,
            http: http(config.header_timeout_ms),
            probe_http,
        }
    }

    /// Accepts until `stop` is done, and closes the listener then.
    pub(super) async fn serve(
        self,
        routers: Routers,
        stop: impl Future<Output = ()>,
    ) -> Connections {
        let connections = Connections {
            tasks: TaskTracker::new(),
            stop: CancellationToken::new(),
            cut: CancellationToken::new(),
        };
        tokio::select! {
            () = self.accept_all(&routers, &connections) => {}
            () = stop => {}
        }
        connections
    }

    async fn accept_all(&self, routers: &Routers, connections: &Connections) {
        while let Ok(seat) = self.seats.wait().await {
            match self.listener.accept().await {
                Ok((stream, peer)) => match self.addresses.admit(peer.ip()) {
                    Some(counted) => {
                        let seat = self.seats.improve(seat);
                        let stream = (stream, Peer(peer.ip()));
                        self.begin(stream, routers, connections, (seat, counted));
                    }
                    None => report_refusal(peer.ip()),
                },
                Err(error) => pause_unless_client_left(&error).await,
            }
        }
    }

    fn begin(
        &self,
        (stream, peer): (TcpStream, Peer),
        routers: &Routers,
        connections: &Connections,
        place: (Seat, CountedConnection),
    ) {
        // Without it small answers wait for the client's acknowledgement; if it fails they only come later.
        let _ = stream.set_nodelay(true);
        let mut stream = TimeoutStream::new(stream);
        stream.set_write_timeout(Some(self.write_timeout));
        let (http, router) = match place.0.kind {
            SeatKind::All => (&self.http, &routers.all),
            SeatKind::Health => (&self.probe_http, &routers.health),
        };
        let service = TowerToHyperService::new(AddExtension::new(router.clone(), peer));
        let connection = http.serve_connection(TokioIo::new(Box::pin(stream)), service);
        connections.spawn(connection, place);
    }
}

fn http(header_timeout: Duration) -> http1::Builder {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(header_timeout)
        .max_header_size(MAX_HEAD_BYTES)
        .max_buf_size(MAX_BUFFER_BYTES);
    http
}

fn report_refusal(address: IpAddr) {
    static THROTTLE: LogThrottle = LogThrottle::new();
    counter!(CONNECTIONS_REFUSED).increment(1);
    if let Some(left_out) = THROTTLE.admit(Instant::now()) {
        tracing::warn!(
            %address,
            left_out,
            "connection closed: its address has server.max_connections_per_address"
        );
    }
}

/// Pauses after a failure to accept, unless the client has left: the system is short of something then.
async fn pause_unless_client_left(error: &io::Error) {
    let is_clients_fault = matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionRefused
    );
    if !is_clients_fault {
        tracing::error!(%error, "accepting a connection failed: it is retried after a pause");
        tokio::time::sleep(ACCEPT_PAUSE).await;
    }
}

impl Connections {
    fn spawn(&self, connection: HttpConnection, place: (Seat, CountedConnection)) {
        let (stop, cut) = (self.stop.clone(), self.cut.clone());
        self.tasks.spawn(async move {
            let _place = place;
            let mut connection = pin!(connection);
            let result = tokio::select! {
                result = connection.as_mut() => result,
                () = stop.cancelled() => {
                    connection.as_mut().graceful_shutdown();
                    tokio::select! {
                        result = connection => result,
                        () = cut.cancelled() => Ok(()),
                    }
                }
            };
            if let Err(error) = result {
                tracing::debug!(%error, "connection ended early");
            }
        });
    }

    /// Lets every request in flight end within `grace`, then closes the rest.
    pub(super) async fn finish(self, grace: Duration) {
        self.stop.cancel();
        self.tasks.close();
        if tokio::time::timeout(grace, self.tasks.wait())
            .await
            .is_err()
        {
            let count = self.tasks.len();
            tracing::warn!(
                count,
                "connections were cut off: their requests took too long"
            );
            self.cut.cancel();
            self.tasks.wait().await;
        }
    }
}
