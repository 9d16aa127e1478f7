//! Snapshots, and the feed by long poll.

use super::*;
use crate::control_plane::BackgroundKind;
use edgelink_wire::feed::FeedMessage;
use edgelink_wire::{
    CodeFilter, CodeLength, CodeSpace, Entry, FeedBatch, FeedBatchHead, FeedPosition, Snapshot,
};

pub(super) const BOUND: u64 = 1_000_000;
pub(super) const ALIAS: u64 = BOUND + 77;

pub(super) fn code(number: u64) -> String {
    CodeSpace::new(CodeLength::DEFAULT, None)
        .mint(number)
        .unwrap()
        .to_string()
}

pub(super) fn path(number: u64) -> String {
    format!("/{}", code(number))
}

fn position(millis: u64) -> FeedPosition {
    FeedPosition::new(millis, 0)
}

/// A snapshot at `at` in the feed, with one alias, and the hot link `h`.
pub(super) fn snapshot(at: u64) -> Vec<u8> {
    let mut codes = CodeFilter::with_capacity(0).unwrap();
    for alias in [&code(ALIAS), "h", "sale", "a", "x"] {
        codes.insert(alias.as_bytes());
    }
    let hot = Entry {
        key: b"go.example/h",
        record: link("https://hot/", 1),
    };
    let snapshot = Snapshot {
        generation: GENERATION,
        position: position(at),
        bound: BOUND,
        length: CodeLength::DEFAULT,
        key: None,
        domains: vec!["go.example"],
        codes,
        hot: vec![hot],
    };
    snapshot.to_bytes()
}

pub(super) fn head(next: u64) -> FeedBatchHead {
    FeedBatchHead {
        generation: GENERATION,
        next: position(next),
        ..FeedBatchHead::default()
    }
}

