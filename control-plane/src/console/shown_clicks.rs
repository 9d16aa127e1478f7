//! Clicks and their accounting as pages show them.

use super::shown_link::link_href;
use crate::service::accounting::{AccountsView, GroupView};
use crate::service::analytics::{AnalyticsView, ItemView};
use crate::service::edge_health::HealthView;

impl AnalyticsView {
    /// The points of a chart, as JSON.
    pub(super) fn points(&self) -> String {
        let points = self.data.iter().map(|item| (&item.start, item.count()));
        serde_json::to_string(&points.collect::<Vec<_>>()).unwrap_or_default()
    }
}

impl ItemView {
    /// The day of a part of a series.
    pub(super) fn day(&self) -> &str {
        let start = self.start.as_deref().unwrap_or_default();
        start.get(..10).unwrap_or(start)
    }

    /// The page of the link, of a list of links.
    pub(super) fn href(&self) -> Option<String> {
        let (domain, code) = self.domain.as_deref().zip(self.short_code.as_deref())?;
        Some(link_href(domain, code, ""))
    }

    /// The name of the counted value, or a dash if it is unknown.
    pub(super) fn name(&self) -> String {
        match (&self.domain, &self.short_code, &self.value) {
            (Some(domain), Some(code), _) => format!("{domain}/{code}"),
            (_, _, Some(Some(value))) if !value.is_empty() => value.clone(),
            _ => "–".to_owned(),
        }
    }

    /// The number of clicks; 0 for conversions.
    pub(super) fn count(&self) -> u64 {
        self.clicks.unwrap_or_default()
    }
}

impl GroupView {
    /// The name of the edge, or a dash if it has none.
    pub(super) fn name(&self) -> &str {
        let edge = self.edge.as_ref().and_then(Option::as_deref);
        edge.unwrap_or("–")
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
    /// Number of clicks that are neither counted nor lost yet.
    pub(super) fn waiting(&self) -> u64 {
        self.sent
            .saturating_sub(self.counted)
            .saturating_sub(self.dropped)
    }

    /// The share of sent clicks that is lost, in per cent.
    pub(super) fn lost(&self) -> String {
        let hundredths = match self.sent {
            0 => 0,
            sent => u128::from(self.dropped) * 10_000 / u128::from(sent),
        };
        format!("{}.{:02} %", hundredths / 100, hundredths % 100)
    }
}
