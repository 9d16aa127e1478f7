//! The publisher between database and Redis.

use crate::redis::fixture::{LIMIT, connected, content, sqlite_store};
use edgelink_feed::publisher::{FeedSink, PublishedBy, Publisher, PublisherStatus};
use edgelink_feed::{Feed, Listener, Tail};
use edgelink_model::drawn::Drawn;
use edgelink_numbers::BoundPolicy;
use edgelink_redis::{Redis, StreamEntry};
use edgelink_settings::config::{ClicksConfig, FeedConfig, PublisherConfig, StoreConfig};
use edgelink_store::{FeedKind, LeaseClaim, NewLink, PublisherState, Store, connect};
use edgelink_tests::servers::{RedisCluster, RedisServer};
use edgelink_tests::stack::until;
use edgelink_wire::feed::{Beat, FeedMessage};
use edgelink_wire::{FeedPosition, LinkKey};
use sqlx::{AssertSqlSafe, Connection, SqliteConnection};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tempfile::TempDir;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

const LEASE: Duration = Duration::from_millis(500);
const MAX_LEASE: Duration = Duration::from_millis(edgelink_store::MAX_LEASE_MILLIS);

pub(crate) struct Replica {
    pub(crate) stop: CancellationToken,
    pub(crate) task: JoinHandle<()>,
    pub(crate) wake: Arc<Notify>,
    pub(crate) feed: Arc<Feed>,
    pub(crate) status: PublisherStatus,
}

/// A publisher of its own that follows its feed.
pub(crate) fn replica(store: &Arc<Store>, redis: &Arc<Redis>) -> Replica {
    replica_with(store, redis, LEASE)
}

pub(crate) fn config(lease: Duration) -> PublisherConfig {
    PublisherConfig {
        poll_ms: Duration::from_millis(50),
        lease_ms: lease,
        heartbeat_ms: Duration::from_millis(100),
        batch: 10,
        ..PublisherConfig::default()
    }
}

fn clicks() -> ClicksConfig {
    ClicksConfig {
        hot_count: 10,
        hot_period_ms: Duration::from_secs(60),
        ..ClicksConfig::default()
    }
}

fn replica_with(store: &Arc<Store>, redis: &Arc<Redis>, lease: Duration) -> Replica {
    replica_of(store, redis, &config(lease))
}

/// One with other settings.
pub(crate) fn replica_of(
    store: &Arc<Store>,
    redis: &Arc<Redis>,
    config: &PublisherConfig,
) -> Replica {
    let (stop, wake) = (CancellationToken::new(), Arc::new(Notify::new()));
    let feed = Arc::new(Feed::new(&FeedConfig::default(), Vec::new()));
    tokio::spawn(Tail::new(redis.clone(), feed.clone()).run(stop.clone()));
    let publisher = Publisher::new(
        store.clone(),
        FeedSink::Redis(redis.clone()),
        feed.clone(),
        config,
        &clicks(),
        BoundPolicy::Ahead(10_000_000),
        wake.clone(),
    );
    let status = publisher.status();
    Replica {
        task: tokio::spawn(publisher.run(stop.clone())),
        stop,
        wake,
        feed,
        status,
    }
}

impl Replica {
    pub(crate) async fn publishes(&self) {
        until("it publishes", LIMIT, async || {
            (self.status.get() == PublishedBy::This && self.feed.is_current()).then_some(())
        })
        .await;
    }

    pub(crate) async fn gives_up(&self) {
        until("it gives up", LIMIT, async || {
            (self.status.get() == PublishedBy::GaveUp).then_some(())
        })
        .await;
    }

    async fn end(self) {
        self.stop.cancel();
        self.task.await.unwrap();
    }
}

pub(crate) struct Setting {
    pub(crate) store: Arc<Store>,
    pub(crate) redis: Arc<Redis>,
    pub(crate) server: RedisServer,
    folder: TempDir,
}

impl Setting {
    pub(crate) async fn new() -> Self {
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
        replica(&self.store, &self.redis)
    }

    pub(crate) async fn create(&self, ids: std::ops::Range<u64>) {
        create(&self.store, ids).await;
    }

    /// The keys of all links in the feed.
    pub(crate) async fn published(&self) -> BTreeSet<String> {
        // Redis may only just have come back.
        let entries = until("the feed", LIMIT, async || {
            self.redis.read_feed(FeedPosition::START, 10_000).await.ok()
        });
        let mut keys = BTreeSet::new();
        for entry in entries.await {
            if let Ok(FeedMessage::Put { key, .. } | FeedMessage::Changed { key }) = entry.message()
            {
                keys.insert(key.to_owned());
            }
        }
        keys
    }

