//! Counting clicks.

use crate::fixture::Database;
use edgelink_control_plane::store::{ClickAccounts, CountedBatch};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

on_every_database!(
    a_batch_is_counted_once,
    batches_that_come_at_once_are_all_counted,
    the_links_followed_most_come_first,
    what_is_old_is_removed_in_small_parts,
);

fn batch(worker: u8, seq: u64, minute: u64, clicks: &[(&str, u64)]) -> CountedBatch {
    CountedBatch {
        worker: [worker; 16],
        seq,
        sent: seq * 10,
        dropped: seq,
        minute,
        received_at: seq,
        clicks: clicks
            .iter()
            .map(|(key, clicks)| ((*key).to_owned(), *clicks))
            .collect(),
    }
}

async fn a_batch_is_counted_once(database: Database) {
    let store = database.store().await;
    let first = batch(1, 1, 5, &[("a.example/x", 3), ("a.example/y", 1)]);
    let second = batch(1, 2, 5, &[("a.example/x", 2)]);
    let other = batch(2, 1, 6, &[("a.example/x", 1)]);
    assert_eq!(
        store
            .count_clicks(&[first.clone(), other.clone()])
            .await
            .unwrap(),
        2
    );
    assert_eq!(
        store
            .count_clicks(&[second.clone(), first.clone(), first.clone()])
            .await
            .unwrap(),
        1
    );
    assert_eq!(
        store.count_clicks(&[first, second, other]).await.unwrap(),
        0
    );
    let accounts = ClickAccounts {
        sent: 30,
        counted: 7,
        dropped: 3,
    };
    assert_eq!(store.click_accounts().await.unwrap(), accounts);
}

async fn batches_that_come_at_once_are_all_counted(database: Database) {
    let stores = [database.store().await, database.store().await];
    let tasks: Vec<_> = (0..8)
        .map(|worker: u8| {
            let store = Arc::clone(&stores[usize::from(worker) % 2]);
            tokio::spawn(async move {
                for seq in 1..=10 {
                    let clicks = [("a.example/x", 1), ("a.example/y", 1), ("a.example/z", 1)];
                    store
                        .count_clicks(&[batch(worker, seq, 5, &clicks)])
                        .await
                        .unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(stores[0].click_accounts().await.unwrap().counted, 240);
}

async fn the_links_followed_most_come_first(database: Database) {
    let store = database.store().await;
    let batches = [
        batch(1, 1, 4, &[("a.example/old", 100)]),
        batch(1, 2, 5, &[("a.example/x", 3), ("a.example/y", 4)]),
        batch(1, 3, 6, &[("a.example/x", 3), ("a.example/z", 5)]),
    ];
    store.count_clicks(&batches).await.unwrap();
    let hot = store.hot_keys(5, 2).await.unwrap();
    assert_eq!(hot, ["a.example/x", "a.example/z"]);
}

async fn what_is_old_is_removed_in_small_parts(database: Database) {
    let store = database.store().await;
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let now = since_epoch.as_secs() / 60;
    // Seven of the ten minutes and five of the ten batches are too old.
    let batches: Vec<_> = (1..=10)
        .map(|seq| {
            let hours = |too_old| if seq <= too_old { 24 } else { 0 };
            let mut batch = batch(1, seq, now - hours(7) * 60 - seq, &[("a.example/x", 1)]);
            batch.received_at = (now - hours(5) * 60) * 60_000;
            batch
        })
        .collect();
    store.count_clicks(&batches).await.unwrap();
    assert_eq!(store.purge_clicks(120, 60, 4).await.unwrap(), 8);
    assert_eq!(store.purge_clicks(120, 60, 4).await.unwrap(), 4);
    assert_eq!(store.purge_clicks(120, 60, 4).await.unwrap(), 0);
    assert_eq!(store.click_accounts().await.unwrap().counted, 10);
    assert_eq!(store.count_clicks(&batches[5..]).await.unwrap(), 0);
}
