//! The TLS handshake of a connection, and the reporting of failures.

use edgelink_settings::config::ListenerKind;
use edgelink_settings::telemetry::LogThrottle;
use edgelink_settings::telemetry::prometheus::HANDSHAKE_FAILURES;
use metrics::counter;
use rustls::ServerConfig;
use std::io::{self, ErrorKind};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// The peer of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PeerRole {
    /// A client, whose forwarding headers do not count.
    Client,
    /// A proxy of `server.trusted_proxies`, whose headers may name its client's protocol.
    Proxy,
}

/// A pending handshake.
pub(super) struct Handshake {
    pub(super) config: Arc<ServerConfig>,
    pub(super) listener: ListenerKind,
    pub(super) peer: IpAddr,
    pub(super) sender: PeerRole,
}

impl Handshake {
    /// Performs the handshake; `None` if it failed or took longer than `limit`.
    pub(super) async fn finish<S: AsyncRead + AsyncWrite + Unpin>(
        self,
        stream: S,
        limit: Duration,
    ) -> Option<TlsStream<S>> {
        let acceptor = TlsAcceptor::from(self.config.clone());
        let in_time = timeout(limit, acceptor.accept(stream)).await;
        match in_time.unwrap_or_else(|late| Err(late.into())) {
            Ok(stream) => Some(stream),
            Err(error) => {
                self.report(&error);
                None
            }
        }
    }

    fn report(&self, error: &io::Error) {
        static THROTTLE: LogThrottle = LogThrottle::new();
        let (listener, address) = (self.listener.word(), self.peer);
        let cause = cause(error);
        counter!(HANDSHAKE_FAILURES, "listener" => listener, "cause" => cause).increment(1);
        // Probes that only connect are normal.
        if cause == "left" {
            tracing::debug!(listener, %address, %error, "the client disconnected during the TLS handshake");
        } else if let Some(left_out) = THROTTLE.admit(Instant::now()) {
            tracing::warn!(
                listener,
                %address,
                %error,
                left_out,
                "connection closed: its TLS handshake failed"
            );
        }
    }
}

fn cause(error: &io::Error) -> &'static str {
    match error.kind() {
        ErrorKind::TimedOut => "late",
        // A violation of TLS, on either side.
        ErrorKind::InvalidData => "refused",
        _ => "left",
    }
}
