//! `POST /links/{code}/resolve`: where a visitor would be sent, and why. Nothing is counted.

use super::body::JsonObject;
use super::fields::{Fields, Reason};
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
use edgelink_wire::password::{Notice, UnlockKey, cookie_name};
use edgelink_wire::record;
use edgelink_wire::redirect::Decision;
use edgelink_wire::rules::{self, Condition, ExplainedRule, Visitor};
use edgelink_wire::{LinkKey, Outcome, Record};
use serde::Serialize;
use serde_json::{Map, Value};
use std::net::IpAddr;
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
    let mut visitor = ImaginedVisitor::read(object)?;
    let link = app.store.find_link(&key).await?;
    let link = link.filter(|link| caller.check(link).is_ok());
    let link = link.ok_or_else(|| Problem::new(Kind::LinkNotFound))?;
    if let Some(max) = link.content.details.max_visits {
        visitor.is_used_up = app.store.find_visits(link.id).await?.used >= max;
    }
    visitor.unlock(&key, &link);
    Ok(Json(answer(&key, &link, &visitor)).into_response())
}

/// A visitor as a request describes one. What is missing is not known of the visitor, but for the time, which is now.
#[derive(Debug)]
struct ImaginedVisitor {
    user_agent: String,
    accept_language: String,
    path: String,
    has_password: bool,
    /// What follows from that, for the link.
    cookies: String,
    query: String,
    ip: Option<IpAddr>,
    country: String,
    city: String,
    at: u64,
    /// Whether the link has a limit of visits, and none are left.
    is_used_up: bool,
}

impl ImaginedVisitor {
    fn read(object: Map<String, Value>) -> Result<Self, Problem> {
        let mut fields = Fields::new(object);
        let text = |value: &Value| values::text(value).map(str::to_owned);
        let query = fields.optional("query", text).unwrap_or_default();
        let visitor = Self {
            user_agent: fields.optional("userAgent", text).unwrap_or_default(),
            accept_language: fields.optional("acceptLanguage", text).unwrap_or_default(),
            path: fields.optional("path", below).unwrap_or_default(),
            has_password: fields
                .optional("hasPassword", values::flag)
                .unwrap_or_default(),
            cookies: String::new(),
            query: query.strip_prefix('?').unwrap_or(&query).to_owned(),
            ip: fields.optional("ip", address),
            country: fields.optional("country", text).unwrap_or_default(),
            city: fields.optional("city", text).unwrap_or_default(),
            at: fields
                .optional("at", values::time)
                .unwrap_or_else(clock::unix_seconds),
            is_used_up: false,
        };
        fields.finish().map(|()| visitor)
    }
}

impl ImaginedVisitor {
    /// Gives a visitor who has the password the cookie for a link.
    fn unlock(&mut self, key: &LinkKey, link: &Link) {
        let password = link.content.details.password.as_ref();
        let Some(hash) = password.filter(|_| self.has_password) else {
            return;
        };
        let key = key.to_string();
        let key = key.as_bytes();
        let value = UnlockKey::new(hash, key).cookie(key, self.at.saturating_add(1));
        self.cookies = format!("{}={value}", cookie_name(key));
    }
}

/// What follows the code in the path.
fn below(value: &Value) -> Result<String, Reason> {
    let path = values::text(value)?;
    match path.is_empty() || path.starts_with('/') {
        true => Ok(path.to_owned()),
        false => Err("must be what follows the code, from its slash on".into()),
    }
}

fn address(value: &Value) -> Result<IpAddr, Reason> {
    let address = values::text(value)?.parse();
    address.map_err(|_| Reason::Borrowed("must be an IPv4 or IPv6 address"))
}

impl Visitor for ImaginedVisitor {
    fn user_agent(&self) -> &[u8] {
        self.user_agent.as_bytes()
    }

    fn accept_language(&self) -> &[u8] {
        self.accept_language.as_bytes()
    }

    fn query(&self) -> &[u8] {
        self.query.as_bytes()
    }

    fn below(&self) -> &[u8] {
        self.path.as_bytes()
    }

    fn is_used_up(&self) -> bool {
        self.is_used_up
    }

    fn cookies(&self) -> &[u8] {
        self.cookies.as_bytes()
    }

    fn address(&self) -> Option<IpAddr> {
        self.ip
    }

    fn country(&self) -> &[u8] {
        self.country.as_bytes()
    }

    fn city(&self) -> &[u8] {
        self.city.as_bytes()
    }

    fn now(&self) -> u64 {
        self.at
    }
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

fn answer<'a>(key: &LinkKey, link: &'a Link, visitor: &ImaginedVisitor) -> ResolvedView<'a> {
    let key = key.to_string();
    let record = link.record();
    let decision = Decision::of(&record.as_bytes(), key.as_bytes(), visitor);
    let (outcome, sent_to) = (decision.outcome, &decision.sent_to);
    let status = match (outcome, sent_to) {
        (_, Some(sent_to)) => sent_to.status.code(),
        (Outcome::NotFound, _) => 404,
        (Outcome::Gone, _) => 410,
        (Outcome::Locked, _) => Notice::Locked.status(),
        (Outcome::Redirect | Outcome::Expired | Outcome::Unavailable, None) => 503,
    };
    let location = sent_to.as_ref();
    let location = location.map(|sent_to| String::from_utf8_lossy(&sent_to.location).into_owned());
    let mut explained = Vec::new();
    if let Record::Link(link) = record.as_bytes() {
        let rules = record::Extension::decode_again(link.extension).rules;
        explained = rules.map_or(explained, |rules| {
            rules::explain(rules, key.as_bytes(), visitor)
        });
    }
    let matched = explained.iter().position(|rule| rule.holds);
    let rules = link.content.details.rules.iter().zip(explained);
    let rules = rules
        .enumerate()
        .map(|(index, (rule, explained))| ResolvedRule {
            priority: index + 1,
            long_url: &rule.target,
            matches: explained.holds,
            conditions: conditions(&rule.conditions, explained),
        });
    ResolvedView {
        outcome: outcome.name(),
        status,
        location,
        matched_rule: matched.map(|index| index + 1),
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
