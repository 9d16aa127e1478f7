//! Bodies of requests that are still arriving. Requests wait for them without their permits, in a room of their listener
//! (`server.max_waiting_bodies`), where bodies give way whose clients hold most and have sent least: no client can hold a permit
//! by not sending.

use super::admitted::Admitted;
use super::app::App;
use super::bounded::ListenerAdmission;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use bytes::{Bytes, BytesMut};
use edgelink_service::problem::{Kind, Problem};
use edgelink_settings::admission::{Admission, Permit, Refusal};
use futures_util::FutureExt;
use http::Extensions;
use http_body_util::BodyExt;
use hyper::body::Frame;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// The slowest rate of a large body, in bytes a second.
pub(crate) const MIN_RATE: usize = 65_536;

/// A body that is still arriving.
pub struct Arriving {
    /// The room of its listener; `None` for requests of this process to itself, whose body is complete.
    room: Option<Admission>,
    admitted: Admitted,
    body: Body,
    limit: usize,
    start: Instant,
    time: Duration,
    came: usize,
    /// Limit on its bytes held in memory.
    kept: usize,
    /// Its permit in the room, once the request had to wait for it.
    seat: Option<Permit>,
}

/// A body that has arrived completely. It holds its room until this is dropped.
#[must_use]
pub struct Arrived {
    seat: Option<Permit>,
}

impl Arrived {
    /// Waits for a permit to work on the body, which may have to give way meanwhile, as while it arrived.
    pub(crate) async fn wait_for(
        &self,
        permit: impl Future<Output = Result<Permit, Refusal>>,
    ) -> Result<Permit, Refusal> {
        let Some(seat) = &self.seat else {
            return permit.await;
        };
        seat.unsettle();
        let permit = tokio::select! {
            biased;
            permit = permit => permit?,
            () = seat.given_way() => return Err(seat.refusal()),
        };
        if seat.settle() {
            Ok(permit)
        } else {
            Err(seat.refusal())
        }
    }

    /// True if the request had to wait for the body: the rights of its sender may have changed meanwhile.
    pub(crate) fn was_waited_for(&self) -> bool {
        self.seat.is_some()
    }
}

/// The failure to receive a body.
#[derive(Clone, Copy, Debug, thiserror::Error)]
pub enum BodyError {
    /// The body has not arrived in its time.
    #[error("the body took too long")]
    Late,
    /// Reading failed before the end of the body.
    #[error("the body ended too early")]
    Cut,
    /// The body is longer than this limit, in bytes.
    #[error("the body may have at most {0} bytes")]
    TooLarge(usize),
    /// The body had to give way, or its request did not get its permits back.
    #[error(transparent)]
    Refused(Refusal),
}

impl From<Refusal> for BodyError {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<BodyError> for Problem {
    fn from(error: BodyError) -> Self {
        match error {
            BodyError::Late => Self::new(Kind::BodyTimeout),
            BodyError::Cut => Self::new(Kind::InvalidBody).with_detail(error.to_string()),
            BodyError::TooLarge(_) => Self::new(Kind::BodyTooLarge).with_detail(error.to_string()),
            BodyError::Refused(refusal) => refusal.into(),
        }
    }
}

impl Arriving {
    /// The body of a request with these extensions, of at most `limit` bytes. It must arrive within `time`, and a second more for
    /// each [`MIN_RATE`] bytes that have arrived.
    pub fn new(extensions: &Extensions, body: Body, (limit, time): (usize, Duration)) -> Self {
        let listener = extensions.get::<ListenerAdmission>();
        Self {
            room: listener.map(|listener| listener.bodies.clone()),
            admitted: Admitted::of(extensions),
            body,
            limit,
            start: Instant::now(),
            time,
            came: 0,
            kept: usize::MAX,
            seat: None,
        }
    }

    /// The body, of which at most `kept` bytes stay in memory: the caller writes the others to the disk as they arrive.
    pub fn keeping(self, kept: usize) -> Self {
        Self { kept, ..self }
    }

