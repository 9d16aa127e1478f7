//! `GET /analytics`: clicks by their attributes.

use super::schema;
use crate::app::App;
use axum::Json;
use axum::extract::{Extension, RawQuery, State};
use edgelink_service::analytics::AnalyticsView;
use edgelink_service::caller::Caller;
use edgelink_service::problem::Problem;
use std::sync::Arc;

/// Counts clicks by what is known of them.
///
/// Conversions are counted by days of UTC, all days that the interval touches.
#[utoipa::path(
    get,
    path = "/analytics",
    operation_id = "getAnalytics",
    tag = "analytics",
    params(schema::AnalyticsQuery, schema::OfLinks, schema::OfTimes),
    responses((status = 200, description = "The clicks of the interval", body = AnalyticsView))
)]
pub(crate) async fn get(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    RawQuery(query): RawQuery,
) -> Result<Json<AnalyticsView>, Problem> {
    let view = app.analytics.count(&caller, query.as_deref()).await?;
    Ok(Json(view))
}