    pub(crate) async fn await_empty_outbox(&self) {
        await_empty_outbox(&self.store).await;
    }

    async fn state(&self) -> PublisherState {
        self.store.publisher().await.unwrap()
    }

    /// Waits until the token of the database is above that one.
    async fn await_token(&self, token: u64) {
        until("a later token", LIMIT, async || {
            (self.state().await.token > token).then_some(())
        })
        .await;
    }

    /// All that is on the feed.
    async fn entries(&self) -> Vec<StreamEntry> {
        let entries = self.redis.read_feed(FeedPosition::START, 10_000).await;
        entries.unwrap()
    }

    /// Has Redis take writes, or refuse them.
    pub(crate) fn take_writes(&self, does: bool) {
        let replicas = if does { "0" } else { "1" };
        let command = ["CONFIG", "SET", "min-replicas-to-write", replicas];
        let _ = self.server.ask(&command);
    }

    /// The generations of the beats on the feed, each once, and whether there is a flush.
    async fn generations(&self) -> (BTreeSet<u64>, bool) {
        let entries = self.entries().await;
        let messages = || entries.iter().filter_map(|entry| entry.message().ok());
        let generations = messages().filter_map(|message| match message {
            FeedMessage::Beat(Beat { generation, .. }) => Some(generation),
            _ => None,
        });
        let has_flush = messages().any(|message| message == FeedMessage::Flush);
        (generations.collect(), has_flush)
    }

    /// Waits for a generation behind that one, in the database and on a feed that is current.
    async fn await_generation(&self, replica: &Replica, before: u64) -> PublisherState {
        until("another generation", LIMIT, async || {
            let state = self.state().await;
            let current = replica.feed.current()?;
            (current.generation == state.generation && state.generation > before).then_some(state)
        })
        .await
    }

    async fn execute(&self, statement: String) {
        let url = format!("sqlite://{}/edgelink.db", self.folder.path().display());
        let mut database = SqliteConnection::connect(&url).await.unwrap();
        let statement = sqlx::query(AssertSqlSafe(statement));
        statement.execute(&mut database).await.unwrap();
    }
}

async fn create(store: &Arc<Store>, ids: std::ops::Range<u64>) {
    let link = |id| {
        let key = format!("a.example/c{id}").parse::<LinkKey>().unwrap();
        NewLink::new(id, key, content("https://example.com/"))
    };
    let links: Vec<NewLink> = ids.map(link).collect();
    for transaction in links.chunks(5) {
        let created = store.create_links(transaction.to_vec()).await;
        assert!(created.unwrap().iter().all(Result::is_ok));
    }
}

async fn await_empty_outbox(store: &Arc<Store>) {
    until("an empty outbox", LIMIT, async || {
        let pending = store.pending(1).await.unwrap();
        pending.batches.is_empty().then_some(())
    })
    .await;
}

fn keys(ids: std::ops::Range<u64>) -> BTreeSet<String> {
    ids.map(|id| format!("a.example/c{id}")).collect()
}

#[tokio::test]
async fn change_when_committed_is_published() {
    let setting = Setting::new().await;
    let replica = setting.replica();
    setting.create(0..35).await;
    replica.wake.notify_one();
    setting.await_empty_outbox().await;
    assert_eq!(setting.published().await, keys(0..35));
    replica.end().await;
}

/// As if it were of a transaction that has committed long after later ones.
#[tokio::test]
async fn change_when_below_the_outbox_mark_is_published() {
    let setting = Setting::new().await;
    let replica = setting.replica();
    replica.publishes().await;
    setting
        .execute("UPDATE publisher SET outbox_mark = 1000000000".to_owned())
        .await;
    // The publisher knows that mark once it has read the row with this change.
    setting.create(0..1).await;
    until("the first one on the feed", LIMIT, async || {
        (setting.published().await == keys(0..1)).then_some(())
    })
    .await;
    setting.await_empty_outbox().await;
    setting.create(1..35).await;
    until("all of them on the feed", LIMIT, async || {
        (setting.published().await == keys(0..35)).then_some(())
    })
    .await;
    // A read by the mark that it had before may have found them all.
    let mut count = 35;
    until("the mark is lowered", LIMIT, async || {
        setting.create(count..count + 1).await;
        count += 1;
        (setting.state().await.outbox_mark < 1_000_000).then_some(())
    })
    .await;
    until("the rest on the feed", LIMIT, async || {
        (setting.published().await == keys(0..count)).then_some(())
    })
    .await;
    replica.end().await;
}

