//! Rate limits over two control planes that share a Redis.

use edgelink_control_plane::server::Server;
use edgelink_settings::config::{Config, Environment};
use edgelink_tests::scenario::{Answer, Request};
use edgelink_tests::servers::{RedisCluster, RedisServer};
use edgelink_tests::stack::{Connection, until};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tempfile::TempDir;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

const CAPACITY: u32 = 100;
const PER_SECOND: u32 = 10;
/// For how long requests come, by the clock of Redis.
const MICROS: u64 = 30_000_000;
const CONNECTIONS: usize = 8;
pub(super) const LIMIT: Duration = Duration::from_secs(90);

/// Two control planes on one database and one Redis.
pub(super) struct Replicas {
    pub(super) addresses: [SocketAddr; 2],
    pub(super) key: String,
    stop: CancellationToken,
    _folder: TempDir,
}

impl Drop for Replicas {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl Replicas {
    pub(super) async fn start(redis: &str, variables: &[(String, String)]) -> Self {
        let folder = TempDir::new().expect("a temporary folder");
        let stop = CancellationToken::new();
        let mut addresses = Vec::new();
        for _ in 0..2 {
            let environment = environment(&folder, redis, variables);
            let config = Config::load(None, &environment).expect("a configuration");
            let server = Server::start(config).await.expect("a server");
            let main = server.listeners().next().expect("a listener");
            addresses.push(main.address);
            tokio::spawn(server.run(stop.clone().cancelled_owned()));
        }
        let key = std::fs::read_to_string(folder.path().join("admin-key")).expect("a key");
        let replicas = Self {
            addresses: addresses.try_into().expect("two"),
            key: key.trim().to_owned(),
            stop,
            _folder: folder,
        };
        // Redis is asked from here on.
        for address in replicas.addresses {
            until("limits in Redis", LIMIT, async || {
                let before = replicas.degraded(address).await;
                replicas.ask(address, "").await;
                (replicas.degraded(address).await == before).then_some(())
            })
            .await;
        }
        replicas
    }

    async fn ask(&self, address: SocketAddr, forwarded_for: &str) -> Answer {
        let mut connection = Connection::open(address).await.expect("a connection");
        let request = request(&self.key, forwarded_for);
        connection.exchange(&request, b"").await.expect("an answer")
    }

    /// How many requests were counted without Redis, by the metrics of this process.
    pub(super) async fn degraded(&self, address: SocketAddr) -> String {
        let mut connection = Connection::open(address).await.expect("a connection");
        let metrics = connection.exchange(&Request::get("/metrics"), b"").await;
        let metrics = String::from_utf8(metrics.expect("metrics").body).expect("text");
        let mut lines = metrics.lines();
        let line = lines.find(|line| line.starts_with("edgelink_limits_degraded_total "));
        line.unwrap_or_default().to_owned()
    }

