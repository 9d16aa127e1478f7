//! `POST /links/{code}/resolve`: where a visitor would be sent, and why. Nothing is counted.

use super::body::JsonObject;
use super::fields::Fields;
use super::one::RequestedLink;
use super::schema;
use super::values;
use crate::clock;
use crate::http::app::App;
use crate::http::auth::Caller;
use crate::links::model::Link;
use crate::problem::{Kind, Problem};
use crate::timestamp;
use axum::Json;
use axum::extract::{Extension, State};
use axum::response::{IntoResponse, Response};
use edgelink_wire::LinkKey;
use edgelink_wire::dry_run::{self, DescribedVisitor, DryRun};
use edgelink_wire::rules::{Condition, ExplainedRule};
use serde::Serialize;
use serde_json::{Map, Value};
use std::sync::Arc;
use utoipa::ToSchema;

/// Says where a visitor would be sent, and why. Nothing is counted.
#[utoipa::path(
    post,
    path = "/links/{code}/resolve",
    operation_id = "resolveLink",
    tag = "links",
    params(schema::OfCode, schema::OfDomain),
    request_body = schema::Visitor,
    responses((status = 200, description = "Where, and which rule matched", body = ResolvedView<'static>))
)]
pub(crate) async fn resolve(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    RequestedLink(key): RequestedLink,
    JsonObject(object): JsonObject,
) -> Result<Response, Problem> {
    let mut visitor = read_visitor(object)?;
    let link = app.store.find_link(&key).await?;
    let link = link.filter(|link| caller.check(link).is_ok());
    let link = link.ok_or_else(|| Problem::new(Kind::LinkNotFound))?;
    if let Some(max) = link.content.details.max_visits {
        visitor.is_used_up = app.store.find_visits(link.id).await?.used >= max;
    }
    let hash = link.content.details.password.as_deref();
    visitor.unlock(key.to_string().as_bytes(), hash);
    Ok(Json(answer(&key, &link, &visitor)).into_response())
}

/// Reads a visitor as a request describes one. The time is now if it is missing.
fn read_visitor(object: Map<String, Value>) -> Result<DescribedVisitor, Problem> {
    let mut fields = Fields::new(object);
    let text = |value: &Value| values::text(value).map(str::to_owned);
    let query = fields.optional("query", text).unwrap_or_default();
    let below = |value: &Value| Ok(dry_run::read_below(values::text(value)?)?);
    let address = |value: &Value| Ok(dry_run::read_address(values::text(value)?)?);
    let visitor = DescribedVisitor {
        user_agent: fields.optional("userAgent", text).unwrap_or_default(),
        accept_language: fields.optional("acceptLanguage", text).unwrap_or_default(),
        path: fields.optional("path", below).unwrap_or_default(),
        has_password: fields
            .optional("hasPassword", values::flag)
            .unwrap_or_default(),
        query: query.strip_prefix('?').unwrap_or(&query).to_owned(),
        ip: fields.optional("ip", address),
        country: fields.optional("country", text).unwrap_or_default(),
        city: fields.optional("city", text).unwrap_or_default(),
        at: fields
            .optional("at", values::time)
            .unwrap_or_else(clock::unix_seconds),
        ..DescribedVisitor::default()
    };
    fields.finish().map(|()| visitor)
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