#[tokio::test]
async fn changes_when_redis_is_away_are_published_later() {
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
async fn publisher_when_it_dies_is_replaced_without_loss() {
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
            let left = setting.store.pending(1000).await.unwrap().batches.len();
            (left < 19).then_some(())
        })
        .await;
        dying.task.abort();
        setting.await_empty_outbox().await;
        assert_eq!(setting.published().await, keys(0..next));
        dying = other;
    }
    // All of that is one generation: the feed was continued where it was left.
    assert_eq!(setting.generations().await.0.len(), 1);
    dying.end().await;
}

#[tokio::test]
async fn publisher_when_stopped_in_order_publishes_the_rest() {
    let setting = Setting::new().await;
    let first = setting.replica();
    first.publishes().await;
    setting.create(0..35).await;
    first.end().await;
    let state = setting.store.pending(1).await.unwrap();
    assert!(state.batches.is_empty());
    let claim = LeaseClaim {
        owner: "another",
        kind: FeedKind::Local,
        lease_millis: 1,
        published: None,
        seen: (0, FeedPosition::START),
        lost: None,
    };
    let taken = setting.store.take_publisher_lease(&claim).await.unwrap();
    assert_eq!(taken.unwrap().token, state.state.token + 1);
}

#[tokio::test]
async fn beats_when_published_have_growing_numbers_and_times() {
    let setting = Setting::new().await;
    let replica = setting.replica();
    let mut position = FeedPosition::START;
    let mut last = Beat::default();
    for _ in 0..20 {
        let entries = until("a beat", LIMIT, async || {
            let entries = setting.redis.read_feed(position, 1).await.ok()?;
            (!entries.is_empty()).then_some(entries)
        })
        .await;
        let entry = entries.last().unwrap();
        let Ok(FeedMessage::Beat(beat)) = entry.message() else {
            panic!("{entry:?}");
        };
        assert_eq!(beat.bound, 1_000_000_000);
        let is_first = last == Beat::default();
        assert!(
            beat.number > last.number && (beat.at > last.at || is_first),
            "{beat:?} after {last:?}"
        );
        last = beat;
        position = entry.position;
    }
    replica.stop.cancel();
}

/// Of a link that has changed twice the outbox has both, and the first one was wrong already when the generation began.
#[tokio::test]
async fn beat_when_a_generation_begins_follows_waiting_changes() {
    let setting = Setting::new().await;
    setting.create(0..35).await;
    let replica = setting.replica();
    until("a current feed", LIMIT, async || replica.feed.current()).await;
    let entries = setting.entries().await;
    let mut unseen: BTreeSet<String> = (0..35).map(|id| format!("a.example/c{id}")).collect();
    for entry in &entries {
        match entry.message().unwrap() {
            FeedMessage::Put { key, .. } | FeedMessage::Changed { key } => drop(unseen.remove(key)),
            FeedMessage::Beat(beat) if beat.at > 0 => break,
            _ => {}
        }
    }
    assert!(unseen.is_empty(), "{unseen:?}");
    replica.stop.cancel();
}

#[tokio::test]
async fn outbox_row_when_unreadable_flushes_caches_and_is_skipped() {
    let setting = Setting::new().await;
    for row in [
        "X'00000009', X''",
        "X'00000003612f78', X''",
        "X'00000001ff', X'0000000101'",
    ] {
        let insert =
            format!("INSERT INTO outbox (link_keys, records, created_at) VALUES ({row}, 0)");
        setting.execute(insert).await;
    }
    setting.create(0..35).await;
    let replica = setting.replica();
    setting.await_empty_outbox().await;
    let mut expected = keys(0..35);
    expected.insert("a/x".to_owned());
    assert_eq!(setting.published().await, expected);
    let entries = setting.entries().await;
    let flushes = entries
        .iter()
        .filter(|entry| entry.message() == Ok(FeedMessage::Flush));
    assert_eq!(flushes.count(), 2);
    replica.stop.cancel();
}

