//! Redis and the control plane answer, fail, hang and talk nonsense in any order.

use super::background::batch;
use super::redis::{hash, state};
use super::*;
use crate::control_plane::BackgroundKind;
use crate::fake::answer;
use crate::host::RedisEvent;
use crate::resp::decode::Decoder;
use crate::resp::scan::Limits;
use proptest::prelude::*;
use std::collections::{BTreeMap, VecDeque};

#[derive(Clone, Debug)]
enum Event {
    Visit(u8),
    Leave(usize),
    /// Redis answers that many lookups, with a link if the flag is set, and with nulls otherwise.
    Redis(usize, bool),
    /// The given number of bytes written by Redis arrives.
    Arrive(usize),
    Garbage(Vec<u8>),
    Close,
    ControlPlane(usize),
    Fail(usize),
    /// The feed has a beat.
    Beat,
    Pass(u64),
}

fn any_event() -> impl Strategy<Value = Event> {
    prop_oneof![
        8 => (0_u8..6).prop_map(Event::Visit),
        2 => any::<usize>().prop_map(Event::Leave),
        8 => (1_usize..6, any::<bool>()).prop_map(|(count, is_link)| Event::Redis(count, is_link)),
        12 => (1_usize..600).prop_map(Event::Arrive),
        1 => prop::collection::vec(any::<u8>(), 1..8).prop_map(Event::Garbage),
        1 => Just(Event::Close),
        3 => any::<usize>().prop_map(Event::ControlPlane),
        1 => any::<usize>().prop_map(Event::Fail),
        3 => Just(Event::Beat),
        4 => (1_u64..150).prop_map(Event::Pass),
    ]
}

/// A worker with everything around it. Every link leads to its own code, so that an answer to the wrong visitor is
/// noticed.
struct Chaos {
    world: World,
    /// The requested code of each waiting stream.
    waiting: BTreeMap<StreamId, String>,
    callouts: Vec<(Token, String)>,
    /// The open stream, its lookups, and the bytes that Redis wrote.
    stream: u32,
    /// `None` for a probe.
    asked: VecDeque<Option<String>>,
    wire: Vec<u8>,
}

fn code_of(key: &str) -> String {
    key.rsplit('/').next().unwrap().to_owned()
}

fn url_of(code: &str) -> String {
    format!("https://e/{code}")
}

impl Chaos {
    fn visit(&mut self, code: u8) {
        let code = format!("c{code}");
        self.world.last_stream += 1;
        let stream = self.world.last_stream;
        let path = format!("/{code}");
        if let Some(became) = self.world.hit(stream, &get(&path)) {
            let Answered(seen) = became else {
                panic!("{path}");
            };
            return check(&seen, &code);
        }
        let step = self.world.request(stream, &get(&path));
        let callout = match step {
            Step::Pass | Step::Hold(..) => panic!("{path}"),
            Step::Answer(answer, callout) => {
                check(&seen(&answer), &code);
                callout
            }
            Step::Wait(callout) => {
                self.waiting.insert(stream, code);
                callout
            }
        };
        if let Some(callout) = callout {
            self.send(&callout);
        }
        self.look_at_wires();
    }

    fn send(&mut self, callout: &LookupCallout) {
        let token = self.world.send(callout);
        self.callouts.push((token, code_of(&callout.path)));
    }

