//! The feed reader.

use crate::driver::{FeedDriver, Socket};
use crate::server::{LIMITS, Server};
use edgelink_filter_core::feed::{Reader, Settings, Start};
use edgelink_filter_core::resp::client::{self, Mode};
use edgelink_wire::backoff::Bounds;

fn settings() -> Settings {
    Settings {
        connection: client::Settings {
            mode: Mode::Direct {
                auth: None,
                name: "edgelink-feed".to_owned(),
                database: 0,
            },
            connect_timeout_ms: 500,
            timeout_ms: 0,
            dead_after_ms: 0,
            max_waiting: 1,
            max_unanswered_bytes: 1000,
            max_batch: 1,
            limits: LIMITS,
            backoff: Bounds {
                first_ms: 10,
                cap_ms: 50,
            },
        },
        block_ms: 100,
        batch: 16,
    }
}

fn driver(server: &Server, start: Option<Start>) -> FeedDriver {
    FeedDriver {
        reader: Reader::new(settings(), start, 1),
        socket: Socket::new(server.socket()),
        said: Vec::new(),
    }
}

/// One that has read the stream to its end.
fn reading(server: &Server) -> FeedDriver {
    let mut driver = driver(server, None);
    assert_eq!(driver.run_until_read(), [""; 0]);
    driver
}

/// A beat of the publisher.
fn publish_beat(server: &Server, bound: u64) -> String {
    let bound = bound.to_string();
    let beat = ["op", "beat", "bound", &bound, "generation", "7"];
    server.publish(&[&beat[..], &["number", &bound, "at", "0", "age", "0"]].concat())
}

fn publish(server: &Server, bounds: std::ops::Range<u64>) {
    for bound in bounds {
        publish_beat(server, bound);
    }
}

fn bounds(bounds: std::ops::Range<u64>) -> Vec<String> {
    bounds
        .map(|bound| {
            format!("Beat(Beat {{ bound: {bound}, generation: 7, number: {bound}, at: 0, age_millis: 0 }})")
        })
        .collect()
}

#[test]
fn changes_arrive_in_order_and_those_of_the_past_do_not() {
    let server = Server::start();
    publish(&server, 0..5);
    let mut driver = reading(&server);
    publish(&server, 5..105);
    assert_eq!(
        driver.run_until(|_, said| said.len() >= 100),
        bounds(5..105)
    );
    let clients = server.command(&["CLIENT", "LIST"]);
    assert_eq!(clients.matches("name=edgelink-feed").count(), 1);
}

#[test]
fn a_reader_on_an_empty_redis_misses_nothing_of_the_stream_that_comes() {
    let server = Server::start();
    let mut driver = reading(&server);
    publish(&server, 0..3);
    assert_eq!(driver.run_until(|_, said| said.len() >= 3), bounds(0..3));
    assert_eq!(driver.run_until_read(), [""; 0]);
}

#[test]
fn a_reader_can_start_where_a_snapshot_was_taken() {
    let server = Server::start();
    publish(&server, 0..1);
    let id = publish_beat(&server, 1);
    publish(&server, 2..4);
    let id = id.parse().unwrap();
    let mut driver = driver(&server, Some(Start { id, asked_ms: 0 }));
    assert_eq!(driver.run_until(|_, said| said.len() >= 2), bounds(2..4));
}

#[test]
fn a_quiet_stream_is_read_each_block_period_but_only_entries_are_heard() {
    let server = Server::start();
    let mut driver = reading(&server);
    for _ in 0..5 {
        assert_eq!(driver.run_until_read(), [""; 0]);
    }
    assert_eq!(driver.reader.heard_ms(), None);
    publish(&server, 0..1);
    driver.run_until(|reader, _| reader.heard_ms().is_some());
}

