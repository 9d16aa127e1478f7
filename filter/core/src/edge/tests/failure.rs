//! Answers to visitors while lookups fail, bounds are reached or the clock jumps.

use super::*;

#[test]
fn request_when_its_lookup_fails_is_503_and_not_remembered() {
    let mut world = World::new();
    for response in [
        Response::default(),
        Response {
            status: b"404",
            ..Response::default()
        },
        Response {
            status: b"500",
            ..Response::default()
        },
    ] {
        let token = world.ask("/a");
        assert_eq!(world.end(token, response), [unavailable()]);
    }
    let token = world.ask("/a");
    assert_eq!(
        world.end_with(token, "go.example/b", link("https://e/", 1)),
        [unavailable()]
    );
    assert_eq!(world.counted("callouts.failed"), 4);
    assert_eq!(world.counted("requests.control_plane.unavailable"), 4);
    world.know("a", link("https://e/", 1));
    assert_eq!(world.host.log.len(), 2, "{:?}", world.host.log);
}

#[test]
fn stale_record_when_a_lookup_failed_is_served_at_once() {
    let mut world = World::new();
    let stale = redirect("https://e/", "stale");
    world.know("a", link("https://e/", 1));
    world.pass(5_000);
    let token = world.ask("/a");
    assert_eq!(world.time_out(token), std::slice::from_ref(&stale));
    assert_eq!(world.visit_and_send("/a"), (Answered(stale.clone()), None));
    world.pass(1_000);
    let (became, token) = world.visit_and_send("/a");
    assert_eq!(became, Answered(stale.clone()));
    assert_eq!(
        world.visit_and_send("/a"),
        (Answered(stale.clone()), None),
        "one is under way"
    );
    assert_eq!(world.time_out(token.unwrap()), []);
    world.pass(1_000);
    let (_, token) = world.visit_and_send("/a");
    assert_eq!(
        world.end_with(token.unwrap(), "go.example/a", link("https://e/2", 2)),
        []
    );
    assert_eq!(world.visit("/a"), Answered(redirect("https://e/2", "lru")));
    assert_eq!(world.counted("requests.stale.redirect"), 5);
}

#[test]
fn stale_link_when_its_failure_is_old_waits_for_a_lookup() {
    let mut world = World::new();
    world.know("a", link("https://e/", 1));
    world.pass(5_000);
    let token = world.ask("/a");
    world.time_out(token);
    world.pass(4_999);
    let (became, token) = world.visit_and_send("/a");
    assert_eq!(became, Answered(redirect("https://e/", "stale")));
    world.time_out(token.unwrap());
    // There were no lookups since, and the control plane is available again.
    world.pass(5_000);
    let token = world.ask("/a");
    let answers = world.end_with(token, "go.example/a", link("https://e/2", 2));
    assert_eq!(answers, [redirect("https://e/2", "control-plane")]);
}

#[test]
fn stale_link_when_the_circuit_opened_long_ago_is_looked_up() {
    let mut world = World::new();
    world.know("a", link("https://e/", 1));
    for number in 0..8 {
        let token = world.ask(&format!("/b{number}"));
        world.time_out(token);
    }
    world.pass(5_000);
    let token = world.ask("/a");
    let answers = world.end_with(token, "go.example/a", link("https://e/2", 2));
    assert_eq!(answers, [redirect("https://e/2", "control-plane")]);
}

