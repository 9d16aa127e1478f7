//! The feed as a stream: the polls of the edge are answered from it, and acknowledge by it what the edge has applied.
//!
//! The core knows polls alone. While there is a stream, a poll that goes on where the last frame ended is an acknowledgement, and the
//! next frame is its answer. Any other poll begins a stream after its position, and a server that has no streams is polled.

use super::connection::{ConnectionHandle, RequestBody, Sent};
use super::server::{FEED_PATH, KnownServer};
use super::servers::Unavailable;
use super::{CalloutAnswer, CalloutRequest, ClientState};
use edgelink_wire::FeedBatch;
use edgelink_wire::{FeedPoint, feed_stream};
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use std::sync::Arc;
use tokio::time::{Instant, timeout_at};

/// A stream of a server.
pub(super) struct FeedStream {
    server: Arc<KnownServer>,
    connection: ConnectionHandle,
    sent: Sent,
    unread: Vec<u8>,
    /// The headers of the poll that began it, which name its edge.
    headers: HeaderMap,
    wait_millis: u64,
    /// The end of the last frame.
    point: Option<FeedPoint>,
}

/// The stream is of no use any more.
struct Broken;

/// The beginning of a stream.
enum StreamBeginning {
    Stream(Box<FeedStream>),
    /// The poll is answered without one.
    Answer(CalloutAnswer),
    /// No server has it.
    Unknown,
}

impl ClientState {
    /// Answers a poll from a stream; `None` if the servers have none, or another poll has it.
    pub(super) async fn stream_poll(
        &self,
        request: &CalloutRequest,
        deadline: Instant,
    ) -> Option<CalloutAnswer> {
        let (point, wait_millis) = point_of(request)?;
        let mut kept = self.stream.try_lock().ok()?;
        let going_on = kept.take().filter(|stream| {
            stream.point == Some(point)
                && stream.wait_millis == wait_millis
                && stream.headers == request.headers
        });
        let going_on = going_on.and_then(|mut stream| {
            stream.acknowledge(point).ok()?;
            Some(stream)
        });
        let mut stream = match going_on {
            Some(stream) => stream,
            None => match timeout_at(
                deadline,
                self.begin_stream((request, wait_millis), deadline),
            )
            .await
            {
                Ok(StreamBeginning::Stream(stream)) => stream,
                Ok(StreamBeginning::Answer(answer)) => return Some(answer),
                Ok(StreamBeginning::Unknown) => return None,
                Err(_) => return Some(CalloutAnswer::timeout()),
            },
        };
        let (server, connection) = (Arc::clone(&stream.server), stream.connection.clone());
        let answer = timeout_at(deadline, stream.next(request.max_body)).await;
        server.note(request.lane, !matches!(answer, Ok(Ok(_))));
        Some(match answer {
            Ok(Ok(body)) => {
                *kept = Some(stream);
                CalloutAnswer {
                    status: Some(StatusCode::OK),
                    content_type: Some(HeaderValue::from_static(FeedBatch::MEDIA_TYPE)),
                    body,
                    ..CalloutAnswer::default()
                }
            }
            Ok(Err(Broken)) => CalloutAnswer::default(),
            Err(_) => {
                connection.suspect();
                CalloutAnswer::timeout()
            }
        })
    }

