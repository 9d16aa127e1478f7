//! `GET /analytics`: clicks by their attributes.

use super::schema;
use crate::app::ApiCall;
use axum::Json;
use axum::extract::RawQuery;
use edgelink_service::analytics::AnalyticsView;
use edgelink_service::problem::Problem;

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
    ApiCall { app, caller }: ApiCall,
    RawQuery(query): RawQuery,
) -> Result<Json<AnalyticsView>, Problem> {
    let view = app.analytics.count(&caller, query.as_deref()).await?;
    Ok(Json(view))
}
