//! Requests that are decided side by side with others: what they change, and that threads count each of them once.

use super::*;
use crate::cache::Update;
use crate::fake::hasher;
use edgelink_wire::clicks::decode;
use edgelink_wire::record::Extension;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

const THREADS: u64 = 16;
const EACH: u64 = 5_000;

/// The clicks in all reports of the world, and lost ones.
fn reported(world: &mut World) -> u64 {
    let mut clicks = 0;
    loop {
        world.pass(1_000);
        let Some((token, callout)) = world.callouts.pop() else {
            return clicks;
        };
        let batches = decode(&callout.body).unwrap();
        clicks += batches.iter().map(|batch| batch.sum()).sum::<u64>();
        world.answer_report(token, b"204");
    }
}

/// Asks the edge of a world on several threads, and takes over their notes. Returns the number of answers.
fn ask_beside(world: &mut World, path: &str) -> u64 {
    let (edge, answered) = (&world.edge, AtomicU64::new(0));
    let (now, begin) = (
        Moment::from_millis(world.now),
        Barrier::new(THREADS as usize),
    );
    let mut notes: Vec<_> = (0..THREADS)
        .map(|n| edge.hit_notes([n as u8; 16]))
        .collect();
    thread::scope(|scope| {
        for notes in &mut notes {
            let (begin, answered) = (&begin, &answered);
            scope.spawn(move || {
                let host = Host::default();
                begin.wait();
                for _ in 0..EACH {
                    edge.on_hit(notes, (&host, 0), &get(path), now, |_| {
                        answered.fetch_add(1, Ordering::Relaxed);
                    });
                }
            });
        }
    });
    let mut notes: Vec<_> = notes.iter_mut().collect();
    world.edge.end_hits(&mut notes);
    answered.into_inner()
}

#[test]
fn clicks_when_counted_by_many_threads_are_all_reported() {
    for more in [
        r#","clicks":{}"#,
        r#","clicks":{"attributes":["userAgent","language"]}"#,
    ] {
        let mut world = World::with(settings_with(more));
        world.know("a", link("https://a/", 1));
        let before = reported(&mut world);
        assert_eq!(ask_beside(&mut world, "/a"), THREADS * EACH);
        assert_eq!(before + reported(&mut world), 1 + THREADS * EACH, "{more}");
        let requests = world.counted("requests.lru.redirect");
        assert_eq!(requests, (THREADS * EACH) as i64, "{more}");
    }
}

#[test]
fn tokens_when_taken_by_many_threads_are_as_many_as_there_are() {
    let settings = settings_with(r#","limit":{"perSecond":1,"burst":1000}"#);
    let limit = AddressLimit::new(settings.limit.clone(), hasher());
    let (now, address) = (Moment::from_millis(START), [192, 0, 2, 1].into());
    let taken = AtomicU64::new(0);
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                let admitted = (0..EACH).filter(|_| limit.take(address, now)).count();
                taken.fetch_add(admitted as u64, Ordering::Relaxed);
            });
        }
    });
    assert_eq!(taken.into_inner(), 1_000);
}

#[test]
fn request_when_it_needs_more_than_the_cache_is_left_to_the_edge() {
    let mut world = World::with(settings_with(r#","clicks":{}"#));
    let now = Moment::from_millis(world.now);
    let undecided = |world: &mut World, head: &Head<'_>| {
        let (edge, notes) = (&world.edge, &mut world.notes);
        let hit = edge.on_hit(notes, (&world.host, 0), head, now, |_| {});
        matches!(hit, Hit::Undecided(_))
    };
    assert!(undecided(&mut world, &get("/a")), "before the first one");
    world.know("a", link("https://a/", 1));
    assert!(!undecided(&mut world, &get("/a")));
    let post = Head {
        method: b"POST",
        ..get("/a")
    };
    assert!(undecided(&mut world, &post));
    for path in ["/b", "/", "/a/b"] {
        assert!(undecided(&mut world, &get(path)), "{path}");
    }
    let extension = Extension {
        max_visits: Some(1),
        ..Default::default()
    };
    let limited = extension.to_bytes();
    let Record::Link(mut record) = link("https://c/", 1) else {
        unreachable!();
    };
    record.extension = &limited;
    let token = world.ask("/c");
    let body = aged("go.example/c", Record::Link(record), 0);
    let response = Response {
        status: b"200",
        content_type: LinkAnswer::MEDIA_TYPE.as_bytes(),
        body: &body,
    };
    let now = Moment::from_millis(world.now);
    let _asks_for_visits = (world.edge).on_callout_end(&mut world.host, token, response, now);
    assert!(undecided(&mut world, &get("/c")));
}

#[test]
fn record_when_it_has_changed_is_served_side_by_side_from_then_on() {
    let mut world = World::new();
    world.know("a", link("https://old/", 1));
    world.last_stream = 101;
    assert_eq!(world.visit("/a"), Answered(redirect("https://old/", "lru")));
    let update = Update {
        record: encoded(&link("https://new/", 2)),
        is_hot: false,
        at: Moment::from_millis(world.now),
    };
    let now = Moment::from_millis(world.now);
    (world.edge.caches).apply_update(&mut world.host, b"go.example/a", update, now);
    world.last_stream = 101;
    assert_eq!(world.visit("/a"), Answered(redirect("https://new/", "lru")));
}
