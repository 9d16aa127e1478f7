//! One connection to Redis, over a byte stream that its owner opens, writes and reads.
//!
//! ```text
//! Idle --tick--> Connecting --handshake answered--> Ready
//!                    |                                |
//!                    +---- failed -> Backoff <- lost -+     (Backoff --tick--> Connecting)
//! ```
//!
//! The client never waits and owns no clock: it takes bytes, the stream's end and the time, and emits actions as [`Output`].
//! Requests are accepted only while it is ready, so that a caller whose request cannot be sent knows at once and asks
//! elsewhere.
//!
//! While requests are unanswered, further ones are gathered, and sent together once all answers have arrived or the batch is
//! full, like small segments by Nagle's algorithm (RFC 896). A request that comes alone is sent at once, or once a host that
//! flushes has no further ones to pass on ([`ClientSettings::is_flushed`]); under load, the host's cost per message is then
//! shared by many requests.
//!
//! Where the host has a client of its own ([`ClientSettings::has_client`]), no bytes are sent and none come: the connection is ready once
//! that client has connected, and each request has a number, by which it is answered. States and bounds hold there too.
//!
//! Bounded are: requests whose replies are outstanding, in number and in bytes (including what the host still has to write);
//! bytes of an incomplete reply; time for the handshake, for a request, and for the connection as a whole to answer its
//! oldest request; time between attempts.

mod events;
#[cfg(test)]
mod fuzz_tests;
mod settings;
#[cfg(test)]
mod tests;

pub use events::{Event, Failure, Output, Reason};
pub use settings::{Auth, ClientSettings, HandshakeStep, Mode, write_auth};

use super::decode::Decoder;
use super::lookup::HashAnswer;
use super::queue::Queue;
use super::reply::Reply;
use edgelink_wire::backoff::Backoff;
use events::{Emit, Episode};

/// A request that was not accepted, so that no answer will come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rejected<T> {
    /// The token, returned.
    pub token: T,
    /// The reason.
    pub why: Rejection,
}

/// Reason why a request was not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rejection {
    /// There is no connection, or its handshake is not complete.
    NotReady,
    /// [`ClientSettings::max_waiting`] or [`ClientSettings::max_unanswered_bytes`] is reached.
    Full,
}

/// State of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Not started; the first tick starts it.
    Idle,
    /// The stream is open or opening, and the handshake is not complete.
    Connecting {
        /// Time by which it has to be complete.
        deadline_millis: u64,
        /// Number of completed steps.
        steps: usize,
    },
    /// Requests are accepted.
    Ready {
        /// Time at which the handshake was completed.
        since_millis: u64,
    },
    /// Waiting for the next attempt.
    Backoff {
        /// Time of that attempt.
        until_millis: u64,
    },
}

/// The connection. `T` is the caller's token of a request.
#[derive(Debug)]
pub struct Client<T> {
    settings: ClientSettings,
    state: State,
    now_millis: u64,
    queue: Queue<T>,
    decoder: Decoder,
    backoff: Backoff,
    episode: Episode,
    /// Bytes to be sent, and the number of requests in them.
    unsent: Vec<u8>,
    gathered: usize,
}

impl<T> Client<T> {
    /// A connection that the first tick starts. `seed` drives the jitter of reconnecting.
    #[must_use]
    pub fn new(settings: ClientSettings, seed: u64) -> Self {
        Self {
            state: State::Idle,
            now_millis: 0,
            queue: Queue::default(),
            decoder: Decoder::new(settings.limits),
            backoff: Backoff::new(settings.backoff, seed),
            episode: Episode::default(),
            unsent: Vec::new(),
            gathered: 0,
            settings,
        }
    }

    /// State of the connection.
    #[must_use]
    pub fn state(&self) -> State {
        self.state
    }

