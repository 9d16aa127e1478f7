//! A link as pages show it.

use super::api::{encoded, query};
use edgelink_model::clock;
use edgelink_model::links::model::{Link, LinkContent};
use edgelink_model::timestamp::Time;
use edgelink_service::links::VisitCounts;
use edgelink_settings::config::LinksConfig;
use edgelink_wire::LinkState;
use serde_json::json;

/// A link.
#[derive(Clone, Debug)]
pub(super) struct ShownLink {
    pub(super) short_code: String,
    pub(super) short_url: String,
    pub(super) long_url: String,
    pub(super) domain: String,
    pub(super) valid_since: Option<Time>,
    pub(super) valid_until: Option<Time>,
    pub(super) redirect_status: u16,
    pub(super) forward_query: bool,
    pub(super) state: &'static str,
    /// A word for the answer that visitors get.
    pub(super) status: &'static str,
    pub(super) title: Option<String>,
    pub(super) tags: Vec<String>,
    pub(super) notes: Option<String>,
    pub(super) external_id: Option<String>,
    pub(super) archived: bool,
    pub(super) max_visits: Option<u64>,
    pub(super) visits: Option<VisitCounts>,
    pub(super) expired_url: Option<String>,
    pub(super) forward_path: bool,
    pub(super) crawlable: bool,
    pub(super) track_conversions: bool,
    pub(super) has_password: bool,
    pub(super) created_at: Time,
    pub(super) updated_at: Time,
}

impl ShownLink {
    pub(super) fn new(link: &Link, visits: Option<VisitCounts>, config: &LinksConfig) -> Self {
        let content = &link.content;
        let details = &content.details;
        Self {
            short_code: link.code.to_string(),
            short_url: config.short_url(&link.domain, &link.code),
            long_url: content.target.as_str().to_owned(),
            domain: link.domain.as_str().to_owned(),
            valid_since: content.valid_since.map(Time::of_seconds),
            valid_until: content.valid_until.map(Time::of_seconds),
            redirect_status: content.redirect.code(),
            forward_query: content.forward_query,
            state: content.state.as_str(),
            title: content.title.clone(),
            tags: content.tags.clone(),
            notes: details.notes.clone(),
            external_id: content.external_id.clone(),
            archived: content.archived,
            max_visits: details.max_visits,
            status: status(content, visits.as_ref()),
            visits,
            expired_url: details.expired_url.clone(),
            forward_path: details.forward_path,
            crawlable: details.crawlable,
            track_conversions: details.track_conversions,
            has_password: details.password.is_some(),
            created_at: Time::of_millis(link.created_at),
            updated_at: Time::of_millis(link.updated_at),
        }
    }

    /// The title, or else the short URL without its scheme.
    pub(super) fn name(&self) -> &str {
        self.title.as_deref().unwrap_or_else(|| self.short())
    }

    /// The short URL without its scheme.
    pub(super) fn short(&self) -> &str {
        let url = &self.short_url;
        url.split_once("://").map_or(url, |(_, rest)| rest)
    }

    /// The page of the link.
    pub(super) fn href(&self) -> String {
        link_href(&self.domain, &self.short_code, "")
    }

    /// A page about the link.
    pub(super) fn page(&self, page: &str) -> String {
        link_href(&self.domain, &self.short_code, page)
    }

    /// The stream of its clicks.
    pub(super) fn live(&self) -> String {
        let of_link = [("shortCode", &*self.short_code), ("domain", &*self.domain)];
        format!("/console/live{}", query(of_link))
    }

    /// The properties that the script needs for dry runs, as JSON.
    pub(super) fn for_dry_run(&self) -> String {
        let mut link = json!({
            "domain": self.domain, "code": self.short_code, "longUrl": self.long_url, "state": self.state,
            "redirectStatus": self.redirect_status, "forwardQuery": self.forward_query,
            "forwardPath": self.forward_path, "hasPassword": self.has_password,
        });
        let text = |time: &Option<Time>| time.as_ref().map(|time| time.0.clone());
        for (name, value) in [
            ("validSince", text(&self.valid_since)),
            ("validUntil", text(&self.valid_until)),
            ("expiredUrl", self.expired_url.clone()),
        ] {
            if let Some(value) = value {
                link[name] = value.into();
            }
        }
        link.to_string()
    }

    /// Domain and code, as a form sends them.
    pub(super) fn key(&self) -> String {
        format!("{}/{}", self.domain, self.short_code)
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