#[tokio::test]
async fn publisher_when_its_redis_is_away_gives_up_its_lease() {
    let setting = Setting::new().await;
    let mut dead = RedisServer::start().await;
    let redis = connected(&dead.url()).await;
    // No other publisher gets it by waiting.
    let wrong = replica_with(&setting.store, &redis, LIMIT * 2);
    wrong.publishes().await;
    dead.kill();
    let right = setting.replica();
    setting.create(0..5).await;
    right.publishes().await;
    setting.await_empty_outbox().await;
    assert_eq!(setting.published().await, keys(0..5));
    until("the other one knows", LIMIT, async || {
        let is_known = wrong.status.get() != PublishedBy::This && !wrong.feed.is_current();
        is_known.then_some(())
    })
    .await;
}

/// It renews its lease, and cannot read what it is to publish: another process may.
#[tokio::test]
async fn publisher_when_its_database_fails_gives_up_its_lease() {
    let setting = Setting::new().await;
    let replica = setting.replica();
    replica.publishes().await;
    let away = "ALTER TABLE outbox RENAME TO outbox_away";
    setting.execute(away.to_owned()).await;
    replica.gives_up().await;
    let back = "ALTER TABLE outbox_away RENAME TO outbox";
    setting.execute(back.to_owned()).await;
    setting.create(0..5).await;
    replica.publishes().await;
    setting.await_empty_outbox().await;
    assert_eq!(setting.published().await, keys(0..5));
    replica.end().await;
}

#[tokio::test]
async fn feed_when_redis_takes_no_writes_is_not_current() {
    let setting = Setting::new().await;
    let replica = setting.replica();
    replica.publishes().await;
    setting.take_writes(false);
    let start = Instant::now();
    setting.create(0..5).await;
    replica.gives_up().await;
    until("the feed is too old", LIMIT, async || {
        (!replica.feed.is_current()).then_some(())
    })
    .await;
    assert!(start.elapsed() < Duration::from_secs(6));
    setting.take_writes(true);
    setting.await_empty_outbox().await;
    replica.publishes().await;
    assert_eq!(setting.published().await, keys(0..5));
}

#[tokio::test]
async fn redis_when_emptied_gets_another_generation() {
    let setting = Setting::new().await;
    let replica = setting.replica();
    replica.publishes().await;
    let before = setting.state().await;
    let _ = setting.server.ask(&["FLUSHALL"]);
    let after = setting.await_generation(&replica, before.generation).await;
    // Whether caches elsewhere have records of another database is not known.
    assert!(after.rev_floor > before.rev_floor);
    setting.create(0..5).await;
    setting.await_empty_outbox().await;
    assert_eq!(setting.published().await, keys(0..5));
}

#[tokio::test]
async fn redis_when_set_back_gets_another_generation() {
    let setting = Setting::new().await;
    let replica = setting.replica();
    replica.publishes().await;
    setting.create(0..5).await;
    setting.await_empty_outbox().await;
    let before = setting.state().await;
    // What was published last is gone, and the rest is as it was.
    let _ = setting.server.ask(&["XTRIM", "feed", "MAXLEN", "0"]);
    let after = setting.await_generation(&replica, before.generation).await;
    assert_eq!(after.rev_floor, before.rev_floor);
    // With the publisher away, the state goes back.
    replica.end().await;
    let _ = setting.server.ask(&[
        "HSET",
        "{feed}:state",
        "generation",
        &before.generation.to_string(),
    ]);
    let next = setting.replica();
    setting.await_generation(&next, after.generation).await;
}

#[tokio::test]
async fn redis_when_started_again_gets_another_generation() {
    let setting = Setting::new().await;
    let replica = setting.replica();
    replica.publishes().await;
    let before = setting.state().await;
    // The contents stay, the process is another one: as after a failover that has lost nothing, or a little.
    let _ = setting
        .server
        .ask(&["HSET", "{feed}:state", "nodes", "another"]);
    replica.end().await;
    let _ = setting
        .server
        .ask(&["HSET", "{feed}:state", "nodes", "another"]);
    let next = setting.replica();
    setting.await_generation(&next, before.generation).await;
}

/// The row of the publisher as it was, as after a restore of the database.
async fn set_back(setting: &Setting, state: &PublisherState) {
    let PublisherState {
        token,
        generation,
        position,
        lease_until,
        rev_floor,
        ..
    } = state;
    setting
        .execute(format!(
            "UPDATE publisher SET token = {token}, generation = {generation}, lease_until = {lease_until}, \
             position_millis = {}, position_sequence = {}, rev_floor = {rev_floor}",
            position.millis, position.sequence
        ))
        .await;
}

