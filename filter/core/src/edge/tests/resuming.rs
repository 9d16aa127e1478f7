//! Workers that go on in the feed from where others were, and rely on what these have left in shared data.

use super::background::{batch, gap, head, snapshot};
use super::*;
use crate::host::FEED_KEY;
use edgelink_wire::feed::FeedMessage;
use edgelink_wire::feed_batch::MAX_MESSAGES;
use edgelink_wire::{FeedBatch, FeedBatchHead};

const POLL: &str = r#","poll":{}"#;
const ALL: &str = r#","poll":{},"snapshot":{},"admission":{}"#;

impl World {
    /// A worker that has noted places at `0-0`, and a minute and two minutes later, and has a link since.
    fn with_noted_places() -> Self {
        let mut world = Self::with_feed();
        for _ in 0..2 {
            world.later_entries();
        }
        world.know("a", link("https://a/", 1));
        world.pass(1_000);
        world
    }

    /// A minute passes, in which the feed grows.
    fn later_entries(&mut self) {
        for _ in 0..61 {
            self.pass(1_000);
            let beat = self.beat(5);
            self.receive(&[beat]);
        }
        self.pass(1);
    }

    /// A worker of the same proxy that begins now.
    fn next_worker(&self, more: &str) -> Self {
        let mut next = Self::with(settings_with(more));
        next.host.store = self.host.store.clone();
        next.pass(self.now - START);
        assert_eq!(next.visit("/"), Passed);
        for _ in 0..10 {
            next.pass(100);
        }
        next
    }

    /// Answers polls by gaps; the positions that were asked for.
    fn positions_with_gaps(&mut self, count: usize) -> Vec<String> {
        let positions = (0..count).map(|_| {
            let path = self.answer_poll(&gap(self.last_entry));
            self.pass(100);
            position(&path)
        });
        positions.collect()
    }
}

/// The position and generation in the path of a poll.
fn position(path: &str) -> String {
    let (_, after) = path.split_once("after=").expect("a position");
    let (position, _) = after.split_once("&waitMs").expect("a wait");
    position.to_owned()
}

fn put(url: &str) -> FeedMessage<'_> {
    FeedMessage::Put {
        key: "go.example/a",
        record: encoded(&link(url, 2)),
        hot: false,
    }
}

#[test]
fn record_when_fetched_before_a_worker_begins_is_fresh_there_once_it_has_read_what_follows() {
    let world = World::with_noted_places();
    let mut next = world.next_worker(POLL);
    next.ask("/a");
    let other = FeedMessage::Del {
        key: "go.example/z",
        rev: 1,
    };
    let full = vec![other; MAX_MESSAGES];
    let path = next.answer_poll(&batch(world.last_entry - 1, &full));
    assert_eq!(position(&path), "0-0&generation=7");
    assert_eq!(next.visit("/a"), Waiting(next.last_stream));
    next.pass(100);
    next.answer_poll(&batch(world.last_entry, &[]));
    let served = Answered(redirect("https://a/", "lru"));
    assert_eq!(next.visit("/a"), served);
    assert_eq!(next.counted("feed.gap"), 0);
}

#[test]
fn record_when_changed_before_a_worker_begins_is_the_changed_one() {
    let world = World::with_noted_places();
    let mut next = world.next_worker(POLL);
    next.answer_poll(&batch(world.last_entry, &[put("https://new/")]));
    assert_eq!(next.visit("/a"), Answered(redirect("https://new/", "lru")));
}

#[test]
fn record_when_fetched_before_all_places_is_looked_up() {
    let mut world = World::with_begun_feed();
    world.know("a", link("https://a/", 1));
    world.host.store.remove(FEED_KEY);
    let mut second = world.next_worker(POLL);
    second.answer_poll(&gap(9));
    second.pass(100);
    second.answer_poll(&batch(9, &[]));
    second.pass(100);
    let mut third = second.next_worker(POLL);
    let path = third.answer_poll(&batch(9, &[]));
    assert_eq!(position(&path), "9-0&generation=7");
    third.ask("/a");
}

#[test]
fn place_when_the_control_plane_has_forgotten_it_is_left_for_a_later_one() {
    let world = World::with_noted_places();
    let mut next = world.next_worker(POLL);
    next.last_entry = world.last_entry;
    let positions = next.positions_with_gaps(4);
    let expected = [
        "0-0&generation=7",
        "59-0&generation=7",
        "119-0&generation=7",
        "0-0&generation=0",
    ];
    assert_eq!(positions, expected);
    assert_eq!(next.counted("feed.gap"), 0, "it has missed nothing");
    next.answer_poll(&batch(next.last_entry, &[]));
    // Nothing covers what was fetched before.
    next.ask("/a");
}

#[test]
fn places_when_of_another_generation_are_all_left() {
    let world = World::with_noted_places();
    let mut next = world.next_worker(POLL);
    let other = FeedBatchHead {
        generation: GENERATION + 1,
        ..head(9)
    };
    next.answer_poll(&FeedBatch::encode(other, [].iter()));
    next.pass(100);
    let path = next.answer_poll(&FeedBatch::encode(other, [].iter()));
    assert_eq!(position(&path), "0-0&generation=0");
    next.pass(100);
    next.ask("/a");
}

#[test]
fn snapshot_when_places_are_earlier_is_used_with_them() {
    let world = World::with_noted_places();
    let mut next = world.next_worker(ALL);
    next.answer_snapshot(&snapshot(world.last_entry));
    next.pass(100);
    let path = next.answer_poll(&batch(world.last_entry, &[]));
    assert_eq!(position(&path), "0-0&generation=7");
    next.pass(100);
    let served = Answered(redirect("https://a/", "shared-data"));
    assert_eq!(next.visit("/a"), served);
    let hot = Answered(redirect("https://hot/", "lru"));
    assert_eq!(next.visit("/h"), hot);
    next.answer_poll(&batch(world.last_entry, &[]));
    next.pass(100);
    assert_eq!(next.counted("admission"), 1);
    assert_eq!(next.counted("snapshot.ok"), 1);
}

#[test]
fn snapshot_when_places_are_forgotten_is_begun_from() {
    let world = World::with_noted_places();
    let mut next = world.next_worker(ALL);
    next.last_entry = world.last_entry;
    next.answer_snapshot(&snapshot(world.last_entry));
    next.pass(100);
    next.positions_with_gaps(3);
    let path = next.answer_poll(&batch(world.last_entry, &[]));
    let at_snapshot = format!("{}-0&generation=7", world.last_entry);
    assert_eq!(position(&path), at_snapshot);
    next.pass(100);
    assert_eq!(next.visit("/h"), Answered(redirect("https://hot/", "lru")));
    next.answer_poll(&batch(world.last_entry, &[]));
    next.pass(100);
    assert_eq!(next.counted("admission"), 1);
    assert_eq!(next.counted("snapshot.ok"), 1, "one is enough");
    next.ask("/a");
}
