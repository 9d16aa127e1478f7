//! Finding links by their target, and creating links once.

use crate::fixture::{Database, content, create, delete, key, link};
use edgelink_control_plane::model::Link;
use edgelink_control_plane::store::{CreateError, NewLink, OnceLink, Receipt, Store, Twin};
use edgelink_control_plane::target::TargetUrl;
use std::sync::Arc;

on_every_database!(
    links_are_found_by_their_target_oldest_first,
    a_created_link_leaves_its_receipt,
    where_a_receipt_is_there_nothing_is_created,
    a_link_that_is_not_created_leaves_no_receipt,
    of_concurrent_duplicates_one_creates,
    of_concurrent_links_that_may_have_no_twin_one_is_created,
    a_twin_is_one_with_the_same_domain_and_content_and_code_where_that_is_asked,
    old_receipts_are_purged_in_batches,
);

fn receipt(item: u32) -> Option<Receipt> {
    Some(Receipt {
        request: [7; 32],
        item,
        fingerprint: [9; 32],
    })
}

async fn once(
    store: &dyn Store,
    links: Vec<(NewLink, Option<Receipt>)>,
) -> Option<Vec<Result<Link, CreateError>>> {
    let links = links.into_iter().map(OnceLink::from).collect();
    store.create_links_once(links).await.unwrap()
}

fn single(link: NewLink, twin: Twin) -> Vec<OnceLink> {
    let receipt = None;
    vec![OnceLink {
        link,
        receipt,
        twin,
    }]
}

async fn links_are_found_by_their_target_oldest_first(database: Database) {
    let store = database.store().await;
    for (id, code) in [(3, "c"), (1, "a"), (2, "b")] {
        let mut new = link(id, code);
        new.content = content("https://x.example/same");
        create(store.as_ref(), new).await.unwrap();
    }
    create(store.as_ref(), link(4, "d")).await.unwrap();
    assert!(delete(&*store, &key("a.example/b")).await.unwrap());
    let same = TargetUrl::from_store("https://x.example/same");
    let other = TargetUrl::from_store("https://x.example/other");
    let found = store.links_to(&[&same, &other, &same]).await.unwrap();
    let ids: Vec<u64> = found.iter().map(|link| link.id).collect();
    assert_eq!(ids, [1, 3]);
    assert!(store.links_to(&[]).await.unwrap().is_empty());
    let different_case = TargetUrl::from_store("https://x.example/Same");
    assert!(store.links_to(&[&different_case]).await.unwrap().is_empty());
}

async fn a_created_link_leaves_its_receipt(database: Database) {
    let store = database.store().await;
    // A revived link starts with a higher revision.
    let before = create(store.as_ref(), link(1, "b")).await.unwrap();
    assert!(delete(&*store, &key("a.example/b")).await.unwrap());
    let links = vec![
        (link(10, "a"), receipt(0)),
        (link(11, "b"), receipt(1)),
        (link(12, "c"), None),
    ];
    let created = once(&*store, links).await.unwrap();
    let stored = store.receipts(&[7; 32], 0..100).await.unwrap();
    assert_eq!(stored.len(), 2);
    for (receipt, link) in stored.iter().zip(&created) {
        let link = link.as_ref().unwrap();
        assert_eq!(receipt.key, link.key());
        assert_eq!((receipt.id, receipt.rev), (link.id, link.rev));
        assert_eq!(receipt.created_at, link.created_at);
        assert_eq!(receipt.fingerprint, [9; 32]);
    }
    assert!(stored[1].rev > before.rev);
    let some = store.receipts(&[7; 32], 1..2).await.unwrap();
    assert_eq!(some, stored[1..]);
    assert!(store.receipts(&[8; 32], 0..100).await.unwrap().is_empty());
}

