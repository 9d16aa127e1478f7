//! Requests to the control plane for several links.

use super::*;

/// Requests handled in one turn of a worker.
fn come<const N: usize>(module: &Module, paths: [&str; N]) -> [Visit; N] {
    paths.map(|path| {
        let mut visit = module.begin(&[(":path", path)]);
        visit.come();
        visit
    })
}

#[test]
fn links_when_requested_in_one_turn_are_asked_for_once() {
    let _turn = turn();
    let module = Module::new("turns");
    let visits = come(&module, ["/abc", "/abd", "/abe"]);
    assert!(module.callouts().is_empty(), "there may be more at hand");
    let flushes = visits
        .each_ref()
        .map(|visit| visit.request().flushes.load(Ordering::Relaxed));
    assert_eq!(flushes, [1, 0, 0]);
    visits[0].end_turn();
    let [callout] = &module.callouts()[..] else {
        panic!("one for all");
    };
    assert_eq!(callout.headers[":path"], link_batch::PATH);
    let lines = "go.example/abc\ngo.example/abd\ngo.example/abe";
    assert_eq!(callout.body, lines.as_bytes());
    let mut answers = Vec::new();
    let found = link_answer("go.example/abc", "https://example.com/");
    link_batch::write(200, &found, &mut answers);
    link_batch::write(503, b"", &mut answers);
    // The answer for another key than the requested one.
    link_batch::write(200, &found, &mut answers);
    let headers = [(":status", "200"), ("content-type", link_batch::MEDIA_TYPE)];
    module.end_callout(callout.id, &headers, &answers);
    let statuses = visits.each_ref().map(|visit| {
        visit.resume();
        visit.answer().status
    });
    assert_eq!(statuses, [302, 503, 503]);
    assert_eq!(visits[0].location(), "https://example.com/");
    let [leaves, _stays] = come(&module, ["/abf", "/abg"]);
    assert!(module.callouts().is_empty());
    drop(leaves);
    assert_eq!(
        module.callouts().len(),
        1,
        "the event went with the visitor"
    );
}

#[test]
fn batch_when_it_fails_fails_each_of_its_links() {
    let _turn = turn();
    let module = Module::new("failing-turns");
    let ends: [&[(&str, &str)]; 4] = [
        &[],
        &[(":status", "503")],
        &[(":status", "401")],
        &[(":status", "429")],
    ];
    for headers in ends {
        let visits = come(&module, ["/abc", "/abd"]);
        visits[0].end_turn();
        let callouts = module.callouts();
        assert_eq!(callouts.len(), 1);
        module.end_callout(callouts[0].id, headers, b"x");
        for visit in &visits {
            visit.resume();
            assert_eq!(visit.answer().status, 503, "{headers:?}");
        }
    }
}

#[test]
fn link_when_late_in_batch_is_asked_for_alone() {
    let _turn = turn();
    let module = Module::new("slow-links");
    let visits = come(&module, ["/abc", "/abd", "/abe"]);
    visits[0].end_turn();
    let callouts = module.callouts();
    let mut answers = Vec::new();
    link_batch::write(link_batch::LATE, b"", &mut answers);
    let found = link_answer("go.example/abd", "https://example.com/");
    link_batch::write(200, &found, &mut answers);
    link_batch::write(link_batch::LATE, b"", &mut answers);
    let headers = [(":status", "200"), ("content-type", link_batch::MEDIA_TYPE)];
    module.end_callout(callouts[0].id, &headers, &answers);
    visits[1].resume();
    assert_eq!(visits[1].answer().status, 302);
    let callouts = module.callouts();
    assert_eq!(callouts.len(), 2);
    for (visit, callout) in [(&visits[0], &callouts[0]), (&visits[2], &callouts[1])] {
        assert!(visit.request().answer.is_none());
        module.answer(callout, "https://example.com/");
        visit.resume();
        assert_eq!(visit.answer().status, 302);
    }
}

#[test]
fn batch_when_late_counts_as_one_timeout() {
    let _turn = turn();
    let module = Module::new("late-turns");
    // One more would open the circuit.
    for timeouts in 1..8 {
        let visits = come(&module, ["/abc", "/abd", "/abe"]);
        visits[0].end_turn();
        let callouts = module.callouts();
        assert_eq!(callouts.len(), 1, "after {timeouts} timeouts");
        module.end_callout(callouts[0].id, &[(":status", "504")], b"");
        for visit in &visits {
            visit.resume();
            assert_eq!(visit.answer().status, 503);
        }
    }
    assert_eq!(module.fetch("/abc").status, 302);
}

#[test]
fn control_plane_when_it_knows_no_batches_is_asked_for_each() {
    let _turn = turn();
    let (status, json) = (":status", "application/problem+json");
    let ours = ("content-type", link_batch::MEDIA_TYPE);
    let ends: [&[(&str, &str)]; 5] = [
        &[(status, "404"), ("content-type", json)],
        &[(status, "405")],
        &[(status, "501")],
        &[(status, "200")],
        &[(status, "200"), ours],
    ];
    for (number, headers) in ends.iter().enumerate() {
        let module = Module::new(&format!("before-turns-{number}"));
        let visits = come(&module, ["/abc", "/abd"]);
        visits[0].end_turn();
        let callouts = module.callouts();
        assert_eq!(callouts.len(), 1);
        module.end_callout(callouts[0].id, headers, b"x");
        let callouts = module.callouts();
        assert_eq!(callouts.len(), 2, "{headers:?}");
        for (visit, callout) in visits.iter().zip(&callouts) {
            module.answer(callout, "https://example.com/");
            visit.resume();
            assert_eq!(visit.answer().status, 302);
        }
        let visits = come(&module, ["/abe", "/abf"]);
        visits[0].end_turn();
        assert_eq!(module.callouts().len(), 2, "it is known by now");
    }
}

#[test]
fn batch_when_keys_are_too_many_stays_within_bound() {
    let _turn = turn();
    let module = Module::new("long-turns");
    let visits: Vec<_> = (0..=link_batch::MAX_KEYS)
        .map(|n| {
            let mut visit = module.begin(&[(":path", &format!("/k{n:03}"))]);
            visit.come();
            visit
        })
        .collect();
    visits[0].end_turn();
    let callouts = module.callouts();
    let paths: Vec<_> = callouts.iter().map(|it| &*it.headers[":path"]).collect();
    assert_eq!(paths, [link_batch::PATH, "/edge/v1/links/go.example/k064"]);
    let lines = callouts[0].body.split(|byte| *byte == b'\n').count();
    assert_eq!(lines, link_batch::MAX_KEYS);
}
