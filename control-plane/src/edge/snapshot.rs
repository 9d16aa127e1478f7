//! `GET /edge/v1/snapshot`: what an edge starts from. 503 while it cannot be had; an edge starts without it then.

use crate::app::App;
use crate::problem::{Kind, Problem};
use crate::snapshot::SnapshotError;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use edgelink_wire::Snapshot;
use http::{HeaderValue, header};
use std::sync::Arc;

pub(crate) async fn snapshot(State(app): State<Arc<App>>) -> Result<Response, Problem> {
    let bytes = app.snapshots.get().await?;
    let content_type = HeaderValue::from_static(Snapshot::MEDIA_TYPE);
    Ok(([(header::CONTENT_TYPE, content_type)], bytes).into_response())
}

impl From<SnapshotError> for Problem {
    fn from(error: SnapshotError) -> Self {
        match error {
            SnapshotError::NotReady => {
                Self::new(Kind::Overloaded).with_detail("not all keys are known yet")
            }
            SnapshotError::Feed(error) => Self::from(error),
            SnapshotError::Store(error) => Self::store(&error),
        }
    }
}
