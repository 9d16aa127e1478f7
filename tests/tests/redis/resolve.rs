//! From a key to its record through catalogue, Redis and database.

use crate::fixture::{LIMIT, connected, sqlite_store};
use edgelink_control_plane::catalog::{Catalog, Scanner};
use edgelink_control_plane::feed::{Feed, Listener, RingLimits, Tail};
use edgelink_control_plane::model::LinkContent;
use edgelink_control_plane::redis::{Lookup, Redis};
use edgelink_control_plane::resolve::{Memory, MemoryOptions, ResolveOptions, Resolver};
use edgelink_control_plane::store::{NewLink, Store};
use edgelink_control_plane::target::TargetUrl;
use edgelink_tests::servers::RedisServer;
use edgelink_tests::stack::until;
use edgelink_wire::{CodeLength, CodeSpace, LinkKey, LinkState, Record, RedirectStatus};
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

const KEY: &str = "a.example/x";
const HASH: &str = "link:a.example/x";

struct Setting {
    server: RedisServer,
    store: Arc<dyn Store>,
    redis: Arc<Redis>,
    stop: CancellationToken,
    _folder: TempDir,
}

/// One control plane as far as resolving goes.
struct Replica {
    resolver: Arc<Resolver>,
    catalog: Arc<Catalog>,
    feed: Arc<Feed>,
}

impl Drop for Setting {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl Setting {
    async fn new() -> Self {
        let (folder, store) = sqlite_store().await;
        let server = RedisServer::start().await;
        let redis = connected(&server.url()).await;
        Self {
            server,
            store,
            redis,
            stop: CancellationToken::new(),
            _folder: folder,
        }
    }

    async fn create(&self, id: u64, key: &str) {
        let link = NewLink {
            id,
            key: key.parse().unwrap(),
            content: LinkContent {
                target: TargetUrl::from_store("https://example.com/"),
                redirect: RedirectStatus::Found,
                state: LinkState::Active,
                valid_since: None,
                valid_until: None,
                forward_query: true,
                title: None,
                tags: Vec::new(),
            },
        };
        let created = self.store.create_links(vec![link]).await.unwrap();
        assert!(created.iter().all(Result::is_ok));
    }

