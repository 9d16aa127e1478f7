//! Queues while removed rows stay in their tables, and rows of transactions that commit late.

use crate::store::clicking::{batch, now, report};
use crate::store::fixture::{Database, create, key, link, migrated, patient};
use edgelink_settings::config::VisitsConfig;
use edgelink_store::{FeedKind, LeaseClaim, MarkedQueue, OutboxRuns, Store};
use edgelink_tests::servers::MariaDb;
use edgelink_wire::{FeedPosition, VisitsRequest};
use sqlx::{AssertSqlSafe, Connection, MySqlConnection, raw_sql};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

on_every_database!(
    changes_up_to_the_mark_when_it_is_lowered_are_read,
    reports_up_to_the_mark_when_it_is_lowered_are_read,
    changes_when_published_are_read_no_more_before_they_are_removed,
);

/// The token of a lease that was taken now.
async fn lease(store: &Store) -> u64 {
    let claim = LeaseClaim {
        owner: "one",
        kind: FeedKind::Redis,
        lease_millis: 60_000,
        published: None,
        seen: (0, FeedPosition::START),
        lost: None,
    };
    let taken = store.take_publisher_lease(&claim).await.unwrap();
    taken.expect("the lease").token
}

async fn waiting(store: &Store) -> Vec<u64> {
    let pending = store.pending(10).await.unwrap();
    let batches = pending.batches.iter();
    let ids: Vec<u64> = batches.map(|batch| batch.id).collect();
    let keys = store.pending_keys(10).await.unwrap().keys.len();
    let rows = store.outbox_size().await.unwrap().rows;
    assert_eq!((keys, rows), (ids.len(), ids.len() as u64));
    ids
}

async fn changes_up_to_the_mark_when_it_is_lowered_are_read(database: Database) {
    let store = database.store().await;
    // A process that knows the mark as it was.
    let other = database.store().await;
    for id in 1..=3 {
        let new = link(id, &format!("c{id}"));
        create(store.as_ref(), new).await.unwrap();
    }
    let ids = waiting(&store).await;
    let token = lease(&store).await;
    let forget = async |row: u64, mark| {
        let position = FeedPosition::new(7, row);
        let done = store
            .forget_published(token, position, &[row].into_iter().collect(), mark)
            .await;
        assert!(done.unwrap());
    };
    forget(ids[0], ids[1]).await;
    // With a lower mark than that of the row, more is read.
    for store in [&store, &other] {
        assert_eq!(store.pending(10).await.unwrap().batches.len(), 2);
        assert_eq!(waiting(store).await, ids[2..]);
    }
    // Late calls do not set it back.
    forget(ids[0], 0).await;
    assert_eq!(waiting(&store).await, ids[2..]);
    let oldest = async |to| store.oldest_of(MarkedQueue::Outbox, 0, to).await.unwrap();
    assert_eq!(oldest(ids[1]).await, Some(ids[1]));
    assert_eq!(oldest(ids[0]).await, None);
    assert!(!store.lower_outbox_mark(token - 1, ids[1]).await.unwrap());
    assert_eq!(waiting(&store).await, ids[2..]);
    assert!(store.lower_outbox_mark(token, ids[1]).await.unwrap());
    for store in [&store, &other] {
        assert_eq!(waiting(store).await, ids[1..]);
    }
}

async fn changes_when_published_are_read_no_more_before_they_are_removed(database: Database) {
    let store = database.store().await;
    for id in 1..=6 {
        create(store.as_ref(), link(id, &format!("c{id}")))
            .await
            .unwrap();
    }
    let all = store.pending(10).await.unwrap();
    let ids = waiting(&store).await;
    // A number in between stands for a transaction that has yet to commit.
    let late = 3;
    let mut published = OutboxRuns::default();
    for batch in all
        .batches
        .iter()
        .take(5)
        .filter(|batch| batch.id != ids[late])
    {
        published.add(batch.id, batch.created_at);
    }
    let left = async || {
        let pending = store.pending_beside(&published, 10).await.unwrap();
        let ids: Vec<u64> = pending.batches.iter().map(|batch| batch.id).collect();
        (ids, pending.went_back)
    };
    assert_eq!(left().await, (vec![ids[late], ids[5]], false));
    let token = lease(&store).await;
    let forget = async |token, published: &OutboxRuns| {
        let position = FeedPosition::new(7, 0);
        let done = store.forget_published(token, position, published, 0).await;
        done.unwrap()
    };
    assert!(
        !forget(token - 1, &published).await,
        "of a former publisher"
    );
    assert_eq!(waiting(&store).await, ids);
    for _ in 0..2 {
        assert!(forget(token, &published).await);
        assert_eq!(waiting(&store).await, [ids[late], ids[5]]);
    }
    assert_eq!(
        left().await,
        (vec![ids[late], ids[5]], true),
        "they are gone"
    );
    // Other rows have their numbers.
    let again: Vec<String> = ids[..5].iter().map(u64::to_string).collect();
    for id in again.iter().filter(|id| **id != ids[late].to_string()) {
        let row = format!(
            "INSERT INTO outbox (id, link_keys, records, created_at) VALUES ({id}, X'', X'', 1)"
        );
        database.execute(&row).await;
    }
    assert!(left().await.1);
}

