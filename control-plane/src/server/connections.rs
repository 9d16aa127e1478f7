//! Accepts connections, serves them, and closes them gracefully.

use super::handshake::{Handshake, PeerRole};
use super::requests::HttpServer;
use super::seat::Occupied;
use super::tls::{Protocols, Tls};
use axum::Router;
use edgelink_http::bounded::ListenerAdmission;
use edgelink_http::client_address::{PeerIp, network};
use edgelink_settings::admission::{Claim, Permit, Refusal};
use edgelink_settings::config::{Config, ListenerKind, Network};
use edgelink_settings::telemetry::LogThrottle;
use edgelink_settings::telemetry::prometheus::CONNECTIONS_REFUSED;
use futures_util::future::join_all;
use hyper_util::service::TowerToHyperService;
use metrics::counter;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, TcpStream};
use tokio_io_timeout::TimeoutStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower_http::add_extension::AddExtension;

/// Pause before accepting is retried when the system is out of sockets.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

/// Accepts connections of all listeners.
pub(super) struct Acceptor {
    doors: Vec<Door>,
    first_head: Duration,
    handshake: Duration,
    write_timeout: Duration,
    trusted_proxies: Vec<Network>,
    http: HttpServer,
    probe_http: HttpServer,
}

/// A listener and its service.
pub(super) struct Door {
    pub(super) listener: TcpListener,
    pub(super) kind: ListenerKind,
    pub(super) routers: Routers,
    pub(super) admission: ListenerAdmission,
    /// `None` without TLS.
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

/// The permit of an open connection.
enum Seat {
    /// Within `max_connections`; it gives way to others while no request is in flight.
    All(Arc<Occupied>),
    /// Beyond `max_connections`, for probes only.
    Health(Permit),
}

/// Connections that are still open.
pub(super) struct OpenConnections {
    tasks: TaskTracker,
    stop: CancellationToken,
    cut: CancellationToken,
}

impl Acceptor {
    pub(super) fn new(doors: Vec<Door>, config: &Config) -> Self {
        Self {
            doors,
            first_head: config.server.first_header_timeout_ms,
            handshake: config.tls.handshake_timeout_ms,
            write_timeout: config.server.write_timeout_ms,
            trusted_proxies: config.server.trusted_proxies.clone(),
            http: HttpServer::new(config),
            probe_http: HttpServer::for_probes(config),
        }
    }

    /// Accepts until `stop` completes, and then closes the listeners.
    pub(super) async fn serve(self, stop: impl Future<Output = ()>) -> OpenConnections {
        let connections = OpenConnections {
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

    async fn accept_all(&self, connections: &OpenConnections) {
        let doors = self.doors.iter();
        join_all(doors.map(|door| self.accept(door, connections))).await;
    }

    /// Accepts connections of a listener forever.
    async fn accept(&self, door: &Door, connections: &OpenConnections) {
        loop {
            match door.listener.accept().await {
                Ok((stream, peer)) => match seat(&door.admission, peer.ip()).await {
                    Ok(seat) => self.begin(door, (stream, PeerIp(peer.ip())), connections, seat),
                    Err(_) => report_refusal(door.kind, peer.ip()),
                },
                Err(error) => pause_unless_client_left(&error).await,
            }
        }
    }

    fn sender(&self, PeerIp(address): PeerIp) -> PeerRole {
        let mut proxies = self.trusted_proxies.iter();
        if proxies.any(|network| network.contains(address)) {
            PeerRole::Proxy
        } else {
            PeerRole::Client
        }
    }

    fn begin(
        &self,
        door: &Door,
        (stream, peer): (TcpStream, PeerIp),
        connections: &OpenConnections,
        seat: Seat,
    ) {
        // Without it small answers wait for the client's acknowledgement; a failure only delays them.
        let _ = stream.set_nodelay(true);
        let mut stream = TimeoutStream::new(stream);
        stream.set_write_timeout(Some(self.write_timeout));
        let (http, router, protocols) = match &seat {
            Seat::All(_) => (&self.http, &door.routers.all, Protocols::All),
            Seat::Health(_) => (&self.probe_http, &door.routers.health, Protocols::Http1),
        };
        let service = TowerToHyperService::new(AddExtension::new(router.clone(), peer));
        let handshake = door.tls.as_ref().map(|tls| Handshake {
            config: tls.current().of(door.kind, protocols),
            listener: door.kind,
            peer: peer.0,
            sender: self.sender(peer),
        });
        let (http, stop) = (http.clone(), connections.stop.clone());
        let first_head = match handshake {
            Some(_) => self.first_head + self.handshake,
            None => self.first_head,
        };
        connections.spawn(async move {
            match seat {
                Seat::All(seat) => {
                    let serving = http.serve(
                        Box::pin(stream),
                        (service, Some(seat.clone())),
                        handshake,
                        &stop,
                    );
                    seat.keep(serving, first_head).await;
                }
                Seat::Health(_permit) => {
                    http.serve(Box::pin(stream), (service, None), handshake, &stop)
                        .await;
                }
            }
        });
    }
}

/// Waits for a seat for a connection of an address: from an idle connection, one for probes, or one whose request ends.
async fn seat(admission: &ListenerAdmission, address: IpAddr) -> Result<Seat, Refusal> {
    let claim = Claim::of_address(network(address));
    let occupied = |permit| Seat::All(Arc::new(Occupied::new(permit)));
    match admission.connections.try_take_yielding(claim.clone(), 0) {
        Ok(permit) => return Ok(occupied(permit)),
        Err(refusal @ Refusal::Share(_)) => return Err(refusal),
        Err(_) => {}
    }
    let health = Claim::default();
    tokio::select! {
        biased;
        Ok(permit) = admission.connections.take_yielding(claim, far()) => Ok(occupied(permit)),
        Ok(permit) = admission.health.take(health, far()) => Ok(Seat::Health(permit)),
        else => Err(Refusal::Full("server.max_connections")),
    }
}

/// A deadline that no wait reaches.
fn far() -> tokio::time::Instant {
    tokio::time::Instant::now() + Duration::from_hours(24 * 365)
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

/// Pauses after a failure to accept, which means that the system is out of resources, unless the client has left.
async fn pause_unless_client_left(error: &io::Error) {
    let is_clients_fault = matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionRefused
    );
    if !is_clients_fault {
        tracing::error!(%error, "accepting a connection failed; retrying after a pause");
        tokio::time::sleep(ACCEPT_PAUSE).await;
    }
}

impl OpenConnections {
    fn spawn(&self, connection: impl Future<Output = ()> + Send + 'static) {
        let cut = self.cut.clone();
        self.tasks.spawn(async move {
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
                "connections closed during shutdown: their requests took too long"
            );
            self.cut.cancel();
            self.tasks.wait().await;
        }
    }
}