    /// Begins a stream after the position of a poll.
    async fn begin_stream(
        &self,
        (poll, wait_millis): (&CalloutRequest, u64),
        deadline: Instant,
    ) -> StreamBeginning {
        let found = self.servers.connected(poll.lane, &[]).await;
        let Ok((server, connection)) = found.map_err(|Unavailable| ()) else {
            return StreamBeginning::Answer(CalloutAnswer::default());
        };
        let path = poll.path.query().and_then(|query| {
            PathAndQuery::try_from(format!("{}?{query}", feed_stream::PATH)).ok()
        });
        let request = CalloutRequest {
            method: Method::POST,
            path: match path {
                Some(path) if server.has_streams() => path,
                _ => return StreamBeginning::Unknown,
            },
            ..poll.clone()
        };
        let Some(head) = request.head(server.scheme(), self.token.current()) else {
            return StreamBeginning::Answer(CalloutAnswer::default());
        };
        match timeout_at(deadline, connection.send(head, RequestBody::Open)).await {
            Ok(Ok(sent)) if is_stream(&sent) => StreamBeginning::Stream(Box::new(FeedStream {
                server,
                connection,
                sent,
                unread: Vec::new(),
                headers: request.headers,
                wait_millis,
                point: None,
            })),
            Ok(Ok(sent)) if is_unknown(sent.head.status) => {
                server.lacks_streams();
                StreamBeginning::Unknown
            }
            Ok(Ok(sent)) => {
                let answer = connection.receive(sent, poll.max_body).await;
                server.note(poll.lane, true);
                StreamBeginning::Answer(answer.unwrap_or_default())
            }
            Ok(Err(failure)) => {
                if failure.is_of_connection {
                    self.servers.on_broken(&server, &connection);
                }
                if failure.is_seen {
                    server.note(poll.lane, true);
                }
                StreamBeginning::Answer(CalloutAnswer::default())
            }
            Err(_) => {
                server.note(poll.lane, true);
                connection.suspect();
                StreamBeginning::Answer(CalloutAnswer::timeout())
            }
        }
    }
}

/// True if the answer is a stream.
fn is_stream(sent: &Sent) -> bool {
    let content_type = sent.head.headers.get(http::header::CONTENT_TYPE);
    sent.head.status == StatusCode::OK
        && content_type.is_some_and(|found| found == feed_stream::MEDIA_TYPE)
}

/// True if a server answers so that has no streams: an earlier version, or one behind a proxy.
fn is_unknown(status: StatusCode) -> bool {
    matches!(
        status,
        StatusCode::OK
            | StatusCode::NOT_FOUND
            | StatusCode::METHOD_NOT_ALLOWED
            | StatusCode::NOT_IMPLEMENTED
    )
}

/// The point after which a poll asks, and the milliseconds for which it waits; `None` if it is no poll.
fn point_of(request: &CalloutRequest) -> Option<(FeedPoint, u64)> {
    if request.method != Method::GET || request.path.path() != FEED_PATH {
        return None;
    }
    let (mut generation, mut after, mut wait_millis) = (None, None, None);
    for field in request.path.query()?.split('&') {
        match field.split_once('=')? {
            ("generation", value) => generation = Some(value.parse().ok()?),
            ("after", value) => after = Some(value.parse().ok()?),
            ("waitMs", value) => wait_millis = Some(value.parse().ok()?),
            _ => return None,
        }
    }
    Some(((generation?, after?), wait_millis?))
}

impl FeedStream {
    fn acknowledge(&mut self, point: FeedPoint) -> Result<(), Broken> {
        let mut bytes = Vec::with_capacity(feed_stream::MAX_ACKNOWLEDGEMENT);
        feed_stream::write_acknowledgement(point, &mut bytes);
        let sent = self.sent.body.send_data(bytes.into(), false);
        sent.map_err(|_| Broken)
    }

    /// Waits for the next frame, and returns its batch, of at most `limit` bytes.
    async fn next(&mut self, limit: usize) -> Result<Vec<u8>, Broken> {
        loop {
            let mut rest = self.unread.as_slice();
            if let Some(bytes) = feed_stream::read_frame(&mut rest, limit).map_err(|_| Broken)? {
                let batch = FeedBatch::decode(bytes).map_err(|_| Broken)?;
                self.point = Some((batch.head.generation, batch.head.next));
                let bytes = bytes.to_vec();
                let taken = self.unread.len() - rest.len();
                self.unread.drain(..taken);
                return Ok(bytes);
            }
            let chunk = self.connection.next_chunk(&mut self.sent.answer).await;
            let chunk = chunk.map_err(|_| Broken)?.ok_or(Broken)?;
            self.unread.extend_from_slice(&chunk);
        }
    }
}