    /// The next bytes; `None` at the end.
    pub async fn next(&mut self) -> Result<Option<Bytes>, BodyError> {
        loop {
            let Some(frame) = self.frame().await? else {
                return Ok(None);
            };
            let Ok(bytes) = frame.into_data() else {
                continue;
            };
            let before = self.came;
            self.came += bytes.len();
            if self.came > self.limit {
                return Err(BodyError::TooLarge(self.limit));
            }
            if let Some(seat) = &self.seat {
                let kept = bytes.len().min(self.kept.saturating_sub(before));
                seat.grow(kept)?;
                seat.pay(bytes.len() - kept);
            }
            return Ok(Some(bytes));
        }
    }

    /// Continues the request, which takes its permits again.
    pub fn arrived(self) -> Result<Arrived, BodyError> {
        if let Some(seat) = &self.seat {
            if !seat.settle() {
                return Err(seat.refusal().into());
            }
            self.admitted.take_up()?;
        }
        Ok(Arrived { seat: self.seat })
    }

    /// The whole body.
    pub async fn whole(mut self) -> Result<(Bytes, Arrived), BodyError> {
        let mut whole = BytesMut::new();
        let first = self.next().await?.unwrap_or_default();
        while let Some(bytes) = self.next().await? {
            if whole.is_empty() {
                whole.extend_from_slice(&first);
            }
            whole.extend_from_slice(&bytes);
        }
        let bytes = if whole.is_empty() {
            first
        } else {
            whole.freeze()
        };
        Ok((bytes, self.arrived()?))
    }

    async fn frame(&mut self) -> Result<Option<Frame<Bytes>>, BodyError> {
        let frame = match self.body.frame().now_or_never() {
            Some(frame) => frame,
            None => self.wait_for_frame().await?,
        };
        frame.transpose().map_err(|_| BodyError::Cut)
    }

    /// Waits for bytes, with a permit of the room instead of the permits of the request.
    async fn wait_for_frame(
        &mut self,
    ) -> Result<Option<Result<Frame<Bytes>, axum::Error>>, BodyError> {
        if let (None, Some(room)) = (&self.seat, &self.room) {
            let kept = self.came.min(self.kept);
            self.seat = Some(room.try_take_yielding(self.admitted.claim(), kept)?);
            self.admitted.put_down();
        }
        let seconds = u64::try_from(self.came / MIN_RATE).unwrap_or(u64::MAX);
        let end = self.start + self.time + Duration::from_secs(seconds);
        let frame = timeout_at(end, self.body.frame());
        let Some(seat) = &self.seat else {
            return frame.await.map_err(|_| BodyError::Late);
        };
        tokio::select! {
            biased;
            frame = frame => frame.map_err(|_| BodyError::Late),
            () = seat.given_way() => Err(seat.refusal().into()),
        }
    }
}

/// Receives the bodies of a route, of at most `limit` bytes, before its handler runs. The handler refuses longer ones.
pub(super) async fn ahead(
    State((app, limit)): State<(Arc<App>, usize)>,
    request: Request,
    next: Next,
) -> Result<Response, Problem> {
    let (head, body) = request.into_parts();
    let time = app.config.server.body_timeout_ms;
    let mut arriving = Arriving::new(&head.extensions, body, (usize::MAX, time));
    let mut bytes = BytesMut::new();
    while let Some(more) = arriving.next().await? {
        bytes.extend_from_slice(&more);
        if bytes.len() > limit {
            break;
        }
    }
    let _arrived = arriving.arrived()?;
    let request = Request::from_parts(head, Body::from(bytes.freeze()));
    Ok(next.run(request).await)
}

#[cfg(test)]
mod tests {
    use super::*;
    use edgelink_settings::admission::{Bounds, Claim};
    use std::future::pending;

    #[tokio::test]
    async fn body_when_another_needs_its_room_gives_way() {
        let room = Admission::new(Bounds {
            bytes: 100,
            ..Bounds::new("test", 10)
        });
        let of = |last| Claim::of_address([192, 0, 2, last].into());
        let seat = room.try_take_yielding(of(1), 80).unwrap();
        assert!(seat.settle());
        let arrived = Arrived { seat: Some(seat) };
        assert!(room.try_take_yielding(of(2), 50).is_err());
        let mut waiting = Box::pin(arrived.wait_for(pending()));
        assert!((&mut waiting).now_or_never().is_none());
        let other = room.try_take_yielding(of(2), 50);
        assert!(other.is_ok());
        assert!(waiting.now_or_never().unwrap().is_err());
    }
}
