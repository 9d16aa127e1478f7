//! `GET /clicks/accounting`: what became of all clicks.

use crate::http::app::App;
use crate::problem::Problem;
use axum::Json;
use axum::extract::State;
use serde_json::{Value, json};
use std::sync::Arc;

pub(super) async fn accounting(State(app): State<Arc<App>>) -> Result<Json<Value>, Problem> {
    let accounts = app.store.click_accounts().await?;
    Ok(Json(json!({
        "sent": accounts.sent,
        "counted": accounts.counted,
        "dropped": accounts.dropped,
    })))
}
