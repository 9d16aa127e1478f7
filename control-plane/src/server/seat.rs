//! The seat of a connection, which it gives up to others while no request is in flight.

use axum::body::Body;
use axum::response::Response;
use edgelink_settings::admission::Permit;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use std::future::pending;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::sleep;

/// The permit of an open connection.
#[derive(Debug)]
pub(super) struct Occupied {
    permit: Permit,
    in_flight: Mutex<u32>,
    has_begun: AtomicBool,
}

/// A request in flight, which holds the seat of its connection until it is dropped.
#[derive(Debug)]
pub(super) struct InFlight(Arc<Occupied>);

impl Occupied {
    pub(super) fn new(permit: Permit) -> Self {
        Self {
            permit,
            in_flight: Mutex::default(),
            has_begun: AtomicBool::new(false),
        }
    }

    /// Begins a request; `None` if the seat was just given up, and the connection is about to be closed.
    pub(super) fn begin(self: &Arc<Self>) -> Option<InFlight> {
        let mut in_flight = self
            .in_flight
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if *in_flight == 0 {
            if !self.permit.settle() {
                return None;
            }
            self.has_begun.store(true, Ordering::Relaxed);
            self.permit.pay(1);
        }
        *in_flight += 1;
        Some(InFlight(self.clone()))
    }

    /// Serves a connection until `serving` ends, its seat is given up, or its first request is not received in time.
    pub(super) async fn keep(&self, serving: impl Future<Output = ()>, first_head: Duration) {
        let is_late = async {
            sleep(first_head).await;
            if self.has_begun.load(Ordering::Relaxed) {
                pending::<()>().await;
            }
        };
        tokio::select! {
            biased;
            () = serving => {}
            () = self.permit.given_way() => tracing::debug!("idle connection closed to make room for others"),
            () = is_late => tracing::debug!("connection closed: no request received in time"),
        }
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        let mut in_flight = self
            .0
            .in_flight
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *in_flight -= 1;
        if *in_flight == 0 {
            self.0.permit.unsettle();
        }
    }
}

/// A response body with a guard that is held until it is sent.
pub(super) struct HeldBody<G> {
    body: Body,
    _guard: G,
}

/// Attaches `guard` to the body of a response.
pub(super) fn held<G>(response: Response, guard: G) -> Response<HeldBody<G>> {
    response.map(|body| HeldBody {
        body,
        _guard: guard,
    })
}

impl<G: Unpin> HttpBody for HeldBody<G> {
    type Data = <Body as HttpBody>::Data;
    type Error = <Body as HttpBody>::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
