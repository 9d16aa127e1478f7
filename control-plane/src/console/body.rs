//! The body of a form, piece by piece, within its bounds.

use crate::http::arriving::MIN_RATE;
use crate::problem::{Kind, Problem};
use axum::body::Body;
use bytes::Bytes;
use futures_util::Stream;
use futures_util::stream::try_unfold;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// Why a body cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum BodyError {
    #[error("a form has at most {0} bytes")]
    TooLong(usize),
    #[error("the heads of the fields of a form have at most {0} bytes")]
    Head(usize),
    #[error("the form took too long")]
    Late,
    #[error("the form ended too early")]
    Broken,
}

impl BodyError {
    /// The refusal of the request.
    pub(super) fn problem(self) -> Problem {
        match self {
            Self::TooLong(_) | Self::Head(_) => {
                Problem::new(Kind::BodyTooLarge).with_detail(self.to_string())
            }
            Self::Late => Problem::new(Kind::BodyTimeout),
            Self::Broken => Problem::new(Kind::InvalidBody),
        }
    }
}

/// The pieces of a body.
pub(super) struct Pieces {
    body: Limited<Body>,
    limit: usize,
    /// How long all of it may take, and longer by the bytes that have come.
    time: Duration,
    start: Instant,
    bytes: usize,
}

impl Pieces {
    /// Those of a body of at most `limit` bytes.
    pub(super) fn new(body: Body, limit: usize, time: Duration) -> Self {
        Self {
            body: Limited::new(body, limit),
            limit,
            time,
            start: Instant::now(),
            bytes: 0,
        }
    }

    /// The next piece; `None` at the end.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, BodyError> {
        loop {
            let seconds = u64::try_from(self.bytes / MIN_RATE).unwrap_or(u64::MAX);
            let end = self.start + self.time + Duration::from_secs(seconds);
            let frame = timeout_at(end, self.body.frame()).await;
            match frame.map_err(|_| BodyError::Late)? {
                None => return Ok(None),
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        self.bytes += data.len();
                        return Ok(Some(data));
                    }
                }
                Some(Err(error)) if error.is::<LengthLimitError>() => {
                    return Err(BodyError::TooLong(self.limit));
                }
                Some(Err(_)) => return Err(BodyError::Broken),
            }
        }
    }

    /// The same as a stream.
    pub(super) fn stream(self) -> impl Stream<Item = Result<Bytes, BodyError>> {
        try_unfold(self, async |mut pieces| {
            let piece = pieces.next().await?;
            Ok(piece.map(|piece| (piece, pieces)))
        })
    }
}
