//! The servers: the addresses that the configured names have, and the choice among them.

use super::Log;
use super::connection::{ConnectionHandle, connect};
use super::server::{KnownServer, Reachability, RequestLane};
use edgelink_filter_core::settings::{ControlPlane, ControlPlaneServers, ServerAddress};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

/// Maximum number of servers of one name; further addresses are ignored.
const MAX_ADDRESSES: usize = 64;

/// Least time between two resolutions of the names.
const MIN_RESOLVE_PERIOD: Duration = Duration::from_millis(500);

/// Shortest time without an answer after which a connection is suspected.
const MIN_SILENCE: Duration = Duration::from_millis(20);

/// Part of the timeout of a callout after which an answer is missed.
const SILENCE_PART: u32 = 5;

/// Looks a name up.
pub(super) type Resolve = Box<dyn Fn(String, u16) -> Resolving + Send + Sync>;

type Resolving = Pin<Box<dyn Future<Output = io::Result<Vec<SocketAddr>>> + Send>>;

/// Looks a name up as the system does.
pub(super) fn look_up(host: String, port: u16) -> Resolving {
    Box::pin(async move { Ok(tokio::net::lookup_host((host, port)).await?.collect()) })
}

/// There is no server that could be asked now.
pub(super) struct Unavailable;

/// All servers.
pub(super) struct KnownServers {
    settings: ControlPlaneServers,
    /// The time after which an answer is missed.
    silence: Duration,
    resolve: Resolve,
    log: Log,
    ranks: RandomState,
    names: Mutex<Names>,
    /// Changes with the state of any server.
    changes: watch::Sender<()>,
}

/// The servers by the last resolution.
#[derive(Default)]
struct Names {
    servers: Vec<Arc<KnownServer>>,
    is_resolving: bool,
    resolved_at: Option<Instant>,
    /// True after a failure to connect: addresses may have changed.
    are_doubtful: bool,
}

enum ServerChoice {
    Use(Arc<KnownServer>, ConnectionHandle),
    Wait,
    Unavailable,
}

impl KnownServers {
    pub(super) fn new(settings: &ControlPlane, log: Log, resolve: Resolve) -> Arc<Self> {
        let timeout = Duration::from_millis(settings.timeout_millis.into());
        Arc::new(Self {
            settings: settings.servers.clone(),
            silence: (timeout / SILENCE_PART).max(MIN_SILENCE),
            resolve,
            log,
            ranks: RandomState::new(),
            names: Mutex::default(),
            changes: watch::Sender::new(()),
        })
    }

    fn names(&self) -> MutexGuard<'_, Names> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The best server with a connection. It is waited for while there is none; a further one is tried when the first takes long.
    pub(super) async fn connected(
        self: &Arc<Self>,
        lane: RequestLane,
        tried: &[SocketAddr],
    ) -> Result<(Arc<KnownServer>, ConnectionHandle), Unavailable> {
        let mut changes = self.changes.subscribe();
        let mut is_late = false;
        loop {
            changes.mark_unchanged();
            match self.choose((lane, tried), is_late) {
                ServerChoice::Use(server, connection) => return Ok((server, connection)),
                ServerChoice::Unavailable => return Err(Unavailable),
                ServerChoice::Wait => {
                    is_late = timeout(self.silence, changes.changed()).await.is_err();
                }
            }
        }
    }

    fn choose(
        self: &Arc<Self>,
        (lane, tried): (RequestLane, &[SocketAddr]),
        is_late: bool,
    ) -> ServerChoice {
        self.keep_resolved();
        let names = self.names();
        let mut servers: Vec<_> = names
            .servers
            .iter()
            .map(|server| (server.fitness(lane, tried), server, server.reach()))
            .collect();
        servers.sort_unstable_by_key(|(fitness, ..)| *fitness);
        let connected = servers
            .iter()
            .find_map(|(fitness, server, reach)| match reach {
                Reachability::Connected(connection) => Some((fitness, *server, connection)),
                _ => None,
            });
        let use_it = |server: &Arc<KnownServer>, connection: &ConnectionHandle| {
            ServerChoice::Use(Arc::clone(server), connection.clone())
        };
        if let Some((fitness, server, connection)) = connected
            && fitness.is_good()
        {
            // The best one is connected to meanwhile, so that an edge returns to it.
            let best = servers
                .iter()
                .find(|(.., reach)| !matches!(reach, Reachability::Unreachable));
            if let Some((_, best, Reachability::Startable)) = best {
                self.start(best);
            }
            return use_it(server, connection);
        }
        // Beside a connection to a worse one, only good ones are worth waiting for.
        let mut others = servers
            .iter()
            .filter(|(fitness, ..)| connected.is_none() || fitness.is_good());
        let mut is_awaited = others
            .clone()
            .any(|(.., reach)| matches!(reach, Reachability::Connecting));
        let mut is_late = is_late;
        if (!is_awaited || is_late)
            && let Some((_, server, _)) =
                others.find(|(.., reach)| matches!(reach, Reachability::Startable))
        {
            self.start(server);
            (is_awaited, is_late) = (true, false);
        }
        match connected {
            _ if is_awaited && !is_late => ServerChoice::Wait,
            Some((_, server, connection)) => use_it(server, connection),
            None if is_awaited => ServerChoice::Wait,
            None if servers.is_empty() && names.is_resolving => ServerChoice::Wait,
            None => ServerChoice::Unavailable,
        }
    }