#[test]
fn changes_made_while_the_connection_was_lost_are_read_afterwards() {
    let server = Server::start();
    publish(&server, 0..1);
    let mut driver = reading(&server);
    let since_ms = driver.reader.since_ms();
    server.command(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
    publish(&server, 1..41);
    let mut said = driver.run_until(|_, said| said.len() >= 41);
    assert_eq!(said.remove(0), "Down(Closed)");
    assert_eq!(said, bounds(1..41));
    assert_eq!(driver.reader.since_ms(), since_ms, "nothing was missed");
}

#[test]
fn entries_trimmed_while_the_connection_was_lost_are_a_gap() {
    let server = Server::start();
    publish(&server, 0..1);
    let mut driver = reading(&server);
    let since_ms = driver.reader.since_ms();
    server.command(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
    publish(&server, 1..10);
    server.command(&["XTRIM", "feed", "MAXLEN", "3"]);
    let said = driver.run_until(|_, said| said.len() >= 2);
    assert_eq!(said, ["Down(Closed)", "gap: Trimmed"]);
    assert!(driver.reader.since_ms() > since_ms);
    publish(&server, 10..11);
    assert_eq!(driver.run_until(|_, said| !said.is_empty()), bounds(10..11));
}

#[test]
fn trimming_what_was_read_is_no_gap() {
    let server = Server::start();
    let mut driver = reading(&server);
    publish(&server, 0..20);
    driver.run_until(|_, said| said.len() >= 20);
    server.command(&["XTRIM", "feed", "MAXLEN", "0"]);
    assert_eq!(driver.run_until_read(), [""; 0]);
    publish(&server, 20..21);
    server.command(&["XTRIM", "feed", "MAXLEN", "1"]);
    assert_eq!(driver.run_until_read(), bounds(20..21));
}

#[test]
fn a_flushed_redis_is_a_gap_although_the_connection_stands() {
    let server = Server::start();
    publish(&server, 0..1);
    let mut driver = reading(&server);
    server.command(&["FLUSHALL"]);
    assert_eq!(driver.run_until(|_, said| !said.is_empty()), ["gap: Gone"]);
    publish(&server, 1..2);
    assert_eq!(driver.run_until(|_, said| !said.is_empty()), bounds(1..2));
    assert_eq!(driver.socket.opened, 1);
}

#[test]
fn a_redis_that_is_flushed_and_written_to_at_once_is_a_gap() {
    let server = Server::start();
    publish(&server, 0..3);
    let mut driver = reading(&server);
    server.command(&["FLUSHALL"]);
    publish(&server, 3..4);
    let said = driver.run_until(|_, said| said.len() >= 2);
    assert_eq!(
        said[..1],
        bounds(3..4),
        "blocked on the stream, it sees what comes next"
    );
    assert_eq!(said[1], "gap: Restarted");
}

#[test]
fn a_redis_that_is_killed_and_comes_back_empty_is_a_gap() {
    let mut server = Server::start();
    publish(&server, 0..1);
    let mut driver = reading(&server);
    server.restart_empty();
    let said = driver.run_until(|_, said| said.len() >= 2);
    assert_eq!(said, ["Down(Closed)", "gap: Gone"]);
    publish(&server, 1..3);
    assert_eq!(driver.run_until(|_, said| said.len() >= 2), bounds(1..3));
}

#[test]
fn a_redis_that_hangs_falls_silent_and_nothing_is_missed_when_it_goes_on() {
    let server = Server::start();
    publish(&server, 0..1);
    let mut driver = reading(&server);
    publish(&server, 1..2);
    driver.run_until(|reader, _| reader.heard_ms().is_some());
    server.stop();
    let said = driver.run_until(|_, said| !said.is_empty());
    assert_eq!(said, ["Down(NoAnswer)"]);
    let silent_ms = driver.reader.silent_for_ms(driver.socket.now_ms());
    assert!(silent_ms >= Some(600), "{silent_ms:?}");
    server.go_on();
    publish(&server, 2..3);
    let said = driver.run_until(|_, said| said.iter().any(|said| said.starts_with("Beat")));
    assert!(!said.iter().any(|said| said.starts_with("gap")), "{said:?}");
    driver.run_until_read();
}

#[test]
fn an_entry_that_is_not_understood_is_never_passed_over() {
    let server = Server::start();
    let mut driver = reading(&server);
    server.publish(&["op", "put", "key", "a/b", "record", "\u{1}garbage"]);
    server.publish(&["no", "message"]);
    publish(&server, 3..4);
    let said = driver.run_until(|_, said| said.len() >= 4);
    assert_eq!(said[0], r#"Changed { key: "a/b" }"#);
    assert!(said[1].starts_with("malformed"), "{said:?}");
    assert_eq!(said[2], "gap: Unreadable");
    assert_eq!(said[3..], bounds(3..4));
}

#[test]
fn a_feed_that_is_no_stream_is_reported_once_and_read_when_it_is_one() {
    let server = Server::start();
    server.command(&["SET", "feed", "no stream"]);
    let mut driver = driver(&server, None);
    while driver.socket.opened < 4 {
        driver.turn();
    }
    let reports = driver
        .said
        .iter()
        .filter(|said| said.starts_with("Down"))
        .count();
    assert_eq!(reports, 1, "{:?}", driver.said);
    server.command(&["DEL", "feed"]);
    driver.run_until_read();
    publish(&server, 0..1);
    let said = driver.run_until(|_, said| said.iter().any(|said| said.starts_with("Beat")));
    assert!(!said.iter().any(|said| said.starts_with("gap")), "{said:?}");
}
