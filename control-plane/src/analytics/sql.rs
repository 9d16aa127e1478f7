//! The engine that keeps clicks in the database: rollups by hour and by day, and single clicks if that is configured.

use super::described;
use super::engine::{
    AnalyticsQuery, Breakdown, Chunk, Engine, EngineError, Numbers, RawClick, RawPlace, RawQuery,
    Scope, Slot, Visitors,
};
use super::gathering::{domain_scope, gather};
use super::model::{Attribute, Bots, Click, OTHER, Orphan};
use super::plan::{Part, plan};
use super::rollup::{EncodedRollup, RollupError, Tally};
use super::sketch::Sketch;
use crate::clock;
use crate::config::AnalyticsConfig;
use crate::store::{
    ClickWrite, DayProgress, DocKind, NewOrphan, NewRaw, RawHead, RawRow, RawScope, RawSelection,
    Store, StoreError, StoredDoc,
};
use async_trait::async_trait;
use edgelink_wire::clicks::events::OrphanKind;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

const DAY_SECONDS: u64 = 86_400;

const HOUR_SECONDS: u64 = 3600;

/// The longest key of a click without a link that is kept with it.
const MAX_KEY: usize = 324;

/// How many links are read at once.
const MAX_LINKS: usize = 256;

/// The most rows that a page of single clicks looks at.
const MAX_ROWS: u64 = 100_000;

/// Clicks in the database.
pub struct SqlEngine {
    store: Arc<Store>,
    settings: AnalyticsConfig,
    /// The day that is summed up.
    day: Mutex<Option<DayProgress>>,
}

impl SqlEngine {
    /// An engine on this database.
    #[must_use]
    pub fn new(store: Arc<Store>, settings: AnalyticsConfig) -> Self {
        Self {
            store,
            settings,
            day: Mutex::default(),
        }
    }

    fn raw<'a>(&self, clicks: &'a [Click]) -> Vec<NewRaw<'a>> {
        match self.settings.raw_days {
            0 => Vec::new(),
            _ => clicks.iter().map(new_raw).collect(),
        }
    }

    fn orphans<'a>(&self, orphans: &'a [Orphan]) -> Vec<NewOrphan<'a>> {
        orphans.iter().map(new_orphan).collect()
    }

    /// Reads all rollups of a query, and gives them to `add` with the part of the interval that they are of.
    async fn each(
        &self,
        query: &AnalyticsQuery,
        bounds: &[u64],
        mut add: impl FnMut(&Part, &StoredDoc, &EncodedRollup<'_>) -> Result<(), RollupError> + Send,
    ) -> Result<(), EngineError> {
        let (kind, scopes) = match &query.scope {
            Scope::Tenant(tenant_id) => (DocKind::Tenant, vec![u64::from(*tenant_id)]),
            Scope::Domain {
                tenant_id,
                domain_id,
            } => (DocKind::Domain, vec![domain_scope(*tenant_id, *domain_id)]),
            Scope::Links(links) => (DocKind::Link, links.clone()),
        };
        let kept = clock::unix_seconds() / DAY_SECONDS;
        let kept = kept.saturating_sub(self.settings.hours_days);
        let days_until = self.store.days_until().await?;
        let parts = plan(query.from..query.to, bounds, days_until, kept);
        for scopes in scopes.chunks(MAX_LINKS) {
            for part in &parts {
                for doc in self.store.read_docs(kind, scopes, &part.span).await? {
                    let read = EncodedRollup::open(&doc.doc);
                    if let Err(error) = read.and_then(|rollup| add(part, &doc, &rollup)) {
                        tracing::error!(?kind, scope = doc.scope_id, time = doc.time, %error, "stored clicks cannot be read: they are left out");
                    }
                }
            }
        }
        Ok(())
    }

    /// Clicks by link, for the breakdowns that rollups of links do not have.
    async fn by_link(&self, query: &AnalyticsQuery) -> Result<HashMap<u64, u64>, EngineError> {
        let mut links: HashMap<u64, u64> = HashMap::new();
        let bots = query.bots;
        let add = |part: &Part, doc: &StoredDoc, rollup: &EncodedRollup<'_>| {
            let clicks = part.tally(doc.time, &rollup.slots).of(bots);
            *links.entry(doc.scope_id).or_default() += clicks;
            Ok(())
        };
        self.each(query, &[], add).await?;
        Ok(links)
    }

    async fn of_links(
        &self,
        query: &AnalyticsQuery,
        by: Attribute,
    ) -> Result<HashMap<String, u64>, EngineError> {
        let links = self.by_link(query).await?;
        let ids: Vec<u64> = links.keys().copied().collect();
        let mut sums: HashMap<String, u64> = HashMap::new();
        for (id, key, tags) in self.store.keys_and_tags(&ids).await? {
            let clicks = links.get(&id).copied().unwrap_or(0);
            let mut add = |value: String| *sums.entry(value).or_default() += clicks;
            match by {
                Attribute::Tag if tags.is_empty() => add(String::new()),
                Attribute::Tag => tags.into_iter().for_each(add),
                Attribute::Domain => add(super::reading::host(&key).to_owned()),
                _ => add(key),
            }
        }
        Ok(sums)
    }

    /// The first rows, so many that `clicks` clicks are in them, or all.
    async fn heads(&self, query: &RawQuery, clicks: u64) -> Result<Vec<RawHead>, EngineError> {
        let selection = select(query);
        // A row may have begun before the place, and end behind it.
        let heads = self.store.raw_heads(&selection, clicks.min(MAX_ROWS));
        Ok(heads.await?)
    }

    fn check_raw(&self, query: &RawQuery) -> Result<(), EngineError> {
        match self.settings.raw_days {
            0 => Err(EngineError::Unsupported(match query.orphans {
                true => "no orphan visits are kept (analytics.raw_days)",
                false => "no single clicks are kept (analytics.raw_days)",
            })),
            _ => Ok(()),
        }
    }
}

