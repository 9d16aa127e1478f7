//! The outputs of a client: actions for its owner, and events for the log, once per episode instead of once per failure.

use super::settings::HandshakeStep;
use crate::resp::reply::Reply;
use crate::resp::scan::ProtocolError;

/// Period after a reported error reply in which further ones are only counted, in milliseconds.
pub(super) const ERROR_REPLY_INTERVAL_MILLIS: u64 = 10_000;

/// An action for the owner of the client.
#[derive(Clone, Copy, Debug)]
pub enum Output<'a, T> {
    /// Open a stream. If it cannot be opened, report it by [`on_closed`](super::Client::on_closed); bytes sent until then are
    /// dropped.
    OpenStream,
    /// Write these bytes to the stream.
    Send(&'a [u8]),
    /// Close the stream without waiting, and drop everything that still comes from it.
    CloseStream,
    /// The request with this token is answered. Each token that was accepted comes back exactly once.
    Deliver(T, Result<Reply<'a>, Failure<'a>>),
    /// Something to log or count.
    Event(Event<'a>),
}

/// Reason why a request has no answer. It implies nothing about the requested key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure<'a> {
    /// No reply came within [`timeout_millis`](super::ClientSettings::timeout_millis).
    TimedOut,
    /// The connection was lost before the reply.
    Disconnected,
    /// Redis answered with this error.
    Refused(&'a [u8]),
}

/// Receiver of outputs.
pub(super) type Emit<'e, T> = &'e mut dyn FnMut(Output<'_, T>);

/// An event of interest to operators. A connection is retried for ever, but a failure is reported only once for each kind of
/// [`Reason`] until the connection has been up for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// The connection could not be established or was lost, for the first time in this episode for this reason.
    Down(Reason<'a>),
    /// It has been up for a while, which ends the episode.
    Recovered {
        /// The failures in the episode.
        failures: u32,
    },
    /// Redis answered a request with an error.
    ErrorReply {
        /// The latest message.
        message: &'a [u8],
        /// Number of error replies since the last such event, including this one.
        count: u64,
    },
}

/// Reason why a connection could not be established or was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason<'a> {
    /// The stream ended, or could not be opened.
    Closed,
    /// The handshake was not answered in time.
    NoHandshake,
    /// A step of the handshake was not answered with success.
    Refused {
        /// The step.
        step: HandshakeStep,
        /// The error message; empty if the answer was no error.
        message: &'a [u8],
    },
    /// The oldest request was not answered for too long.
    NoAnswer,
    /// The bytes received are not RESP2.
    Protocol(ProtocolError),
    /// A reply came without a request.
    Unsolicited,
}

impl<'a> Reason<'a> {
    pub(super) fn refused(step: HandshakeStep, reply: Reply<'a>) -> Self {
        let message = match reply {
            Reply::Error(message) => message,
            _ => b"",
        };
        Self::Refused { step, message }
    }

    fn bit(self) -> u8 {
        match self {
            Self::Closed => 1,
            Self::NoHandshake => 1 << 1,
            Self::Refused { .. } => 1 << 2,
            Self::NoAnswer => 1 << 3,
            Self::Protocol(_) => 1 << 4,
            Self::Unsolicited => 1 << 5,
        }
    }
}

impl std::fmt::Display for Reason<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Closed => f.write_str("the connection was closed or could not be opened"),
            Self::NoHandshake => f.write_str("the handshake was not answered in time"),
            Self::Refused { step, message } => {
                write!(f, "{step} was refused: {}", message.escape_ascii())
            }
            Self::NoAnswer => f.write_str("requests are not answered any more"),
            Self::Protocol(error) => write!(f, "not RESP2: {error}"),
            Self::Unsolicited => f.write_str("a reply came without a request"),
        }
    }
}

/// The events of the current episode that were reported already.
#[derive(Debug, Default)]
pub(super) struct Episode {
    /// One bit for each kind of reason.
    reported: u8,
    error_replies: u64,
    report_errors_millis: u64,
}

impl Episode {
    pub(super) fn on_failure<T>(&mut self, reason: Reason<'_>, emit: Emit<'_, T>) {
        if self.reported & reason.bit() == 0 {
            self.reported |= reason.bit();
            emit(Output::Event(Event::Down(reason)));
        }
    }

    pub(super) fn end<T>(&mut self, failures: u32, emit: Emit<'_, T>) {
        if self.reported != 0 {
            self.reported = 0;
            emit(Output::Event(Event::Recovered { failures }));
        }
    }

    pub(super) fn on_error_reply<T>(&mut self, now_millis: u64, message: &[u8], emit: Emit<'_, T>) {
        self.error_replies += 1;
        if now_millis < self.report_errors_millis {
            return;
        }
        self.report_errors_millis = now_millis.saturating_add(ERROR_REPLY_INTERVAL_MILLIS);
        let count = std::mem::take(&mut self.error_replies);
        emit(Output::Event(Event::ErrorReply { message, count }));
    }
}
