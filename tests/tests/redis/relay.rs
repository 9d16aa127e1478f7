//! The relay between database and Redis.

use crate::fixture::{LIMIT, connected, sqlite_store};
use edgelink_control_plane::model::LinkContent;
use edgelink_control_plane::redis::Redis;
use edgelink_control_plane::relay::{BoundPolicy, Outlet, Relay, RelayOptions};
use edgelink_control_plane::store::{NewLink, Store};
use edgelink_control_plane::target::TargetUrl;
use edgelink_tests::servers::RedisServer;
use edgelink_tests::stack::until;
use edgelink_wire::feed::FeedMessage;
use edgelink_wire::{FeedPosition, LinkKey, LinkState, RedirectStatus};
use sqlx::{AssertSqlSafe, Connection, SqliteConnection};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

struct Replica {
    stop: CancellationToken,
    task: JoinHandle<()>,
    wake: Arc<Notify>,
}

struct Setting {
    store: Arc<dyn Store>,
    redis: Arc<Redis>,
    server: RedisServer,
    folder: TempDir,
}

impl Setting {
    async fn new() -> Self {
        let (folder, store) = sqlite_store().await;
        let server = RedisServer::start().await;
        let redis = connected(&server.url()).await;
        Self {
            store,
            redis,
            server,
            folder,
        }
    }

    fn replica(&self) -> Replica {
        let options = RelayOptions {
            poll: Duration::from_millis(50),
            lease: Duration::from_millis(500),
            heartbeat: Duration::from_millis(100),
            batch: 10,
        };
        let (stop, wake) = (CancellationToken::new(), Arc::new(Notify::new()));
        let outlet = Arc::new(Outlet::Redis(self.redis.clone()));
        let bound = BoundPolicy::Ahead(10_000_000);
        let relay = Relay::new(self.store.clone(), outlet, options, bound, wake.clone());
        let task = tokio::spawn(relay.run(stop.clone()));
        Replica { stop, task, wake }
    }

    async fn create(&self, ids: std::ops::Range<u64>) {
        let link = |id| NewLink {
            id,
            key: format!("a.example/c{id}").parse::<LinkKey>().unwrap(),
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
        let links: Vec<NewLink> = ids.map(link).collect();
        for transaction in links.chunks(5) {
            let created = self.store.create_links(transaction.to_vec()).await;
            assert!(created.unwrap().iter().all(Result::is_ok));
        }
    }

    /// The keys of all puts on the feed.
    async fn published(&self) -> BTreeSet<String> {
        let mut keys = BTreeSet::new();
        let mut position = FeedPosition::START;
        loop {
            let entries = until("the feed", LIMIT, async || {
                self.redis.read_feed(position, 1000).await.ok()
            })
            .await;
            let Some(last) = entries.last() else { break };
            position = last.position;
            for entry in &entries {
                if let Ok(FeedMessage::Put { key, .. }) = entry.message() {
                    keys.insert(key.to_owned());
                }
            }
            if entries.len() < 1000 {
                break;
            }
        }
        keys
    }

    async fn await_empty_outbox(&self) {
        until("an empty outbox", LIMIT, async || {
            self.store
                .pending_changes(1)
                .await
                .unwrap()
                .is_empty()
                .then_some(())
        })
        .await;
    }
}

fn keys(ids: std::ops::Range<u64>) -> BTreeSet<String> {
    ids.map(|id| format!("a.example/c{id}")).collect()
}

#[tokio::test]
async fn every_change_is_published_once_it_is_committed() {
    let setting = Setting::new().await;
    let replica = setting.replica();
    setting.create(0..35).await;
    replica.wake.notify_one();
    setting.await_empty_outbox().await;
    assert_eq!(setting.published().await, keys(0..35));
    replica.stop.cancel();
    replica.task.await.unwrap();
}

#[tokio::test]
async fn nothing_is_lost_while_redis_is_away() {
    let mut setting = Setting::new().await;
    let replica = setting.replica();
    setting.server.kill();
    setting.create(0..35).await;
    replica.wake.notify_one();
    setting.server.restart().await;
    setting.await_empty_outbox().await;
    assert_eq!(setting.published().await, keys(0..35));
    setting.server.stop();
    setting.create(35..70).await;
    setting.server.cont();
    setting.await_empty_outbox().await;
    assert_eq!(setting.published().await, keys(0..70));
    replica.stop.cancel();
}

#[tokio::test]
async fn another_replica_takes_over_from_one_that_dies_and_nothing_is_lost() {
    let setting = Setting::new().await;
    let mut dying = setting.replica();
    let mut next = 0;
    for _ in 0..5 {
        let other = setting.replica();
        setting.create(next..next + 95).await;
        next += 95;
        dying.wake.notify_one();
        // Somewhere in the middle of its work.
        until("a part of it", LIMIT, async || {
            let left = setting.store.pending_changes(1000).await.unwrap().len();
            (left < 19).then_some(())
        })
        .await;
        dying.task.abort();
        setting.await_empty_outbox().await;
        assert_eq!(setting.published().await, keys(0..next));
        dying = other;
    }
    dying.stop.cancel();
    dying.task.await.unwrap();
}

#[tokio::test]
async fn a_replica_that_stops_in_order_is_followed_at_once() {
    let setting = Setting::new().await;
    let first = setting.replica();
    setting.create(0..1).await;
    setting.await_empty_outbox().await;
    first.stop.cancel();
    first.task.await.unwrap();
    assert!(
        setting
            .store
            .take_lease("relay", "somebody", 1)
            .await
            .unwrap()
    );
}

#[tokio::test]
async fn the_bound_is_published_again_and_again() {
    let setting = Setting::new().await;
    let replica = setting.replica();
    let mut position = FeedPosition::START;
    for _ in 0..3 {
        let entries = until("a heartbeat", LIMIT, async || {
            let entries = setting.redis.read_feed(position, 10).await.ok()?;
            (!entries.is_empty()).then_some(entries)
        })
        .await;
        let last = entries.last().unwrap();
        assert_eq!(
            last.message().unwrap(),
            FeedMessage::Bound {
                bound: 1_000_000_000
            }
        );
        position = last.position;
    }
    replica.stop.cancel();
}

#[tokio::test]
async fn a_row_that_cannot_be_read_makes_all_caches_start_anew_and_stops_nothing() {
    let setting = Setting::new().await;
    let url = format!("sqlite://{}/edgelink.db", setting.folder.path().display());
    let mut database = SqliteConnection::connect(&url).await.unwrap();
    for row in [
        "X'00000009', X''",
        "X'0000000161', X''",
        "X'00000001ff', X'0000000101'",
    ] {
        let insert =
            format!("INSERT INTO outbox (link_keys, records, created_at) VALUES ({row}, 0)");
        let insert = sqlx::query(AssertSqlSafe(insert));
        insert.execute(&mut database).await.unwrap();
    }
    setting.create(0..35).await;
    let replica = setting.replica();
    setting.await_empty_outbox().await;
    assert_eq!(setting.published().await, keys(0..35));
    let entries = setting.redis.read_feed(FeedPosition::START, 1000).await;
    let entries = entries.unwrap();
    let flushes = entries
        .iter()
        .filter(|entry| entry.message() == Ok(FeedMessage::Flush));
    assert_eq!(flushes.count(), 3);
    replica.stop.cancel();
}
