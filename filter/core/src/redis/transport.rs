//! The host's part of a connection to Redis: carries out the output of the client of [`crate::resp`], in the order and at the times that
//! the host permits.

use crate::host::{ConnectionToken, HashLookup, Lookups};
use crate::settings::RedisSettings;

/// A connection of the host, and earlier ones that are still to be closed.
#[derive(Debug)]
pub(super) struct Transport {
    settings: RedisSettings,
    current: Option<ConnectionToken>,
    /// Connections that are done with, and that the next tick closes: the host permits it only in a tick.
    to_close: Vec<ConnectionToken>,
    /// Set if the host refused to open the connection, or to send.
    is_refused: bool,
}

impl Transport {
    pub(super) fn new(settings: RedisSettings) -> Self {
        Self {
            settings,
            current: None,
            to_close: Vec::new(),
            is_refused: false,
        }
    }

    pub(super) fn open(&mut self, host: &mut impl Lookups) {
        self.close();
        self.current = host.open(&self.settings);
        self.is_refused = self.current.is_none();
    }

    pub(super) fn send(&mut self, host: &mut impl Lookups, bytes: &[u8]) {
        if let Some(connection) = self.current {
            self.is_refused |= !host.send(connection, bytes);
        }
    }

    pub(super) fn look_up(&mut self, host: &mut impl Lookups, lookup: HashLookup) {
        if let Some(connection) = self.current {
            self.is_refused |= !host.look_up(connection, lookup);
        }
    }

    /// Ignores the connection from now on, and closes it with the next tick.
    pub(super) fn close(&mut self) {
        self.to_close.extend(self.current.take());
        self.is_refused = false;
    }

    /// True if the host refused the connection since the last call; if so, closes it.
    pub(super) fn take_refused(&mut self) -> bool {
        let is_refused = std::mem::take(&mut self.is_refused);
        if is_refused {
            self.close();
        }
        is_refused
    }

    /// True if what comes on that connection is for the client.
    pub(super) fn carries(&self, connection: ConnectionToken) -> bool {
        self.current == Some(connection)
    }

    /// A connection has ended. Returns `true` if it was the client's.
    pub(super) fn on_end(&mut self, host: &mut impl Lookups, connection: ConnectionToken) -> bool {
        let was_closed = self.to_close.contains(&connection);
        self.to_close.retain(|closed| *closed != connection);
        let was_ours = self.carries(connection);
        if was_ours {
            self.current = None;
        }
        if was_ours || was_closed {
            host.close(connection);
        }
        was_ours
    }

    /// Closes the connections that are done with.
    pub(super) fn on_tick(&mut self, host: &mut impl Lookups) {
        for connection in self.to_close.drain(..) {
            host.close(connection);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::{Wires, settings_with};

    fn pair() -> (Transport, Wires) {
        let settings = settings_with(r#","redis":{"mode":"direct"}"#)
            .redis
            .unwrap();
        (Transport::new(settings), Wires::default())
    }

    #[test]
    fn connection_when_opened_carries_bytes() {
        let (mut grpc, mut wires) = pair();
        grpc.open(&mut wires);
        grpc.send(&mut wires, b"x");
        assert_eq!(wires.opened, ["resp_bridge"]);
        assert_eq!(wires.sent, [(1, b"x".to_vec())]);
        assert!(grpc.carries(1) && !grpc.carries(2));
        assert!(!grpc.take_refused());
    }

    #[test]
    fn connection_when_done_with_is_closed_at_the_next_tick() {
        let (mut grpc, mut wires) = pair();
        grpc.open(&mut wires);
        grpc.close();
        assert!(!grpc.carries(1));
        grpc.send(&mut wires, b"x");
        assert!(wires.sent.is_empty() && wires.closed.is_empty());
        grpc.on_tick(&mut wires);
        grpc.on_tick(&mut wires);
        assert_eq!(wires.closed, [1]);
    }

    #[test]
    fn connection_when_ended_is_closed_once() {
        let (mut grpc, mut wires) = pair();
        grpc.open(&mut wires);
        assert!(grpc.on_end(&mut wires, 1));
        assert!(!grpc.on_end(&mut wires, 1));
        grpc.open(&mut wires);
        grpc.close();
        assert!(!grpc.on_end(&mut wires, 2), "closed by us before");
        assert!(!grpc.on_end(&mut wires, 77), "none of ours");
        grpc.on_tick(&mut wires);
        assert_eq!(wires.closed, [1, 2]);
    }

    #[test]
    fn connection_when_the_host_refuses_counts_as_ended() {
        let (mut grpc, mut wires) = pair();
        wires.refuses = true;
        grpc.open(&mut wires);
        grpc.send(&mut wires, b"x");
        assert!(grpc.take_refused());
        assert!(!grpc.take_refused());
        wires.refuses = false;
        grpc.open(&mut wires);
        wires.refuses = true;
        grpc.send(&mut wires, b"x");
        assert!(grpc.take_refused());
        grpc.on_tick(&mut wires);
        assert_eq!(wires.closed, [1]);
    }
}
