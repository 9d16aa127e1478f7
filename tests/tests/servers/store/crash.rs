//! A server that stops, dies and comes back. Always a private MariaDB: a shared server is never killed.

use crate::store::fixture::{create, delete, key, link, migrated};
use edgelink_model::links::checked::CheckedContent;
use edgelink_model::links::model::Link;
use edgelink_numbers::{SegmentOptions, segment};
use edgelink_settings::config::StoreConfig;
use edgelink_store::{Actor, LinkChange, SingleChange, Store, connect};
use edgelink_tests::servers::MariaDb;
use edgelink_wire::LinkKey;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// What a call may take at most while the server answers nothing: the timeout of 1.5 s, and room for a machine that builds
/// meanwhile.
const BOUND: Duration = Duration::from_secs(8);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_when_the_server_is_stopped_fail_in_time_and_recover() {
    let server = MariaDb::start();
    let store = migrated(&StoreConfig::at(&server.database())).await;
    create(&store, link(1, "before")).await.unwrap();
    server.stop();
    for round in 0..2 {
        let tasks: Vec<_> = (0..40)
            .map(|n| {
                let store = Arc::clone(&store);
                tokio::spawn(async move { fails_in_time(&store, round * 100 + n + 10).await })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
    }
    server.cont();
    works_again(&store, 500).await;
    let kept = store.find_link(&key("a.example/before")).await.unwrap();
    assert!(kept.is_some());
}

async fn fails_in_time(store: &Store, id: u64) {
    let start = Instant::now();
    let error = store.create_links(vec![link(id, &format!("c{id}"))]).await;
    let error = error.expect_err("the server is stopped");
    assert!(error.is_transient(), "{error}");
    let start_of_read = Instant::now();
    let error = store.find_link(&key("a.example/before")).await;
    let error = error.expect_err("the server is stopped");
    assert!(error.is_transient(), "{error}");
    assert!(start_of_read - start < BOUND, "{:?}", start_of_read - start);
    assert!(
        start_of_read.elapsed() < BOUND,
        "{:?}",
        start_of_read.elapsed()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acknowledged_links_when_the_server_is_killed_survive() {
    let mut server = MariaDb::start();
    let store = migrated(&StoreConfig::at(&server.database())).await;
    for round in 0..3u64 {
        let writers: Vec<_> = (0..4u64)
            .map(|writer| {
                let store = Arc::clone(&store);
                let first = round * 1_000_000 + writer * 100_000;
                tokio::spawn(async move { create_until_failure(&store, first).await })
            })
            .collect();
        while store
            .find_link(&key(&format!("a.example/c{}", round * 1_000_000 + 20)))
            .await
            .unwrap()
            .is_none()
        {
            tokio::task::yield_now().await;
        }
        server.kill();
        let mut acknowledged = Vec::new();
        for writer in writers {
            acknowledged.extend(writer.await.unwrap());
        }
        let start = Instant::now();
        let error = store.ping().await.expect_err("the server is dead");
        assert!(error.is_transient(), "{error}");
        assert!(start.elapsed() < BOUND);
        server.restart();
        works_again(&store, round * 1_000_000 + 999_999).await;
        for id in acknowledged {
            let found = store.find_link(&key(&format!("a.example/c{id}"))).await;
            assert_eq!(found.unwrap().map(|link| link.id), Some(id));
        }
    }
}

/// A change whose COMMIT was on its way when the server died is committed or not; none that was answered is lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acknowledged_changes_when_the_server_is_killed_survive() {
    let mut server = MariaDb::start();
    let store = migrated(&StoreConfig::at(&server.database())).await;
    let keys: Vec<LinkKey> = (0..4).map(|n| key(&format!("a.example/c{n}"))).collect();
    for n in 0..4 {
        create(&store, link(n, &format!("c{n}"))).await.unwrap();
    }
    let mut counts = [0; 4];
    for _ in 0..3 {
        let begun = Arc::<AtomicU64>::default();
        let writers: Vec<_> = (0..4)
            .map(|writer| {
                let (store, key) = (Arc::clone(&store), keys[writer].clone());
                let (begun, count) = (Arc::clone(&begun), counts[writer]);
                tokio::spawn(async move { change_until_failure(&store, &key, count, &begun).await })
            })
            .collect();
        while begun.load(Ordering::Relaxed) < 100 {
            tokio::task::yield_now().await;
        }
        server.kill();
        let mut acknowledged = Vec::new();
        for writer in writers {
            acknowledged.push(writer.await.unwrap());
        }
        server.restart();
        for (writer, acknowledged) in acknowledged.into_iter().enumerate() {
            let found = store.find_link(&keys[writer]).await.unwrap().unwrap();
            let count: u64 = found
                .content
                .title
                .map_or(0, |title| title.parse().unwrap());
            let possible = acknowledged..=acknowledged + 1;
            assert!(possible.contains(&count), "{count} of {possible:?}");
            counts[writer] = count;
        }
    }
}

/// Counts in the title of a link until an error, which must be transient; answers the last count that was acknowledged.
async fn change_until_failure(store: &Store, key: &LinkKey, from: u64, begun: &AtomicU64) -> u64 {
    let actor = Actor::command_line(1);
    for count in from.. {
        begun.fetch_add(1, Ordering::Relaxed);
        let next = LinkChange::Update(Box::new(move |link: &Link| {
            let mut content = CheckedContent::existing(link);
            content.change_others(|others| others.title = Some((count + 1).to_string()));
            Ok(content)
        }));
        let change = SingleChange {
            key,
            change: &next,
            actor: &actor,
        };
        match store.change_free_links(&[change], ()).await {
            Ok(outcomes) => assert!(matches!(outcomes[..], [Some(Some(Ok(_)))]), "{outcomes:?}"),
            Err(error) => {
                assert!(error.is_transient(), "{error}");
                return count;
            }
        }
    }
    unreachable!()
}

/// Creates links one by one until an error, which must be transient; answers those that were acknowledged.
async fn create_until_failure(store: &Store, first: u64) -> Vec<u64> {
    let mut acknowledged = Vec::new();
    for id in first.. {
        match store.create_links(vec![link(id, &format!("c{id}"))]).await {
            Ok(answers) => {
                assert!(answers[0].is_ok());
                acknowledged.push(id);
            }
            Err(error) => {
                assert!(error.is_transient(), "{error}");
                return acknowledged;
            }
        }
    }
    acknowledged
}

/// The very first call after the server is back succeeds: dead connections are noticed before anything is lost on them.
async fn works_again(store: &Store, id: u64) {
    create(store, link(id, &format!("c{id}"))).await.unwrap();
    store.ping().await.unwrap();
}

/// Shows that a stopped database is not noticed for as long as there are numbers, that the end of them is noticed in
/// time, and that all is well again by itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn drawn_numbers_when_the_server_is_stopped_are_still_issued() {
    let server = MariaDb::start();
    let store = migrated(&StoreConfig::at(&server.database())).await;
    let issuer = segment(store, SegmentOptions::default());
    let first = issuer.next_number().await.unwrap();
    // More than a tenth: the next segment is on its way, and is there when its first number is issued.
    for _ in 0..1000 {
        issuer.next_number().await.unwrap();
    }
    server.stop();
    let mut issued = 1001;
    let (start, error) = loop {
        let start = Instant::now();
        match issuer.next_number().await {
            Ok(_) => issued += 1,
            Err(error) => break (start, error),
        }
    };
    assert!(issued >= 2000, "{issued}");
    assert!(error.is_transient(), "{error}");
    assert!(start.elapsed() < BOUND, "{:?}", start.elapsed());
    server.cont();
    let start = Instant::now();
    let number = loop {
        if let Ok(number) = issuer.next_number().await {
            break number;
        }
    };
    assert!(
        start.elapsed() < Duration::from_secs(5),
        "{:?}",
        start.elapsed()
    );
    assert!(number > first);
}

#[tokio::test]
async fn server_when_absent_is_a_transient_error_in_time() {
    let mut server = MariaDb::start();
    let url = server.database();
    server.kill();
    let start = Instant::now();
    let Err(error) = connect(&StoreConfig::at(&url)).await else {
        panic!("connected");
    };
    assert!(error.is_transient(), "{error}");
    assert!(start.elapsed() < BOUND);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn row_when_locked_by_others_is_a_transient_error() {
    use sqlx::Connection;
    let server = MariaDb::start();
    let url = server.database();
    let store = migrated(&StoreConfig::at(&url)).await;
    create(&store, link(1, "x")).await.unwrap();
    let mut other = sqlx::MySqlConnection::connect(&url).await.unwrap();
    let mut transaction = other.begin().await.unwrap();
    sqlx::query("SELECT id FROM links WHERE id = 1 FOR UPDATE")
        .execute(&mut *transaction)
        .await
        .unwrap();
    let error = delete(&store, &key("a.example/x")).await.unwrap_err();
    assert!(error.is_transient(), "{error}");
    transaction.rollback().await.unwrap();
    assert!(delete(&store, &key("a.example/x")).await.unwrap());
}

#[tokio::test]
async fn server_when_read_only_is_a_transient_error() {
    let server = MariaDb::start();
    let store = migrated(&StoreConfig::at(&server.database())).await;
    // Root is exempt from read_only; the mode of transactions is not.
    server.execute("SET GLOBAL tx_read_only = 1");
    let fresh = connect_again(&server).await;
    let error = fresh.create_links(vec![link(1, "x")]).await.unwrap_err();
    assert!(error.is_transient(), "{error}");
    server.execute("SET GLOBAL tx_read_only = 0");
    drop(store);
}

async fn connect_again(server: &MariaDb) -> Arc<Store> {
    let url = server.url("test_0");
    connect(&StoreConfig::at(&url)).await.unwrap()
}
