//! `POST /links/{code}/resolve`: where a visitor would be sent, and why. Nothing is counted.

use super::body::JsonObject;
use super::fields::{Fields, Reason};
use super::one::RequestedLink;
use super::values;
use crate::clock;
use crate::http::app::App;
use crate::http::auth::Caller;
use crate::links::model::Link;
use crate::problem::{Kind, Problem};
use crate::timestamp;
use axum::Json;
use axum::extract::{Extension, State};
use edgelink_wire::record;
use edgelink_wire::rules::{self, Condition, ExplainedCondition, ExplainedRule, Visitor};
use edgelink_wire::{LinkKey, Outcome, Record};
use serde_json::{Map, Value, json};
use std::net::IpAddr;
use std::sync::Arc;

pub(crate) async fn resolve(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    RequestedLink(key): RequestedLink,
    JsonObject(object): JsonObject,
) -> Result<Json<Value>, Problem> {
    let visitor = ImaginedVisitor::read(object)?;
    let link = app.store.find_link(&key).await?;
    let link = link.filter(|link| caller.check(link).is_ok());
    let link = link.ok_or_else(|| Problem::new(Kind::LinkNotFound))?;
    Ok(Json(answer(&key, &link, &visitor)))
}

/// A visitor as a request describes one. What is missing is not known of the visitor, but for the time, which is now.
#[derive(Debug)]
struct ImaginedVisitor {
    user_agent: String,
    accept_language: String,
    query: String,
    ip: Option<IpAddr>,
    country: String,
    city: String,
    at: u64,
}

impl ImaginedVisitor {
    fn read(object: Map<String, Value>) -> Result<Self, Problem> {
        let mut fields = Fields::new(object);
        let text = |value: &Value| values::text(value).map(str::to_owned);
        let query = fields.optional("query", text).unwrap_or_default();
        let visitor = Self {
            user_agent: fields.optional("userAgent", text).unwrap_or_default(),
            accept_language: fields.optional("acceptLanguage", text).unwrap_or_default(),
            query: query.strip_prefix('?').unwrap_or(&query).to_owned(),
            ip: fields.optional("ip", address),
            country: fields.optional("country", text).unwrap_or_default(),
            city: fields.optional("city", text).unwrap_or_default(),
            at: fields
                .optional("at", values::time)
                .unwrap_or_else(clock::unix_seconds),
        };
        fields.finish().map(|()| visitor)
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

fn answer(key: &LinkKey, link: &Link, visitor: &ImaginedVisitor) -> Value {
    let key = key.to_string();
    let record = link.record();
    let outcome = Outcome::of(&record, visitor.at);
    let status = match outcome {
        Outcome::Redirect => link.content.redirect.code(),
        Outcome::NotFound => 404,
        Outcome::Gone => 410,
        Outcome::Unavailable => 503,
    };
    let (mut location, mut explained) = (None, Vec::new());
    if let Record::Link(link) = record.as_bytes() {
        if outcome == Outcome::Redirect {
            let chosen = link.for_visitor(key.as_bytes(), visitor);
            let target = chosen.location(visitor.query());
            location = Some(String::from_utf8_lossy(&target).into_owned());
        }
        let rules = record::Extension::decode_again(link.extension).rules;
        explained = rules.map_or(explained, |rules| {
            rules::explain(rules, key.as_bytes(), visitor)
        });
    }
    let matched = explained.iter().position(|rule| rule.holds);
    let rules = link
        .content
        .details
        .rules
        .iter()
        .zip(&explained)
        .enumerate();
    let rules = rules.map(|(index, (rule, explained))| {
        json!({
            "priority": index + 1,
            "longUrl": rule.target,
            "matches": explained.holds,
            "conditions": conditions(&rule.conditions, explained),
        })
    });
    json!({
        "outcome": outcome.name(),
        "status": status,
        "location": location,
        "matchedRule": matched.map(|index| index + 1),
        "at": timestamp::from_seconds(visitor.at),
        "rules": rules.collect::<Vec<_>>(),
    })
}

fn conditions(conditions: &[Condition], explained: &ExplainedRule) -> Vec<Value> {
    let view = |(condition, explained): (&Condition, &ExplainedCondition)| {
        json!({
            "type": condition.kind.word(),
            "matchKey": condition.match_key,
            "matchValue": condition.match_value,
            "matches": explained.holds,
            "saw": explained.saw,
        })
    };
    conditions
        .iter()
        .zip(&explained.conditions)
        .map(view)
        .collect()
}
