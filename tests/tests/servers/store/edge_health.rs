//! How edges are doing.

use crate::store::fixture::Database;
use edgelink_store::{EdgeHealth, RequestSums, Store};
use edgelink_wire::health::{RequestsByTier, WorkerHealth};
use std::time::Duration;

on_every_database!(
    edge_health_when_noted_is_of_the_last_reports,
    worker_when_silent_does_not_count,
    edge_health_when_limited_reads_the_latest_edges,
    workers_when_gone_are_purged_in_batches,
);

const LATELY: Duration = Duration::from_mins(1);

fn health(worker: u8, feed_lag_millis: Option<u32>) -> WorkerHealth {
    WorkerHealth {
        worker: [worker; 16],
        feed_lag_millis,
        is_admitting: worker.is_multiple_of(2),
        requests: RequestsByTier {
            lru: u32::MAX,
            shared_data: 1,
            admission: 2,
            redis: 3,
            control_plane: 4,
            stale: 5,
        },
    }
}

async fn note(store: &Store, edge: &str, health: WorkerHealth) {
    store
        .note_health(&[(edge.to_owned(), health)])
        .await
        .unwrap();
}

async fn all(store: &Store, lately: Duration) -> Vec<EdgeHealth> {
    let mut all = store.edge_health(lately, 1_000).await.unwrap();
    all.sort_by(|one, other| one.edge.cmp(&other.edge));
    all
}

/// That of so many workers, one of which has admission in effect.
fn of_workers(edge: &EdgeHealth, workers: u64, feed_lag_millis: Option<u64>) -> EdgeHealth {
    EdgeHealth {
        edge: edge.edge.clone(),
        heard_at: edge.heard_at,
        workers,
        feed_lag_millis,
        admitting: workers.min(1),
        requests: RequestSums {
            lru: workers * u64::from(u32::MAX),
            shared_data: workers,
            admission: 2 * workers,
            redis: 3 * workers,
            control_plane: 4 * workers,
            stale: 5 * workers,
        },
    }
}

async fn edge_health_when_noted_is_of_the_last_reports(database: Database) {
    let store = database.store().await;
    assert_eq!(all(&store, LATELY).await, []);
    for (edge, worker, lag) in [
        ("fra", 1, Some(7)),
        ("fra", 2, Some(9)),
        ("fra", 1, Some(u32::MAX)),
        ("", 4, None),
        ("ams", 6, Some(0)),
        ("ams", 7, None),
    ] {
        note(&store, edge, health(worker, lag)).await;
    }
    let edges = all(&store, LATELY).await;
    let [unnamed, ams, fra] = edges.as_slice() else {
        panic!("{edges:?}");
    };
    assert_eq!([&*unnamed.edge, &*ams.edge, &*fra.edge], ["", "ams", "fra"]);
    assert_eq!(*unnamed, of_workers(unnamed, 1, None));
    assert_eq!(*ams, of_workers(ams, 2, None), "one worker reads no feed");
    assert_eq!(*fra, of_workers(fra, 2, Some(u32::MAX.into())));
    // A worker belongs to the edge under whose name it has reported last.
    note(&store, "fra", health(6, Some(1))).await;
    let workers: Vec<u64> = all(&store, LATELY)
        .await
        .iter()
        .map(|edge| edge.workers)
        .collect();
    assert_eq!(workers, [1, 1, 3]);
}

async fn worker_when_silent_does_not_count(database: Database) {
    let store = database.store().await;
    let both = [health(1, None), health(2, Some(3))].map(|health| ("fra".to_owned(), health));
    store.note_health(&both).await.unwrap();
    let heard_at = all(&store, LATELY).await[0].heard_at;
    let past = "UPDATE edge_health SET reported_at = reported_at - 60000 WHERE feed_lag_ms IS NULL";
    database.execute(past).await;
    let edges = all(&store, LATELY).await;
    assert_eq!(edges, [of_workers(&edges[0], 1, Some(3))]);
    assert_eq!(edges[0].heard_at, heard_at);
    let silent = all(&store, Duration::ZERO).await;
    assert_eq!(silent, [of_workers(&edges[0], 0, None)]);
}

async fn edge_health_when_limited_reads_the_latest_edges(database: Database) {
    let store = database.store().await;
    for worker in 1..=3 {
        let edge = format!("edge-{worker}");
        note(&store, &edge, health(worker, None)).await;
    }
    let past = "UPDATE edge_health SET reported_at = reported_at - 1000 WHERE admitting = 1";
    database.execute(past).await;
    let latest = store.edge_health(LATELY, 2).await.unwrap();
    assert_eq!(latest.len(), 2);
    assert!(
        latest.iter().all(|edge| edge.edge != "edge-2"),
        "{latest:?}"
    );
}

async fn workers_when_gone_are_purged_in_batches(database: Database) {
    const DAY: u64 = 86_400_000;
    let store = database.store().await;
    for worker in 1..=5 {
        note(&store, "fra", health(worker, None)).await;
    }
    assert_eq!(store.purge_health(DAY, 10).await.unwrap(), 0);
    let past = "UPDATE edge_health SET reported_at = reported_at - 86400000 WHERE admitting = 0";
    database.execute(past).await;
    assert_eq!(store.purge_health(DAY, 2).await.unwrap(), 2);
    assert_eq!(store.purge_health(DAY, 2).await.unwrap(), 1);
    assert_eq!(store.purge_health(DAY, 2).await.unwrap(), 0);
    assert_eq!(database.count("edge_health").await, 2);
}
