//! Segments of numbers.

use crate::fixture::Database;
use edgelink_control_plane::store::Segment;
use std::sync::Arc;

on_every_database!(
    a_segment_starts_where_the_last_one_of_its_issuer_ended,
    two_stores_that_draw_at_once_never_get_the_same_sequence,
    the_rest_of_a_segment_is_drawn_again_once_it_is_given_back,
    a_rest_behind_which_others_have_drawn_is_not_taken_back,
    an_issuer_that_does_not_exist_is_a_permanent_error,
);

async fn a_segment_starts_where_the_last_one_of_its_issuer_ended(database: Database) {
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

async fn two_stores_that_draw_at_once_never_get_the_same_sequence(database: Database) {
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

async fn the_rest_of_a_segment_is_drawn_again_once_it_is_given_back(database: Database) {
    let store = database.store().await;
    let mut segment = store.draw_segment(0, 100).await.unwrap().unwrap();
    segment.start += 30;
    assert!(store.return_segment(segment).await.unwrap());
    assert!(!store.return_segment(segment).await.unwrap());
    assert_eq!(store.draw_segment(0, 5).await.unwrap().unwrap().start, 30);
}

async fn a_rest_behind_which_others_have_drawn_is_not_taken_back(database: Database) {
    let store = database.store().await;
    let rest = store.draw_segment(0, 100).await.unwrap().unwrap();
    store.draw_segment(0, 100).await.unwrap().unwrap();
    assert!(!store.return_segment(rest).await.unwrap());
    assert_eq!(store.draw_segment(0, 1).await.unwrap().unwrap().start, 200);
}

async fn an_issuer_that_does_not_exist_is_a_permanent_error(database: Database) {
    let store = database.store().await;
    let error = store.draw_segment(1000, 1).await.unwrap_err();
    assert!(!error.is_transient());
    assert!(error.to_string().contains("no issuer 1000"), "{error}");
}
