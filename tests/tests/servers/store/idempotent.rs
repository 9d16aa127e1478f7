//! Finding links by their target, and creating links once.

use crate::store::fixture::{Database, content, create, delete, exists, key, link};
use edgelink_model::links::checked::CheckedContent;
use edgelink_model::links::model::Link;
use edgelink_model::tenancy::{FIRST_TENANT, Scope};
use edgelink_store::{
    Actor, CreateError, ListQuery, NewLink, Receipt, Store, StoredReceipt, Twin, Wanted,
};
use edgelink_wire::Code;
use std::ops::Range;
use std::sync::Arc;

on_every_database!(
    link_when_alike_is_found_among_many_of_one_target,
    links_when_older_than_hashes_are_found_and_hashed,
    code_when_its_link_is_deleted_is_free_but_not_its_number,
    request_when_claimed_again_needs_its_fingerprint,
    link_when_found_leaves_a_receipt_with_its_times,
    link_when_created_leaves_its_receipt,
    link_when_its_receipt_exists_is_not_created_again,
    link_when_refused_leaves_no_receipt,
    request_when_sent_concurrently_creates_one_link,
    twins_when_created_concurrently_become_one_link,
    twin_when_its_content_and_code_match_is_found,
    batch_when_mixed_has_an_outcome_for_each_link,
    batches_when_mixed_and_concurrent_create_each_link_once,
    receipts_when_old_are_purged_in_batches,
);

fn receipt_of(request: u8, item: u32) -> Receipt {
    Receipt {
        request: [request; 32],
        item,
        fingerprint: [9; 32],
    }
}

fn receipt(item: u32) -> Option<Receipt> {
    Some(receipt_of(7, item))
}

/// What is stored of these items of a request.
async fn stored(store: &Store, request: u8, items: Range<u32>) -> Vec<StoredReceipt> {
    let receipts: Vec<Receipt> = items.map(|item| receipt_of(request, item)).collect();
    let receipts: Vec<&Receipt> = receipts.iter().collect();
    let stored = store.receipts(&receipts).await.unwrap();
    assert_eq!(stored.len(), receipts.len());
    for (stored, receipt) in stored.iter().zip(receipts) {
        let is_its = |stored: &StoredReceipt| stored.receipt.item == receipt.item;
        assert!(stored.as_ref().is_none_or(is_its), "{stored:?}");
    }
    stored.into_iter().flatten().collect()
}

async fn once(
    store: &Store,
    links: Vec<(NewLink, Option<Receipt>)>,
) -> Vec<Result<Link, CreateError>> {
    let once = |(link, receipt)| NewLink { receipt, ..link };
    store
        .create_links(links.into_iter().map(once).collect())
        .await
        .unwrap()
}

/// Creates a link that may have no such twin.
async fn single(store: &Store, link: NewLink, twin: Twin) -> Result<Link, CreateError> {
    create(store, NewLink { twin, ..link }).await
}

fn is_repeated(answer: &Result<Link, CreateError>) -> bool {
    matches!(answer, Err(CreateError::Repeated(_)))
}

fn is_found(answer: &Result<Link, CreateError>) -> bool {
    matches!(answer, Err(CreateError::Found(_)))
}

fn like<'a>(link: &'a NewLink, code: Option<&'a Code>) -> Wanted<'a> {
    Wanted {
        scope: &link.scope,
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

async fn link_when_alike_is_found_among_many_of_one_target(database: Database) {
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
        let mut content = CheckedContent::existing(link);
        content.change_others(|others| others.title = Some("unknown".to_owned()));
        Ok(content)
    });
    store
        .update_link(&key("a.example/b"), change, &Actor::command_line(1))
        .await
        .unwrap();
    let found = store.find_like(&asked[..2]).await.unwrap();
    let ids: Vec<_> = found.iter().flatten().map(|link| link.id).collect();
    assert_eq!(ids, [1003, 1002], "a change changes what a link is like");
}