/// Kills Redis and sets the row back, until the publisher has repaired it: how it was before, and how it is then.
async fn set_back_without_redis(
    setting: &mut Setting,
    backup: &PublisherState,
) -> (PublisherState, PublisherState) {
    setting.server.kill();
    let lost = setting.state().await;
    set_back(setting, backup).await;
    let repaired = until("another generation", LIMIT, async || {
        let state = setting.state().await;
        (state.generation > lost.generation).then_some(state)
    });
    let repaired = repaired.await;
    (lost, repaired)
}

#[tokio::test]
async fn database_when_it_went_back_is_noticed_by_its_publisher() {
    let setting = Setting::new().await;
    let replica = setting.replica();
    replica.publishes().await;
    let backup = setting.state().await;
    setting.create(0..5).await;
    setting.await_empty_outbox().await;
    setting.await_token(backup.token + 1).await;
    let lost = setting.state().await;
    let numbers = setting.store.bound_state().await.unwrap();
    set_back(&setting, &backup).await;
    let after = setting.await_generation(&replica, lost.generation).await;
    assert!(after.token > lost.token);
    assert!(after.rev_floor > lost.now, "above all that caches may have");
    assert!(setting.generations().await.1, "caches drop everything");
    let skipped =
        setting.store.bound_state().await.unwrap().drawn.allocated - numbers.drawn.allocated;
    assert_eq!(skipped, (numbers.bound - numbers.drawn.allocated) / 2);
}

/// The row is exactly as the publisher has read it last: it has written since, and not read.
#[tokio::test]
async fn database_when_only_its_last_change_is_lost_is_noticed() {
    let setting = Setting::new().await;
    let seldom = PublisherConfig {
        poll_ms: LIMIT * 10,
        heartbeat_ms: LIMIT * 10,
        ..config(MAX_LEASE)
    };
    let replica = replica_of(&setting.store, &setting.redis, &seldom);
    replica.publishes().await;
    let backup = setting.state().await;
    setting.create(0..5).await;
    replica.wake.notify_one();
    setting.await_empty_outbox().await;
    let lost = setting.state().await;
    assert!(lost.token == backup.token && lost.position > backup.position);
    set_back(&setting, &backup).await;
    replica.wake.notify_one();
    let after = setting.await_generation(&replica, lost.generation).await;
    assert_eq!(after.skipped_in, after.generation);
    assert!(setting.generations().await.1, "caches drop everything");
}

/// Before they are forgotten, what was published is missing in the outbox.
#[tokio::test]
async fn database_when_published_changes_are_missing_is_repaired() {
    let setting = Setting::new().await;
    let replica = setting.replica();
    replica.publishes().await;
    let before = setting.state().await;
    for n in 0..100 {
        setting.create(n..n + 1).await;
        replica.wake.notify_one();
        let key = format!("a.example/c{n}");
        until("it is published", LIMIT, async || {
            let entries = setting.entries().await;
            let mut keys = entries.iter().filter_map(|entry| entry.message().ok());
            let is_published = keys.any(|message| message.changed_key() == Some(key.as_str()));
            is_published.then_some(())
        })
        .await;
        // It may be forgotten by then, on a machine that is busy.
        setting.execute("DELETE FROM outbox".to_owned()).await;
        if setting.state().await.generation > before.generation {
            break;
        }
    }
    let after = setting.await_generation(&replica, before.generation).await;
    assert!(after.token > before.token && after.rev_floor > before.now);
    replica.stop.cancel();
}

#[tokio::test]
async fn database_when_it_went_back_twice_is_repaired_twice() {
    let setting = Setting::new().await;
    let replica = setting.replica();
    replica.publishes().await;
    let backup = setting.state().await;
    for _ in 0..2 {
        setting.await_token(backup.token + 1).await;
        let lost = setting.state().await;
        set_back(&setting, &backup).await;
        let after = setting.await_generation(&replica, lost.generation).await;
        assert!(after.token > lost.token && after.rev_floor > lost.now);
    }
}

