//! Redirects are counted by link and reported.

use super::*;
use crate::control_plane::BackgroundKind;
use edgelink_wire::ClickBatch;
use edgelink_wire::clicks::decode;

const CLICKS: &str = r#","clicks":{}"#;

impl World {
    /// The report in flight: its token and its body.
    fn report(&mut self) -> (Token, Vec<u8>) {
        let (token, callout) = self.callouts.pop().expect("a report");
        assert_eq!(callout.kind, BackgroundKind::Clicks);
        assert_eq!(
            (callout.method, callout.path.as_str()),
            ("POST", "/edge/v1/clicks")
        );
        (token, callout.body)
    }

    pub(super) fn answer_report(&mut self, token: Token, status: &'static [u8]) {
        let response = Response {
            status,
            ..Response::default()
        };
        assert!(self.end(token, response).is_empty());
    }
}

/// The clicks in a report, by key.
fn counted(body: &[u8]) -> Vec<(String, u64)> {
    let batches = decode(body).unwrap();
    let clicks = batches.iter().flat_map(|batch| &batch.clicks);
    let mut clicks: Vec<_> = clicks
        .map(|(key, clicks)| ((*key).to_owned(), *clicks))
        .collect();
    clicks.sort();
    clicks
}

fn pair(key: &str, clicks: u64) -> (String, u64) {
    (format!("go.example/{key}"), clicks)
}

#[test]
fn redirect_when_answered_counts_as_click_of_its_link() {
    let mut world = World::with(settings_with(CLICKS));
    world.know("a", link("https://a/", 1));
    world.know("b", link("https://b/", 1));
    world.know("none", Record::Absent { rev: 1 });
    for path in ["/a", "/a", "/none", "/api", "/b?x"] {
        world.visit(path);
    }
    world.pass(1_000);
    let (token, body) = world.report();
    assert_eq!(counted(&body), [pair("a", 3), pair("b", 2)]);
    let [
        ClickBatch {
            worker,
            seq: 1,
            total: 5,
            dropped: 0,
            ..
        },
    ] = decode(&body).unwrap()[..]
    else {
        panic!("{body:?}");
    };
    assert_eq!(worker, [7; 16]);
    world.answer_report(token, b"204");
    world.pass(5_000);
    assert!(world.callouts.is_empty(), "nothing new");
    assert_eq!(world.counted("clicks.sent"), 5);
    assert_eq!(world.counted("clicks.acknowledged"), 5);
    assert_eq!(world.counted("clicks.dropped"), 0);
}

#[test]
fn click_when_the_lru_does_not_keep_its_link_is_counted() {
    let mut world = World::with(settings_with(r#","clicks":{},"lru":{"maxBytes":0}"#));
    world.know("a", link("https://a/", 1));
    assert_eq!(
        world.visit("/a"),
        Answered(redirect("https://a/", "shared-data"))
    );
    world.pass(1_000);
    assert_eq!(counted(&world.report().1), [pair("a", 2)]);
}

#[test]
fn entry_when_dropped_or_changed_hands_its_clicks_over() {
    let mut world = World::with(settings_with(r#","clicks":{},"lru":{"maxBytes":400}"#));
    for code in ["a", "b", "c", "d", "e", "f"] {
        world.know(code, link("https://e/", 1));
    }
    world.pass(1_000);
    let (_, body) = world.report();
    let expected = ["a", "b", "c", "d", "e", "f"].map(|code| pair(code, 1));
    assert_eq!(counted(&body), expected);
}

#[test]
fn report_when_failed_is_sent_again_unchanged() {
    let mut world = World::with(settings_with(CLICKS));
    world.know("a", link("https://a/", 1));
    world.pass(1_000);
    let (token, first) = world.report();
    world.answer_report(token, b"503");
    world.pass(100);
    let (token, again) = world.report();
    assert_eq!(again, first);
    world.answer_report(token, b"200");
    world.pass(5_000);
    assert!(world.callouts.is_empty());
    assert_eq!(world.counted("click_report.failed"), 1);
    assert_eq!(world.counted("click_report.ok"), 1);
}

#[test]
fn report_when_rejected_is_dropped_and_the_drop_is_reported() {
    let mut world = World::with(settings_with(CLICKS));
    world.know("a", link("https://a/", 1));
    world.pass(1_000);
    let (token, _) = world.report();
    world.answer_report(token, b"400");
    assert_eq!(world.counted("clicks.dropped"), 1);
    world.pass(1_000);
    let body = world.report().1;
    let [
        ClickBatch {
            seq: 2,
            total: 1,
            dropped: 1,
            ..
        },
    ] = decode(&body).unwrap()[..]
    else {
        panic!("{body:?}");
    };
}

#[test]
fn clicks_when_unreported_for_long_are_dropped_and_counted() {
    let mut world = World::with(settings_with(r#","clicks":{"maxUnsent":64,"flushMs":100}"#));
    world.know("a", link("https://a/", 1));
    world.pass(100);
    for _ in 0..100 {
        world.visit("/a");
        world.pass(100);
    }
    let sent = world.counted("clicks.sent");
    assert!(sent > 64, "{sent}");
    assert!(world.counted("clicks.dropped") > 0);
}

#[test]
fn clicks_when_their_worker_ends_are_counted_as_dropped() {
    let mut world = World::with(settings_with(CLICKS));
    world.know("a", link("https://a/", 1));
    world.edge.on_end(&mut world.host);
    assert_eq!(world.host.stats.get("edgelink.clicks.dropped"), Some(&1));
}

#[test]
fn clicks_when_settings_change_are_kept() {
    let mut world = World::with(settings_with(CLICKS));
    world.know("a", link("https://a/", 1));
    world.pass(1_000);
    let (_, body) = world.report();
    let settings = settings_with(r#","clicks":{"flushMs":200}"#);
    world.edge.configure(&mut world.host, Arc::new(settings));
    world.pass(100);
    assert_eq!(world.report().1, body, "sent again by the new root context");
}

#[test]
fn batch_when_clicks_are_switched_on_again_has_the_next_number() {
    let mut world = World::with(settings_with(CLICKS));
    world.know("a", link("https://a/", 1));
    world.pass(1_000);
    let (token, body) = world.report();
    let first = decode(&body).unwrap()[0].seq;
    world.answer_report(token, b"204");
    for more in ["", CLICKS] {
        let settings = settings_with(more);
        world.edge.configure(&mut world.host, Arc::new(settings));
        world.pass(100);
    }
    world.visit("/a");
    world.pass(1_000);
    let (_, body) = world.report();
    let batch = &decode(&body).unwrap()[0];
    assert_eq!((batch.seq, batch.total), (first + 1, 2));
}

/// HEAD comes from programs that check or preview a link.
#[test]
fn head_request_when_answered_is_no_click() {
    let mut world = World::with(settings_with(CLICKS));
    let head = Head {
        method: b"HEAD",
        ..get("/a")
    };
    let Step::Wait(Some(callout)) = world.request(1, &head) else {
        panic!("a lookup");
    };
    let token = world.send(&callout);
    world.end_with(token, "go.example/a", link("https://a/", 1));
    let answered = world.request(2, &head);
    assert!(matches!(answered, Step::Answer(..)));
    world.visit("/a");
    world.edge.on_end(&mut world.host);
    assert_eq!(world.host.stats.get("edgelink.clicks.sent"), Some(&1));
}
