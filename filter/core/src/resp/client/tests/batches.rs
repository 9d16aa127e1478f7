//! Requests that are gathered while others are unanswered.

use super::*;

fn gathering(max_batch: usize) -> Tested {
    let settings = ClientSettings {
        max_batch,
        max_waiting: 10,
        max_unanswered_bytes: 1000,
        ..settings()
    };
    Tested::ready_with(settings)
}

fn sent(requests: usize) -> Said {
    Said::Sent("*1\\r\\n$4\\r\\nPING\\r\\n".repeat(requests))
}

#[test]
fn requests_when_others_are_unanswered_are_sent_together() {
    let mut tested = gathering(5);
    assert_eq!(tested.request(0, 1), Ok(vec![sent(1)]), "alone, at once");
    for token in 2..=4 {
        assert_eq!(tested.request(0, token), Ok(vec![]));
    }
    assert_eq!(tested.data(1, b"+a\r\n"), [ok(1, "a"), sent(3)]);
    assert_eq!(tested.request(1, 5), Ok(vec![]));
    assert_eq!(tested.data(1, b"+b\r\n+c\r\n"), [ok(2, "b"), ok(3, "c")]);
    assert_eq!(tested.data(1, b"+d\r\n"), [ok(4, "d"), sent(1)]);
    assert_eq!(tested.data(1, b"+e\r\n"), [ok(5, "e")]);
    assert_eq!(tested.request(1, 6), Ok(vec![sent(1)]));
}

#[test]
fn batch_when_full_is_sent_at_once() {
    let mut tested = gathering(3);
    tested.request(0, 1).unwrap();
    for (token, said) in [(2, vec![]), (3, vec![]), (4, vec![sent(3)]), (5, vec![])] {
        assert_eq!(tested.request(0, token), Ok(said), "{token}");
    }
    let answers = b"+a\r\n+b\r\n+c\r\n+d\r\n";
    assert_eq!(tested.data(0, answers).pop(), Some(sent(1)));
}

#[test]
fn requests_when_gathered_count_for_the_bounds() {
    let mut tested = gathering(20);
    for token in 0..10 {
        tested.request(0, token).unwrap();
    }
    assert_eq!(tested.request(0, 10), Err(Rejection::Full));
    assert_eq!(tested.data(0, b"+a\r\n").pop(), Some(sent(9)));
}

#[test]
fn requests_when_gathered_time_out_and_keep_their_position() {
    let mut tested = gathering(5);
    tested.request(0, 1).unwrap();
    tested.request(50, 2).unwrap();
    assert_eq!(tested.tick(150).len(), 2, "both timed out");
    assert_eq!(tested.request(150, 3), Ok(vec![]));
    assert_eq!(tested.data(160, b"+late\r\n"), [sent(2)]);
    assert_eq!(tested.data(160, b"+late\r\n+c\r\n"), [ok(3, "c")]);
}

#[test]
fn requests_when_gathered_are_not_sent_to_the_next_connection() {
    let mut tested = gathering(5);
    tested.request(0, 1).unwrap();
    tested.request(0, 2).unwrap();
    let said = tested.closed(0);
    assert_eq!(
        said[1..],
        [failed(1, "disconnected"), failed(2, "disconnected")]
    );
    let now_millis = tested.wait_for_reconnect();
    assert_eq!(tested.data(now_millis, b"+OK\r\n"), []);
    assert_eq!(tested.request(now_millis, 3), Ok(vec![sent(1)]));
}

#[test]
fn reply_when_its_request_was_not_sent_ends_the_connection() {
    let mut tested = gathering(5);
    tested.request(0, 1).unwrap();
    tested.request(0, 2).unwrap();
    let said = tested.data(0, b"+a\r\n+b\r\n");
    let down = Said::Down("a reply came without a request".to_owned());
    let expected = [ok(1, "a"), Said::Close, down, failed(2, "disconnected")];
    assert_eq!(said, expected);
}

#[test]
fn requests_when_the_host_flushes_are_sent_together() {
    let mut tested = Tested::ready_with(ClientSettings {
        is_flushed: true,
        max_batch: 3,
        ..settings()
    });
    assert_eq!(tested.flush(), [], "nothing was gathered");
    assert_eq!(tested.request(0, 1), Ok(vec![]));
    assert_eq!(tested.request(0, 2), Ok(vec![]));
    assert!(tested.client.is_flush_due());
    assert_eq!(tested.flush(), [sent(2)]);
    assert_eq!(tested.request(0, 3), Ok(vec![]));
    assert!(!tested.client.is_flush_due(), "others are unanswered");
    assert_eq!(tested.flush(), []);
    assert_eq!(
        tested.data(1, b"+a\r\n+b\r\n"),
        [ok(1, "a"), ok(2, "b"), sent(1)]
    );
    assert_eq!(tested.data(1, b"+c\r\n"), [ok(3, "c")]);
    for (token, said) in [(4, vec![]), (5, vec![]), (6, vec![sent(3)])] {
        assert_eq!(tested.request(2, token), Ok(said), "a batch is full");
    }
}
