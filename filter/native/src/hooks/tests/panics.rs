//! Panics in hooks and ticks.

use super::*;
use edgelink_process::panics::asked;

/// In each hook: at most one request gets 503, the waiting one is answered, and the edge continues.
#[test]
fn panic_when_in_a_hook_costs_one_request() {
    let _turn = turn();
    let module = Module::new("panics");
    for hook in [
        "request_headers",
        "request_body",
        "request_trailers",
        "scheduled",
        "new",
        "destroy",
        "config_scheduled",
        "edge",
    ] {
        module.fetch(&format!("/known{hook}"));
        let waits = module.visit(&format!("/waits{hook}"));
        let callouts = module.callouts();
        asked::arm(hook.as_bytes());
        let hit = module.visit(&format!("/known{hook}"));
        if hit.request().stream.is_some() {
            hit.send_body("", true);
        }
        if hit.request().stream.is_some() {
            hit.send_trailers();
        }
        drop(hit);
        if let Some(callout) = callouts.first() {
            module.answer(callout, "https://example.com/");
        }
        waits.resume();
        for callout in module.callouts() {
            module.answer(&callout, "https://example.com/");
        }
        waits.resume();
        let status = waits.request().answer.as_ref().map(|answer| answer.status);
        assert!(matches!(status, Some(302 | 503)), "{hook}: {status:?}");
        asked::arm(b"none");
        assert_eq!(module.fetch(&format!("/after{hook}")).status, 302, "{hook}");
    }
    assert!(module.count("edgelink.panics") > 0);
}

/// Even if its end panics.
#[test]
fn request_when_it_has_left_is_not_woken() {
    let _turn = turn();
    let module = Module::new("leaves");
    let before = SCHEDULERS.load(Ordering::Relaxed);
    let waits = module.visit("/waits");
    assert_eq!(SCHEDULERS.load(Ordering::Relaxed), before + 1);
    asked::arm(b"end_stream");
    drop(waits);
    assert_eq!(SCHEDULERS.load(Ordering::Relaxed), before);
    asked::arm(b"none");
}

/// Like a panic over state that persists in the edge.
#[test]
fn tick_when_it_always_panics_leaves_time_to_requests() {
    const TIME: Duration = Duration::from_millis(700);
    let _turn = turn();
    let json = PLUGIN.replace("\"tierHeader\"", "\"tickMs\":10,\"tierHeader\"");
    let module = Module::try_new("ticks", &json).expect("it is right");
    let panics = || module.count("edgelink.panics");
    let before = panics();
    asked::arm_always("tick");
    let start = Instant::now();
    while start.elapsed() < TIME {
        std::thread::sleep(Duration::from_millis(10));
    }
    let more = panics() - before;
    // After 10, 100, 200 and 400 ms at the earliest; a stalled machine adds at most one in 5 s. Without pauses there would be 70.
    assert!((1..=10).contains(&more), "{more} panics in {TIME:?}");
    module.fetch("/abc");
    assert_eq!(
        module.visit("/abc").answer().headers["x-edgelink-tier"],
        "lru"
    );
    asked::arm(b"none");
}
