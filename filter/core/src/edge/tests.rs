//! The edge against a scripted proxy: caching and lookups (`lookup`), failures of lookups (`failure`), and everything at once
//! (`chaos`, `chaos_redis`); Redis (`redis`) and the feed (`feed`); configurations that begin and end (`roots`); conditional
//! targets (`rules`); links with a limit of visits (`visits`) or a password (`forms`), and other properties that few links
//! have (`properties`); links among other paths, and other methods (`among_others`).
//!
//! Every other request is decided side by side with others where it can be ([`World::hit`]), which must make no difference.

mod admission;
mod among_others;
mod background;
mod chaos;
mod chaos_redis;
mod clicks;
mod domains;
mod events;
mod failure;
mod feed;
mod forms;
mod gauges;
mod health;
mod hits;
mod limit;
mod lookup;
mod properties;
mod ready;
mod redis;
mod resuming;
mod roots;
mod rules;
mod visits;

use super::*;
use crate::control_plane::BackgroundCallout;
use crate::fake::{Host, aged, encoded, entry, link, settings, settings_with};
use edgelink_wire::feed::{Beat, FeedMessage};
use edgelink_wire::{LinkAnswer, Record};

/// Start of the tests by the monotonic clock.
const START: u64 = 1_000_000;

/// Start of the tests by the wall clock.
const UNIX_START: u64 = 1_767_225_600_000;

/// The generation of the feed.
const GENERATION: u64 = 7;

/// A worker in its proxy. Callouts are kept until a test ends them.
struct World {
    edge: Edge,
    host: Host,
    /// The notes of the thread that reads the edge.
    notes: HitNotes,
    /// That of the current request, if it could not be decided side by side with others.
    admitted: Option<WithinLimit>,
    now: u64,
    /// Unix time in milliseconds.
    wall: u64,
    last_stream: StreamId,
    last_token: Token,
    callouts: Vec<(Token, BackgroundCallout)>,
    /// Lookups at the control plane so far.
    lookups: u32,
    /// Beats of the feed so far.
    beats: u64,
    /// The last entry of the stream.
    last_entry: u64,
    /// Host and path of requests that may wait until the domains are known.
    requests: Vec<(StreamId, String, String)>,
    /// Outcomes of these requests.
    decided: Vec<Became>,
}

/// The answer that a visitor saw.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Seen {
    status: u16,
    location: Option<String>,
    tier: String,
}

/// The outcome of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Became {
    Passed,
    Answered(Seen),
    Waiting(StreamId),
}

use Became::{Answered, Passed, Waiting};

fn seen(answer: &Answer<'_>) -> Seen {
    let header = |name| {
        let mut headers = answer.headers();
        headers
            .find(|(each, _)| *each == name)
            .map(|(_, value)| String::from_utf8(value.to_vec()).unwrap())
    };
    Seen {
        status: answer.status,
        location: header("location"),
        tier: header("x-edgelink-tier").unwrap(),
    }
}

/// The head of an ordinary request.
fn get(path: &str) -> Head<'_> {
    Head {
        method: b"GET",
        path: path.as_bytes(),
        ..Head::default()
    }
}

fn redirect(location: &str, tier: &str) -> Seen {
    Seen {
        status: 302,
        location: Some(location.to_owned()),
        tier: tier.to_owned(),
    }
}

fn page(status: u16, tier: &str) -> Seen {
    Seen {
        status,
        location: None,
        tier: tier.to_owned(),
    }
}

fn unavailable() -> Seen {
    page(503, "control-plane")
}

impl World {
    fn new() -> Self {
        Self::with(settings())
    }

    fn with(settings: Settings) -> Self {
        let wall = WallClock::new(Moment::from_millis(START), UNIX_START);
        let edge = Edge::new(Arc::new(settings), [7; 16], 7, wall);
        Self {
            notes: edge.hit_notes([8; 16]),
            admitted: None,
            edge,
            host: Host::default(),
            now: START,
            wall: UNIX_START,
            last_stream: 100,
            last_token: 0,
            callouts: Vec::new(),
            lookups: 0,
            beats: 0,
            last_entry: 0,
            requests: Vec::new(),
            decided: Vec::new(),
        }
    }

    /// A second worker of the same proxy.
    fn other_worker(&self) -> Self {
        let mut other = Self::with(settings());
        other.host.store = self.host.store.clone();
        other.pass(self.now - START);
        other
    }

    /// A request; a callout that it makes is sent.
    fn visit(&mut self, path: &str) -> Became {
        self.visit_and_send(path).0
    }

