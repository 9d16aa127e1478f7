//! Rows that stay locked, and crowds that want them: what others notice.

use crate::store::fixture::{Database, checked, content, create, key, link, migrated};
use edgelink_model::links::model::{Link, LinkContent, LinkDetails};
use edgelink_settings::config::{StoreConfig, VisitsConfig};
use edgelink_store::{
    Actor, CreateError, FeedKind, LeaseClaim, Limit, NewLink, Store, StoreError, WantedNames,
};
use edgelink_tests::stack::until;
use edgelink_wire::{FeedPosition, LinkKey};
use sqlx::{AssertSqlSafe, Connection, Error, MySqlConnection, raw_sql};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::task::JoinSet;

const LIMIT: Duration = Duration::from_secs(60);

/// A session from outside, which holds locks until it is dropped.
struct Outsider(MySqlConnection);

impl Outsider {
    /// Locks the rows that it names and no other: at READ COMMITTED neither gaps nor rows that a scan only passes stay locked.
    async fn new(database: &Database) -> Self {
        let connection = MySqlConnection::connect(database.url()).await;
        let mut outsider = Self(connection.expect("a connection"));
        outsider
            .execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
            .await;
        outsider
    }

    async fn execute(&mut self, script: &str) {
        let done = raw_sql(AssertSqlSafe(script.to_owned())).execute(&mut self.0);
        done.await.expect("statements");
    }

    async fn lock_link(&mut self, id: u64) {
        let lock = format!("START TRANSACTION; SELECT * FROM links WHERE id = {id} FOR UPDATE");
        self.execute(&lock).await;
    }

    async fn count(&mut self, query: &str) -> i64 {
        loop {
            let count = sqlx::query_scalar(AssertSqlSafe(query.to_owned()));
            match count.fetch_one(&mut self.0).await {
                Ok(count) => return count,
                // MySQL has no answer while a statement of another test, which it would show, has bytes in it.
                Err(Error::Database(error)) if error.message().starts_with("Cannot convert") => {}
                Err(error) => panic!("{query}: {error}"),
            }
        }
    }
}

/// Less patience than in other tests: calls that wait for a row are to give up before long.
fn impatient(database: &Database) -> StoreConfig {
    StoreConfig {
        timeout_ms: Duration::from_secs(3),
        ..StoreConfig::at(database.url())
    }
}

/// How many statements of this database lock a link, or wait for its lock. What InnoDB tells of transactions stays as it is while it
/// is asked again and again.
const WAITING: &str = "SELECT COUNT(*) FROM information_schema.processlist \
     WHERE db = DATABASE() AND id <> CONNECTION_ID() AND info LIKE '%FROM links%FOR UPDATE%'";

/// Changes of links by clients that try again until they are stopped.
struct Crowd {
    stop: Arc<AtomicBool>,
    refused: Arc<AtomicU64>,
    tasks: JoinSet<()>,
}

impl Crowd {
    fn change(store: &Arc<Store>, links: &[LinkKey], each: usize) -> Self {
        let (stop, refused) = <(Arc<AtomicBool>, Arc<AtomicU64>)>::default();
        let mut tasks = JoinSet::new();
        for key in links.iter().cycle().take(links.len() * each) {
            let (store, key) = (Arc::clone(store), key.clone());
            let (stop, refused) = (Arc::clone(&stop), Arc::clone(&refused));
            tasks.spawn(async move {
                while !stop.load(Ordering::Relaxed) {
                    if change(&store, &key).await.is_err() {
                        refused.fetch_add(1, Ordering::Relaxed);
                    }
                    tokio::task::yield_now().await;
                }
            });
        }
        Self {
            stop,
            refused,
            tasks,
        }
    }

    /// Returns when so many changes were refused.
    async fn await_refusals(&self, count: u64) {
        until("changes are refused", LIMIT, async || {
            (self.refused.load(Ordering::Relaxed) >= count).then_some(())
        })
        .await;
    }

