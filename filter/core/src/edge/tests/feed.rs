//! Effects of feed messages on the caches, and freshness of records under the feed.

use super::background::{gap, head};
use super::*;
use edgelink_wire::feed::FeedMessage;
use edgelink_wire::{FeedBatch, FeedBatchHead};

impl World {
    /// A worker that has read a feed for some seconds.
    pub(super) fn with_feed() -> Self {
        let mut world = Self::with_begun_feed();
        world.quiet_seconds(6);
        world
    }

    /// A worker that has just begun to read a feed.
    pub(super) fn with_begun_feed() -> Self {
        let mut world = Self::with_background(r#","poll":{}"#);
        world.answer_poll(&gap(0));
        world.pass(1);
        world
    }

    /// A worker that has a link, fetched from the control plane.
    fn with_feed_and_link() -> Self {
        let mut world = Self::with_feed();
        world.know("a", link("https://old/", 1));
        world
    }

    /// The given seconds pass, with a beat of the feed at the end of each.
    fn quiet_seconds(&mut self, seconds: u64) {
        for _ in 0..seconds {
            self.pass(1_000);
            let beat = self.beat(5);
            self.receive(&[beat]);
        }
    }

    /// These messages come with the next answer to a poll.
    pub(super) fn receive(&mut self, messages: &[FeedMessage<'_>]) {
        self.receive_from(0, messages);
    }

    /// These messages come from a control plane whose feed is `age_millis` old.
    fn receive_from(&mut self, age_millis: u64, messages: &[FeedMessage<'_>]) {
        let head = FeedBatchHead {
            age_millis,
            ..self.next_head(messages.len())
        };
        self.answer_poll(&FeedBatch::encode(head, messages.iter()));
    }

    fn next_head(&mut self, messages: usize) -> FeedBatchHead {
        self.last_entry += messages as u64;
        head(self.last_entry)
    }
}

fn put<'a>(url: &'a str, rev: u64) -> FeedMessage<'a> {
    FeedMessage::Put {
        key: "go.example/a",
        record: encoded(&link(url, rev)),
        hot: false,
    }
}

const DEL: FeedMessage<'static> = FeedMessage::Del {
    key: "go.example/a",
    rev: 9,
};

#[test]
fn change_when_applied_is_served_from_lru_and_shared_data() {
    let mut world = World::with_feed_and_link();
    world.receive(&[put("https://new/", 2)]);
    assert_eq!(world.visit("/a"), Answered(redirect("https://new/", "lru")));
    let mut other = world.other_worker();
    assert_eq!(
        other.visit("/a"),
        Answered(redirect("https://new/", "shared-data"))
    );
    assert_eq!(world.counted("feed.put"), 1);
}

#[test]
fn link_when_deleted_is_absent_until_a_newer_rev_comes() {
    let mut world = World::with_feed_and_link();
    world.receive(&[DEL]);
    assert_eq!(world.visit("/a"), Answered(page(404, "lru")));
    world.receive(&[put("https://new/", 8)]);
    assert_eq!(
        world.visit("/a"),
        Answered(page(404, "lru")),
        "that was before"
    );
    world.receive(&[put("https://new/", 10)]);
    assert_eq!(world.visit("/a"), Answered(redirect("https://new/", "lru")));
}

#[test]
fn change_when_its_link_was_never_requested_takes_no_slot() {
    let mut world = World::with_feed();
    world.receive(&[put("https://new/", 2)]);
    assert!(world.host.store.keys().is_empty());
    assert_eq!(world.visit("/a"), Answered(redirect("https://new/", "lru")));
}

#[test]
fn change_when_its_link_is_hot_takes_a_slot() {
    let mut world = World::with_feed();
    let FeedMessage::Put { key, record, .. } = put("https://hot/", 2) else {
        unreachable!()
    };
    world.receive(&[FeedMessage::Put {
        key,
        record,
        hot: true,
    }]);
    let mut other = world.other_worker();
    assert_eq!(
        other.visit("/a"),
        Answered(redirect("https://hot/", "shared-data"))
    );
}

#[test]
fn change_when_an_older_lookup_ends_is_not_undone() {
    let mut world = World::with_feed();
    let token = world.ask("/a");
    world.receive(&[put("https://new/", 2)]);
    let answers = world.end_with(token, "go.example/a", link("https://old/", 1));
    assert_eq!(answers, [redirect("https://new/", "lru")]);
    assert!(
        world.host.store.keys().is_empty(),
        "nor does it reach the others"
    );
}

#[test]
fn change_when_a_slot_has_an_older_record_is_not_undone() {
    let mut world = World::with_feed();
    world.receive(&[put("https://new/", 2)]);
    let mut other = World::new();
    other.pass(world.now - START);
    other.know("a", link("https://old/", 1));
    world.host.store = other.host.store;
    world.pass(2_999);
    assert_eq!(world.visit("/a"), Answered(redirect("https://new/", "lru")));
}

