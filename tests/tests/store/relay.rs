//! What the relay works on: the outbox, the lease, the bound.

use crate::fixture::{Database, content, create, delete, key, link};
use edgelink_control_plane::store::{MAX_BATCH_BYTES, Packed, Store};
use edgelink_wire::Record;

on_every_database!(
    every_change_of_a_link_is_in_the_outbox_until_it_is_forgotten,
    the_changes_of_a_transaction_take_few_rows_of_bounded_size,
    changes_from_before_batches_are_still_published,
    what_is_not_changed_is_not_in_the_outbox,
    a_lease_is_had_by_one_until_it_ends_or_is_given_back,
    no_segment_reaches_a_bound_that_was_not_published_for_a_minute,
    keys_are_scanned_in_the_order_of_their_numbers,
);

/// The keys and revisions in the outbox, and whether the link is there.
async fn outbox(store: &dyn Store) -> Vec<(String, u64, bool)> {
    let batches = store.pending_changes(100).await.unwrap();
    let changes = batches.iter().flat_map(|batch| batch.changes().unwrap());
    let read = changes.map(|change| {
        let record = change.record().unwrap();
        let is_link = matches!(record, Record::Link(_));
        (change.key.to_owned(), record.rev(), is_link)
    });
    read.collect()
}

async fn every_change_of_a_link_is_in_the_outbox_until_it_is_forgotten(database: Database) {
    let store = database.store().await;
    create(store.as_ref(), link(1, "x")).await.unwrap();
    let update = || Box::new(|_: &_| Ok(content("https://x.example/2")));
    store
        .update_link(&key("a.example/x"), update())
        .await
        .unwrap()
        .unwrap()
        .unwrap();
    assert!(delete(&*store, &key("a.example/x")).await.unwrap());
    create(store.as_ref(), link(2, "x")).await.unwrap();
    let expected = outbox(store.as_ref()).await;
    let is_link: Vec<bool> = expected.iter().map(|(_, _, is_link)| *is_link).collect();
    assert_eq!(is_link, [true, true, false, true]);
    assert!(expected.iter().all(|(key, _, _)| key == "a.example/x"));
    assert!(expected.is_sorted_by(|(_, before, _), (_, rev, _)| before < rev));
    let keys = store.pending_keys(10).await.unwrap();
    let keys = keys.iter().flat_map(Packed::values);
    let expected_keys = vec![Ok(&b"a.example/x"[..]); 4];
    assert_eq!(keys.collect::<Vec<_>>(), expected_keys);
    let ids: Vec<u64> = store
        .pending_changes(3)
        .await
        .unwrap()
        .iter()
        .map(|batch| batch.id)
        .collect();
    store.forget_changes(&ids).await.unwrap();
    assert_eq!(outbox(store.as_ref()).await, expected[3..]);
}

async fn the_changes_of_a_transaction_take_few_rows_of_bounded_size(database: Database) {
    let store = database.store().await;
    let links: Vec<_> = (0..1500).map(|id| link(id, &format!("c{id}"))).collect();
    // A taken code sends what is created with it another way.
    create(store.as_ref(), link(5000, "c7")).await.unwrap();
    let created = store.create_links(links).await.unwrap();
    assert_eq!(created.iter().filter(|link| link.is_ok()).count(), 1499);
    let batches = store.pending_changes(100).await.unwrap();
    assert!((2..10).contains(&batches.len()), "{}", batches.len());
    assert!(batches.iter().all(|batch| batch.size() <= MAX_BATCH_BYTES));
    let mut told = outbox(store.as_ref()).await;
    told.sort();
    told.dedup();
    assert_eq!(told.len(), 1500);
    let long = |id| {
        let mut long = link(id, &format!("c{id}"));
        long.content = content(&format!("https://x.example/{}", "y".repeat(7900)));
        long
    };
    let created = store.create_links((6000..6020).map(long).collect()).await;
    assert!(created.unwrap().iter().all(Result::is_ok));
    let batches = store.pending_changes(100).await.unwrap();
    assert!(batches.iter().all(|batch| batch.size() <= MAX_BATCH_BYTES));
    assert_eq!(outbox(store.as_ref()).await.len(), 1520);
}

