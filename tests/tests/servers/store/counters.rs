//! Named numbers.

use crate::store::fixture::Database;
use std::sync::Arc;

on_every_database!(
    counter_when_swapped_moves_only_from_its_present_value,
    counter_when_swapped_concurrently_moves_once,
);

async fn counter_when_swapped_moves_only_from_its_present_value(database: Database) {
    let store = database.store().await;
    assert_eq!(store.counter("a").await.unwrap(), 0);
    assert!(!store.swap_counter("a", 1, 2).await.unwrap());
    assert!(store.swap_counter("a", 0, 5).await.unwrap());
    assert!(!store.swap_counter("a", 0, 6).await.unwrap());
    assert!(store.swap_counter("a", 5, 3).await.unwrap());
    assert_eq!(store.counter("a").await.unwrap(), 3);
    assert_eq!(store.counter("A").await.unwrap(), 0);
    assert!(store.swap_counter("a", 3, 0).await.unwrap());
    assert!(store.swap_counter("a", 0, 1).await.unwrap());
}

async fn counter_when_swapped_concurrently_moves_once(database: Database) {
    let store = database.store().await;
    for start in [0, 1] {
        let moves = (0..8).map(|_| {
            let store = Arc::clone(&store);
            tokio::spawn(async move { store.swap_counter("a", start, start + 1).await.unwrap() })
        });
        let mut won = 0;
        for task in moves.collect::<Vec<_>>() {
            won += usize::from(task.await.unwrap());
        }
        assert_eq!(won, 1);
    }
}
