//! The clients: writers, each with its own links, and followers.

pub(super) mod crowd;
mod domains;
mod follower;
mod hosts;
mod limited;
mod link;
mod tenants;
mod writer;

pub(super) use domains::codes as domains;
pub(super) use link::read_back;

use super::Pressure;
use super::deployment::{CONTROL_PLANES, DisturbedDeployment, ENVOYS};
use super::history::{
    Ask, CLOSED, History, Host, Micros, OperationOutcome, PICK, Purpose, Value, Via, What,
};
use crate::scenario::{Answer, DOMAIN, Request};
use crate::stack::Connection;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::collections::VecDeque;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::timeout;

const WRITERS: u64 = 6;
/// Aliases of each.
const ALIASES: u64 = 36;
const FOLLOWERS_OF_AN_ENVOY: usize = 3;
/// Number of recently changed codes to remember.
const RECENT: usize = 24;
/// Longer than all timeouts and faults that may delay a request together.
const LINGER: Duration = Duration::from_secs(75);
/// Tries of an operation that is refused for a transient reason.
const TRIES: u32 = 60;
/// Longest time to wait for an answer.
const LIMIT: Duration = Duration::from_secs(10);
/// A path that no link has.
const UNKNOWN: &str = "/no-such-link";
/// A host that no domain has.
const UNKNOWN_HOST: &str = "nowhere.nemesis.example";
const TARGET: &str = "https://example.com/v/";

/// All codes in use.
#[derive(Debug, Default)]
pub(super) struct Codes {
    all: RwLock<Vec<String>>,
    recent: Mutex<VecDeque<String>>,
}

impl Codes {
    fn add(&self, code: &str) {
        let mut all = self.all.write().unwrap_or_else(PoisonError::into_inner);
        all.push(code.to_owned());
    }

    fn touch(&self, code: &str) {
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        recent.push_back(code.to_owned());
        if recent.len() > RECENT {
            recent.pop_front();
        }
    }

    pub(super) fn all(&self) -> Vec<String> {
        let all = self.all.read().unwrap_or_else(PoisonError::into_inner);
        all.clone()
    }

    /// Picks a recently changed code, or any one.
    fn pick(&self, rng: &mut StdRng) -> Option<String> {
        let recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        if rng.random_bool(0.45) && !recent.is_empty() {
            return recent.get(rng.random_range(0..recent.len())).cloned();
        }
        drop(recent);
        let all = self.all.read().unwrap_or_else(PoisonError::into_inner);
        // The aliases come first; most of the generated codes behind them belong to links that were deleted.
        let aliases = usize::try_from(WRITERS * ALIASES).unwrap_or(usize::MAX);
        let aliases = aliases + hosts::codes().count();
        let count = if rng.random_bool(0.7) {
            aliases.min(all.len())
        } else {
            all.len()
        };
        let index = rng.random_range(0..count.max(1));
        all.get(index).cloned()
    }
}

/// State shared by all clients.
pub(super) struct ClientContext {
    pub(super) deployment: Arc<DisturbedDeployment>,
    pub(super) history: Arc<History>,
    pub(super) codes: Codes,
    limited: limited::LimitedCodes,
    pressure: Pressure,
    is_over: AtomicBool,
}

impl ClientContext {
    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// Draws whether a client takes an action that only runs under load include.
    fn presses(&self, rng: &mut StdRng, often: f64) -> bool {
        self.pressure == Pressure::With && rng.random_bool(often)
    }

    fn address(&self, via: Via) -> Option<SocketAddr> {
        match via {
            Via::Envoy(number) => Some(self.deployment.envoy(number)),
            Via::ControlPlane(number) => Some(self.deployment.control_plane(number)),
            Via::Stray => self.deployment.stray(),
        }
    }
}

/// All running clients.
pub(super) struct Clients {
    pub(super) shared: Arc<ClientContext>,
    tasks: JoinSet<()>,
}

