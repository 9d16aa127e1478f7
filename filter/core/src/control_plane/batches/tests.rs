use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

const WORKER: WorkerId = [7; 16];

fn batches(count: usize) -> Batches {
    let bounds = BatchBounds {
        batches: count,
        bytes: 1 << 20,
    };
    Batches::new(WORKER, bounds)
}

fn counted(clicks: u64) -> Tallied {
    Tallied {
        clicks: vec![(b"d/a".to_vec().into_boxed_slice(), clicks)],
        lost: 0,
    }
}

/// Number, total, dropped and clicks of each batch in a request.
fn read(body: &[u8]) -> Vec<(u64, u64, u64, u64)> {
    let batches = clicks::decode(body).unwrap();
    let numbers = batches
        .iter()
        .map(|batch| (batch.seq, batch.total, batch.dropped, batch.sum()));
    numbers.collect()
}

#[test]
fn a_batch_is_sent_with_the_same_number_until_it_is_taken() {
    let mut batches = batches(9);
    assert_eq!(batches.request(), None);
    batches.close(counted(3), 50);
    let body = batches.request().unwrap();
    assert_eq!(read(&body), [(1, 3, 0, 3)]);
    assert_eq!(batches.request().unwrap(), body);
    batches.close(counted(2), 51);
    assert_eq!(batches.acknowledge(), 3, "only what was under way");
    assert_eq!(read(&batches.request().unwrap()), [(2, 5, 0, 2)]);
    assert_eq!(batches.acknowledge(), 2);
    assert_eq!((batches.request(), batches.bytes), (None, 0));
}

#[test]
fn nothing_is_sent_where_nothing_was_counted() {
    let mut batches = batches(9);
    batches.close(Tallied::default(), 50);
    assert_eq!(batches.request(), None);
}

#[test]
fn of_too_many_batches_the_oldest_that_was_never_sent_is_dropped_and_reported() {
    let mut batches = batches(2);
    batches.close(counted(1), 50);
    batches.request().unwrap();
    for clicks in [10, 100] {
        batches.close(counted(clicks), 51);
    }
    assert_eq!(
        read(&batches.request().unwrap()),
        [(1, 1, 0, 1), (3, 111, 0, 100)]
    );
    assert_eq!(batches.acknowledge(), 101);
    assert_eq!(batches.dropped(), 10);
    batches.close(Tallied::default(), 52);
    assert_eq!(read(&batches.request().unwrap()), [(4, 111, 10, 0)]);
}

#[test]
fn the_bound_in_bytes_is_kept_too() {
    let bounds = BatchBounds {
        batches: 100,
        bytes: 3 * (BATCH_BYTES + LINK_BYTES + 3),
    };
    let mut batches = Batches::new(WORKER, bounds);
    for _ in 0..5 {
        batches.close(counted(1), 50);
    }
    assert_eq!((batches.waiting.len(), batches.dropped()), (3, 2));
}

#[test]
fn clicks_lost_in_the_worker_are_reported_even_without_others() {
    let mut batches = batches(9);
    let lost = Tallied {
        lost: 5,
        ..Tallied::default()
    };
    batches.close(lost, 50);
    assert_eq!(read(&batches.request().unwrap()), [(1, 5, 5, 0)]);
}

#[test]
fn batches_that_will_never_be_taken_are_given_up() {
    let mut batches = batches(9);
    batches.close(counted(4), 50);
    batches.request().unwrap();
    batches.reject();
    assert_eq!((batches.request(), batches.dropped()), (None, 4));
}

#[test]
fn many_links_make_several_batches_and_many_batches_several_requests() {
    let mut batches = batches(1_000);
    let links = (0..MAX_LINKS + 1).map(|at| (format!("d/{at}").into_bytes().into(), 1));
    let tallied = Tallied {
        clicks: links.collect(),
        lost: 0,
    };
    batches.close(tallied, 50);
    let expected = [(1, 2_048, 0, 2_048), (2, 2_049, 0, 1)];
    assert_eq!(read(&batches.request().unwrap()), expected);
    batches.acknowledge();
    for _ in 0..MAX_BATCHES + 1 {
        batches.close(counted(1), 51);
    }
    assert_eq!(read(&batches.request().unwrap()).len(), MAX_BATCHES);
    batches.acknowledge();
    assert_eq!(read(&batches.request().unwrap()).len(), 1);
}

#[derive(Clone, Debug)]
enum Event {
    Close(u64),
    Lose(u64),
    /// Whether the control plane counts it, and whether its answer reaches the worker.
    Send(bool, bool),
}

proptest! {
    /// However often batches are sent, fail, and are given up: in the end, what was counted is what there was minus what
    /// was reported as given up.
    #[test]
    fn nothing_is_lost_without_being_reported_and_nothing_counts_twice(events in prop::collection::vec(
        prop_oneof![
            (1u64..9).prop_map(Event::Close),
            (1u64..9).prop_map(Event::Lose),
            any::<(bool, bool)>().prop_map(|(counts, arrives)| Event::Send(counts, arrives)),
        ], 0..60,
    )) {
        let mut batches = batches(3);
        let (mut had, mut counted_by, mut last) = (0, BTreeMap::new(), (0, 0));
        let mut send = |batches: &mut Batches, counts: bool, arrives: bool| {
            let Some(body) = batches.request() else { return false };
            for (seq, total, dropped, clicks) in read(&body) {
                if counts {
                    counted_by.insert(seq, clicks);
                    last = (total, dropped).max(last);
                }
            }
            if counts && arrives {
                batches.acknowledge();
            }
            counts && arrives
        };
        for event in events {
            match event {
                Event::Close(clicks) => { had += clicks; batches.close(counted(clicks), 1); }
                Event::Lose(lost) => {
                    had += lost;
                    batches.close(Tallied { lost, ..Tallied::default() }, 1);
                }
                Event::Send(counts, arrives) => { send(&mut batches, counts, arrives); }
            }
            prop_assert!(batches.waiting.len() <= 3);
        }
        for _ in 0..5 {
            while send(&mut batches, true, true) {}
            batches.close(Tallied::default(), 2);
        }
        let counted: u64 = counted_by.values().sum();
        prop_assert_eq!(last.0, had);
        prop_assert_eq!(counted, had - last.1);
    }
}
