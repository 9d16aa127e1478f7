//! The limit of requests by address.

use super::*;

const LIMIT: &str = r#","limit":{"perSecond":10,"burst":3}"#;

fn refused() -> Became {
    Answered(page(429, "domain"))
}

fn found() -> Became {
    Answered(redirect("https://e/", "lru"))
}

fn limited(more: &str) -> World {
    let mut world = World::with(settings_with(&format!("{LIMIT}{more}")));
    world.host.client = Some([192, 0, 2, 1].into());
    world
}

#[test]
fn request_when_beyond_the_limit_is_429_without_lookup_or_click() {
    let mut world = limited(r#","clicks":{},"describe":["outcome","key","tier"]"#);
    world.know("a", link("https://e/", 1));
    for _ in 0..2 {
        assert_eq!(world.visit("/a"), found());
    }
    world.host.described.borrow_mut().clear();
    assert_eq!(world.visit("/a"), refused());
    assert_eq!(world.visit("/b"), refused());
    let described = world.host.described.take();
    let expected = ["outcome limited", "tier domain"];
    assert_eq!(described, [expected, expected].concat(), "no key was read");
    assert_eq!(world.lookups, 1);
    world.pass(60_000);
    assert_eq!(world.counted("requests.domain.limited"), 2);
    assert_eq!(world.counted("clicks.sent"), 3);
}

#[test]
fn answer_when_beyond_the_limit_says_when_to_come_again() {
    let settings = settings();
    let answer = Answer::limited(&settings);
    let headers: Vec<_> = answer.headers().collect();
    let expected = [
        ("cache-control", &b"no-store"[..]),
        ("retry-after", b"1"),
        ("x-edgelink-tier", b"domain"),
    ];
    assert_eq!(headers, expected);
    assert!(answer.page().is_none());
}

#[test]
fn limit_when_time_passes_admits_again() {
    let mut world = limited("");
    let visits = |world: &mut World| (0..5).filter(|_| world.visit("/") == Passed).count();
    assert_eq!(visits(&mut world), 3, "those that pass count too");
    world.pass(200);
    assert_eq!(visits(&mut world), 2);
    world.host.client = Some([192, 0, 2, 2].into());
    assert_eq!(visits(&mut world), 3, "another address");
    world.host.client = None;
    assert_eq!(visits(&mut world), 5, "an unknown address");
}

#[test]
fn request_when_it_waits_takes_one_token() {
    let mut world = limited("");
    world.know("a", link("https://e/", 1));
    let became: Vec<_> = (0..3).map(|_| world.visit("/a")).collect();
    assert_eq!(became, [found(), found(), refused()]);
}

#[test]
fn limit_when_changed_begins_with_full_buckets() {
    let mut world = limited("");
    let visits = |world: &mut World| (0..5).filter(|_| world.visit("/") == Passed).count();
    assert_eq!(visits(&mut world), 3);
    for (more, admitted) in [(LIMIT, 0), (r#","limit":{"burst":1}"#, 1), ("", 5)] {
        let settings = Arc::new(settings_with(more));
        world.edge.configure(&mut world.host, settings);
        assert_eq!(visits(&mut world), admitted, "{more}");
    }
}