impl Clients {
    /// Starts them.
    pub(super) fn start(
        deployment: &Arc<DisturbedDeployment>,
        history: &Arc<History>,
        (seed, pressure): (u64, Pressure),
    ) -> Self {
        let shared = Arc::new(ClientContext {
            deployment: deployment.clone(),
            history: history.clone(),
            codes: Codes::default(),
            limited: limited::LimitedCodes::default(),
            pressure,
            is_over: AtomicBool::new(false),
        });
        let mut rng = StdRng::seed_from_u64(seed);
        let mut tasks = JoinSet::new();
        for number in 0..WRITERS {
            let writer = writer::Writer::new(&shared, number, StdRng::seed_from_u64(rng.random()));
            tasks.spawn(writer.run());
        }
        let edges = (0..ENVOYS).flat_map(|number| [Via::Envoy(number); FOLLOWERS_OF_AN_ENVOY]);
        let control_planes = (0..CONTROL_PLANES).map(Via::ControlPlane);
        for via in edges.chain(control_planes).chain([Via::Stray]) {
            let rng = StdRng::seed_from_u64(rng.random());
            tasks.spawn(follower::Follower::new(&shared, via, rng).run());
        }
        let rng_of = |rng: &mut StdRng| StdRng::seed_from_u64(rng.random());
        let limiter = limited::Limiter::new(&shared, rng_of(&mut rng));
        tasks.spawn(limiter.run());
        let domains = domains::DomainWriter::new(&shared, rng_of(&mut rng));
        tasks.spawn(domains.run());
        let control_planes = (0..CONTROL_PLANES).map(Via::ControlPlane);
        for via in (0..ENVOYS).map(Via::Envoy).chain(control_planes) {
            tasks.spawn(limited::visit(shared.clone(), via, rng_of(&mut rng)));
            tasks.spawn(domains::visit(shared.clone(), via, rng_of(&mut rng)));
        }
        if pressure == Pressure::With {
            let writer = writer::Writer::of_hosts(&shared, rng_of(&mut rng));
            tasks.spawn(writer.run());
            tasks.spawn(tenants::make(shared.clone()));
            tasks.spawn(tenants::watch(shared.clone()));
        }
        Self { shared, tasks }
    }

    /// Asks them to end, waits until they have, and returns their shared state.
    ///
    /// # Panics
    /// Panics if one of them did.
    pub(super) async fn finish(mut self) -> Arc<ClientContext> {
        self.shared.is_over.store(true, Ordering::Relaxed);
        while let Some(ended) = self.tasks.join_next().await {
            ended.expect("a client that ends well");
        }
        self.shared
    }
}

/// Reason why there is no answer.
#[derive(Debug, PartialEq, Eq)]
enum AskError {
    /// The connection was kept open from an earlier request, and the other side closed it. It may do so at any time, so
    /// this does not show whether it answers.
    Closed(String),
    /// Any other failure.
    Failed(String),
}

impl AskError {
    /// Meaning of an error on a connection opened for this request.
    fn when_opened(kind: ErrorKind) -> Self {
        Self::Failed(kind.to_string())
    }

    /// Meaning of an error on a kept connection.
    fn when_kept(kind: ErrorKind) -> Self {
        match kind {
            ErrorKind::UnexpectedEof
            | ErrorKind::ConnectionReset
            | ErrorKind::ConnectionAborted
            | ErrorKind::BrokenPipe => Self::Closed(kind.to_string()),
            _ => Self::Failed(kind.to_string()),
        }
    }
}

/// A connection to one part, opened when it is needed.
pub(super) struct Client {
    via: Via,
    connection: Option<Connection>,
}

impl Client {
    pub(super) fn new(via: Via) -> Self {
        Self {
            via,
            connection: None,
        }
    }

    /// Returns a client of each control plane.
    fn of_control_planes() -> Vec<Self> {
        let numbers = 0..CONTROL_PLANES;
        numbers
            .map(|number| Self::new(Via::ControlPlane(number)))
            .collect()
    }