fn new_raw(click: &Click) -> NewRaw<'_> {
    let described = click.described.as_deref();
    let mut bytes = Vec::new();
    described::write(described, &mut bytes);
    NewRaw {
        clicks: click.count,
        at: click.at,
        tenant_id: click.tenant_id,
        domain_id: click.domain_id,
        link_id: click.link_id,
        is_bot: described.is_some_and(|described| described.agent.is_bot),
        key: (!click.has_link() && click.key.len() <= MAX_KEY).then_some(&*click.key),
        described: bytes,
    }
}

fn new_orphan(orphan: &Orphan) -> NewOrphan<'_> {
    let mut bytes = Vec::new();
    described::write(Some(&orphan.described), &mut bytes);
    NewOrphan {
        at: orphan.at,
        tenant_id: orphan.tenant_id,
        domain_id: orphan.domain_id,
        kind: match orphan.kind {
            OrphanKind::BaseUrl => 1,
            OrphanKind::InvalidShortUrl => 2,
            OrphanKind::Regular404 => 3,
        },
        is_bot: orphan.described.agent.is_bot,
        url: &orphan.url,
        described: bytes,
    }
}

fn select(query: &RawQuery) -> RawSelection {
    let of = match (&query.scope, query.orphans) {
        (Scope::Tenant(tenant_id), false) => RawScope::Clicks(*tenant_id, None),
        (Scope::Tenant(tenant_id), true) => RawScope::Orphans(*tenant_id, None),
        (
            Scope::Domain {
                tenant_id,
                domain_id,
            },
            false,
        ) => RawScope::Clicks(*tenant_id, Some(*domain_id)),
        (
            Scope::Domain {
                tenant_id,
                domain_id,
            },
            true,
        ) => RawScope::Orphans(*tenant_id, Some(*domain_id)),
        (Scope::Links(links), _) => RawScope::Links(links.clone()),
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

/// The numbers of the wanted clicks of each row, newest first: a row has its clicks from its number on.
fn wanted(heads: &[RawHead], query: &RawQuery) -> Vec<(u64, Vec<u64>)> {
    let (mut skip, mut room) = (query.skip, u64::from(query.limit));
    let mut rows = Vec::new();
    for head in heads {
        let mut end = head.number.saturating_add(head.clicks);
        if let Some(after) = query.after
            && after.at == head.at
        {
            end = end.min(after.number);
        }
        let skipped = skip.min(end - head.number);
        skip -= skipped;
        let count = room.min(end - head.number - skipped);
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

/// The values with most clicks, and the rest as [`OTHER`], which is the last.
fn top(mut sums: HashMap<String, u64>, limit: usize) -> Breakdown {
    let mut other = sums.remove(OTHER).unwrap_or(0);
    sums.retain(|_, clicks| *clicks > 0);
    let mut values: Breakdown = sums.into_iter().collect();
    values.sort_unstable_by(|one, two| two.1.cmp(&one.1).then_with(|| one.0.cmp(&two.0)));
    let rest = values.drain(limit.min(values.len())..);
    other = rest.fold(other, |other, (_, clicks)| other.saturating_add(clicks));
    if other > 0 {
        values.push((OTHER.to_owned(), other));
    }
    values
}

#[async_trait]
impl Engine for SqlEngine {
    async fn write(&self, chunk: &Chunk) -> Result<(), EngineError> {
        let gathered = gather(&chunk.clicks, self.settings.max_values);
        let max_orphans = match self.settings.raw_days {
            0 => 0,
            _ => self.settings.max_orphans,
        };
        let write = ClickWrite {
            rows: &chunk.rows,
            docs: gathered.docs,
            totals: gathered.totals,
            raw: self.raw(&chunk.clicks),
            orphans: self.orphans(&chunk.orphans),
            max_values: self.settings.max_values,
            max_orphans,
        };
        Ok(self.store.write_clicks(&write).await?)
    }

    async fn upkeep(&self, settled: u64) -> Result<bool, EngineError> {
        let known = *self.day.lock().unwrap_or_else(PoisonError::into_inner);
        let progress = match known {
            Some(progress) => progress,
            None => {
                let day = self.store.days_until().await?;
                if (u64::from(day) + 1) * DAY_SECONDS + HOUR_SECONDS > settled {
                    return Ok(false);
                }
                DayProgress::begin(day)
            }
        };
        let next = self
            .store
            .build_day(progress, self.settings.max_values)
            .await;
        *self.day.lock().unwrap_or_else(PoisonError::into_inner) = match &next {
            Ok(next) => *next,
            Err(_) => None,
        };
        next?;
        Ok(true)
    }

    async fn count(&self, query: &AnalyticsQuery) -> Result<Numbers, EngineError> {
        let slots = self.series(query, &[query.from], Visitors::Counted).await?;
        Ok(slots
            .first()
            .map_or_else(Numbers::default, |slot| slot.numbers))
    }

    async fn series(
        &self,
        query: &AnalyticsQuery,
        slots: &[u64],
        visitors: Visitors,
    ) -> Result<Vec<Slot>, EngineError> {
        let mut sums = vec![(0_u64, Sketch::default()); slots.len()];
        let counts_visitors = visitors == Visitors::Counted && query.bots != Bots::Only;
        let (bots, bounds) = (query.bots, if counts_visitors { slots } else { &[] });
        let slot_of = |second: u64| slots.partition_point(|slot| *slot <= second).checked_sub(1);
        let add = |part: &Part, doc: &StoredDoc, rollup: &EncodedRollup<'_>| {
            for (second, tally) in part.tallies(doc.time, &rollup.slots) {
                if let Some((clicks, _)) = slot_of(second).and_then(|slot| sums.get_mut(slot)) {
                    *clicks = clicks.saturating_add(tally.of(bots));
                }
            }
            let begin = part.begin(doc.time);
            if counts_visitors
                && part.is_mostly_in(doc.time)
                && let Some((_, visitors)) = slot_of(begin).and_then(|slot| sums.get_mut(slot))
            {
                visitors.merge(&rollup.visitors()?);
            }
            Ok(())
        };
        self.each(query, bounds, add).await?;
        let slot = |(from, (clicks, visitors)): (&u64, (u64, Sketch))| Slot {
            from: *from,
            numbers: Numbers {
                clicks,
                visitors: visitors.estimate(),
            },
        };
        Ok(slots.iter().zip(sums).map(slot).collect())
    }

    async fn breakdown(
        &self,
        query: &AnalyticsQuery,
        by: Attribute,
        limit: usize,
    ) -> Result<Breakdown, EngineError> {
        let is_of_links = matches!(by, Attribute::Link | Attribute::Tag | Attribute::Domain);
        if is_of_links && matches!(query.scope, Scope::Links(_)) {
            return Ok(top(self.of_links(query, by).await?, limit));
        }
        let mut sums: HashMap<String, u64> = HashMap::new();
        let bots = query.bots;
        let add = |part: &Part, doc: &StoredDoc, rollup: &EncodedRollup<'_>| {
            if !part.is_mostly_in(doc.time) {
                return Ok(());
            }
            for (value, tally) in rollup.values(by)? {
                let clicks = tally.of(bots);
                match sums.get_mut(value) {
                    Some(sum) => *sum = sum.saturating_add(clicks),
                    None => drop(sums.insert(value.to_owned(), clicks)),
                }
            }
            Ok(())
        };
        self.each(query, &[], add).await?;
        Ok(top(sums, limit))
    }

    async fn raw(&self, query: &RawQuery) -> Result<Vec<RawClick>, EngineError> {
        self.check_raw(query)?;
        let clicks = query.skip.saturating_add(query.limit.into());
        let heads = self.heads(query, clicks).await?;
        let wanted = wanted(&heads, query);
        let numbers: Vec<u64> = wanted.iter().map(|(row, _)| *row).collect();
        let rows = self.store.raw_rows(&numbers, query.orphans).await?;
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

    async fn count_raw(&self, query: &RawQuery, most: u64) -> Result<u64, EngineError> {
        self.check_raw(query)?;
        let heads = self.heads(query, most).await?;
        let clicks = heads.iter().map(|head| head.clicks);
        Ok(clicks.fold(0, u64::saturating_add).min(most))
    }

    async fn totals(&self, links: &[u64]) -> Result<HashMap<u64, (u64, u64)>, EngineError> {
        let totals = self.store.link_totals(links).await?;
        let total = |(link, Tally { clicks, bots })| (link, (clicks, bots));
        Ok(totals.into_iter().map(total).collect())
    }

    async fn delete(&self, links: &[u64]) -> Result<u64, EngineError> {
        Ok(self.store.delete_link_clicks(links).await?)
    }

    async fn delete_orphans(&self, tenant_id: u32) -> Result<u64, EngineError> {
        Ok(self.store.delete_orphan_visits(tenant_id).await?)
    }
}