    /// True if requests are accepted.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        matches!(self.state, State::Ready { .. })
    }

    /// Number of outstanding replies.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.queue.len()
    }

    /// Accepts the command that `write` appends to the buffer, and sends it at once or with the next batch.
    ///
    /// # Errors
    /// [`Rejected`] returns the token if the request is not accepted: there is no connection, or no room.
    pub fn request(
        &mut self,
        now_millis: u64,
        token: T,
        write: impl FnOnce(&mut Vec<u8>),
        emit: Emit<'_, T>,
    ) -> Result<(), Rejected<T>> {
        self.clock(now_millis);
        let start = self.unsent.len();
        write(&mut self.unsent);
        let length = self.unsent.len() - start;
        if let Err(why) = self.admit(length) {
            self.unsent.truncate(start);
            return Err(Rejected { token, why });
        }
        self.queue.push(token, self.now_millis, length);
        self.gathered += 1;
        let is_alone = self.is_all_answered() && !self.settings.is_flushed;
        if is_alone || self.gathered >= self.settings.max_batch {
            self.send(emit);
        }
        Ok(())
    }

    /// Accepts a request of `length` bytes, which the host's own client is to send by the returned number.
    ///
    /// # Errors
    /// [`Rejected`], like [`Self::request`].
    pub fn request_by_number(
        &mut self,
        now_millis: u64,
        token: T,
        length: usize,
    ) -> Result<u32, Rejected<T>> {
        self.clock(now_millis);
        if let Err(why) = self.admit(length) {
            return Err(Rejected { token, why });
        }
        let number = self.queue.next_number();
        self.queue.push(token, self.now_millis, length);
        Ok(number)
    }

    /// True if the host's own client sends requests, by [`Self::request_by_number`].
    #[must_use]
    pub fn has_client(&self) -> bool {
        self.settings.has_client
    }

    fn admit(&self, length: usize) -> Result<(), Rejection> {
        let is_full = self.queue.len() >= self.settings.max_waiting
            || self.queue.bytes() + length > self.settings.max_unanswered_bytes;
        match self.state {
            State::Ready { .. } if !is_full => Ok(()),
            State::Ready { .. } => Err(Rejection::Full),
            _ => Err(Rejection::NotReady),
        }
    }

    /// The host's own client has connected.
    pub fn on_connected(&mut self, now_millis: u64) {
        self.clock(now_millis);
        if self.settings.has_client && matches!(self.state, State::Connecting { .. }) {
            self.state = State::Ready {
                since_millis: self.now_millis,
            };
        }
    }

    /// The host's own client answers requests by their numbers.
    pub fn on_answers(&mut self, now_millis: u64, answers: &[HashAnswer], emit: Emit<'_, T>) {
        self.clock(now_millis);
        if !self.is_ready() {
            return;
        }
        for (number, answer) in answers {
            let token = self.queue.answer(*number);
            let answer = answer.as_deref().map(Reply::Strings);
            self.deliver(token, answer.map_err(|message| message.as_bytes()), emit);
        }
    }

    /// True if gathered requests wait only for [`Self::flush`].
    #[must_use]
    pub fn is_flush_due(&self) -> bool {
        self.gathered > 0 && self.is_all_answered()
    }

    /// Sends the gathered requests once the host has no more to pass on, unless others are unanswered.
    pub fn flush(&mut self, emit: Emit<'_, T>) {
        if self.is_flush_due() {
            self.send(emit);
        }
    }

    /// Bytes came from the stream.
    pub fn on_data(&mut self, now_millis: u64, chunk: &[u8], emit: Emit<'_, T>) {
        self.clock(now_millis);
        // The decoder is moved out while replies borrow from it; after a failure the new one stays.
        let mut decoder = std::mem::replace(&mut self.decoder, Decoder::new(self.settings.limits));
        let mut rest = chunk;
        while self.is_connected() {
            match decoder.next(&mut rest) {
                Ok(Some(reply)) => self.on_reply(reply, emit),
                Ok(None) => {
                    self.decoder = decoder;
                    return self.flush(emit);
                }
                Err(error) => self.fail(Reason::Protocol(error), emit),
            }
        }
    }

    /// The stream has ended, or could not be opened.
    pub fn on_closed(&mut self, now_millis: u64, emit: Emit<'_, T>) {
        self.clock(now_millis);
        if self.is_connected() {
            self.fail(Reason::Closed, emit);
        }
    }

    /// Time has passed. The ticks are the resolution of all deadlines.
    pub fn on_tick(&mut self, now_millis: u64, emit: Emit<'_, T>) {
        self.clock(now_millis);
        match self.state {
            State::Idle => self.connect(emit),
            State::Backoff { until_millis } if until_millis <= self.now_millis => {
                self.connect(emit);
            }
            State::Backoff { .. } => {}
            State::Connecting {
                deadline_millis, ..
            } if deadline_millis <= self.now_millis => {
                self.fail(Reason::NoHandshake, emit);
            }
            State::Connecting { .. } => {}
            State::Ready { since_millis } => self.on_ready_tick(since_millis, emit),
        }
    }

    fn on_ready_tick(&mut self, since_millis: u64, emit: Emit<'_, T>) {
        if let Some(sent_millis) = self.now_millis.checked_sub(self.settings.timeout_millis) {
            while let Some(token) = self.queue.expire(sent_millis) {
                emit(Output::Deliver(token, Err(Failure::TimedOut)));
            }
        }
        let waited_millis = self
            .queue
            .oldest_millis()
            .map_or(0, |sent_millis| self.now_millis - sent_millis);
        if waited_millis >= self.settings.dead_after_millis {
            self.fail(Reason::NoAnswer, emit);
        } else if self.now_millis - since_millis >= self.backoff.bounds().cap_millis {
            self.episode.end(self.backoff.failures(), emit);
            self.backoff.reset();
        }
    }

    fn connect(&mut self, emit: Emit<'_, T>) {
        self.state = State::Connecting {
            deadline_millis: self
                .now_millis
                .saturating_add(self.settings.connect_timeout_millis),
            steps: 0,
        };
        emit(Output::OpenStream);
        self.settings.write_handshake(&mut self.unsent);
        if !self.unsent.is_empty() {
            emit(Output::Send(&self.unsent));
        }
        // The buffer has the password in it, and is reused.
        self.unsent.fill(0);
        self.unsent.clear();
    }

    /// True if everything that was sent has been answered.
    fn is_all_answered(&self) -> bool {
        self.queue.len() == self.gathered
    }

    fn send(&mut self, emit: Emit<'_, T>) {
        emit(Output::Send(&self.unsent));
        self.forget_unsent();
    }

    fn forget_unsent(&mut self) {
        self.unsent.clear();
        self.gathered = 0;
    }

    fn on_reply(&mut self, reply: Reply<'_>, emit: Emit<'_, T>) {
        match self.state {
            State::Connecting {
                deadline_millis,
                steps,
            } => {
                self.on_handshake(deadline_millis, steps, reply, emit);
            }
            State::Ready { .. } => self.on_next_answer(reply, emit),
            State::Idle | State::Backoff { .. } => {}
        }
    }

    fn on_handshake(
        &mut self,
        deadline_millis: u64,
        steps: usize,
        reply: Reply<'_>,
        emit: Emit<'_, T>,
    ) {
        let mut left = self.settings.handshake().skip(steps);
        let Some(step) = left.next() else {
            return self.fail(Reason::Unsolicited, emit);
        };
        let is_last = left.next().is_none();
        if reply != Reply::Simple(step.answer()) && !step.may_be_denied(reply) {
            return self.fail(Reason::refused(step, reply), emit);
        }
        self.state = if is_last {
            State::Ready {
                since_millis: self.now_millis,
            }
        } else {
            State::Connecting {
                deadline_millis,
                steps: steps + 1,
            }
        };
    }

    fn on_next_answer(&mut self, reply: Reply<'_>, emit: Emit<'_, T>) {
        if self.is_all_answered() {
            return self.fail(Reason::Unsolicited, emit);
        }
        let token = self.queue.pop().flatten();
        let answer = match reply {
            Reply::Error(message) => Err(message),
            reply => Ok(reply),
        };
        self.deliver(token, answer, emit);
    }

    fn deliver(&mut self, token: Option<T>, answer: Result<Reply<'_>, &[u8]>, emit: Emit<'_, T>) {
        if let Err(message) = answer {
            self.episode.on_error_reply(self.now_millis, message, emit);
        }
        if let Some(token) = token {
            emit(Output::Deliver(token, answer.map_err(Failure::Refused)));
        }
    }

    /// Gives the connection up: every request fails, and the next attempt is due after a pause.
    fn fail(&mut self, reason: Reason<'_>, emit: Emit<'_, T>) {
        let wait_millis = self.backoff.next_millis();
        self.state = State::Backoff {
            until_millis: self.now_millis.saturating_add(wait_millis),
        };
        self.decoder = Decoder::new(self.settings.limits);
        self.forget_unsent();
        if reason != Reason::Closed {
            emit(Output::CloseStream);
        }
        self.episode.on_failure(reason, emit);
        let mut queue = std::mem::take(&mut self.queue);
        while let Some(token) = queue.pop() {
            if let Some(token) = token {
                emit(Output::Deliver(token, Err(Failure::Disconnected)));
            }
        }
    }

    fn is_connected(&self) -> bool {
        matches!(self.state, State::Connecting { .. } | State::Ready { .. })
    }

    /// Treats a clock that went back as standing still.
    fn clock(&mut self, now_millis: u64) {
        self.now_millis = self.now_millis.max(now_millis);
    }
}
