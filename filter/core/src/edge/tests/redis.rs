//! Redis between the caches and the control plane.

use super::background::{batch, gap};
use super::*;
use crate::host::{HashValues, RedisEvent};
use crate::resp::encode;
use crate::resp::lookup::LookupCommand;
use edgelink_wire::redis::{LINK_FIELDS, STATE_KEY, link_key, record_to_fields};

/// The connection for lookups, if it is the first one.
pub(super) const LOOKUPS: u32 = 1;

pub(super) const OK: &[u8] = b"+OK\r\n";

impl World {
    /// A worker with an established connection to Redis, and a polled feed by which Redis is up to date.
    pub(super) fn with_redis(more: &str) -> Self {
        let sections = format!(r#","redis":{{"mode":"direct"{more}}},"poll":{{}}"#);
        let mut world = Self::with_stream(&sections);
        world.answer_poll(&gap(5));
        world.stay_current(2);
        world.host.wires.sent.clear();
        world
    }

    /// A worker with an established connection to Redis.
    pub(super) fn with_stream(sections: &str) -> Self {
        let mut world = Self::with(settings_with(sections));
        assert_eq!(world.visit("/"), Passed);
        world.pass(0);
        assert!(world.bytes(LOOKUPS, OK).is_empty());
        world.host.wires.sent.clear();
        world
    }

    /// A second passes, with a beat of the feed that Redis has as well.
    pub(super) fn make_current(&mut self, stream: u32) {
        self.receive_beat();
        self.answer_probe(stream, &state(GENERATION, self.beats));
        self.pass(500);
        self.answer_probe(stream, &state(GENERATION, self.beats));
    }

    /// The given seconds pass, with Redis current throughout.
    fn stay_current(&mut self, seconds: u64) {
        for _ in 0..seconds {
            self.make_current(LOOKUPS);
        }
    }

    /// Half a second passes, in which the feed has a beat.
    fn receive_beat(&mut self) {
        self.pass(500);
        let beat = self.beat(1);
        self.answer_poll(&batch(6, &[beat]));
    }

    /// Redis answers the probe, if one was sent.
    fn answer_probe(&mut self, stream: u32, state: &[u8]) {
        let is_probe = |command: &[u8]| command.starts_with(b"*4\r\n$5\r\nHMGET");
        let sent = &mut self.host.wires.sent;
        let before = sent.len();
        sent.retain(|(_, command)| !is_probe(command));
        for _ in sent.len()..before {
            assert!(self.bytes(stream, state).is_empty());
        }
    }

    /// Bytes come on a connection.
    pub(super) fn bytes(&mut self, stream: u32, bytes: &[u8]) -> Vec<Seen> {
        let now = Moment::from_millis(self.now);
        let event = (stream, RedisEvent::Data(bytes));
        let actions = self.edge.on_redis(&mut self.host, event, now);
        self.act_on(actions)
    }

    fn close(&mut self, stream: u32) -> Vec<Seen> {
        let now = Moment::from_millis(self.now);
        let event = (stream, RedisEvent::Closed);
        let actions = self.edge.on_redis(&mut self.host, event, now);
        self.act_on(actions)
    }

    /// A request that must wait for Redis.
    fn ask_redis(&mut self, path: &str) -> StreamId {
        match self.visit_and_send(path) {
            (Waiting(stream), None) => stream,
            other => panic!("{other:?}"),
        }
    }

    /// The callout that was sent since, for the only lookup there is.
    fn callout(&self) -> Token {
        assert!(self.lookups > 0, "no callout was sent");
        self.last_token
    }
}

/// The answer to a probe.
pub(super) fn state(generation: u64, number: u64) -> Vec<u8> {
    let mut reply = b"*2\r\n".to_vec();
    for number in [generation, number] {
        encode::argument(number.to_string().as_bytes(), &mut reply);
    }
    reply
}

/// The answer to a lookup.
pub(super) fn hash(record: Record<&str>) -> Vec<u8> {
    let fields = record_to_fields(&record);
    let mut reply = format!("*{}\r\n", LINK_FIELDS.len()).into_bytes();
    for name in LINK_FIELDS {
        match fields.iter().find(|(field, _)| *field == name) {
            Some((_, value)) => encode::argument(value, &mut reply),
            None => reply.extend_from_slice(b"$-1\r\n"),
        }
    }
    reply
}

fn nothing() -> Vec<u8> {
    [&b"*8\r\n"[..], &b"$-1\r\n".repeat(8)].concat()
}

#[test]
fn worker_when_its_first_request_comes_connects() {
    let redis = r#","redis":{"mode":"direct"}"#;
    let mut world = World::with(settings_with(redis));
    world.pass(10_000);
    assert!(world.host.wires.opened.is_empty(), "as on the main thread");
    world.ask("/a");
    world.pass(100);
    assert_eq!(world.host.wires.opened, ["resp_bridge"]);
    assert_eq!(world.counted("redis_attempts.lookup"), 1);
    assert_eq!(world.counted("redis_connected.lookup"), 0);
    world.bytes(LOOKUPS, OK);
    assert_eq!(world.counted("redis_connected.lookup"), 1);
}

#[test]
fn link_when_in_redis_is_served_and_kept_in_the_lru() {
    let mut world = World::with_redis("");
    world.ask_redis("/a");
    let mut lookup = LookupCommand::default();
    lookup.set_generation(GENERATION);
    let mut bytes = Vec::new();
    lookup.write(b"go.example/a", &mut bytes);
    assert_eq!(world.host.wires.sent, [(LOOKUPS, bytes)]);
    let answers = world.bytes(LOOKUPS, &hash(link("https://e/", 1)));
    assert_eq!(answers, [redirect("https://e/", "redis")]);
    assert_eq!(world.visit("/a"), Answered(redirect("https://e/", "lru")));
    assert_eq!(world.counted("redis.ok"), 1);
    assert_eq!(world.counted("requests.redis.redirect"), 1);
    assert_eq!(world.lookups, 0, "no callout");
}

/// A worker of a host with a client of its own, which has connected, and by which Redis is up to date.
fn with_client() -> World {
    let sections = r#","redis":{"mode":"pooled","servers":["a:1"]},"poll":{}"#;
    let mut world = World::with(settings_with(sections).for_process(1).unwrap());
    assert_eq!(world.visit("/"), Passed);
    world.pass(0);
    assert!(world.host.wires.sent.is_empty(), "no handshake");
    let now = Moment::from_millis(world.now);
    let connected = (LOOKUPS, RedisEvent::Connected);
    assert!(
        world
            .edge
            .on_redis(&mut world.host, connected, now)
            .is_empty()
    );
    world.answer_poll(&gap(5));
    world.receive_beat();
    world.pass(500);
    let numbers = [GENERATION, world.beats].map(|number| Some(number.to_string().into()));
    let probe = world.looked_up(STATE_KEY);
    assert_eq!(world.answer_lookup(LOOKUPS, probe, Ok(numbers.into())), []);
    world
}

/// The values that a client reads.
fn values(record: Record<&str>) -> HashValues {
    let fields = record_to_fields(&record);
    let value = |name: &&str| {
        let field = fields.iter().find(|(field, _)| field == name);
        field.map(|(_, value)| value.to_vec())
    };
    LINK_FIELDS.iter().map(value).collect()
}

impl World {
    /// The number of the latest lookup, which is for that key.
    fn looked_up(&self, key: &str) -> u32 {
        let (_, lookup) = self.host.wires.looked_up.last().expect("a lookup");
        assert_eq!(lookup.key, key.as_bytes());
        lookup.number
    }

