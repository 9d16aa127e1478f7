//! From a key to its record through known keys, Redis and database.

use crate::redis::fixture::{self, LIMIT, connected, sqlite_store};
use crate::redis::publisher::{Replica as PublisherReplica, replica as publisher};
use edgelink_feed::resolve::{KeyScanner, KnownKeys, Memory, Resolver};
use edgelink_feed::{Feed, Listener, Tail};
use edgelink_redis::{Redis, RedisLookup};
use edgelink_settings::config::{FeedConfig, ResolveConfig};
use edgelink_store::{Actor, NewLink, Store};
use edgelink_tests::servers::{RedisCluster, RedisServer};
use edgelink_tests::stack::until;
use edgelink_wire::{CodeLength, CodeSpace, LinkKey, Record};
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

const KEY: &str = "a.example/x";

struct ResolveSetting<S = RedisServer> {
    server: S,
    store: Arc<Store>,
    redis: Arc<Redis>,
    stop: CancellationToken,
    publisher: PublisherReplica,
    _folder: TempDir,
}

/// One control plane as far as resolving goes.
struct ResolvingReplica {
    resolver: Arc<Resolver>,
    known_keys: Arc<KnownKeys>,
    feed: Arc<Feed>,
}

impl<S> Drop for ResolveSetting<S> {
    fn drop(&mut self) {
        self.stop.cancel();
        self.publisher.stop.cancel();
    }
}

impl ResolveSetting {
    async fn new() -> Self {
        let server = RedisServer::start().await;
        let url = server.url();
        Self::on(server, &url).await
    }
}

impl<S> ResolveSetting<S> {
    async fn on(server: S, url: &str) -> Self {
        let (folder, store) = sqlite_store().await;
        let redis = connected(url).await;
        let publisher = publisher(&store, &redis);
        Self {
            server,
            store,
            redis,
            stop: CancellationToken::new(),
            publisher,
            _folder: folder,
        }
    }

    /// Stops publishing, and lets the lease end by itself.
    async fn end_publisher(&mut self) {
        self.publisher.task.abort();
        let _ = (&mut self.publisher.task).await;
    }

    /// What Redis knows of [`KEY`] in the generation that a replica is in.
    async fn cached(&self, replica: &ResolvingReplica) -> RedisLookup {
        let generation = replica.feed.place().0;
        self.redis.look_up(generation, KEY).await.unwrap().lookup
    }

    async fn create(&self, id: u64, key: &str) {
        let content = fixture::content("https://example.com/");
        let link = NewLink::new(id, key.parse().unwrap(), content);
        let created = self.store.create_links(vec![link]).await.unwrap();
        assert!(created.iter().all(Result::is_ok));
    }

    /// A replica that knows all keys.
    async fn replica(&self) -> ResolvingReplica {
        let config = ResolveConfig {
            cache_bytes: 1 << 20,
            cache_ms: Duration::from_millis(1),
            lock_ms: Duration::from_secs(10),
            lock_wait_ms: Duration::from_millis(100),
            max_lookups: 4,
        };
        let memory = Arc::new(Memory::new(&config));
        let known_keys = Arc::new(KnownKeys::new(CodeSpace::new(CodeLength::DEFAULT, None)));
        let listeners: Vec<Arc<dyn Listener>> = vec![memory.clone(), known_keys.clone()];
        let feed = Arc::new(Feed::new(&FeedConfig::default(), listeners));
        tokio::spawn(Tail::new(self.redis.clone(), feed.clone()).run(self.stop.clone()));
        // The clock of the database is known from the first look into the outbox.
        let asked = tokio::time::Instant::now();
        feed.clock()
            .note(asked, self.store.publisher().await.unwrap().now);
        until("the feed", LIMIT, async || feed.is_current().then_some(())).await;
        let scanner = KeyScanner::new(known_keys.clone(), self.store.clone());
        tokio::spawn(scanner.run(self.stop.clone()));
        until("all keys", LIMIT, async || {
            (!known_keys.may_have("a.example/never")).then_some(())
        })
        .await;
        let resolver = Resolver::new(
            self.store.clone(),
            Some(self.redis.clone()),
            known_keys.clone(),
            feed.clone(),
            memory,
            config,
        );
        ResolvingReplica {
            resolver: Arc::new(resolver),
            known_keys,
            feed,
        }
    }
}

async fn resolve(replica: &ResolvingReplica) -> Record<String> {
    let key: LinkKey = KEY.parse().unwrap();
    replica.resolver.resolve(&key).await.unwrap().record
}

/// The key of the link in the generation that a replica is in.
fn hash(replica: &ResolvingReplica) -> String {
    edgelink_wire::redis::link_key(replica.feed.place().0, KEY)
}

fn is_link(record: &Record<String>) -> bool {
    matches!(record, Record::Link(_))
}