    async fn finish(self) {
        self.stop.store(true, Ordering::Relaxed);
        self.tasks.join_all().await;
    }
}

async fn change(store: &Store, key: &LinkKey) -> Result<(), StoreError> {
    let change = Box::new(|_: &Link| Ok(checked(&content("https://new.example/"))));
    let actor = Actor::command_line(1);
    store.update_link(key, change, &actor).await.map(drop)
}

async fn visit(store: &Store, key: &LinkKey) -> Result<bool, StoreError> {
    store.take_visit(key, &VisitsConfig::default()).await
}

async fn links(store: &Store, count: u64) -> Vec<LinkKey> {
    let mut keys = Vec::new();
    for id in 1..=count {
        let made = create(store, link(id, &format!("crowded-{id}"))).await;
        keys.push(made.unwrap().key());
    }
    keys
}

fn limited(id: u64, code: &str) -> NewLink {
    let details = LinkDetails {
        max_visits: Some(1_000_000),
        ..LinkDetails::default()
    };
    let content = LinkContent {
        details,
        ..content("https://x.example/")
    };
    NewLink::new(id, key(&format!("a.example/{code}")), content)
}

/// What others do meanwhile, none of which may fail.
async fn assert_others_notice_nothing(store: &Store, ids: std::ops::Range<u64>) {
    let limited_key = key("a.example/limited");
    for id in ids {
        let made = create(store, link(id, &format!("other-{id}"))).await;
        let made = made.unwrap();
        change(store, &made.key()).await.unwrap();
        assert!(store.find_link(&made.key()).await.unwrap().is_some());
        store.resolve(&made.key()).await.unwrap();
        assert!(visit(store, &limited_key).await.unwrap());
    }
}

/// The token of the publisher's lease.
async fn lease(store: &Store, owner: &str) -> u64 {
    let claim = LeaseClaim {
        owner,
        kind: FeedKind::Local,
        lease_millis: 60_000,
        published: None,
        seen: (0, FeedPosition::START),
        lost: None,
    };
    let state = store.take_publisher_lease(&claim).await.unwrap();
    state.expect("the lease").token
}

/// What the publisher does in a round, and a draw of numbers.
async fn assert_publisher_goes_on(store: &Store, owner: &str) {
    for _ in 0..3 {
        let token = lease(store, owner).await;
        let bound = store.bound_state().await.unwrap();
        store.add_bound(bound.bound + 1).await.unwrap();
        store.pending(100).await.unwrap();
        let position = store.publisher().await.unwrap().position;
        let kept = store
            .forget_published(token, position, &[0].into_iter().collect(), 0)
            .await
            .unwrap();
        assert!(kept);
        store.draw_segment(7, 10).await.unwrap();
        store.outbox_size().await.unwrap();
    }
}

/// A transaction that stays open behind published rows does not keep them in the outbox.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn published_rows_when_the_next_one_is_locked_are_forgotten() {
    let database = Database::on_server().await;
    let store = migrated(&impatient(&database)).await;
    links(&store, 3).await;
    let token = lease(&store, "one").await;
    let ids = async || {
        let pending = store.pending(10).await.unwrap();
        let ids: Vec<u64> = pending.batches.iter().map(|batch| batch.id).collect();
        ids
    };
    let all = ids().await;
    let mut outsider = Outsider::new(&database).await;
    let last = all[2];
    let lock = format!("START TRANSACTION; SELECT * FROM outbox WHERE id = {last} FOR UPDATE");
    outsider.execute(&lock).await;
    let published = all[..2].iter().copied().collect();
    let position = store.publisher().await.unwrap().position;
    let forgotten = store.forget_published(token, position, &published, 0);
    assert!(forgotten.await.unwrap());
    assert_eq!(ids().await, [last]);
}

