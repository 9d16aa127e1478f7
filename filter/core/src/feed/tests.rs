use super::*;
mod heard;

use crate::resp::client::{Mode, State};
use crate::resp::scan::Limits;
use edgelink_wire::backoff::Bounds;
use proptest::prelude::*;

fn settings() -> Settings {
    Settings {
        connection: client::Settings {
            mode: Mode::Direct {
                auth: None,
                name: "feed".to_owned(),
                database: 0,
            },
            connect_timeout_ms: 500,
            timeout_ms: 1,
            dead_after_ms: 1,
            max_waiting: 1,
            max_unanswered_bytes: 1000,
            max_batch: 1,
            limits: Limits {
                bulk_bytes: 1000,
                array_elements: 100,
                reply_bytes: 10_000,
            },
            backoff: Bounds {
                first_ms: 50,
                cap_ms: 1000,
            },
        },
        block_ms: 1000,
        batch: 2,
    }
}

struct Tested {
    reader: Reader,
    said: Vec<String>,
}

impl Tested {
    fn new(start: Option<Start>) -> Self {
        Self {
            reader: Reader::new(settings(), start, 1),
            said: Vec::new(),
        }
    }

    /// One that has just sent its first question, at time 10.
    fn connected(start: Option<Start>) -> Self {
        let mut tested = Self::new(start);
        tested.tick(10);
        let asked = tested.data(10, b"+OK\r\n");
        assert_eq!(asked, ["> XINFO STREAM feed"]);
        tested
    }

    /// One that waits for entries behind 5-0, at time 10.
    fn reading() -> Self {
        let mut tested = Self::connected(None);
        let asked = tested.data(10, &info(5, 3));
        assert_eq!(asked, ["> XREAD BLOCK 1000 COUNT 2 STREAMS feed 5-0"]);
        tested
    }

    fn tick(&mut self, now_ms: u64) -> Vec<String> {
        let log = &mut self.said;
        self.reader
            .on_tick(now_ms, &mut |output| log.push(said(&output)));
        std::mem::take(log)
    }

    fn data(&mut self, now_ms: u64, bytes: &[u8]) -> Vec<String> {
        let log = &mut self.said;
        self.reader
            .on_data(now_ms, bytes, &mut |output| log.push(said(&output)));
        std::mem::take(log)
    }

    fn reconnect(&mut self) -> Vec<String> {
        let State::Backoff { until_ms } = self.reader.state() else {
            panic!("{:?}", self.reader.state());
        };
        self.tick(until_ms);
        self.data(until_ms, b"+OK\r\n")
    }
}

fn said(output: &Output<'_>) -> String {
    match output {
        Output::OpenStream => "open".to_owned(),
        Output::Send(bytes) => {
            let text = bytes.escape_ascii().to_string();
            let words: Vec<_> = text.split("\\r\\n").skip(2).step_by(2).collect();
            format!("> {}", words.join(" "))
        }
        Output::CloseStream => "close".to_owned(),
        Output::Message(FeedMessage::Beat(beat)) => format!("beat {}", beat.bound),
        Output::Message(message) => format!("{message:?}"),
        Output::Malformed(id, error) => format!("malformed {id}: {error}"),
        Output::Gap(gap) => format!("gap: {gap}"),
        Output::Event(Event::Down(reason)) => format!("down: {reason}"),
        Output::Event(event) => format!("{event:?}"),
    }
}

fn bulk(text: &str) -> String {
    format!("${}\r\n{text}\r\n", text.len())
}

/// The answer to `XINFO STREAM` of a stream with ids from 1-0 on.
fn info(last: u64, added: u64) -> Vec<u8> {
    let first = format!("*2\r\n{}*0\r\n", bulk("1-0"));
    let id = bulk(&format!("{last}-0"));
    [
        "*8\r\n",
        &bulk("length"),
        &format!(":{added}\r\n"),
        &bulk("last-generated-id"),
        &id,
        &bulk("entries-added"),
        &format!(":{added}\r\n"),
        &bulk("first-entry"),
        &first,
    ]
    .concat()
    .into_bytes()
}

fn entries(entries: &[(u64, &[&str])]) -> Vec<u8> {
    let entry = |(id, fields): &(u64, &[&str])| {
        let values: String = fields.iter().map(|field| bulk(field)).collect();
        let id = bulk(&format!("{id}-0"));
        format!("*2\r\n{id}*{}\r\n{values}", fields.len())
    };
    let all: String = entries.iter().map(entry).collect();
    format!("*1\r\n*2\r\n{}*{}\r\n{all}", bulk("feed"), entries.len()).into_bytes()
}

/// The fields of a beat of the publisher.
const BEAT: &[&str] = &[
    "op",
    "beat",
    "bound",
    "1",
    "generation",
    "7",
    "number",
    "3",
    "at",
    "0",
    "age",
    "0",
];

const QUIET: &[u8] = b"*-1\r\n";
const NO_STREAM: &[u8] = b"-ERR no such key\r\n";