#[tokio::test]
async fn link_when_looked_up_is_answered_from_redis() {
    let setting = ResolveSetting::new().await;
    setting.create(1, KEY).await;
    let replica = setting.replica().await;
    let record = resolve(&replica).await;
    assert!(is_link(&record));
    assert_eq!(setting.cached(&replica).await, RedisLookup::Known(record));
    // What Redis has is taken without a look into the database.
    let hash = hash(&replica);
    let _ = setting
        .server
        .ask(&["HSET", &hash, "url", "https://redis.example/"]);
    until("the answer of Redis", LIMIT, async || {
        let Record::Link(link) = resolve(&replica).await else {
            panic!("no link");
        };
        (link.url == "https://redis.example/").then_some(())
    })
    .await;
}

#[tokio::test]
async fn key_when_never_created_costs_no_redis_lookup() {
    let mut setting = ResolveSetting::new().await;
    let replica = setting.replica().await;
    // Its scripts ask for the state.
    setting.end_publisher().await;
    let before = setting.server.calls("hmget");
    let floor = setting.store.publisher().await.unwrap().rev_floor;
    assert_eq!(resolve(&replica).await, Record::Absent { rev: floor });
    assert_eq!(setting.server.calls("hmget"), before);
}

#[tokio::test]
async fn link_when_created_by_another_replica_is_found_at_once() {
    let mut setting = ResolveSetting::new().await;
    let replica = setting.replica().await;
    setting.end_publisher().await;
    for number in 0..50 {
        let key = format!("a.example/k{number}");
        assert!(!replica.known_keys.may_have(&key));
        // Nothing publishes here: the change stays in the outbox.
        setting.create(number, &key).await;
        let record = replica
            .resolver
            .resolve(&key.parse().unwrap())
            .await
            .unwrap()
            .record;
        assert!(is_link(&record), "{key}");
    }
}

#[tokio::test]
async fn lookups_when_redis_was_flushed_are_shared() {
    let setting = ResolveSetting::new().await;
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
        assert!(is_link(&task.await.unwrap().record));
    }
    // Every look into the database ends with a script that fills in what was found.
    // The publisher does so as well: a flush is a generation, then beats.
    assert!(setting.server.calls("evalsha") <= 20);
}

#[tokio::test]
async fn lookup_when_redis_is_away_is_answered_by_the_database() {
    let mut setting = ResolveSetting::new().await;
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
    assert!(is_link(&record.unwrap().record));
}

#[tokio::test]
async fn lookup_when_its_lock_is_never_released_is_answered() {
    let setting = ResolveSetting::new().await;
    setting.create(1, KEY).await;
    let replica = setting.replica().await;
    let generation = replica.feed.place().0;
    let lock = setting
        .redis
        .lock(generation, KEY, Duration::from_secs(60))
        .await
        .unwrap();
    assert!(lock.is_some());
    assert!(is_link(&resolve(&replica).await));
    assert_eq!(setting.cached(&replica).await, RedisLookup::Unknown);
}

#[tokio::test]
async fn record_when_unreadable_is_replaced() {
    let setting = ResolveSetting::new().await;
    setting.create(1, KEY).await;
    let replica = setting.replica().await;
    let hash = hash(&replica);
    let _ = setting
        .server
        .ask(&["HSET", &hash, "rev", "99", "state", "active"]);
    let record = resolve(&replica).await;
    assert!(is_link(&record));
    assert_eq!(setting.cached(&replica).await, RedisLookup::Known(record));
}

fn url(record: &Record<String>) -> &str {
    match record {
        Record::Link(link) => &link.url,
        Record::Absent { .. } => "",
    }
}

#[tokio::test]
async fn redis_when_it_takes_no_writes_is_not_believed_for_long() {
    let setting = ResolveSetting::new().await;
    setting.create(1, KEY).await;
    let replica = setting.replica().await;
    assert_eq!(url(&resolve(&replica).await), "https://example.com/");
    assert!(matches!(
        setting.cached(&replica).await,
        RedisLookup::Known(_)
    ));
    let _ = setting
        .server
        .ask(&["CONFIG", "SET", "min-replicas-to-write", "1"]);
    let change = |link: &edgelink_model::links::model::Link| {
        let mut content = link.content.clone();
        content.target = fixture::content("https://new.example/").target;
        Ok(fixture::checked(&content))
    };
    let key: LinkKey = KEY.parse().unwrap();
    setting
        .store
        .update_link(&key, Box::new(change), &Actor::command_line(1))
        .await
        .unwrap();
    let changed = std::time::Instant::now();
    until("the new target", LIMIT, async || {
        (url(&resolve(&replica).await) == "https://new.example/").then_some(())
    })
    .await;
    assert!(
        changed.elapsed() < Duration::from_secs(5),
        "{:?}",
        changed.elapsed()
    );
    // And it stays: nothing comes from Redis any more.
    for _ in 0..100 {
        assert_eq!(url(&resolve(&replica).await), "https://new.example/");
    }
    assert!(
        setting
            .store
            .delete_link(&key, Box::new(|_| Ok(())), &Actor::command_line(1))
            .await
            .unwrap()
            .is_some()
    );
    assert!(!is_link(&resolve(&replica).await));
}

