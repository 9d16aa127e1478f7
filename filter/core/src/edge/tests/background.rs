//! Snapshots, and the feed by long poll.

use super::*;
use crate::background::ErrandKind;
use edgelink_wire::feed::FeedMessage;
use edgelink_wire::{AliasFilter, CodeLength, CodeSpace, FeedBatch, FeedPosition, Snapshot};

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

/// As of `at` in the feed, with one alias, and the hot link `h`.
pub(super) fn snapshot(at: u64) -> Vec<u8> {
    let mut aliases = AliasFilter::with_capacity(0).unwrap();
    aliases.insert(ALIAS);
    let hot = Entry {
        key: b"go.example/h",
        record: link("https://hot/", 1),
    };
    let snapshot = Snapshot {
        position: position(at),
        bound: BOUND,
        length: CodeLength::DEFAULT,
        key: None,
        domains: vec!["go.example"],
        aliases,
        hot: vec![hot],
    };
    snapshot.to_bytes()
}

pub(super) fn batch(next: u64, messages: &[FeedMessage<'_>]) -> Vec<u8> {
    FeedBatch::encode(position(next), false, messages.iter())
}

/// Nothing new but a sign of life.
fn sign(next: u64) -> Vec<u8> {
    batch(next, &[FeedMessage::Bound { bound: 1 }])
}

pub(super) fn gap(next: u64) -> Vec<u8> {
    FeedBatch::encode(position(next), true, [].iter())
}

impl World {
    /// A worker that has had a request, and a second to begin its errands.
    fn with_errands(more: &str) -> Self {
        let mut world = Self::with(settings_with(more));
        assert_eq!(world.visit("/"), Passed);
        for _ in 0..10 {
            world.pass(100);
        }
        world
    }

    /// One where admission is in effect.
    pub(super) fn with_admission() -> Self {
        let mut world = Self::with_errands(r#","snapshot":{},"poll":{},"admission":{}"#);
        world.answer_snapshot(&snapshot(5));
        world.pass(100);
        world.answer_poll(&sign(6));
        assert_eq!(world.counted("admission"), 1);
        world
    }

    fn errand(&mut self, kind: ErrandKind) -> (Token, Errand) {
        let at = self
            .errands
            .iter()
            .position(|(_, errand)| errand.kind == kind);
        self.errands.remove(at.expect("an errand of that kind"))
    }

    fn answer_errand(&mut self, token: Token, content_type: &str, body: &[u8]) {
        let response = Response {
            status: b"200",
            content_type: content_type.as_bytes(),
            body,
        };
        assert!(self.end(token, response).is_empty());
    }

    pub(super) fn answer_snapshot(&mut self, body: &[u8]) {
        let (token, errand) = self.errand(ErrandKind::Snapshot);
        assert_eq!(errand.path, "/edge/v1/snapshot");
        self.answer_errand(token, Snapshot::MEDIA_TYPE, body);
    }

    /// Answers the poll, and gives its path.
    pub(super) fn answer_poll(&mut self, body: &[u8]) -> String {
        let (token, errand) = self.errand(ErrandKind::Poll);
        self.answer_errand(token, FeedBatch::MEDIA_TYPE, body);
        errand.path
    }

    pub(super) fn fail_errand(&mut self, kind: ErrandKind) {
        let (token, _) = self.errand(kind);
        assert!(self.end(token, Response::default()).is_empty());
    }

    /// Two seconds pass in which nothing is new.
    fn quiet_poll(&mut self) {
        self.pass(2_000);
        self.answer_poll(&sign(5));
    }
}

#[test]
fn nothing_is_done_unasked() {
    let mut world = World::with_errands("");
    for _ in 0..600 {
        world.pass(100);
    }
    assert!(world.errands.is_empty(), "{:?}", world.errands);
    assert!(world.host.wires.opened.is_empty(), "no stream to Redis");
}

#[test]
fn a_worker_begins_with_its_first_request_and_not_in_the_same_moment_as_the_others() {
    let mut world = World::with(settings_with(r#","snapshot":{},"poll":{}"#));
    world.pass(60_000);
    assert!(world.errands.is_empty(), "as on the main thread");
    assert_eq!(world.visit("/"), Passed);
    world.pass(1);
    assert!(world.errands.is_empty());
    world.pass(200);
    assert_eq!(world.errands.len(), 1);
}

#[test]
fn hot_links_of_a_snapshot_are_served_here_and_by_the_other_workers() {
    let mut world = World::with_errands(r#","snapshot":{}"#);
    world.answer_snapshot(&snapshot(5));
    assert_eq!(world.visit("/h"), Answered(redirect("https://hot/", "lru")));
    assert_eq!(
        world.other_worker().visit("/h"),
        Answered(redirect("https://hot/", "shared-data"))
    );
    world.pass(100_000);
    assert!(world.errands.is_empty(), "one is enough");
    assert_eq!(world.counted("snapshot.ok"), 1);
}

#[test]
fn without_a_snapshot_links_are_looked_up_and_it_is_asked_for_again() {
    let mut world = World::with_errands(r#","snapshot":{}"#);
    for (code, body) in [("a", &b"garbage"[..]), ("b", b"")] {
        world.answer_snapshot(body);
        world.know(code, link("https://a/", 1));
        for _ in 0..10 {
            world.pass(100);
        }
    }
    world.fail_errand(ErrandKind::Snapshot);
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
fn a_snapshot_longer_than_the_bound_is_not_read() {
    let mut world = World::with_errands(r#","snapshot":{"maxBytes":2000}"#);
    let (token, _) = world.errand(ErrandKind::Snapshot);
    assert_eq!(world.edge.max_body_bytes(token), 2_000);
    world.answer_errand(token, Snapshot::MEDIA_TYPE, b"");
    assert_eq!(world.counted("snapshot.failed"), 1);
}

#[test]
fn an_errand_that_is_refused_or_never_ends_is_tried_again() {
    let mut world = World::with_errands(r#","snapshot":{}"#);
    world.errands.clear();
    world.pass(5_000);
    world.pass(1_000);
    assert_eq!(world.counted("snapshot.failed"), 1, "given up");
    world.pass(1_000);
    let (_, errand) = world.errand(ErrandKind::Snapshot);
    let now = Moment::from_millis(world.now);
    world
        .edge
        .on_errand_refused(&mut world.host, errand.kind, now);
    assert_eq!(world.counted("snapshot.failed"), 2);
    world.pass(1_000);
    world.answer_snapshot(&snapshot(5));
}

#[test]
fn the_feed_is_polled_from_the_snapshot_on_one_poll_after_the_other() {
    let mut world = World::with_errands(r#","snapshot":{},"poll":{}"#);
    world.answer_snapshot(&snapshot(5));
    world.pass(100);
    let first = world.answer_poll(&batch(5, &[]));
    assert_eq!(first, "/edge/v1/feed?after=5-0&waitMs=2000");
    assert!(world.errands.is_empty(), "with the next tick");
    world.pass(100);
    assert_eq!(world.errands.len(), 1);
    world.pass(500);
    let change = FeedMessage::Put {
        key: "go.example/h",
        record: link("https://new/", 2),
        hot: false,
    };
    let second = world.answer_poll(&batch(6, &[change]));
    assert_eq!(second, "/edge/v1/feed?after=5-0&waitMs=2000");
    assert_eq!(world.visit("/h"), Answered(redirect("https://new/", "lru")));
    let third = world.answer_poll(&batch(6, &[]));
    assert_eq!(third, "/edge/v1/feed?after=6-0&waitMs=2000", "at once");
    assert_eq!(world.counted("poll.ok"), 3);
}

#[test]
fn without_a_snapshot_the_feed_is_polled_from_wherever_the_control_plane_says() {
    let mut world = World::with_errands(r#","snapshot":{},"poll":{}"#);
    world.fail_errand(ErrandKind::Snapshot);
    world.pass(100);
    assert_eq!(
        world.answer_poll(&gap(9)),
        "/edge/v1/feed?after=0-0&waitMs=2000"
    );
    assert_eq!(
        world.answer_poll(&batch(9, &[])),
        "/edge/v1/feed?after=9-0&waitMs=2000"
    );
    assert_eq!(world.counted("feed.gap"), 0, "nothing was missed");
}

#[test]
fn a_live_poll_keeps_what_is_known_fresh_and_a_dead_one_does_not() {
    let mut world = World::with_errands(r#","poll":{}"#);
    world.answer_poll(&gap(5));
    world.know("a", link("https://a/", 1));
    for _ in 0..30 {
        world.quiet_poll();
    }
    assert_eq!(world.visit("/a"), Answered(redirect("https://a/", "lru")));
    world.fail_errand(ErrandKind::Poll);
    world.pass(2_700);
    assert_eq!(world.visit("/a"), Answered(redirect("https://a/", "lru")));
    world.pass(200);
    world.ask("/a");
    assert_eq!(world.counted("poll.failed"), 1);
}

#[test]
fn a_control_plane_that_the_changes_do_not_reach_keeps_nothing_fresh() {
    let mut world = World::with_errands(r#","poll":{}"#);
    world.answer_poll(&gap(5));
    world.know("a", link("https://a/", 1));
    world.quiet_poll();
    for _ in 0..3 {
        world.pass(2_000);
        world.answer_poll(&batch(5, &[]));
    }
    world.ask("/a");
}

#[test]
fn after_a_failure_the_poll_goes_on_where_it_was() {
    let mut world = World::with_errands(r#","poll":{}"#);
    world.answer_poll(&gap(5));
    world.fail_errand(ErrandKind::Poll);
    world.pass(1_000);
    let path = world.answer_poll(&sign(6));
    assert_eq!(path, "/edge/v1/feed?after=5-0&waitMs=2000");
    assert_eq!(world.counted("feed.gap"), 0);
}

#[test]
fn a_gap_has_everything_asked_for_again() {
    let mut world = World::with_errands(r#","poll":{}"#);
    world.answer_poll(&gap(5));
    world.know("a", link("https://a/", 1));
    world.pass(1_000);
    world.answer_poll(&gap(9));
    assert_eq!(world.counted("feed.gap"), 1);
    world.ask("/a");
}

#[test]
fn a_message_that_cannot_be_read_is_counted_and_the_others_are_taken() {
    let mut world = World::with_errands(r#","poll":{}"#);
    let body = FeedBatch::encode_encoded(position(5), false, [&b"\x07"[..]].into_iter());
    world.answer_poll(&body);
    assert_eq!(world.counted("feed.malformed"), 1);
    let lines = world
        .host
        .log
        .iter()
        .filter(|line| line.contains("message"));
    assert_eq!(lines.count(), 1);
}

#[test]
fn an_answer_that_is_no_batch_is_a_failure() {
    let mut world = World::with_errands(r#","poll":{}"#);
    world.answer_poll(b"garbage");
    assert_eq!(world.counted("poll.failed"), 1);
}

#[test]
fn an_alias_that_is_created_takes_the_place_of_its_absence_in_every_tier() {
    let mut world = World::with_errands(r#","poll":{}"#);
    world.answer_poll(&gap(5));
    world.know("a", Record::Absent { rev: 0 });
    assert_eq!(world.visit("/a"), Answered(page(404, "lru")));
    assert_eq!(
        world.other_worker().visit("/a"),
        Answered(page(404, "shared-data"))
    );
    world.pass(100);
    let put = FeedMessage::Put {
        key: "go.example/a",
        record: link("https://a/", 1),
        hot: false,
    };
    world.answer_poll(&batch(6, &[put]));
    assert_eq!(world.visit("/a"), Answered(redirect("https://a/", "lru")));
    assert_eq!(
        world.other_worker().visit("/a"),
        Answered(redirect("https://a/", "shared-data"))
    );
}

#[test]
fn new_settings_keep_the_place_in_the_feed() {
    let mut world = World::with_admission();
    world.pass(100);
    world.errands.clear();
    let settings = settings_with(r#","snapshot":{},"poll":{"waitMs":500},"admission":{}"#);
    world.edge.configure(&mut world.host, Rc::new(settings));
    world.pass(100);
    assert_eq!(
        world.answer_poll(&batch(5, &[])),
        "/edge/v1/feed?after=6-0&waitMs=500"
    );
}