    /// A replica that knows all keys.
    async fn replica(&self) -> Replica {
        let memory = MemoryOptions {
            bytes: 1 << 20,
            time: Duration::from_millis(1),
        };
        let options = ResolveOptions {
            memory,
            lock: Duration::from_secs(10),
            lock_wait: Duration::from_millis(100),
            max_lookups: 4,
        };
        let memory = Arc::new(Memory::new(memory));
        let catalog = Arc::new(Catalog::new(CodeSpace::new(CodeLength::DEFAULT, None)));
        let listeners: Vec<Arc<dyn Listener>> = vec![memory.clone(), catalog.clone()];
        let feed = Arc::new(Feed::new(RingLimits::default(), listeners));
        tokio::spawn(Tail::new(self.redis.clone(), feed.clone()).run(self.stop.clone()));
        until("the feed", LIMIT, async || feed.is_live().then_some(())).await;
        let scanner = Scanner::new(catalog.clone(), self.store.clone());
        tokio::spawn(scanner.run(self.stop.clone()));
        until("all keys", LIMIT, async || {
            (!catalog.may_have("a.example/never")).then_some(())
        })
        .await;
        let resolver = Resolver::new(
            self.store.clone(),
            Some(self.redis.clone()),
            catalog.clone(),
            feed.clone(),
            memory,
            options,
        );
        Replica {
            resolver: Arc::new(resolver),
            catalog,
            feed,
        }
    }
}

async fn resolve(replica: &Replica) -> Record<String> {
    let key: LinkKey = KEY.parse().unwrap();
    replica.resolver.resolve(&key).await.unwrap()
}

fn is_link(record: &Record<String>) -> bool {
    matches!(record, Record::Link(_))
}

#[tokio::test]
async fn what_was_looked_up_is_in_redis_and_comes_from_there() {
    let setting = Setting::new().await;
    setting.create(1, KEY).await;
    let replica = setting.replica().await;
    let record = resolve(&replica).await;
    assert!(is_link(&record));
    assert_eq!(
        setting.redis.look_up(KEY).await.unwrap(),
        Lookup::Known(record)
    );
    // What Redis has is taken without a look into the database.
    let _ = setting
        .server
        .ask(&["HSET", HASH, "url", "https://redis.example/"]);
    until("the answer of Redis", LIMIT, async || {
        let Record::Link(link) = resolve(&replica).await else {
            panic!("no link");
        };
        (link.url == "https://redis.example/").then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_key_that_never_was_costs_redis_no_lookup() {
    let setting = Setting::new().await;
    let replica = setting.replica().await;
    let before = setting.server.calls("hmget");
    assert!(matches!(resolve(&replica).await, Record::Absent { .. }));
    assert_eq!(setting.server.calls("hmget"), before);
}

#[tokio::test]
async fn a_link_of_another_replica_is_found_at_once() {
    let setting = Setting::new().await;
    let replica = setting.replica().await;
    for number in 0..50 {
        let key = format!("a.example/k{number}");
        assert!(!replica.catalog.may_have(&key));
        // Nobody publishes here: the change stays in the outbox.
        setting.create(number, &key).await;
        let record = replica
            .resolver
            .resolve(&key.parse().unwrap())
            .await
            .unwrap();
        assert!(is_link(&record), "{key}");
    }
    assert!(replica.feed.is_live());
}

#[tokio::test]
async fn after_a_flush_all_who_ask_share_few_lookups() {
    let setting = Setting::new().await;
    setting.create(1, KEY).await;
    let replicas = [setting.replica().await, setting.replica().await];
    for replica in &replicas {
        resolve(replica).await;
    }
    let _ = setting.server.ask(&["FLUSHALL"]);
    let _ = setting.server.ask(&["CONFIG", "RESETSTAT"]);
    let tasks: Vec<_> = (0..500)
        .map(|number: usize| {
            let resolver = replicas[number % 2].resolver.clone();
            tokio::spawn(async move { resolver.resolve(&KEY.parse().unwrap()).await.unwrap() })
        })
        .collect();
    for task in tasks {
        assert!(is_link(&task.await.unwrap()));
    }
    // Every look into the database ends with a script that fills in what was found.
    assert!(setting.server.calls("evalsha") <= 4);
}

#[tokio::test]
async fn without_redis_the_database_answers() {
    let mut setting = Setting::new().await;
    setting.create(1, KEY).await;
    let replica = setting.replica().await;
    setting.server.stop();
    assert!(is_link(&resolve(&replica).await));
    setting.server.cont();
    setting.server.kill();
    assert!(is_link(&resolve(&replica).await));
    // Nothing is denied by what may be old.
    setting.create(2, "a.example/new").await;
    let record = replica
        .resolver
        .resolve(&"a.example/new".parse().unwrap())
        .await;
    assert!(is_link(&record.unwrap()));
}

#[tokio::test]
async fn a_lock_that_nobody_releases_is_waited_for_but_not_for_long() {
    let setting = Setting::new().await;
    setting.create(1, KEY).await;
    let replica = setting.replica().await;
    let lock = setting
        .redis
        .lock(KEY, Duration::from_secs(60))
        .await
        .unwrap();
    assert!(lock.is_some());
    assert!(is_link(&resolve(&replica).await));
    assert_eq!(setting.redis.look_up(KEY).await.unwrap(), Lookup::Unknown);
}

#[tokio::test]
async fn a_record_that_nobody_can_read_is_replaced() {
    let setting = Setting::new().await;
    setting.create(1, KEY).await;
    let replica = setting.replica().await;
    let _ = setting
        .server
        .ask(&["HSET", HASH, "rev", "99", "state", "active"]);
    let record = resolve(&replica).await;
    assert!(is_link(&record));
    assert_eq!(
        setting.redis.look_up(KEY).await.unwrap(),
        Lookup::Known(record)
    );
}
