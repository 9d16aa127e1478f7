//! Finding links by their target, and creating links once.

use crate::fixture::{Database, content, create, delete, key, link};
use edgelink_control_plane::model::{Link, LinkContent};
use edgelink_control_plane::store::{
    CreateError, ListQuery, NewLink, OnceLink, Receipt, Store, Twin, Wanted,
};
use edgelink_wire::Code;
use std::sync::Arc;

on_every_database!(
    a_link_like_another_one_is_found_whatever_leads_to_the_same_target,
    links_from_before_contents_were_hashed_are_found_and_then_hashed,
    a_number_or_a_code_is_taken_by_what_lives,
    a_request_is_noted_once_with_what_it_asks_for,
    a_link_that_was_found_leaves_a_receipt_with_its_times,
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
    store: &Store,
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

fn like<'a>(link: &'a NewLink, code: Option<&'a Code>) -> Wanted<'a> {
    Wanted {
        domain: &link.key.domain,
        code,
        content: &link.content,
    }
}

fn to_same(id: u64, code: &str, title: &str) -> NewLink {
    let mut new = link(id, code);
    new.content = content("https://x.example/same");
    new.content.title = Some(title.to_owned());
    new
}

async fn a_link_like_another_one_is_found_whatever_leads_to_the_same_target(database: Database) {
    let store = database.store().await;
    let others = (0..200).map(|n| to_same(n, &format!("o{n}"), &n.to_string()));
    let created = store.create_links(others.collect()).await.unwrap();
    assert!(created.iter().all(Result::is_ok));
    for (id, code) in [(1003, "c"), (1001, "a"), (1002, "b")] {
        let created = create(store.as_ref(), to_same(id, code, "wanted")).await;
        created.unwrap();
    }
    assert!(delete(&store, &key("a.example/a")).await.unwrap());

    let wanted = to_same(0, "x", "wanted");
    let mut elsewhere = to_same(0, "x", "wanted");
    elsewhere.key = key("b.example/x");
    let unknown = to_same(0, "x", "unknown");
    let [a, c] = ["a", "c"].map(|code| key(&format!("a.example/{code}")).code);
    let asked = [
        like(&wanted, None),
        like(&unknown, None),
        like(&elsewhere, None),
        like(&wanted, Some(&c)),
        like(&wanted, Some(&a)),
        like(&unknown, Some(&c)),
        like(&wanted, None),
    ];
    let found = store.find_like(&asked).await.unwrap();
    let ids: Vec<Option<u64>> = found
        .iter()
        .map(|link| link.as_ref().map(|link| link.id))
        .collect();
    let second = Some(1002);
    assert_eq!(ids, [second, None, None, Some(1003), None, None, second]);
    assert!(store.find_like(&[]).await.unwrap().is_empty());

    let change = Box::new(|link: &Link| {
        Ok(LinkContent {
            title: Some("unknown".to_owned()),
            ..link.content.clone()
        })
    });
    store
        .update_link(&key("a.example/b"), change)
        .await
        .unwrap();
    let found = store.find_like(&asked[..2]).await.unwrap();
    let ids: Vec<_> = found.iter().flatten().map(|link| link.id).collect();
    assert_eq!(ids, [1003, 1002], "a change changes what a link is like");
}

async fn links_from_before_contents_were_hashed_are_found_and_then_hashed(database: Database) {
    let store = database.store().await;
    let links = (0..150).map(|n| to_same(n, &format!("o{n}"), &n.to_string()));
    let created = store.create_links(links.collect()).await.unwrap();
    assert!(created.iter().all(Result::is_ok));
    database
        .execute("UPDATE links SET content_hash = NULL")
        .await;
    let [first, last] = [3, 149].map(|n: u64| to_same(0, "x", &n.to_string()));
    let asked = [like(&first, None), like(&last, None)];
    let found = async || {
        let found = store.find_like(&asked).await.unwrap();
        found
            .iter()
            .flatten()
            .map(|link| link.id)
            .collect::<Vec<_>>()
    };
    assert_eq!(found().await, [3], "the first hundred are looked at");
    let mut hashed = Vec::new();
    for _ in 0..3 {
        hashed.push(store.hash_contents(100).await.unwrap());
    }
    assert_eq!(hashed, [100, 50, 0]);
    assert_eq!(found().await, [3, 149]);
}

async fn a_number_or_a_code_is_taken_by_what_lives(database: Database) {
    let store = database.store().await;
    for (id, code) in [(1, "a"), (2, "gone")] {
        create(store.as_ref(), link(id, code)).await.unwrap();
    }
    assert!(delete(&store, &key("a.example/gone")).await.unwrap());
    let asked = [
        (7, "a.example/a"),
        (1, "a.example/x"),
        (8, "a.example/gone"),
        (9, "b.example/a"),
        (2, "b.example/y"),
    ];
    let asked = asked.map(|(id, code)| (id, key(code)));
    let taken = store.are_taken(&asked).await.unwrap();
    assert_eq!(taken, [true, true, false, false, true]);
    assert!(store.are_taken(&[]).await.unwrap().is_empty());
}

async fn a_request_is_noted_once_with_what_it_asks_for(database: Database) {
    let store = database.store().await;
    for (fingerprint, is_same) in [(1, true), (1, true), (2, false), (1, true)] {
        let claimed = store.claim_request(&[7; 32], &[fingerprint; 32]).await;
        assert_eq!(claimed.unwrap(), is_same);
    }
    assert!(store.claim_request(&[8; 32], &[2; 32]).await.unwrap());
    assert!(
        store
            .receipts(&[7; 32], 0..u32::MAX)
            .await
            .unwrap()
            .is_empty()
    );
}

async fn a_link_that_was_found_leaves_a_receipt_with_its_times(database: Database) {
    let store = database.store().await;
    let made = create(store.as_ref(), link(1, "a")).await.unwrap();
    database
        .execute("UPDATE links SET created_at = 1, updated_at = 2")
        .await;
    let made = store.find_link(&made.key()).await.unwrap().unwrap();
    let receipts = [receipt(0).unwrap(), receipt(1).unwrap()];
    assert!(
        store
            .leave_receipts(&[(&receipts[0], &made)])
            .await
            .unwrap()
    );
    let both = [(&receipts[1], &made), (&receipts[0], &made)];
    assert!(!store.leave_receipts(&both).await.unwrap());
    let stored = store.receipts(&[7; 32], 0..9).await.unwrap();
    assert_eq!(stored.len(), 1);
    let stored = &stored[0];
    assert_eq!(
        (stored.created_at, stored.updated_at, stored.found),
        (1, 2, true)
    );
    let hour = 3_600_000;
    assert_eq!(
        store.purge_receipts(hour, 9).await.unwrap(),
        0,
        "it is as young as the request"
    );
}

async fn a_created_link_leaves_its_receipt(database: Database) {
    let store = database.store().await;
    // A revived link starts with a higher revision.
    let before = create(store.as_ref(), link(1, "b")).await.unwrap();
    assert!(delete(&store, &key("a.example/b")).await.unwrap());
    let links = vec![
        (link(10, "a"), receipt(0)),
        (link(11, "b"), receipt(1)),
        (link(12, "c"), None),
    ];
    let created = once(&store, links).await.unwrap();
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
    once(&store, first).await.unwrap();
    let again = vec![(link(2, "b"), receipt(1)), (link(3, "c"), receipt(0))];
    assert_eq!(once(&store, again).await, None);
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
    let created = once(&store, links).await.unwrap();
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
            tokio::spawn(async move { once(&store, links).await })
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
    let all = ListQuery {
        domain: None,
        after: None,
        limit: 10,
    };
    assert_eq!(store.list_links(&all).await.unwrap().len(), 1);
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
    once(&store, links).await.unwrap();
    let hour = std::time::Duration::from_secs(3600).as_millis() as u64;
    assert_eq!(store.purge_receipts(hour, 100).await.unwrap(), 0);
    tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    assert_eq!(store.purge_receipts(0, 3).await.unwrap(), 3);
    assert_eq!(store.purge_receipts(0, 3).await.unwrap(), 2);
}