    fn act_on(&mut self, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Send(Callout::Lookup(callout)) => self.send(&callout),
                Action::Resume(resumed) => self.resume(&resumed),
                Action::Send(Callout::Background(callout)) => self.world.run(callout),
                Action::Send(Callout::Form(_)) | Action::EndForm(_) => unreachable!("no form"),
            }
        }
        self.look_at_wires();
    }

    fn resume(&mut self, resumed: &Resumed) {
        for waiter in &resumed.waiters {
            let code = self
                .waiting
                .remove(&waiter.stream)
                .expect("answered once, and only who waits");
            let World { edge, host, .. } = &mut self.world;
            let answer = edge.answer(host, *waiter, resumed, &get("/x")).unwrap();
            check(&seen(&answer), &code);
        }
    }

    /// Takes the client's commands for Redis to answer.
    fn look_at_wires(&mut self) {
        let wires = &mut self.world.host.wires;
        let opened = u32::try_from(wires.opened.len()).unwrap();
        if opened != self.stream {
            self.stream = opened;
            self.asked.clear();
            self.wire = b"+OK\r\n".to_vec();
        }
        for (stream, command) in wires.sent.drain(..) {
            if stream == self.stream && command.starts_with(b"*9\r\n$5\r\nHMGET") {
                self.asked.push_back(Some(key_of(&command)));
            }
            if stream == self.stream && command.starts_with(b"*4\r\n$5\r\nHMGET") {
                self.asked.push_back(None);
            }
        }
    }

    fn happen(&mut self, event: Event) {
        let now = Moment::from_millis(self.world.now);
        match event {
            Event::Visit(code) => self.visit(code),
            Event::Leave(at) if !self.waiting.is_empty() => {
                let stream = *self.waiting.keys().nth(at % self.waiting.len()).unwrap();
                self.waiting.remove(&stream);
                self.world.edge.on_stream_end(stream);
            }
            Event::Redis(count, is_link) => {
                for key in self.asked.drain(..count.min(self.asked.len())) {
                    let Some(key) = key else {
                        self.wire.extend(state(GENERATION, self.world.beats));
                        continue;
                    };
                    let url = url_of(&code_of(&key));
                    let nothing = [&b"*8\r\n"[..], &b"$-1\r\n".repeat(8)].concat();
                    self.wire.extend(if is_link {
                        hash(link(&url, 1))
                    } else {
                        nothing
                    });
                }
            }
            Event::Arrive(count) => {
                let bytes: Vec<_> = self.wire.drain(..count.min(self.wire.len())).collect();
                self.arrive(&bytes);
            }
            Event::Garbage(bytes) => {
                // Garbage that looks like an answer is taken for one; only the order assigns it to a lookup.
                let bytes = [&b"\xff"[..], &bytes].concat();
                self.arrive(&bytes);
            }
            Event::Close => {
                let stream = self.stream;
                let actions = self.world.edge.on_redis(
                    &mut self.world.host,
                    (stream, RedisEvent::Closed),
                    now,
                );
                self.act_on(actions);
            }
            Event::ControlPlane(at) if !self.callouts.is_empty() => {
                let (token, code) = self.callouts.remove(at % self.callouts.len());
                let body = answer(&format!("go.example/{code}"), link(&url_of(&code), 1));
                self.end(token, b"200", &body);
            }
            Event::Fail(at) if !self.callouts.is_empty() => {
                let (token, _) = self.callouts.remove(at % self.callouts.len());
                self.end(token, b"504", b"");
            }
            Event::Beat => {
                self.world
                    .callouts
                    .retain(|(_, callout)| callout.kind == BackgroundKind::Poll);
                if let Some((token, _)) = self.world.callouts.pop() {
                    let beat = self.world.beat(1);
                    let body = batch(6, &[beat]);
                    self.end_as(token, b"200", edgelink_wire::FeedBatch::MEDIA_TYPE, &body);
                }
            }
            Event::Pass(millis) => self.pass(millis),
            Event::Leave(_) | Event::ControlPlane(_) | Event::Fail(_) => {}
        }
    }

    fn arrive(&mut self, bytes: &[u8]) {
        let (stream, now) = (self.stream, Moment::from_millis(self.world.now));
        let host = &mut self.world.host;
        let event = (stream, RedisEvent::Data(bytes));
        let actions = self.world.edge.on_redis(host, event, now);
        self.act_on(actions);
    }

    fn end(&mut self, token: Token, status: &[u8], body: &[u8]) {
        self.end_as(token, status, LinkAnswer::MEDIA_TYPE, body);
    }

    fn end_as(&mut self, token: Token, status: &[u8], content_type: &str, body: &[u8]) {
        let response = Response {
            status,
            content_type: content_type.as_bytes(),
            body,
        };
        let now = Moment::from_millis(self.world.now);
        let host = &mut self.world.host;
        let actions = self.world.edge.on_callout_end(host, token, response, now);
        self.act_on(actions);
    }

    fn pass(&mut self, millis: u64) {
        let actions = self.world.tick(millis);
        self.act_on(actions);
    }
}

fn key_of(command: &[u8]) -> String {
    let limits = Limits {
        bulk_bytes: 1_000,
        array_elements: 10,
        reply_bytes: 2_000,
    };
    let mut decoder = Decoder::new(limits);
    let reply = decoder.next(&mut &*command).unwrap().unwrap();
    let values: [Option<&[u8]>; 9] = reply.strings().unwrap();
    String::from_utf8(values[1].unwrap().to_vec()).unwrap()
}

fn check(seen: &Seen, code: &str) {
    match seen.status {
        302 => assert_eq!(seen.location.as_deref(), Some(url_of(code).as_str())),
        503 => {}
        status => panic!("no tier said that there is no such link, and yet: {status}"),
    }
}

proptest! {
    #[test]
    fn request_when_redis_is_chaotic_gets_its_link_or_503_once(events in prop::collection::vec(any_event(), 1..150)) {
        let mut chaos = Chaos {
            world: World::with_redis(""),
            waiting: BTreeMap::new(),
            callouts: Vec::new(),
            stream: 1,
            asked: VecDeque::new(),
            wire: Vec::new(),
        };
        for event in events {
            chaos.happen(event);
        }
        chaos.pass(100_000);
        for _ in 0..100 {
            chaos.pass(1_000);
        }
        prop_assert!(chaos.waiting.is_empty(), "{:?}", chaos.waiting);
    }
}
