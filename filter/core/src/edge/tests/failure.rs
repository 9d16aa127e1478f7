//! Answers to visitors while lookups fail, bounds are reached or the clock jumps.

use super::*;

#[test]
fn a_failure_is_503_and_never_remembered_as_anything_else() {
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
fn after_a_failure_a_stale_record_is_served_at_once_and_no_request_waits() {
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
fn a_failure_of_a_while_ago_has_a_visitor_wait_again() {
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
fn a_circuit_that_has_opened_a_while_ago_has_a_visitor_find_out() {
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
fn a_record_older_than_stale_seconds_is_never_served() {
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
fn a_stale_absence_is_503_for_somebody_may_have_made_the_link() {
    let mut world = World::new();
    world.know("a", Record::Absent { rev: 0 });
    world.pass(5_000);
    let token = world.ask("/a");
    assert_eq!(world.end(token, Response::default()), [unavailable()]);
}

#[test]
fn beyond_the_bounds_stale_is_served_and_else_503() {
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
fn a_callout_that_the_proxy_does_not_send_is_answered_at_once() {
    let mut world = World::new();
    let callout = match world.request(1, &get("/a")) {
        Step::Wait(Some(callout)) => callout,
        other => panic!("{other:?}"),
    };
    let refused = world.edge.on_refused(&mut world.host, callout.flight);
    assert_eq!(world.act_on(refused), [unavailable()]);
    assert_eq!(world.counted("callouts.rejected"), 1);
    world.ask("/a");
}

#[test]
fn a_callout_that_never_ends_is_given_up_and_its_late_end_is_nothing() {
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
fn a_silent_control_plane_is_left_alone_but_for_one_lookup_in_a_while() {
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
fn a_step_of_the_wall_clock_neither_fails_a_lookup_nor_makes_anything_older_or_younger() {
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
fn a_worker_that_stood_still_serves_nothing_old_before_its_first_tick() {
    let mut world = World::new();
    world.know("a", link("https://e/", 1));
    world.stand_still(4_999);
    assert_eq!(world.visit("/a"), Answered(redirect("https://e/", "lru")));
    world.stand_still(1);
    world.ask("/a");
}

#[test]
fn a_link_ends_by_the_wall_clock_also_between_ticks() {
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