async fn reports_up_to_the_mark_when_it_is_lowered_are_read(database: Database) {
    let store = database.store().await;
    for seq in 1..=3 {
        let report = report(&[batch([1; 16], seq)], now());
        store.clicks().count_clicks(&[report]).await.unwrap();
    }
    let waiting = async || {
        let reports = store.clicks().queued_reports(10, 1 << 20).await.unwrap();
        let bytes: usize = reports.iter().map(|report| report.body.len()).sum();
        assert_eq!(store.clicks().queued_bytes().await.unwrap(), bytes as u64);
        let oldest = reports.first().map(|report| report.received_at);
        assert_eq!(store.clicks().oldest_report().await.unwrap(), oldest);
        reports.iter().map(|report| report.id).collect::<Vec<_>>()
    };
    let ids = waiting().await;
    store.clicks().raise_queue_mark(ids[1]).await.unwrap();
    assert_eq!(waiting().await, ids[2..]);
    store.clicks().raise_queue_mark(ids[0]).await.unwrap();
    assert_eq!(waiting().await, ids[2..]);
    let oldest = store
        .oldest_of(MarkedQueue::Clicks, 0, ids[1])
        .await
        .unwrap();
    assert_eq!(oldest, Some(ids[0]));
    store.clicks().lower_queue_mark(ids[1]).await.unwrap();
    assert_eq!(waiting().await, ids[1..]);
}

/// A server of its own, on which nothing else reads pages.
struct Server {
    server: MariaDb,
    store: Arc<Store>,
    connection: MySqlConnection,
}

impl Server {
    async fn start() -> Self {
        let server = MariaDb::start();
        let url = server.database();
        let store = migrated(&patient(&url)).await;
        let connection = MySqlConnection::connect(&url).await.unwrap();
        Self {
            server,
            store,
            connection,
        }
    }

    async fn execute(&mut self, script: &str) {
        let script = AssertSqlSafe(script.to_owned());
        raw_sql(script).execute(&mut self.connection).await.unwrap();
    }

    /// How many pages the server has looked at so far.
    fn pages(&self) -> u64 {
        let status = "SHOW GLOBAL STATUS LIKE 'Innodb_buffer_pool_read_requests'";
        let status = self.server.execute(status);
        let pages = status.split_whitespace().last().unwrap();
        pages.parse().unwrap()
    }

    /// How many pages a call takes: the fewest of some calls, because the server has work of its own.
    async fn pages_of<T>(&self, call: impl AsyncFn(&Store) -> T) -> u64 {
        let mut fewest = u64::MAX;
        for _ in 0..5 {
            let before = self.pages();
            call(&self.store).await;
            fewest = fewest.min(self.pages() - before);
        }
        fewest
    }
}

/// How many pages each read of the queues takes, with one row in each.
async fn pages_of_queues(server: &Server) -> [u64; 6] {
    [
        server
            .pages_of(async |store| assert_eq!(store.pending(1).await.unwrap().batches.len(), 1))
            .await,
        server
            .pages_of(async |store| store.pending_keys(1).await.unwrap())
            .await,
        server
            .pages_of(async |store| assert_eq!(store.outbox_size().await.unwrap().rows, 1))
            .await,
        server
            .pages_of(async |store| {
                assert_eq!(store.clicks().queued_reports(1, 1).await.unwrap().len(), 1);
            })
            .await,
        server
            .pages_of(async |store| store.clicks().queued_bytes().await.unwrap())
            .await,
        server
            .pages_of(async |store| store.clicks().oldest_report().await.unwrap())
            .await,
    ]
}

