//! What the caches learn from the feed, and how long they rely on it.

use super::redis::{LOOKUPS, OK};
use super::*;
use edgelink_wire::feed::FeedMessage;

const FEED: u32 = LOOKUPS + 1;
const QUIET: &[u8] = b"*-1\r\n";
const NO_STREAM: &[u8] = b"-ERR no such key\r\n";

impl World {
    /// A worker that reads a feed, which does not exist yet.
    fn with_feed() -> Self {
        let mut world = Self::with_redis(r#","feed":{}"#);
        world.bytes(FEED, OK);
        world.bytes(FEED, NO_STREAM);
        world
    }

    /// One that knows a link, fetched through the control plane.
    fn with_feed_and_link() -> Self {
        let mut world = Self::with_feed();
        world.close_lookups();
        world.know("a", link("https://old/", 1));
        world
    }

    /// Without Redis for lookups, tests of the feed are shorter.
    fn close_lookups(&mut self) {
        let now = Moment::from_millis(self.now);
        self.edge.on_stream_closed(&mut self.host, LOOKUPS, now);
        self.host.wires.sent.clear();
    }

    /// So many seconds pass, at the end of each of which the feed has a heartbeat.
    fn quiet_seconds(&mut self, seconds: u64) {
        for _ in 0..seconds {
            self.pass(1_000);
            self.beats += 1;
            self.hear(self.beats, &[FeedMessage::Bound { bound: 5 }]);
            self.bytes(FEED, &info(self.beats));
        }
    }

    fn hear(&mut self, id: u64, messages: &[FeedMessage<'_>]) {
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
    world.hear(1, &[put("https://new/", 2)]);
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
    world.hear(1, &[DEL]);
    assert_eq!(world.visit("/a"), Answered(page(404, "lru")));
    world.hear(2, &[put("https://new/", 8)]);
    assert_eq!(
        world.visit("/a"),
        Answered(page(404, "lru")),
        "that was before"
    );
    world.hear(3, &[put("https://new/", 10)]);
    assert_eq!(world.visit("/a"), Answered(redirect("https://new/", "lru")));
}

#[test]
fn news_of_a_link_that_nobody_asked_for_does_not_take_a_slot() {
    let mut world = World::with_feed();
    world.hear(1, &[put("https://new/", 2)]);
    assert!(world.host.store.keys().is_empty());
    assert_eq!(world.visit("/a"), Answered(redirect("https://new/", "lru")));
}

#[test]
fn news_of_a_hot_link_takes_a_slot() {
    let mut world = World::with_feed();
    let FeedMessage::Put { key, record, .. } = put("https://hot/", 2) else {
        unreachable!()
    };
    world.hear(
        1,
        &[FeedMessage::Put {
            key,
            record,
            hot: true,
        }],
    );
    let mut other = world.other_worker();
    assert_eq!(
        other.visit("/a"),
        Answered(redirect("https://hot/", "shared-data"))
    );
}

#[test]
fn a_lookup_that_was_answered_before_the_change_does_not_undo_it() {
    let mut world = World::with_feed();
    world.close_lookups();
    let token = world.ask("/a");
    world.hear(1, &[put("https://new/", 2)]);
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
    world.hear(1, &[put("https://new/", 2)]);
    let mut other = World::new();
    other.know("a", link("https://old/", 1));
    world.host.store = other.host.store;
    world.pass(4_799);
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
    // The last heartbeat answered what was asked a second before it.
    world.pass(3_799);
    assert_eq!(world.visit("/a"), Answered(redirect("https://old/", "lru")));
    world.pass(1);
    world.ask("/a");
    assert_eq!(
        world.host.log.last().map(String::as_str),
        Some("the feed cannot be read: requests are not answered any more")
    );
}

#[test]
fn what_was_asked_for_before_the_feed_was_heard_ages_as_without_one() {
    let mut world = World::with_redis(r#","feed":{}"#);
    world.close_lookups();
    world.know("a", link("https://old/", 1));
    world.pass(100);
    world.bytes(FEED, OK);
    world.bytes(FEED, NO_STREAM);
    world.quiet_seconds(5);
    world.ask("/a");
}

#[test]
fn a_gap_has_everything_asked_for_again_and_leaves_it_to_serve_when_nobody_answers() {
    let mut world = World::with_feed_and_link();
    world.hear(1, &[FeedMessage::Bound { bound: 5 }]);
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
    world.hear(1, &[FeedMessage::Flush]);
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
fn an_entry_that_is_no_message_is_counted_and_logged_once_in_a_while() {
    let mut world = World::with_feed_and_link();
    for id in 1..4 {
        let entry = format!("*1\r\n*2\r\n$4\r\nfeed\r\n*1\r\n*2\r\n$3\r\n{id}-0\r\n*0\r\n");
        world.bytes(FEED, entry.as_bytes());
    }
    assert_eq!(world.counted("feed.malformed"), 3);
    let lines = world.host.log.iter().filter(|line| line.contains("entry"));
    assert_eq!(lines.count(), 1, "{:?}", world.host.log);
}

/// An entry that a later version has written, perhaps. It must not come again and again.
#[test]
fn an_entry_that_is_longer_than_any_that_is_known_is_passed_over() {
    let mut world = World::with_feed_and_link();
    let mut entry =
        b"*1\r\n*2\r\n$4\r\nfeed\r\n*1\r\n*2\r\n$3\r\n1-0\r\n*2\r\n$1\r\nx\r\n$200000\r\n".to_vec();
    entry.extend(std::iter::repeat_n(b'y', 200_000));
    entry.extend(b"\r\n");
    for chunk in entry.chunks(16_384) {
        world.bytes(FEED, chunk);
    }
    world.pass(100);
    assert_eq!(world.counted("redis_connected.feed"), 1);
    assert_eq!(world.counted("feed.malformed"), 1);
    world.hear(2, &[put("https://new/", 2)]);
    assert_eq!(world.visit("/a"), Answered(redirect("https://new/", "lru")));
}

/// While other slots were in use, nobody has kept these up to date.
#[test]
fn slots_that_come_back_are_asked_for_again() {
    let feed = r#","redis":{"mode":"direct","feed":{}},"lru":{"maxBytes":1048576}"#;
    let with = |more: &str| Rc::new(settings_with(&format!("{feed}{more}")));
    let mut world = World::with_redis(r#","feed":{}},"lru":{"maxBytes":1048576"#);
    world.bytes(FEED, OK);
    world.bytes(FEED, NO_STREAM);
    world.close_lookups();
    world.know("a", link("https://old/", 1));
    world.quiet_seconds(2);
    let other = with(r#","sharedData":{"slots":7}"#);
    world.edge.configure(&mut world.host, other);
    world.hear(3, &[put("https://new/", 2)]);
    world.beats = 3;
    world.quiet_seconds(40);
    let long = format!("https://e/{}", "x".repeat(7_000));
    for id in 0..200 {
        let key = format!("go.example/other{id}");
        let record = link(&long, 1);
        world.beats += 1;
        let hot = false;
        let message = FeedMessage::Put {
            key: &key,
            record,
            hot,
        };
        world.hear(world.beats, &[message]);
    }
    world.quiet_seconds(1);
    world.edge.configure(&mut world.host, with(""));
    assert!(matches!(world.visit("/a"), Waiting(_)));
}
