//! Readiness probes.

use super::background::{batch, snapshot};
use super::*;

const PROBE: &str = "/health/ready";

#[test]
fn worker_when_it_has_no_feed_is_ready_at_once() {
    let mut world = World::with(settings_with(r#","readyPath":"/health/ready""#));
    assert_eq!(world.visit(PROBE), Passed);
}

#[test]
fn worker_when_snapshot_and_feed_are_read_is_ready() {
    for prefix in ["/", "/s/"] {
        let more = format!(
            r#","poll":{{}},"snapshot":{{}},"readyPath":"/health/ready","prefix":"{prefix}""#
        );
        let mut world = World::with_background(&more);
        let refused = || Answered(page(503, "domain"));
        assert_eq!(world.visit(PROBE), refused());
        assert_eq!(world.visit("/health/live"), Passed);
        world.answer_snapshot(&snapshot(5));
        world.pass(100);
        assert_eq!(world.visit(PROBE), refused(), "it polls");
        world.answer_poll(&batch(6, &[]));
        world.pass(100);
        world.answer_poll(&batch(6, &[]));
        world.pass(100);
        assert_eq!(world.visit(PROBE), Passed);
        world.pass(600_000);
        assert_eq!(world.visit(PROBE), Passed, "stale records will do");
        assert_eq!(world.counted("requests.domain.unavailable"), 0);
    }
}

#[test]
fn probe_when_no_path_is_configured_passes() {
    let mut world = World::with(settings_with(r#","poll":{}"#));
    assert_eq!(world.visit(PROBE), Passed);
}
