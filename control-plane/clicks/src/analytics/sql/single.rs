//! Single clicks, and orphan visits.

use super::super::described;
use super::super::engine::{EngineError, RawClick, RawPlace, RawQuery};
use edgelink_click_store::{ClickStore, RawHead, RawRow, RawScope, RawSelection};
use edgelink_model::clock;
use edgelink_model::counts::Bots;
use edgelink_model::counts::ClickScope;
use edgelink_store::StoreError;
use edgelink_wire::clicks::events::OrphanKind;
use std::collections::HashMap;
use std::ops::Range;

const DAY_SECONDS: u64 = 86_400;

/// Most rows that are read for a page of single clicks.
const MAX_ROWS: u64 = 100_000;

/// A page of clicks.
pub(super) async fn raw(
    store: &ClickStore,
    query: &RawQuery,
) -> Result<Vec<RawClick>, EngineError> {
    let clicks = query.skip.saturating_add(query.limit.into());
    let heads = heads(store, query, clicks).await?;
    let wanted = wanted(&heads, query);
    let numbers: Vec<u64> = wanted.iter().map(|(row, _)| *row).collect();
    let rows = store.raw_rows(&numbers, query.orphans).await?;
    let rows: HashMap<u64, RawRow> = rows.into_iter().map(|row| (row.number, row)).collect();
    let mut found = Vec::new();
    for (row, numbers) in &wanted {
        let Some(row) = rows.get(row) else {
            continue;
        };
        for number in numbers {
            found.push(raw_click(row, *number)?);
        }
    }
    Ok(found)
}

/// Counts the clicks of all pages, up to `most`.
pub(super) async fn count(
    store: &ClickStore,
    query: &RawQuery,
    most: u64,
) -> Result<u64, EngineError> {
    Ok(store.count_raw(&select(query), most).await?)
}

/// Reads the first rows until they have `clicks` clicks, or all. For many links, whose rows come in no order, the last day is read
/// first, and more days if it has too few clicks.
async fn heads(
    store: &ClickStore,
    query: &RawQuery,
    clicks: u64,
) -> Result<Vec<RawHead>, EngineError> {
    let selection = select(query);
    // A row may begin before the position and end after it.
    let most = clicks.min(MAX_ROWS);
    if !matches!(&query.scope, ClickScope::Links(links) if links.len() > 1) {
        return Ok(store.raw_heads(&selection, most).await?);
    }
    let end = query.after.map_or(u64::MAX, |after| after.at);
    let end = end.min(query.to).min(clock::unix_seconds() + DAY_SECONDS);
    for days in [2, 9] {
        let from = end.saturating_sub(days * DAY_SECONDS);
        if from <= query.from {
            break;
        }
        let newest = RawSelection {
            from,
            ..selection.clone()
        };
        let heads = store.raw_heads(&newest, most).await?;
        let numbers = heads.iter().map(|head| numbers(head, query));
        let found = numbers.map(|numbers| numbers.end - numbers.start);
        if found.fold(0, u64::saturating_add) >= clicks {
            return Ok(heads);
        }
    }
    Ok(store.raw_heads(&selection, most).await?)
}

fn select(query: &RawQuery) -> RawSelection {
    let of = match (&query.scope, query.orphans) {
        (ClickScope::Tenant(tenant_id), false) => RawScope::Clicks(*tenant_id, None),
        (ClickScope::Tenant(tenant_id), true) => RawScope::Orphans(*tenant_id, None),
        (
            ClickScope::Domain {
                tenant_id,
                domain_id,
            },
            false,
        ) => RawScope::Clicks(*tenant_id, Some(*domain_id)),
        (
            ClickScope::Domain {
                tenant_id,
                domain_id,
            },
            true,
        ) => RawScope::Orphans(*tenant_id, Some(*domain_id)),
        (ClickScope::Links(links), _) => RawScope::Links(links.clone()),
    };
    RawSelection {
        of,
        from: query.from,
        to: query.to,
        is_bot: match query.bots {
            Bots::Included => None,
            Bots::Excluded => Some(false),
            Bots::Only => Some(true),
        },
        before: query.after.map(|RawPlace { at, number }| (at, number)),
    }
}

/// Numbers of the clicks of a row, from its own number on, without those that are on earlier pages.
fn numbers(head: &RawHead, query: &RawQuery) -> Range<u64> {
    let end = head.number.saturating_add(head.clicks);
    match query.after {
        Some(after) if after.at == head.at => head.number..end.min(after.number).max(head.number),
        _ => head.number..end,
    }
}

/// Numbers of the selected clicks of each row, newest first.
fn wanted(heads: &[RawHead], query: &RawQuery) -> Vec<(u64, Vec<u64>)> {
    let (mut skip, mut room) = (query.skip, u64::from(query.limit));
    let mut rows = Vec::new();
    for head in heads {
        let Range { start, end } = numbers(head, query);
        let skipped = skip.min(end - start);
        skip -= skipped;
        let count = room.min(end - start - skipped);
        room -= count;
        let end = end - skipped;
        if count > 0 {
            rows.push((head.number, (end - count..end).rev().collect()));
        }
    }
    rows
}

fn raw_click(row: &RawRow, number: u64) -> Result<RawClick, EngineError> {
    let described = described::read(&row.described).map_err(|error| StoreError {
        context: "reading single clicks",
        transient: false,
        source: Box::new(error),
    })?;
    Ok(RawClick {
        place: RawPlace { at: row.at, number },
        link_id: row.link_id,
        key: row.key.clone(),
        orphan: match row.kind {
            1 => Some(OrphanKind::BaseUrl),
            2 => Some(OrphanKind::InvalidShortUrl),
            3 => Some(OrphanKind::Regular404),
            _ => None,
        },
        described,
    })
}
