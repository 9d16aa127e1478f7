//! A link as Shlink shows it.

use super::failure::Failure;
use crate::app::App;
use axum::Json;
use axum::response::{IntoResponse, Response};
use edgelink_model::links::model::Link;
use edgelink_model::timestamp;
use edgelink_settings::config::LinksConfig;
use serde::Serialize;

/// A link as Shlink shows it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ShortUrl<'a> {
    short_code: &'a str,
    short_url: String,
    long_url: &'a str,
    date_created: String,
    visits_summary: VisitsSummary,
    tags: &'a [String],
    meta: Meta,
    /// `None` is the default one.
    domain: Option<&'a str>,
    title: Option<&'a str>,
    crawlable: bool,
    forward_query: bool,
    has_redirect_rules: bool,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Meta {
    valid_since: Option<String>,
    valid_until: Option<String>,
    max_visits: Option<u64>,
}

/// Numbers of visits. Visits without attributes do not count as visits of bots.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct VisitsSummary {
    total: u64,
    non_bots: u64,
    bots: u64,
}

impl VisitsSummary {
    /// `total` visits, `bots` of them by bots.
    pub(super) fn new(total: u64, bots: u64) -> Self {
        Self {
            total,
            non_bots: total.saturating_sub(bots),
            bots,
        }
    }
}

impl<'a> ShortUrl<'a> {
    /// The view of a link with its number of clicks here, and the number of them by bots.
    pub(super) fn new(link: &'a Link, (clicks, bots): (u64, u64), config: &LinksConfig) -> Self {
        let content = &link.content;
        let visits = clicks.saturating_add(link.imported_visits);
        let is_default = link.domain == *config.default_domain();
        Self {
            short_code: link.code.as_str(),
            short_url: config.short_url(&link.domain, &link.code),
            long_url: content.target.as_str(),
            date_created: time(link.created_at / 1000),
            visits_summary: VisitsSummary::new(visits, bots),
            tags: &content.tags,
            meta: Meta {
                valid_since: content.valid_since.map(time),
                valid_until: content.valid_until.map(time),
                max_visits: content.details.max_visits,
            },
            domain: (!is_default).then_some(link.domain.as_str()),
            title: content.title.as_deref(),
            crawlable: content.details.crawlable,
            forward_query: content.forward_query,
            has_redirect_rules: !content.details.rules.is_empty(),
        }
    }
}

/// Formats unix seconds with an offset, as Shlink does.
pub(super) fn time(seconds: u64) -> String {
    let text = timestamp::from_seconds(seconds);
    let local = text.strip_suffix('Z').unwrap_or(&text);
    format!("{local}+00:00")
}

/// 200 with the link.
pub(super) async fn found(app: &App, link: &Link) -> Result<Response, Failure> {
    let totals = app.engine.totals(&[link.id]).await?;
    let visits = totals.get(&link.id).copied().unwrap_or_default();
    let view = ShortUrl::new(link, visits, &app.config.links);
    Ok(Json(view).into_response())
}
