//! When the feed is taken to be alive, and until when records are known.

use super::*;

/// A beat of the publisher.
fn heartbeat(id: u64) -> Vec<u8> {
    entries(&[(id, BEAT)])
}

/// One that has read everything behind 5-0, and asked for more at 5,000.
fn read_at_5_000() -> Tested {
    let mut tested = Tested::reading();
    tested.data(5_000, QUIET);
    tested.data(5_000, &info(5, 3));
    tested
}

#[test]
fn a_beat_shows_that_the_feed_is_alive() {
    let mut tested = read_at_5_000();
    assert_eq!(tested.reader.silent_for_ms(5_000), None);
    tested.data(5_500, &heartbeat(6));
    assert_eq!(
        tested.reader.heard_ms(),
        Some(4_000),
        "the end was seen at 5,000, so the beat is from then at the earliest, and it may have taken a second"
    );
    tested.data(5_900, &heartbeat(7));
    assert_eq!(tested.reader.silent_for_ms(6_400), Some(2_400));
    tested.data(5_950, &heartbeat(8));
    assert_eq!(tested.reader.heard_ms(), Some(4_500));
}

#[test]
fn a_beat_that_was_old_when_it_was_sent_tells_of_an_earlier_time() {
    let beat = |id, age| (id, [&BEAT[..BEAT.len() - 1], &[age]].concat());
    let mut tested = read_at_5_000();
    let (six, seven) = (beat(6, "1500"), beat(7, "1200"));
    tested.data(5_500, &entries(&[(six.0, &six.1), (seven.0, &seven.1)]));
    assert_eq!(
        tested.reader.heard_ms(),
        Some(2_800),
        "the later one of both"
    );
    let (id, ages) = beat(8, "4294967295");
    tested.data(5_900, &entries(&[(id, &ages)]));
    assert_eq!(tested.reader.heard_ms(), Some(2_800));
}

#[test]
fn a_beat_that_had_waited_is_not_taken_for_a_new_one() {
    let mut tested = read_at_5_000();
    // The process stood still for a minute, in which the publisher died.
    tested.data(65_000, &heartbeat(6));
    assert_eq!(tested.reader.heard_ms(), Some(4_000));
    tested.data(65_000, &info(7, 5));
    tested.data(65_001, &heartbeat(7));
    assert_eq!(tested.reader.heard_ms(), Some(4_000));
    tested.data(65_900, &heartbeat(8));
    assert_eq!(tested.reader.heard_ms(), Some(64_000));
}

#[test]
fn redis_that_answers_is_no_sign_that_anybody_publishes() {
    let mut tested = read_at_5_000();
    tested.data(5_500, &heartbeat(6));
    assert_eq!(tested.data(6_500, QUIET), ["> XINFO STREAM feed"]);
    tested.data(6_502, &info(6, 4));
    assert_eq!(tested.reader.silent_for_ms(64_000), Some(60_000));
}

#[test]
fn changes_without_a_beat_do_not_tell_that_the_publisher_is_up_to_date() {
    let mut tested = read_at_5_000();
    for id in 6..10 {
        tested.data(5_000 + id, &entries(&[(id, &["op", "flush"])]));
    }
    assert_eq!(tested.reader.heard_ms(), None);
    tested.data(5_500, &heartbeat(10));
    assert_eq!(tested.reader.heard_ms(), Some(4_008));
}

#[test]
fn a_record_is_known_until_the_feed_was_last_heard_if_it_was_asked_for_since_it_began() {
    let mut tested = read_at_5_000();
    assert_eq!(tested.reader.known_until(7), 7);
    tested.data(5_800, &heartbeat(6));
    let reader = &tested.reader;
    assert_eq!(
        (reader.since_ms(), reader.heard_ms()),
        (Some(10), Some(4_000))
    );
    assert_eq!(reader.known_until(9), 9, "it may have changed unseen");
    assert_eq!(reader.known_until(10), 4_000);
    assert_eq!(reader.known_until(6_000), 6_000);
}