/// What a copy of the database does not know of, Redis does: each time, the publisher that knew it is gone.
#[tokio::test]
async fn numbers_when_a_copy_is_restored_repeatedly_are_not_repeated() {
    let setting = Setting::new().await;
    let mut replica = setting.replica();
    replica.publishes().await;
    let backup = setting.state().await;
    let bound = setting.store.bound_state().await.unwrap().bound;
    let mut ends = Vec::new();
    for (issuer, step) in [(7, 1_000), (8, 3_000), (7, 2_000), (8, 1)] {
        let segment = setting.store.draw_segment(issuer, step).await.unwrap();
        let segment = segment.expect("numbers below the bound");
        let last = ends.last().copied().unwrap_or(0);
        assert!(segment.start >= last, "{segment:?} after {last}");
        ends.push(segment.end);
        until("Redis knows it", LIMIT, async || {
            let stored = setting.redis.stored_state().await.unwrap().unwrap();
            let is_newer = stored.token > backup.token;
            (is_newer && stored.drawn.allocated >= segment.end * 1000).then_some(())
        })
        .await;
        replica.end().await;
        let lost = setting.state().await;
        set_back(
            &setting,
            &PublisherState {
                lease_until: 0,
                ..backup.clone()
            },
        )
        .await;
        let numbers = "UPDATE issuers SET next = 0; DELETE FROM bounds WHERE bound >";
        setting.execute(format!("{numbers} {bound}")).await;
        replica = setting.replica();
        setting.await_generation(&replica, lost.generation).await;
    }
}

#[tokio::test]
async fn database_when_it_went_back_without_redis_is_repaired() {
    let mut setting = Setting::new().await;
    let replica = setting.replica();
    replica.publishes().await;
    let backup = setting.state().await;
    setting.await_token(backup.token + 1).await;
    let (lost, repaired) = set_back_without_redis(&mut setting, &backup).await;
    assert!(repaired.token > lost.token && repaired.rev_floor > lost.now);
    setting.server.restart().await;
    setting
        .await_generation(&replica, repaired.generation - 1)
        .await;
    assert!(setting.generations().await.1, "caches drop everything");
}

#[tokio::test]
async fn repair_when_it_failed_is_made_later() {
    let setting = Setting::new().await;
    let replica = replica_with(&setting.store, &setting.redis, MAX_LEASE);
    replica.publishes().await;
    let refuse = "CREATE TRIGGER refuse BEFORE UPDATE ON publisher WHEN NEW.generation != OLD.generation \
                  BEGIN SELECT RAISE(ABORT, 'not yet'); END";
    setting.execute(refuse.to_owned()).await;
    let lost = setting.state().await;
    setting
        .execute("UPDATE publisher SET token = token - 1".to_owned())
        .await;
    // What is noticed shows once: the token is that of before then.
    until("the token from before", LIMIT, async || {
        (setting.state().await.token >= lost.token).then_some(())
    })
    .await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    setting.execute("DROP TRIGGER refuse".to_owned()).await;
    let after = setting.await_generation(&replica, lost.generation).await;
    assert_eq!(after.skipped_in, after.generation);
    assert!(setting.generations().await.1, "caches drop everything");
}

#[tokio::test]
async fn publisher_when_it_knows_of_a_loss_takes_the_lease() {
    let setting = Setting::new().await;
    let first = replica_with(&setting.store, &setting.redis, MAX_LEASE);
    first.publishes().await;
    let lost = setting.state().await;
    let url = format!("sqlite://{}/edgelink.db", setting.folder.path().display());
    let store = connect(&StoreConfig::at(&url)).await.unwrap();
    let knows = replica(&store, &setting.redis);
    until("it follows", LIMIT, async || {
        (knows.status.get() == PublishedBy::Another).then_some(())
    })
    .await;
    first.task.abort();
    let PublisherState { token, now, .. } = lost;
    let lease_until = now / 1000 + 60_000;
    setting
        .execute(format!(
            "UPDATE publisher SET token = {token} - 1, owner = 'unaware', lease_until = {lease_until}"
        ))
        .await;
    let after = setting.await_generation(&knows, lost.generation).await;
    assert!(after.token > token && after.skipped_in == after.generation);
    assert!(setting.generations().await.1, "caches drop everything");
}

#[tokio::test]
async fn flush_when_redis_missed_it_is_made_by_the_next_publisher() {
    let mut setting = Setting::new().await;
    let replica = setting.replica();
    replica.publishes().await;
    let backup = setting.state().await;
    setting.await_token(backup.token + 1).await;
    let (_, repaired) = set_back_without_redis(&mut setting, &backup).await;
    replica.task.abort();
    setting.server.restart().await;
    let next = setting.replica();
    setting.await_generation(&next, repaired.generation).await;
    assert!(setting.generations().await.1, "caches drop everything");
}