/// A batch from a control plane whose feed is up to date.
pub(super) fn batch(next: u64, messages: &[FeedMessage<'_>]) -> Vec<u8> {
    FeedBatch::encode(head(next), messages.iter())
}

/// An empty batch from a control plane whose feed is `age_millis` old.
fn old(next: u64, age_millis: u64) -> Vec<u8> {
    let head = FeedBatchHead {
        age_millis,
        ..head(next)
    };
    FeedBatch::encode(head, [].iter())
}

pub(super) fn gap(next: u64) -> Vec<u8> {
    let head = FeedBatchHead {
        gap: true,
        ..head(next)
    };
    FeedBatch::encode(head, [].iter())
}

fn put<'a>(key: &'a str, url: &'a str, rev: u64) -> FeedMessage<'a> {
    FeedMessage::Put {
        key,
        record: encoded(&link(url, rev)),
        hot: false,
    }
}

impl World {
    /// A worker that has had a request, and a second to begin its callouts.
    pub(super) fn with_background(more: &str) -> Self {
        let mut world = Self::with(settings_with(more));
        assert_eq!(world.visit("/"), Passed);
        for _ in 0..10 {
            world.pass(100);
        }
        world
    }

    /// A worker with admission in effect.
    pub(super) fn with_admission() -> Self {
        let mut world = Self::with_background(r#","snapshot":{},"poll":{},"admission":{}"#);
        world.answer_snapshot(&snapshot(5));
        world.pass(100);
        world.answer_poll(&batch(6, &[]));
        assert_eq!(world.counted("admission"), 1);
        world.pass(100);
        world.answer_poll(&batch(6, &[]));
        world.pass(100);
        world
    }

    pub(super) fn take_background(&mut self, kind: BackgroundKind) -> (Token, BackgroundCallout) {
        let at = self
            .callouts
            .iter()
            .position(|(_, callout)| callout.kind == kind);
        self.callouts
            .remove(at.expect("a background callout of that kind"))
    }

    fn answer_background(&mut self, token: Token, content_type: &str, body: &[u8]) {
        let response = Response {
            status: b"200",
            content_type: content_type.as_bytes(),
            body,
        };
        assert!(self.end(token, response).is_empty());
    }

    pub(super) fn answer_snapshot(&mut self, body: &[u8]) {
        let (token, callout) = self.take_background(BackgroundKind::Snapshot);
        assert_eq!(callout.path, "/edge/v1/snapshot");
        self.answer_background(token, Snapshot::MEDIA_TYPE, body);
    }

    /// Answers the poll, and gives its path.
    pub(super) fn answer_poll(&mut self, body: &[u8]) -> String {
        let (token, callout) = self.take_background(BackgroundKind::Poll);
        self.answer_background(token, FeedBatch::MEDIA_TYPE, body);
        callout.path
    }

    pub(super) fn fail_background(&mut self, kind: BackgroundKind) {
        let (token, _) = self.take_background(kind);
        assert!(self.end(token, Response::default()).is_empty());
    }

    /// A worker that has polled for six seconds, and then fetched a link.
    fn with_polled_link() -> Self {
        let mut world = Self::with_background(r#","poll":{}"#);
        world.answer_poll(&gap(5));
        for _ in 0..3 {
            world.quiet_poll();
        }
        world.know("a", link("https://a/", 1));
        world
    }

    /// Two seconds pass without changes.
    fn quiet_poll(&mut self) {
        self.pass(2_000);
        let (token, callout) = self.take_background(BackgroundKind::Poll);
        let (_, after) = callout.path.split_once("after=").unwrap();
        let (position, _) = after.split_once('-').unwrap();
        let body = batch(position.parse().unwrap(), &[]);
        self.answer_background(token, FeedBatch::MEDIA_TYPE, &body);
    }
}

#[test]
fn worker_when_nothing_is_configured_does_nothing() {
    let mut world = World::with_background("");
    for _ in 0..600 {
        world.pass(100);
    }
    assert!(world.callouts.is_empty(), "{:?}", world.callouts);
    assert!(world.host.wires.opened.is_empty(), "no stream to Redis");
}

#[test]
fn worker_when_its_first_request_comes_begins_after_jitter() {
    let mut world = World::with(settings_with(r#","snapshot":{},"poll":{}"#));
    world.pass(60_000);
    assert!(world.callouts.is_empty(), "as on the main thread");
    assert_eq!(world.visit("/"), Passed);
    world.pass(1);
    assert!(world.callouts.is_empty());
    world.pass(200);
    assert_eq!(world.callouts.len(), 1);
}

#[test]
fn hot_link_when_the_feed_covers_it_is_served_by_all_workers() {
    let mut world = World::with_background(r#","snapshot":{},"poll":{}"#);
    world.answer_snapshot(&snapshot(5));
    assert_eq!(
        world.visit("/h"),
        Waiting(world.last_stream),
        "they may be old"
    );
    world.pass(100);
    world.answer_poll(&old(5, 50));
    world.pass(100);
    world.answer_poll(&old(5, 50));
    world.pass(100);
    assert_eq!(world.visit("/h"), Answered(redirect("https://hot/", "lru")));
    assert_eq!(
        world.other_worker().visit("/h"),
        Answered(redirect("https://hot/", "shared-data"))
    );
    for _ in 0..50 {
        world.quiet_poll();
    }
    assert_eq!(world.visit("/h"), Answered(redirect("https://hot/", "lru")));
    let snapshots = world.callouts.iter();
    let snapshots = snapshots.filter(|(_, callout)| callout.kind == BackgroundKind::Snapshot);
    assert_eq!(snapshots.count(), 0, "one is enough");
    assert_eq!(world.counted("snapshot.ok"), 1);
}

#[test]
fn hot_link_when_changed_since_the_snapshot_is_not_taken() {
    let mut world = World::with_background(r#","snapshot":{},"poll":{}"#);
    world.answer_snapshot(&snapshot(5));
    world.pass(100);
    let del = FeedMessage::Del {
        key: "go.example/h",
        rev: 2,
    };
    world.answer_poll(&batch(6, &[del]));
    world.pass(100);
    world.answer_poll(&batch(6, &[]));
    world.pass(100);
    world.ask("/h");
    let (store, key) = (&world.host.store, "go.example/h");
    assert!(store.keys().is_empty(), "{key}");
}

#[test]
fn snapshot_when_older_than_the_feed_begin_warms_nothing() {
    let mut world = World::with_background(r#","snapshot":{},"poll":{},"admission":{}"#);
    world.fail_background(BackgroundKind::Snapshot);
    world.pass(100);
    world.answer_poll(&gap(6));
    for _ in 0..5 {
        world.pass(200);
    }
    world.answer_snapshot(&snapshot(5));
    world.answer_poll(&batch(6, &[]));
    world.pass(100);
    world.answer_poll(&batch(6, &[]));
    world.pass(100);
    world.ask("/h");
}

#[test]
fn snapshot_when_there_is_no_feed_is_not_fetched() {
    let mut world = World::with_background(r#","snapshot":{}"#);
    world.pass(10_000);
    assert!(world.callouts.is_empty());
}

#[test]
fn snapshot_when_it_fails_is_fetched_again() {
    let mut world = World::with_background(r#","snapshot":{},"poll":{}"#);
    for (code, body) in [("a", &b"garbage"[..]), ("b", b"")] {
        world.answer_snapshot(body);
        world.know(code, link("https://a/", 1));
        for _ in 0..10 {
            world.pass(100);
        }
    }
    world.fail_background(BackgroundKind::Snapshot);
    assert_eq!(world.counted("snapshot.failed"), 3);
    let lines = world
        .host
        .log
        .iter()
        .filter(|line| line.contains("snapshot"));
    assert_eq!(lines.count(), 1, "{:?}", world.host.log);
    world.pass(30_000);
    world.answer_snapshot(&snapshot(5));
    let last = world.host.log.last().map(String::as_str);
    assert_eq!(last, Some("snapshot: works again, after 3 failures"));
}

#[test]
fn snapshot_when_longer_than_the_bound_is_not_read() {
    let mut world = World::with_background(r#","snapshot":{"maxBytes":2000},"poll":{}"#);
    let (token, _) = world.take_background(BackgroundKind::Snapshot);
    assert_eq!(world.edge.max_body_bytes(token), 2_000);
    world.answer_background(token, Snapshot::MEDIA_TYPE, b"");
    assert_eq!(world.counted("snapshot.failed"), 1);
}

#[test]
fn background_callout_when_refused_or_endless_is_retried() {
    let mut world = World::with_background(r#","snapshot":{},"poll":{}"#);
    world.callouts.clear();
    world.pass(5_000);
    world.pass(1_000);
    assert_eq!(world.counted("snapshot.failed"), 1, "given up");
    world.pass(1_000);
    let (_, callout) = world.take_background(BackgroundKind::Snapshot);
    let now = Moment::from_millis(world.now);
    world
        .edge
        .on_background_refused(&mut world.host, (callout.kind, None), now);
    assert_eq!(world.counted("snapshot.failed"), 2);
    world.pass(1_000);
    world.answer_snapshot(&snapshot(5));
}

#[test]
fn poll_when_a_snapshot_has_come_continues_from_it() {
    let mut world = World::with_background(r#","snapshot":{},"poll":{}"#);
    world.answer_snapshot(&snapshot(5));
    world.pass(100);
    let first = world.answer_poll(&batch(5, &[]));
    assert_eq!(first, "/edge/v1/feed?after=5-0&generation=7&waitMs=2000");
    assert!(world.callouts.is_empty(), "with the next tick");
    world.pass(100);
    assert_eq!(world.callouts.len(), 1);
    world.answer_poll(&batch(5, &[]));
    world.pass(500);
    let change = put("go.example/h", "https://new/", 2);
    let second = world.answer_poll(&batch(6, &[change]));
    assert_eq!(second, "/edge/v1/feed?after=5-0&generation=7&waitMs=2000");
    assert_eq!(world.visit("/h"), Answered(redirect("https://new/", "lru")));
    let third = world.answer_poll(&batch(6, &[]));
    assert_eq!(
        third, "/edge/v1/feed?after=6-0&generation=7&waitMs=2000",
        "at once"
    );
    assert_eq!(world.counted("poll.ok"), 4);
}

#[test]
fn poll_when_without_a_snapshot_begins_where_the_answer_says() {
    let mut world = World::with_background(r#","snapshot":{},"poll":{}"#);
    world.fail_background(BackgroundKind::Snapshot);
    world.pass(100);
    assert_eq!(
        world.answer_poll(&gap(9)),
        "/edge/v1/feed?after=0-0&generation=0&waitMs=2000"
    );
    assert_eq!(
        world.answer_poll(&batch(9, &[])),
        "/edge/v1/feed?after=9-0&generation=7&waitMs=2000"
    );
    assert_eq!(world.counted("feed.gap"), 0, "nothing was missed");
}

#[test]
fn link_when_polls_are_answered_stays_fresh() {
    let mut world = World::with_polled_link();
    for _ in 0..30 {
        world.quiet_poll();
    }
    assert_eq!(world.visit("/a"), Answered(redirect("https://a/", "lru")));
    // The last answered poll was sent two seconds ago.
    world.fail_background(BackgroundKind::Poll);
    world.pass(2_999);
    assert_eq!(world.visit("/a"), Answered(redirect("https://a/", "lru")));
    world.pass(1);
    world.ask("/a");
    assert_eq!(world.counted("poll.failed"), 1);
}

#[test]
fn link_when_the_feed_itself_is_old_is_looked_up() {
    let mut world = World::with_polled_link();
    world.quiet_poll();
    for age in [2_000, 4_000] {
        world.pass(2_000);
        world.answer_poll(&old(5, age));
    }
    // As of 4,000 before the poll, which was 2,000 ago; the feed was read no further before.
    world.ask("/a");
}

/// A poll that was answered late is as late as it waited.
#[test]
fn poll_when_answered_after_waiting_is_dated_at_its_end() {
    let mut world = World::with_polled_link();
    world.pass(1);
    world.pass(2_500);
    let head = FeedBatchHead {
        waited_millis: 2_400,
        age_millis: 50,
        ..head(5)
    };
    world.answer_poll(&FeedBatch::encode(head, [].iter()));
    world.pass(4_800);
    assert_eq!(world.visit("/a"), Answered(redirect("https://a/", "lru")));
    world.pass(100);
    world.ask("/a");
}

#[test]
fn poll_answer_when_behind_the_position_moves_nothing_back() {
    let mut world = World::with_polled_link();
    world.pass(100);
    let change = put("go.example/a", "https://changed/", 2);
    world.answer_poll(&batch(9, &[change]));
    world.pass(100);
    let behind = put("go.example/a", "https://old/", 1);
    world.answer_poll(&batch(8, &[behind]));
    assert_eq!(world.counted("poll.failed"), 1);
    assert_eq!(world.counted("feed.gap"), 0);
    assert_eq!(
        world.visit("/a"),
        Answered(redirect("https://changed/", "lru"))
    );
    world.pass(100);
    let path = world.answer_poll(&batch(9, &[]));
    assert_eq!(path, "/edge/v1/feed?after=9-0&generation=7&waitMs=2000");
}

#[test]
fn feed_when_of_another_generation_is_a_gap() {
    let mut world = World::with_polled_link();
    world.pass(100);
    let head = FeedBatchHead {
        generation: GENERATION + 1,
        ..head(1)
    };
    world.answer_poll(&FeedBatch::encode(head, [].iter()));
    assert_eq!(world.counted("feed.gap"), 1);
    world.ask("/a");
    world.pass(100);
    let path = world.answer_poll(&FeedBatch::encode(head, [].iter()));
    assert_eq!(path, "/edge/v1/feed?after=1-0&generation=8&waitMs=2000");
}

#[test]
fn lookup_when_answered_with_an_age_is_that_old() {
    let mut world = World::new();
    let token = world.ask("/a");
    world.end_with_age(token, "go.example/a", link("https://e/", 1), 3_000);
    world.pass(1_999);
    assert_eq!(world.visit("/a"), Answered(redirect("https://e/", "lru")));
    world.pass(1);
    world.ask("/a");
}

#[test]
fn poll_when_one_has_failed_continues_at_its_position() {
    let mut world = World::with_background(r#","poll":{}"#);
    world.answer_poll(&gap(5));
    world.fail_background(BackgroundKind::Poll);
    world.pass(1_000);
    let path = world.answer_poll(&batch(6, &[]));
    assert_eq!(path, "/edge/v1/feed?after=5-0&generation=7&waitMs=2000");
    assert_eq!(world.counted("feed.gap"), 0);
}

#[test]
fn poll_when_refused_by_one_control_plane_is_repeated_at_once() {
    let mut world = World::with_background(r#","poll":{}"#);
    world.answer_poll(&gap(5));
    let polls = |world: &World| {
        let kinds = world.callouts.iter().map(|(_, callout)| callout.kind);
        kinds.filter(|kind| *kind == BackgroundKind::Poll).count()
    };
    let refuse = |world: &mut World| {
        let (token, _) = world.take_background(BackgroundKind::Poll);
        let refused = Response {
            status: b"503",
            ..Response::default()
        };
        assert!(world.end(token, refused).is_empty());
    };
    refuse(&mut world);
    assert_eq!(polls(&world), 1, "asked again in the same moment");
    refuse(&mut world);
    assert_eq!(polls(&world), 0, "all of them are so: after a pause");
    world.pass(1_000);
    assert_eq!(polls(&world), 1);
}

#[test]
fn record_when_flushed_gives_way_to_an_answer_of_any_rev() {
    let mut world = World::with_background(r#","poll":{}"#);
    world.answer_poll(&gap(5));
    world.know("restored", link("https://lost/", 9));
    world.know("never-made", link("https://lost/", 9));
    world.pass(1_000);
    world.answer_poll(&batch(9, &[FeedMessage::Flush]));
    world.pass(1);
    // The database was restored to yesterday's state.
    let token = world.ask("/restored");
    let answers = world.end_with(token, "go.example/restored", link("https://restored/", 5));
    assert_eq!(answers, [redirect("https://restored/", "control-plane")]);
    let token = world.ask("/never-made");
    let answers = world.end_with(token, "go.example/never-made", Record::Absent { rev: 5 });
    assert_eq!(answers, [page(404, "control-plane")]);
    assert_eq!(world.visit("/never-made"), Answered(page(404, "lru")));
}

/// A change right after a flush counts as fetched at the previous read of the feed, and thus as invalidated. An earlier snapshot
/// is applied later.
#[test]
fn link_when_a_lower_rev_follows_a_flush_is_looked_up() {
    let mut world = World::with_polled_link();
    world.pass(100);
    world.answer_poll(&batch(9, &[FeedMessage::Flush]));
    let answer = |age_millis, next, rev, hot| {
        let head = FeedBatchHead {
            age_millis,
            ..head(next)
        };
        let put = FeedMessage::Put {
            key: "go.example/a",
            record: encoded(&link("https://a/", rev)),
            hot,
        };
        FeedBatch::encode(head, [put].iter())
    };
    world.pass(100);
    world.answer_poll(&answer(3_000, 10, 9, false));
    world.pass(100);
    world.answer_poll(&batch(11, &[]));
    world.pass(100);
    world.answer_poll(&answer(0, 12, 5, true));
    world.ask("/a");
}

/// The clock of the lost database had been ahead.
#[test]
fn absence_when_fetched_after_a_flush_takes_the_new_rev() {
    let mut world = World::with_background(r#","poll":{}"#);
    world.answer_poll(&gap(5));
    world.know("a", Record::Absent { rev: 100 });
    world.pass(1_000);
    world.answer_poll(&batch(9, &[FeedMessage::Flush]));
    world.pass(1);
    world.know("a", Record::Absent { rev: 50 });
    world.answer_poll(&batch(10, &[put("go.example/a", "https://a/", 60)]));
    world.pass(1);
    let token = world.ask("/a");
    let answers = world.end_with(token, "go.example/a", link("https://a/", 60));
    assert_eq!(answers, [redirect("https://a/", "control-plane")]);
}

/// A control plane that has seen a flush in the gap reports it.
#[test]
fn record_when_a_gap_comes_with_a_flush_is_dropped() {
    let mut world = World::with_background(r#","poll":{}"#);
    world.answer_poll(&gap(5));
    world.know("a", link("https://lost/", 9));
    world.pass(1_000);
    let head = FeedBatchHead {
        gap: true,
        generation: GENERATION + 1,
        ..head(9)
    };
    world.answer_poll(&FeedBatch::encode(head, [FeedMessage::Flush].iter()));
    assert_eq!(world.counted("feed.gap"), 1);
    assert_eq!(world.counted("feed.flush"), 1);
    world.pass(2);
    let token = world.ask("/a");
    assert_eq!(world.end(token, Response::default()), [unavailable()]);
    world.pass(1_000);
    let token = world.ask("/a");
    let answers = world.end_with(token, "go.example/a", link("https://restored/", 5));
    assert_eq!(answers, [redirect("https://restored/", "control-plane")]);
}

#[test]
fn message_when_unreadable_is_a_gap_and_others_apply() {
    let mut world = World::with_polled_link();
    world.pass(100);
    let del = FeedMessage::Del {
        key: "go.example/b",
        rev: 2,
    };
    let del = edgelink_wire::feed_batch::encode_message(&del);
    let messages = [&b"\x07"[..], &del].into_iter();
    world.answer_poll(&FeedBatch::encode_encoded(head(6), messages));
    assert_eq!(world.counted("feed.malformed"), 1);
    assert_eq!(world.counted("feed.del"), 1);
    assert_eq!(world.counted("feed.gap"), 1);
    world.ask("/a");
    let lines = world
        .host
        .log
        .iter()
        .filter(|line| line.contains("a message of the feed"));
    assert_eq!(lines.count(), 1);
}

/// As threads that share an edge apply it. The position moves with the last part, and a message that cannot be read is a gap then.
#[test]
fn batch_when_applied_in_parts_has_the_effect_of_one() {
    for has_gap in [false, true] {
        for unreadable in [None, Some(3), Some(700)] {
            let keys: Vec<_> = (0..700).map(|n| format!("go.example/k{n}")).collect();
            let puts = keys.iter().map(|key| put(key, "https://changed/", 2));
            let mut messages: Vec<_> = puts
                .map(|put| edgelink_wire::feed_batch::encode_message(&put))
                .collect();
            if let Some(place) = unreadable {
                messages.insert(place, b"\x07".to_vec());
            }
            let head = FeedBatchHead {
                gap: has_gap,
                ..head(9)
            };
            let body = FeedBatch::encode_encoded(head, messages.iter().map(Vec::as_slice));
            let end = |in_parts: bool| {
                let mut world = World::with_polled_link();
                world.pass(100);
                let (token, _) = world.take_background(BackgroundKind::Poll);
                let response = Response {
                    status: b"200",
                    content_type: FeedBatch::MEDIA_TYPE.as_bytes(),
                    body: &body,
                };
                let now = Moment::from_millis(world.now);
                let (edge, host) = (&mut world.edge, &mut world.host);
                let actions = if in_parts {
                    let mut decoded = Decoded::of(response);
                    let Decoded::Feed(batch) = &mut decoded else {
                        panic!("a batch");
                    };
                    let mut parts = 0;
                    while edge.on_feed_part(host, token, batch, now) {
                        parts += 1;
                        assert_eq!(edge.reading().unwrap().position, position(5));
                    }
                    assert_eq!(parts, 2);
                    edge.on_callout_decoded(host, token, (response, decoded), now)
                } else {
                    edge.on_callout_end(host, token, response, now)
                };
                world.act_on(actions);
                let counted = ["feed.put", "feed.gap", "feed.malformed", "poll.ok"];
                let counted = counted.map(|name| world.counted(name));
                let visited = ["/k0", "/k699", "/a"].map(|path| {
                    let (became, _) = world.visit_and_send(path);
                    matches!(became, Answered(_))
                });
                (counted, visited, world.edge.reading().unwrap())
            };
            assert_eq!(end(true), end(false), "{has_gap} {unreadable:?}");
        }
    }
}

#[test]
fn poll_when_its_answer_is_no_batch_fails() {
    let mut world = World::with_background(r#","poll":{}"#);
    world.answer_poll(b"garbage");
    assert_eq!(world.counted("poll.failed"), 1);
}

#[test]
fn alias_when_created_replaces_its_absence_in_each_tier() {
    let mut world = World::with_polled_link();
    world.know("b", Record::Absent { rev: 0 });
    assert_eq!(world.visit("/b"), Answered(page(404, "lru")));
    assert_eq!(
        world.other_worker().visit("/b"),
        Answered(page(404, "shared-data"))
    );
    world.pass(100);
    let put = put("go.example/b", "https://b/", 1);
    world.answer_poll(&batch(6, &[put]));
    assert_eq!(world.visit("/b"), Answered(redirect("https://b/", "lru")));
    assert_eq!(
        world.other_worker().visit("/b"),
        Answered(redirect("https://b/", "shared-data"))
    );
}

/// While other slots were in use, these were not kept up to date.
#[test]
fn slot_when_back_in_use_is_looked_up_again() {
    let feed = r#","poll":{},"lru":{"maxBytes":1048576}"#;
    let mut world = World::with_background(feed);
    world.answer_poll(&gap(5));
    for _ in 0..3 {
        world.quiet_poll();
    }
    world.know("a", link("https://old/", 1));
    let configure = |world: &mut World, more: &str| {
        let settings = settings_with(&format!("{feed}{more}"));
        world.edge.configure(&mut world.host, Arc::new(settings));
        world.pass(100);
    };
    configure(&mut world, r#","sharedData":{"slots":7}"#);
    world.answer_poll(&batch(6, &[put("go.example/a", "https://new/", 2)]));
    for _ in 0..20 {
        world.quiet_poll();
    }
    // Until the change has left the LRU.
    let long = format!("https://e/{}", "x".repeat(7_000));
    for id in 0..400 {
        let other = format!("other{id}");
        world.know(&other, link(&long, 1));
        world.visit(&format!("/{other}"));
    }
    let now = Moment::from_millis(world.now);
    let caches = &world.edge.caches;
    let held = caches.look_up_lru(caches.lifetimes(), b"go.example/a", now);
    assert!(matches!(held, Err(None)), "{held:?}");
    configure(&mut world, "");
    world.ask("/a");
}

#[test]
fn change_when_not_understood_counts_for_the_longest_lifetime() {
    for (lifetimes, record) in [
        (r#""freshSeconds":3600"#, link("https://old/", 1)),
        (r#""absentFreshSeconds":3600"#, Record::Absent { rev: 1 }),
    ] {
        let more = format!(r#","poll":{{}},"freshWithFeedSeconds":60,{lifetimes}"#);
        let mut world = World::with_background(&more);
        world.answer_poll(&gap(5));
        world.pass(1);
        world.know("a", record);
        world.pass(1_000);
        let changed = FeedMessage::Changed {
            key: "go.example/a",
        };
        world.answer_poll(&batch(6, &[changed]));
        for _ in 0..30 {
            world.pass(100_000);
        }
        world.ask("/a");
    }
}

#[test]
fn settings_when_replaced_keep_the_feed_position() {
    let mut world = World::with_admission();
    world.pass(100);
    world.callouts.clear();
    let settings = settings_with(r#","snapshot":{},"poll":{"waitMs":500},"admission":{}"#);
    world.edge.configure(&mut world.host, Arc::new(settings));
    world.pass(100);
    assert_eq!(
        world.answer_poll(&batch(5, &[])),
        "/edge/v1/feed?after=6-0&generation=7&waitMs=500"
    );
}
