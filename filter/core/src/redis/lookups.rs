//! Tier 4: lookups in Redis, pipelined on one connection.

use super::link::{Link, Method};
use crate::callout::Told;
use crate::flights::FlightId;
use crate::host::{Log, StreamToken, Streams};
use crate::metrics::RedisOutcome;
use crate::resp::client::{Client, Mode, Settings};
use crate::resp::lookup::{self, Lookup, LookupError};
use crate::resp::{Event, Failure, Output, Reply};
use crate::seldom::Seldom;

/// The connection and who waits for it.
#[derive(Debug)]
pub(crate) struct Lookups {
    client: Client<FlightId>,
    timeout: u64,
    lookup: Lookup,
    wire: Wire,
}

/// Everything but the client, which calls back into it.
#[derive(Debug)]
struct Wire {
    link: Link,
    answers: Vec<Answer>,
    garbled: Seldom,
    /// Attempts to connect since they were last asked for.
    attempts: u32,
}

/// What became of a lookup.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) flight: FlightId,
    /// What Redis has of the link, or why that is nothing.
    pub(crate) told: Result<Told<Vec<u8>>, RedisOutcome>,
}

impl Lookups {
    pub(crate) fn new(cluster: &str, settings: Settings, seed: u64) -> Self {
        let method = match settings.mode {
            Mode::Direct { .. } => Method::Direct,
            Mode::Pooled => Method::Pooled,
        };
        Self {
            timeout: settings.timeout_ms,
            client: Client::new(settings, seed),
            lookup: Lookup::default(),
            wire: Wire {
                link: Link::new(cluster, method),
                answers: Vec::new(),
                garbled: Seldom::default(),
                attempts: 0,
            },
        }
    }

    /// Whether lookups are taken.
    pub(crate) fn is_ready(&self) -> bool {
        self.client.is_ready()
    }

    /// How long a lookup may take at most, in milliseconds.
    pub(crate) fn timeout(&self) -> u64 {
        self.timeout
    }

    /// Attempts to connect since this was last called.
    pub(crate) fn take_attempts(&mut self) -> u32 {
        std::mem::take(&mut self.wire.attempts)
    }

    /// Looks a key up. Whether it was sent; then the answer comes later, whatever happens.
    pub(crate) fn ask(
        &mut self,
        host: &mut (impl Streams + Log),
        now: u64,
        flight: FlightId,
        key: &[u8],
    ) -> bool {
        let (wire, lookup) = (&mut self.wire, &self.lookup);
        let emit = &mut |output: Output<'_, FlightId>| wire.on_output(host, now, output);
        let write = |out: &mut Vec<u8>| lookup.write(key, out);
        let asked = self.client.request(now, flight, write, emit);
        asked.is_ok()
    }

    /// Bytes came on a stream. Nothing if it is none of ours.
    pub(crate) fn on_data(
        &mut self,
        host: &mut (impl Streams + Log),
        now: u64,
        stream: StreamToken,
        bytes: &[u8],
    ) -> Option<Vec<Answer>> {
        if !self.wire.link.carries(stream) {
            return None;
        }
        let wire = &mut self.wire;
        self.client
            .on_data(now, bytes, &mut |output| wire.on_output(host, now, output));
        Some(std::mem::take(&mut self.wire.answers))
    }

    /// A stream has ended.
    pub(crate) fn on_end(
        &mut self,
        host: &mut (impl Streams + Log),
        now: u64,
        stream: StreamToken,
    ) -> Vec<Answer> {
        if self.wire.link.on_end(host, stream) {
            self.lose(host, now);
        }
        std::mem::take(&mut self.wire.answers)
    }

    /// Time has passed.
    pub(crate) fn on_tick(&mut self, host: &mut (impl Streams + Log), now: u64) -> Vec<Answer> {
        self.wire.link.on_tick(host);
        let wire = &mut self.wire;
        self.client
            .on_tick(now, &mut |output| wire.on_output(host, now, output));
        if self.wire.link.take_refused() {
            self.lose(host, now);
        }
        std::mem::take(&mut self.wire.answers)
    }

    /// Cancels the stream at once; another one is opened in its time. Not from within a callback that brings a message.
    pub(crate) fn drop_stream(&mut self, host: &mut (impl Streams + Log), now: u64) -> Vec<Answer> {
        self.wire.link.close();
        self.wire.link.on_tick(host);
        self.lose(host, now);
        std::mem::take(&mut self.wire.answers)
    }

    /// Gives the connection up, for good.
    pub(crate) fn end(mut self, host: &mut (impl Streams + Log), now: u64) -> Vec<Answer> {
        self.drop_stream(host, now)
    }

    fn lose(&mut self, host: &mut (impl Streams + Log), now: u64) {
        let wire = &mut self.wire;
        self.client
            .on_closed(now, &mut |output| wire.on_output(host, now, output));
    }
}

impl Wire {
    fn on_output(
        &mut self,
        host: &mut (impl Streams + Log),
        now: u64,
        output: Output<'_, FlightId>,
    ) {
        match output {
            Output::OpenStream => {
                self.attempts = self.attempts.saturating_add(1);
                self.link.open(host);
            }
            Output::Send(bytes) => self.link.send(host, bytes),
            Output::CloseStream => self.link.close(),
            Output::Event(event) => host.warn(&told(event)),
            Output::Deliver(flight, reply) => {
                let told = self.read(host, now, reply);
                self.answers.push(Answer { flight, told });
            }
        }
    }

    fn read(
        &mut self,
        log: &mut impl Log,
        now: u64,
        reply: Result<Reply<'_>, Failure<'_>>,
    ) -> Result<Told<Vec<u8>>, RedisOutcome> {
        let reply = reply.map_err(|failure| match failure {
            Failure::TimedOut => RedisOutcome::Timeout,
            Failure::Disconnected | Failure::Refused(_) => RedisOutcome::Failed,
        })?;
        match lookup::read(reply) {
            Ok(Some(record)) => Ok(Told::new(&record, record.to_bytes())),
            Ok(None) => Err(RedisOutcome::Miss),
            Err(error) => {
                self.note_garbled(log, now, error);
                Err(RedisOutcome::Failed)
            }
        }
    }

    fn note_garbled(&mut self, log: &mut impl Log, now: u64, error: LookupError) {
        if self.garbled.is_due(now) {
            log.warn(&format!("a record in redis cannot be read: {error}"));
        }
    }
}

fn told(event: Event<'_>) -> String {
    match event {
        Event::Down(reason) => format!("redis cannot be asked: {reason}"),
        Event::Recovered { failures } => {
            format!("redis can be asked again, after {failures} failures")
        }
        Event::ErrorReply { message, count } => {
            let message = message.escape_ascii();
            format!("redis answers with errors, {count} since the last such line: {message}")
        }
    }
}