#[tokio::test]
async fn numbers_when_redis_refuses_generations_are_skipped_once() {
    let setting = Setting::new().await;
    let first = setting.replica();
    first.publishes().await;
    first.end().await;
    // The clock of the lost database was ahead.
    let ahead = (setting.state().await.generation * 2).to_string();
    let _ = setting
        .server
        .ask(&["HSET", "{feed}:state", "generation", &ahead]);
    setting.take_writes(false);
    let mut allocated = vec![setting.store.bound_state().await.unwrap().drawn.allocated];
    for _ in 0..3 {
        let next = setting.replica();
        next.gives_up().await;
        next.end().await;
        allocated.push(setting.store.bound_state().await.unwrap().drawn.allocated);
    }
    assert!(allocated[1] > allocated[0], "{allocated:?}");
    assert_eq!(allocated[1..], [allocated[1]; 3]);
    setting.take_writes(true);
    setting.replica().publishes().await;
    assert!(setting.generations().await.1, "caches drop everything");
}

#[tokio::test]
async fn database_when_redis_has_a_later_generation_is_repaired() {
    let setting = Setting::new().await;
    let first = setting.replica();
    first.publishes().await;
    let backup = setting.state().await;
    let _ = setting.server.ask(&["FLUSHALL"]);
    let lost = setting.await_generation(&first, backup.generation).await;
    first.end().await;
    // Its token has grown beyond the lost one meanwhile.
    let restored = PublisherState {
        token: lost.token + 100,
        lease_until: 0,
        ..backup
    };
    let numbers = setting.store.bound_state().await.unwrap();
    set_back(&setting, &restored).await;
    let next = setting.replica();
    setting.await_generation(&next, lost.generation).await;
    assert!(setting.store.bound_state().await.unwrap().drawn.allocated > numbers.drawn.allocated);
}

/// Notes how old beats say that they are, and how old they are.
struct Ages(Mutex<Vec<(Duration, Duration)>>);

impl Listener for Ages {
    fn apply(&self, message: &FeedMessage<'_>) {
        if let FeedMessage::Beat(beat) = message {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
            let is = now.saturating_sub(Duration::from_micros(beat.at));
            let says = Duration::from_millis(beat.age_millis.into());
            self.0.lock().unwrap().push((says, is));
        }
    }

    fn invalidate_all(&self) {}
}

#[tokio::test]
async fn beat_when_long_after_its_look_carries_its_age() {
    let (folder, _) = sqlite_store().await;
    let url = format!("sqlite://{}/edgelink.db", folder.path().display());
    let patient = StoreConfig {
        timeout_ms: LIMIT,
        ..StoreConfig::at(&url)
    };
    let store = connect(&patient).await.unwrap();
    let ages = Arc::new(Ages(Mutex::default()));
    let feed = Arc::new(Feed::new(&FeedConfig::default(), vec![ages.clone()]));
    let stop = CancellationToken::new();
    let publisher = Publisher::new(
        store,
        FeedSink::Local(feed.clone()),
        feed,
        &config(Duration::from_secs(60)),
        &clicks(),
        BoundPolicy::Ahead(1_000_000_000),
        Arc::new(Notify::new()),
    );
    let task = tokio::spawn(publisher.run(stop.clone()));
    let beats = async |count| {
        until("beats", LIMIT, async || {
            (ages.0.lock().unwrap().len() >= count).then_some(())
        })
        .await;
    };
    beats(3).await;
    // Between look and beat the change has to be forgotten, half a second after it is published, and that waits for another writer.
    let mut database = SqliteConnection::connect(&url).await.unwrap();
    let script = "BEGIN IMMEDIATE; INSERT INTO outbox (link_keys, records, created_at) VALUES (X'00000003612f78', X'', 0); \
                  COMMIT; BEGIN IMMEDIATE";
    sqlx::raw_sql(script).execute(&mut database).await.unwrap();
    tokio::time::sleep(Duration::from_millis(2200)).await;
    sqlx::raw_sql("ROLLBACK")
        .execute(&mut database)
        .await
        .unwrap();
    beats(20).await;
    // The first one only names the generation.
    let ages = ages.0.lock().unwrap()[1..].to_vec();
    let oldest = ages.iter().map(|(says, _)| *says).max().unwrap();
    assert!(oldest > Duration::from_millis(900), "{oldest:?}");
    // Those of the first generation say how long ago that began.
    let slack = Duration::from_millis(500);
    assert!(
        ages.iter().all(|(says, is)| *is < *says + slack),
        "{ages:?}"
    );
    stop.cancel();
    task.await.unwrap();
}

