//! What the publisher works on: the outbox, the lease, the bound.

use crate::store::fixture::{Database, checked, content, create, delete, key, link};
use edgelink_model::drawn::Drawn;
use edgelink_store::{
    Actor, BOUND_LEAD_MILLIS, DomainNames, FeedKind, FlushReason, LeaseClaim, MAX_BATCH_BYTES,
    MAX_LEASE_MILLIS, NUMBERS_SKIPPED, NewLink, Packed, Past, PublisherState, ScanProgress, Store,
};
use edgelink_wire::FeedPosition;
use edgelink_wire::record::RecordKind;

on_every_database!(
    change_when_committed_is_in_the_outbox_until_removed,
    changes_when_of_one_transaction_take_few_bounded_rows,
    changes_when_of_an_older_schema_are_still_published,
    change_when_refused_is_not_in_the_outbox,
    lease_when_held_is_refused_to_others,
    segment_when_the_bound_is_not_yet_in_force_stays_below_it,
    publisher_lease_when_its_token_is_old_is_fenced,
    generation_when_begun_is_above_everything_before,
    numbers_when_a_backup_is_restored_continue_above_lost_ones,
    repair_when_repeated_leaves_numbers_below_the_bound_in_force,
    flush_when_a_backup_was_restored_skips_numbers,
    flush_when_links_since_the_backup_are_given_skips_as_many,
    outbox_when_read_is_ordered_and_limited,
    times_when_written_by_a_fast_clock_block_nothing,
    keys_when_scanned_come_in_the_order_of_their_numbers,
    scan_progress_when_noted_is_kept_for_each_process,
);

/// Whether this owner has the lease by the row as it was read.
fn is_held_by(state: &PublisherState, owner: &str) -> bool {
    state.owner == owner && !state.has_expired()
}

/// The keys and revisions in the outbox, and whether the link is there.
async fn outbox(store: &Store) -> Vec<(String, u64, bool)> {
    let batches = store.pending(100).await.unwrap().batches;
    let changes = batches.iter().flat_map(|batch| batch.changes().unwrap());
    let read = changes.map(|change| {
        let record = change.record().unwrap();
        let is_link = record.kind == RecordKind::Link;
        (change.key.to_owned(), record.rev, is_link)
    });
    read.collect()
}

async fn change_when_committed_is_in_the_outbox_until_removed(database: Database) {
    let store = database.store().await;
    create(store.as_ref(), link(1, "x")).await.unwrap();
    let update = || Box::new(|_: &_| Ok(checked(&content("https://x.example/2"))));
    store
        .update_link(&key("a.example/x"), update(), &Actor::command_line(1))
        .await
        .unwrap()
        .unwrap()
        .unwrap();
    assert!(delete(&store, &key("a.example/x")).await.unwrap());
    create(store.as_ref(), link(2, "x")).await.unwrap();
    let expected = outbox(store.as_ref()).await;
    let is_link: Vec<bool> = expected.iter().map(|(_, _, is_link)| *is_link).collect();
    assert_eq!(is_link, [true, true, false, true]);
    assert!(expected.iter().all(|(key, _, _)| key == "a.example/x"));
    assert!(expected.is_sorted_by(|(_, before, _), (_, rev, _)| before < rev));
    let keys = store.pending_keys(10).await.unwrap().keys;
    let keys = keys.iter().flat_map(Packed::values);
    let expected_keys = vec![Ok(&b"a.example/x"[..]); 4];
    assert_eq!(keys.collect::<Vec<_>>(), expected_keys);
    let rows = store.pending(3).await.unwrap().batches;
    let ids: Vec<u64> = rows.iter().map(|row| row.id).collect();
    remove_from_outbox(&store, &ids).await;
    assert_eq!(outbox(store.as_ref()).await, expected[3..]);
}

async fn changes_when_of_one_transaction_take_few_bounded_rows(database: Database) {
    let store = database.store().await;
    let links: Vec<_> = (0..1500).map(|id| link(id, &format!("c{id}"))).collect();
    // A taken code sends what is created with it another way.
    create(store.as_ref(), link(5000, "c7")).await.unwrap();
    let created = store.create_links(links).await.unwrap();
    assert_eq!(created.iter().filter(|link| link.is_ok()).count(), 1499);
    let batches = store.pending(100).await.unwrap().batches;
    assert!((2..10).contains(&batches.len()), "{}", batches.len());
    assert!(batches.iter().all(|batch| batch.size() <= MAX_BATCH_BYTES));
    let mut rows = outbox(store.as_ref()).await;
    rows.sort();
    rows.dedup();
    assert_eq!(rows.len(), 1500);
    let long = |id| {
        let mut long = link(id, &format!("c{id}"));
        long.content = content(&format!("https://x.example/{}", "y".repeat(7900)));
        long
    };
    let created = store.create_links((6000..6020).map(long).collect()).await;
    assert!(created.unwrap().iter().all(Result::is_ok));
    let batches = store.pending(100).await.unwrap().batches;
    assert!(batches.iter().all(|batch| batch.size() <= MAX_BATCH_BYTES));
    assert_eq!(outbox(store.as_ref()).await.len(), 1520);
}

