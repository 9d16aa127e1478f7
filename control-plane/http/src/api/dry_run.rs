//! `POST /links/{code}/resolve`: explains where a visitor would be sent, without counting anything.

use super::body::JsonObject;
use super::one::RequestedLink;
use super::schema;
use crate::app::ApiCall;
use axum::Json;
use axum::response::{IntoResponse, Response};
use edgelink_model::links::model::Link;
use edgelink_model::timestamp;
use edgelink_service::dry_run::Visitor;
use edgelink_service::problem::Problem;
use edgelink_wire::LinkKey;
use edgelink_wire::dry_run::{DescribedVisitor, DryRun};
use edgelink_wire::rules::{Condition, ExplainedRule};
use serde::Serialize;
use utoipa::ToSchema;

/// Says where a visitor would be sent, and why. Nothing is counted.
#[utoipa::path(
    post,
    path = "/links/{code}/resolve",
    operation_id = "resolveLink",
    tag = "links",
    params(schema::OfCode, schema::OfDomain),
    request_body = Visitor,
    responses((status = 200, description = "Where, and which rule matched", body = ResolvedView<'static>))
)]
pub(crate) async fn resolve(
    ApiCall { app, caller }: ApiCall,
    RequestedLink(key): RequestedLink,
    JsonObject(object): JsonObject,
) -> Result<Response, Problem> {
    let visitor = Visitor::read(object)?;
    let (link, visitor) = app.links.dry_run(&caller, &key, visitor).await?;
    Ok(Json(answer(&key, &link, &visitor)).into_response())
}

/// The answer of a dry run.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Resolved)]
struct ResolvedView<'a> {
    outcome: &'static str,
    /// The status that the visitor would get.
    status: u16,
    location: Option<String>,
    /// The priority of the rule that matched.
    matched_rule: Option<usize>,
    at: String,
    rules: Vec<ResolvedRule<'a>>,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct ResolvedRule<'a> {
    priority: usize,
    long_url: &'a str,
    matches: bool,
    conditions: Vec<ResolvedCondition<'a>>,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct ResolvedCondition<'a> {
    r#type: &'static str,
    match_key: Option<&'a str>,
    match_value: Option<&'a str>,
    matches: bool,
    /// What it looked at.
    saw: Option<String>,
}

fn answer<'a>(key: &LinkKey, link: &'a Link, visitor: &DescribedVisitor) -> ResolvedView<'a> {
    let record = link.record();
    let run = DryRun::of(&record.as_bytes(), key.to_string().as_bytes(), visitor);
    let matched_rule = run.matched_rule();
    let rules = link.content.details.rules.iter().zip(run.rules);
    let rules = rules
        .enumerate()
        .map(|(index, (rule, explained))| ResolvedRule {
            priority: index + 1,
            long_url: &rule.target,
            matches: explained.holds,
            conditions: conditions(&rule.conditions, explained),
        });
    ResolvedView {
        outcome: run.outcome.name(),
        status: run.status,
        location: run.location,
        matched_rule,
        at: timestamp::from_seconds(visitor.at),
        rules: rules.collect(),
    }
}

fn conditions(conditions: &[Condition], explained: ExplainedRule) -> Vec<ResolvedCondition<'_>> {
    let conditions = conditions.iter().zip(explained.conditions);
    let view = conditions.map(|(condition, explained)| ResolvedCondition {
        r#type: condition.kind.word(),
        match_key: condition.match_key.as_deref(),
        match_value: condition.match_value.as_deref(),
        matches: explained.holds,
        saw: explained.saw,
    });
    view.collect()
}
