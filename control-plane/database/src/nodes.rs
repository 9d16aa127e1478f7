//! The servers that `store.url` names, of which a process uses one at a time: the nodes of a Galera cluster, or a primary and
//! its replicas, which may be promoted.
//!
//! The one in use is kept as long as it takes writes. A failure that may mean its loss makes the next call query all of them; they are
//! also queried periodically, so that the processes of one cluster return to the same node.

mod standing;

pub(super) use self::standing::is_galera;
pub use self::standing::{Known, ServerStatus, Silence, Standing, are_apart};

use self::standing::{Choice, Prefer, ask, choose, is_standing};
use sqlx::mysql::{MySqlConnectOptions, MySqlPool};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex as StdMutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Mutex;
use tokio::task::JoinSet;

/// Divisor of `store.timeout_ms` for the time in which servers must answer while a call waits.
const SHARE_OF_TIMEOUT: u32 = 3;

/// Time for which calls continue to use the current server after no better one was found.
const UNDECIDED_PAUSE: Duration = Duration::from_secs(1);

/// The database servers.
#[derive(Debug)]
pub struct Nodes {
    servers: Vec<MySqlConnectOptions>,
    times: NodeTimes,
    /// True if the one in use is to be queried before the next call.
    is_suspected: AtomicBool,
    choosing: Mutex<()>,
    /// Number of times they were queried.
    rounds: AtomicU64,
    state: StdMutex<NodeState>,
}

/// Timeout and period of queries.
#[derive(Clone, Copy, Debug)]
pub(super) struct NodeTimes {
    /// `store.timeout_ms`.
    pub(super) timeout: Duration,
    /// Interval between queries of all servers.
    pub(super) period: Duration,
}

/// The server in use, and the state of its choice.
#[derive(Debug)]
struct NodeState {
    /// Its index; `None` before the first choice.
    used: Option<usize>,
    /// The time at which it replaced another one.
    since: Option<Instant>,
    /// For each server, true if it once refused writes.
    was_replica: Vec<bool>,
    /// Time until which none is queried, as the last answers were inconclusive.
    quiet_until: Option<Instant>,
    /// Time of the next query of all servers.
    next_check: Instant,
    /// The last logged complaint about them.
    complaint: Option<Choice>,
}

impl Nodes {
    /// The servers of a URL, separated by commas, each with `options` applied.
    pub(super) fn new(
        url: &str,
        times: NodeTimes,
        options: impl Fn(MySqlConnectOptions) -> MySqlConnectOptions,
    ) -> Result<Arc<Self>, sqlx::Error> {
        let servers = split(url)
            .iter()
            .map(|url| MySqlConnectOptions::from_str(url).map(&options))
            .collect::<Result<Vec<_>, _>>()?;
        let state = NodeState {
            used: None,
            since: None,
            was_replica: vec![false; servers.len()],
            quiet_until: None,
            next_check: Instant::now() + times.period,
            complaint: None,
        };
        Ok(Arc::new(Self {
            servers,
            times,
            is_suspected: AtomicBool::new(false),
            choosing: Mutex::new(()),
            rounds: AtomicU64::new(0),
            state: StdMutex::new(state),
        }))
    }

    /// Chooses the first server to be used.
    ///
    /// # Errors
    /// A description of the answers of all servers, if there are several and none can be chosen safely.
    pub(super) async fn start(&self) -> Result<(), String> {
        if self.servers.len() == 1 {
            return Ok(());
        }
        let known = self.ask_all(self.times.timeout).await;
        match self.choose(&known, Prefer::First) {
            Choice::Use(place) => {
                self.lock().used = Some(place);
                Ok(())
            }
            undecided => Err(self.complaint(undecided, &known)),
        }
    }

    /// The answer of each server, by name. For diagnosis: none is chosen.
    pub(super) async fn standings(&self) -> Vec<(String, Known)> {
        let known = self.ask_all(self.times.timeout).await;
        self.servers.iter().map(name).zip(known).collect()
    }

    /// The server in use.
    pub fn used(&self) -> &MySqlConnectOptions {
        &self.servers[self.place()]
    }

    /// True if a connection of this age presumably leads to the server in use.
    pub(super) fn is_current(&self, age: Duration) -> bool {
        let since = self.lock().since;
        since.is_none_or(|since| age <= since.elapsed())
    }

    /// Makes the next call query the servers, as the one in use may have failed.
    pub(super) fn suspect(&self) {
        self.is_suspected
            .store(self.servers.len() > 1, Ordering::Release);
    }

    /// Chooses a server again if the one in use is suspected, or in another task if the periodic check is due. All `pools` connect to
    /// it from then on.
    pub(super) async fn settle(self: &Arc<Self>, pools: &Arc<[MySqlPool]>) {
        if self.servers.len() == 1 {
            return;
        }
        if self.is_to_be_asked() {
            self.choose_again(pools).await;
        } else if self.is_check_due() {
            let (nodes, pools) = (Arc::clone(self), Arc::clone(pools));
            tokio::spawn(async move { nodes.check(&pools).await });
        }
    }

