//! What the API answers, as pages read it.

use crate::clock;
use crate::timestamp;
use serde::Deserialize;
use serde_json::json;
use std::fmt;
use std::ops::Deref;

/// A time as the API has it (RFC 3339), which people read without its letters and parts of a second.
#[derive(Clone, Debug, Deserialize)]
#[serde(transparent)]
pub(super) struct Moment(pub(super) String);

impl Deref for Moment {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.0.get(..10), self.0.get(11..19)) {
            (Some(day), Some(time)) => write!(to, "{day} {time} UTC"),
            _ => to.write_str(&self.0),
        }
    }
}

/// A link.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct LinkView {
    pub(super) short_code: String,
    pub(super) short_url: String,
    pub(super) long_url: String,
    pub(super) domain: String,
    pub(super) valid_since: Option<Moment>,
    pub(super) valid_until: Option<Moment>,
    pub(super) redirect_status: u16,
    pub(super) forward_query: bool,
    pub(super) state: String,
    pub(super) title: Option<String>,
    pub(super) tags: Vec<String>,
    pub(super) notes: Option<String>,
    pub(super) external_id: Option<String>,
    pub(super) archived: bool,
    pub(super) max_visits: Option<u64>,
    pub(super) visits: Option<VisitsView>,
    pub(super) expired_url: Option<String>,
    pub(super) forward_path: bool,
    pub(super) crawlable: bool,
    pub(super) track_conversions: bool,
    pub(super) has_password: bool,
    pub(super) created_at: Moment,
    pub(super) updated_at: Moment,
}

/// How many visits of a link that has a limit there were.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct VisitsView {
    pub(super) used: u64,
}

impl LinkView {
    /// The title, or else the short URL without its scheme.
    pub(super) fn name(&self) -> &str {
        self.title.as_deref().unwrap_or_else(|| self.short())
    }

    /// The short URL without its scheme.
    pub(super) fn short(&self) -> &str {
        let url = &self.short_url;
        url.split_once("://").map_or(url, |(_, rest)| rest)
    }

    /// Its page.
    pub(super) fn href(&self) -> String {
        link_href(&self.domain, &self.short_code, "")
    }

    /// A page about it.
    pub(super) fn page(&self, page: &str) -> String {
        link_href(&self.domain, &self.short_code, page)
    }

    /// The stream of its clicks.
    pub(super) fn live(&self) -> String {
        let of_link = [("shortCode", &*self.short_code), ("domain", &*self.domain)];
        format!("/console/live{}", super::api::query(of_link))
    }

    /// What the dry run of the script has to know of it, as JSON.
    pub(super) fn for_dry_run(&self) -> String {
        let mut link = json!({
            "domain": self.domain, "code": self.short_code, "longUrl": self.long_url, "state": self.state,
            "redirectStatus": self.redirect_status, "forwardQuery": self.forward_query,
            "forwardPath": self.forward_path, "hasPassword": self.has_password,
        });
        for (name, value) in [
            ("validSince", self.valid_since.as_deref()),
            ("validUntil", self.valid_until.as_deref()),
            ("expiredUrl", self.expired_url.as_deref()),
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

    /// A word for what visitors get.
    pub(super) fn status(&self) -> &'static str {
        let now = clock::unix_seconds();
        let time = |text: &Option<Moment>| timestamp::parse(text.as_deref()?).ok();
        if self.state == "disabled" {
            return "disabled";
        }
        if time(&self.valid_until).is_some_and(|until| until <= now) {
            return "expired";
        }
        let used = self.visits.as_ref().map_or(0, |visits| visits.used);
        if self.max_visits.is_some_and(|max| max <= used) {
            return "used-up";
        }
        if time(&self.valid_since).is_some_and(|since| now < since) {
            "scheduled"
        } else {
            "active"
        }
    }
}

/// A page about a link.
pub(super) fn link_href(domain: &str, code: &str, page: &str) -> String {
    link_page(code, page, &super::api::query([("domain", domain)]))
}

/// The same with a query that is written.
pub(super) fn link_page(code: &str, page: &str, query: &str) -> String {
    let code = super::api::encoded(code);
    format!("/console/links/{code}{page}{query}")
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct LinksView {
    pub(super) links: Vec<LinkView>,
    pub(super) next_cursor: Option<String>,
}

/// Clicks of an interval.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ClicksView {
    pub(super) totals: TotalsView,
    pub(super) data: Vec<ClickItem>,
}

#[derive(Debug, Deserialize)]
pub(super) struct TotalsView {
    pub(super) clicks: u64,
}

/// A value, or a part of the interval, and its clicks.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ClickItem {
    #[serde(default)]
    pub(super) start: String,
    pub(super) value: Option<String>,
    #[serde(default)]
    pub(super) clicks: u64,
    pub(super) short_code: Option<String>,
    pub(super) domain: Option<String>,
}

