//! Handshake and bounds of a connection.

use crate::resp::encode;
use crate::resp::reply::Reply;
use crate::resp::scan::Limits;
use edgelink_wire::backoff::Bounds;

/// Settings of one connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientSettings {
    /// Type of the peer.
    pub mode: Mode,
    /// Timeout of the handshake, from opening the stream on, in milliseconds.
    pub connect_timeout_millis: u64,
    /// Timeout of a request, in milliseconds. The request fails then; the connection stays.
    pub timeout_millis: u64,
    /// Time after which the connection counts as dead if its oldest request is unanswered, in milliseconds; not below
    /// `timeout_millis`, or requests fail by a lost connection before they can time out.
    pub dead_after_millis: u64,
    /// Maximum number of requests whose replies are outstanding, including timed out ones.
    pub max_waiting: usize,
    /// Maximum bytes of such requests.
    pub max_unanswered_bytes: usize,
    /// Maximum number of requests gathered while others are unanswered, to be sent together; with 1, each is sent at once.
    pub max_batch: usize,
    /// True if a request that comes alone is gathered too, until the host has no more to pass on
    /// ([`Client::flush`](super::Client::flush)).
    pub is_flushed: bool,
    /// True if a client of the host's own speaks the protocol and logs in: requests are sent one by one, and answered by number.
    pub has_client: bool,
    /// Limits of a reply.
    pub limits: Limits,
    /// Pauses between attempts to connect.
    pub backoff: Bounds,
}

/// Type of the peer at the other end of the stream.
#[derive(Clone, PartialEq, Eq)]
pub enum Mode {
    /// A Redis server: every command, one connection per stream.
    Direct {
        /// `None` if it requires no password.
        auth: Option<Auth>,
        /// The name that `CLIENT LIST` shows; without spaces.
        name: String,
        /// The database; 0 if none is selected.
        database: u32,
    },
    /// Envoy's `redis_proxy`: it takes only some commands, and authenticates to Redis itself.
    Pooled,
}

/// The credentials for Redis.
#[derive(Clone, PartialEq, Eq)]
pub struct Auth {
    /// The ACL user; `None` for the default one.
    pub user: Option<String>,
    /// Its password.
    pub password: String,
}

/// One command of the handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandshakeStep {
    /// `AUTH`: user and password.
    Auth,
    /// `CLIENT SETNAME`: so that operators can identify the connection.
    SetName,
    /// `SELECT`: the database.
    Select,
    /// `PING`: proves that the server answers, if there is no other step.
    Ping,
}

impl std::fmt::Debug for Mode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Direct { name, database, .. } => write!(f, "Direct({name}, {database})"),
            Self::Pooled => f.write_str("Pooled"),
        }
    }
}

/// Never shows the password.
impl std::fmt::Debug for Auth {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Auth")
            .field("user", &self.user)
            .finish_non_exhaustive()
    }
}

impl std::fmt::Display for HandshakeStep {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Auth => "AUTH",
            Self::SetName => "CLIENT SETNAME",
            Self::Select => "SELECT",
            Self::Ping => "PING",
        })
    }
}

impl HandshakeStep {
    /// The one reply that completes the step.
    pub(super) fn answer(self) -> &'static [u8] {
        match self {
            Self::Ping => b"PONG",
            Self::Auth | Self::SetName | Self::Select => b"OK",
        }
    }

    /// True if that reply denies an optional step: with users whom an ACL keeps from `CLIENT`, and with servers that lack it,
    /// the connection has no name. Other errors, such as `NOAUTH`, concern more than the step.
    pub(super) fn may_be_denied(self, reply: Reply<'_>) -> bool {
        let is_denial =
            |message: &[u8]| message.starts_with(b"NOPERM") || message.starts_with(b"ERR unknown");
        self == Self::SetName && matches!(reply, Reply::Error(message) if is_denial(message))
    }
}

impl ClientSettings {
    /// The steps of the handshake, in order; at least one, so that a ready connection has answered something, but none where a client
    /// of the host's reports that it has connected.
    pub(super) fn handshake(&self) -> impl Iterator<Item = HandshakeStep> + use<> {
        let steps = match &self.mode {
            _ if self.has_client => [None; 3],
            Mode::Pooled => [Some(HandshakeStep::Ping), None, None],
            Mode::Direct { auth, database, .. } => [
                auth.as_ref().map(|_| HandshakeStep::Auth),
                Some(HandshakeStep::SetName),
                (*database > 0).then_some(HandshakeStep::Select),
            ],
        };
        steps.into_iter().flatten()
    }

    pub(super) fn write_handshake(&self, out: &mut Vec<u8>) {
        if self.has_client {
            return;
        }
        let Mode::Direct {
            auth,
            name,
            database,
        } = &self.mode
        else {
            return encode::words(&[b"PING"], out);
        };
        if let Some(auth) = auth {
            write_auth(auth.user.as_deref(), &auth.password, out);
        }
        encode::words(&[b"CLIENT", b"SETNAME", name.as_bytes()], out);
        if *database > 0 {
            encode::command(2, out);
            encode::argument(b"SELECT", out);
            encode::number(u64::from(*database), out);
        }
    }
}

/// Writes `AUTH`, for the default user if none is named.
pub fn write_auth(user: Option<&str>, password: &str, out: &mut Vec<u8>) {
    let password = password.as_bytes();
    match user {
        Some(user) => encode::words(&[b"AUTH", user.as_bytes(), password], out),
        None => encode::words(&[b"AUTH", password], out),
    }
}
