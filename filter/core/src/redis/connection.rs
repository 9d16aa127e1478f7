//! Tier 4: lookups in Redis, on one connection, and the probes for whether Redis is current.

use super::probes::{Current, FeedView, Probes};
use super::transport::Transport;
use crate::flights::FlightId;
use crate::host::{ConnectionToken, HashLookup, Log, Lookups, RedisEvent};
use crate::log_throttle::LogThrottle;
use crate::metrics::RedisOutcome;
use crate::resp::client::{Client, Mode};
use crate::resp::lookup::{self, LookupCommand, LookupError};
use crate::resp::{Event, Failure, Output, Reply};
use crate::settings::RedisSettings;
use crate::time::Moment;
use edgelink_wire::record::RecordBytes;
use edgelink_wire::redis::{CLUSTER_LASTS_MILLIS, LINK_FIELDS, STATE_FIELDS, STATE_KEY};

/// A request to Redis.
#[derive(Clone, Copy, Debug)]
enum RedisRequest {
    /// Lookup of a link, while Redis was current.
    Link(FlightId, Current),
    /// Probe for the publisher's progress.
    Probe,
}

/// The connection for lookups.
#[derive(Debug)]
pub(crate) struct RedisConnection {
    client: Client<RedisRequest>,
    timeout_millis: u64,
    lookup: LookupCommand,
    handler: OutputHandler,
}

/// Handles the client's output: everything of a connection except the client.
#[derive(Debug)]
struct OutputHandler {
    transport: Transport,
    probes: Probes,
    answers: Vec<LookupAnswer>,
    garbled: LogThrottle,
    /// Attempts to connect since [`RedisConnection::take_attempts`].
    attempts: u32,
}

/// The answer to a lookup.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct LookupAnswer {
    pub(crate) flight: FlightId,
    /// The record in Redis, or the reason why there is no usable one.
    pub(crate) record: Result<RecordBytes<Vec<u8>>, RedisOutcome>,
    /// The record was current then or later.
    pub(crate) at: Moment,
}

impl RedisConnection {
    /// A connection that the first tick opens.
    pub(crate) fn new(settings: RedisSettings, seed: u64) -> Self {
        let lookups = &settings.lookups;
        // Behind a pool there may be a cluster.
        let most = match lookups.mode {
            Mode::Direct { .. } => u64::MAX,
            Mode::Pooled => CLUSTER_LASTS_MILLIS,
        };
        Self {
            timeout_millis: lookups.timeout_millis,
            client: Client::new(lookups.clone(), seed),
            lookup: LookupCommand::default(),
            handler: OutputHandler {
                transport: Transport::new(settings),
                probes: Probes::new(most),
                answers: Vec::new(),
                garbled: LogThrottle::default(),
                attempts: 0,
            },
        }
    }

    /// True if the connection is established.
    pub(crate) fn is_ready(&self) -> bool {
        self.client.is_ready()
    }

    /// True if lookups are accepted, and Redis is current.
    pub(crate) fn is_current(&self, now: Moment) -> bool {
        self.is_ready() && self.handler.probes.current(now).is_some()
    }

    /// Sets the last beat of the feed, `None` without one, and the milliseconds for which the feed may be silent.
    pub(crate) fn set_feed(&mut self, feed: Option<FeedView>, fresh: u64) {
        self.handler.probes.set_feed(feed, fresh);
    }

    /// Maximum duration of a lookup, in milliseconds.
    pub(crate) fn timeout_millis(&self) -> u64 {
        self.timeout_millis
    }

    /// Attempts to connect since the last call.
    pub(crate) fn take_attempts(&mut self) -> u32 {
        std::mem::take(&mut self.handler.attempts)
    }

