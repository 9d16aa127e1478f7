//! What the caches learn from the feed, and how long they rely on it.

use super::redis::{LOOKUPS, OK};
use super::*;
use edgelink_wire::feed::FeedMessage;

const FEED: u32 = LOOKUPS + 1;
const QUIET: &[u8] = b"*-1\r\n";
const NO_STREAM: &[u8] = b"-ERR no such key\r\n";

impl World {
    /// A worker that has read a feed for some seconds, and has no connection for lookups: tests of the feed are shorter so.
    fn with_feed() -> Self {
        let mut world = Self::with_begun_feed();
        world.quiet_seconds(6);
        world
    }

    /// One that has just begun to read a feed, which does not exist yet.
    fn with_begun_feed() -> Self {
        let mut world = Self::with_stream(r#","redis":{"mode":"direct","feed":{}}"#);
        world.close_lookups();
        world.bytes(FEED, OK);
        world.bytes(FEED, NO_STREAM);
        world
    }

    /// One that knows a link, fetched through the control plane.
    fn with_feed_and_link() -> Self {
        let mut world = Self::with_feed();
        world.know("a", link("https://old/", 1));
        world
    }

    fn close_lookups(&mut self) {
        let now = Moment::from_millis(self.now);
        self.edge.on_stream_closed(&mut self.host, LOOKUPS, now);
        self.host.wires.sent.clear();
    }

    /// So many seconds pass, at the end of each of which the feed has a beat.
    fn quiet_seconds(&mut self, seconds: u64) {
        for _ in 0..seconds {
            self.pass(1_000);
            let beat = self.beat(5);
            self.hear(&[beat]);
            self.bytes(FEED, &info(self.last_entry));
        }
    }

    fn hear(&mut self, messages: &[FeedMessage<'_>]) {
        let id = self.last_entry + 1;
        self.last_entry += messages.len() as u64;
        self.bytes(FEED, &entries(id, messages));
    }
}

/// The answer to `XINFO STREAM` of a stream with entries 1-0 to `last`-0.
pub(super) fn info(last: u64) -> Vec<u8> {
    let id = format!("{last}-0");
    let mut reply = b"*8\r\n".to_vec();
    let mut add = |text: &str| crate::resp::encode::argument(text.as_bytes(), &mut reply);
    add("last-generated-id");
    add(&id);
    add("first-entry");
    reply.extend_from_slice(b"*2\r\n$3\r\n1-0\r\n*0\r\n");
    for name in ["length", "entries-added"] {
        crate::resp::encode::argument(name.as_bytes(), &mut reply);
        reply.extend_from_slice(format!(":{last}\r\n").as_bytes());
    }
    reply
}

/// The answer to `XREAD`, with ids from `id` on.
pub(super) fn entries(id: u64, messages: &[FeedMessage<'_>]) -> Vec<u8> {
    let mut reply = format!("*1\r\n*2\r\n$4\r\nfeed\r\n*{}\r\n", messages.len()).into_bytes();
    for (id, message) in (id..).zip(messages) {
        let id = format!("{id}-0");
        let fields = message.to_fields();
        reply.extend_from_slice(
            format!("*2\r\n${}\r\n{id}\r\n*{}\r\n", id.len(), fields.len() * 2).as_bytes(),
        );
        for (name, value) in fields {
            crate::resp::encode::argument(name.as_bytes(), &mut reply);
            crate::resp::encode::argument(&value, &mut reply);
        }
    }
    reply
}

fn put<'a>(url: &'a str, rev: u64) -> FeedMessage<'a> {
    FeedMessage::Put {
        key: "go.example/a",
        record: link(url, rev),
        hot: false,
    }
}

const DEL: FeedMessage<'static> = FeedMessage::Del {
    key: "go.example/a",
    rev: 9,
};

#[test]
fn a_change_is_served_at_once_here_and_in_shared_data() {
    let mut world = World::with_feed_and_link();
    world.hear(&[put("https://new/", 2)]);
    assert_eq!(world.visit("/a"), Answered(redirect("https://new/", "lru")));
    let mut other = world.other_worker();
    assert_eq!(
        other.visit("/a"),
        Answered(redirect("https://new/", "shared-data"))
    );
    assert_eq!(world.counted("feed.put"), 1);
}

#[test]
fn a_deleted_link_is_absent_at_once_and_a_new_alias_takes_the_place_of_an_absence() {
    let mut world = World::with_feed_and_link();
    world.hear(&[DEL]);
    assert_eq!(world.visit("/a"), Answered(page(404, "lru")));
    world.hear(&[put("https://new/", 8)]);
    assert_eq!(
        world.visit("/a"),
        Answered(page(404, "lru")),
        "that was before"
    );
    world.hear(&[put("https://new/", 10)]);
    assert_eq!(world.visit("/a"), Answered(redirect("https://new/", "lru")));
}

