//! A server: an address of a configured host, its connection, and its health.

use super::connection::{ConnectionHandle, ConnectionId};
use edgelink_filter_core::settings::ServerAddress;
use edgelink_wire::backoff::{Backoff, Bounds};
use http::uri::Scheme;
use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;

/// The pauses in which a server is avoided.
const PAUSES: Bounds = Bounds {
    first_millis: 50,
    cap_millis: 1_000,
};

/// Number of consecutive failures of requests from which on their server is avoided.
const MANY_FAILURES: u32 = 3;

/// The path of polls.
pub(super) const FEED_PATH: &str = "/edge/v1/feed";

/// A kind of requests whose health is separate: a server may answer lookups, and have a feed that is not current.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestLane {
    /// All but the feed.
    Requests,
    /// The feed, which takes no permits: it waits for changes.
    Feed,
}

impl RequestLane {
    pub(super) fn of(path: &str) -> Self {
        match path {
            FEED_PATH => Self::Feed,
            _ => Self::Requests,
        }
    }

    /// Number of consecutive failures from which on a server is avoided. A poll is to go elsewhere at once.
    fn bearable(self) -> u32 {
        match self {
            Self::Requests => MANY_FAILURES,
            Self::Feed => 1,
        }
    }
}

/// The pause after failures.
struct Pause {
    backoff: Backoff,
    until: Option<Instant>,
}

impl Pause {
    fn new(seed: u64) -> Self {
        Self {
            backoff: Backoff::new(PAUSES, seed),
            until: None,
        }
    }

    fn note(&mut self, is_failure: bool, bearable: u32) {
        if !is_failure {
            self.backoff.reset();
            self.until = None;
            return;
        }
        let pause = Duration::from_millis(self.backoff.next_millis());
        if self.backoff.failures() >= bearable {
            self.until = Instant::now().checked_add(pause);
        }
    }

    fn is_over(&self) -> bool {
        self.until.is_none_or(|until| until <= Instant::now())
    }
}

/// The connection of a server.
enum ServerConnection {
    None,
    Connecting,
    Connected(ConnectionHandle),
}

/// A server.
pub(super) struct KnownServer {
    host: ServerAddress,
    address: SocketAddr,
    /// Place among the servers, which is another one in each process, so that edges spread.
    rank: u64,
    permits: Semaphore,
    state: Mutex<ServerState>,
}

struct ServerState {
    connection: ServerConnection,
    connecting: Pause,
    requests: Pause,
    feed: Pause,
    /// True unless its connection has shown that it has no streams of the feed.
    has_streams: bool,
    last_message: String,
}

/// The fitness of a server for a request, the best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Fitness {
    /// True if it failed earlier attempts of the request.
    pub(super) was_tried: bool,
    /// True after failures.
    pub(super) is_avoided: bool,
    /// True while it has no permit for a request.
    is_full: bool,
    rank: u64,
}

impl Fitness {
    pub(super) fn is_good(self) -> bool {
        !self.was_tried && !self.is_avoided && !self.is_full
    }
}

/// The state of a server's connection.
pub(super) enum Reachability {
    Connected(ConnectionHandle),
    Connecting,
    /// It can be connected to now.
    Startable,
    /// Connecting has failed, and is not repeated yet.
    Unreachable,
}

impl KnownServer {
    pub(super) fn new(
        host: ServerAddress,
        address: SocketAddr,
        (rank, max_streams): (u64, usize),
    ) -> Self {
        let state = ServerState {
            connection: ServerConnection::None,
            connecting: Pause::new(rank),
            requests: Pause::new(rank),
            feed: Pause::new(rank),
            has_streams: true,
            last_message: String::new(),
        };
        Self {
            host,
            address,
            rank,
            permits: Semaphore::new(max_streams),
            state: Mutex::new(state),
        }
    }

    fn state(&self) -> MutexGuard<'_, ServerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(super) fn host(&self) -> &ServerAddress {
        &self.host
    }

    pub(super) fn scheme(&self) -> Scheme {
        if self.host.is_encrypted {
            Scheme::HTTPS
        } else {
            Scheme::HTTP
        }
    }

    /// Waits for permission to send a request; none is needed for the feed.
    pub(super) async fn permit(&self, lane: RequestLane) -> Option<SemaphorePermit<'_>> {
        match lane {
            RequestLane::Requests => self.permits.acquire().await.ok(),
            RequestLane::Feed => None,
        }
    }

    pub(super) fn fitness(&self, lane: RequestLane, tried: &[SocketAddr]) -> Fitness {
        let state = self.state();
        let (pause, is_full) = match lane {
            RequestLane::Requests => (&state.requests, self.permits.available_permits() == 0),
            RequestLane::Feed => (&state.feed, false),
        };
        Fitness {
            was_tried: tried.contains(&self.address),
            is_avoided: !pause.is_over(),
            is_full,
            rank: self.rank,
        }
    }

    pub(super) fn reach(&self) -> Reachability {
        let state = self.state();
        match &state.connection {
            ServerConnection::Connected(connection) => Reachability::Connected(connection.clone()),
            ServerConnection::Connecting => Reachability::Connecting,
            ServerConnection::None if state.connecting.is_over() => Reachability::Startable,
            ServerConnection::None => Reachability::Unreachable,
        }
    }

    pub(super) fn on_connecting(&self) {
        self.state().connection = ServerConnection::Connecting;
    }

    /// Connecting has ended; `None` without success.
    pub(super) fn on_connected(&self, connection: Option<ConnectionHandle>) {
        let mut state = self.state();
        state.connecting.note(connection.is_none(), 1);
        state.has_streams = true;
        state.connection = connection.map_or(ServerConnection::None, ServerConnection::Connected);
    }

    /// This connection takes no further requests.
    pub(super) fn on_disconnected(&self, ended: &ConnectionId) {
        let mut state = self.state();
        if matches!(&state.connection, ServerConnection::Connected(connection) if connection.id() == *ended)
        {
            state.connection = ServerConnection::None;
        }
    }

    pub(super) fn has_streams(&self) -> bool {
        self.state().has_streams
    }

    /// The server has no streams of the feed, as long as it is connected.
    pub(super) fn lacks_streams(&self) {
        self.state().has_streams = false;
    }

    /// Notes the end of a request.
    pub(super) fn note(&self, lane: RequestLane, is_failure: bool) {
        let mut state = self.state();
        let pause = match lane {
            RequestLane::Requests => &mut state.requests,
            RequestLane::Feed => &mut state.feed,
        };
        pause.note(is_failure, lane.bearable());
    }

    /// The line for the log about a failure; `None` if it was the last one.
    pub(super) fn message(&self, what: &str) -> Option<String> {
        let ServerAddress { host, port, .. } = &self.host;
        let message = format!("control plane {host}:{port} at {}: {what}", self.address);
        let mut state = self.state();
        if state.last_message == message {
            return None;
        }
        state.last_message.clone_from(&message);
        Some(message)
    }
}