    fn request(&mut self, stream: StreamId, head: &Head<'_>) -> Step<Answer<'_>> {
        let (host, now) = (&mut self.host, Moment::from_millis(self.now));
        match self.admitted.take() {
            Some(admitted) => self
                .edge
                .on_request_admitted(host, stream, head, now, admitted),
            None => self.edge.on_request(host, stream, head, now),
        }
    }

    /// A request that every other time is decided side by side with others; `None` if it is not.
    fn hit(&mut self, stream: StreamId, head: &Head<'_, impl Headers>) -> Option<Became> {
        if stream % 2 == 1 {
            return None;
        }
        let mut answer = None;
        let write = |written: &Answer<'_>| answer = Some(Answered(seen(written)));
        let (by, now) = ((&self.host, 0), Moment::from_millis(self.now));
        match self.edge.on_hit(&mut self.notes, by, head, now, write) {
            Hit::Passes => Some(Passed),
            Hit::Answered => Some(answer.unwrap()),
            Hit::Undecided(admitted) => {
                self.admitted = Some(admitted);
                None
            }
        }
    }

    fn visit_and_send(&mut self, path: &str) -> (Became, Option<Token>) {
        self.last_stream += 1;
        let stream = self.last_stream;
        if let Some(became) = self.hit(stream, &get(path)) {
            return (became, None);
        }
        let (became, callout) = match self.request(stream, &get(path)) {
            Step::Pass => (Passed, None),
            Step::Answer(answer, callout) => (Answered(seen(&answer)), callout),
            Step::Wait(callout) | Step::Hold(callout, _) => (Waiting(stream), callout),
        };
        let token = callout.map(|callout| self.send(&callout));
        (became, token)
    }

    /// A request that must wait for a callout of its own.
    fn ask(&mut self, path: &str) -> Token {
        match self.visit_and_send(path) {
            (Waiting(_), Some(token)) => token,
            other => panic!("{other:?}"),
        }
    }

    fn end(&mut self, token: Token, response: Response<'_>) -> Vec<Seen> {
        let now = Moment::from_millis(self.now);
        let actions = self
            .edge
            .on_callout_end(&mut self.host, token, response, now);
        self.act_on(actions)
    }

    fn answers(&mut self, resumed: &Resumed) -> Vec<Seen> {
        if let Some(again) = resumed.again() {
            self.decide_again(resumed, again);
            return Vec::new();
        }
        let waiters = resumed.waiters.iter();
        waiters
            .map(|waiter| {
                seen(
                    &self
                        .edge
                        .answer(&self.host, *waiter, resumed, &get("/x"))
                        .unwrap(),
                )
            })
            .collect()
    }

    /// Answers resumed waiters, and sends the callouts.
    fn act_on(&mut self, actions: Vec<Action>) -> Vec<Seen> {
        let mut answers = Vec::new();
        for action in actions {
            match action {
                Action::Resume(resumed) => answers.extend(self.answers(&resumed)),
                Action::Send(Callout::Lookup(callout)) => {
                    self.send(&callout);
                }
                Action::Send(Callout::Background(callout)) => self.run(callout),
                Action::Send(Callout::Form(callout)) => panic!("{callout:?}"),
                Action::EndForm(end) => panic!("{end:?}"),
            }
        }
        answers
    }

    fn send(&mut self, callout: &LookupCallout) -> Token {
        self.lookups += 1;
        self.last_token += 1;
        let now = Moment::from_millis(self.now);
        self.edge
            .on_lookup_sent(callout.flight, self.last_token, now);
        self.last_token
    }

    fn run(&mut self, callout: BackgroundCallout) {
        self.last_token += 1;
        self.edge.on_background_sent(callout.kind, self.last_token);
        self.callouts.push((self.last_token, callout));
    }

    /// The control plane answers from the database.
    fn end_with(&mut self, token: Token, key: &str, record: Record<&str>) -> Vec<Seen> {
        self.end_with_age(token, key, record, 0)
    }

    /// The control plane answers with a record of the given age in milliseconds.
    fn end_with_age(
        &mut self,
        token: Token,
        key: &str,
        record: Record<&str>,
        age_millis: u64,
    ) -> Vec<Seen> {
        let body = aged(key, record, age_millis);
        let status = match record {
            Record::Link(_) => b"200",
            Record::Absent { .. } => b"404",
        };
        let response = Response {
            status,
            content_type: LinkAnswer::MEDIA_TYPE.as_bytes(),
            body: &body,
        };
        self.end(token, response)
    }

    fn time_out(&mut self, token: Token) -> Vec<Seen> {
        let response = Response {
            status: b"504",
            ..Response::default()
        };
        self.end(token, response)
    }

    /// Fetches a link into the caches.
    fn know(&mut self, code: &str, record: Record<&str>) {
        let token = self.ask(&format!("/{code}"));
        assert_eq!(
            self.end_with(token, &format!("go.example/{code}"), record)
                .len(),
            1
        );
    }

    /// Time passes, and a tick comes.
    fn pass(&mut self, millis: u64) -> Vec<Seen> {
        let actions = self.tick(millis);
        self.act_on(actions)
    }

    fn tick(&mut self, millis: u64) -> Vec<Action> {
        self.stand_still(millis);
        let now = Moment::from_millis(self.now);
        let wall = WallClock::new(now, self.wall);
        self.edge.on_hits(&mut [&mut self.notes], now);
        self.edge.on_tick(&mut self.host, now, wall)
    }

    /// Time passes without a tick, as if the process is suspended.
    fn stand_still(&mut self, millis: u64) {
        self.now += millis;
        self.wall += millis;
    }

    /// The next beat of the feed.
    fn beat(&mut self, bound: u64) -> FeedMessage<'static> {
        self.beats += 1;
        FeedMessage::Beat(Beat {
            bound,
            generation: GENERATION,
            number: self.beats,
            at: 0,
            age_millis: 0,
        })
    }

    fn counted(&mut self, name: &str) -> i64 {
        self.pass(0);
        self.host
            .stats
            .get(&format!("edgelink.{name}"))
            .copied()
            .unwrap_or_default()
    }
}

#[test]
fn shared_seed_when_another_edge_begins_is_that_of_the_first() {
    let [first, second] = [1, 2].map(shared_seed);
    assert!(std::ptr::eq(first, second));
}
