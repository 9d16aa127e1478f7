use super::batch::BATCH_BYTES;
use super::*;
use crate::clicks::{Gathered, LinkClicks, Tallied};
use edgelink_wire::ClickBatch;
use edgelink_wire::RedirectStatus;
use edgelink_wire::clicks::events::{Attributes, EventsBuilder, Kind, MAX_EVENTS, OrphanKind};
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
        clicks: vec![(
            b"d/a".to_vec().into_boxed_slice(),
            LinkClicks::plain(clicks),
        )],
        lost: 0,
    })
}

fn of(tallied: Tallied) -> Counted {
    Counted {
        tallied,
        gathered: Vec::new(),
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
fn batch_when_not_acknowledged_is_sent_again_unchanged() {
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
fn request_when_nothing_was_counted_is_none() {
    let mut batches = batches(9);
    batches.close(Counted::default(), 50);
    assert_eq!(batches.request(), None);
}

#[test]
fn batches_when_too_many_drop_and_report_the_oldest_unsent() {
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
fn batches_when_over_the_byte_bound_are_dropped() {
    let bounds = BatchBounds {
        batches: 100,
        bytes: 3 * (BATCH_BYTES + b"\x03d/a\x01".len()),
    };
    let mut batches = Batches::new(WORKER, bounds);
    for _ in 0..5 {
        batches.close(counted(1), 50);
    }
    assert_eq!((batches.waiting.len(), batches.dropped()), (3, 2));
}

#[test]
fn clicks_when_lost_in_the_worker_are_reported_alone() {
    let mut batches = batches(9);
    let lost = Tallied {
        lost: 5,
        ..Tallied::default()
    };
    batches.close(of(lost), 50);
    assert_eq!(read(&batches.request().unwrap()), [(1, 5, 5, 0)]);
}

#[test]
fn batch_when_rejected_is_dropped_and_counted() {
    let mut batches = batches(9);
    batches.close(counted(4), 50);
    batches.request().unwrap();
    batches.reject();
    assert_eq!((batches.request(), batches.dropped()), (None, 4));
}

#[test]
fn loss_when_its_batch_is_rejected_is_reported_again() {
    let mut batches = batches(9);
    let lost = Tallied {
        lost: 1,
        ..Tallied::default()
    };
    batches.close(of(lost), 50);
    for seq in 1..=3 {
        let expected = [(seq, 1, 1, 0)];
        assert_eq!(
            batches.request().as_deref().map(read),
            Some(expected.into())
        );
        batches.reject();
        batches.close(Counted::default(), 51);
    }
    batches.request().unwrap();
    batches.acknowledge();
    batches.close(Counted::default(), 52);
    assert_eq!((batches.request(), batches.dropped()), (None, 1));
}

#[test]
fn clicks_when_too_many_are_split_over_batches_and_requests() {
    let mut batches = batches(1_000);
    let links =
        (0..MAX_LINKS + 1).map(|at| (format!("d/{at}").into_bytes().into(), LinkClicks::plain(1)));
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

fn gathered(gathered: Gathered) -> Counted {
    Counted {
        gathered: vec![gathered],
        ..Counted::default()
    }
}

fn event(key: &str, kind: Kind) -> clicks::events::Event<&[u8]> {
    clicks::events::Event {
        key: key.as_bytes(),
        at: 50,
        kind,
        rule: 0,
        attributes: Attributes::default(),
        visitor: Some(1),
        id: None,
    }
}

/// Events of clicks on these links, and orphan visits.
fn events(links: impl IntoIterator<Item = usize>, visits: usize) -> Counted {
    let hasher = crate::fake::hasher();
    let builder = || EventsBuilder::new(hasher.clone(), 1 << 20);
    let (mut clicks, mut orphans) = (builder(), builder());
    for link in links {
        let key = format!("d/{link}");
        let kind = Kind::Redirect(RedirectStatus::Found);
        assert!(clicks.push(&event(&key, kind)));
    }
    for _ in 0..visits {
        let kind = Kind::Orphan(OrphanKind::BaseUrl);
        assert!(orphans.push(&event("d/", kind)));
    }
    gathered(Gathered {
        clicks: clicks.take(),
        orphans: orphans.take(),
        ..Gathered::default()
    })
}

/// `clicks` clicks on one link, and an orphan visit.
fn described(link: usize, clicks: usize) -> Counted {
    events(std::iter::repeat_n(link, clicks), 1)
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
fn queue_when_full_drops_orphans_then_attributes() {
    let mut batches = batches(4);
    for link in [1, 2] {
        batches.close(described(link, 10), 50);
    }
    // Each `close` makes a batch of clicks and one of orphan visits.
    assert_eq!((batches.waiting.len(), batches.dropped_orphans()), (4, 0));
    for link in [1, 3] {
        batches.close(described(link, 10), 50);
    }
    assert_eq!((batches.undescribed(), batches.dropped_orphans()), (0, 4));
    batches.close(described(4, 10), 51);
    assert_eq!((batches.dropped(), batches.undescribed()), (0, 10));
    let body = batches.request().unwrap();
    let expected = [(3, 10, 10, 10), (5, 0, 0, 10), (7, 0, 0, 10), (9, 0, 0, 10)];
    assert_eq!(read_described(&body), expected);
    let decoded = clicks::decode(&body).unwrap();
    assert_eq!(decoded[0].clicks, [("d/1", 10)]);
}

#[test]
fn batch_when_clicks_lack_events_counts_them_undescribed() {
    let mut batches = batches(9);
    let clicks = LinkClicks {
        count: 5,
        undescribed: 2,
    };
    let links = (0..=MAX_LINKS).map(|at| (format!("d/{at}").into_bytes().into(), clicks));
    let tallied = Tallied {
        clicks: links.collect(),
        lost: 3,
    };
    batches.close(of(tallied), 50);
    let body = batches.request().unwrap();
    let links = MAX_LINKS as u64;
    assert_eq!(
        read_described(&body),
        [(1, 2 * links, 5 * links, 0), (2, 2, 5, 0)]
    );
    assert_eq!(batches.undescribed(), 2 * links + 2);
}

#[test]
fn batch_when_its_events_become_counts_stays_readable() {
    let mut batches = batches(100);
    batches.close(events(0..2 * MAX_LINKS, 0), 50);
    let before = batches.bytes;
    assert!(batches.strip_one().is_none(), "it would free nothing");
    batches.set_bounds(BatchBounds {
        batches: 100,
        bytes: 1,
    });
    assert!(batches.strip_one().is_some());
    assert!(batches.bytes < before, "{}", batches.bytes);
    let clicks = 2 * MAX_LINKS as u64;
    let body = batches.request().unwrap();
    assert_eq!(read_described(&body), [(1, clicks, clicks, 0)]);
}

#[test]
fn batches_when_one_too_many_strip_the_attributes_of_one() {
    let mut batches = batches(64);
    for at in 0..65 {
        batches.close(events([at], 0), 1_000 + at as u64);
    }
    assert_eq!((batches.dropped(), batches.undescribed()), (0, 1));
    // Batches of different minutes are not joined, nor are batches whose links do not fit one.
    let mut lonely = Batches::new(WORKER, batches.bounds);
    for at in 0..70 {
        lonely.close(events([at], 0), 60 * at as u64);
    }
    assert_eq!((lonely.dropped(), lonely.undescribed()), (6, 0));
}

#[test]
fn batches_when_far_over_the_bound_strip_few_events_at_once() {
    let mut batches = batches(1_000);
    batches.set_bounds(BatchBounds {
        batches: 1_000,
        bytes: usize::MAX,
    });
    for at in 0..12 {
        batches.close(events(0..MAX_EVENTS, 0), at);
    }
    let event_bytes = batches.waiting[0].event_bytes();
    batches.set_bounds(BatchBounds {
        batches: 1_000,
        bytes: 1 << 20,
    });
    batches.close(counted(1), 50);
    let most = STRIP_BYTES.div_ceil(event_bytes) as u64 * MAX_EVENTS as u64;
    assert!(batches.undescribed() <= most, "{}", batches.undescribed());
    assert!(batches.bytes <= 1 << 20);
    assert!(batches.dropped() > 0);
}

#[test]
fn batch_when_refused_among_others_is_isolated_and_dropped() {
    let mut batches = batches(100);
    for clicks in 1..=5 {
        batches.close(counted(clicks), 50);
    }
    assert_eq!(read(&batches.request().unwrap()).len(), 5);
    batches.reject();
    assert_eq!(batches.dropped(), 0);
    batches.close(counted(6), 51);
    let mut acknowledged = 0;
    for clicks in 1..=5 {
        let body = batches.request().unwrap();
        assert_eq!(read(&body).len(), 1);
        if clicks == 3 {
            batches.reject();
        } else {
            acknowledged += batches.acknowledge();
        }
    }
    assert_eq!((acknowledged, batches.dropped()), (12, 3));
    batches.close(counted(7), 52);
    let expected = [(6, 21, 0, 6), (7, 28, 3, 7)];
    assert_eq!(
        read(&batches.request().unwrap()),
        expected,
        "together again"
    );
}

#[test]
fn orphan_visits_when_their_batch_is_given_up_are_counted() {
    let mut batches = batches(100);
    batches.close(events([1], 3), 50);
    batches.close(events([1], 4), 51);
    batches.request().unwrap();
    batches.reject();
    for _ in 0..2 {
        batches.request().unwrap();
        batches.reject();
    }
    assert_eq!((batches.dropped(), batches.dropped_orphans()), (1, 3));
    batches.drop_all();
    assert_eq!((batches.dropped(), batches.dropped_orphans()), (2, 7));
}

#[test]
fn queue_when_full_and_idle_loses_nothing_more() {
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

/// The counts of a control plane, decoded as it does.
#[derive(Default)]
struct Counter {
    /// Clicks, events among them, orphan visits and undescribed clicks of each batch.
    batches: BTreeMap<u64, [u64; 4]>,
    /// Total and dropped of the batch with the highest number.
    last: (u64, u64),
}

impl Counter {
    fn count(&mut self, body: &[u8]) {
        let batches = clicks::decode(body).unwrap();
        for batch in &batches {
            let orphans = orphans_of(batch);
            let numbers = [batch.sum(), batch.events.clicks, orphans, batch.undescribed];
            let before = self.batches.insert(batch.seq, numbers);
            assert!(
                before.is_none_or(|before| before == numbers),
                "it has changed"
            );
            let mut keys: Vec<_> = batch.clicks.iter().map(|(key, _)| *key).collect();
            keys.sort_unstable();
            keys.dedup();
            assert_eq!(keys.len(), batch.clicks.len(), "a link comes twice");
            self.last = (batch.total, batch.dropped).max(self.last);
        }
    }

    fn sums(&self) -> [u64; 4] {
        let add = |sums: [u64; 4], batch: &[u64; 4]| std::array::from_fn(|at| sums[at] + batch[at]);
        self.batches.values().fold([0; 4], add)
    }
}

fn orphans_of(batch: &ClickBatch<'_>) -> u64 {
    let events = clicks::events::Events::decode(batch.events.bytes).unwrap();
    let is_orphan = |event: &clicks::events::Event<&str>| matches!(event.kind, Kind::Orphan(_));
    events.map(Result::unwrap).filter(is_orphan).count() as u64
}

#[derive(Clone, Debug)]
enum Event {
    /// Plain and undescribed clicks on a link.
    Close(u64, u64),
    /// Clicks on that many links, which are events, and orphan visits.
    Describe(usize, usize),
    /// Clicks and orphan visits for which there was no room.
    Lose(u64, u64),
    /// Flags: the control plane counts it; its answer reaches the worker.
    Send(bool, bool),
    /// The control plane rejects the request.
    Refuse,
}

/// Actions of visitors: clicks, the number of them that were events or undescribed from the start, and orphan visits.
#[derive(Clone, Copy, Debug, Default)]
struct Had {
    clicks: u64,
    described: u64,
    orphans: u64,
}

impl Event {
    fn counted(&self, had: &mut Had) -> Option<Counted> {
        match *self {
            Self::Close(plain, undescribed) => {
                let count = plain + undescribed;
                had.clicks += count;
                had.described += undescribed;
                let clicks = LinkClicks { count, undescribed };
                Some(of(Tallied {
                    clicks: vec![(b"d/1".to_vec().into(), clicks)],
                    lost: 0,
                }))
            }
            Self::Describe(links, visits) => {
                had.clicks += links as u64;
                had.described += links as u64;
                had.orphans += visits as u64;
                Some(events(0..links, visits))
            }
            Self::Lose(lost, lost_orphans) => {
                had.clicks += lost;
                had.orphans += lost_orphans;
                let gathered = vec![Gathered {
                    lost_orphans,
                    ..Gathered::default()
                }];
                let tallied = Tallied {
                    lost,
                    ..Tallied::default()
                };
                Some(Counted { tallied, gathered })
            }
            Self::Send(..) | Self::Refuse => None,
        }
    }
}

fn send(batches: &mut Batches, counter: &mut Counter, counts: bool, arrives: bool) -> bool {
    let Some(body) = batches.request() else {
        return false;
    };
    if counts {
        counter.count(&body);
    }
    if counts && arrives {
        batches.acknowledge();
    }
    counts && arrives
}

fn any_event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => (1u64..9, 0u64..3).prop_map(|(plain, undescribed)| Event::Close(plain, undescribed)),
        4 => (0usize..40, 0usize..9).prop_map(|(links, visits)| Event::Describe(links, visits)),
        1 => (MAX_LINKS - 9..MAX_LINKS * 2, 0usize..9).prop_map(|(links, visits)| Event::Describe(links, visits)),
        1 => (0u64..9, 0u64..9).prop_map(|(clicks, orphans)| Event::Lose(clicks, orphans)),
        4 => any::<(bool, bool)>().prop_map(|(counts, arrives)| Event::Send(counts, arrives)),
        1 => Just(Event::Refuse),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// However often batches are sent, fail, are rejected and dropped: in the end all clicks were counted except those reported as
    /// dropped, and each click that lacks its attributes is reported.
    #[test]
    fn clicks_when_batches_fail_or_drop_are_counted_or_reported_once(
        happenings in prop::collection::vec(any_event(), 0..40),
        bounds in prop_oneof![Just((3, 1 << 20)), Just((64, 60_000))],
    ) {
        let (most, bytes) = bounds;
        let bounds = BatchBounds { batches: most, bytes };
        let mut batches = Batches::new(WORKER, bounds);
        let (mut had, mut counter) = (Had::default(), Counter::default());
        let mut seen_by_none = true;
        for (at, event) in happenings.iter().enumerate() {
            match event {
                Event::Send(counts, arrives) => {
                    seen_by_none &= !counts;
                    send(&mut batches, &mut counter, *counts, *arrives);
                }
                // A control plane that rejects a batch has never counted it.
                Event::Refuse if seen_by_none => if batches.request().is_some() { batches.reject(); },
                Event::Refuse => {}
                event => if let Some(counted) = event.counted(&mut had) { batches.close(counted, at as u64); }
            }
            let bytes_now: usize = batches.waiting.iter().map(Batch::bytes).sum();
            prop_assert_eq!(batches.bytes, bytes_now);
            let has_unsent = batches.waiting.len() > batches.attempted;
            prop_assert!(!has_unsent || (batches.waiting.len() <= most && bytes_now <= bytes));
        }
        for _ in 0..80 {
            while send(&mut batches, &mut counter, true, true) {}
            batches.close(Counted::default(), 1_000);
        }
        let [counted, described, orphans, undescribed] = counter.sums();
        let (total, dropped) = counter.last;
        prop_assert_eq!((total, dropped), (had.clicks, batches.dropped()));
        prop_assert_eq!(counted, total - dropped);
        prop_assert_eq!(orphans, had.orphans - batches.dropped_orphans());
        // The number of described clicks among the dropped ones is unknown, but every counted click is accounted for.
        prop_assert!(described + undescribed <= had.described);
        prop_assert!(had.described - described - undescribed <= dropped);
        prop_assert!(undescribed <= batches.undescribed());
    }
}
