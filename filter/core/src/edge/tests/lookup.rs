//! Lookups, caching and sharing of records.

use super::*;

#[test]
fn link_when_looked_up_is_served_from_the_lru_next() {
    let mut world = World::new();
    let token = world.ask("/a?b=1");
    let answers = world.end_with(token, "go.example/a", link("https://e/", 1));
    assert_eq!(answers, [redirect("https://e/", "control-plane")]);
    assert_eq!(world.visit("/a"), Answered(redirect("https://e/", "lru")));
    assert_eq!(
        world.visit("/a?b=2"),
        Answered(redirect("https://e/?b=2", "lru"))
    );
    assert_eq!(world.counted("requests.control_plane.redirect"), 1);
    assert_eq!(world.counted("requests.lru.redirect"), 2);
    assert_eq!(world.counted("callouts.ok"), 1);
    assert_eq!(world.counted("lru_entries"), 1);
}

#[test]
fn absence_when_fetched_is_fresh_for_its_own_lifetime() {
    let mut world = World::with(settings_with(r#","absentFreshSeconds":2"#));
    let token = world.ask("/a");
    let answers = world.end_with(token, "go.example/a", Record::Absent { rev: 0 });
    assert_eq!(answers, [page(404, "control-plane")]);
    world.pass(1_999);
    assert_eq!(world.visit("/a"), Answered(page(404, "lru")));
    world.pass(1);
    world.ask("/a");
    assert_eq!(world.counted("callouts.absent"), 1);
}

#[test]
fn record_when_shared_keeps_its_age_in_another_worker() {
    let mut world = World::new();
    world.know("a", link("https://e/", 1));
    world.pass(4_000);
    let mut other = world.other_worker();
    assert_eq!(
        other.visit("/a"),
        Answered(redirect("https://e/", "shared-data"))
    );
    assert_eq!(other.visit("/a"), Answered(redirect("https://e/", "lru")));
    other.pass(1_000);
    other.ask("/a");
}

#[test]
fn record_when_the_lru_keeps_none_is_served_from_shared_data() {
    let mut world = World::with(settings_with(r#","lru":{"maxBytes":0}"#));
    world.know("a", link("https://e/", 1));
    for _ in 0..2 {
        assert_eq!(
            world.visit("/a"),
            Answered(redirect("https://e/", "shared-data"))
        );
    }
    world.pass(5_000);
    let token = world.ask("/a");
    assert_eq!(
        world.end(token, Response::default()),
        [redirect("https://e/", "stale")]
    );
    let token = world.ask("/b");
    assert_eq!(
        world.end(token, Response::default()),
        [unavailable()],
        "not the record of another key"
    );
}

#[test]
fn request_when_for_no_code_passes() {
    let mut world = World::new();
    for path in ["/", "/a/b", "/console", "/%61", "/a/"] {
        assert_eq!(world.visit(path), Passed, "{path}");
    }
    for method in ["POST", "OPTIONS", "get", ""] {
        let head = Head {
            method: method.as_bytes(),
            ..get("/console")
        };
        assert!(matches!(world.request(1, &head), Step::Pass), "{method}");
    }
}

#[test]
fn host_when_unknown_stands_for_the_first_domain() {
    let mut world = World::new();
    for (host, path) in [
        (&b"[::1]:80"[..], "/edge/v1/links/%5B::1%5D:80/a"),
        (b"go.example", "/edge/v1/links/go.example/a"),
        (b"GO.example:81", "/edge/v1/links/go.example/b"),
        (b"\xff\0", "/edge/v1/links/go.example/c"),
    ] {
        let head = Head {
            authority: host,
            ..get(&path[path.len() - 2..])
        };
        match world.request(1, &head) {
            Step::Wait(Some(callout)) => assert_eq!(callout.path, path),
            other => panic!("{other:?}"),
        }
        world.edge.on_stream_end(1);
    }
}

#[test]
fn waiters_when_of_the_same_link_share_a_callout() {
    let mut world = World::new();
    let (first, token) = world.visit_and_send("/a");
    let Waiting(first) = first else { panic!() };
    assert_eq!(world.visit_and_send("/a"), (Waiting(first + 1), None));
    assert_eq!(world.visit_and_send("/a"), (Waiting(first + 2), None));
    world.edge.on_stream_end(first);
    world.edge.on_stream_end(first + 2);
    let answers = world.end_with(token.unwrap(), "go.example/a", link("https://e/", 1));
    assert_eq!(answers, [redirect("https://e/", "control-plane")]);
    assert_eq!(
        world.end_with(token.unwrap(), "go.example/a", link("https://e/2", 2)),
        []
    );
    assert_eq!(world.visit("/a"), Answered(redirect("https://e/", "lru")));
}

/// Happens if the worker was suspended, and a visitor comes before the end of the callout.
#[test]
fn lookup_when_begun_long_ago_is_not_joined() {
    let mut world = World::new();
    let old = world.ask("/a");
    let (joined, None) = world.visit_and_send("/a") else {
        panic!("one is under way");
    };
    assert_eq!(joined, Waiting(world.last_stream));
    world.stand_still(5_000);
    let new = world.ask("/a");
    assert_eq!(
        world.visit("/a"),
        Waiting(world.last_stream),
        "it joins the new one"
    );
    let answers = world.end_with(old, "go.example/a", link("https://old/", 1));
    assert_eq!(answers.len(), 2, "those who asked then");
    let answers = world.end_with(new, "go.example/a", link("https://new/", 2));
    assert_eq!(answers, vec![redirect("https://new/", "control-plane"); 2]);
    assert_eq!(world.visit("/a"), Answered(redirect("https://new/", "lru")));
}

/// The settings of the control plane and of the edge may allow such ages, each within its range.
#[test]
fn answer_when_it_may_be_too_old_is_503() {
    let mut world = World::new();
    let token = world.ask("/a");
    world.stand_still(1_000);
    let answers = world.end_with_age(token, "go.example/a", link("https://old/", 1), 4_001);
    assert_eq!(answers, [unavailable()]);
    world.pass(1_000);
    let token = world.ask("/a");
    world.stand_still(1_000);
    let answers = world.end_with_age(token, "go.example/a", link("https://e/", 1), 4_000);
    assert_eq!(answers, [redirect("https://e/", "control-plane")]);
}

#[test]
fn callout_when_without_waiters_fills_the_caches() {
    let mut world = World::new();
    let token = world.ask("/a");
    world.edge.on_stream_end(world.last_stream);
    assert_eq!(
        world.end_with(token, "go.example/a", link("https://e/", 1)),
        []
    );
    assert_eq!(world.visit("/a"), Answered(redirect("https://e/", "lru")));
}

#[test]
fn answer_when_of_an_older_rev_replaces_nothing() {
    let mut world = World::new();
    world.know("a", link("https://e/7", 7));
    world.pass(5_000);
    let token = world.ask("/a");
    let answers = world.end_with(token, "go.example/a", Record::Absent { rev: 6 });
    assert_eq!(answers, [redirect("https://e/7", "stale")]);
    assert_eq!(
        world.visit_and_send("/a"),
        (Answered(redirect("https://e/7", "stale")), None)
    );
    world.pass(86_400_000);
    let token = world.ask("/a");
    let answers = world.end_with(token, "go.example/a", Record::Absent { rev: 6 });
    assert_eq!(
        answers,
        [page(404, "control-plane")],
        "the newer one is dead"
    );
}

#[test]
fn record_when_newer_in_shared_data_is_not_undone() {
    let mut world = World::new();
    let mut other = World::new();
    let token = other.ask("/a");
    world.know("a", link("https://e/7", 7));
    other.host.store = world.host.store.clone();
    let answers = other.end_with(token, "go.example/a", link("https://e/6", 6));
    assert_eq!(answers, [redirect("https://e/7", "shared-data")]);
}

#[test]
fn latency_when_measured_uses_the_exact_clock() {
    let mut world = World::new();
    let token = world.ask("/a");
    world.now += 37;
    world.end_with(token, "go.example/a", link("https://e/", 1));
    assert_eq!(world.host.millis, [37]);
}

#[test]
fn settings_when_replaced_keep_known_records() {
    let mut world = World::new();
    world.know("a", link("https://e/", 1));
    let token = world.ask("/b");
    world.edge.configure(
        &mut world.host,
        Arc::new(settings_with(r#","freshSeconds":50,"staleSeconds":60"#)),
    );
    world.pass(49_000);
    assert_eq!(world.visit("/a"), Answered(redirect("https://e/", "lru")));
    // Given up by the tick, as one whose root context is gone would be.
    assert_eq!(
        world.end_with(token, "go.example/b", link("https://e/", 1)),
        []
    );
}

#[test]
fn worker_when_it_ends_flushes_counts_and_clears_gauges() {
    let mut world = World::new();
    world.know("a", link("https://e/", 1));
    assert_eq!(world.counted("lru_entries"), 1);
    world.visit("/a");
    world.edge.end_hits(&mut [&mut world.notes]);
    world.edge.on_end(&mut world.host);
    assert_eq!(world.host.stats["edgelink.lru_entries"], 0);
    assert_eq!(world.host.stats["edgelink.lru_bytes"], 0);
    assert_eq!(world.host.stats["edgelink.requests.lru.redirect"], 1);
}

fn step(settings: Settings, host: &str) -> String {
    let mut world = World::with(settings);
    let head = Head {
        authority: host.as_bytes(),
        ..get("/a")
    };
    match world.request(1, &head) {
        Step::Pass => "passed".to_owned(),
        Step::Answer(answer, None) => answer.status.to_string(),
        Step::Wait(Some(callout)) => callout.path.replace("/edge/v1/links/", ""),
        other => panic!("{other:?}"),
    }
}

#[test]
fn host_when_unknown_is_treated_as_configured() {
    for (unknown_hosts, other) in [
        ("default", "go.example/a"),
        ("notFound", "404"),
        ("pass", "passed"),
    ] {
        let more = format!(r#","unknownHosts":"{unknown_hosts}""#);
        for (host, became) in [
            ("evil.example", other),
            ("", other),
            ("go.example:8080", other),
            ("go.example:443", "go.example/a"),
            ("GO.example.", "go.example/a"),
            ("[::1]:80", "%5B::1%5D:80/a"),
        ] {
            assert_eq!(step(settings_with(&more), host), became, "{host}");
        }
    }
}

#[test]
fn request_when_refused_for_its_host_is_counted_so() {
    let mut world = World::with(settings_with(r#","unknownHosts":"notFound""#));
    let head = Head {
        authority: b"evil.example",
        ..get("/a")
    };
    let Step::Answer(answer, None) = world.request(1, &head) else {
        panic!("it is answered");
    };
    assert_eq!(seen(&answer), page(404, "unknown-host"));
    assert_eq!(world.counted("requests.unknown_host.not_found"), 1);
    assert_eq!(world.counted("requests.admission.not_found"), 0);
}

#[test]
fn host_when_of_a_single_domain_is_checked_only_to_refuse() {
    let one = |more: &str| {
        let json = format!(
            r#"{{"domains":["go.example"],"controlPlane":{{"cluster":"cp","token":"t"}}{more}}}"#
        );
        Settings::parse(json.as_bytes()).unwrap()
    };
    assert_eq!(step(one(""), "evil.example"), "go.example/a");
    let refusing = r#","unknownHosts":"notFound""#;
    assert_eq!(step(one(refusing), "evil.example"), "404");
    assert_eq!(step(one(refusing), "go.example."), "go.example/a");
}

#[test]
fn absence_when_of_a_lower_rev_is_believed() {
    let mut world = World::new();
    world.know("a", Record::Absent { rev: 7 });
    world.pass(5_000);
    let token = world.ask("/a");
    let answers = world.end_with(token, "go.example/a", Record::Absent { rev: 0 });
    assert_eq!(answers, [page(404, "control-plane")]);
    assert_eq!(world.visit("/a"), Answered(page(404, "lru")));
    world.pass(5_000);
    let token = world.ask("/a");
    let answers = world.end_with(token, "go.example/a", link("https://e/", 8));
    assert_eq!(answers, [redirect("https://e/", "control-plane")]);
}

#[test]
fn absence_when_a_tombstone_has_a_higher_rev_keeps_it() {
    let mut world = World::new();
    world.know("a", Record::Absent { rev: 7 });
    world.pass(5_000);
    // A worker with an empty LRU finds the tombstone in the slot.
    let mut other = world.other_worker();
    let token = other.ask("/a");
    let answers = other.end_with(token, "go.example/a", Record::Absent { rev: 0 });
    assert_eq!(answers, [page(404, "control-plane")]);
    for mut worker in [other.other_worker(), other] {
        worker.pass(5_000);
        let token = worker.ask("/a");
        let answers = worker.end_with(token, "go.example/a", link("https://old/", 6));
        assert_eq!(answers, [unavailable()], "it was deleted with a higher rev");
    }
}

#[test]
fn lookup_when_waiters_are_traced_joins_the_oldest_trace() {
    const TRACES: [&str; 2] = [
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
    ];
    let mut world = World::new();
    let Step::Wait(Some(callout)) = world.request(1, &get("/a")) else {
        panic!("it is looked up");
    };
    let callout = Callout::Lookup(callout);
    for stream in [2, 3] {
        let step = world.request(stream, &get("/a"));
        assert!(matches!(step, Step::Wait(None)), "they share it");
    }
    let trace = |world: &World| world.edge.trace_of(&callout).map(str::to_owned);
    assert_eq!(trace(&world), None);
    for (stream, traceparent) in [3, 2].into_iter().zip(TRACES) {
        world.edge.on_trace(stream, traceparent.as_bytes());
        assert_eq!(trace(&world).as_deref(), Some(traceparent));
    }
    world.edge.on_stream_end(2);
    assert_eq!(trace(&world).as_deref(), Some(TRACES[0]));
    world.edge.on_stream_end(3);
    assert_eq!(trace(&world), None);
}

#[test]
fn record_age_when_caches_answered_is_that_of_the_oldest() {
    let mut world = World::new();
    let age = |world: &mut World| {
        let now = Moment::from_millis(world.now);
        world.edge.take_record_age_millis(now)
    };
    world.know("old", link("https://e/", 1));
    world.stand_still(700);
    world.know("new", link("https://e/", 1));
    assert_eq!(age(&mut world), None, "the control plane has answered");
    world.stand_still(300);
    world.visit("/new");
    assert_eq!(age(&mut world), Some(300));
    assert_eq!(age(&mut world), None, "nothing was served since");
    for code in ["/new", "/old", "/new"] {
        world.visit(code);
    }
    assert_eq!(age(&mut world), Some(1000));
}
