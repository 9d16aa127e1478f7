//! Connections, links and waiting.

use edgelink_model::drawn::Drawn;
use edgelink_model::links::checked::CheckedContent;
use edgelink_model::links::model::LinkContent;
use edgelink_redis::{Append, Appended, Lock, Redis, RedisError, RedisLookup};
use edgelink_settings::config::{FeedConfig, RedisConfig, Secret, StoreConfig};
use edgelink_store::{Store, connect};
use edgelink_tests::stack::until;
use edgelink_wire::feed::{Beat, FeedMessage};
use edgelink_wire::target::{TargetRules, TargetUrl};
use edgelink_wire::{FeedPosition, LinkRecord, Record};
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

pub(crate) const KEY: &str = "go.example.com/aB3";
pub(crate) const LIMIT: Duration = Duration::from_secs(30);
/// The generation that these tests write in.
pub(crate) const GENERATION: u64 = 7;
/// About how many bytes the feed takes.
pub(crate) const FEED_BYTES: u64 = 4 << 20;
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
    start(url).expect("a URL of Redis")
}

pub(crate) fn start(url: &str) -> Result<Arc<Redis>, RedisError> {
    let redis = RedisConfig {
        url: Some(Secret::new(url)),
        timeout_ms: Duration::from_millis(300),
        ca_file: None,
    };
    let feed = FeedConfig {
        stream_length: 1000,
        stream_bytes: FEED_BYTES,
        ..FeedConfig::default()
    };
    Redis::start(&redis, &feed).map(|redis| redis.expect("a URL"))
}

/// What a link to `url` has.
pub(crate) fn content(url: &str) -> LinkContent {
    LinkContent::to(TargetUrl::from_store(url))
}

/// A content whose targets were checked by rules that refuse nothing but what is no target.
pub(crate) fn checked(content: &LinkContent) -> CheckedContent {
    let rules = TargetRules {
        own_domains: &[],
        is_made: &|_| false,
        blocked_hosts: &[],
    };
    CheckedContent::renewed(content, &rules).expect("targets")
}

/// The record of a link that goes to `url`.
pub(crate) fn link(url: &str, rev: u64) -> Record<String> {
    let link = edgelink_tests::scenario::link(url);
    Record::Link(LinkRecord { rev, ..link })
}

/// Takes the lock of [`KEY`], which must be free.
pub(crate) async fn lock(redis: &Redis) -> Lock {
    let lock = redis
        .lock(GENERATION, KEY, LOCKED)
        .await
        .expect("an answer");
    lock.expect("the lock is free")
}

/// The first message of a publisher that begins a generation.
pub(crate) fn order(token: u64, generation: u64) -> Append<'static> {
    Append {
        token,
        owner: "one",
        installation: "ours",
        generation,
        after: FeedPosition::START,
        begins: true,
        flushed_in: 0,
        beat: None,
        drawn: Drawn::default(),
    }
}

/// Appends messages in [`GENERATION`], whatever is there.
pub(crate) async fn append(redis: &Redis, messages: &[FeedMessage<'_>]) -> FeedPosition {
    try_append(redis, messages).await.expect("an append")
}

/// Appends messages; `None` if Redis does not answer.
pub(crate) async fn try_append(
    redis: &Redis,
    messages: &[FeedMessage<'_>],
) -> Option<FeedPosition> {
    match redis.append(&order(1, GENERATION), messages).await.ok()? {
        Appended::At(position) => Some(position),
        other => panic!("{other:?}"),
    }
}

/// A beat of [`GENERATION`].
pub(crate) fn beat(number: u64) -> FeedMessage<'static> {
    FeedMessage::Beat(Beat {
        bound: 1,
        generation: GENERATION,
        number,
        at: number,
        age_millis: 0,
    })
}

/// What Redis knows of [`KEY`].
pub(crate) async fn looked_up(redis: &Redis) -> RedisLookup {
    let found = redis.look_up(GENERATION, KEY).await;
    found.expect("an answer").lookup
}

/// A SQLite store, and the folder that it lives in.
pub(crate) async fn sqlite_store() -> (TempDir, Arc<Store>) {
    let folder = TempDir::new().expect("a temporary folder");
    let url = format!("sqlite://{}/edgelink.db", folder.path().display());
    let store = connect(&StoreConfig::at(&url)).await.expect("a store");
    store.migrate().await.expect("the schema");
    (folder, store)
}