    /// One call queries the servers; calls that arrive meanwhile wait for its result.
    async fn choose_again(&self, pools: &[MySqlPool]) {
        let rounds = self.rounds.load(Ordering::Acquire);
        let _turn = self.choosing.lock().await;
        if self.rounds.load(Ordering::Acquire) != rounds || !self.is_to_be_asked() {
            return;
        }
        let patience = self.times.timeout / SHARE_OF_TIMEOUT;
        let known = self.ask_unless_ready(patience, Some(self.place())).await;
        self.rounds.fetch_add(1, Ordering::Release);
        let is_decided = known.is_none_or(|known| self.follow(&known, Prefer::Used, pools));
        self.lock().quiet_until = (!is_decided).then(|| Instant::now() + UNDECIDED_PAUSE);
        if is_decided {
            self.is_suspected.store(false, Ordering::Release);
        }
    }

    /// Queries all servers while calls continue.
    async fn check(&self, pools: &[MySqlPool]) {
        let Ok(_turn) = self.choosing.try_lock() else {
            return;
        };
        let known = self.ask_all(self.times.timeout / SHARE_OF_TIMEOUT).await;
        self.rounds.fetch_add(1, Ordering::Release);
        self.follow(&known, Prefer::First, pools);
    }

    /// Switches to the server chosen by the answers. Returns true if there is one.
    fn follow(&self, known: &[Known], prefer: Prefer, pools: &[MySqlPool]) -> bool {
        let choice = self.choose(known, prefer);
        self.complain(choice, known);
        let Choice::Use(place) = choice else {
            return false;
        };
        let used = self.place();
        if place != used {
            let mut state = self.lock();
            state.used = Some(place);
            state.since = Some(Instant::now());
            drop(state);
            let server = &self.servers[place];
            tracing::warn!(
                from = name(&self.servers[used]),
                to = name(server),
                "switched to another database server"
            );
            for pool in pools {
                pool.set_connect_options(server.clone());
            }
        }
        true
    }

    fn choose(&self, known: &[Known], prefer: Prefer) -> Choice {
        let mut state = self.lock();
        let choice = choose(known, state.used, &state.was_replica, prefer);
        // A server that took writes at the same time as another one was not promoted.
        let are_apart = are_apart(known);
        for (was_replica, known) in state.was_replica.iter_mut().zip(known) {
            *was_replica = !are_apart && (*was_replica || is_standing(known, Standing::Refuses));
        }
        choice
    }

    /// Human-readable description of the problem with the servers.
    fn complaint(&self, choice: Choice, known: &[Known]) -> String {
        let what = match choice {
            Choice::Several => {
                "several servers take writes and are no nodes of one Galera cluster: set read_only = ON on all but the primary"
            }
            Choice::Unclear => {
                "one server takes writes, and it is not known whether another one does: make it answer, stop it, or take it out of store.url"
            }
            Choice::None | Choice::Use(_) => "no server takes writes",
        };
        let said = self.servers.iter().zip(known).map(|(server, known)| {
            let name = name(server);
            match known {
                Ok(answer) => format!("{name} {answer}"),
                Err(silence) => format!("{name} {silence}"),
            }
        });
        format!("{what} ({})", said.collect::<Vec<_>>().join("; "))
    }

    /// Logs a problem, once.
    fn complain(&self, choice: Choice, known: &[Known]) {
        let choice = match choice {
            // The one in use stays in use, but a starting process would refuse it.
            Choice::Use(_) if are_apart(known) => Choice::Several,
            choice => choice,
        };
        let complaint = Some(choice).filter(|choice| !matches!(choice, Choice::Use(_)));
        let before = std::mem::replace(&mut self.lock().complaint, complaint);
        if let Some(choice) = complaint.filter(|_| before != complaint) {
            let why = self.complaint(choice, known);
            tracing::error!(why, "cannot choose a database server; keeping the last");
        }
    }

    /// Queries all servers; the answers are in their order.
    async fn ask_all(&self, patience: Duration) -> Vec<Known> {
        let known = self.ask_unless_ready(patience, None).await;
        known.unwrap_or_default()
    }

    /// Queries all servers; `None` as soon as the server at index `place` answers that it is ready.
    async fn ask_unless_ready(
        &self,
        patience: Duration,
        place: Option<usize>,
    ) -> Option<Vec<Known>> {
        let mut asked = JoinSet::new();
        for (place, server) in self.servers.iter().enumerate() {
            let server = server.clone();
            asked.spawn(async move { (place, ask(&server, patience).await) });
        }
        let mut known = vec![Err(Silence::default()); self.servers.len()];
        while let Some(answer) = asked.join_next().await {
            let Ok((of, answer)) = answer else {
                continue;
            };
            if Some(of) == place && is_standing(&answer, Standing::Ready) {
                return None;
            }
            known[of] = answer;
        }
        Some(known)
    }

