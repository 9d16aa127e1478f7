//! Connections, links and waiting.

use edgelink_control_plane::redis::{Lock, Redis, RedisOptions};
use edgelink_control_plane::store::{PoolOptions, Store, connect};
use edgelink_tests::stack::until;
use edgelink_wire::{LinkRecord, LinkState, Record, RedirectStatus};
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

pub(crate) const KEY: &str = "go.example.com/aB3";
pub(crate) const LIMIT: Duration = Duration::from_secs(30);
pub(crate) const LOCKED: Duration = Duration::from_secs(10);

/// A client that is connected.
pub(crate) async fn connected(url: &str) -> Arc<Redis> {
    let redis = client(url);
    until("a connection to Redis", LIMIT, async || {
        redis.is_connected().then_some(())
    })
    .await;
    redis
}

/// A client that may or may not be connected.
pub(crate) fn client(url: &str) -> Arc<Redis> {
    let options = RedisOptions {
        url: url.to_owned(),
        timeout: Duration::from_millis(300),
        feed_length: 1000,
    };
    Redis::start(&options).expect("a URL of Redis")
}

/// A link that goes to `url`.
pub(crate) fn link(url: &str, rev: u64) -> Record<String> {
    Record::Link(LinkRecord {
        url: url.to_owned(),
        redirect: RedirectStatus::Found,
        state: LinkState::Active,
        valid_since: None,
        valid_until: None,
        forward_query: true,
        rev,
    })
}

/// The lock of [`KEY`], which nobody has.
pub(crate) async fn lock(redis: &Redis) -> Lock {
    let lock = redis.lock(KEY, LOCKED).await.expect("an answer");
    lock.expect("nobody has the lock")
}

/// A SQLite store, and the folder that it lives in.
pub(crate) async fn sqlite_store() -> (TempDir, Arc<dyn Store>) {
    let folder = TempDir::new().expect("a temporary folder");
    let url = format!("sqlite://{}/edgelink.db", folder.path().display());
    let store = connect(&url, &PoolOptions::default())
        .await
        .expect("a store");
    store.migrate().await.expect("the schema");
    (folder, store)
}