    /// Looks a key up. The answer comes later in every case.
    ///
    /// # Errors
    /// The reason why it was not sent.
    pub(crate) fn ask<H: Lookups + Log>(
        &mut self,
        host: &mut H,
        now: Moment,
        flight: FlightId,
        key: &[u8],
    ) -> Result<(), RedisOutcome> {
        if !self.is_ready() {
            return Err(RedisOutcome::Rejected);
        }
        let current = self.handler.probes.current(now);
        let current = current.ok_or(RedisOutcome::NotCurrent)?;
        self.lookup.set_generation(current.generation);
        let request = RedisRequest::Link(flight, current);
        if H::HAS_CLIENT && self.client.has_client() {
            let key = self.lookup.name_of(key);
            return self.look_up(host, now, request, key, &LINK_FIELDS);
        }
        let (handler, lookup) = (&mut self.handler, &self.lookup);
        let emit = &mut |output: Output<'_, RedisRequest>| handler.on_output(host, now, output);
        let write = |out: &mut Vec<u8>| lookup.write(key, out);
        let asked = self.client.request(now.millis(), request, write, emit);
        asked.map_err(|_| RedisOutcome::Rejected)
    }

    /// Sends a lookup of a hash by the host's own client.
    fn look_up(
        &mut self,
        host: &mut impl Lookups,
        now: Moment,
        request: RedisRequest,
        key: Vec<u8>,
        fields: &'static [&'static str],
    ) -> Result<(), RedisOutcome> {
        let length = key.len() + fields.iter().map(|field| field.len()).sum::<usize>();
        let number = self.client.request_by_number(now.millis(), request, length);
        let lookup = HashLookup {
            number: number.map_err(|_| RedisOutcome::Rejected)?,
            key,
            fields,
        };
        self.handler.transport.look_up(host, lookup);
        Ok(())
    }

    /// True if lookups wait only for [`Self::flush`].
    pub(crate) fn is_flush_due(&self) -> bool {
        self.client.is_flush_due()
    }

    /// Sends the gathered lookups, once the host has no more requests to pass on.
    pub(crate) fn flush(&mut self, host: &mut (impl Lookups + Log), now: Moment) {
        let handler = &mut self.handler;
        self.client
            .flush(&mut |output| handler.on_output(host, now, output));
    }

    /// Probes the publisher's progress, if that is due.
    fn probe<H: Lookups + Log>(&mut self, host: &mut H, now: Moment) {
        if !self.is_ready() || !self.handler.probes.is_probe_due(now) {
            return;
        }
        let handler = &mut self.handler;
        handler.probes.on_sent(now);
        let asked = if H::HAS_CLIENT && self.client.has_client() {
            let key = STATE_KEY.as_bytes().to_vec();
            self.look_up(host, now, RedisRequest::Probe, key, &STATE_FIELDS)
        } else {
            let emit = &mut |output: Output<'_, RedisRequest>| handler.on_output(host, now, output);
            let (request, write) = (RedisRequest::Probe, lookup::write_probe);
            let asked = self.client.request(now.millis(), request, write, emit);
            asked.map_err(|_| RedisOutcome::Rejected)
        };
        match asked {
            Ok(()) => self.flush(host, now),
            Err(_) => self.handler.probes.on_failure(),
        }
    }

    /// Something has happened to a connection; only its end matters unless it is the current one.
    pub(crate) fn on_event(
        &mut self,
        host: &mut (impl Lookups + Log),
        now: Moment,
        connection: ConnectionToken,
        event: RedisEvent<'_>,
    ) -> Vec<LookupAnswer> {
        let was_ready = self.is_ready();
        let is_current = self.handler.transport.carries(connection);
        if matches!(event, RedisEvent::Closed) && self.handler.transport.on_end(host, connection) {
            self.lose(host, now);
        }
        let (handler, millis) = (&mut self.handler, now.millis());
        let emit = &mut |output: Output<'_, RedisRequest>| handler.on_output(host, now, output);
        match event {
            RedisEvent::Connected if is_current => self.client.on_connected(millis),
            RedisEvent::Answered(answers) if is_current => {
                self.client.on_answers(millis, answers, emit);
            }
            RedisEvent::Data(bytes) if is_current => self.client.on_data(millis, bytes, emit),
            _ => {}
        }
        if !was_ready {
            self.probe(host, now);
        }
        std::mem::take(&mut self.handler.answers)
    }

    /// Time has passed.
    pub(crate) fn on_tick(
        &mut self,
        host: &mut (impl Lookups + Log),
        now: Moment,
    ) -> Vec<LookupAnswer> {
        self.handler.transport.on_tick(host);
        let handler = &mut self.handler;
        let emit = &mut |output: Output<'_, RedisRequest>| handler.on_output(host, now, output);
        self.client.on_tick(now.millis(), emit);
        self.probe(host, now);
        self.flush(host, now);
        if self.handler.transport.take_refused() {
            self.lose(host, now);
        }
        std::mem::take(&mut self.handler.answers)
    }

    /// Closes the connection at once; another one is opened later. Must not be called from a callback that brings something on it.
    pub(crate) fn disconnect(
        &mut self,
        host: &mut (impl Lookups + Log),
        now: Moment,
    ) -> Vec<LookupAnswer> {
        self.handler.transport.close();
        self.handler.transport.on_tick(host);
        self.lose(host, now);
        std::mem::take(&mut self.handler.answers)
    }

    /// Gives the connection up, for good.
    pub(crate) fn end(mut self, host: &mut (impl Lookups + Log), now: Moment) -> Vec<LookupAnswer> {
        self.disconnect(host, now)
    }

    fn lose(&mut self, host: &mut (impl Lookups + Log), now: Moment) {
        let handler = &mut self.handler;
        let emit = &mut |output: Output<'_, RedisRequest>| handler.on_output(host, now, output);
        self.client.on_closed(now.millis(), emit);
    }
}