async fn changes_when_of_an_older_schema_are_still_published(database: Database) {
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

async fn change_when_refused_is_not_in_the_outbox(database: Database) {
    let store = database.store().await;
    create(store.as_ref(), link(1, "x")).await.unwrap();
    let before = outbox(store.as_ref()).await;
    assert!(create(store.as_ref(), link(2, "x")).await.is_err());
    assert!(!delete(&store, &key("a.example/y")).await.unwrap());
    let refuse = Box::new(|_: &_| Err(edgelink_store::ChangeError::invalid("title", "no")));
    assert!(
        store
            .update_link(&key("a.example/x"), refuse, &Actor::command_line(1))
            .await
            .unwrap()
            .unwrap()
            .is_err()
    );
    assert_eq!(outbox(store.as_ref()).await, before);
}

async fn lease_when_held_is_refused_to_others(database: Database) {
    let store = database.store().await;
    let take = async |owner, milliseconds| {
        store
            .take_lease("sweeper", owner, milliseconds)
            .await
            .unwrap()
    };
    assert!(take("one", 60_000).await);
    assert!(take("one", 60_000).await);
    assert!(!take("two", 60_000).await);
    store.release_lease("sweeper", "two").await.unwrap();
    assert!(!take("two", 60_000).await);
    store.release_lease("sweeper", "one").await.unwrap();
    assert!(take("two", 1).await);
    edgelink_tests::stack::until(
        "the end of the lease",
        std::time::Duration::from_secs(10),
        async || take("one", 60_000).await.then_some(()),
    )
    .await;
    assert!(!store.take_lease("no such", "one", 1).await.unwrap());
}

async fn segment_when_the_bound_is_not_yet_in_force_stays_below_it(database: Database) {
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
    assert_eq!(store.bound_state().await.unwrap().drawn.allocated, bound);
}

async fn times_when_written_by_a_fast_clock_block_nothing(database: Database) {
    let store = database.store().await;
    // In a hundred years, while the clock was ahead.
    let ahead = 4_942_944_000_000_u64;
    for statement in [
        format!("UPDATE publisher SET owner = 'dead', lease_until = {ahead}"),
        format!("UPDATE leases SET owner = 'dead', lease_until = {ahead}"),
        format!("UPDATE bounds SET published_at = {ahead}"),
    ] {
        database.execute(&statement).await;
    }
    let taken = store.take_publisher_lease(&claim("one")).await.unwrap();
    assert!(taken.is_some_and(|state| is_held_by(&state, "one")));
    assert!(store.take_lease("sweeper", "one", 1).await.unwrap());
    // The bound does not count, and is published once more.
    assert_eq!(store.draw_segment(3, 1).await.unwrap(), None);
    let state = store.bound_state().await.unwrap();
    assert!(!state.is_published);
    store.mark_bound_published(state.bound).await.unwrap();
    assert!(store.bound_state().await.unwrap().is_published);
    let lead = format!("UPDATE bounds SET published_at = published_at - {BOUND_LEAD_MILLIS}");
    database.execute(&lead).await;
    assert!(store.draw_segment(3, 1).await.unwrap().is_some());
}

async fn keys_when_scanned_come_in_the_order_of_their_numbers(database: Database) {
    let store = database.store().await;
    for (id, code) in [(30, "c"), (10, "a"), (20, "b")] {
        create(store.as_ref(), link(id, code)).await.unwrap();
    }
    assert!(delete(&store, &key("a.example/b")).await.unwrap());
    assert!(store.estimated_links().await.unwrap() <= 3);
    let mut keys = Vec::new();
    let (mut names, mut after) = (DomainNames::default(), None);
    loop {
        let page = store.scan_keys(&mut names, after, 2).await.unwrap();
        let Some(last) = page.last() else { break };
        if after.is_none() {
            // Its domain is not among the names that were read with the first page.
            let content = content("https://x.example/d");
            let late = NewLink::new(40, key("late.example/d"), content);
            create(store.as_ref(), late).await.unwrap();
        }
        after = Some(last.id);
        keys.extend(page.into_iter().map(|scanned| (scanned.id, scanned.key)));
    }
    let expected = [
        (10, "a.example/a"),
        (20, "a.example/b"),
        (30, "a.example/c"),
        (40, "late.example/d"),
    ];
    assert_eq!(keys, expected.map(|(id, key)| (id, key.to_owned())));
}

async fn scan_progress_when_noted_is_kept_for_each_process(database: Database) {
    let store = database.store().await;
    assert_eq!(store.noted_scans().await.unwrap(), []);
    let begun = ScanProgress {
        is_complete: false,
        keys: 5_000,
        share: 0.25,
    };
    let complete = ScanProgress {
        is_complete: true,
        keys: 20_000,
        share: 1.0,
    };
    store.note_scan("one", &begun).await.unwrap();
    store.note_scan("two", &begun).await.unwrap();
    let past = "UPDATE key_scans SET noted_at = noted_at - 1000 WHERE process = 'two'";
    database.execute(past).await;
    store.note_scan("one", &complete).await.unwrap();
    let noted = store.noted_scans().await.unwrap();
    let seen = noted.iter().map(|scan| (&*scan.process, scan.progress));
    let seen: Vec<_> = seen.collect();
    assert_eq!(seen, [("one", complete), ("two", begun)]);
    assert!(noted[1].age_millis >= 1_000);
    let past = "UPDATE key_scans SET noted_at = noted_at - 86400001 WHERE process = 'two'";
    database.execute(past).await;
    store.note_scan("one", &complete).await.unwrap();
    assert_eq!(store.noted_scans().await.unwrap().len(), 1);
}

/// Removes rows from the outbox as a publisher that has just taken the lease.
pub(crate) async fn remove_from_outbox(store: &Store, ids: &[u64]) {
    let state = store.take_publisher_lease(&claim("one")).await.unwrap();
    let state = state.expect("the lease");
    let position = FeedPosition::new(state.position.millis + 1, 0);
    let is_done = store
        .forget_published(state.token, position, &ids.iter().copied().collect(), 0)
        .await;
    assert!(is_done.unwrap());
}

fn claim(owner: &str) -> LeaseClaim<'_> {
    LeaseClaim {
        owner,
        kind: FeedKind::Redis,
        lease_millis: MAX_LEASE_MILLIS,
        published: None,
        seen: (0, FeedPosition::START),
        lost: None,
    }
}

