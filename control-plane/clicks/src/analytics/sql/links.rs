//! Breakdowns by link, tag and domain.
//!
//! Rollups of links have none of them: they follow from the links. Rollups of domains and tenants have a bounded number of links, so
//! the own rollups of the candidates for most clicks are read.

use super::super::engine::{AnalyticsQuery, Breakdown, EngineError};
use super::super::reading::host;
use super::counting::{StoredRollups, top};
use edgelink_model::counts::ClickScope;
use edgelink_model::counts::{Attribute, OTHER};
use edgelink_wire::LinkKey;
use std::collections::HashMap;

/// Spare candidates beyond twice the limit, where not all links are known.
const SPARE: usize = 100;

/// Breaks clicks of links down by properties of the links.
pub(super) async fn of_links(
    counting: &StoredRollups<'_>,
    query: &AnalyticsQuery,
    by: Attribute,
    limit: usize,
) -> Result<Breakdown, EngineError> {
    let links = counting.by_scope(query).await?;
    let mut ids: Vec<(u64, u64)> = links.into_iter().collect();
    ids.sort_unstable_by(|one, two| two.1.cmp(&one.1).then_with(|| one.0.cmp(&two.0)));
    let mut sums: HashMap<String, u64> = HashMap::new();
    // Links of which only the clicks are left.
    let mut rest: HashMap<u64, u64> = ids.iter().copied().collect();
    if by == Attribute::Link {
        ids.truncate(limit.saturating_add(SPARE));
    }
    let ids: Vec<u64> = ids.into_iter().map(|(id, _)| id).collect();
    for (id, key, tags) in counting.store.keys_and_tags(&ids).await? {
        let clicks = rest.remove(&id).unwrap_or(0);
        let mut add = |value: String| *sums.entry(value).or_default() += clicks;
        match by {
            Attribute::Tag if tags.is_empty() => add(String::new()),
            Attribute::Tag => tags.into_iter().for_each(add),
            Attribute::Domain => add(host(&key).to_owned()),
            _ => add(key),
        }
    }
    let rest = rest.into_values().fold(0, u64::saturating_add);
    *sums.entry(OTHER.to_owned()).or_default() += rest;
    Ok(top(sums, limit))
}

/// The links of a domain or tenant with most clicks.
pub(super) async fn of_many(
    counting: &StoredRollups<'_>,
    query: &AnalyticsQuery,
    limit: usize,
) -> Result<Breakdown, EngineError> {
    let sums = counting.values(query, Attribute::Link).await?;
    if !sums.contains_key(OTHER) {
        return Ok(top(sums, limit));
    }
    let all = sums.values().copied().fold(0, u64::saturating_add);
    let mut found: HashMap<String, u64> = top(sums, 2 * limit + SPARE).into_iter().collect();
    found.remove(OTHER);
    let keys: Vec<LinkKey> = found.keys().filter_map(|key| key.parse().ok()).collect();
    let links = counting.store.clicked_links(&keys).await?;
    let query = AnalyticsQuery {
        scope: ClickScope::Links(links.iter().map(|(_, link)| link.id).collect()),
        ..query.clone()
    };
    let exact = counting.by_scope(&query).await?;
    for (key, link) in links {
        if let Some(clicks) = found.get_mut(&key.to_string()) {
            // A key may have belonged to another link before.
            *clicks = exact.get(&link.id).copied().unwrap_or(0).max(*clicks);
        }
    }
    let shown = found.values().copied().fold(0, u64::saturating_add);
    found.insert(OTHER.to_owned(), all.saturating_sub(shown));
    Ok(top(found, limit))
}

/// The breakdown of a domain by domain: itself, by name.
pub(super) async fn of_domain(
    counting: &StoredRollups<'_>,
    query: &AnalyticsQuery,
) -> Result<Breakdown, EngineError> {
    let sums = counting.values(query, Attribute::Link).await?;
    let clicks = sums.values().copied().fold(0, u64::saturating_add);
    let name = sums.keys().find(|key| *key != OTHER && !key.is_empty());
    let name = name.map_or(OTHER, |key| host(key)).to_owned();
    Ok(top(HashMap::from([(name, clicks)]), 1))
}
