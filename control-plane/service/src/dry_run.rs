//! The use case of a dry run: tells where a visitor would be sent, and counts nothing.

use super::caller::Caller;
use super::fields::Reason;
use super::links::Links;
use super::request::request;
use super::values;
use crate::problem::Problem;
use edgelink_model::clock;
use edgelink_model::timestamp;
use edgelink_wire::LinkKey;
use edgelink_wire::dry_run::{self, DescribedVisitor, DryRun};
use edgelink_wire::rules::{Condition, ExplainedCondition, ExplainedRule, Rule};
use serde::Serialize;
use serde_json::Value;
use std::net::IpAddr;
use utoipa::ToSchema;

request! {
    /// A visitor. What is missing is not known of the visitor, but for the time, which is now.
    #[schema(example = json!({ "userAgent": "Mozilla/5.0 (Linux; Android 15)", "country": "DE", "query": "a=b" }))]
    pub struct Visitor() {
        "userAgent" user_agent: optional String as String = values::string;
        "acceptLanguage" accept_language: optional String as String = values::string;
        /// What follows the code in the path, from its slash on.
        #[schema(pattern = "^(/.*)?$")]
        "path" path: optional String as String = below;
        /// Whether the visitor has given the password of the link; by default false.
        "hasPassword" has_password: optional bool as bool = values::flag;
        "query" query: optional String as String = values::string;
        /// An IPv4 or IPv6 address.
        #[schema(format = "ip")]
        "ip" ip: optional IpAddr as String = address;
        "country" country: optional String as String = values::string;
        "city" city: optional String as String = values::string;
        #[schema(format = "date-time")]
        "at" at: optional u64 as String = values::time;
    }
}

/// The answer of a dry run.
#[expect(missing_docs, reason = "openapi.json does not describe all fields")]
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Resolved)]
pub struct ResolvedView {
    pub outcome: &'static str,
    /// The status that the visitor would get.
    pub status: u16,
    pub location: Option<String>,
    /// The priority of the rule that matched.
    pub matched_rule: Option<usize>,
    at: String,
    pub rules: Vec<ResolvedRule>,
}

#[expect(missing_docs, reason = "openapi.json does not describe it")]
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResolvedRule {
    pub priority: usize,
    pub long_url: String,
    pub matches: bool,
    pub conditions: Vec<ResolvedCondition>,
}

#[expect(missing_docs, reason = "openapi.json does not describe all of it")]
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResolvedCondition {
    #[serde(rename = "type")]
    pub kind: &'static str,
    pub match_key: Option<String>,
    pub match_value: Option<String>,
    pub matches: bool,
    /// What it looked at.
    pub saw: Option<String>,
}

impl Links {
    /// Explains where a visitor of a link that exists for the caller would be sent. Used-up visits and the password count.
    pub async fn dry_run(
        &self,
        caller: &Caller,
        key: &LinkKey,
        visitor: Visitor,
    ) -> Result<ResolvedView, Problem> {
        let (link, visits) = self.find_with_visits(caller, key).await?;
        let mut visitor = described(visitor);
        let details = &link.content.details;
        if let (Some(max), Some(visits)) = (details.max_visits, visits) {
            visitor.is_used_up = visits.used >= max;
        }
        let key = key.to_string();
        visitor.unlock(key.as_bytes(), details.password.as_deref());
        let run = DryRun::of(&link.record().as_bytes(), key.as_bytes(), &visitor);
        Ok(ResolvedView {
            outcome: run.outcome.name(),
            status: run.status,
            matched_rule: run.matched_rule(),
            location: run.location,
            at: timestamp::from_seconds(visitor.at),
            rules: resolved(&details.rules, run.rules),
        })
    }
}

fn resolved(rules: &[Rule], explained: Vec<ExplainedRule>) -> Vec<ResolvedRule> {
    let rules = rules.iter().zip(explained).enumerate();
    let rules = rules.map(|(index, (rule, explained))| {
        let conditions = rule.conditions.iter().zip(explained.conditions);
        let view = |(condition, explained): (&Condition, ExplainedCondition)| ResolvedCondition {
            kind: condition.kind.word(),
            match_key: condition.match_key.clone(),
            match_value: condition.match_value.clone(),
            matches: explained.holds,
            saw: explained.saw,
        };
        ResolvedRule {
            priority: index + 1,
            long_url: rule.target.clone(),
            matches: explained.holds,
            conditions: conditions.map(view).collect(),
        }
    });
    rules.collect()
}

fn described(visitor: Visitor) -> DescribedVisitor {
    let query = visitor.query.unwrap_or_default();
    DescribedVisitor {
        user_agent: visitor.user_agent.unwrap_or_default(),
        accept_language: visitor.accept_language.unwrap_or_default(),
        path: visitor.path.unwrap_or_default(),
        has_password: visitor.has_password.unwrap_or_default(),
        query: query.strip_prefix('?').unwrap_or(&query).to_owned(),
        ip: visitor.ip,
        country: visitor.country.unwrap_or_default(),
        city: visitor.city.unwrap_or_default(),
        at: visitor.at.unwrap_or_else(clock::unix_seconds),
        ..DescribedVisitor::default()
    }
}

fn below(value: &Value) -> Result<String, Reason> {
    Ok(dry_run::read_below(values::text(value)?)?)
}

fn address(value: &Value) -> Result<IpAddr, Reason> {
    Ok(dry_run::read_address(values::text(value)?)?)
}