async fn changes_from_before_batches_are_still_published(database: Database) {
    const LAST_WITHOUT: i64 = 24;
    // Absent records: see the wire crate.
    let insert = "INSERT INTO outbox (link_key, rev, record, created_at) VALUES ('a.example/x'";
    let rows = ["01", "02"].map(|rev| format!("{insert}, {rev}, X'0180{rev}', 0)"));
    database.begin_at(LAST_WITHOUT, &[&rows[0], &rows[1]]).await;
    let store = database.store().await;
    let expected = [1, 2].map(|rev| ("a.example/x".to_owned(), rev, false));
    assert_eq!(outbox(store.as_ref()).await, expected);
    create(store.as_ref(), link(1, "y")).await.unwrap();
    assert_eq!(outbox(store.as_ref()).await.len(), 3);
}

async fn what_is_not_changed_is_not_in_the_outbox(database: Database) {
    let store = database.store().await;
    create(store.as_ref(), link(1, "x")).await.unwrap();
    let before = outbox(store.as_ref()).await;
    assert!(create(store.as_ref(), link(2, "x")).await.is_err());
    assert!(!delete(&*store, &key("a.example/y")).await.unwrap());
    let refuse = Box::new(|_: &_| {
        Err(edgelink_control_plane::store::ChangeError {
            field: "title",
            reason: "no".to_owned(),
        })
    });
    assert!(
        store
            .update_link(&key("a.example/x"), refuse)
            .await
            .unwrap()
            .unwrap()
            .is_err()
    );
    assert_eq!(outbox(store.as_ref()).await, before);
}

async fn a_lease_is_had_by_one_until_it_ends_or_is_given_back(database: Database) {
    let store = database.store().await;
    let take = async |owner, milliseconds| {
        store
            .take_lease("relay", owner, milliseconds)
            .await
            .unwrap()
    };
    assert!(take("one", 600_000).await);
    assert!(take("one", 600_000).await);
    assert!(!take("two", 600_000).await);
    store.release_lease("relay", "two").await.unwrap();
    assert!(!take("two", 600_000).await);
    store.release_lease("relay", "one").await.unwrap();
    assert!(take("two", 1).await);
    edgelink_tests::stack::until(
        "the end of the lease",
        std::time::Duration::from_secs(10),
        async || take("one", 600_000).await.then_some(()),
    )
    .await;
    assert!(!store.take_lease("no such", "one", 1).await.unwrap());
}

async fn no_segment_reaches_a_bound_that_was_not_published_for_a_minute(database: Database) {
    let store = database.store().await;
    let bound = store.bound_state().await.unwrap().bound;
    let sequences = u32::try_from(bound / 1000).unwrap();
    // Another bound is there, and even published, but not for long enough.
    store.add_bound(bound * 2).await.unwrap();
    store
        .draw_segment(3, sequences - 10)
        .await
        .unwrap()
        .unwrap();
    store.mark_bound_published(bound * 2).await.unwrap();
    let state = store.bound_state().await.unwrap();
    assert_eq!((state.bound, state.is_published), (bound * 2, true));
    assert_eq!(store.draw_segment(3, 11).await.unwrap(), None);
    let last = store.draw_segment(3, 10).await.unwrap().unwrap();
    assert_eq!(last.end, u64::from(sequences));
    assert_eq!(store.draw_segment(3, 1).await.unwrap(), None);
    // Others have their own sequences below the same bound.
    assert_eq!(store.draw_segment(4, 1).await.unwrap().unwrap().start, 0);
    assert_eq!(store.bound_state().await.unwrap().allocated, bound);
}

async fn keys_are_scanned_in_the_order_of_their_numbers(database: Database) {
    let store = database.store().await;
    for (id, code) in [(30, "c"), (10, "a"), (20, "b")] {
        create(store.as_ref(), link(id, code)).await.unwrap();
    }
    assert!(delete(&*store, &key("a.example/b")).await.unwrap());
    let mut keys = Vec::new();
    let mut after = None;
    loop {
        let page = store.scan_keys(after, 2).await.unwrap();
        let Some(last) = page.last() else { break };
        after = Some(last.id);
        keys.extend(page.into_iter().map(|scanned| (scanned.id, scanned.key)));
    }
    let expected = [(10, "a"), (20, "b"), (30, "c")];
    assert_eq!(
        keys,
        expected.map(|(id, code)| (id, format!("a.example/{code}")))
    );
}
