//! Bounds on waiting requests, attempts to connect and reports of failures.

use super::*;

#[test]
fn requests_when_beyond_the_bound_are_rejected() {
    let mut tested = Tested::ready();
    for token in 0..4 {
        tested.request(0, token).unwrap();
    }
    assert_eq!(tested.request(0, 4), Err(Rejection::Full));
    tested.tick(100);
    assert_eq!(
        tested.request(100, 4),
        Err(Rejection::Full),
        "places are kept by requests out of time"
    );
    tested.data(100, b"+late\r\n");
    assert!(tested.request(100, 4).is_ok());
}

#[test]
fn bytes_when_beyond_the_bound_are_rejected() {
    let mut tested = Tested::ready();
    // *1 CRLF $xx CRLF word CRLF: 4 + 5 + 80 + 2.
    let accepted = tested.request_of(0, 1, &[b'a'; 80]);
    assert!(accepted.is_ok());
    assert_eq!(tested.request_of(0, 2, b"a"), Err(Rejection::Full));
    tested.data(0, b"+a\r\n");
    assert!(tested.request_of(0, 2, &[b'a'; 89]).is_ok());
    assert_eq!(tested.request(0, 3), Err(Rejection::Full));
}

#[test]
fn attempts_when_failing_slow_down_to_the_cap() {
    let mut tested = Tested::new(settings());
    tested.tick(0);
    tested.closed(0);
    let mut last_millis = 0;
    for due_millis in [50, 100, 200, 400, 800, 1600, 2000, 2000] {
        let now_millis = tested.wait_for_reconnect();
        let waited_millis = now_millis - last_millis;
        assert!(
            (due_millis / 2..=due_millis).contains(&waited_millis),
            "{waited_millis} of {due_millis}"
        );
        tested.closed(now_millis);
        last_millis = now_millis;
    }
}

#[test]
fn failures_when_in_one_episode_are_reported_once() {
    let mut tested = Tested::ready();
    tested.tick(10_000);
    let down = || Said::Down("the connection was closed or could not be opened".to_owned());
    assert_eq!(tested.closed(10_000), [down()]);
    for _ in 0..2 {
        let now_millis = tested.wait_for_reconnect();
        tested.data(now_millis, b"+OK\r\n");
        assert_eq!(
            tested.closed(now_millis + 1),
            [],
            "it stood, but not for long"
        );
    }
    let now_millis = tested.wait_for_reconnect();
    tested.data(now_millis, b"+OK\r\n");
    assert_eq!(tested.tick(now_millis + 1999), []);
    assert_eq!(tested.tick(now_millis + 2000), [Said::Recovered(3)]);
    assert_eq!(tested.closed(now_millis + 2001), [down()]);
}

#[test]
fn error_replies_when_many_are_counted_and_reported_once() {
    let mut tested = Tested::ready();
    let mut answer = |now_millis| {
        tested.request(now_millis, 1).unwrap();
        tested.data(now_millis, b"-LOADING\r\n").remove(0)
    };
    let refused = || Said::Refused(1, "LOADING".to_owned());
    assert_eq!(answer(1), Said::ErrorReplies(1));
    assert_eq!(answer(2), refused());
    assert_eq!(answer(10_000), refused());
    assert_eq!(answer(10_001), Said::ErrorReplies(3));
}

#[test]
fn clock_when_it_goes_back_stands_still() {
    let mut tested = Tested::ready();
    tested.tick(1000);
    tested.request(5, 1).unwrap();
    assert_eq!(tested.tick(7), []);
    assert_eq!(tested.tick(1099), []);
    assert_eq!(tested.tick(1100), [failed(1, "timed out")]);
}

#[test]
fn clock_when_it_jumps_ahead_leads_to_a_new_connection() {
    let mut tested = Tested::ready();
    tested.request(0, 1).unwrap();
    let outputs = tested.tick(u64::MAX);
    assert_eq!(outputs[..2], [failed(1, "timed out"), Said::Close]);
    assert_eq!(tested.tick(u64::MAX)[0], Said::Open);
}
