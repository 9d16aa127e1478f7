//! Accepts connections, serves them, and closes them in order.

use super::addresses::{AddressCounts, CountedConnection};
use super::handshake::{Handshake, Sender};
use super::requests::Http;
use super::tls::{Protocols, Tls};
use crate::config::{Config, ListenerKind, Network, ServerConfig};
use crate::http::client_address::Peer;
use crate::telemetry::LogThrottle;
use crate::telemetry::prometheus::CONNECTIONS_REFUSED;
use axum::Router;
use futures_util::future::join_all;
use hyper_util::service::TowerToHyperService;
use metrics::counter;
use std::io;
use std::net::IpAddr;
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

/// Accepts connections of all listeners.
pub(super) struct Acceptor {
    doors: Vec<(Door, Bounds)>,
    write_timeout: Duration,
    trusted_proxies: Vec<Network>,
    http: Http,
    probe_http: Http,
}

/// A listener, and what it serves.
pub(super) struct Door {
    pub(super) listener: TcpListener,
    pub(super) kind: ListenerKind,
    pub(super) routers: Routers,
    /// `None` if it takes no TLS.
    pub(super) tls: Option<Arc<Tls>>,
}

/// The routers of the two kinds of connections.
#[derive(Clone)]
pub(super) struct Routers {
    /// For connections within `max_connections`.
    pub(super) all: Router,
    /// For further connections: probes and metrics only.
    pub(super) health: Router,
}

/// The connections of a listener that may still be opened, with some more for probes. Each has its own, so that visitors shut out
/// neither edges nor people who look after the system.
struct Bounds {
    all: Arc<Semaphore>,
    health: Arc<Semaphore>,
    addresses: Arc<AddressCounts>,
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

impl Bounds {
    fn new(config: &ServerConfig) -> Self {
        Self {
            all: Arc::new(Semaphore::new(config.max_connections)),
            health: Arc::new(Semaphore::new(config.health_connections)),
            addresses: AddressCounts::new(config.max_connections_per_address),
        }
    }

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

/// Connections that are still open.
pub(super) struct Connections {
    tasks: TaskTracker,
    stop: CancellationToken,
    cut: CancellationToken,
}

impl Acceptor {
    pub(super) fn new(doors: Vec<Door>, config: &Config) -> Self {
        let bounded = |door| (door, Bounds::new(&config.server));
        Self {
            doors: doors.into_iter().map(bounded).collect(),
            write_timeout: config.server.write_timeout_ms,
            trusted_proxies: config.server.trusted_proxies.clone(),
            http: Http::new(config),
            probe_http: Http::for_probes(config),
        }
    }

    /// Accepts until `stop` is done, and closes the listeners then.
    pub(super) async fn serve(self, stop: impl Future<Output = ()>) -> Connections {
        let connections = Connections {
            tasks: TaskTracker::new(),
            stop: CancellationToken::new(),
            cut: CancellationToken::new(),
        };
        tokio::select! {
            () = self.accept_all(&connections) => {}
            () = stop => {}
        }
        connections
    }

    async fn accept_all(&self, connections: &Connections) {
        let doors = self.doors.iter();
        join_all(doors.map(|(door, bounds)| self.accept(door, bounds, connections))).await;
    }

    /// Accepts connections of a listener for ever.
    async fn accept(&self, door: &Door, bounds: &Bounds, connections: &Connections) {
        while let Ok(seat) = bounds.wait().await {
            match door.listener.accept().await {
                Ok((stream, peer)) => match bounds.addresses.admit(peer.ip()) {
                    Some(counted) => {
                        let place = (bounds.improve(seat), counted);
                        self.begin(door, (stream, Peer(peer.ip())), connections, place);
                    }
                    None => report_refusal(door.kind, peer.ip()),
                },
                Err(error) => pause_unless_client_left(&error).await,
            }
        }
    }

    fn sender(&self, Peer(address): Peer) -> Sender {
        let mut proxies = self.trusted_proxies.iter();
        match proxies.any(|network| network.contains(address)) {
            true => Sender::Proxy,
            false => Sender::Client,
        }
    }

    fn begin(
        &self,
        door: &Door,
        (stream, peer): (TcpStream, Peer),
        connections: &Connections,
        place: (Seat, CountedConnection),
    ) {
        // Without it small answers wait for the client's acknowledgement; if it fails they only come later.
        let _ = stream.set_nodelay(true);
        let mut stream = TimeoutStream::new(stream);
        stream.set_write_timeout(Some(self.write_timeout));
        let (http, router, protocols) = match place.0.kind {
            SeatKind::All => (&self.http, &door.routers.all, Protocols::All),
            SeatKind::Health => (&self.probe_http, &door.routers.health, Protocols::Http1),
        };
        let service = TowerToHyperService::new(AddExtension::new(router.clone(), peer));
        let handshake = door.tls.as_ref().map(|tls| Handshake {
            config: tls.current().of(door.kind, protocols),
            listener: door.kind,
            peer: peer.0,
            sender: self.sender(peer),
        });
        let (http, stop) = (http.clone(), connections.stop.clone());
        connections.spawn(place, async move {
            http.serve(Box::pin(stream), service, handshake, &stop)
                .await;
        });
    }
}

fn report_refusal(listener: ListenerKind, address: IpAddr) {
    static THROTTLE: LogThrottle = LogThrottle::new();
    counter!(CONNECTIONS_REFUSED).increment(1);
    if let Some(left_out) = THROTTLE.admit(Instant::now()) {
        tracing::warn!(
            listener = listener.word(),
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
    fn spawn(
        &self,
        place: (Seat, CountedConnection),
        connection: impl Future<Output = ()> + Send + 'static,
    ) {
        let cut = self.cut.clone();
        self.tasks.spawn(async move {
            let _place = place;
            cut.run_until_cancelled(connection).await;
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