    /// Connects to a server, and keeps the connection until it ends.
    fn start(self: &Arc<Self>, server: &Arc<KnownServer>) {
        server.on_connecting();
        let (servers, weak) = (Arc::downgrade(self), Arc::downgrade(server));
        let (host, address) = (server.host().clone(), server.address());
        let (tls, silence) = (self.settings.tls.clone(), self.silence);
        let limit = Duration::from_millis(self.settings.connect_timeout_millis);
        tokio::spawn(async move {
            let connecting = connect((&host, address), tls.as_ref(), silence);
            let connected = timeout(limit, Box::pin(connecting)).await;
            let late = |_| Err(io::ErrorKind::TimedOut.into());
            let (connection, driven) = match connected.unwrap_or_else(late) {
                Ok(connected) => connected,
                Err(error) => {
                    let what =
                        format!("cannot connect: {error}; it is tried again, and others are asked");
                    on_event((&servers, &weak), Some(&what), |server| {
                        server.on_connected(None);
                    });
                    return;
                }
            };
            // A handle here would keep the connection for ever.
            let id = connection.id();
            on_event((&servers, &weak), None, |server| {
                server.on_connected(Some(connection));
            });
            let broken = driven.await.err();
            let what =
                broken.map(|error| format!("the connection broke: {error}; it is made again"));
            on_event((&servers, &weak), what.as_deref(), |server| {
                server.on_disconnected(&id);
            });
        });
    }

    /// A connection takes no further requests.
    pub(super) fn on_broken(&self, server: &KnownServer, connection: &ConnectionHandle) {
        server.on_disconnected(&connection.id());
        self.changes.send_replace(());
    }

    /// Resolves the names, if it is time.
    fn keep_resolved(self: &Arc<Self>) {
        let mut names = self.names();
        let period = if names.are_doubtful || names.servers.is_empty() {
            MIN_RESOLVE_PERIOD
        } else {
            Duration::from_secs(self.settings.resolve_seconds)
        };
        let is_due = names.resolved_at.is_none_or(|at| at.elapsed() >= period);
        if names.is_resolving || !is_due {
            return;
        }
        names.is_resolving = true;
        drop(names);
        let resolving: Vec<_> = self
            .settings
            .addresses
            .iter()
            .map(|host| (host.clone(), (self.resolve)(host.host.clone(), host.port)))
            .collect();
        let weak = Arc::downgrade(self);
        tokio::spawn(async move {
            for (host, resolving) in resolving {
                let resolved = resolving.await;
                let Some(servers) = weak.upgrade() else {
                    return;
                };
                servers.on_resolved(&host, resolved);
            }
            if let Some(servers) = weak.upgrade() {
                let mut names = servers.names();
                names.is_resolving = false;
                names.are_doubtful = false;
                names.resolved_at = Some(Instant::now());
                drop(names);
                servers.changes.send_replace(());
            }
        });
    }

    /// Takes the addresses of a host over; after a failure, it keeps the ones that it had.
    fn on_resolved(&self, host: &ServerAddress, resolved: io::Result<Vec<SocketAddr>>) {
        let mut addresses = match resolved {
            Ok(addresses) => addresses,
            Err(error) => {
                let ServerAddress { host, port, .. } = host;
                (self.log)(&format!(
                    "controlPlane.servers: {host}:{port} cannot be resolved: {error}; known addresses are kept, and it is tried again"
                ));
                return;
            }
        };
        addresses.truncate(MAX_ADDRESSES);
        let mut names = self.names();
        names
            .servers
            .retain(|server| server.host() != host || addresses.contains(&server.address()));
        for address in addresses {
            if names
                .servers
                .iter()
                .all(|server| server.address() != address)
            {
                let rank = self.ranks.hash_one(address);
                let server =
                    KnownServer::new(host.clone(), address, (rank, self.settings.max_streams));
                names.servers.push(Arc::new(server));
            }
        }
        drop(names);
        self.changes.send_replace(());
    }
}

/// Something has happened to a server. Both may have been dropped meanwhile.
fn on_event(
    (servers, server): (&Weak<KnownServers>, &Weak<KnownServer>),
    failure: Option<&str>,
    act: impl FnOnce(&KnownServer),
) {
    let Some(server) = server.upgrade() else {
        return;
    };
    act(&server);
    let Some(servers) = servers.upgrade() else {
        return;
    };
    if let Some(failure) = failure {
        servers.names().are_doubtful = true;
        if let Some(message) = server.message(failure) {
            (servers.log)(&message);
        }
    }
    servers.changes.send_replace(());
}