#[test]
fn reading_starts_at_the_end_and_goes_on_from_what_was_read() {
    let mut tested = Tested::reading();
    let two = entries(&[(6, BEAT), (7, &["op", "flush"])]);
    assert_eq!(
        tested.data(20, &two),
        [
            "beat 1",
            "Flush",
            "> XREAD BLOCK 1000 COUNT 2 STREAMS feed 7-0"
        ]
    );
    assert_eq!(tested.reader.position(), Some(FeedPosition::new(7, 0)));
}

#[test]
fn a_stream_that_does_not_exist_yet_is_read_from_its_beginning() {
    let mut tested = Tested::connected(None);
    let asked = tested.data(10, NO_STREAM);
    assert_eq!(asked, ["> XREAD BLOCK 1000 COUNT 2 STREAMS feed 0-0"]);
    assert_eq!(tested.data(900, QUIET), ["> XINFO STREAM feed"]);
    assert_eq!(tested.data(900, NO_STREAM).len(), 1, "no gap");
    assert_eq!(tested.reader.heard_ms(), None, "nobody has published");
}

#[test]
fn what_a_snapshot_brought_is_known_from_when_it_was_asked_for() {
    let id = FeedPosition::new(4, 0);
    let mut tested = Tested::connected(Some(Start { id, asked_ms: 3 }));
    assert_eq!(
        tested.reader.known_until(3),
        3,
        "the feed was not heard yet"
    );
    assert_eq!(
        tested.data(12, &info(5, 3)),
        ["> XREAD BLOCK 1000 COUNT 2 STREAMS feed 4-0"]
    );
    assert_eq!(tested.reader.known_until(3), 3, "there is more to read");
    tested.data(13, &entries(&[(5, BEAT)]));
    assert_eq!(tested.data(2_013, QUIET), ["> XINFO STREAM feed"]);
    tested.data(2_014, &info(5, 3));
    tested.data(2_020, &entries(&[(6, BEAT)]));
    assert_eq!(tested.reader.known_until(3), 1_013);
    assert_eq!(tested.reader.known_until(2), 2);
}

#[test]
fn a_gap_starts_a_new_reckoning_at_the_end_of_the_stream() {
    let mut tested = Tested::reading();
    tested.data(1010, QUIET);
    assert_eq!(
        tested.data(1015, NO_STREAM),
        [
            "gap: the stream is gone",
            "> XREAD BLOCK 1000 COUNT 2 STREAMS feed 0-0"
        ]
    );
    assert_eq!(tested.reader.since_ms(), Some(1015));
    assert_eq!(tested.reader.known_until(1014), 1014);
}

#[test]
fn a_stream_that_was_started_anew_within_one_quiet_period_is_noticed() {
    let mut tested = Tested::reading();
    tested.data(1010, QUIET);
    let said = tested.data(1015, &info(9, 1));
    assert_eq!(said[0], "gap: the stream was started again");
    assert_eq!(tested.reader.position(), Some(FeedPosition::new(9, 0)));
}

#[test]
fn an_entry_that_follows_another_one_than_was_read_last_is_a_gap() {
    let mut tested = Tested::reading();
    let entry = |id, prev| (id, [BEAT, &["prev", prev]].concat());
    let (six, seven) = (entry(6, "5-0"), entry(7, "6-0"));
    let read = tested.data(20, &entries(&[(six.0, &six.1), (seven.0, &seven.1)]));
    assert_eq!(read[..2], ["beat 1", "beat 1"]);
    let nine = entry(9, "8-0");
    let read = tested.data(30, &entries(&[(nine.0, &nine.1)]));
    assert_eq!(
        read[..2],
        ["gap: the next entry does not follow the last one", "beat 1"]
    );
    assert_eq!(tested.reader.since_ms(), Some(30));
    assert_eq!(tested.reader.position(), Some(FeedPosition::new(9, 0)));
}

#[test]
fn a_busy_feed_is_compared_too() {
    let mut tested = Tested::reading();
    let read = tested.data(1009, &entries(&[(6, &["op", "flush"])]));
    assert_eq!(read[1], "> XREAD BLOCK 1000 COUNT 2 STREAMS feed 6-0");
    let read = tested.data(1010, &entries(&[(7, &["op", "flush"])]));
    assert_eq!(read[1], "> XINFO STREAM feed");
    let read = tested.data(1011, &info(7, 5));
    assert_eq!(read, ["> XREAD BLOCK 1000 COUNT 2 STREAMS feed 7-0"]);
}

#[test]
fn an_entry_that_says_neither_what_has_changed_nor_of_which_link_is_a_gap() {
    let mut tested = Tested::reading();
    let two = entries(&[(6, &["op", "upsert"]), (7, &["op", "beat", "bound"])]);
    let said = tested.data(20, &two);
    assert_eq!(
        said[..4],
        [
            "malformed 6-0: the field 'op' is missing or malformed",
            "gap: an entry cannot be read",
            "malformed 7-0: the field 'bound' is missing or malformed",
            "gap: an entry cannot be read",
        ]
    );
    assert_eq!(tested.reader.since_ms(), Some(20));
    assert_eq!(tested.reader.start(), FeedPosition::new(7, 0));
    let said = tested.data(20, &entries(&[(8, BEAT)]));
    assert_eq!(said[0], "beat 1");
}

