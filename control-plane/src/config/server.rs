//! The HTTP server and its bounds.

use super::error::Checks;
use super::text;
use serde::Deserialize;
use std::net::SocketAddr;
use std::time::Duration;

/// The HTTP server and its bounds.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "a section")]
pub struct ServerConfig {
    /// Address and port to listen on; port 0 takes a free one, which the log line `listening` names. API, edge API,
    /// redirects, health and metrics share it. Default `127.0.0.1:8081`: from outside of this machine nobody gets in.
    #[serde(deserialize_with = "text::parsed")]
    pub listen: SocketAddr,
    /// The largest request body in bytes, 1,024 to 16,777,216. Default 65,536. A larger one is answered 413.
    pub max_body_bytes: usize,
    /// The largest body of a bulk request in bytes, 1,024 to 268,435,456. Default 33,554,432. A larger one is answered 413.
    pub max_bulk_body_bytes: usize,
    /// How many bulk requests are worked on at once, 1 to 1,000. Default 4: each may hold a body's worth of memory. Further
    /// ones are answered 503.
    pub max_bulk_requests: usize,
    /// How many connections may be open at once, 1 to 1,000,000. Default 4,096. Further ones have those of
    /// `health_connections`.
    pub max_connections: usize,
    /// How many of them one client address may have (IPv6: one /64), 1 to 1,000,000. Default 1,024. Further ones are closed
    /// at once. Where one proxy brings all the traffic, raise it to `max_connections`.
    pub max_connections_per_address: usize,
    /// How many connections there may be beyond `max_connections`, 0 to 1,000. Default 16. Only `/health/*` and `/metrics`
    /// are answered in them, all else 503, and they are closed then. What comes beyond them waits in the kernel's queue.
    pub health_connections: usize,
    /// How many requests are worked on at once, 1 to 100,000; health and metrics do not count. Default 512. Further
    /// ones are answered 503 at once, because waiting in a queue helps nobody once the database is the bottleneck.
    pub max_requests: usize,
    /// How long a client may take to send the head of a request, in milliseconds, 100 to 600,000; also how long an idle
    /// connection is kept. Default 60,000: longer than proxies keep theirs (Envoy's bootstrap: 30 s), because who closes
    /// first must be the one who sends.
    pub header_timeout_ms: u64,
    /// For how long a client may take nothing of an answer that waits for it, in milliseconds, 100 to 600,000. Default
    /// 10,000. Then its connection is closed: who reads nothing would hold it for ever.
    pub write_timeout_ms: u64,
    /// How long a client may take to send the body of a request, in milliseconds, 100 to 60,000. Default 5,000. A slower
    /// one is answered 408. A bulk body has a second more for each 64 KiB that have come.
    pub body_timeout_ms: u64,
    /// How long a request may take altogether, in milliseconds, 100 to 600,000; a bulk request from the end of its body on.
    /// Default 10,000. One that takes longer is given up and answered 503; what it wanted may have happened nevertheless.
    pub request_timeout_ms: u64,
    /// For how long `/health/ready` says no before the listener closes, in milliseconds, 0 to 60,000, so that balancers
    /// have time to look. Default 0: it closes at once.
    pub shutdown_delay_ms: u64,
    /// How long requests in flight may take to end when the process is told to stop, in milliseconds, 0 to 600,000.
    /// Default 10,000. What is not done by then is cut off.
    pub shutdown_grace_ms: u64,
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 8081)),
            max_body_bytes: 65_536,
            max_bulk_body_bytes: 33_554_432,
            max_bulk_requests: 4,
            max_connections: 4_096,
            max_connections_per_address: 1_024,
            health_connections: 16,
            max_requests: 512,
            header_timeout_ms: 60_000,
            write_timeout_ms: 10_000,
            body_timeout_ms: 5_000,
            request_timeout_ms: 10_000,
            shutdown_delay_ms: 0,
            shutdown_grace_ms: 10_000,
        }
    }
}

impl ServerConfig {
    pub(super) fn check(&self, checks: &mut Checks) {
        checks.range(
            "server.max_body_bytes",
            self.max_body_bytes,
            &(1_024..=16_777_216),
        );
        checks.range(
            "server.max_bulk_body_bytes",
            self.max_bulk_body_bytes,
            &(1_024..=268_435_456),
        );
        checks.range(
            "server.max_bulk_requests",
            self.max_bulk_requests,
            &(1..=1_000),
        );
        checks.range(
            "server.max_connections",
            self.max_connections,
            &(1..=1_000_000),
        );
        checks.range(
            "server.max_connections_per_address",
            self.max_connections_per_address,
            &(1..=1_000_000),
        );
        checks.range(
            "server.health_connections",
            self.health_connections,
            &(0..=1_000),
        );
        checks.range(
            "server.write_timeout_ms",
            self.write_timeout_ms,
            &(100..=600_000),
        );
        checks.range("server.max_requests", self.max_requests, &(1..=100_000));
        checks.range(
            "server.header_timeout_ms",
            self.header_timeout_ms,
            &(100..=600_000),
        );
        checks.range(
            "server.body_timeout_ms",
            self.body_timeout_ms,
            &(100..=60_000),
        );
        checks.range(
            "server.request_timeout_ms",
            self.request_timeout_ms,
            &(100..=600_000),
        );
        checks.range(
            "server.shutdown_delay_ms",
            self.shutdown_delay_ms,
            &(0..=60_000),
        );
        checks.range(
            "server.shutdown_grace_ms",
            self.shutdown_grace_ms,
            &(0..=600_000),
        );
    }

    pub(crate) fn header_timeout(&self) -> Duration {
        Duration::from_millis(self.header_timeout_ms)
    }

    pub(crate) fn write_timeout(&self) -> Duration {
        Duration::from_millis(self.write_timeout_ms)
    }

    pub(crate) fn body_timeout(&self) -> Duration {
        Duration::from_millis(self.body_timeout_ms)
    }

    pub(crate) fn request_timeout(&self) -> Duration {
        Duration::from_millis(self.request_timeout_ms)
    }

    pub(crate) fn shutdown_delay(&self) -> Duration {
        Duration::from_millis(self.shutdown_delay_ms)
    }

    pub(crate) fn shutdown_grace(&self) -> Duration {
        Duration::from_millis(self.shutdown_grace_ms)
    }
}
