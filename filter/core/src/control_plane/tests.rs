use super::*;
use edgelink_wire::backoff::Bounds;

const BOUNDS: Bounds = Bounds {
    first_millis: 100,
    cap_millis: 1_000,
};

fn callout() -> PeriodicCallout {
    PeriodicCallout::new(BOUNDS, 500, 7)
}

#[test]
fn callout_when_under_way_is_not_due() {
    let mut callout = callout();
    assert!(callout.is_due(0));
    callout.ask(5);
    assert!(!callout.is_due(5) && !callout.carries(1));
    callout.on_sent(1);
    assert!(callout.carries(1) && !callout.carries(2));
    assert_eq!(callout.asked_millis(), Some(5));
    assert_eq!(callout.succeed(9), 0);
    assert!(!callout.carries(1) && !callout.is_due(8) && callout.is_due(9));
}

#[test]
fn pause_when_failures_repeat_grows_to_a_bound() {
    let mut callout = callout();
    for (failures, longest) in [
        (1, 100),
        (2, 200),
        (3, 400),
        (4, 800),
        (5, 1_000),
        (6, 1_000),
    ] {
        callout.ask(0);
        assert_eq!(callout.fail(0), failures);
        assert!(
            !callout.is_due(longest / 2 - 1) && callout.is_due(longest),
            "{failures}"
        );
    }
    callout.ask(0);
    assert_eq!(callout.succeed(0), 6);
    assert!(callout.is_due(0));
    callout.fail(0);
    assert!(callout.is_due(100));
}

#[test]
fn callout_when_the_proxy_forgets_it_is_overdue() {
    let mut callout = callout();
    assert!(!callout.is_overdue(9_999));
    callout.ask(1_000);
    assert!(!callout.is_overdue(2_499));
    assert!(callout.is_overdue(2_500));
}

#[test]
fn answer_when_status_or_type_is_wrong_has_no_body() {
    let response = |status: &'static str, content_type: &'static str| Response {
        status: status.as_bytes(),
        content_type: content_type.as_bytes(),
        body: b"x",
    };
    assert_eq!(body_of(response("200", "a/b"), "a/b"), Ok(&b"x"[..]));
    for (status, content_type, failure) in [
        ("200", "a/c", CalloutError::Answer(200)),
        ("204", "a/b", CalloutError::Answer(204)),
        ("401", "a/b", CalloutError::Answer(401)),
        ("504", "a/b", CalloutError::Timeout),
        ("", "", CalloutError::Reset),
    ] {
        let response = response(status, content_type);
        assert_eq!(body_of(response, "a/b"), Err(failure));
    }
}
