//! A link as the API shows it.

use super::if_match::entity_tag;
use axum::Json;
use axum::response::{IntoResponse, Response};
use edgelink_model::links::model::Link;
use edgelink_model::links::utm;
use edgelink_model::timestamp;
use edgelink_service::links::VisitCounts;
use edgelink_service::schemas;
use edgelink_settings::config::LinksConfig;
use edgelink_wire::rules::{Condition, Rule};
use http::{HeaderValue, StatusCode, header};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Serialize;
use std::borrow::Cow;
use utoipa::ToSchema;

/// A link as the API shows it.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Link)]
pub(crate) struct LinkView<'a> {
    short_code: &'a str,
    short_url: String,
    long_url: &'a str,
    domain: &'a str,
    valid_since: Option<String>,
    valid_until: Option<String>,
    redirect_status: u16,
    forward_query: bool,
    state: &'static str,
    title: Option<&'a str>,
    tags: &'a [String],
    notes: Option<&'a str>,
    external_id: Option<&'a str>,
    archived: bool,
    max_visits: Option<u64>,
    bots_use_visits: bool,
    /// Only of a single link that has a limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    visits: Option<VisitsView>,
    expired_url: Option<&'a str>,
    forward_path: bool,
    crawlable: bool,
    track_conversions: bool,
    hide_referrer: bool,
    /// Whether visitors have to give a password, which no answer has.
    has_password: bool,
    utm_source: Option<Cow<'a, str>>,
    utm_medium: Option<Cow<'a, str>>,
    utm_campaign: Option<Cow<'a, str>>,
    utm_term: Option<Cow<'a, str>>,
    utm_content: Option<Cow<'a, str>>,
    imported_visits: u64,
    created_at: String,
    updated_at: String,
    /// Only in lists that are asked for them.
    #[serde(skip_serializing_if = "Option::is_none")]
    redirect_rules: Option<Vec<RuleView<'a>>>,
}

/// A rule of a link as the API shows it.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Rule)]
pub(super) struct RuleView<'a> {
    long_url: &'a str,
    priority: usize,
    #[schema(value_type = Vec<schemas::Condition>)]
    conditions: &'a [Condition],
}

/// The rules of a link in the order in which they count.
pub(super) fn rules(link: &Link) -> Vec<RuleView<'_>> {
    let rules = link.content.details.rules.iter().zip(1..);
    let view = |(rule, priority)| RuleView::new(rule, priority);
    rules.map(view).collect()
}

impl<'a> RuleView<'a> {
    fn new(rule: &'a Rule, priority: usize) -> Self {
        Self {
            long_url: &rule.target,
            priority,
            conditions: &rule.conditions,
        }
    }
}

impl<'a> LinkView<'a> {
    pub(crate) fn new(link: &'a Link, config: &LinksConfig) -> Self {
        let content = &link.content;
        let [utm_source, utm_medium, utm_campaign, utm_term, utm_content] =
            utm::values(&content.target);
        Self {
            short_code: link.code.as_str(),
            short_url: config.short_url(&link.domain, &link.code),
            long_url: content.target.as_str(),
            domain: link.domain.as_str(),
            valid_since: content.valid_since.map(timestamp::from_seconds),
            valid_until: content.valid_until.map(timestamp::from_seconds),
            redirect_status: content.redirect.code(),
            forward_query: content.forward_query,
            state: content.state.as_str(),
            title: content.title.as_deref(),
            tags: &content.tags,
            notes: content.details.notes.as_deref(),
            external_id: content.external_id.as_deref(),
            archived: content.archived,
            max_visits: content.details.max_visits,
            bots_use_visits: !content.details.spares_bots,
            visits: None,
            expired_url: content.details.expired_url.as_deref(),
            forward_path: content.details.forward_path,
            crawlable: content.details.crawlable,
            track_conversions: content.details.track_conversions,
            hide_referrer: content.details.hide_referrer,
            has_password: content.details.password.is_some(),
            utm_source,
            utm_medium,
            utm_campaign,
            utm_term,
            utm_content,
            imported_visits: link.imported_visits,
            created_at: timestamp::from_millis(link.created_at),
            updated_at: timestamp::from_millis(link.updated_at),
            redirect_rules: None,
        }
    }

    /// The view of a link with its rules.
    pub(super) fn with_rules(link: &'a Link, config: &LinksConfig) -> Self {
        Self {
            redirect_rules: Some(rules(link)),
            ..Self::new(link, config)
        }
    }
}

/// How many visits of a link there were.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Visits)]
struct VisitsView {
    /// As far as edges have said.
    used: u64,
    /// Those that are out at edges.
    leased: u64,
}

/// 200 with the link, and with its visits if it has a limit.
pub(crate) fn found_with_visits(
    link: &Link,
    visits: Option<VisitCounts>,
    config: &LinksConfig,
) -> Response {
    let view = LinkView {
        visits: visits.map(|VisitCounts { used, leased }| VisitsView { used, leased }),
        ..LinkView::new(link, config)
    };
    (
        StatusCode::OK,
        [(header::ETAG, entity_tag(link))],
        Json(view),
    )
        .into_response()
}

/// 200 with the link.
pub(crate) fn found(link: &Link, config: &LinksConfig) -> Response {
    found_with_visits(link, None, config)
}

/// 201 with the link and the address of its resource.
pub(crate) fn created(link: &Link, config: &LinksConfig) -> Response {
    let mut response = found(link, config);
    *response.status_mut() = StatusCode::CREATED;
    // Codes and encoded domains are visible ASCII, so this is always a header.
    if let Ok(location) = HeaderValue::from_str(&resource(link, config)) {
        response.headers_mut().insert(header::LOCATION, location);
    }
    response
}

fn resource(link: &Link, config: &LinksConfig) -> String {
    let code = &link.code;
    if link.domain == *config.default_domain() {
        format!("/api/v1/links/{code}")
    } else {
        let domain = utf8_percent_encode(link.domain.as_str(), NON_ALPHANUMERIC);
        format!("/api/v1/links/{code}?domain={domain}")
    }
}