async fn publisher_lease_when_its_token_is_old_is_fenced(database: Database) {
    let store = database.store().await;
    let take = async |claim: LeaseClaim<'static>| store.take_publisher_lease(&claim).await.unwrap();
    let first = take(claim("one")).await.unwrap();
    assert!(is_held_by(&first, "one") && !is_held_by(&first, "two"));
    assert_eq!(take(claim("two")).await, None);
    let renewed = take(claim("one")).await.unwrap();
    assert_eq!(renewed.token, first.token + 1);
    create(store.as_ref(), link(1, "x")).await.unwrap();
    let ids = [store.pending(1).await.unwrap().batches[0].id];
    let at = |millis| FeedPosition::new(millis, 1);
    let forget = async |token, position| {
        store
            .forget_published(token, position, &ids.iter().copied().collect(), 0)
            .await
            .unwrap()
    };
    assert!(!forget(first.token, at(7)).await);
    assert_eq!(outbox(store.as_ref()).await.len(), 1);
    assert!(forget(renewed.token, at(7)).await);
    assert_eq!(outbox(store.as_ref()).await.len(), 0);
    assert_eq!(store.publisher().await.unwrap().position, at(7));
    // Orders that come late do not set it back.
    assert!(!forget(renewed.token, at(6)).await);
    let late = LeaseClaim {
        published: Some((renewed.generation, at(5))),
        ..claim("one")
    };
    assert_eq!(take(late).await.unwrap().position, at(7));
    let later = LeaseClaim {
        published: Some((renewed.generation, at(9))),
        ..claim("one")
    };
    assert_eq!(take(later).await.unwrap().position, at(9));
    store.release_publisher_lease("two").await.unwrap();
    assert_eq!(take(claim("two")).await, None);
    store.release_publisher_lease("one").await.unwrap();
    let local = LeaseClaim {
        kind: FeedKind::Local,
        ..claim("two")
    };
    assert_eq!(take(local).await.unwrap().kind, "local");
}