    /// Requests a write, and records the attempt in the history; returns when it began, and the answer or why there was
    /// none.
    async fn attempt(
        &mut self,
        shared: &ClientContext,
        op: u64,
        request: &Request,
        body: &[u8],
    ) -> (Micros, Result<Answer, AskError>) {
        let since = shared.history.now();
        let answer = self.ask(shared, request, body).await;
        shared.history.add(What::Attempt {
            op,
            since,
            via: self.via,
            end: end_of(&answer),
        });
        (since, answer)
    }

    /// Sends the request; returns the answer, or why there was none.
    async fn ask(
        &mut self,
        shared: &ClientContext,
        request: &Request,
        body: &[u8],
    ) -> Result<Answer, AskError> {
        let failed = |why: &str| AskError::Failed(why.to_owned());
        let address = shared.address(self.via);
        let address = address.ok_or_else(|| failed("is not up"))?;
        let connection = self.connection.take();
        let why = match connection {
            Some(_) => AskError::when_kept,
            None => AskError::when_opened,
        };
        let exchange = async {
            let mut connection = match connection {
                Some(connection) => connection,
                None => Connection::open(address).await?,
            };
            let answer = connection.exchange(request, body).await?;
            std::io::Result::Ok((connection, answer))
        };
        let (connection, answer) = timeout(LIMIT, exchange)
            .await
            .map_err(|_| failed("timed out"))?
            .map_err(|error| why(error.kind()))?;
        if answer.header("connection") != Some("close") {
            self.connection = Some(connection);
        }
        Ok(answer)
    }

    /// Opens the connection.
    pub(super) async fn connect(&mut self, shared: &ClientContext) {
        if let Some(address) = shared.address(self.via) {
            self.connection = Connection::open(address).await.ok();
        }
    }

    /// Follows a code as a visitor and records the outcome. A kept connection may be closed at any time, which is not a
    /// failure to answer: the visitor tries again.
    ///
    /// With `picks` the visitor meets the condition of a rule.
    pub(super) async fn follow(&mut self, shared: &ClientContext, code: &str, picks: bool) {
        self.follow_under(shared, code, picks, Host::Own).await;
    }

    /// Follows a code under a host.
    async fn follow_under(&mut self, shared: &ClientContext, code: &str, picks: bool, host: Host) {
        let (code, via) = (code.to_owned(), self.via);
        let ask = Ask::Follow {
            code,
            via,
            picks,
            host,
        };
        if self.request_link(shared, ask.clone()).await {
            self.request_link(shared, ask).await;
        }
    }

    /// Visits a link that has a limit, once.
    async fn visit(&mut self, shared: &ClientContext, code: &str, purpose: Purpose) {
        let (code, via) = (code.to_owned(), self.via);
        let ask = Ask::Visit { code, via, purpose };
        self.request_link(shared, ask).await;
    }

    /// Requests a link as `ask` says; true if there is no answer because a kept connection was closed.
    async fn request_link(&mut self, shared: &ClientContext, ask: Ask) -> bool {
        let (request, query) = request_of(&ask);
        let purpose = match &ask {
            Ask::Visit { purpose, .. } => *purpose,
            _ => Purpose::Click,
        };
        let op = shared.history.invoke(ask);
        let answer = self.ask(shared, &request, b"").await;
        let (outcome, is_closed) = match answer {
            Ok(answer) if is_put_off(&answer, purpose) => {
                let status = answer.status;
                (OperationOutcome::Unavailable { status }, false)
            }
            Ok(answer) => (followed(&answer, &query), false),
            Err(AskError::Closed(_)) => (OperationOutcome::Unknown, true),
            Err(AskError::Failed(error)) => (OperationOutcome::NoAnswer { error }, false),
        };
        shared.history.complete(op, outcome);
        is_closed
    }
}

