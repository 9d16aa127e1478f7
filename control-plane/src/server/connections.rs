//! Accepting connections, serving them, and seeing them off.

use crate::config::ServerConfig;
use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// How long accepting pauses when the system has no more sockets to give.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);
/// The largest head of a request in bytes; what is longer is answered 431.
const MAX_HEAD_BYTES: usize = 32_768;
/// The largest buffer of a connection in bytes.
const MAX_BUFFER_BYTES: usize = 65_536;

/// Accepts connections up to a bound.
pub(super) struct Acceptor {
    listener: TcpListener,
    permits: Arc<Semaphore>,
    http: http1::Builder,
}

/// Connections that are still open.
pub(super) struct Connections {
    tasks: TaskTracker,
    stop: CancellationToken,
    cut: CancellationToken,
}

impl Acceptor {
    pub(super) fn new(listener: TcpListener, config: &ServerConfig) -> Self {
        let mut http = http1::Builder::new();
        http.timer(TokioTimer::new())
            .header_read_timeout(config.header_timeout())
            .max_header_size(MAX_HEAD_BYTES)
            .max_buf_size(MAX_BUFFER_BYTES);
        Self {
            listener,
            permits: Arc::new(Semaphore::new(config.max_connections)),
            http,
        }
    }

    /// Accepts until `stop` is done, and closes the listener then.
    pub(super) async fn serve(self, router: Router, stop: impl Future<Output = ()>) -> Connections {
        let connections = Connections {
            tasks: TaskTracker::new(),
            stop: CancellationToken::new(),
            cut: CancellationToken::new(),
        };
        tokio::select! {
            () = self.accept_all(&router, &connections) => {}
            () = stop => {}
        }
        connections
    }

    async fn accept_all(&self, router: &Router, connections: &Connections) {
        // The semaphore is never closed, so there is always a permit at last.
        while let Ok(permit) = self.permits.clone().acquire_owned().await {
            match self.listener.accept().await {
                Ok((stream, _)) => connections.spawn(&self.http, stream, router.clone(), permit),
                Err(error) => pause_after(&error).await,
            }
        }
    }
}

/// A client that has left is nothing to us. Anything else means that the system is short of something.
async fn pause_after(error: &io::Error) {
    let is_clients_fault = matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionRefused
    );
    if !is_clients_fault {
        tracing::error!(%error, "connections cannot be accepted");
        tokio::time::sleep(ACCEPT_PAUSE).await;
    }
}

impl Connections {
    fn spawn(
        &self,
        http: &http1::Builder,
        stream: TcpStream,
        router: Router,
        permit: OwnedSemaphorePermit,
    ) {
        // Without this small answers wait for the client's acknowledgement; where it fails they only come later.
        let _ = stream.set_nodelay(true);
        let service = TowerToHyperService::new(router);
        let connection = http.serve_connection(TokioIo::new(stream), service);
        let (stop, cut) = (self.stop.clone(), self.cut.clone());
        self.tasks.spawn(async move {
            let _permit = permit;
            let mut connection = pin!(connection);
            let result = tokio::select! {
                result = connection.as_mut() => result,
                () = stop.cancelled() => {
                    connection.as_mut().graceful_shutdown();
                    tokio::select! {
                        result = connection => result,
                        () = cut.cancelled() => Ok(()),
                    }
                }
            };
            if let Err(error) = result {
                tracing::debug!(%error, "a connection ended early");
            }
        });
    }

    /// Lets every request in flight end within `grace`, then cuts what is left.
    pub(super) async fn finish(self, grace: Duration) {
        self.stop.cancel();
        self.tasks.close();
        if tokio::time::timeout(grace, self.tasks.wait())
            .await
            .is_err()
        {
            let count = self.tasks.len();
            tracing::warn!(
                count,
                "connections were cut off: their requests took too long"
            );
            self.cut.cancel();
            self.tasks.wait().await;
        }
    }
}
