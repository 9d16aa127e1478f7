//! `GET /clicks/accounting`: the accounting of clicks.

use super::schema;
use crate::app::ApiCall;
use axum::Json;
use axum::extract::RawQuery;
use edgelink_service::accounting::Accounting;
use edgelink_service::problem::Problem;

/// Says what became of clicks.
///
/// Reports count for the hour (UTC) in which they were taken. Workers are told apart for 7 days; after `analytics.hours_days` hours
/// are summed up as their days, which count for their first hour, and after `analytics.days` all of them for the first hour of
/// 1970. Sums over all hours, edges or workers are those without parameters.
#[utoipa::path(
    get,
    path = "/clicks/accounting",
    operation_id = "getClickAccounting",
    tag = "operation",
    params(schema::OfAccounting),
    responses((status = 200, description = "How many clicks were sent, counted and dropped", body = Accounting))
)]
pub(crate) async fn get(
    ApiCall { app, caller }: ApiCall,
    RawQuery(query): RawQuery,
) -> Result<Json<Accounting>, Problem> {
    let accounting = app.analytics.accounting(&caller, query.as_deref()).await?;
    Ok(Json(accounting))
}