#[test]
fn news_of_a_link_that_nobody_asked_for_does_not_take_a_slot() {
    let mut world = World::with_feed();
    world.hear(&[put("https://new/", 2)]);
    assert!(world.host.store.keys().is_empty());
    assert_eq!(world.visit("/a"), Answered(redirect("https://new/", "lru")));
}

#[test]
fn news_of_a_hot_link_takes_a_slot() {
    let mut world = World::with_feed();
    let FeedMessage::Put { key, record, .. } = put("https://hot/", 2) else {
        unreachable!()
    };
    world.hear(&[FeedMessage::Put {
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
fn a_lookup_that_was_answered_before_the_change_does_not_undo_it() {
    let mut world = World::with_feed();
    let token = world.ask("/a");
    world.hear(&[put("https://new/", 2)]);
    let answers = world.end_with(token, "go.example/a", link("https://old/", 1));
    assert_eq!(answers, [redirect("https://new/", "lru")]);
    assert!(
        world.host.store.keys().is_empty(),
        "nor does it reach the others"
    );
}

#[test]
fn an_old_record_of_another_worker_does_not_undo_a_change_that_was_heard_here() {
    let mut world = World::with_feed();
    world.hear(&[put("https://new/", 2)]);
    let mut other = World::new();
    other.pass(world.now - START);
    other.know("a", link("https://old/", 1));
    world.host.store = other.host.store;
    world.pass(2_999);
    assert_eq!(world.visit("/a"), Answered(redirect("https://new/", "lru")));
}

#[test]
fn a_live_feed_keeps_what_is_known_fresh_for_an_hour() {
    let mut world = World::with_feed_and_link();
    world.quiet_seconds(3_599);
    assert_eq!(world.visit("/a"), Answered(redirect("https://old/", "lru")));
    world.quiet_seconds(2);
    world.ask("/a");
}

#[test]
fn what_is_known_is_fresh_for_as_long_after_the_feed_died_as_without_one() {
    let mut world = World::with_feed_and_link();
    world.quiet_seconds(60);
    // The last beat is known to be from two seconds before it came: then the end was seen, and it may have been a second old.
    world.pass(2_999);
    assert_eq!(world.visit("/a"), Answered(redirect("https://old/", "lru")));
    world.pass(1);
    world.ask("/a");
    assert_eq!(
        world.host.log.last().map(String::as_str),
        Some("the feed cannot be read: requests are not answered any more")
    );
}

#[test]
fn a_worker_that_stood_still_while_the_feed_died_serves_nothing_old() {
    let mut world = World::with_feed_and_link();
    world.quiet_seconds(60);
    world.stand_still(60_000);
    world.ask("/a");
    // What Redis had sent before the process was stopped.
    let beat = world.beat(5);
    world.hear(&[beat]);
    world.ask("/b");
    assert_eq!(world.visit("/a"), Waiting(world.last_stream));
}

#[test]
fn what_was_fetched_before_the_feed_began_is_asked_for_again() {
    let mut world = World::with_stream(r#","redis":{"mode":"direct","feed":{}}"#);
    world.close_lookups();
    world.know("a", link("https://old/", 1));
    world.pass(100);
    world.bytes(FEED, OK);
    world.bytes(FEED, NO_STREAM);
    world.pass(1);
    world.know("a", link("https://changed-before/", 2));
    let seen = world.visit("/a");
    assert_eq!(seen, Answered(redirect("https://changed-before/", "lru")));
}

#[test]
fn nothing_is_kept_while_the_feed_is_about_to_begin_unless_it_takes_too_long() {
    let mut world = World::with_stream(r#","redis":{"mode":"direct","feed":{}}"#);
    world.close_lookups();
    world.know("a", link("https://old/", 1));
    world.pass(1_900);
    world.know("a", link("https://old/", 1));
    world.know("a", link("https://old/", 1));
    world.pass(100);
    assert_eq!(world.visit("/a"), Answered(redirect("https://old/", "lru")));
}

#[test]
fn what_was_fetched_soon_after_the_feed_began_is_asked_for_once_more() {
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
fn a_change_of_a_backlog_is_as_old_as_the_feed() {
    let mut world = World::with_feed();
    // The publisher has not been up to date for some seconds.
    for _ in 0..5 {
        world.pass(1_000);
        world.hear(&[DEL]);
        world.bytes(FEED, &info(world.last_entry));
    }
    world.hear(&[FeedMessage::Put {
        key: "go.example/b",
        record: link("https://b/", 1),
        hot: true,
    }]);
    let token = world.ask("/b");
    let answers = world.end_with(token, "go.example/b", link("https://newer/", 2));
    assert_eq!(answers, [redirect("https://newer/", "control-plane")]);
}

#[test]
fn a_change_that_is_not_understood_has_the_link_asked_for_again_and_only_that_one() {
    let mut world = World::with_feed_and_link();
    world.know("b", link("https://b/", 1));
    world.pass(10);
    world.hear(&[FeedMessage::Changed {
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
fn a_lookup_from_before_a_change_that_is_not_understood_is_not_kept() {
    let mut world = World::with_feed();
    let token = world.ask("/a");
    world.pass(10);
    world.hear(&[FeedMessage::Changed {
        key: "go.example/a",
    }]);
    let answers = world.end_with(token, "go.example/a", link("https://old/", 1));
    assert_eq!(answers, [redirect("https://old/", "control-plane")]);
    world.ask("/a");
}

#[test]
fn another_generation_has_everything_asked_for_again() {
    let mut world = World::with_feed_and_link();
    world.pass(10);
    let FeedMessage::Beat(beat) = world.beat(5) else {
        unreachable!()
    };
    let other = Beat {
        generation: GENERATION + 1,
        ..beat
    };
    world.hear(&[FeedMessage::Beat(other)]);
    assert_eq!(world.counted("feed.gap"), 1);
    world.ask("/a");
}

#[test]
fn a_gap_has_everything_asked_for_again_and_leaves_it_to_serve_when_nobody_answers() {
    let mut world = World::with_feed_and_link();
    world.pass(1_000);
    world.bytes(FEED, QUIET);
    world.bytes(FEED, NO_STREAM);
    assert_eq!(world.counted("feed.gap"), 1);
    let token = world.ask("/a");
    let answers = world.end(token, Response::default());
    assert_eq!(answers, [redirect("https://old/", "stale")]);
}

#[test]
fn a_flush_leaves_nothing() {
    let mut world = World::with_feed_and_link();
    world.pass(10);
    world.hear(&[FeedMessage::Flush]);
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
fn an_entry_that_is_no_message_is_a_gap_counted_and_logged_once_in_a_while() {
    let mut world = World::with_feed_and_link();
    world.pass(10);
    for _ in 1..4 {
        world.last_entry += 1;
        let id = format!("{}-0", world.last_entry);
        let length = id.len();
        let entry = format!("*1\r\n*2\r\n$4\r\nfeed\r\n*1\r\n*2\r\n${length}\r\n{id}\r\n*0\r\n");
        world.bytes(FEED, entry.as_bytes());
    }
    assert_eq!(world.counted("feed.malformed"), 3);
    assert_eq!(world.counted("feed.gap"), 3);
    let lines = world
        .host
        .log
        .iter()
        .filter(|line| line.contains("the feed's entry"));
    assert_eq!(lines.count(), 1, "{:?}", world.host.log);
    world.ask("/a");
}

/// An entry that a later version has written, perhaps. It must not come again and again.
#[test]
fn an_entry_that_is_longer_than_any_that_is_known_is_a_gap_and_is_read_once() {
    let mut world = World::with_feed_and_link();
    world.last_entry += 1;
    let id = format!("{}-0", world.last_entry);
    let head = "*1\r\n*2\r\n$4\r\nfeed\r\n*1\r\n*2\r\n";
    let mut entry = format!(
        "{head}${}\r\n{id}\r\n*2\r\n$1\r\nx\r\n$200000\r\n",
        id.len()
    )
    .into_bytes();
    entry.extend(std::iter::repeat_n(b'y', 200_000));
    entry.extend(b"\r\n");
    for chunk in entry.chunks(16_384) {
        world.bytes(FEED, chunk);
    }
    world.pass(100);
    assert_eq!(world.counted("redis_connected.feed"), 1);
    assert_eq!(world.counted("feed.malformed"), 1);
    assert_eq!(world.counted("feed.gap"), 1);
    world.quiet_seconds(3);
    world.hear(&[put("https://new/", 2)]);
    assert_eq!(world.visit("/a"), Answered(redirect("https://new/", "lru")));
}

/// Why `freshSeconds` below 3 is refused.
#[test]
fn a_feed_with_a_beat_a_second_was_heard_two_to_three_seconds_ago() {
    let mut world = World::with_feed();
    for _ in 0..5 {
        world.quiet_seconds(1);
        let heard = world.edge.redis.reading().unwrap().heard.unwrap();
        assert_eq!(heard.age(Moment::from_millis(world.now)), 2_000);
    }
}