async fn links_when_older_than_hashes_are_found_and_hashed(database: Database) {
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

async fn code_when_its_link_is_deleted_is_free_but_not_its_number(database: Database) {
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

async fn request_when_claimed_again_needs_its_fingerprint(database: Database) {
    let store = database.store().await;
    for (fingerprint, is_same) in [(1, true), (1, true), (2, false), (1, true)] {
        let claimed = store.claim_request(&[7; 32], &[fingerprint; 32]).await;
        assert_eq!(claimed.unwrap(), is_same);
    }
    assert!(store.claim_request(&[8; 32], &[2; 32]).await.unwrap());
    assert!(stored(&store, 7, 0..100).await.is_empty());
}

async fn link_when_found_leaves_a_receipt_with_its_times(database: Database) {
    let store = database.store().await;
    let made = create(store.as_ref(), link(1, "a")).await.unwrap();
    database
        .execute("UPDATE links SET created_at = 1, updated_at = 2")
        .await;
    let made = store.find_link(&made.key()).await.unwrap().unwrap();
    let found = |item| NewLink {
        receipt: receipt(item),
        twin: Twin::Known(Box::new(made.clone())),
        ..NewLink::new(made.id, made.key(), made.content.clone())
    };
    let left = store.create_links(vec![found(0)]).await.unwrap();
    assert_eq!(left, [Err(CreateError::Found(Box::new(made.clone())))]);
    let again = store.create_links(vec![found(1), found(0)]).await.unwrap();
    assert!(is_found(&again[0]) && is_repeated(&again[1]), "{again:?}");
    let stored = stored(&store, 7, 0..9).await;
    assert_eq!(stored.len(), 2);
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

async fn link_when_created_leaves_its_receipt(database: Database) {
    let store = database.store().await;
    // A revived link starts with a higher revision.
    let before = create(store.as_ref(), link(1, "b")).await.unwrap();
    assert!(delete(&store, &key("a.example/b")).await.unwrap());
    let links = vec![
        (link(10, "a"), receipt(0)),
        (link(11, "b"), receipt(1)),
        (link(12, "c"), None),
    ];
    let created = once(&store, links).await;
    let receipts = stored(&store, 7, 0..100).await;
    assert_eq!(receipts.len(), 2);
    for (receipt, link) in receipts.iter().zip(&created) {
        let link = link.as_ref().unwrap();
        assert_eq!(receipt.key, link.key());
        assert_eq!((receipt.id, receipt.rev), (link.id, link.rev));
        assert_eq!(receipt.created_at, link.created_at);
        assert_eq!(receipt.receipt.fingerprint, [9; 32]);
    }
    assert!(receipts[1].rev > before.rev);
    let some = stored(&store, 7, 1..2).await;
    assert_eq!(some, receipts[1..]);
    assert!(stored(&store, 8, 0..100).await.is_empty());
}

async fn link_when_its_receipt_exists_is_not_created_again(database: Database) {
    let store = database.store().await;
    let first = vec![(link(1, "a"), receipt(0))];
    let first = once(&store, first).await;
    let again = vec![
        (link(2, "b"), receipt(1)),
        (link(3, "c"), receipt(0)),
        (link(4, "d"), None),
    ];
    let again = once(&store, again).await;
    assert!(again[0].is_ok() && again[2].is_ok(), "{again:?}");
    let receipts = stored(&store, 7, 0..100).await;
    assert_eq!(receipts.len(), 2);
    assert_eq!(
        again[1],
        Err(CreateError::Repeated(Box::new(receipts[0].clone())))
    );
    assert_eq!(receipts[0].id, first[0].as_ref().unwrap().id);
    assert!(!exists(&store, "a.example/c").await);
}

async fn link_when_refused_leaves_no_receipt(database: Database) {
    let store = database.store().await;
    create(store.as_ref(), link(1, "a")).await.unwrap();
    let links = vec![(link(2, "a"), receipt(0)), (link(3, "b"), receipt(1))];
    let created = once(&store, links).await;
    assert_eq!(created[0], Err(CreateError::CodeTaken));
    let receipts = stored(&store, 7, 0..100).await;
    let items: Vec<u32> = receipts.iter().map(|stored| stored.receipt.item).collect();
    assert_eq!(items, [1]);
}

async fn request_when_sent_concurrently_creates_one_link(database: Database) {
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
        let answers = task.await.unwrap();
        created += usize::from(answers[0].is_ok());
        assert!(
            answers[0].is_ok() || is_repeated(&answers[0]),
            "{answers:?}"
        );
    }
    assert_eq!(created, 1);
}

async fn twins_when_created_concurrently_become_one_link(database: Database) {
    let store = database.store().await;
    let tasks: Vec<_> = (0..8)
        .map(|n| {
            let store = Arc::clone(&store);
            let mut new = link(n, &format!("c{n}"));
            new.content = content("https://x.example/same");
            tokio::spawn(async move { single(&store, new, Twin::NotWithAnyCode).await })
        })
        .collect();
    let mut created = 0;
    for task in tasks {
        let answer = task.await.unwrap();
        created += usize::from(answer.is_ok());
        assert!(answer.is_ok() || is_found(&answer), "{answer:?}");
    }
    assert_eq!(created, 1);
    let all = ListQuery::newest(Scope::tenant(FIRST_TENANT), 10);
    assert_eq!(store.list_links(&all).await.unwrap().links.len(), 1);
}

async fn twin_when_its_content_and_code_match_is_found(database: Database) {
    let store = database.store().await;
    let same = |id, code| {
        let mut new = link(id, code);
        new.content = content("https://x.example/same");
        new
    };
    create(store.as_ref(), same(1, "a")).await.unwrap();
    let mut titled = same(2, "b");
    titled.content.title = Some("another".to_owned());
    for (new, twin, is_created) in [
        (titled, Twin::NotWithAnyCode, true),
        (same(3, "a"), Twin::NotWithThisCode, false),
        (same(4, "d"), Twin::NotWithThisCode, true),
        (same(5, "e"), Twin::NotWithAnyCode, false),
        (same(6, "f"), Twin::Allowed, true),
    ] {
        let created = single(&store, new, twin).await;
        assert_eq!(created.is_ok(), is_created, "{created:?}");
        assert_eq!(is_found(&created), !is_created, "{created:?}");
    }
}

/// The outcome of one does not affect the others.
async fn batch_when_mixed_has_an_outcome_for_each_link(database: Database) {
    let store = database.store().await;
    let same = |id, code| NewLink {
        content: content("https://x.example/same"),
        twin: Twin::NotWithAnyCode,
        ..link(id, code)
    };
    let with = |new, item| NewLink {
        receipt: receipt(item),
        ..new
    };
    let first = vec![with(link(1, "a"), 0), link(2, "gone"), same(3, "same")];
    let first = store.create_links(first).await.unwrap();
    assert!(first.iter().all(Result::is_ok));
    assert!(delete(&store, &key("a.example/gone")).await.unwrap());
    let other = |id, code| NewLink {
        content: content("https://x.example/other"),
        ..same(id, code)
    };
    let found = first[2].clone().unwrap();
    let known = NewLink {
        twin: Twin::Known(Box::new(found)),
        ..same(3, "same")
    };
    let batch = vec![
        link(10, "plain"),
        with(link(11, "b"), 0),
        with(same(12, "c"), 1),
        link(13, "a"),
        link(1, "d"),
        link(14, "gone"),
        with(link(15, "e"), 2),
        with(link(16, "f"), 2),
        link(17, "plain"),
        other(18, "g"),
        with(other(19, "h"), 3),
        NewLink {
            twin: Twin::Allowed,
            ..other(20, "i")
        },
        link(21, "plain2"),
        with(same(22, "j"), 4),
        with(same(23, "k"), 4),
        with(known.clone(), 5),
        with(known, 5),
    ];
    let answers = store.create_links(batch).await.unwrap();
    let brief = |answer: &Result<Link, CreateError>| match answer {
        Ok(link) => ("new", link.id),
        Err(CreateError::CodeTaken) => ("code", 0),
        Err(CreateError::NumberTaken) => ("number", 0),
        Err(CreateError::ExternalIdTaken) => ("external id", 0),
        Err(CreateError::DomainGone) => ("domain", 0),
        Err(CreateError::Found(link)) => ("found", link.id),
        Err(CreateError::Repeated(stored)) => ("repeated", stored.id),
    };
    let answers: Vec<_> = answers.iter().map(brief).collect();
    let expected = [
        ("new", 10),
        ("repeated", 1),
        ("found", 3),
        ("code", 0),
        ("number", 0),
        ("new", 14),
        ("new", 15),
        ("repeated", 15),
        ("code", 0),
        ("new", 18),
        ("found", 18),
        ("new", 20),
        ("new", 21),
        ("found", 3),
        ("repeated", 3),
        ("found", 3),
        ("repeated", 3),
    ];
    assert_eq!(answers, expected);
    let left = stored(&store, 7, 0..100).await;
    let left: Vec<_> = left
        .iter()
        .map(|stored| (stored.id, stored.found))
        .collect();
    let expected = [
        (1, false),
        (3, true),
        (15, false),
        (18, true),
        (3, true),
        (3, true),
    ];
    assert_eq!(left, expected);
}

/// Each batch has its links in another order, so that they take their locks in other orders.
async fn batches_when_mixed_and_concurrent_create_each_link_once(database: Database) {
    let store = database.store().await;
    let tasks: Vec<_> = (0..6u64)
        .map(|task| {
            let store = Arc::clone(&store);
            let new = move |n: u64| {
                let id = task * 1000 + n;
                let new = link(id, &format!("c{id}"));
                match n % 3 {
                    0 => new,
                    1 => NewLink {
                        receipt: receipt(n as u32),
                        ..new
                    },
                    _ => NewLink {
                        content: content(&format!("https://x.example/same/{n}")),
                        twin: Twin::NotWithAnyCode,
                        ..new
                    },
                }
            };
            let batch = (0..60).map(|n| (n * 7 + task * 13) % 60).map(new).collect();
            tokio::spawn(async move { store.create_links(batch).await })
        })
        .collect();
    let mut created = 0;
    for task in tasks {
        for answer in task.await.unwrap().unwrap() {
            created += usize::from(answer.is_ok());
            assert!(
                answer.is_ok() || is_repeated(&answer) || is_found(&answer),
                "{answer:?}"
            );
        }
    }
    assert_eq!(created, 6 * 20 + 20 + 20);
    assert_eq!(stored(&store, 7, 0..100).await.len(), 20);
}

async fn receipts_when_old_are_purged_in_batches(database: Database) {
    let store = database.store().await;
    let links = (0..5).map(|n| (link(u64::from(n), &format!("c{n}")), receipt(n)));
    let links = links.collect();
    once(&store, links).await;
    let hour = std::time::Duration::from_secs(3600).as_millis() as u64;
    assert_eq!(store.purge_receipts(hour, 100).await.unwrap(), 0);
    tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    assert_eq!(store.purge_receipts(0, 3).await.unwrap(), 3);
    assert_eq!(store.purge_receipts(0, 3).await.unwrap(), 2);
}
