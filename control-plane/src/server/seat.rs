//! The seat of a connection: given up to others while no request is in flight.

use crate::admission::Permit;
use axum::body::Body;
use axum::response::Response;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use std::future::pending;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::sleep;

/// The permit of a connection that is open.
#[derive(Debug)]
pub(super) struct Occupied {
    permit: Permit,
    in_flight: Mutex<u32>,
    has_begun: AtomicBool,
}

/// A request of a connection, which keeps its seat until this is dropped.
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

    /// Begins a request; `None` if the seat was given up just now, and the connection is about to be closed.
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

    /// Serves a connection to its end: that of `serving`, or when its seat was given up, or its first request has not come in time.
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
            () = self.permit.given_way() => tracing::debug!("connection closed: it was idle, and others have its place"),
            () = is_late => tracing::debug!("connection closed: no request came in time"),
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

/// The body of an answer, with what is held until it is sent.
pub(super) struct HeldBody<G> {
    body: Body,
    _guard: G,
}

/// An answer whose body keeps `guard`.
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