async fn generation_when_begun_is_above_everything_before(database: Database) {
    let store = database.store().await;
    let taken = store
        .take_publisher_lease(&claim("one"))
        .await
        .unwrap()
        .unwrap();
    assert!(!taken.installation.is_empty());
    let begin = async |token, past| store.begin_generation(token, past).await.unwrap();
    assert_eq!(begin(taken.token + 1, Past::Kept).await, None);
    let first = begin(taken.token, Past::Kept).await.unwrap();
    assert_eq!(
        (first.token, first.rev_floor),
        (taken.token, taken.rev_floor)
    );
    assert_eq!(first.position, FeedPosition::START);
    assert!(first.generation >= taken.now);
    let second = begin(first.token, Past::Unknown).await.unwrap();
    assert!(second.generation > first.generation && second.rev_floor > taken.rev_floor);
    let before = store.bound_state().await.unwrap();
    let went_back = Past::WentBack {
        token: 5_000,
        drawn: before.drawn,
    };
    let third = begin(second.token, went_back).await.unwrap();
    assert_eq!(third.token, 5_001);
    let skipped = store.bound_state().await.unwrap().drawn.allocated - before.drawn.allocated;
    let room = before.bound - before.drawn.allocated;
    assert_eq!(skipped, room / 2);
    assert!(skipped <= NUMBERS_SKIPPED * 1000);
    // Links can be created at once, although the bound takes a minute to rise.
    assert!(store.draw_segment(7, 1000).await.unwrap().is_some());
    // A link of before is newer than all that was published.
    create(store.as_ref(), link(1, "x")).await.unwrap();
    let rev = store.resolve(&key("a.example/x")).await.unwrap().rev();
    assert!(rev > third.rev_floor);
    let floor = begin(third.token, Past::Unknown).await.unwrap().rev_floor;
    assert!(floor > rev);
    assert_eq!(
        store.resolve(&key("a.example/x")).await.unwrap().rev(),
        floor
    );
    assert_eq!(
        store.resolve(&key("a.example/none")).await.unwrap().rev(),
        floor
    );
}

/// Two control planes that find out about a restored database at the same moment both repair it.
async fn repair_when_repeated_leaves_numbers_below_the_bound_in_force(database: Database) {
    let store = database.store().await;
    let taken = store.take_publisher_lease(&claim("one")).await.unwrap();
    let mut token = taken.unwrap().token;
    let counts = store.bound_state().await.unwrap().drawn.counts;
    for repair in 1..=3 {
        let past = Past::WentBack {
            token,
            drawn: Drawn::default(),
        };
        let repaired = store.begin_generation(token, past).await.unwrap();
        token = repaired.unwrap().token;
        // As the publisher raises it after each repair; it counts in a minute.
        store.add_bound(counts * (1 + repair)).await.unwrap();
        store
            .mark_bound_published(counts * (1 + repair))
            .await
            .unwrap();
        let drawn = store.draw_segment(7, 10).await.unwrap();
        let drawn = drawn.expect("numbers below the bound that counts");
        assert!(drawn.end * 1000 <= counts, "repair {repair}: {drawn:?}");
    }
}

/// Links can be created at once, although this copy does not know of the bound that counted.
async fn numbers_when_a_backup_is_restored_continue_above_lost_ones(database: Database) {
    let store = database.store().await;
    let claim = claim("one");
    let taken = store.take_publisher_lease(&claim).await.unwrap().unwrap();
    let before = store.bound_state().await.unwrap();
    let drawn = Drawn {
        allocated: before.bound + 5_000,
        sum: before.drawn.sum + before.bound / 1000 + 5,
        counted: 70_000,
        counts: before.bound + 25_000,
    };
    let past = Past::WentBack { token: 1, drawn };
    let repaired = store.begin_generation(taken.token, past).await.unwrap();
    let after = store.bound_state().await.unwrap();
    assert_eq!(after.drawn.allocated, before.bound + 15_000);
    assert_eq!(
        (after.bound, after.drawn.counts),
        (drawn.counts, drawn.counts)
    );
    assert_eq!(after.drawn.counted, 70_000 + NUMBERS_SKIPPED);
    let segment = store.draw_segment(7, 2).await.unwrap().unwrap();
    assert_eq!(segment.start * 1000, after.drawn.allocated);
    // An issuer has drawn no more than all of them, and is advanced no further than that.
    let drawn = Drawn {
        allocated: after.drawn.allocated + 9_000,
        sum: after.drawn.sum + 2 + 3,
        ..drawn
    };
    let past = Past::WentBack { token: 1, drawn };
    let token = repaired.unwrap().token;
    store.begin_generation(token, past).await.unwrap().unwrap();
    let again = store.bound_state().await.unwrap();
    assert_eq!(
        again.drawn.allocated,
        after.drawn.allocated + 2_000 + 3_000 + 2_000
    );
    assert_eq!(again.drawn.counted, after.drawn.counted + NUMBERS_SKIPPED);
}

