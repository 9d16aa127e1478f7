use super::*;
use crate::clicks::{Gathered, Tallied};
use edgelink_wire::RedirectStatus;
use edgelink_wire::clicks::events::{Attributes, EventsBuilder, OrphanKind};
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

fn counted(clicks: u64) -> Counted {
    of(Tallied {
        clicks: vec![(b"d/a".to_vec().into_boxed_slice(), clicks)],
        lost: 0,
    })
}

fn of(tallied: Tallied) -> Counted {
    Counted {
        tallied,
        gathered: Gathered::default(),
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
    batches.close(Counted::default(), 50);
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
    batches.close(Counted::default(), 52);
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
    batches.close(of(lost), 50);
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
    batches.close(of(tallied), 50);
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

/// So many events of clicks on `d/{link}`, and an orphan visit.
fn described(link: &str, clicks: usize) -> Counted {
    let hasher = crate::fake::hasher();
    let builder = || EventsBuilder::new(hasher.clone(), 1 << 20);
    let (mut events, mut orphans) = (builder(), builder());
    let key = format!("d/{link}");
    let event = edgelink_wire::clicks::events::Event {
        key: key.as_bytes(),
        at: 50,
        kind: Kind::Redirect(RedirectStatus::Found),
        rule: 0,
        attributes: Attributes::default(),
        visitor: Some(1),
        id: None,
    };
    for _ in 0..clicks {
        assert!(events.push(&event));
    }
    let kind = Kind::Orphan(OrphanKind::BaseUrl);
    assert!(orphans.push(&edgelink_wire::clicks::events::Event { kind, ..event }));
    let gathered = Gathered {
        clicks: events.take(),
        orphans: orphans.take(),
        ..Gathered::default()
    };
    Counted {
        gathered,
        ..Counted::default()
    }
}

/// Number, undescribed, counts and described clicks of each batch in a request.
fn read_described(body: &[u8]) -> Vec<(u64, u64, u64, u64)> {
    let batches = clicks::decode(body).unwrap();
    let numbers = batches.iter().map(|batch| {
        let events = batch.events.clicks;
        (batch.seq, batch.undescribed, batch.sum() - events, events)
    });
    numbers.collect()
}

#[test]
fn attributes_go_before_counts_do() {
    let bounds = BatchBounds {
        batches: 4,
        bytes: 1 << 20,
    };
    let mut batches = Batches::new(WORKER, bounds);
    for link in ["a", "b", "a", "c"] {
        batches.close(described(link, 10), 50);
    }
    assert_eq!((batches.dropped(), batches.undescribed()), (0, 30));
    assert_eq!(batches.dropped_orphans(), 2);
    // Those of each `close` are a batch of clicks and one of orphan visits.
    let body = batches.request().unwrap();
    assert_eq!(
        read_described(&body),
        [(5, 0, 30, 0), (6, 0, 0, 0), (7, 20, 0, 10), (8, 20, 0, 0)]
    );
    let decoded = clicks::decode(&body).unwrap();
    assert_eq!(decoded[0].clicks, [("d/a", 20), ("d/b", 10)]);
}
#[test]
fn a_batch_whose_events_of_many_links_became_counts_can_be_read() {
    let bounds = BatchBounds {
        batches: 100,
        bytes: 1 << 20,
    };
    let mut batches = Batches::new(WORKER, bounds);
    let hasher = crate::fake::hasher();
    let mut events = EventsBuilder::new(hasher, 1 << 20);
    for number in 0..MAX_LINKS * 2 {
        let key = format!("d/{number}");
        assert!(events.push(&edgelink_wire::clicks::events::Event {
            key: key.as_bytes(),
            at: 50,
            kind: Kind::Redirect(RedirectStatus::Found),
            rule: 0,
            attributes: Attributes::default(),
            visitor: Some(1),
            id: Some([1; 16]),
        }));
    }
    let gathered = Gathered {
        clicks: events.take(),
        ..Gathered::default()
    };
    let stripped = Counted {
        gathered,
        ..Counted::default()
    };
    batches.close(stripped, 50);
    assert!(batches.strip_one());
    let clicks = 2 * MAX_LINKS as u64;
    let body = batches.request().unwrap();
    assert_eq!(read(&body), [(1, clicks, 0, clicks)]);
}

#[test]
fn a_full_queue_loses_nothing_more_while_no_clicks_come() {
    let mut batches = batches(2);
    for clicks in [1, 10, 100] {
        batches.close(counted(clicks), 50);
    }
    for _ in 0..9 {
        batches.close(Counted::default(), 51);
    }
    assert_eq!(batches.dropped(), 1);
    let body = batches.request().unwrap();
    assert_eq!(read(&body), [(2, 11, 0, 10), (3, 111, 1, 100)]);
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
                    batches.close(of(Tallied { lost, ..Tallied::default() }), 1);
                }
                Event::Send(counts, arrives) => { send(&mut batches, counts, arrives); }
            }
            prop_assert!(batches.waiting.len() <= 3);
        }
        for _ in 0..5 {
            while send(&mut batches, true, true) {}
            batches.close(Counted::default(), 2);
        }
        let counted: u64 = counted_by.values().sum();
        prop_assert_eq!(last.0, had);
        prop_assert_eq!(counted, had - last.1);
    }
}