impl OutputHandler {
    fn on_output(
        &mut self,
        host: &mut (impl Lookups + Log),
        now: Moment,
        output: Output<'_, RedisRequest>,
    ) {
        match output {
            Output::OpenStream => {
                self.attempts = self.attempts.saturating_add(1);
                self.probes.on_lost();
                self.transport.open(host);
            }
            Output::Send(bytes) => self.transport.send(host, bytes),
            Output::CloseStream => self.transport.close(),
            Output::Event(event) => host.warn(&log_line(event)),
            Output::Deliver(RedisRequest::Probe, reply) => match reply {
                Ok(reply) => self.probes.on_answer(lookup::read_probe(reply)),
                Err(_) => self.probes.on_failure(),
            },
            Output::Deliver(RedisRequest::Link(flight, asked), reply) => {
                let is_current = |current: Current| current.generation == asked.generation;
                let is_believed = self.probes.current(now).is_some_and(is_current);
                let record = self.read(host, now, reply).and_then(|record| {
                    let record = is_believed.then_some(record);
                    record.ok_or(RedisOutcome::NotCurrent)
                });
                let at = asked.at;
                self.answers.push(LookupAnswer { flight, record, at });
            }
        }
    }

    fn read(
        &mut self,
        log: &mut impl Log,
        now: Moment,
        reply: Result<Reply<'_>, Failure<'_>>,
    ) -> Result<RecordBytes<Vec<u8>>, RedisOutcome> {
        let reply = reply.map_err(|failure| match failure {
            Failure::TimedOut => RedisOutcome::Timeout,
            Failure::Disconnected | Failure::Refused(_) => RedisOutcome::Failed,
        })?;
        match lookup::read(reply) {
            Ok(Some(record)) => Ok(RecordBytes::of(&record)),
            Ok(None) => Err(RedisOutcome::Miss),
            Err(error) => {
                self.note_garbled(log, now, error);
                Err(RedisOutcome::Failed)
            }
        }
    }

    fn note_garbled(&mut self, log: &mut impl Log, now: Moment, error: LookupError) {
        if self.garbled.is_due(now.millis()) {
            log.warn(&format!(
                "failed to read a record in redis: {error}; asking the control plane"
            ));
        }
    }
}

fn log_line(event: Event<'_>) -> String {
    match event {
        Event::Down(reason) => format!(
            "redis cannot be asked: {reason}; lookups go to the control plane until it reconnects"
        ),
        Event::Recovered { failures } => {
            format!("redis is available again, after {failures} failures")
        }
        Event::ErrorReply { message, count } => {
            let message = message.escape_ascii();
            format!("redis returned {count} errors since the last such line; the latest: {message}")
        }
    }
}
