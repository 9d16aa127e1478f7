//! Numbers out of ZooKeeper.

use edgelink_numbers::{NumberSource, ZookeeperOptions, zookeeper};
use edgelink_settings::config::ZookeeperAuth;
use edgelink_tests::servers::ZooKeeper;
use edgelink_tests::stack::until;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(30);

fn options(server: &ZooKeeper, path: &str) -> ZookeeperOptions {
    ZookeeperOptions {
        path: path.to_owned(),
        range: 100,
        ..ZookeeperOptions::new(server.address())
    }
}

/// A number, waited for while the server starts or comes back.
async fn number(source: &Arc<dyn NumberSource>) -> u64 {
    let start = Instant::now();
    loop {
        match source.next_number().await {
            Ok(number) => return number,
            Err(error) => assert!(start.elapsed() < PATIENCE, "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn numbers(source: &Arc<dyn NumberSource>, count: usize) -> Vec<u64> {
    let mut numbers = Vec::with_capacity(count);
    for _ in 0..count {
        numbers.push(number(source).await);
    }
    numbers
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn instances_when_drawing_at_once_never_overlap() {
    let server = ZooKeeper::start();
    let tasks: Vec<_> = (0..4)
        .map(|_| {
            let source = zookeeper(options(&server, "/a/b/next"));
            tokio::spawn(async move { numbers(&source, 5_000).await })
        })
        .collect();
    let mut seen = HashSet::new();
    for task in tasks {
        for number in task.await.unwrap() {
            assert!(seen.insert(number), "{number} was issued twice");
        }
    }
    assert_eq!(seen.len(), 20_000);
    // Ranges in hand at the end are the only gaps.
    assert!(seen.iter().max().unwrap() < &(20_000 + 4 * 2 * 100));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn source_when_shut_down_cleanly_loses_no_number() {
    let server = ZooKeeper::start();
    let first = zookeeper(options(&server, "/next"));
    assert_eq!(numbers(&first, 105).await, (0..105).collect::<Vec<u64>>());
    first.shutdown().await;
    let second = zookeeper(options(&server, "/next"));
    assert_eq!(number(&second).await, 105);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn server_when_it_was_killed_repeats_no_number() {
    let mut server = ZooKeeper::start();
    let source = zookeeper(options(&server, "/next"));
    let mut seen: HashSet<u64> = numbers(&source, 50).await.into_iter().collect();
    server.kill();
    // The rest of the range is issued.
    for _ in 0..50 {
        assert!(seen.insert(source.next_number().await.unwrap()));
    }
    until("the buffer is used up", PATIENCE, async || {
        match source.next_number().await {
            Ok(number) => {
                assert!(seen.insert(number));
                None
            }
            Err(error) => {
                assert!(error.is_transient(), "{error}");
                Some(())
            }
        }
    })
    .await;
    server.restart();
    for number in numbers(&source, 500).await {
        assert!(seen.insert(number), "{number} was issued twice");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn server_when_it_hangs_is_an_error_within_two_seconds() {
    let server = ZooKeeper::start();
    server.stop();
    let source = zookeeper(options(&server, "/next"));
    let start = Instant::now();
    let error = source.next_number().await.unwrap_err();
    assert!(error.is_transient(), "{error}");
    assert!(
        start.elapsed() < Duration::from_secs(2),
        "{:?}",
        start.elapsed()
    );
    server.cont();
    number(&source).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn znode_when_missing_after_issuing_is_an_error() {
    let server = ZooKeeper::start();
    let source = zookeeper(ZookeeperOptions {
        first: None,
        ..options(&server, "/next")
    });
    // A server that has just started may take longer than a draw waits, which is transient.
    let error = until("the server answers", PATIENCE, async || {
        let error = source.next_number().await.unwrap_err();
        (!error.is_transient()).then_some(error)
    })
    .await;
    assert!(error.to_string().contains("/next is missing"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn znode_when_made_by_an_identity_is_closed_to_others() {
    let server = ZooKeeper::start();
    let as_identity = |text: Option<&str>| {
        zookeeper(ZookeeperOptions {
            auth: text.and_then(ZookeeperAuth::parse),
            ..options(&server, "/a/next")
        })
    };
    assert_eq!(number(&as_identity(Some("digest:edgelink:right"))).await, 0);
    for other in [None, Some("digest:edgelink:wrong")] {
        let source = as_identity(other);
        let error = until("the server refuses", PATIENCE, async || {
            let error = source.next_number().await.expect_err("an open znode");
            (!error.is_transient()).then_some(error)
        })
        .await;
        println!("{other:?}: {error}");
    }
    let same = as_identity(Some("digest:edgelink:right"));
    assert_eq!(number(&same).await, 100);
}