#[tokio::test]
async fn redis_when_set_back_is_not_believed() {
    let mut setting = ResolveSetting::new().await;
    setting.create(1, KEY).await;
    let replica = setting.replica().await;
    assert!(is_link(&resolve(&replica).await));
    setting.end_publisher().await;
    let hash = hash(&replica);
    let old = ["HSET", &hash, "url", "https://old.example/"];
    let _ = setting.server.ask(&old);
    // The hash is from before, and so is what that Redis says of itself.
    let _ = setting.server.ask(&["HSET", "{feed}:state", "number", "1"]);
    let start = std::time::Instant::now();
    assert_eq!(url(&resolve(&replica).await), "https://example.com/");
    let _ = setting.server.ask(&["DEL", "{feed}:state"]);
    tokio::time::sleep(Duration::from_millis(5)).await;
    assert_eq!(url(&resolve(&replica).await), "https://example.com/");
    assert!(
        start.elapsed() < Duration::from_secs(3),
        "the feed was current"
    );
}

#[tokio::test]
async fn answer_when_resolved_is_as_old_as_the_feed_or_lookup() {
    let setting = ResolveSetting::new().await;
    setting.create(1, KEY).await;
    let replica = setting.replica().await;
    let key: LinkKey = KEY.parse().unwrap();
    let first = replica.resolver.resolve(&key).await.unwrap();
    assert!(first.age < Duration::from_secs(2), "{:?}", first.age);
    until("an answer of Redis", LIMIT, async || {
        let resolved = replica.resolver.resolve(&key).await.unwrap();
        (resolved.age > Duration::ZERO).then_some(())
    })
    .await;
    until("another link is new", LIMIT, async || {
        let resolved = replica
            .resolver
            .resolve(&"a.example/none".parse().unwrap())
            .await;
        (resolved.unwrap().age == Duration::ZERO).then_some(())
    })
    .await;
}

#[tokio::test]
async fn link_when_its_feed_entry_is_lost_is_still_found() {
    let mut setting = ResolveSetting::new().await;
    let replica = setting.replica().await;
    setting.end_publisher().await;
    // Published and removed from the outbox, and then Redis lost it while this replica had not read it yet; for the
    // replica, entries of before and after join.
    setting.create(1, KEY).await;
    let state = setting.store.publisher().await.unwrap();
    let lost = edgelink_wire::FeedPosition::new(state.now / 1000, 0);
    let rows = setting.store.pending(10).await.unwrap().batches;
    let ids: Vec<u64> = rows.iter().map(|row| row.id).collect();
    let is_done = setting
        .store
        .forget_published(state.token, lost, &ids.iter().copied().collect(), 0)
        .await;
    assert!(is_done.unwrap());
    let last = setting.redis.newest().await.unwrap().to_string();
    let _ = setting.server.ask(&[
        "XADD",
        "feed",
        "*",
        "op",
        "changed",
        "key",
        "a.example/y",
        "prev",
        &last,
    ]);
    until("the entry behind it", LIMIT, async || {
        (replica.feed.end() > lost).then_some(())
    })
    .await;
    assert!(!replica.known_keys.may_have(KEY));
    assert!(is_link(&resolve(&replica).await));
}

/// How far the publisher has written is known of one master only; another one may be started again with less than it had.
#[tokio::test]
async fn cluster_record_when_its_masters_are_unseen_does_not_count() {
    let cluster = RedisCluster::start().await;
    let url = cluster.url();
    let mut setting = ResolveSetting::on(cluster, &url).await;
    setting.create(1, KEY).await;
    let [first, second] = [setting.replica().await, setting.replica().await];
    until("the link is in Redis", LIMIT, async || {
        resolve(&first).await;
        matches!(setting.cached(&first).await, RedisLookup::Known(_)).then_some(())
    })
    .await;
    setting.end_publisher().await;
    until("a feed of 1.8 s", LIMIT, async || {
        let age = second.feed.age()?;
        (age >= Duration::from_millis(1_800)).then_some(())
    })
    .await;
    assert!(second.feed.is_current());
    let key: LinkKey = KEY.parse().unwrap();
    let resolved = second.resolver.resolve(&key).await.unwrap();
    assert!(is_link(&resolved.record), "{resolved:?}");
    assert_eq!(resolved.age, Duration::ZERO, "from the database");
}