#[test]
fn record_when_older_than_stale_seconds_is_not_served() {
    let mut world = World::with(settings_with(r#","staleSeconds":60"#));
    world.know("a", link("https://e/", 1));
    world.pass(59_999);
    let token = world.ask("/a");
    assert_eq!(
        world.end(token, Response::default()),
        [redirect("https://e/", "stale")]
    );
    world.pass(1);
    let token = world.ask("/a");
    assert_eq!(world.end(token, Response::default()), [unavailable()]);
}

#[test]
fn absence_when_stale_and_lookup_fails_is_503() {
    let mut world = World::new();
    world.know("a", Record::Absent { rev: 0 });
    world.pass(5_000);
    let token = world.ask("/a");
    assert_eq!(world.end(token, Response::default()), [unavailable()]);
}

#[test]
fn request_when_lookups_are_full_is_served_stale_or_503() {
    let mut world = World::new();
    world.know("known", link("https://e/", 1));
    world.know("known2", link("https://e/", 1));
    world.pass(5_000);
    let tokens: Vec<_> = ["/a", "/b", "/c", "/d"].map(|path| world.ask(path)).into();
    assert_eq!(world.visit("/e"), Answered(unavailable()), "lookups");
    assert_eq!(
        world.visit("/known"),
        Waiting(world.last_stream),
        "a part of the room is for links that are held"
    );
    assert_eq!(
        world.visit("/known2"),
        Answered(redirect("https://e/", "stale")),
        "lookups"
    );
    assert_eq!(world.visit("/a"), Waiting(world.last_stream));
    assert_eq!(world.visit("/a"), Waiting(world.last_stream));
    assert_eq!(world.visit("/a"), Answered(unavailable()), "waiters");
    assert_eq!(world.counted("callouts.rejected"), 3);
    let answers = world.end_with(tokens[0], "go.example/a", link("https://e/", 1));
    assert_eq!(answers.len(), 3);
    world.ask("/e");
}

#[test]
fn callout_when_the_proxy_refuses_it_is_answered_at_once() {
    let mut world = World::new();
    let callout = match world.request(1, &get("/a")) {
        Step::Wait(Some(callout)) => callout,
        other => panic!("{other:?}"),
    };
    let refused = world
        .edge
        .on_lookup_refused(&mut world.host, callout.flight);
    assert_eq!(world.act_on(refused), [unavailable()]);
    assert_eq!(world.counted("callouts.rejected"), 1);
    world.ask("/a");
}

#[test]
fn callout_when_it_never_ends_is_given_up() {
    let mut world = World::new();
    let token = world.ask("/a");
    assert_eq!(world.pass(1_799), []);
    assert_eq!(world.pass(1), [unavailable()]);
    assert_eq!(world.counted("callouts.timeout"), 1);
    assert_eq!(
        world.end_with(token, "go.example/a", link("https://e/", 1)),
        []
    );
    world.ask("/a");
}

#[test]
fn circuit_when_open_lets_one_lookup_through_in_a_while() {
    let mut world = World::new();
    world.know("known", link("https://e/", 1));
    world.pass(5_000);
    for code in 0..8 {
        let token = world.ask(&format!("/x{code}"));
        world.time_out(token);
    }
    assert_eq!(world.visit("/y"), Answered(unavailable()));
    assert_eq!(
        world.visit_and_send("/known"),
        (Answered(redirect("https://e/", "stale")), None)
    );
    assert_eq!(world.counted("callouts.rejected"), 1);
    world.pass(1_000);
    let (became, token) = world.visit_and_send("/known");
    assert_eq!(became, Answered(redirect("https://e/", "stale")));
    assert_eq!(
        world.visit("/y"),
        Answered(unavailable()),
        "one is under way"
    );
    world.end_with(token.unwrap(), "go.example/known", link("https://e/", 1));
    world.ask("/y");
}

#[test]
fn wall_clock_when_it_jumps_changes_no_age_or_lookup() {
    for wall in [UNIX_START - 500_000, UNIX_START + 1_000_000_000] {
        let mut world = World::new();
        world.know("a", link("https://e/", 1));
        let token = world.ask("/b");
        world.wall = wall;
        assert_eq!(world.pass(100), [], "no waiter has timed out");
        assert_eq!(world.visit("/a"), Answered(redirect("https://e/", "lru")));
        let answers = world.end_with(token, "go.example/b", link("https://b/", 1));
        assert_eq!(answers, [redirect("https://b/", "control-plane")]);
        world.pass(4_899);
        assert_eq!(world.visit("/a"), Answered(redirect("https://e/", "lru")));
        world.pass(1);
        world.ask("/a");
    }
}

#[test]
fn worker_when_it_stood_still_serves_nothing_expired() {
    let mut world = World::new();
    world.know("a", link("https://e/", 1));
    world.stand_still(4_999);
    assert_eq!(world.visit("/a"), Answered(redirect("https://e/", "lru")));
    world.stand_still(1);
    world.ask("/a");
}

#[test]
fn link_when_its_validity_ends_between_ticks_is_410() {
    let mut world = World::new();
    let Record::Link(mut expiring) = link("https://e/", 1) else {
        unreachable!()
    };
    expiring.valid_until = Some(UNIX_START / 1_000 + 2);
    world.know("a", Record::Link(expiring));
    world.stand_still(1_999);
    assert_eq!(world.visit("/a"), Answered(redirect("https://e/", "lru")));
    world.stand_still(1);
    assert_eq!(world.visit("/a"), Answered(page(410, "lru")));
    world.wall = UNIX_START;
    world.pass(0);
    assert_eq!(world.visit("/a"), Answered(redirect("https://e/", "lru")));
}
