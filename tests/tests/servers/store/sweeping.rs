//! Purging what has expired.

use crate::store::fixture::{Database, as_it_is, create, delete, exists, key, link};
use edgelink_service::purge::Purger;
use edgelink_settings::config::{AnalyticsConfig, PurgeConfig};
use edgelink_store::{Actor, NewLink, Wanted};
use edgelink_wire::Record;
use std::sync::Arc;
use std::time::Duration;

on_every_database!(
    link_when_expired_becomes_a_published_tombstone,
    purge_when_limited_removes_no_more_at_once,
    tombstones_when_old_are_purged_without_living_links,
    link_when_its_tombstone_was_purged_gets_a_greater_revision,
    link_when_deleted_leaves_the_expiring_ones,
    purge_when_one_part_fails_goes_on_with_the_others,
);

fn until(id: u64, code: &str, valid_until: u64) -> NewLink {
    let mut new = link(id, code);
    new.content.valid_until = Some(valid_until);
    new
}

async fn link_when_expired_becomes_a_published_tombstone(database: Database) {
    let store = database.store().await;
    let made = create(store.as_ref(), until(1, "a", 100)).await.unwrap();
    create(store.as_ref(), until(2, "b", 1 << 40))
        .await
        .unwrap();
    create(store.as_ref(), link(3, "c")).await.unwrap();
    let batches = store.pending(100).await.unwrap().batches;
    let ids: Vec<u64> = batches.iter().map(|batch| batch.id).collect();
    crate::store::publisher::remove_from_outbox(&store, &ids).await;

    assert_eq!(store.purge_expired(0, 10).await.unwrap(), 1);
    assert_eq!(store.purge_expired(0, 10).await.unwrap(), 0);
    assert!(
        store
            .find_link(&key("a.example/a"))
            .await
            .unwrap()
            .is_none()
    );
    let record = store.resolve(&key("a.example/a")).await.unwrap();
    let rev = record.rev();
    assert!(rev > made.rev);
    assert_eq!(record, Record::Absent { rev });
    let batches = store.pending(100).await.unwrap().batches;
    assert_eq!(batches.len(), 1);
    let changes = batches[0].changes().unwrap();
    assert_eq!(changes.len(), 1);
    assert_eq!(changes[0].key, "a.example/a");
    assert_eq!(
        changes[0].record().unwrap().record(),
        Record::Absent { rev }
    );
    let mut gone = link(1, "a");
    gone.content.valid_until = Some(100);
    let wanted = Wanted {
        scope: &gone.scope,
        domain: &gone.key.domain,
        code: None,
        content: &gone.content,
    };
    assert_eq!(store.find_like(&[wanted]).await.unwrap(), [None]);
    for code in ["b", "c"] {
        let key = key(&format!("a.example/{code}"));
        assert!(store.find_link(&key).await.unwrap().is_some());
    }
    let again = create(store.as_ref(), link(4, "a")).await.unwrap();
    assert!(again.rev > rev);
}

async fn purge_when_limited_removes_no_more_at_once(database: Database) {
    let store = database.store().await;
    for id in 1..=5 {
        create(store.as_ref(), until(id, &format!("c{id}"), id))
            .await
            .unwrap();
    }
    create(store.as_ref(), until(6, "c6", 1 << 40))
        .await
        .unwrap();
    assert_eq!(store.count_expired(0, 4).await.unwrap(), 4);
    let (mut swept, mut due) = (Vec::new(), Vec::new());
    for _ in 0..4 {
        swept.push(store.purge_expired(0, 2).await.unwrap());
        due.push(store.count_expired(0, 10).await.unwrap());
    }
    assert_eq!((swept, due), (vec![2, 2, 1, 0], vec![3, 1, 0, 0]));
}