/// 64 clients want one row that stays locked: they wait without connections.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn row_when_it_stays_locked_costs_one_connection() {
    let database = Database::on_server().await;
    let store = migrated(&impatient(&database)).await;
    let keys = links(&store, 1).await;
    create(&store, limited(50, "limited")).await.unwrap();
    let mut outsider = Outsider::new(&database).await;
    outsider.lock_link(1).await;
    let crowd = Crowd::change(&store, &keys, 64);
    let mut observer = Outsider::new(&database).await;
    until("the row is waited for", LIMIT, async || {
        (observer.count(WAITING).await > 0).then_some(())
    })
    .await;
    let mut most = 0;
    for round in 0..10u64 {
        assert_others_notice_nothing(&store, 100 + round * 10..110 + round * 10).await;
        most = most.max(observer.count(WAITING).await);
    }
    crowd.await_refusals(64).await;
    most = most.max(observer.count(WAITING).await);
    assert_eq!(most, 1);
    let refused = change(&store, &keys[0]).await;
    assert!(refused.unwrap_err().is_transient());
    outsider.execute("ROLLBACK").await;
    crowd.finish().await;
    change(&store, &keys[0]).await.unwrap();
}

/// As many rows as there are connections, each wanted by some.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_when_many_stay_locked_leave_connections_to_others() {
    let database = Database::on_server().await;
    let store = migrated(&impatient(&database)).await;
    let keys = links(&store, 32).await;
    create(&store, limited(50, "limited")).await.unwrap();
    let mut outsider = Outsider::new(&database).await;
    let lock = "START TRANSACTION; SELECT * FROM links WHERE id <= 32 FOR UPDATE";
    outsider.execute(lock).await;
    let crowd = Crowd::change(&store, &keys, 4);
    crowd.await_refusals(32).await;
    let limited_key = key("a.example/limited");
    for id in 100..140 {
        let made = create(&store, link(id, &format!("other-{id}"))).await;
        let made = made.unwrap();
        assert!(store.find_link(&made.key()).await.unwrap().is_some());
        assert!(visit(&store, &limited_key).await.unwrap());
    }
    assert_publisher_goes_on(&store, "publisher").await;
    let mut observer = Outsider::new(&database).await;
    let most = observer.count(WAITING).await;
    assert!(most < 16, "{most} connections wait for rows");
    outsider.execute("ROLLBACK").await;
    crowd.finish().await;
}

/// A table that is locked stops what all classes do with links.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn publisher_when_all_classes_lack_connections_goes_on() {
    let database = Database::on_server().await;
    let store = migrated(&impatient(&database)).await;
    let keys = links(&store, 32).await;
    assert_publisher_goes_on(&store, "publisher").await;
    let mut outsider = Outsider::new(&database).await;
    outsider.execute("LOCK TABLES links WRITE").await;
    let crowd = Crowd::change(&store, &keys, 1);
    let stop = Arc::clone(&crowd.stop);
    let mut others = JoinSet::new();
    let failures = Arc::<AtomicU64>::default();
    for n in 0..64 {
        let (store, key, stop) = (store.clone(), keys[n % 32].clone(), Arc::clone(&stop));
        let failures = Arc::clone(&failures);
        others.spawn(async move {
            let note = |failed: bool| failures.fetch_add(u64::from(failed), Ordering::Relaxed);
            while !stop.load(Ordering::Relaxed) {
                note(store.find_link(&key).await.is_err());
                note(store.find_links(std::slice::from_ref(&key)).await.is_err());
                note(visit(&store, &key).await.is_err());
                let new = link(1000 + n as u64, &format!("new-{n}"));
                note(store.create_links(vec![new]).await.is_err());
            }
        });
    }
    crowd.await_refusals(32).await;
    until("connections are used up", LIMIT, async || {
        (failures.load(Ordering::Relaxed) > 0).then_some(())
    })
    .await;
    assert_publisher_goes_on(&store, "publisher").await;
    outsider.execute("UNLOCK TABLES").await;
    crowd.finish().await;
    others.join_all().await;
    assert!(store.find_link(&keys[0]).await.unwrap().is_some());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_when_beyond_the_limit_of_a_row_are_refused_at_once() {
    let database = Database::on_server().await;
    let config = StoreConfig {
        max_waiting_for_row: 2,
        ..crate::store::fixture::patient(database.url())
    };
    let store = migrated(&config).await;
    let keys = links(&store, 1).await;
    let mut outsider = Outsider::new(&database).await;
    outsider.lock_link(1).await;
    let mut calls = JoinSet::new();
    for _ in 0..4 {
        let (store, key) = (store.clone(), keys[0].clone());
        calls.spawn(async move { change(&store, &key).await });
    }
    // One has the turn, and two wait for it.
    let refused = calls.join_next().await.unwrap().unwrap().unwrap_err();
    assert_eq!(refused.limit(), Some(Limit::WaitingForRow));
    assert!(refused.to_string().contains("store.max_waiting_for_row"));
    outsider.execute("ROLLBACK").await;
    while let Some(changed) = calls.join_next().await {
        changed.unwrap().unwrap();
    }
    change(&store, &keys[0]).await.unwrap();
}

