//! Clicks and their accounting as pages show them.

use super::shown_link::link_href;
use edgelink_service::accounting::{AccountsView, GroupView};
use edgelink_service::analytics::{AnalyticsView, ItemView};
use edgelink_service::edge_health::HealthView;

/// The points of a chart, as JSON.
pub(super) fn points(view: &AnalyticsView) -> String {
    let points = view.data.iter().map(|item| (&item.start, count(item)));
    serde_json::to_string(&points.collect::<Vec<_>>()).unwrap_or_default()
}

/// The day of a part of a series.
pub(super) fn day(item: &ItemView) -> &str {
    let start = item.start.as_deref().unwrap_or_default();
    start.get(..10).unwrap_or(start)
}

/// The page of the link, of a list of links.
pub(super) fn href(item: &ItemView) -> Option<String> {
    let (domain, code) = item.domain.as_deref().zip(item.short_code.as_deref())?;
    Some(link_href(domain, code, ""))
}

/// The name of the counted value, or a dash if it is unknown.
pub(super) fn name(item: &ItemView) -> String {
    match (&item.domain, &item.short_code, &item.value) {
        (Some(domain), Some(code), _) => format!("{domain}/{code}"),
        (_, _, Some(Some(value))) if !value.is_empty() => value.clone(),
        _ => "–".to_owned(),
    }
}

/// The number of clicks; 0 for conversions.
pub(super) fn count(item: &ItemView) -> u64 {
    item.clicks.unwrap_or_default()
}

/// The name of the edge, or a dash if it has none.
pub(super) fn edge_name(edge: &GroupView) -> &str {
    let edge = edge.edge.as_ref().and_then(Option::as_deref);
    edge.unwrap_or("–")
}

/// Milliseconds as seconds; `None` if a worker has read no feed.
pub(super) fn lag(health: &HealthView) -> Option<String> {
    let hundredths = health.feed_lag_ms?.div_ceil(10);
    Some(format!("{}.{:02} s", hundredths / 100, hundredths % 100))
}

/// In per cent; `None` if no links were looked up.
pub(super) fn hits(health: &HealthView) -> Option<String> {
    let share = health.hit_share?;
    Some(format!("{:.2} %", share * 100.0))
}

/// Number of clicks that are neither counted nor lost yet.
pub(super) fn waiting(accounts: &AccountsView) -> u64 {
    accounts
        .sent
        .saturating_sub(accounts.counted)
        .saturating_sub(accounts.dropped)
}

/// The share of sent clicks that is lost, in per cent.
pub(super) fn lost(accounts: &AccountsView) -> String {
    let hundredths = match accounts.sent {
        0 => 0,
        sent => u128::from(accounts.dropped) * 10_000 / u128::from(sent),
    };
    format!("{}.{:02} %", hundredths / 100, hundredths % 100)
}
