//! The use case of a dry run: tells where a visitor would be sent, and counts nothing.

use super::caller::Caller;
use super::fields::Reason;
use super::links::Links;
use super::request::request;
use super::values;
use crate::problem::Problem;
use edgelink_model::clock;
use edgelink_model::links::model::Link;
use edgelink_wire::LinkKey;
use edgelink_wire::dry_run::{self, DescribedVisitor};
use serde_json::Value;
use std::net::IpAddr;

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

impl Links {
    /// A link that exists for the caller, and the visitor, completed by the state of the link: used-up visits, and the password.
    pub async fn dry_run(
        &self,
        caller: &Caller,
        key: &LinkKey,
        visitor: Visitor,
    ) -> Result<(Link, DescribedVisitor), Problem> {
        let (link, visits) = self.find_with_visits(caller, key).await?;
        let mut visitor = described(visitor);
        if let (Some(max), Some(visits)) = (link.content.details.max_visits, visits) {
            visitor.is_used_up = visits.used >= max;
        }
        let hash = link.content.details.password.as_deref();
        visitor.unlock(key.to_string().as_bytes(), hash);
        Ok((link, visitor))
    }
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
