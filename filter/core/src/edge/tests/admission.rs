//! Codes that were never issued.

use super::background::{ALIAS, BOUND, batch, code, gap, path, snapshot};
use super::*;
use crate::control_plane::BackgroundKind;
use crate::settings::ControlPlane;
use edgelink_wire::feed::FeedMessage;

#[test]
fn code_when_never_issued_is_404_without_a_lookup() {
    let mut world = World::with_admission();
    for number in BOUND..BOUND + 50 {
        assert_eq!(world.visit(&path(number)), Answered(page(404, "admission")));
    }
    assert_eq!(world.counted("requests.admission.not_found"), 50);
    assert_eq!(world.counted("lru_entries"), 1, "the hot link");
    world.ask(&path(BOUND - 1));
    world.ask(&path(ALIAS));
    world.ask("/sale");
}

#[test]
fn alias_when_it_arrives_on_the_feed_redirects_at_once() {
    let mut world = World::with_admission();
    let key = format!("go.example/{}", code(BOUND + 5));
    let put = FeedMessage::Put {
        key: &key,
        record: encoded(&link("https://alias/", 1)),
        hot: false,
    };
    assert_eq!(
        world.visit(&path(BOUND + 5)),
        Answered(page(404, "admission"))
    );
    world.pass(100);
    let beat = world.beat(BOUND + 9);
    world.answer_poll(&batch(7, &[put, beat]));
    let seen = world.visit(&path(BOUND + 5));
    assert_eq!(seen, Answered(redirect("https://alias/", "lru")));
    world.ask(&path(BOUND + 8));
}

#[test]
fn code_when_the_feed_is_silent_too_long_is_looked_up() {
    let mut world = World::with_admission();
    world.pass(100);
    world.fail_background(BackgroundKind::Poll);
    world.pass(4_600);
    assert_eq!(world.visit(&path(BOUND)), Answered(page(404, "admission")));
    world.pass(100);
    world.ask(&path(BOUND));
    assert_eq!(world.counted("admission"), 0);
}

#[test]
fn admission_when_gap_or_flush_comes_awaits_a_newer_snapshot() {
    for answer in [gap(9), batch(9, &[FeedMessage::Flush])] {
        let mut world = World::with_admission();
        world.pass(100);
        world.answer_poll(&answer);
        world.ask(&path(BOUND));
        for _ in 0..10 {
            world.pass(100);
        }
        world.answer_snapshot(&snapshot(8));
        assert_eq!(world.counted("admission"), 0, "it is older");
        for _ in 0..10 {
            world.pass(100);
        }
        world.answer_snapshot(&snapshot(9));
        assert_eq!(world.counted("admission"), 1);
    }
}

#[test]
fn alias_when_unknown_is_404_without_a_lookup() {
    let mut world = World::with_admission();
    for number in 0..2_000 {
        let path = format!("/scan{number:04}");
        assert_eq!(world.visit(&path), Answered(page(404, "admission")));
    }
    assert_eq!(world.lookups, 0);
    world.ask("/sale");
}

#[test]
fn alias_when_its_change_is_not_understood_is_looked_up() {
    let mut world = World::with_admission();
    assert_eq!(world.visit("/new-alias"), Answered(page(404, "admission")));
    world.pass(100);
    let changed = FeedMessage::Changed {
        key: "go.example/new-alias",
    };
    world.answer_poll(&batch(7, &[changed]));
    world.ask("/new-alias");
}

#[test]
fn worker_when_it_stood_still_refuses_no_code() {
    let mut world = World::with_admission();
    world.stand_still(60_000);
    world.ask(&path(BOUND));
}

#[test]
fn link_when_held_is_looked_up_despite_a_flood() {
    let mut world = World::new();
    world.know("held", link("https://e/", 1));
    world.pass(5_000);
    for number in 0..20 {
        world.visit(&format!("/flood{number}"));
    }
    let token = world.ask("/held");
    let answers = world.end_with(token, "go.example/held", link("https://e/2", 2));
    assert_eq!(answers, [redirect("https://e/2", "control-plane")]);
}

/// A change between the last poll of one and the first of the other may never come.
#[test]
fn admission_when_the_feed_source_changes_awaits_a_newer_snapshot() {
    let mut world = World::with_admission();
    assert_eq!(world.visit(&path(BOUND)), Answered(page(404, "admission")));
    let settings = settings_with(r#","snapshot":{},"poll":{},"admission":{}"#);
    let control_plane = ControlPlane {
        cluster: "other".to_owned(),
        ..settings.control_plane
    };
    let settings = Arc::new(Settings {
        control_plane,
        ..settings
    });
    world.callouts.clear();
    world.edge.configure(&mut world.host, settings);
    assert_eq!(world.counted("admission"), 0);
    assert!(matches!(world.visit(&path(BOUND)), Waiting(_)));
    for _ in 0..10 {
        world.pass(100);
    }
    world.answer_snapshot(&snapshot(8));
    world.answer_poll(&batch(9, &[]));
    assert_eq!(world.counted("admission"), 1);
}

#[test]
fn admission_when_switched_off_and_on_starts_over() {
    let mut world = World::with_admission();
    let feed = r#","snapshot":{},"poll":{}"#;
    let settings = settings_with(feed);
    world.edge.configure(&mut world.host, Arc::new(settings));
    world.pass(100);
    world.ask(&path(BOUND));
    let settings = settings_with(&format!(r#"{feed},"admission":{{}}"#));
    world.edge.configure(&mut world.host, Arc::new(settings));
    for _ in 0..10 {
        world.pass(100);
    }
    assert_eq!(world.counted("admission"), 0);
    world.answer_snapshot(&snapshot(6));
    assert_eq!(world.counted("admission"), 1);
}