/// As many rows as a minute of changes, removed while a dump has its snapshot.
#[tokio::test]
async fn queue_reads_when_a_snapshot_keeps_removed_rows_skip_them() {
    let mut server = Server::start().await;
    let mut dump = MySqlConnection::connect(&server.server.url("test_0"))
        .await
        .unwrap();
    let begin = "START TRANSACTION WITH CONSISTENT SNAPSHOT; SELECT COUNT(*) FROM outbox";
    raw_sql(begin).execute(&mut dump).await.unwrap();
    let rows = "FROM seq_1_to_20000";
    server
        .execute(&format!(
            "INSERT INTO outbox (link_keys, records, created_at) SELECT '', REPEAT('x', 200), 0 {rows}; \
             INSERT INTO click_queue (received_at, bytes, body) SELECT 0, 200, REPEAT('x', 200) {rows}; \
             DELETE FROM outbox; DELETE FROM click_queue"
        ))
        .await;
    let store = Arc::clone(&server.store);
    create(store.as_ref(), link(1, "x")).await.unwrap();
    let clicks = report(&[batch([1; 16], 1)], now());
    store.clicks().count_clicks(&[clicks]).await.unwrap();
    let row = store.pending(1).await.unwrap().batches[0].id;
    let report = store.clicks().queued_reports(1, 1).await.unwrap()[0].id;

    let walked = pages_of_queues(&server).await;
    let token = lease(&store).await;
    let position = FeedPosition::new(7, 7);
    let raised = store
        .forget_published(token, position, &[row - 1].into_iter().collect(), row - 1)
        .await;
    assert!(raised.unwrap());
    store.clicks().raise_queue_mark(report - 1).await.unwrap();
    let pages = pages_of_queues(&server).await;
    for (pages, walked) in pages.into_iter().zip(walked) {
        assert!(pages * 2 < walked, "{pages} of {walked}");
    }
    drop(dump);
}

#[tokio::test]
async fn delivery_reads_when_a_snapshot_keeps_done_ones_skip_them() {
    let mut server = Server::start().await;
    let mut dump = MySqlConnection::connect(&server.server.url("test_0"))
        .await
        .unwrap();
    let begin = "START TRANSACTION WITH CONSISTENT SNAPSHOT; SELECT COUNT(*) FROM outbox";
    raw_sql(begin).execute(&mut dump).await.unwrap();
    server
        .execute(
            "INSERT INTO webhooks (id, tenant_id, url, events, secret, state, created_at, updated_at) \
             VALUES (1, 1, 'https://x.example/', 1, REPEAT('x', 32), 'active', 0, 0); \
             INSERT INTO webhook_deliveries (webhook_id, waiting, event, message_id, body, state, created_at, next_at) \
             SELECT 1, 1, 'ping', 'm', '{}', 'pending', 0, seq FROM seq_1_to_100000; \
             UPDATE webhook_deliveries SET waiting = NULL",
        )
        .await;
    let walked = server
        .pages_of(async |store| store.longest_due_millis().await.unwrap())
        .await;
    let looked = server
        .pages_of(async |store| {
            let due = store.due_deliveries(1, &[], 10).await.unwrap();
            assert_eq!(due.expect("a webhook").1, []);
        })
        .await;
    let found = server
        .pages_of(async |store| assert_eq!(store.due_webhooks(0, &[], &[], 10).await.unwrap(), []))
        .await;
    let counted = server
        .pages_of(async |store| assert!(!store.disable_if_full(1, 100).await.unwrap()))
        .await;
    assert!(walked > 100, "{walked}");
    for pages in [looked, found, counted] {
        assert!(pages < walked / 4, "{pages} of {walked}");
    }
    // What comes is found.
    server
        .execute(
            "UPDATE webhook_deliveries SET waiting = 1, next_at = UNIX_TIMESTAMP() * 1000 WHERE id = 7",
        )
        .await;
    let due = server.store.due_deliveries(1, &[], 10).await.unwrap();
    assert_eq!(due.expect("a webhook").1.len(), 1);
    let due = server.store.due_webhooks(0, &[], &[], 10).await.unwrap();
    assert_eq!(due.len(), 1);
    drop(dump);
}

#[tokio::test]
async fn use_lease_when_beside_thousands_reads_few_pages() {
    let mut server = Server::start().await;
    let mut new = link(1, "a");
    new.content.details.max_visits = Some(1 << 30);
    create(server.store.as_ref(), new).await.unwrap();
    let config = VisitsConfig::default();
    let lease = async |store: &Store, number| {
        let request = VisitsRequest {
            worker: [0; 16],
            number,
            settled: None,
            wants: true,
        };
        let key = key("a.example/a");
        let answer = store.lease_visits(&key, &request, &config).await;
        answer.unwrap().expect("a block")
    };
    lease(&server.store, 1).await;
    // In the state in which a control plane that knows the sums leaves them.
    server
        .execute(
            "INSERT INTO visit_leases (link_id, worker, number, size, settled, lease_until, back_at) \
             SELECT 1, UNHEX(LPAD(HEX(seq), 32, '0')), 1, 1, 0, 9000000000000, 9000000000000 FROM seq_1_to_100000; \
             UPDATE visits SET leased = leased + 100000 WHERE link_id = 1",
        )
        .await;
    let all = server
        .pages_of(async |_| {
            let all =
                "SELECT SUM(size) FROM test_0.visit_leases IGNORE INDEX (visit_leases_by_return)";
            server.server.execute(all)
        })
        .await;
    let number = AtomicU64::new(2);
    let one = server
        .pages_of(async |store| lease(store, number.fetch_add(1, Ordering::Relaxed)).await)
        .await;
    assert!(one * 2 < all, "{one} of {all}");
}