/// Request of a visitor, and its query.
fn request_of(ask: &Ask) -> (Request, String) {
    let (code, picks, host) = match ask {
        Ask::Follow {
            code, picks, host, ..
        } => (code, *picks, *host),
        Ask::Visit { code, .. } => (code, false, Host::Own),
        _ => unreachable!("visitors follow and visit"),
    };
    let query = if picks {
        format!("?{PICK}")
    } else {
        String::new()
    };
    let (domain, path, query) = match code.split_once('/') {
        // A domain: its root, or an unknown path.
        Some((domain, "")) => {
            let path = if picks { UNKNOWN } else { "/" };
            (domain, path.to_owned(), String::new())
        }
        Some((domain, code)) => (domain, format!("/{code}{query}"), query),
        None => (DOMAIN, format!("/{code}{query}"), query),
    };
    let domain = match host {
        Host::Own => domain,
        Host::Unknown => UNKNOWN_HOST,
    };
    let request = Request::get(&path).header("host", domain.as_bytes());
    match ask {
        Ask::Visit {
            purpose: Purpose::Prefetch,
            ..
        } => (request.header("sec-purpose", b"prefetch"), query),
        _ => (request, query),
    }
}

/// Outcome of a request whose answer lacks the requested information.
fn failed(answer: Result<Answer, AskError>) -> OperationOutcome {
    match answer {
        Ok(answer) => OperationOutcome::Unavailable {
            status: answer.status,
        },
        Err(AskError::Closed(_)) => OperationOutcome::Unknown,
        Err(AskError::Failed(error)) => OperationOutcome::NoAnswer { error },
    }
}

/// End of an attempt to write, for the history.
fn end_of(answer: &Result<Answer, AskError>) -> String {
    match answer {
        Ok(answer) => answer.status.to_string(),
        Err(AskError::Closed(error)) => format!("{CLOSED} {error}"),
        Err(AskError::Failed(error)) => error.clone(),
    }
}

/// True if a prefetch is refused, by any status, until its visitor comes.
fn is_put_off(answer: &Answer, purpose: Purpose) -> bool {
    let is_said = matches!(answer.status, 404 | 410) || (300..400).contains(&answer.status);
    purpose == Purpose::Prefetch && !is_said
}

/// Outcome of a visit. The query is merged into the target.
fn followed(answer: &Answer, query: &str) -> OperationOutcome {
    let value = match answer.status {
        301 | 302 | 307 | 308 => {
            let target = answer.location().and_then(|to| to.strip_suffix(query));
            version(target).map(Value::Target)
        }
        404 => Some(Value::Absent),
        410 => Some(Value::Disabled),
        status @ (429 | 500..=599) => return OperationOutcome::Unavailable { status },
        _ => None,
    };
    let tier = answer.tier().map(str::to_owned);
    value.map_or_else(
        || OperationOutcome::Strange {
            answer: format!("{} {:?}", answer.status, answer.location()),
        },
        |value| OperationOutcome::Answer { value, tier },
    )
}

/// Number in a target.
pub(super) fn version(target: Option<&str>) -> Option<u64> {
    target?.strip_prefix(TARGET)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const BREAKS: [ErrorKind; 4] = [
        ErrorKind::UnexpectedEof,
        ErrorKind::ConnectionReset,
        ErrorKind::ConnectionAborted,
        ErrorKind::BrokenPipe,
    ];

    #[test]
    fn connection_when_kept_open_and_broken_is_closed() {
        for kind in BREAKS {
            let end = end_of(&Err(AskError::when_kept(kind)));
            assert_eq!(end, format!("499 {kind}"));
        }
        let refused = end_of(&Err(AskError::when_kept(ErrorKind::ConnectionRefused)));
        assert_eq!(refused, "connection refused");
    }

    #[test]
    fn connection_when_just_opened_and_broken_is_no_answer() {
        for kind in BREAKS {
            let end = end_of(&Err(AskError::when_opened(kind)));
            assert_eq!(end, kind.to_string());
            let error = kind.to_string();
            let outcome = failed(Err(AskError::when_opened(kind)));
            assert_eq!(outcome, OperationOutcome::NoAnswer { error });
        }
    }
}