#[test]
fn link_when_the_feed_lives_stays_fresh_for_an_hour() {
    let mut world = World::with_feed_and_link();
    world.quiet_seconds(3_599);
    assert_eq!(world.visit("/a"), Answered(redirect("https://old/", "lru")));
    world.quiet_seconds(2);
    world.ask("/a");
}

#[test]
fn worker_when_it_and_the_feed_stood_still_looks_up_again() {
    let mut world = World::with_feed_and_link();
    world.quiet_seconds(60);
    world.stand_still(60_000);
    world.ask("/a");
    // Sent before the process was suspended.
    let beat = world.beat(5);
    world.receive(&[beat]);
    world.ask("/b");
    assert_eq!(world.visit("/a"), Waiting(world.last_stream));
}

#[test]
fn link_when_fetched_before_the_feed_began_is_looked_up() {
    let mut world = World::with_background(r#","poll":{}"#);
    world.know("a", link("https://old/", 1));
    world.pass(100);
    world.answer_poll(&gap(0));
    world.pass(1);
    world.know("a", link("https://changed-before/", 2));
    let seen = world.visit("/a");
    assert_eq!(seen, Answered(redirect("https://changed-before/", "lru")));
}

#[test]
fn link_when_the_feed_is_about_to_begin_is_not_kept() {
    let mut world = World::with(settings_with(r#","poll":{}"#));
    assert_eq!(world.visit("/"), Passed);
    world.know("a", link("https://old/", 1));
    world.pass(1_900);
    world.know("a", link("https://old/", 1));
    world.know("a", link("https://old/", 1));
    world.pass(100);
    assert_eq!(world.visit("/a"), Answered(redirect("https://old/", "lru")));
}

#[test]
fn link_when_fetched_as_the_feed_began_is_looked_up_again() {
    let mut world = World::with_begun_feed();
    world.quiet_seconds(4);
    world.know("a", link("https://old/", 1));
    world.quiet_seconds(4);
    assert_eq!(world.visit("/a"), Answered(redirect("https://old/", "lru")));
    world.quiet_seconds(1);
    world.know("a", link("https://old/", 1));
    world.quiet_seconds(60);
    assert_eq!(world.visit("/a"), Answered(redirect("https://old/", "lru")));
}

#[test]
fn change_when_from_a_backlog_is_as_old_as_the_feed() {
    let mut world = World::with_feed();
    // The publisher has not been up to date for some seconds.
    for second in 1..=5 {
        world.pass(1_000);
        world.receive_from(second * 1_000, &[DEL]);
    }
    let put = FeedMessage::Put {
        key: "go.example/b",
        record: encoded(&link("https://b/", 1)),
        hot: true,
    };
    world.receive_from(5_000, &[put]);
    let token = world.ask("/b");
    let answers = world.end_with(token, "go.example/b", link("https://newer/", 2));
    assert_eq!(answers, [redirect("https://newer/", "control-plane")]);
}

#[test]
fn change_when_not_understood_makes_only_its_link_stale() {
    let mut world = World::with_feed_and_link();
    world.know("b", link("https://b/", 1));
    world.pass(10);
    world.receive(&[FeedMessage::Changed {
        key: "go.example/a",
    }]);
    assert_eq!(world.visit("/b"), Answered(redirect("https://b/", "lru")));
    let before = world.ask("/a");
    assert_eq!(world.counted("feed.changed"), 1);
    let answers = world.end(before, Response::default());
    assert_eq!(answers, [redirect("https://old/", "stale")]);
    world.pass(1_000);
    let (_, token) = world.visit_and_send("/a");
    world.end_with(token.unwrap(), "go.example/a", link("https://new/", 2));
    assert_eq!(world.visit("/a"), Answered(redirect("https://new/", "lru")));
}

#[test]
fn lookup_when_overtaken_by_a_change_is_repeated() {
    let mut world = World::with_feed();
    let token = world.ask("/a");
    world.pass(10);
    world.receive(&[FeedMessage::Changed {
        key: "go.example/a",
    }]);
    let answers = world.end_with(token, "go.example/a", link("https://old/", 1));
    assert_eq!(answers, []);
    let again = world.last_token;
    assert!(again > token);
    let answers = world.end_with(again, "go.example/a", link("https://new/", 2));
    assert_eq!(answers, [redirect("https://new/", "control-plane")]);
    assert_eq!(world.visit("/a"), Answered(redirect("https://new/", "lru")));
}

/// An import brings more changes than the LRU protects, within the time of a lookup.
#[test]
fn answer_when_older_than_an_evicted_change_is_not_served() {
    let mut world = World::with_background(r#","poll":{},"lru":{"maxBytes":1048576}"#);
    world.answer_poll(&gap(0));
    world.pass(1);
    world.quiet_seconds(6);
    let token = world.ask("/a");
    let (joined, _) = world.visit_and_send("/a");
    assert_eq!(joined, Waiting(world.last_stream));
    world.pass(10);
    world.receive(&[put("https://new/", 9)]);
    let target = format!("https://other/{}", "x".repeat(2_000));
    for part in 0..40 {
        let keys: Vec<String> = (0..100)
            .map(|number| format!("go.example/other{part}-{number}"))
            .collect();
        let puts = keys.iter().map(|key| FeedMessage::Put {
            key,
            record: encoded(&link(&target, 1)),
            hot: false,
        });
        world.receive(&puts.collect::<Vec<_>>());
    }
    let lookups = world.lookups;
    let answers = world.end_with(token, "go.example/a", link("https://old/", 8));
    assert_eq!(answers, []);
    assert_eq!(world.lookups, lookups + 1);
    // The control plane may be behind as well.
    let answers = world.end_with(world.last_token, "go.example/a", link("https://old/", 8));
    assert_eq!(answers, []);
    let answers = world.end_with(world.last_token, "go.example/a", link("https://new/", 9));
    assert_eq!(answers, vec![redirect("https://new/", "control-plane"); 2]);
    assert_eq!(world.visit("/a"), Answered(redirect("https://new/", "lru")));
}

#[test]
fn lookup_when_overtaken_repeatedly_ends_with_503() {
    let mut world = World::with_feed();
    let mut token = world.ask("/a");
    for _ in 0..MAX_REPEATS {
        world.receive(&[FeedMessage::Changed {
            key: "go.example/a",
        }]);
        assert_eq!(
            world.end_with(token, "go.example/a", link("https://old/", 1)),
            []
        );
        token = world.last_token;
    }
    world.receive(&[FeedMessage::Changed {
        key: "go.example/a",
    }]);
    let answers = world.end_with(token, "go.example/a", link("https://old/", 1));
    assert_eq!(answers, [unavailable()]);
}

#[test]
fn lookup_when_its_answer_has_the_change_is_not_repeated() {
    let mut world = World::with_feed();
    let token = world.ask("/a");
    world.receive(&[put("https://new/", 9)]);
    let answers = world.end_with(token, "go.example/a", link("https://newer/", 10));
    assert_eq!(answers, [redirect("https://newer/", "control-plane")]);
}

#[test]
fn link_when_a_gap_comes_is_served_stale_if_lookup_fails() {
    let mut world = World::with_feed_and_link();
    world.pass(1_000);
    world.answer_poll(&gap(99));
    assert_eq!(world.counted("feed.gap"), 1);
    let token = world.ask("/a");
    let answers = world.end(token, Response::default());
    assert_eq!(answers, [redirect("https://old/", "stale")]);
}

#[test]
fn link_when_a_flush_comes_is_dropped() {
    let mut world = World::with_feed_and_link();
    world.pass(10);
    world.receive(&[FeedMessage::Flush]);
    let token = world.ask("/a");
    assert_eq!(world.end(token, Response::default()), [unavailable()]);
    world.pass(10);
    world.know("a", link("https://restored/", 1));
    assert_eq!(
        world.visit("/a"),
        Answered(redirect("https://restored/", "lru"))
    );
}

#[test]
fn message_when_malformed_is_a_gap_and_logged_once() {
    let mut world = World::with_feed_and_link();
    world.pass(10);
    for _ in 1..4 {
        let head = world.next_head(1);
        world.answer_poll(&FeedBatch::encode_encoded(head, [&b"\x07"[..]].into_iter()));
    }
    assert_eq!(world.counted("feed.malformed"), 3);
    assert_eq!(world.counted("feed.gap"), 3);
    let log = world.host.log.iter();
    let lines = log.filter(|line| line.contains("a message of the feed cannot be read"));
    assert_eq!(lines.count(), 1, "{:?}", world.host.log);
    world.ask("/a");
}

/// A later version may have written it. It must not be sent over and over.
#[test]
fn message_when_too_long_is_a_gap_and_read_once() {
    let mut world = World::with_feed_and_link();
    let head = world.next_head(1);
    let long = vec![b'y'; 200_000];
    world.answer_poll(&FeedBatch::encode_encoded(head, [&long[..]].into_iter()));
    world.pass(100);
    assert_eq!(world.counted("feed.malformed"), 1);
    assert_eq!(world.counted("feed.gap"), 1);
    world.quiet_seconds(3);
    world.receive(&[put("https://new/", 2)]);
    assert_eq!(world.visit("/a"), Answered(redirect("https://new/", "lru")));
    assert_eq!(world.counted("feed.malformed"), 1);
}