    fn answer_lookup(
        &mut self,
        connection: u32,
        number: u32,
        answer: Result<HashValues, String>,
    ) -> Vec<Seen> {
        let now = Moment::from_millis(self.now);
        let answers = [(number, answer)];
        let event = (connection, RedisEvent::Answered(&answers));
        let actions = self.edge.on_redis(&mut self.host, event, now);
        self.act_on(actions)
    }

    /// A request that must wait for the client of Redis; the number of its lookup.
    fn ask_client(&mut self, code: &str) -> u32 {
        self.ask_redis(&format!("/{code}"));
        self.looked_up(&link_key(GENERATION, &format!("go.example/{code}")))
    }
}

#[test]
fn lookups_by_a_client_when_answered_in_any_order_are_served() {
    let mut world = with_client();
    let [a, b, c] = ["a", "b", "c"].map(|code| world.ask_client(code));
    let of_b = values(link("https://b/", 1));
    let answers = world.answer_lookup(LOOKUPS, b, Ok(of_b.clone()));
    assert_eq!(answers, [redirect("https://b/", "redis")]);
    assert_eq!(
        world.answer_lookup(LOOKUPS, b, Ok(of_b.clone())),
        [],
        "once"
    );
    assert_eq!(
        world.answer_lookup(LOOKUPS + 1, a, Ok(of_b)),
        [],
        "another's"
    );
    let refused = world.answer_lookup(LOOKUPS, c, Err("MOVED".to_owned()));
    assert_eq!((refused, world.lookups), (vec![], 1), "a callout");
    assert_eq!(world.answer_lookup(LOOKUPS, a, Ok(vec![None; 8])), []);
    assert_eq!(world.lookups, 2, "a callout for what Redis does not have");
    let counted = ["ok", "failed", "miss"].map(|it| world.counted(&format!("redis.{it}")));
    assert_eq!(counted, [1, 1, 1]);
    assert!(world.host.wires.sent.is_empty());
}

#[test]
fn lookup_by_a_client_when_late_or_cut_off_goes_to_the_control_plane() {
    let mut world = with_client();
    let late = world.ask_client("a");
    world.pass(150);
    assert_eq!((world.counted("redis.timeout"), world.lookups), (1, 1));
    let of_a = values(link("https://a/", 1));
    assert_eq!(world.answer_lookup(LOOKUPS, late, Ok(of_a)), []);
    world.ask_client("b");
    world.close(LOOKUPS);
    assert_eq!((world.counted("redis.failed"), world.lookups), (1, 2));
    world.host.wires.refuses = true;
    world.pass(50);
    world.ask("/c");
    assert_eq!(world.counted("redis.rejected"), 1);
}

#[test]
fn absence_when_in_redis_is_404() {
    let mut world = World::with_redis("");
    world.ask_redis("/a");
    let answers = world.bytes(LOOKUPS, &hash(Record::Absent { rev: 3 }));
    assert_eq!(answers, [page(404, "redis")]);
    assert_eq!(world.counted("redis.absent"), 1);
}

#[test]
fn link_when_missing_in_redis_is_asked_of_the_control_plane() {
    let mut world = World::with_redis("");
    world.ask_redis("/a");
    assert_eq!(world.bytes(LOOKUPS, &nothing()), []);
    let callout = world.callout();
    let answers = world.end_with(callout, "go.example/a", link("https://e/", 1));
    assert_eq!(answers, [redirect("https://e/", "control-plane")]);
    assert_eq!(world.counted("redis.miss"), 1);
    assert_eq!(world.counted("callouts.ok"), 1);
}

#[test]
fn waiters_when_of_the_same_link_share_a_lookup() {
    let mut world = World::with_redis("");
    let first = world.ask_redis("/a");
    world.ask_redis("/a");
    world.ask_redis("/a");
    assert_eq!(world.host.wires.sent.len(), 1);
    world.edge.on_stream_end(first);
    let answers = world.bytes(LOOKUPS, &hash(link("https://e/", 1)));
    assert_eq!(answers.len(), 2);
}

#[test]
fn redis_when_late_is_passed_over_and_its_answer_is_dropped() {
    let mut world = World::with_redis("");
    world.ask_redis("/a");
    assert_eq!(world.pass(149), []);
    assert_eq!(world.lookups, 0);
    world.pass(1);
    let callout = world.callout();
    let answers = world.end_with(callout, "go.example/a", link("https://a/", 1));
    assert_eq!(answers, [redirect("https://a/", "control-plane")]);
    world.ask_redis("/b");
    assert_eq!(world.bytes(LOOKUPS, &hash(link("https://late/", 9))), []);
    assert_eq!(
        world.bytes(LOOKUPS, &hash(link("https://b/", 1))),
        [redirect("https://b/", "redis")]
    );
    assert_eq!(world.visit("/a"), Answered(redirect("https://a/", "lru")));
    assert_eq!(world.counted("redis.timeout"), 1);
}

#[test]
fn answer_when_shared_data_has_a_newer_record_replaces_nothing() {
    // Behind the section of Redis.
    let mut world = World::with_redis(r#"},"sharedData":{"slots":1"#);
    world.ask_redis("/b");
    world.bytes(LOOKUPS, &hash(link("https://b/", 1)));
    world.ask_redis("/a");
    let newer = entry("go.example/a", link("https://new/", 5));
    let value = [&[2], &world.now.to_le_bytes()[..], &newer].concat();
    world.host.store.put("edgelink.slot.0", &value);
    let answers = world.bytes(LOOKUPS, &hash(link("https://old/", 4)));
    assert_eq!(answers, [], "the control plane is asked");
    assert_eq!(world.counted("redis.older"), 1);
    assert_eq!(world.host.store.mismatches, 1);
    assert_eq!(world.host.store.value("edgelink.slot.0"), Some(value));
}

#[test]
fn redis_when_it_hangs_is_given_up() {
    let mut world = World::with_redis("");
    world.ask_redis("/a");
    world.pass(1_000);
    assert!(world.host.wires.closed.is_empty(), "not yet");
    world.pass(10);
    assert_eq!(world.host.wires.closed, [LOOKUPS]);
    world.ask("/b");
    assert_eq!(world.counted("redis.rejected"), 1);
    assert_eq!(
        world.host.log,
        [
            "redis cannot be asked: requests are not answered any more; lookups go to the control plane until it reconnects"
        ]
    );
}

#[test]
fn connection_when_lost_hands_lookups_on_and_reconnects() {
    let mut world = World::with_redis("");
    world.ask_redis("/a");
    world.close(LOOKUPS);
    let callout = world.callout();
    let answers = world.end_with(callout, "go.example/a", link("https://e/", 1));
    assert_eq!(answers, [redirect("https://e/", "control-plane")]);
    assert_eq!(
        world.host.wires.closed,
        [LOOKUPS],
        "the proxy must forget it"
    );
    assert_eq!(world.counted("redis.failed"), 1);
    assert_eq!(world.counted("redis_connected.lookup"), 0);
    world.pass(50);
    world.bytes(LOOKUPS + 1, OK);
    world.ask("/b");
    assert_eq!(world.counted("redis.not_current"), 1, "not probed yet");
    let probed = state(GENERATION, world.beats);
    world.bytes(LOOKUPS + 1, &probed);
    world.ask_redis("/c");
    assert_eq!(world.counted("redis_attempts.lookup"), 2);
}

#[test]
fn redis_reply_when_unusable_is_never_a_404() {
    let mut garbled = nothing();
    garbled.splice(4..9, *b"$3\r\nftp\r\n");
    let garbage = b"HTTP/1.1 400 Bad Request\r\n".to_vec();
    for reply in [
        b"-LOADING Redis is loading\r\n".to_vec(),
        b"-WRONGTYPE\r\n".to_vec(),
        b"+OK\r\n".to_vec(),
        b"*0\r\n".to_vec(),
        b"*-1\r\n".to_vec(),
        garbled,
        garbage,
    ] {
        let mut world = World::with_redis("");
        world.ask_redis("/a");
        assert_eq!(world.bytes(LOOKUPS, &reply), []);
        let callout = world.callout();
        assert_eq!(world.end(callout, Response::default()), [unavailable()]);
        assert_eq!(world.counted("redis.failed"), 1);
        assert_eq!(world.host.log.len(), 2, "{:?}", world.host.log);
    }
}

#[test]
fn records_when_unreadable_are_logged_once_in_a_while() {
    let mut world = World::with_redis("");
    for at in 0..3 {
        world.ask_redis(&format!("/{at}"));
        world.bytes(LOOKUPS, b"*0\r\n");
    }
    assert_eq!(world.host.log.len(), 1, "{:?}", world.host.log);
    assert_eq!(world.counted("redis.failed"), 3);
}

#[test]
fn redis_record_when_older_than_known_is_not_believed() {
    let mut world = World::with_redis("");
    world.ask_redis("/a");
    world.bytes(LOOKUPS, &hash(link("https://new/", 5)));
    world.stay_current(5);
    world.ask_redis("/a");
    assert_eq!(world.bytes(LOOKUPS, &hash(link("https://old/", 4))), []);
    let callout = world.callout();
    let answers = world.end_with(callout, "go.example/a", link("https://new/", 5));
    assert_eq!(answers, [redirect("https://new/", "control-plane")]);
    assert_eq!(world.counted("redis.older"), 1);
}

#[test]
fn redis_when_the_control_plane_is_silent_is_still_asked() {
    let mut world = World::new();
    for at in 0..8 {
        let token = world.ask(&format!("/{at}"));
        world.time_out(token);
    }
    let redis = settings_with(r#","redis":{"mode":"pooled"},"poll":{},"retryAfterSeconds":60"#);
    world.edge.configure(&mut world.host, Arc::new(redis));
    world.pass(1);
    world.bytes(LOOKUPS, b"+PONG\r\n");
    world.answer_poll(&gap(5));
    world.make_current(LOOKUPS);
    assert_eq!(world.host.wires.opened, ["resp_bridge"]);
    world.ask_redis("/a");
    let answers = world.bytes(LOOKUPS, &hash(link("https://e/", 1)));
    assert_eq!(answers, [redirect("https://e/", "redis")]);
    world.ask_redis("/b");
    let answers = world.bytes(LOOKUPS, &nothing());
    assert_eq!(answers, [unavailable()], "the control plane is left alone");
}

#[test]
fn stale_link_when_redis_and_callout_fail_is_served() {
    let mut world = World::with_redis("");
    world.ask_redis("/a");
    world.bytes(LOOKUPS, &hash(link("https://e/", 1)));
    world.stay_current(5);
    world.ask_redis("/a");
    world.bytes(LOOKUPS, &nothing());
    let callout = world.callout();
    let answers = world.end(callout, Response::default());
    assert_eq!(answers, [redirect("https://e/", "stale")]);
}

#[test]
fn settings_when_replaced_hand_lookups_on_and_reconnect() {
    let mut world = World::with_redis("");
    world.ask_redis("/a");
    let redis = settings_with(r#","redis":{"mode":"direct","cluster":"other"}"#);
    world.edge.configure(&mut world.host, Arc::new(redis));
    assert_eq!(world.host.wires.closed, [LOOKUPS]);
    world.pass(1);
    let callout = world.callout();
    let answers = world.end_with(callout, "go.example/a", link("https://e/", 1));
    assert_eq!(answers, [redirect("https://e/", "control-plane")]);
    assert_eq!(world.host.wires.opened[1], "other");
    world.edge.on_end(&mut world.host);
    assert_eq!(world.host.wires.closed, [LOOKUPS, LOOKUPS + 1]);
}

#[test]
fn lookups_when_beyond_the_bound_go_to_the_control_plane() {
    let mut world = World::with_redis(r#","maxPending":1"#);
    world.ask_redis("/a");
    world.ask("/b");
    assert_eq!(world.counted("redis.rejected"), 1);
}

#[test]
fn redis_when_there_is_no_feed_is_not_asked() {
    let mut world = World::with_stream(r#","redis":{"mode":"direct"}"#);
    world.pass(1_000);
    world.ask("/a");
    assert!(world.host.wires.sent.is_empty(), "nor probed");
    assert_eq!(world.counted("redis.not_current"), 1);
    let is_told = |line: &&String| line.starts_with("redis is not asked: no feed");
    assert_eq!(world.host.log.iter().filter(is_told).count(), 1);
}

#[test]
fn redis_when_behind_the_feed_is_not_asked() {
    let mut world = World::with_redis("");
    for behind in [
        state(GENERATION, 0),
        state(GENERATION - 1, 99),
        state(GENERATION + 1, 99),
        b"*2\r\n$-1\r\n$-1\r\n".to_vec(),
    ] {
        world.receive_beat();
        world.answer_probe(LOOKUPS, &behind);
        let code = format!("/a{}", world.last_stream);
        world.ask(&code);
    }
    assert_eq!(world.counted("redis.not_current"), 4);
    world.make_current(LOOKUPS);
    world.ask_redis("/b");
}

#[test]
fn redis_when_probes_or_feed_are_silent_is_not_asked() {
    let mut world = World::with_redis("");
    world.pass(999);
    world.ask_redis("/a");
    let mut world = World::with_redis("");
    // An unanswered probe, and the connection is not given up yet.
    for _ in 0..3 {
        world.pass(500);
    }
    world.ask("/a");
    let mut world = World::with_redis("");
    for _ in 0..9 {
        world.pass(500);
        world.answer_probe(LOOKUPS, &state(GENERATION, 9));
    }
    world.ask("/a");
    assert_eq!(world.counted("redis.not_current"), 1, "the feed is silent");
}

#[test]
fn redis_answer_when_of_another_generation_is_not_believed() {
    let mut world = World::with_redis("");
    world.ask_redis("/a");
    world.pass(1);
    let FeedMessage::Beat(beat) = world.beat(1) else {
        unreachable!()
    };
    let beat = Beat {
        generation: GENERATION + 1,
        ..beat
    };
    let head = edgelink_wire::FeedBatchHead {
        generation: GENERATION + 1,
        next: edgelink_wire::FeedPosition::new(1, 0),
        ..edgelink_wire::FeedBatchHead::default()
    };
    let other = edgelink_wire::FeedBatch::encode(head, [FeedMessage::Beat(beat)].iter());
    world.answer_poll(&other);
    assert_eq!(world.bytes(LOOKUPS, &hash(link("https://lost/", 9))), []);
    let callout = world.callout();
    let answers = world.end_with(callout, "go.example/a", link("https://e/", 1));
    assert_eq!(answers, [redirect("https://e/", "control-plane")]);
    assert_eq!(world.counted("redis.not_current"), 1);
}

#[test]
fn redis_record_when_fetched_has_the_feeds_age_at_the_probe() {
    let mut world = World::with_redis("");
    // The last poll answered before the probe was sent a second and a half ago.
    world.ask_redis("/a");
    world.bytes(LOOKUPS, &hash(link("https://e/", 1)));
    world.pass(3_499);
    assert_eq!(world.visit("/a"), Answered(redirect("https://e/", "lru")));
    world.pass(1);
    world.ask("/a");
}
