//! `POST /edge/v1/clicks`: batches of clicks. 204 when they are in the database; a batch counts once however often it is
//! sent. 400 where it is of no use to send them again.

use crate::app::App;
use crate::clicks::{self, IngestError};
use crate::clock;
use crate::problem::{Kind, Problem};
use axum::body::Bytes;
use axum::extract::State;
use axum::extract::rejection::BytesRejection;
use edgelink_wire::clicks::decode;
use http::StatusCode;
use std::sync::Arc;

/// The largest body in bytes.
pub(super) const MAX_BODY: usize = 4 << 20;

pub(crate) async fn report(
    State(app): State<Arc<App>>,
    body: Result<Bytes, BytesRejection>,
) -> Result<StatusCode, Problem> {
    let body = body.map_err(|rejection| match rejection.status() {
        StatusCode::PAYLOAD_TOO_LARGE => Problem::new(Kind::BodyTooLarge),
        _ => Problem::new(Kind::InvalidBatches),
    })?;
    let batches = decode(&body)
        .map_err(|error| Problem::new(Kind::InvalidBatches).with_detail(error.to_string()))?;
    clicks::count(app.store.as_ref(), &batches, clock::unix_millis()).await?;
    Ok(StatusCode::NO_CONTENT)
}

impl From<IngestError> for Problem {
    fn from(error: IngestError) -> Self {
        match error {
            IngestError::Malformed => {
                Self::new(Kind::InvalidBatches).with_detail(error.to_string())
            }
            IngestError::Store(error) => Self::store(&error),
        }
    }
}
