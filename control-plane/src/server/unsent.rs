//! Resets HTTP/2 streams whose clients accept nothing of a response. In HTTP/1.1 a stalled write shows that; an HTTP/2 client has a flow
//! control window for each stream (RFC 9113, section 5.2), and may keep all of them at zero while the connection itself works.

use axum::body::Body;
use axum::response::Response;
use bytes::{Buf, Bytes};
use hyper::body::{Frame, SizeHint};
use hyper::rt::Executor;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

tokio::task_local! {
    /// Unsent data of this task's stream.
    static UNSENT: Arc<Unsent>;
}

/// Runs each stream in its own task, which is dropped, and so the stream reset, when its client accepts nothing for that long.
#[derive(Clone, Debug)]
pub(super) struct Streams {
    pub(super) write_timeout: Duration,
}

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for Streams {
    fn execute(&self, stream: F) {
        let unsent = Arc::<Unsent>::default();
        let limit = self.write_timeout;
        let task = UNSENT.scope(unsent.clone(), async move {
            tokio::select! {
                // The stream comes first, because it adds unsent data.
                biased;
                () = stream => {}
                () = unsent.outlasts(limit) => tracing::debug!("stream reset: its client accepts nothing of the response"),
            }
        });
        tokio::spawn(task);
    }
}

/// Data passed to a stream that is not sent yet.
#[derive(Debug, Default)]
struct Unsent(Mutex<UnsentState>);

#[derive(Debug, Default)]
struct UnsentState {
    chunks: usize,
    /// Time of the last progress, or of passing on the first chunk.
    progress: Option<Instant>,
    /// Woken when all is sent.
    waker: Option<Waker>,
}

impl Unsent {
    fn state(&self) -> MutexGuard<'_, UnsentState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_empty(&self) -> bool {
        self.state().chunks == 0
    }

    fn chunk(self: &Arc<Self>, bytes: Bytes) -> BodyChunk {
        let mut state = self.state();
        if state.chunks == 0 {
            state.progress = Some(Instant::now());
        }
        state.chunks += 1;
        let unsent = self.clone();
        BodyChunk { bytes, unsent }
    }

    fn poll_empty(&self, cx: &Context<'_>) -> Poll<()> {
        let mut state = self.state();
        if state.chunks == 0 {
            return Poll::Ready(());
        }
        state.waker = Some(cx.waker().clone());
        Poll::Pending
    }

    /// Completes when data is unsent and no progress was made for `limit`. It must be polled after the code that adds data, in the
    /// same task.
    async fn outlasts(&self, limit: Duration) {
        loop {
            let deadline = poll_fn(|_| self.deadline(limit)).await;
            sleep_until(deadline).await;
            if self.deadline(limit) == Poll::Ready(deadline) {
                return;
            }
        }
    }

    fn deadline(&self, limit: Duration) -> Poll<Instant> {
        let state = self.state();
        match state.progress {
            Some(progress) if state.chunks > 0 => Poll::Ready(progress + limit),
            _ => Poll::Pending,
        }
    }
}

/// A part of a body, which counts as unsent until it is dropped.
#[derive(Debug)]
pub(super) struct BodyChunk {
    bytes: Bytes,
    unsent: Arc<Unsent>,
}

impl Buf for BodyChunk {
    fn remaining(&self) -> usize {
        self.bytes.remaining()
    }

    fn chunk(&self) -> &[u8] {
        self.bytes.chunk()
    }

    fn advance(&mut self, count: usize) {
        self.bytes.advance(count);
        self.unsent.state().progress = Some(Instant::now());
    }
}

impl Drop for BodyChunk {
    fn drop(&mut self) {
        let mut state = self.unsent.state();
        state.chunks -= 1;
        if state.chunks == 0
            && let Some(waker) = state.waker.take()
        {
            waker.wake();
        }
    }
}

/// A body that ends when all of it is sent, which keeps the task of its stream alive until then.
#[derive(Debug)]
pub(super) struct WatchedBody<G> {
    body: Body,
    has_ended: bool,
    unsent: Arc<Unsent>,
    /// Dropped with the body.
    _guard: G,
}

/// Attaches `guard` to the watched body of a response in a stream.
pub(super) fn watched<G>(response: Response, guard: G) -> Response<WatchedBody<G>> {
    let unsent = UNSENT.try_with(Arc::clone).unwrap_or_default();
    response.map(|body| WatchedBody {
        body,
        has_ended: false,
        unsent,
        _guard: guard,
    })
}

impl<G: Unpin> hyper::body::Body for WatchedBody<G> {
    type Data = BodyChunk;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<BodyChunk>, axum::Error>>> {
        if !self.has_ended {
            if let Some(frame) = ready!(Pin::new(&mut self.body).poll_frame(cx)) {
                let chunk = |bytes| self.unsent.chunk(bytes);
                return Poll::Ready(Some(frame.map(|frame| frame.map_data(chunk))));
            }
            self.has_ended = true;
        }
        self.unsent.poll_empty(cx).map(|()| None)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream() && self.unsent.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