/// Neither has a client that left a place in the line, nor its statement one among the connections for ever.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_when_they_leave_hold_up_no_others() {
    let database = Database::on_server().await;
    let store = migrated(&impatient(&database)).await;
    // A line for each, so that as many statements begin as there are connections.
    let keys = links(&store, 16).await;
    let mut outsider = Outsider::new(&database).await;
    outsider
        .execute("START TRANSACTION; SELECT * FROM links WHERE id <= 16 FOR UPDATE")
        .await;
    let mut observer = Outsider::new(&database).await;
    let crowd = || {
        let calls = keys.iter().cloned().map(|key| {
            let store = store.clone();
            async move { change(&store, &key).await }
        });
        calls.collect::<JoinSet<_>>()
    };
    let mut leaving = crowd();
    until("rows are waited for", LIMIT, async || {
        (observer.count(WAITING).await > 3).then_some(())
    })
    .await;
    leaving.shutdown().await;
    let mut coming = crowd();
    let mut waiting = 0;
    while !coming.is_empty() {
        waiting = waiting.max(observer.count(WAITING).await);
        while coming.try_join_next().is_some() {}
    }
    assert!(
        waiting <= 7,
        "{waiting} statements wait, with those that were given up"
    );
    outsider.execute("ROLLBACK").await;
    until("the link is changed", LIMIT, async || {
        change(&store, &keys[0]).await.ok()
    })
    .await;
}

/// Inserting a code that a locked link has waits for it, and so would all links of the same commit.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_when_their_link_is_locked_are_taken_without_waiting() {
    let database = Database::on_server().await;
    let store = migrated(&impatient(&database)).await;
    let named = NewLink {
        content: LinkContent {
            external_id: Some("theirs".to_owned()),
            ..content("https://x.example/")
        },
        ..link(1, "taken")
    };
    create(&store, named).await.unwrap();
    let mut outsider = Outsider::new(&database).await;
    outsider.lock_link(1).await;
    assert_names_are_known(&store).await;
    outsider.execute("ROLLBACK").await;
}

async fn assert_names_are_known(store: &Store) {
    let domain = key("a.example/x").domain;
    let (taken, free) = (key("a.example/taken").code, key("a.example/free").code);
    let names = |code, external_id| WantedNames {
        tenant_id: 1,
        domain: &domain,
        code,
        external_id,
    };
    let of_other = WantedNames {
        tenant_id: 2,
        ..names(None, Some("theirs"))
    };
    let wanted = [
        names(None, None),
        names(Some(&taken), None),
        names(Some(&free), Some("theirs")),
        names(None, Some("ours")),
        names(Some(&taken), Some("theirs")),
        of_other,
    ];
    let found = store.find_taken(&wanted).await.unwrap();
    let expected = [
        None,
        Some(CreateError::CodeTaken),
        Some(CreateError::ExternalIdTaken),
        None,
        // The external id comes first, as it does where links are created.
        Some(CreateError::ExternalIdTaken),
        None,
    ];
    assert_eq!(found, expected);
}