async fn where_a_receipt_is_there_nothing_is_created(database: Database) {
    let store = database.store().await;
    let first = vec![(link(1, "a"), receipt(0))];
    once(&*store, first).await.unwrap();
    let again = vec![(link(2, "b"), receipt(1)), (link(3, "c"), receipt(0))];
    assert_eq!(once(&*store, again).await, None);
    assert!(
        store
            .find_link(&key("a.example/b"))
            .await
            .unwrap()
            .is_none()
    );
    assert_eq!(store.receipts(&[7; 32], 0..100).await.unwrap().len(), 1);
}

async fn a_link_that_is_not_created_leaves_no_receipt(database: Database) {
    let store = database.store().await;
    create(store.as_ref(), link(1, "a")).await.unwrap();
    let links = vec![(link(2, "a"), receipt(0)), (link(3, "b"), receipt(1))];
    let created = once(&*store, links).await.unwrap();
    assert_eq!(created[0], Err(CreateError::CodeTaken));
    let stored = store.receipts(&[7; 32], 0..100).await.unwrap();
    let items: Vec<u32> = stored.iter().map(|receipt| receipt.item).collect();
    assert_eq!(items, [1]);
}

async fn of_concurrent_duplicates_one_creates(database: Database) {
    let store = database.store().await;
    let tasks: Vec<_> = (0..8)
        .map(|n| {
            let store = Arc::clone(&store);
            let links = vec![(link(n, &format!("c{n}")), receipt(0))];
            tokio::spawn(async move { once(&*store, links).await })
        })
        .collect();
    let mut created = 0;
    for task in tasks {
        created += usize::from(task.await.unwrap().is_some());
    }
    assert_eq!(created, 1);
}

async fn of_concurrent_links_that_may_have_no_twin_one_is_created(database: Database) {
    let store = database.store().await;
    let tasks: Vec<_> = (0..8)
        .map(|n| {
            let store = Arc::clone(&store);
            let mut new = link(n, &format!("c{n}"));
            new.content = content("https://x.example/same");
            let links = single(new, Twin::NotWithAnyCode);
            tokio::spawn(async move { store.create_links_once(links).await.unwrap() })
        })
        .collect();
    let mut created = 0;
    for task in tasks {
        created += usize::from(task.await.unwrap().is_some());
    }
    assert_eq!(created, 1);
    let same = TargetUrl::from_store("https://x.example/same");
    assert_eq!(store.links_to(&[&same]).await.unwrap().len(), 1);
}

async fn a_twin_is_one_with_the_same_domain_and_content_and_code_where_that_is_asked(
    database: Database,
) {
    let store = database.store().await;
    let same = |id, code| {
        let mut new = link(id, code);
        new.content = content("https://x.example/same");
        new
    };
    create(store.as_ref(), same(1, "a")).await.unwrap();
    let mut titled = same(2, "b");
    titled.content.title = Some("another".to_owned());
    for (links, is_created) in [
        (single(titled, Twin::NotWithAnyCode), true),
        (single(same(3, "a"), Twin::NotWithThisCode), false),
        (single(same(4, "d"), Twin::NotWithThisCode), true),
        (single(same(5, "e"), Twin::NotWithAnyCode), false),
        (single(same(6, "f"), Twin::Allowed), true),
    ] {
        let created = store.create_links_once(links).await.unwrap();
        assert_eq!(created.is_some(), is_created, "{created:?}");
    }
}

async fn old_receipts_are_purged_in_batches(database: Database) {
    let store = database.store().await;
    let links = (0..5).map(|n| (link(u64::from(n), &format!("c{n}")), receipt(n)));
    let links = links.collect();
    once(&*store, links).await.unwrap();
    let hour = std::time::Duration::from_secs(3600).as_millis() as u64;
    assert_eq!(store.purge_receipts(hour, 100).await.unwrap(), 0);
    tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    assert_eq!(store.purge_receipts(0, 3).await.unwrap(), 3);
    assert_eq!(store.purge_receipts(0, 3).await.unwrap(), 2);
}