#[test]
fn an_entry_that_names_a_link_and_is_not_understood_says_that_it_has_changed() {
    let mut tested = Tested::reading();
    let said = tested.data(20, &entries(&[(6, &["op", "upsert", "key", "a/b"])]));
    assert_eq!(said[0], r#"Changed { key: "a/b" }"#);
    assert_eq!(tested.reader.since_ms(), Some(10));
}

#[test]
fn another_generation_is_a_gap() {
    let mut tested = Tested::reading();
    let beat = |id, generation, number| {
        let mut fields = BEAT.to_vec();
        (fields[5], fields[7]) = (generation, number);
        entries(&[(id, &fields)])
    };
    assert_eq!(tested.reader.told(), None);
    let said = tested.data(20, &beat(6, "7", "3"));
    assert_eq!(said[0], "beat 1", "the first one is no news");
    let told = |generation, number| Some(FeedState { generation, number });
    assert_eq!(tested.reader.told(), told(7, 3));
    let said = tested.data(30, &beat(7, "8", "4"));
    assert_eq!(said[0], "gap: the feed is of another generation");
    assert_eq!(tested.reader.told(), told(8, 4));
    assert_eq!(tested.reader.since_ms(), Some(30));
}

#[test]
fn reading_goes_on_where_it_was_after_the_connection_was_lost() {
    let mut tested = Tested::reading();
    tested.data(20, &entries(&[(6, &["op", "flush"])]));
    tested.reader.on_closed(30, &mut |_| {});
    assert_eq!(tested.reconnect(), ["> XINFO STREAM feed"]);
    let asked = tested.data(200, &info(9, 7));
    assert_eq!(asked, ["> XREAD BLOCK 1000 COUNT 2 STREAMS feed 6-0"]);
    assert_eq!(tested.reader.since_ms(), Some(10), "nothing was missed");
}

#[test]
fn a_feed_that_is_dead_is_given_up_soon_after_the_block_period() {
    let mut tested = Tested::reading();
    assert_eq!(tested.tick(1509), [""; 0]);
    let said = tested.tick(1510);
    assert_eq!(said, ["close", "down: requests are not answered any more"]);
    assert_eq!(tested.reader.silent_for_ms(1510), None);
}

#[test]
fn replies_of_no_use_end_the_connection_and_are_reported_once() {
    let not_growing = entries(&[(5, &["op", "flush"])]);
    for reply in [
        &b"-WRONGTYPE Operation against a key\r\n"[..],
        b"+OK\r\n",
        b":1\r\n",
        b"*0\r\n",
        b"*1\r\n*1\r\n$4\r\nfeed\r\n",
        b"*1\r\n*2\r\n$4\r\nfeed\r\n*1\r\n$3\r\n6-0\r\n",
        b"*1\r\n*2\r\n$4\r\nfeed\r\n*1\r\n*2\r\n$1\r\nx\r\n*0\r\n",
        &not_growing,
    ] {
        let mut tested = Tested::reading();
        let said = tested.data(20, reply);
        let down = said.last().unwrap();
        assert!(down.starts_with("down: the reply is of no use"), "{said:?}");
        assert!(tested.data(21, QUIET).is_empty());
        tested.reconnect();
        let again = tested.data(5000, b"-WRONGTYPE\r\n");
        assert_eq!(again.last().map(String::as_str), Some("close"), "{again:?}");
    }
}

#[test]
fn an_answer_about_the_stream_that_lacks_something_ends_the_connection() {
    for reply in [
        &b"*0\r\n"[..],
        b"*2\r\n$6\r\nlength\r\n:1\r\n",
        b"+OK\r\n",
        b"*1\r\n:1\r\n",
    ] {
        let said = Tested::connected(None).data(20, reply);
        assert_eq!(
            said,
            ["close", "down: the reply is of no use: XINFO STREAM"]
        );
    }
}

proptest! {
    #[test]
    fn any_bytes_at_any_time_do_no_harm(
        chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..30), 0..20),
    ) {
        let mut tested = Tested::reading();
        for (at, chunk) in (1_u64..).zip(chunks) {
            tested.data(at * 100, &chunk);
            tested.tick(at * 100);
        }
    }

    #[test]
    fn wrong_bytes_in_right_answers_do_no_harm(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in any::<prop::sample::Index>(),
    ) {
        let put = entries(&[(6, &["op", "del", "key", "a/b", "rev", "1"]), (7, &["op", "flush"])]);
        let mut bytes = [&put[..], QUIET, &info(7, 5), QUIET, NO_STREAM, &put].concat();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        let mut tested = Tested::reading();
        let (head, tail) = bytes.split_at(cut.index(bytes.len()));
        tested.data(20, head);
        tested.data(30, tail);
        tested.tick(5000);
    }
}