    /// Has requests come over several connections to both until `end` is done; how often each status was answered.
    async fn load(&self, end: impl Future<Output = ()>) -> Statuses {
        let (statuses, over) = (
            Arc::new(Statuses::default()),
            Arc::new(AtomicBool::new(false)),
        );
        let mut clients = JoinSet::new();
        for number in 0..CONNECTIONS {
            let address = self.addresses[number % 2];
            // Each request claims to come from another address.
            let request = request(
                &self.key,
                &format!("198.51.100.{number}, 203.0.113.{number}"),
            );
            let (statuses, over) = (statuses.clone(), over.clone());
            clients.spawn(async move {
                let mut connection = Connection::open(address).await.expect("a connection");
                while !over.load(Ordering::Relaxed) {
                    let answer = connection.exchange(&request, b"").await;
                    statuses.count(&answer.expect("an answer"));
                }
            });
        }
        end.await;
        over.store(true, Ordering::Relaxed);
        while let Some(client) = clients.join_next().await {
            client.expect("a client that does not fail");
        }
        Arc::into_inner(statuses).expect("no client is left")
    }
}

#[derive(Debug, Default)]
struct Statuses {
    admitted: AtomicU32,
    limited: AtomicU32,
    /// Statuses and bodies.
    others: Mutex<BTreeSet<(u16, String)>>,
}

impl Statuses {
    fn count(&self, answer: &Answer) {
        let counter = match answer.status {
            200 => &self.admitted,
            429 => &self.limited,
            status => {
                let body = String::from_utf8_lossy(&answer.body).into_owned();
                self.others.lock().expect("others").insert((status, body));
                return;
            }
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

fn environment(folder: &TempDir, redis: &str, variables: &[(String, String)]) -> Environment {
    let file = |name: &str| folder.path().join(name).display().to_string();
    let (database, key) = (
        format!("sqlite://{}", file("edgelink.db")),
        file("admin-key"),
    );
    let common = [
        ("EDGELINK_SERVER_LISTEN", "127.0.0.1:0"),
        ("EDGELINK_STORE_URL", database.as_str()),
        ("EDGELINK_REDIS_URL", redis),
        // A busy machine is no lost Redis.
        ("EDGELINK_REDIS_TIMEOUT_MS", "5000"),
        ("EDGELINK_AUTH_ADMIN_KEY_FILE", key.as_str()),
    ];
    let common = common.map(|(name, value)| (name.to_owned(), value.to_owned()));
    common
        .into_iter()
        .chain(variables.iter().cloned())
        .collect()
}

fn request(key: &str, forwarded_for: &str) -> Request {
    Request::get("/api/v1/clicks/accounting")
        .header("x-api-key", key.as_bytes())
        .header("x-forwarded-for", forwarded_for.as_bytes())
}

/// The time of Redis in microseconds.
pub(super) fn micros(ask: &impl Fn(&[&str]) -> String) -> u64 {
    let answer = ask(&["TIME"]);
    let mut numbers = answer
        .split_whitespace()
        .map(|number| number.parse::<u64>());
    let mut next = || numbers.next().expect("a number").expect("a number");
    next() * 1_000_000 + next()
}

/// Has requests come for [`MICROS`] and checks that as many are admitted as promised, to 1 %. `disturb` is called meanwhile.
async fn assert_promise(
    redis: &str,
    variables: &[(String, String)],
    ask: impl Fn(&[&str]) -> String,
    bucket: &str,
    disturb: impl Fn(),
) {
    let replicas = Replicas::start(redis, variables).await;
    // The bucket is full again.
    assert!(["0", "1"].contains(&ask(&["DEL", bucket]).trim()));
    let start = micros(&ask);
    let promised = |until: u64| {
        let gained = (until - start) * u64::from(PER_SECOND) / 1_000_000;
        f64::from(CAPACITY) + f64::from(u32::try_from(gained).expect("few"))
    };
    let mut end = start;
    let statuses = replicas
        .load(until("the time is over", LIMIT, async || {
            disturb();
            end = micros(&ask);
            (end >= start + MICROS).then_some(())
        }))
        .await;
    // The last requests are answered between these two moments.
    let (least, most) = (0.99 * promised(end), 1.01 * promised(micros(&ask)));
    let admitted = f64::from(statuses.admitted.into_inner());
    assert!(
        (least..=most).contains(&admitted),
        "{admitted} of {least} to {most}"
    );
    assert!(statuses.limited.into_inner() > 0);
    let others = statuses.others.into_inner().expect("others");
    assert!(others.is_empty(), "{others:?}");
}

/// The variables of a limit of that name.
pub(super) fn limit(of: &str, capacity: u32, per_second: u32) -> Vec<(String, String)> {
    [("CAPACITY", capacity), ("PER_SECOND", per_second)]
        .map(|(name, value)| (format!("EDGELINK_LIMITS_{of}_{name}"), value.to_string()))
        .into()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn address_when_it_forwards_others_is_admitted_as_promised() {
    let server = RedisServer::start().await;
    let ask = |command: &[&str]| server.ask(command);
    let variables = limit("ADDRESS", CAPACITY, PER_SECOND);
    let bucket = "{limits}:address:127.0.0.1";
    assert_promise(&server.url(), &variables, ask, bucket, || {}).await;
    let keys = server.ask(&["KEYS", "{limits}:*"]);
    assert_eq!(keys.trim(), bucket);
    // It vanishes when it is full.
    let millis: u64 = server
        .ask(&["PTTL", bucket])
        .trim()
        .parse()
        .expect("a number");
    assert!((1..=u64::from(CAPACITY / PER_SECOND) * 1_000).contains(&millis));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limit_when_redis_forgets_its_scripts_is_kept() {
    let server = RedisServer::start().await;
    let ask = |command: &[&str]| server.ask(command);
    let flush = || drop(server.ask(&["SCRIPT", "FLUSH"]));
    let variables = limit("GLOBAL", CAPACITY, PER_SECOND);
    let bucket = "{limits}:global:";
    assert_promise(&server.url(), &variables, ask, bucket, flush).await;
}

#[tokio::test]
async fn bucket_when_the_clock_was_set_back_refills() {
    let server = RedisServer::start().await;
    let replicas = Replicas::start(&server.url(), &limit("GLOBAL", 10, 10)).await;
    let in_an_hour = micros(&|command| server.ask(command)) + 3_600_000_000;
    let set = server.ask(&["SET", "{limits}:global:", &format!("0 {in_an_hour}")]);
    assert_eq!(set.trim(), "OK");
    until("a token", LIMIT, async || {
        let answer = replicas.ask(replicas.addresses[0], "").await;
        (answer.status == 200).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn buckets_when_on_a_cluster_are_taken_from_together() {
    let cluster = RedisCluster::start().await;
    let ask = |command: &[&str]| cluster.ask(command);
    let wide = ["ADDRESS", "KEY"].map(|name| limit(name, 1_000_000, 1_000_000));
    let variables = [limit("GLOBAL", CAPACITY, PER_SECOND), wide.concat()].concat();
    let bucket = "{limits}:global:";
    assert_promise(&cluster.url(), &variables, ask, bucket, || {}).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limit_when_redis_is_away_is_kept_by_each_control_plane() {
    let mut server = RedisServer::start().await;
    let variables = limit("KEY", CAPACITY, PER_SECOND);
    let replicas = Replicas::start(&server.url(), &variables).await;
    let address = replicas.addresses[0];
    let before = replicas.degraded(address).await;
    let statuses = replicas
        .load(async {
            server.kill();
            until("limits without Redis", LIMIT, async || {
                (replicas.degraded(address).await != before).then_some(())
            })
            .await;
            let refused = async || {
                let answer = replicas.ask(address, "").await;
                (answer.status == 429).then_some(())
            };
            until("a refusal without Redis", LIMIT, refused).await;
            server.restart().await;
            until("limits in Redis again", LIMIT, async || {
                let keys = server.ask(&["KEYS", "{limits}:*"]);
                (!keys.trim().is_empty()).then_some(())
            })
            .await;
        })
        .await;
    let others = statuses.others.into_inner().expect("others");
    assert!(others.is_empty(), "{others:?}");
    assert!(statuses.admitted.into_inner() > 0 && statuses.limited.into_inner() > 0);
}

#[tokio::test]
async fn client_when_behind_a_trusted_proxy_has_its_own_bucket() {
    let server = RedisServer::start().await;
    let mut variables = limit("ADDRESS", 30, 1);
    variables.push((
        "EDGELINK_SERVER_TRUSTED_PROXIES".to_owned(),
        "127.0.0.1".to_owned(),
    ));
    let replicas = Replicas::start(&server.url(), &variables).await;
    for (forwarded, client) in [
        ("198.51.100.1", "198.51.100.1"),
        ("192.0.2.77, 198.51.100.2", "198.51.100.2"),
        ("2001:db8::1", "2001:db8::"),
    ] {
        let bucket = format!("{{limits}}:address:{client}");
        // A bucket from which one token was taken expires after a second.
        until("a bucket", LIMIT, async || {
            let answer = replicas.ask(replicas.addresses[0], forwarded).await;
            assert_eq!(answer.status, 200, "{forwarded}");
            (server.ask(&["EXISTS", &bucket]).trim() == "1").then_some(())
        })
        .await;
    }
    let forged = server.ask(&["EXISTS", "{limits}:address:192.0.2.77"]);
    assert_eq!(forged.trim(), "0");
}
