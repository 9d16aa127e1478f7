//! When the feed is taken to be alive, and until when records are known.

use super::*;

/// A heartbeat of the control plane.
fn heartbeat(id: u64) -> Vec<u8> {
    entries(&[(id, &["op", "bound", "bound", "1"])])
}

#[test]
fn a_heartbeat_shows_that_the_feed_is_alive() {
    let mut tested = Tested::reading();
    assert_eq!(tested.reader.silent_for_ms(10), None);
    tested.data(1005, &heartbeat(6));
    assert_eq!(
        tested.reader.heard_ms(),
        Some(10),
        "asked then, so known until then"
    );
    tested.data(2005, &heartbeat(7));
    assert_eq!(tested.reader.silent_for_ms(3005), Some(2000));
}

#[test]
fn redis_that_answers_is_no_sign_that_anybody_publishes() {
    let mut tested = Tested::reading();
    tested.data(500, &heartbeat(6));
    assert_eq!(tested.data(1500, QUIET), ["> XINFO STREAM feed"]);
    tested.data(1502, &info(6, 4));
    assert_eq!(tested.reader.silent_for_ms(60_010), Some(60_000));
}

#[test]
fn a_full_batch_does_not_tell_that_all_was_read() {
    let mut tested = Tested::reading();
    let entry = |id| (id, &["op", "flush"][..]);
    tested.data(500, &entries(&[entry(6), entry(7)]));
    assert_eq!(tested.reader.heard_ms(), None);
    tested.data(600, &entries(&[entry(8)]));
    assert_eq!(tested.reader.heard_ms(), Some(500));
}

#[test]
fn a_record_is_known_until_the_feed_was_last_heard_if_it_was_asked_for_since_it_began() {
    let mut tested = Tested::connected(None);
    assert_eq!(tested.reader.known_until(7), 7);
    tested.data(15, &info(5, 3));
    tested.data(800, &heartbeat(6));
    tested.data(900, &heartbeat(7));
    let reader = &tested.reader;
    assert_eq!(
        (reader.since_ms(), reader.heard_ms()),
        (Some(15), Some(800))
    );
    assert_eq!(reader.known_until(14), 14, "it may have changed unseen");
    assert_eq!(reader.known_until(15), 800);
    assert_eq!(reader.known_until(2000), 2000);
}