async fn tombstones_when_old_are_purged_without_living_links(database: Database) {
    let store = database.store().await;
    for (id, code) in [(1, "a"), (2, "b"), (3, "c")] {
        create(store.as_ref(), link(id, code)).await.unwrap();
    }
    let kept = Duration::from_secs(3600).as_millis() as u64;
    for code in ["a", "b"] {
        let deleted = delete(&store, &key(&format!("a.example/{code}"))).await;
        assert!(deleted.unwrap());
    }
    assert_eq!(store.purge_tombstones(kept, 10).await.unwrap(), Some(0));
    assert_eq!(store.purge_tombstones(0, 1).await.unwrap(), Some(1));
    assert_eq!(store.purge_tombstones(0, 10).await.unwrap(), Some(1));
    assert_eq!(store.purge_tombstones(0, 10).await.unwrap(), Some(0));
    assert!(exists(&store, "a.example/c").await);
}

/// Caches may still remember the deletion, and more than that where the database has ever been ahead of its clock.
async fn link_when_its_tombstone_was_purged_gets_a_greater_revision(database: Database) {
    const AHEAD: u64 = 1 << 60;
    let store = database.store().await;
    let x = key("a.example/x");
    create(store.as_ref(), link(1, "x")).await.unwrap();
    create(store.as_ref(), link(2, "y")).await.unwrap();
    database
        .execute(&format!("UPDATE links SET rev = {AHEAD} WHERE id = 1"))
        .await;
    assert!(delete(&store, &x).await.unwrap());
    let deleted = store.resolve(&x).await.unwrap();
    assert_eq!(deleted, Record::Absent { rev: AHEAD + 1 });

    assert_eq!(store.purge_tombstones(0, 10).await.unwrap(), Some(1));
    assert_eq!(store.resolve(&x).await.unwrap(), deleted);
    let other = store.resolve(&key("a.example/y")).await.unwrap();
    assert!(matches!(other, Record::Link(_)));
    assert_eq!(other.rev(), deleted.rev(), "no cache takes it for older");

    let again = create(store.as_ref(), link(3, "x")).await.unwrap();
    assert!(again.rev > deleted.rev());
    assert_eq!(store.resolve(&x).await.unwrap().rev(), again.rev);
    let change = as_it_is();
    let changed = store
        .update_link(&key("a.example/y"), change, &Actor::command_line(1))
        .await
        .unwrap();
    assert!(changed.unwrap().unwrap().rev > deleted.rev());
}

async fn purge_when_one_part_fails_goes_on_with_the_others(database: Database) {
    let store = database.store().await;
    create(store.as_ref(), until(1, "over", 100)).await.unwrap();
    create(store.as_ref(), link(2, "gone")).await.unwrap();
    assert!(delete(&store, &key("a.example/gone")).await.unwrap());
    database
        .execute("UPDATE links SET deleted_at = 1 WHERE id = 2")
        .await;
    let trigger = if database.url().starts_with("sqlite") {
        "BEGIN SELECT RAISE(ABORT, 'not now'); END"
    } else {
        "SIGNAL SQLSTATE '45000'"
    };
    database
        .execute(&format!(
            "CREATE TRIGGER refusing BEFORE UPDATE ON links FOR EACH ROW {trigger}"
        ))
        .await;
    let settings = PurgeConfig {
        grace_seconds: 0,
        ..PurgeConfig::default()
    };
    let mut purger = Purger::new(Arc::clone(&store), &settings, &AnalyticsConfig::default());
    assert!(purger.purge().await.is_err());
    assert_eq!(
        store.purge_tombstones(0, 10).await.unwrap(),
        Some(0),
        "it is gone"
    );

    database.execute("DROP TRIGGER refusing").await;
    let purged = purger.purge().await.unwrap().unwrap();
    assert_eq!((purged.links, purged.tombstones), (1, 0));
}

async fn link_when_deleted_leaves_the_expiring_ones(database: Database) {
    let store = database.store().await;
    create(store.as_ref(), until(1, "a", 100)).await.unwrap();
    assert!(delete(&store, &key("a.example/a")).await.unwrap());
    // A number in this column would put it in front of their index for as long as the tombstone is kept.
    database
        .execute("INSERT INTO counters (name, value) SELECT 'over', COUNT(*) FROM links WHERE valid_until IS NOT NULL")
        .await;
    assert_eq!(store.counter("over").await.unwrap(), 0);
}