impl ClickItem {
    /// The day of a part.
    pub(super) fn day(&self) -> &str {
        self.start.get(..10).unwrap_or(&self.start)
    }

    /// The page of the link, of a list of links.
    pub(super) fn href(&self) -> Option<String> {
        let (domain, code) = self.domain.as_deref().zip(self.short_code.as_deref())?;
        Some(link_href(domain, code, ""))
    }

    /// What is counted, or a dash where it is not known.
    pub(super) fn name(&self) -> String {
        match (&self.domain, &self.short_code, &self.value) {
            (Some(domain), Some(code), _) => format!("{domain}/{code}"),
            (_, _, Some(value)) if !value.is_empty() => value.clone(),
            _ => "–".to_owned(),
        }
    }
}

impl ClicksView {
    /// The points of a chart, as JSON.
    pub(super) fn points(&self) -> String {
        let points = self.data.iter().map(|item| (&item.start, item.clicks));
        serde_json::to_string(&points.collect::<Vec<_>>()).unwrap_or_default()
    }
}

/// What became of clicks.
#[derive(Debug, Deserialize)]
pub(super) struct AccountsView {
    pub(super) sent: u64,
    pub(super) counted: u64,
    pub(super) dropped: u64,
    pub(super) undescribed: u64,
}

/// What became of the clicks of each edge.
#[derive(Debug, Deserialize)]
pub(super) struct EdgesView {
    pub(super) data: Vec<EdgeView>,
}

/// What became of the clicks of an edge, and how it is doing.
#[derive(Debug, Deserialize)]
pub(super) struct EdgeView {
    /// Its name, if it has one.
    edge: Option<String>,
    #[serde(flatten)]
    pub(super) accounts: AccountsView,
    /// `None` if it has not said so in the last day.
    pub(super) health: Option<HealthView>,
}

/// How an edge is doing.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct HealthView {
    pub(super) heard_at: Moment,
    pub(super) silent: bool,
    pub(super) workers: u64,
    feed_lag_ms: Option<u64>,
    pub(super) admitting_workers: u64,
    hit_share: Option<f64>,
    pub(super) requests: RequestsView,
}

/// Requests of the last minute.
#[derive(Debug, Deserialize)]
pub(super) struct RequestsView {
    /// Those that admission has refused.
    pub(super) admission: u64,
}

impl EdgeView {
    pub(super) fn name(&self) -> &str {
        self.edge.as_deref().unwrap_or("–")
    }
}

impl HealthView {
    /// Milliseconds as seconds; `None` if a worker has read no feed.
    pub(super) fn lag(&self) -> Option<String> {
        let hundredths = self.feed_lag_ms?.div_ceil(10);
        Some(format!("{}.{:02} s", hundredths / 100, hundredths % 100))
    }

    /// In per cent; `None` if no links were looked up.
    pub(super) fn hits(&self) -> Option<String> {
        let share = self.hit_share?;
        Some(format!("{:.2} %", share * 100.0))
    }
}

impl AccountsView {
    /// Those that are neither counted nor lost yet.
    pub(super) fn waiting(&self) -> u64 {
        self.sent
            .saturating_sub(self.counted)
            .saturating_sub(self.dropped)
    }

    /// How many of those that were sent are lost, in per cent.
    pub(super) fn lost(&self) -> String {
        let hundredths = match self.sent {
            0 => 0,
            sent => u128::from(self.dropped) * 10_000 / u128::from(sent),
        };
        format!("{}.{:02} %", hundredths / 100, hundredths % 100)
    }
}

/// An answer for each item of a bulk request.
#[derive(Debug, Deserialize)]
pub(super) struct BulkView {
    pub(super) results: Vec<BulkItem>,
}

#[derive(Debug, Deserialize)]
pub(super) struct BulkItem {
    pub(super) index: usize,
    pub(super) link: Option<LinkView>,
    pub(super) error: Option<ProblemView>,
}

/// What was wrong with an item.
#[derive(Debug, Deserialize)]
pub(super) struct ProblemView {
    title: String,
    detail: Option<String>,
    #[serde(default)]
    errors: Vec<ErrorView>,
}

#[derive(Debug, Deserialize)]
struct ErrorView {
    field: String,
    reason: String,
}

impl ProblemView {
    pub(super) fn text(&self) -> String {
        let errors = self.errors.iter();
        let errors: Vec<String> = errors
            .map(|error| format!("{} {}", error.field, error.reason))
            .collect();
        match (errors.is_empty(), &self.detail) {
            (false, _) => errors.join("; "),
            (true, Some(detail)) => detail.clone(),
            (true, None) => self.title.clone(),
        }
    }
}