#[tokio::test]
async fn database_when_it_went_back_is_noticed_by_a_new_publisher() {
    let setting = Setting::new().await;
    let first = setting.replica();
    first.publishes().await;
    let backup = setting.state().await;
    setting.await_token(backup.token + 2).await;
    first.end().await;
    let lost = setting.state().await;
    for behind in [2, 1] {
        // The token that it gets is older than, or the same as, the one that Redis has seen.
        let state = setting.redis.stored_state().await.unwrap().unwrap();
        let before = setting.state().await;
        let token = state.token - behind;
        set_back(
            &setting,
            &PublisherState {
                token,
                lease_until: 0,
                ..before.clone()
            },
        )
        .await;
        let next = setting.replica();
        let after = setting.await_generation(&next, before.generation).await;
        assert!(after.token > state.token, "{behind}");
        assert!(after.rev_floor > lost.now);
        next.end().await;
    }
    assert!(setting.generations().await.1);
}

#[tokio::test]
async fn change_when_below_the_revision_floor_makes_caches_ask() {
    let setting = Setting::new().await;
    setting.create(0..1).await;
    // Its revision is below what caches may have got since.
    let far = u64::MAX / 4;
    setting
        .execute(format!("UPDATE publisher SET rev_floor = {far}"))
        .await;
    let replica = setting.replica();
    setting.await_empty_outbox().await;
    let entries = setting.entries().await;
    let changed = FeedMessage::Changed {
        key: "a.example/c0",
    };
    assert!(entries.iter().any(|entry| entry.message() == Ok(changed)));
    replica.stop.cancel();
}

#[tokio::test]
async fn publisher_when_it_was_paused_is_fenced_by_the_next_one() {
    let setting = Setting::new().await;
    let replica = setting.replica();
    replica.publishes().await;
    let state = setting.state().await;
    // As if it had been paused with this lease.
    let paused = edgelink_redis::Append {
        token: state.token,
        owner: &state.owner,
        installation: &state.installation,
        generation: state.generation,
        after: state.position,
        begins: false,
        flushed_in: 0,
        beat: None,
        drawn: Drawn::default(),
    };
    replica.end().await;
    let next = setting.replica();
    next.publishes().await;
    let put = FeedMessage::Del {
        key: "a.example/c0",
        rev: 1,
    };
    let done = setting.redis.append(&paused, &[put]).await.unwrap();
    assert!(
        matches!(done, edgelink_redis::Appended::Fenced(token) if token > state.token),
        "{done:?}"
    );
    let ids = [1, 2, 3];
    setting.create(0..5).await;
    let is_done = setting
        .store
        .forget_published(
            state.token,
            state.position,
            &ids.iter().copied().collect(),
            0,
        )
        .await;
    assert!(!is_done.unwrap());
}

#[tokio::test]
async fn installations_when_two_share_a_redis_leave_the_first_alone() {
    let setting = Setting::new().await;
    let ours = setting.replica();
    ours.publishes().await;
    let before = setting.state().await;
    let (_folder, other) = sqlite_store().await;
    let theirs = replica(&other, &setting.redis);
    theirs.gives_up().await;
    tokio::time::sleep(LEASE).await;
    assert_eq!(setting.state().await.generation, before.generation);
    assert_eq!(ours.status.get(), PublishedBy::This);
    assert!(ours.feed.is_current());
}

#[tokio::test]
async fn cluster_when_failed_over_gets_a_generation_without_loss() {
    let (_folder, store) = sqlite_store().await;
    let mut cluster = RedisCluster::start().await;
    let redis = connected(&cluster.url()).await;
    let replica = replica(&store, &redis);
    replica.publishes().await;
    create(&store, 0..35).await;
    await_empty_outbox(&store).await;
    let before = store.publisher().await.unwrap();
    cluster.kill_master_of("feed");
    create(&store, 35..70).await;
    until("another generation", LIMIT * 2, async || {
        let state = store.publisher().await.unwrap();
        let current = replica.feed.current()?;
        (current.generation == state.generation && state.generation > before.generation)
            .then_some(())
    })
    .await;
    await_empty_outbox(&store).await;
}
