//! Links that are created and followed through those servers that a balancer has in rotation.

use crate::visitors::{Door, Journey};
use edgelink_tests::scenario::{Answer, Request};
use edgelink_tests::stack::{Connection, until};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, RwLock};
use std::time::{Duration, Instant};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};

const LIMIT: Duration = Duration::from_secs(60);
/// How many clients create links.
const CREATORS: u32 = 8;
/// Links that count as new: visitors follow them half of the time.
const NEW: usize = 100;

/// The servers to which a balancer sends requests.
#[derive(Default)]
pub(super) struct Rotation {
    servers: RwLock<Vec<Arc<Server>>>,
    next: AtomicUsize,
}

/// A server from when it came into rotation.
struct Server {
    address: SocketAddr,
    /// Requests that wait for their answer.
    in_flight: AtomicUsize,
}

impl Rotation {
    pub(super) fn of(addresses: impl Iterator<Item = SocketAddr>) -> Arc<Self> {
        let rotation = Arc::<Self>::default();
        addresses.for_each(|address| rotation.join(address));
        rotation
    }

    pub(super) fn join(&self, address: SocketAddr) {
        let in_flight = AtomicUsize::new(0);
        let server = Arc::new(Server { address, in_flight });
        self.servers.write().expect("a lock").push(server);
    }

    /// Takes a server out, and returns when its last request is answered.
    pub(super) async fn leave(&self, address: SocketAddr) {
        let leaving = {
            let mut servers = self.servers.write().expect("a lock");
            let place = servers.iter().position(|server| server.address == address);
            servers.remove(place.expect("a server in rotation"))
        };
        until("its last request is answered", LIMIT, async || {
            (leaving.in_flight.load(Ordering::SeqCst) == 0).then_some(())
        })
        .await;
    }

    /// The next server, with a request in flight.
    fn begin(&self) -> Arc<Server> {
        let servers = self.servers.read().expect("a lock");
        let place = self.next.fetch_add(1, Ordering::Relaxed) % servers.len();
        servers[place].in_flight.fetch_add(1, Ordering::SeqCst);
        Arc::clone(&servers[place])
    }
}

impl Server {
    fn end(&self) {
        self.in_flight.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Door for Arc<Rotation> {
    type Stream = TcpStream;

    async fn open(&self) -> io::Result<Connection> {
        let server = self.begin();
        let connection = Connection::open(server.address).await;
        server.end();
        connection
    }
}

/// The links that were acknowledged.
#[derive(Default)]
pub(super) struct Links {
    known: RwLock<Known>,
    /// The places of the links that requests under way ask for.
    asked: Mutex<HashMap<u64, usize>>,
}

#[derive(Default)]
struct Known {
    /// In the order of their answers.
    paths: Vec<String>,
    targets: HashMap<String, String>,
}

impl Links {
    pub(super) fn count(&self) -> usize {
        self.known.read().expect("a lock").paths.len()
    }

    fn add(&self, code: &str, target: String) {
        let path = format!("/{code}");
        let mut known = self.known.write().expect("a lock");
        known.targets.insert(path.clone(), target);
        known.paths.push(path);
    }

    /// How many codes came a second time.
    pub(super) fn twice(&self) -> usize {
        let known = self.known.read().expect("a lock");
        known.paths.len() - known.targets.len()
    }

    /// The links that do not lead where they have to.
    pub(super) async fn not_right(&self, connection: &mut Connection) -> Vec<String> {
        let targets = self.known.read().expect("a lock").targets.clone();
        let mut wrong = Vec::new();
        for (path, target) in &targets {
            let answer = connection.exchange(&Request::get(path), b"").await;
            let answer = answer.expect("an answer");
            if answer.location() != Some(target) {
                wrong.push(format!(
                    "{path}: {}, {:?}",
                    answer.status,
                    answer.location()
                ));
            }
        }
        wrong
    }
}

impl Journey for Links {
    /// A new link, or any of all; the same one where it is asked again, after its answer.
    fn path(&self, n: u64) -> String {
        let known = self.known.read().expect("a lock");
        let count = known.paths.len();
        let mut asked = self.asked.lock().expect("a lock");
        let place = asked.remove(&n).unwrap_or_else(|| {
            let number = usize::try_from(n / 2).expect("a number");
            let place = match n % 2 {
                0 => count - 1 - number % count.min(NEW),
                _ => number.wrapping_mul(7919) % count,
            };
            asked.insert(n, place);
            place
        });
        known.paths[place].clone()
    }

    fn is_right(&self, path: &str, answer: &Answer, _sent: Instant) -> bool {
        let known = self.known.read().expect("a lock");
        answer.location() == known.targets.get(path).map(String::as_str)
    }
}

/// Clients that create links at a rate.
pub(super) struct Creators {
    tasks: JoinSet<Vec<String>>,
    stop: Arc<AtomicBool>,
}

impl Creators {
    pub(super) fn start(
        rotation: &Arc<Rotation>,
        key: &str,
        rate: u32,
        links: &Arc<Links>,
    ) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let mut tasks = JoinSet::new();
        for name in 0..CREATORS {
            let creator = Creator {
                name,
                key: key.to_owned(),
                period: Duration::from_secs(1) * CREATORS / rate,
                rotation: Arc::clone(rotation),
                links: Arc::clone(links),
            };
            tasks.spawn(creator.go(Arc::clone(&stop)));
        }
        Self { tasks, stop }
    }

    /// Lets each have its last answer; what went wrong.
    pub(super) async fn finish(self) -> Vec<String> {
        self.stop.store(true, Ordering::Relaxed);
        self.tasks.join_all().await.concat()
    }
}

struct Creator {
    name: u32,
    key: String,
    period: Duration,
    rotation: Arc<Rotation>,
    links: Arc<Links>,
}

impl Creator {
    async fn go(self, stop: Arc<AtomicBool>) -> Vec<String> {
        let mut ticks = interval(self.period);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut errors = Vec::new();
        let mut kept: Option<(Arc<Server>, Connection)> = None;
        for n in 0.. {
            ticks.tick().await;
            if stop.load(Ordering::Relaxed) {
                break;
            }
            let server = self.rotation.begin();
            let same = kept.take().filter(|(other, _)| Arc::ptr_eq(other, &server));
            match self
                .create(&server, same.map(|(_, connection)| connection), n)
                .await
            {
                Ok(connection) => kept = Some((Arc::clone(&server), connection)),
                Err(error) => errors.push(error),
            }
            server.end();
        }
        errors
    }

    async fn create(
        &self,
        server: &Server,
        kept: Option<Connection>,
        n: u64,
    ) -> Result<Connection, String> {
        let mut connection = match kept {
            Some(connection) => connection,
            None => Connection::open(server.address)
                .await
                .map_err(|error| error.to_string())?,
        };
        let target = format!("https://example.com/{}/{n}", self.name);
        let request = Request::new("POST", b"/api/v1/links")
            .header("x-api-key", self.key.as_bytes())
            .header("content-type", b"application/json");
        let body = json!({ "longUrl": target }).to_string();
        let answer = connection.exchange(&request, body.as_bytes()).await;
        let answer = answer.map_err(|error| error.to_string())?;
        let link: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
        match (answer.status, link["shortCode"].as_str()) {
            (201, Some(code)) => self.links.add(code, target),
            (status, _) => return Err(format!("{status} {link}")),
        }
        Ok(connection)
    }
}