    fn is_to_be_asked(&self) -> bool {
        let quiet_until = || self.lock().quiet_until;
        self.is_suspected.load(Ordering::Acquire)
            && quiet_until().is_none_or(|until| until <= Instant::now())
    }

    /// True if the caller is to query all servers now.
    fn is_check_due(&self) -> bool {
        let (mut state, now) = (self.lock(), Instant::now());
        let is_due = state.next_check <= now;
        if is_due {
            state.next_check = now + self.times.period;
        }
        is_due
    }

    fn place(&self) -> usize {
        self.lock().used.unwrap_or_default()
    }

    fn lock(&self) -> MutexGuard<'_, NodeState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The URL of each server: `mysql://user:password@one:3306,two:3306/links` names two.
fn split(url: &str) -> Vec<String> {
    let Some((scheme, rest)) = url.split_once("://") else {
        return vec![url.to_owned()];
    };
    let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    let hosts = authority.rfind('@').map_or(0, |at| at + 1);
    let (user, hosts) = authority.split_at(hosts);
    let url = |host| format!("{scheme}://{user}{host}{path}");
    hosts.split(',').map(url).collect()
}

/// Display name of the servers and the database of a URL: `MySQL database links at one:3306, two:3306`.
pub(super) fn names(url: &str) -> String {
    let servers = split(url);
    let servers = servers.iter().map(|url| MySqlConnectOptions::from_str(url));
    let servers: Vec<MySqlConnectOptions> = servers.filter_map(Result::ok).collect();
    let database = servers.first().and_then(MySqlConnectOptions::get_database);
    let places: Vec<String> = servers.iter().map(name).collect();
    let database = database.unwrap_or("without a name");
    format!("MySQL database {database} at {}", places.join(", "))
}

/// Name of a server in the log.
fn name(server: &MySqlConnectOptions) -> String {
    format!("{}:{}", server.get_host(), server.get_port())
}

#[cfg(test)]
mod tests {
    use super::*;
    use sqlx::mysql::MySqlPoolOptions;
    use tokio::net::TcpListener;

    #[test]
    fn url_when_it_names_several_servers_is_split() {
        for (url, expected) in [
            ("mysql://h/d", &["mysql://h/d"][..]),
            (
                "mysql://u:a,b@one:1,two,[::1]:3/d?ssl-mode=REQUIRED",
                &[
                    "mysql://u:a,b@one:1/d?ssl-mode=REQUIRED",
                    "mysql://u:a,b@two/d?ssl-mode=REQUIRED",
                    "mysql://u:a,b@[::1]:3/d?ssl-mode=REQUIRED",
                ],
            ),
            ("mysql://one,two", &["mysql://one", "mysql://two"]),
            ("mysql:odd", &["mysql:odd"]),
        ] {
            assert_eq!(split(url), expected);
        }
    }

    /// The port of a server that accepts connections, counts them, and never answers.
    async fn silent(count: &Arc<AtomicU64>) -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (port, count) = (listener.local_addr().unwrap().port(), Arc::clone(count));
        tokio::spawn(async move {
            let mut open = Vec::new();
            while let Ok((stream, _)) = listener.accept().await {
                count.fetch_add(1, Ordering::SeqCst);
                open.push(stream);
            }
        });
        port
    }

    #[tokio::test]
    async fn nodes_when_calls_settle_together_are_asked_once() {
        let count = Arc::new(AtomicU64::new(0));
        let ports = [silent(&count).await, silent(&count).await];
        let url = format!("mysql://u@127.0.0.1:{},127.0.0.1:{}/d", ports[0], ports[1]);
        let times = NodeTimes {
            timeout: Duration::from_millis(600),
            period: Duration::from_mins(1),
        };
        let nodes = Nodes::new(&url, times, |options| options).unwrap();
        let pool = MySqlPoolOptions::new().connect_lazy_with(nodes.used().clone());
        let pools: Arc<[MySqlPool]> = Arc::new([pool]);
        nodes.suspect();
        let mut calls = JoinSet::new();
        for _ in 0..50 {
            let (nodes, pools) = (Arc::clone(&nodes), Arc::clone(&pools));
            calls.spawn(async move { nodes.settle(&pools).await });
        }
        calls.join_all().await;
        nodes.settle(&pools).await;
        assert_eq!(count.load(Ordering::SeqCst), 2);
        assert!(!nodes.is_to_be_asked() && nodes.is_suspected.load(Ordering::SeqCst));
    }
}
