//! Removing what is over.

use crate::fixture::{Database, create, delete, key, link};
use edgelink_control_plane::store::NewLink;
use edgelink_wire::Record;

on_every_database!(
    a_link_that_is_over_becomes_an_empty_tombstone_and_the_edges_are_told,
    no_more_is_removed_at_once_than_asked_for,
    old_tombstones_are_removed_and_living_links_are_not,
);

fn until(id: u64, code: &str, valid_until: u64) -> NewLink {
    let mut new = link(id, code);
    new.content.valid_until = Some(valid_until);
    new
}

async fn a_link_that_is_over_becomes_an_empty_tombstone_and_the_edges_are_told(database: Database) {
    let store = database.store().await;
    create(store.as_ref(), until(1, "a", 100)).await.unwrap();
    create(store.as_ref(), until(2, "b", 101)).await.unwrap();
    create(store.as_ref(), link(3, "c")).await.unwrap();
    let told = store.pending_changes(100).await.unwrap();
    let ids: Vec<u64> = told.iter().map(|batch| batch.id).collect();
    store.forget_changes(&ids).await.unwrap();

    assert_eq!(store.sweep_expired(100, 10).await.unwrap(), 1);
    assert_eq!(store.sweep_expired(100, 10).await.unwrap(), 0);
    assert!(
        store
            .find_link(&key("a.example/a"))
            .await
            .unwrap()
            .is_none()
    );
    let record = store.resolve(&key("a.example/a")).await.unwrap();
    assert_eq!(record, Record::Absent { rev: 2 });
    let told = store.pending_changes(100).await.unwrap();
    assert_eq!(told.len(), 1);
    let told = told[0].changes().unwrap();
    assert_eq!(told.len(), 1);
    assert_eq!(told[0].key, "a.example/a");
    assert_eq!(told[0].record().unwrap(), Record::Absent { rev: 2 });
    let target = link(1, "a").content.target;
    assert!(store.links_to(&[&target]).await.unwrap().is_empty());
    for code in ["b", "c"] {
        let key = key(&format!("a.example/{code}"));
        assert!(store.find_link(&key).await.unwrap().is_some());
    }
    let again = create(store.as_ref(), link(4, "a")).await.unwrap();
    assert_eq!(again.rev, 3);
}

async fn no_more_is_removed_at_once_than_asked_for(database: Database) {
    let store = database.store().await;
    for id in 1..=5 {
        create(store.as_ref(), until(id, &format!("c{id}"), id))
            .await
            .unwrap();
    }
    let mut swept = Vec::new();
    for _ in 0..4 {
        swept.push(store.sweep_expired(100, 2).await.unwrap());
    }
    assert_eq!(swept, [2, 2, 1, 0]);
}

async fn old_tombstones_are_removed_and_living_links_are_not(database: Database) {
    let store = database.store().await;
    for (id, code) in [(1, "a"), (2, "b"), (3, "c")] {
        create(store.as_ref(), link(id, code)).await.unwrap();
    }
    for code in ["a", "b"] {
        let deleted = delete(&*store, &key(&format!("a.example/{code}"))).await;
        assert!(deleted.unwrap());
    }
    assert_eq!(store.purge_tombstones(1, 10).await.unwrap(), 0);
    assert_eq!(store.purge_tombstones(1 << 50, 1).await.unwrap(), 1);
    assert_eq!(store.purge_tombstones(1 << 50, 10).await.unwrap(), 1);
    assert_eq!(store.purge_tombstones(1 << 50, 10).await.unwrap(), 0);
    assert!(
        store
            .find_link(&key("a.example/c"))
            .await
            .unwrap()
            .is_some()
    );
    let again = create(store.as_ref(), link(4, "a")).await.unwrap();
    assert_eq!(again.rev, 1);
}
