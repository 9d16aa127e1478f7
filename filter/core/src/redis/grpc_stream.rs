//! A connection to Redis over the proxy: a gRPC stream to the bridge.
//!
//! Carries out the output of the client of [`crate::resp`], in the order and at the times that the proxy permits.

use crate::host::{StreamToken, Streams};

/// The service in the path of a stream, `/redis/{method}`; the routes of the bridge's listener go by it.
const SERVICE: &str = "redis";

/// Destination of the bridge's route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Method {
    /// Straight to a Redis server.
    Direct,
    /// To Envoy's `redis_proxy`.
    Pooled,
}

impl Method {
    /// Its name in the path.
    fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Pooled => "pooled",
        }
    }
}

/// The stream of one connection, and earlier ones that are still to be cancelled.
#[derive(Debug)]
pub(super) struct GrpcStream {
    cluster: String,
    method: Method,
    stream: Option<StreamToken>,
    /// Closed streams that the next tick cancels: the proxy permits it only in a tick.
    to_cancel: Vec<StreamToken>,
    /// Set if the proxy refused to open the stream, or to send.
    is_refused: bool,
}

impl GrpcStream {
    pub(super) fn new(cluster: &str, method: Method) -> Self {
        Self {
            cluster: cluster.to_owned(),
            method,
            stream: None,
            to_cancel: Vec::new(),
            is_refused: false,
        }
    }

    pub(super) fn open(&mut self, streams: &mut impl Streams) {
        self.close();
        self.stream = streams.open(&self.cluster, SERVICE, self.method.name());
        self.is_refused = self.stream.is_none();
    }

    pub(super) fn send(&mut self, streams: &mut impl Streams, bytes: &[u8]) {
        if let Some(stream) = self.stream {
            self.is_refused |= !streams.send(stream, bytes);
        }
    }

    /// Ignores the stream from now on, and cancels it with the next tick.
    pub(super) fn close(&mut self) {
        self.to_cancel.extend(self.stream.take());
        self.is_refused = false;
    }

    /// True if the proxy refused the stream since the last call; if so, closes the stream.
    pub(super) fn take_refused(&mut self) -> bool {
        let is_refused = std::mem::take(&mut self.is_refused);
        if is_refused {
            self.close();
        }
        is_refused
    }

    /// True if bytes of that stream are for the client.
    pub(super) fn carries(&self, stream: StreamToken) -> bool {
        self.stream == Some(stream)
    }

    /// A stream has ended. Returns `true` if it was the client's.
    pub(super) fn on_end(&mut self, streams: &mut impl Streams, stream: StreamToken) -> bool {
        let was_closed = self.to_cancel.contains(&stream);
        self.to_cancel.retain(|closed| *closed != stream);
        let was_ours = self.carries(stream);
        if was_ours {
            self.stream = None;
        }
        if was_ours || was_closed {
            streams.cancel(stream);
        }
        was_ours
    }

    /// Cancels closed streams.
    pub(super) fn on_tick(&mut self, streams: &mut impl Streams) {
        for stream in self.to_cancel.drain(..) {
            streams.cancel(stream);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Wires;

    fn pair() -> (GrpcStream, Wires) {
        (GrpcStream::new("bridge", Method::Direct), Wires::default())
    }

    #[test]
    fn stream_when_opened_names_its_method_and_carries_bytes() {
        let (mut grpc, mut wires) = pair();
        grpc.open(&mut wires);
        grpc.send(&mut wires, b"x");
        assert_eq!(wires.opened, ["bridge/redis/direct"]);
        assert_eq!(wires.sent, [(1, b"x".to_vec())]);
        assert!(grpc.carries(1) && !grpc.carries(2));
        assert!(!grpc.take_refused());
    }

    #[test]
    fn stream_when_closed_is_cancelled_at_the_next_tick() {
        let (mut grpc, mut wires) = pair();
        grpc.open(&mut wires);
        grpc.close();
        assert!(!grpc.carries(1));
        grpc.send(&mut wires, b"x");
        assert!(wires.sent.is_empty() && wires.cancelled.is_empty());
        grpc.on_tick(&mut wires);
        grpc.on_tick(&mut wires);
        assert_eq!(wires.cancelled, [1]);
    }

    #[test]
    fn stream_when_ended_is_cancelled_once() {
        let (mut grpc, mut wires) = pair();
        grpc.open(&mut wires);
        assert!(grpc.on_end(&mut wires, 1));
        assert!(!grpc.on_end(&mut wires, 1));
        grpc.open(&mut wires);
        grpc.close();
        assert!(!grpc.on_end(&mut wires, 2), "closed by us before");
        assert!(!grpc.on_end(&mut wires, 77), "none of ours");
        grpc.on_tick(&mut wires);
        assert_eq!(wires.cancelled, [1, 2]);
    }

    #[test]
    fn stream_when_the_proxy_refuses_counts_as_ended() {
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
        assert_eq!(wires.cancelled, [1]);
    }
}