async fn flush_when_a_backup_was_restored_skips_numbers(database: Database) {
    let store = database.store().await;
    let claim = claim("one");
    let taken = store.take_publisher_lease(&claim).await.unwrap().unwrap();
    assert_eq!((taken.skipped_in, taken.flushed_in), (0, 0));
    let before = store.bound_state().await.unwrap();
    let (flushed, skipped) = store.flush(FlushReason::Caches).await.unwrap();
    assert_eq!(skipped, None);
    assert!(flushed.generation > taken.generation && flushed.rev_floor > taken.rev_floor);
    assert_eq!(
        (flushed.skipped_in, flushed.flushed_in),
        (0, flushed.generation)
    );
    assert_eq!(store.bound_state().await.unwrap(), before);
    let unsaid = FlushReason::Restored { links_since: None };
    let (restored, skipped) = store.flush(unsaid).await.unwrap();
    let skipped_each = skipped.unwrap();
    assert!(restored.generation > flushed.generation);
    assert_eq!(
        (restored.skipped_in, restored.flushed_in),
        (restored.generation, restored.generation)
    );
    let room = before.bound - before.drawn.allocated;
    let skipped = store.bound_state().await.unwrap().drawn.allocated - before.drawn.allocated;
    assert_eq!(skipped, room / 2);
    assert_eq!(skipped_each.least * 1000, skipped);
    assert_eq!(skipped_each.greatest, skipped_each.least);
    // The publisher keeps its lease, and finds all of it in the row.
    let renewed = store.take_publisher_lease(&claim).await.unwrap().unwrap();
    assert_eq!(renewed.token, taken.token + 1);
    assert_eq!(
        (renewed.generation, renewed.skipped_in, renewed.flushed_in),
        (
            restored.generation,
            restored.skipped_in,
            restored.flushed_in
        )
    );
    // Numbers that were skipped before a later flush stay so.
    let (last, _) = store.flush(FlushReason::Caches).await.unwrap();
    assert_eq!(last.skipped_in, restored.skipped_in);
    assert_eq!(store.publisher().await.unwrap().flushed_in, last.generation);
}

/// Far above the bound: without the number of links that is not skipped, as links are to be created at once.
async fn flush_when_links_since_the_backup_are_given_skips_as_many(database: Database) {
    let store = database.store().await;
    let before = store.bound_state().await.unwrap();
    let count = before.bound / 1000 + 700_000;
    let reason = FlushReason::Restored {
        links_since: Some(count),
    };
    let (_, skipped) = store.flush(reason).await.unwrap();
    let skipped = skipped.unwrap();
    assert_eq!((skipped.least, skipped.greatest), (count, count));
    let after = store.bound_state().await.unwrap();
    assert_eq!(after.drawn.allocated, before.drawn.allocated + count * 1000);
    assert_eq!(store.counter("numbers").await.unwrap(), count);
    // Until the publisher has raised the bound.
    assert_eq!(store.draw_segment(7, 1).await.unwrap(), None);
    let raised = after.drawn.allocated + 1_000_000;
    store.add_bound(raised).await.unwrap();
    store.mark_bound_published(raised).await.unwrap();
    database
        .execute("UPDATE bounds SET published_at = published_at - 61000 WHERE published_at > 0")
        .await;
    let drawn = store.draw_segment(7, 1).await.unwrap().unwrap();
    assert_eq!(drawn.start, after.drawn.allocated / 1000);
}

async fn outbox_when_read_is_ordered_and_limited(database: Database) {
    let store = database.store().await;
    let before = store.pending(10).await.unwrap();
    assert!(before.batches.is_empty() && before.state.now > 0);
    assert!(store.pending_keys(10).await.unwrap().keys.is_empty());
    assert_eq!(store.outbox_size().await.unwrap().rows, 0);
    for id in 1..=5 {
        create(store.as_ref(), link(id, &format!("c{id}")))
            .await
            .unwrap();
    }
    let all = store.pending(10).await.unwrap();
    let ids: Vec<u64> = all.batches.iter().map(|batch| batch.id).collect();
    assert!(ids.len() == 5 && ids.is_sorted());
    assert!(all.state.now > before.state.now);
    assert_eq!(store.pending(3).await.unwrap().batches, all.batches[..3]);
    assert_eq!(store.pending_keys(3).await.unwrap().keys.len(), 3);
    let size = store.outbox_size().await.unwrap();
    assert!(size.rows == 5 && size.age_millis < 60_000, "{size:?}");
}
