//! Changing, deleting and resolving links.

use crate::store::fixture::{Database, as_it_is, checked, content, create, delete, key, link};
use edgelink_model::links::model::{Link, LinkContent, LinkDetails};
use edgelink_store::{Actor, ChangeError};
use edgelink_wire::{LinkState, Record, RedirectStatus};
use std::sync::Arc;

on_every_database!(
    link_when_updated_has_new_content_and_a_higher_revision,
    change_when_refused_changes_nothing,
    link_when_missing_is_neither_updated_nor_deleted,
    revision_when_a_link_changes_grows,
    updates_when_concurrent_are_all_kept,
    link_when_its_domain_is_unknown_is_absent,
);

async fn link_when_updated_has_new_content_and_a_higher_revision(database: Database) {
    let store = database.store().await;
    let created = create(&store, link(1, "x")).await.unwrap();
    let other = create(&store, link(2, "y")).await.unwrap();
    let wanted = LinkContent {
        redirect: RedirectStatus::MovedPermanently,
        state: LinkState::Disabled,
        valid_since: Some(5),
        valid_until: Some(6),
        forward_query: false,
        title: Some("new".to_owned()),
        tags: vec!["t".to_owned()],
        external_id: Some("other system's".to_owned()),
        archived: true,
        details: LinkDetails {
            notes: Some("note".to_owned()),
            ..LinkDetails::default()
        },
        ..content("https://new.example/")
    };
    let new = wanted.clone();
    let change = Box::new(move |_: &Link| Ok(checked(&new)));
    let updated = store
        .update_link(&created.key(), change, &Actor::command_line(1))
        .await
        .unwrap();
    let updated = updated.unwrap().unwrap();
    assert_eq!(updated.content, wanted);
    assert_eq!(updated.id, 1);
    assert!(updated.rev > created.rev);
    assert_eq!(updated.created_at, created.created_at);
    assert!(updated.updated_at >= created.updated_at);
    assert_eq!(
        store.find_link(&created.key()).await.unwrap(),
        Some(updated)
    );
    assert_eq!(store.find_link(&other.key()).await.unwrap(), Some(other));
}

async fn change_when_refused_changes_nothing(database: Database) {
    let store = database.store().await;
    let created = create(&store, link(1, "x")).await.unwrap();
    let refusal = ChangeError::invalid("validUntil", "is before validSince");
    let refuse = refusal.clone();
    let change = Box::new(move |_: &Link| Err(refuse.clone()));
    let answer = store
        .update_link(&created.key(), change, &Actor::command_line(1))
        .await
        .unwrap();
    assert_eq!(answer, Some(Err(refusal)));
    assert_eq!(
        store.find_link(&created.key()).await.unwrap(),
        Some(created)
    );
}

async fn link_when_missing_is_neither_updated_nor_deleted(database: Database) {
    let store = database.store().await;
    let created = create(&store, link(1, "gone")).await.unwrap();
    assert!(delete(&store, &key("a.example/gone")).await.unwrap());
    for missing in ["a.example/gone", "a.example/never", "other.example/x"] {
        let change = as_it_is();
        let updated = store
            .update_link(&key(missing), change, &Actor::command_line(1))
            .await
            .unwrap();
        assert_eq!(updated, None);
        assert!(!delete(&store, &key(missing)).await.unwrap());
        assert_eq!(store.find_link(&key(missing)).await.unwrap(), None);
    }
    let absent = store.resolve(&key("a.example/gone")).await.unwrap();
    assert!(matches!(absent, Record::Absent { rev } if rev > created.rev));
}

async fn revision_when_a_link_changes_grows(database: Database) {
    let store = database.store().await;
    let x = key("a.example/x");
    let mut last = store.resolve(&x).await.unwrap().rev();
    assert!(
        last > 0,
        "what caches remember of the database that was here before is older"
    );
    for life in 0..3 {
        create(&store, link(life, "x")).await.unwrap();
        last = grown(last, &store.resolve(&x).await.unwrap());
        let change = as_it_is();
        store
            .update_link(&x, change, &Actor::command_line(1))
            .await
            .unwrap();
        last = grown(last, &store.resolve(&x).await.unwrap());
        assert!(delete(&store, &x).await.unwrap());
        last = grown(last, &store.resolve(&x).await.unwrap());
    }
}

fn grown(last: u64, record: &Record<String>) -> u64 {
    assert!(record.rev() > last);
    record.rev()
}

async fn updates_when_concurrent_are_all_kept(database: Database) {
    const TASKS: usize = 8;
    const ROUNDS: usize = 5;
    let store = database.store().await;
    create(&store, link(1, "x")).await.unwrap();
    let tasks: Vec<_> = (0..TASKS)
        .map(|task| {
            let store = Arc::clone(&store);
            tokio::spawn(async move {
                for round in 0..ROUNDS {
                    let add = Box::new(move |link: &Link| {
                        let mut content = link.content.clone();
                        content.tags.push(format!("{task}-{round}"));
                        Ok(checked(&content))
                    });
                    let updated = store
                        .update_link(&key("a.example/x"), add, &Actor::command_line(1))
                        .await;
                    updated.unwrap().unwrap().unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let found = store.find_link(&key("a.example/x")).await.unwrap().unwrap();
    assert_eq!(found.content.tags.len(), TASKS * ROUNDS);
    assert!(found.rev > (TASKS * ROUNDS) as u64);
}

async fn link_when_its_domain_is_unknown_is_absent(database: Database) {
    let store = database.store().await;
    let absent = store.resolve(&key("unknown.example/x")).await.unwrap();
    assert!(matches!(absent, Record::Absent { rev } if rev > 0));
}
