//! A link as pages show it.

use super::api::{encoded, query};
use edgelink_model::clock;
use edgelink_model::links::model::{Link, LinkContent};
use edgelink_model::timestamp::Time;
use edgelink_service::links::VisitCounts;
use edgelink_settings::config::LinksConfig;
use edgelink_wire::LinkState;
use serde_json::json;
use std::ops::Deref;

/// A link.
#[derive(Clone, Debug)]
pub(super) struct ShownLink {
    link: Link,
    pub(super) short_url: String,
    /// A word for the answer that visitors get.
    pub(super) status: &'static str,
    pub(super) visits: Option<VisitCounts>,
}

impl Deref for ShownLink {
    type Target = Link;

    fn deref(&self) -> &Link {
        &self.link
    }
}

impl ShownLink {
    pub(super) fn new(link: Link, visits: Option<VisitCounts>, config: &LinksConfig) -> Self {
        Self {
            short_url: config.short_url(&link.domain, &link.code),
            status: status(&link.content, visits.as_ref()),
            visits,
            link,
        }
    }

    pub(super) fn long_url(&self) -> &str {
        self.content.target.as_str()
    }

    pub(super) fn has_password(&self) -> bool {
        self.content.details.password.is_some()
    }

    pub(super) fn valid_since(&self) -> Option<Time> {
        self.content.valid_since.map(Time::of_seconds)
    }

    pub(super) fn valid_until(&self) -> Option<Time> {
        self.content.valid_until.map(Time::of_seconds)
    }

    pub(super) fn creation_time(&self) -> Time {
        Time::of_millis(self.created_at)
    }

    pub(super) fn change_time(&self) -> Time {
        Time::of_millis(self.updated_at)
    }

    /// The title, or else the short URL without its scheme.
    pub(super) fn name(&self) -> &str {
        let title = self.content.title.as_deref();
        title.unwrap_or_else(|| self.short())
    }

    /// The short URL without its scheme.
    pub(super) fn short(&self) -> &str {
        let url = &self.short_url;
        url.split_once("://").map_or(url, |(_, rest)| rest)
    }

    /// The page of the link.
    pub(super) fn href(&self) -> String {
        self.page("")
    }

    /// A page about the link.
    pub(super) fn page(&self, page: &str) -> String {
        link_href(self.domain.as_str(), self.code.as_str(), page)
    }

    /// The stream of its clicks.
    pub(super) fn live(&self) -> String {
        format!("/console/live{}", query(self.in_query()))
    }

    /// Code and domain, as parameters of a query.
    pub(super) fn in_query(&self) -> [(&str, &str); 2] {
        [
            ("shortCode", self.code.as_str()),
            ("domain", self.domain.as_str()),
        ]
    }

    /// The properties that the script needs for dry runs, as JSON.
    pub(super) fn for_dry_run(&self) -> String {
        let content = &self.content;
        let mut link = json!({
            "domain": self.domain.as_str(), "code": self.code.as_str(), "longUrl": self.long_url(),
            "state": content.state.as_str(), "redirectStatus": content.redirect.code(),
            "forwardQuery": content.forward_query, "forwardPath": content.details.forward_path,
            "hasPassword": self.has_password(),
        });
        for (name, value) in [
            ("validSince", self.valid_since().map(|time| time.0)),
            ("validUntil", self.valid_until().map(|time| time.0)),
            ("expiredUrl", content.details.expired_url.clone()),
        ] {
            if let Some(value) = value {
                link[name] = value.into();
            }
        }
        link.to_string()
    }

    /// Domain and code, as a form sends them.
    pub(super) fn key(&self) -> String {
        self.link.key().to_string()
    }
}

/// A word for the answer that visitors get.
fn status(content: &LinkContent, visits: Option<&VisitCounts>) -> &'static str {
    let now = clock::unix_seconds();
    if content.state == LinkState::Disabled {
        return "disabled";
    }
    if content.valid_until.is_some_and(|until| until <= now) {
        return "expired";
    }
    let used = visits.map_or(0, |visits| visits.used);
    if content.details.max_visits.is_some_and(|max| max <= used) {
        return "used-up";
    }
    if content.valid_since.is_some_and(|since| now < since) {
        "scheduled"
    } else {
        "active"
    }
}

/// A page about a link.
pub(super) fn link_href(domain: &str, code: &str, page: &str) -> String {
    link_page(code, page, &query([("domain", domain)]))
}

/// A page about a link, with an encoded query.
pub(super) fn link_page(code: &str, page: &str, query: &str) -> String {
    let code = encoded(code);
    format!("/console/links/{code}{page}{query}")
}
