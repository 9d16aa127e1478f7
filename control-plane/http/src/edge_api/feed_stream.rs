//! `POST /edge/v1/feed/stream?after=&generation=&waitMs=`: the feed in frames of [`feed_stream`](edgelink_wire::feed_stream), while
//! the body of the request acknowledges what the edge has applied. Each acknowledgement is a poll, and the next frame its answer; so is
//! the first one that of the request, 503 included. The stream ends where a poll would fail, with the edge's token, with this process,
//! and when the edge acknowledges nothing: it begins another one after its position.

use super::feed::{FeedQuery, SHARED_BYTES, poller_of};
use crate::app::App;
use crate::auth::bearer;
use axum::body::{Body, BodyDataStream, Bytes};
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use edgelink_feed::ChangeBatch;
use edgelink_service::problem::Problem;
use edgelink_settings::admission::{Claim, Permit};
use edgelink_wire::FeedPoint;
use edgelink_wire::clicks::WorkerId;
use edgelink_wire::feed_stream::{
    MAX_ACKNOWLEDGEMENT, MEDIA_TYPE, frame_head, read_acknowledgement,
};
use futures_util::stream::{self, StreamExt};
use http::{HeaderMap, HeaderValue, Uri, header};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// Time for which a stream is kept whose edge acknowledges nothing. An edge that has not read the feed for so long serves nothing by it.
const MAX_PAUSE: Duration = Duration::from_secs(10);

pub(crate) async fn stream(
    State(app): State<Arc<App>>,
    uri: Uri,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let query = FeedQuery::parse(uri.query().unwrap_or_default())?;
    let permit = app.bounded.polls.try_take(Claim::default())?;
    let wait = query.wait.min(app.config.feed.max_wait_ms);
    let worker = poller_of(&headers)?;
    let first = app.feed.poll(worker, query.place(), wait).await?;
    let feeding = Feeding {
        worker,
        first: Some(first),
        body: body.into_data_stream(),
        unread: Vec::new(),
        token: bearer(&headers).unwrap_or_default().to_owned(),
        wait,
        app,
        _permit: permit,
    };
    let frames = stream::unfold(feeding, |mut feeding| async move {
        let parts = frame(&feeding.next().await?);
        let parts = parts.into_iter().map(Ok::<_, Infallible>);
        Some((stream::iter(parts), feeding))
    });
    let content_type = HeaderValue::from_static(MEDIA_TYPE);
    let headers = [(header::CONTENT_TYPE, content_type)];
    Ok((headers, Body::from_stream(frames.flatten())).into_response())
}

/// The frame of a batch, in parts that are not empty: clients may close a connection on which empty ones come. All streams share the
/// memory of a long one.
fn frame(batch: &ChangeBatch) -> Vec<Bytes> {
    let (head, messages) = (batch.head_bytes(), batch.messages.encoded());
    let mut start = frame_head(head.len() + messages.len());
    start.extend_from_slice(&head);
    if messages.len() >= SHARED_BYTES {
        return vec![start.into(), messages];
    }
    start.extend_from_slice(&messages);
    vec![start.into()]
}

/// A stream of an edge. It holds its permit between two frames.
struct Feeding {
    app: Arc<App>,
    /// The worker that acknowledges; `None` for one without a name.
    worker: Option<WorkerId>,
    first: Option<ChangeBatch>,
    /// The acknowledgements.
    body: BodyDataStream,
    unread: Vec<u8>,
    /// The token of the edge, which may be withdrawn.
    token: String,
    wait: Duration,
    _permit: Permit,
}

impl Feeding {
    /// Waits for the next batch; `None` at the end.
    async fn next(&mut self) -> Option<ChangeBatch> {
        if let Some(first) = self.first.take() {
            return Some(first);
        }
        let point = timeout(MAX_PAUSE, self.acknowledged()).await.ok()??;
        let app = &self.app;
        if app.feed.is_shut_down() || !app.edge_tokens.current().contains(&self.token) {
            return None;
        }
        app.feed
            .poll(self.worker, Some(point), self.wait)
            .await
            .ok()
    }

    /// Waits for the next acknowledgement; `None` if the edge has ended, or sends anything else.
    async fn acknowledged(&mut self) -> Option<FeedPoint> {
        loop {
            let mut rest = self.unread.as_slice();
            if let Some(point) = read_acknowledgement(&mut rest).ok()? {
                let taken = self.unread.len() - rest.len();
                self.unread.drain(..taken);
                return Some(point);
            }
            if self.unread.len() >= MAX_ACKNOWLEDGEMENT {
                return None;
            }
            let more = self.body.next().await?.ok()?;
            self.unread.extend_from_slice(&more);
        }
    }
}
