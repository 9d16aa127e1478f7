//! Large answers that are being sent. They have a room of their own (`server.max_answer_bytes`), where answers give way whose
//! clients hold most and read least: the permit of a request, for which others wait, does not depend on the speed of its client.
//! Answers to changes never give way, and have a separate room: a client that does not read them takes nothing from other clients.

use super::admitted::Admitted;
use super::app::App;
use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use edgelink_service::problem::Problem;
use edgelink_settings::admission::Permit;
use http::header::CONTENT_LENGTH;
use hyper::body::{Body as _, Frame, SizeHint};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use tokio_util::task::AbortOnDropHandle;

/// Answers up to this length fit into the buffer of their connection.
const LARGE_BYTES: usize = 65_536;

/// Bytes passed to the connection at once; the rest is held here, and counted.
const CHUNK_BYTES: usize = 65_536;

/// Gives a large answer a permit of the room, until it is sent. The answer to a change does not give way, and if there is no
/// permit for it, it is sent under the permits of its request, bulk permits included: a change that was made must not be reported
/// as refused.
pub(super) fn admit(
    app: &App,
    admitted: &Admitted,
    is_read: bool,
    response: Response,
) -> Result<Response, Problem> {
    let Some(length) = length(&response).filter(|length| *length > LARGE_BYTES) else {
        return Ok(response);
    };
    let bounded = &app.bounded;
    let paid_by = if is_read {
        PaidBy::Room(
            bounded
                .answers
                .try_take_yielding(admitted.claim(), length)?,
        )
    } else {
        match bounded.changed.try_take_bytes(admitted.claim(), length) {
            Ok(seat) => PaidBy::Room(seat),
            Err(_) => PaidBy::Request(admitted.clone()),
        }
    };
    Ok(response.map(|body| Body::new(SentBody::new(body, paid_by))))
}

/// The length of an answer, if it is known in advance.
fn length(response: &Response) -> Option<usize> {
    let stated = response.headers().get(CONTENT_LENGTH);
    let stated = || stated?.to_str().ok()?.parse().ok();
    let length = response.body().size_hint().exact().or_else(stated)?;
    usize::try_from(length).ok()
}

/// The permits under which an answer is sent.
enum PaidBy {
    Room(Permit),
    Request(#[expect(dead_code, reason = "held until it is dropped")] Admitted),
}

/// The body of an answer, which holds its permits, and ends early if they have given way.
struct SentBody {
    unsent: Arc<Mutex<Option<RemainingBody>>>,
    paid_by: PaidBy,
    /// Frees the memory of an answer that gives way: a connection whose client reads nothing never polls its body again.
    _freeing: Option<AbortOnDropHandle<()>>,
}

/// The part of an answer that is still to be sent.
struct RemainingBody {
    body: Body,
    /// Bytes taken from the body that are not passed to the connection yet.
    rest: Bytes,
}

impl SentBody {
    fn new(body: Body, paid_by: PaidBy) -> Self {
        let rest = Bytes::new();
        let unsent = Arc::new(Mutex::new(Some(RemainingBody { body, rest })));
        let freeing = match &paid_by {
            PaidBy::Room(seat) => {
                let (given_way, unsent) = (seat.given_way(), Arc::clone(&unsent));
                let free = async move {
                    given_way.await;
                    drop(lock(&unsent).take());
                };
                Some(AbortOnDropHandle::new(tokio::spawn(free)))
            }
            PaidBy::Request(_) => None,
        };
        Self {
            unsent,
            paid_by,
            _freeing: freeing,
        }
    }
}

fn lock(unsent: &Mutex<Option<RemainingBody>>) -> MutexGuard<'_, Option<RemainingBody>> {
    unsent.lock().unwrap_or_else(PoisonError::into_inner)
}

impl hyper::body::Body for SentBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let mut unsent = lock(&self.unsent);
        let Some(RemainingBody { body, rest }) = unsent.as_mut() else {
            let PaidBy::Room(seat) = &self.paid_by else {
                return Poll::Ready(None);
            };
            return Poll::Ready(Some(Err(axum::Error::new(seat.refusal()))));
        };
        if rest.is_empty() {
            match ready!(Pin::new(body).poll_frame(cx)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(bytes) => *rest = bytes,
                    Err(frame) => return Poll::Ready(Some(Ok(frame))),
                },
                other => return Poll::Ready(other),
            }
        }
        let chunk = rest.split_to(rest.len().min(CHUNK_BYTES));
        if let PaidBy::Room(seat) = &self.paid_by {
            seat.pay(chunk.len());
        }
        Poll::Ready(Some(Ok(Frame::data(chunk))))
    }

    fn is_end_stream(&self) -> bool {
        let unsent = lock(&self.unsent);
        unsent
            .as_ref()
            .is_some_and(|unsent| unsent.rest.is_empty() && unsent.body.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        let unsent = lock(&self.unsent);
        let length = unsent.as_ref().and_then(|unsent| {
            let length = unsent.body.size_hint().exact()?;
            Some(length + unsent.rest.len() as u64)
        });
        length.map_or_else(SizeHint::new, SizeHint::with_exact)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use edgelink_settings::admission::{Admission, Bounds, Claim};
    use futures_util::stream::iter;
    use http_body_util::BodyExt;
    use std::convert::Infallible;

    #[test]
    fn answer_length_when_body_is_streamed_is_the_stated_one() {
        let pieces = || Body::from_stream(iter([Ok::<_, Infallible>("x")]));
        assert_eq!(length(&Response::new(Body::from("xy"))), Some(2));
        assert_eq!(length(&Response::new(pieces())), None);
        let stated = Response::builder().header(CONTENT_LENGTH, "1");
        assert_eq!(length(&stated.body(pieces()).unwrap()), Some(1));
    }

    /// On this machine's own network the system takes megabytes for a client that reads nothing.
    #[tokio::test]
    async fn answer_when_it_gives_way_is_freed_and_ends_early() {
        let room = Admission::new(Bounds {
            bytes: 100_000,
            ..Bounds::new("server.max_answer_bytes", 10)
        });
        let of = |last| Claim::of_address([192, 0, 2, last].into());
        let seat = room.try_take_yielding(of(1), 90_000).unwrap();
        let answer = Body::from(vec![0; 90_000]);
        let mut sent = SentBody::new(answer, PaidBy::Room(seat));
        let first = sent.frame().await.unwrap().unwrap();
        assert_eq!(first.into_data().unwrap().len(), CHUNK_BYTES);
        let other = room.try_take_yielding(of(2), 20_000);
        assert!(other.is_ok(), "the client that holds most makes room");
        let unsent = Arc::clone(&sent.unsent);
        while lock(&unsent).is_some() {
            tokio::task::yield_now().await;
        }
        assert!(sent.frame().await.unwrap().is_err());
    }
}
