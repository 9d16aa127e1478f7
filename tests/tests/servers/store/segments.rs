//! Segments of numbers.

use crate::store::fixture::Database;
use edgelink_model::drawn::Drawn;
use edgelink_numbers::{NumberSource, SegmentOptions, counter, segment};
use edgelink_store::{FeedKind, LeaseClaim, NUMBERS_SKIPPED, Past, PublisherState, Segment, Store};
use edgelink_wire::FeedPosition;
use std::sync::Arc;

on_every_database!(
    segment_when_drawn_starts_where_the_last_one_ended,
    segments_when_drawn_by_two_stores_never_overlap,
    segment_when_its_rest_is_returned_is_drawn_again,
    segment_when_others_drew_behind_it_is_not_returned,
    issuer_when_it_does_not_exist_is_a_permanent_error,
    numbers_when_the_database_went_back_wait_for_its_repair,
    counter_when_missing_in_a_restored_database_skips_numbers,
    drawn_numbers_when_numbers_are_skipped_are_given_up,
);

/// Numbers are known to have been drawn by the database alone.
fn went_back(token: u64) -> Past {
    let drawn = Drawn::default();
    Past::WentBack { token, drawn }
}

async fn segment_when_drawn_starts_where_the_last_one_ended(database: Database) {
    let store = database.store().await;
    for (issuer, step, start) in [(0, 10, 0), (0, 5, 10), (999, 7, 0), (0, 1, 15), (999, 1, 7)] {
        let expected = Segment {
            issuer,
            start,
            end: start + u64::from(step),
        };
        assert_eq!(
            store.draw_segment(issuer, step).await.unwrap().unwrap(),
            expected
        );
    }
}

async fn segments_when_drawn_by_two_stores_never_overlap(database: Database) {
    let stores = [database.store().await, database.store().await];
    let tasks: Vec<_> = (0..8)
        .map(|task| {
            let store = Arc::clone(&stores[task % 2]);
            tokio::spawn(async move {
                let mut drawn = Vec::new();
                for step in 1..=20 {
                    drawn.push(store.draw_segment(3, step).await.unwrap().unwrap());
                }
                drawn
            })
        })
        .collect();
    let mut drawn = Vec::new();
    for task in tasks {
        drawn.extend(task.await.unwrap());
    }
    drawn.sort_by_key(|segment| segment.start);
    assert_eq!(drawn[0].start, 0);
    assert!(drawn.windows(2).all(|pair| pair[0].end == pair[1].start));
    assert_eq!(drawn.len(), 160);
}

async fn segment_when_its_rest_is_returned_is_drawn_again(database: Database) {
    let store = database.store().await;
    let mut segment = store.draw_segment(0, 100).await.unwrap().unwrap();
    segment.start += 30;
    assert!(store.return_segment(segment).await.unwrap());
    assert!(!store.return_segment(segment).await.unwrap());
    assert_eq!(store.draw_segment(0, 5).await.unwrap().unwrap().start, 30);
}

async fn segment_when_others_drew_behind_it_is_not_returned(database: Database) {
    let store = database.store().await;
    let rest = store.draw_segment(0, 100).await.unwrap().unwrap();
    store.draw_segment(0, 100).await.unwrap().unwrap();
    assert!(!store.return_segment(rest).await.unwrap());
    assert_eq!(store.draw_segment(0, 1).await.unwrap().unwrap().start, 200);
}

async fn issuer_when_it_does_not_exist_is_a_permanent_error(database: Database) {
    let store = database.store().await;
    let error = store.draw_segment(1000, 1).await.unwrap_err();
    assert!(!error.is_transient());
    assert!(error.to_string().contains("no issuer 1000"), "{error}");
}

async fn take_lease(store: &Store) -> PublisherState {
    let claim = LeaseClaim {
        owner: "one",
        kind: FeedKind::Redis,
        lease_millis: 1000,
        published: None,
        seen: (0, FeedPosition::START),
        lost: None,
    };
    let taken = store.take_publisher_lease(&claim).await.unwrap();
    taken.expect("the lease")
}

async fn numbers_when_the_database_went_back_wait_for_its_repair(database: Database) {
    let store = database.store().await;
    take_lease(&store).await;
    let rest = store.draw_segment(0, 100).await.unwrap().unwrap();
    let lost = take_lease(&store).await;
    store.draw_segment(0, 100).await.unwrap().unwrap();
    assert!(store.swap_counter("numbers", 0, 7).await.unwrap());
    // Restored from before the second segment.
    let restored =
        "UPDATE publisher SET token = token - 1; UPDATE issuers SET next = 100 WHERE issuer = 0";
    database.execute(restored).await;
    let error = store.draw_segment(0, 100).await.unwrap_err();
    assert!(error.is_transient());
    assert!(error.to_string().contains("went back"), "{error}");
    assert!(!store.return_segment(rest).await.unwrap());
    for (name, from) in [("numbers", 7), ("others", 0)] {
        let error = store.swap_counter(name, from, 8).await.unwrap_err();
        assert!(error.is_transient());
        assert!(error.to_string().contains("went back"), "{error}");
    }
    // The token of another taking is not above the lost one.
    let again = take_lease(&store).await;
    assert_eq!(again.token, lost.token);
    let past = went_back(lost.token);
    let repaired = store.begin_generation(again.token, past).await.unwrap();
    assert!(repaired.unwrap().token > lost.token);
    let drawn = store.draw_segment(0, 100).await.unwrap().unwrap();
    assert!(drawn.start >= 200, "{drawn:?}");
    assert!(!store.swap_counter("numbers", 7, 8).await.unwrap());
    assert!(store.swap_counter("others", 0, 8).await.unwrap());
}

async fn counter_when_missing_in_a_restored_database_skips_numbers(database: Database) {
    let store = database.store().await;
    let taken = take_lease(&store).await;
    let past = went_back(taken.token);
    let repaired = store.begin_generation(taken.token, past).await.unwrap();
    assert_eq!(store.counter("numbers").await.unwrap(), NUMBERS_SKIPPED);
    let past = went_back(0);
    let again = store.begin_generation(repaired.unwrap().token, past).await;
    assert!(again.unwrap().is_some());
    assert_eq!(store.counter("numbers").await.unwrap(), 2 * NUMBERS_SKIPPED);
}

async fn drawn_numbers_when_numbers_are_skipped_are_given_up(database: Database) {
    let store = database.store().await;
    let sources: [Arc<dyn NumberSource>; 2] = [
        segment(store.clone(), SegmentOptions::default()),
        counter(store.clone(), 1000),
    ];
    for (source, step) in sources.into_iter().zip([1000, 1]) {
        let taken = take_lease(&store).await;
        let first = source.next_number().await.unwrap();
        // The database is as it was, and so are the numbers.
        let kept = store.begin_generation(taken.token, Past::Kept).await;
        assert!(kept.unwrap().is_some());
        let second = source.next_number().await.unwrap();
        assert_eq!(second, first + step);
        let past = went_back(taken.token);
        let repaired = store.begin_generation(taken.token, past).await;
        assert!(repaired.unwrap().is_some());
        let third = source.next_number().await.unwrap();
        assert!(third >= second + 100_000, "{third} after {second}");
        source.shutdown().await;
    }
}
