//! The engine that keeps clicks in the database: rollups by hour and day, and single clicks if configured.

mod counting;
mod links;
mod single;

use super::chunk::Chunk;
use super::described;
use super::engine::{
    AnalyticsQuery, Breakdown, Engine, EngineError, Numbers, RawClick, RawQuery, Slot, Visitors,
};
use super::gathering::gather;
use super::model::Orphan;
use async_trait::async_trait;
use counting::{StoredRollups, top};
use edgelink_click_store::{ClickWrite, DayProgress, NewOrphan, NewRaw};
use edgelink_model::counts::Attribute;
use edgelink_model::counts::ClickScope;
use edgelink_model::counts::rollup::Tally;
use edgelink_model::runtime::aside;
use edgelink_settings::config::AnalyticsConfig;
use edgelink_store::Store;
use edgelink_wire::clicks::events::OrphanKind;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

const DAY_SECONDS: u64 = 86_400;

const HOUR_SECONDS: u64 = 3600;

/// Target duration of a write.
const PACE: Duration = Duration::from_millis(300);

/// Longest key that is kept with a click without a link.
const MAX_KEY: usize = 324;

/// Clicks in the database.
pub struct SqlEngine {
    store: Arc<Store>,
    settings: AnalyticsConfig,
    /// The day being rolled up.
    day: Mutex<Option<DayProgress>>,
}

impl SqlEngine {
    /// Creates an engine on this database.
    #[must_use]
    pub fn new(store: Arc<Store>, settings: AnalyticsConfig) -> Self {
        Self {
            store,
            settings,
            day: Mutex::default(),
        }
    }

    fn raw<'a>(&self, chunk: &'a Chunk) -> Vec<NewRaw<'a>> {
        match self.settings.raw_days {
            0 => Vec::new(),
            _ => (0..chunk.clicks.len())
                .map(|row| new_raw(chunk, row))
                .collect(),
        }
    }

    fn gathered<'a>(&self, chunk: &'a Chunk) -> ClickWrite<'a> {
        let mut gathered = gather(chunk, self.settings.max_values);
        gathered.docs.sort_unstable_by_key(|(key, _)| *key);
        ClickWrite {
            rows: &chunk.rows,
            docs: gathered.docs,
            totals: gathered.totals,
            raw: self.raw(chunk),
            orphans: self.orphans(&chunk.orphans),
            max_values: self.settings.max_values,
            max_orphans: match self.settings.raw_days {
                0 => 0,
                _ => self.settings.max_orphans,
            },
        }
    }

    fn orphans<'a>(&self, orphans: &'a [Orphan]) -> Vec<NewOrphan<'a>> {
        orphans.iter().map(new_orphan).collect()
    }

    fn counting(&self) -> StoredRollups<'_> {
        StoredRollups {
            store: &self.store,
            hours_days: self.settings.hours_days,
        }
    }

    fn check_raw(&self, query: &RawQuery) -> Result<(), EngineError> {
        match self.settings.raw_days {
            0 => Err(EngineError::Unsupported(if query.orphans {
                "no orphan visits are kept (analytics.raw_days)"
            } else {
                "no single clicks are kept (analytics.raw_days)"
            })),
            _ => Ok(()),
        }
    }
}

fn new_raw(chunk: &Chunk, row: usize) -> NewRaw<'_> {
    let described = chunk.described(row);
    let mut bytes = Vec::new();
    described::write(described.as_ref(), &mut bytes);
    let link = chunk.link(row);
    let key = chunk.texts.get(link.key);
    NewRaw {
        clicks: chunk.clicks.count[row],
        at: chunk.clicks.at[row],
        tenant_id: link.tenant_id,
        domain_id: link.domain_id,
        link_id: link.link_id,
        is_bot: described.is_some_and(|described| described.agent.is_bot),
        key: (!link.is_known() && key.len() <= MAX_KEY).then_some(key),
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

#[async_trait]
impl Engine for SqlEngine {
    async fn write(&self, chunk: &Chunk) -> Result<(), EngineError> {
        let write = aside(|| self.gathered(chunk));
        Ok(self.store.clicks().write_clicks(&write).await?)
    }

    /// Limited, because a write locks the rows in which clicks are counted.
    fn pace(&self) -> Option<Duration> {
        Some(PACE)
    }

    async fn upkeep(&self, settled: u64) -> Result<bool, EngineError> {
        let known = *self.day.lock().unwrap_or_else(PoisonError::into_inner);
        let progress = match known {
            Some(progress) => progress,
            None => {
                let day = self.store.clicks().days_until().await?;
                if (u64::from(day) + 1) * DAY_SECONDS + HOUR_SECONDS > settled {
                    return Ok(false);
                }
                DayProgress::begin(day)
            }
        };
        let next = self
            .store
            .clicks()
            .build_day(progress, self.settings.max_values)
            .await;
        *self.day.lock().unwrap_or_else(PoisonError::into_inner) = match &next {
            Ok(next) => *next,
            Err(_) => None,
        };
        next?;
        Ok(true)
    }

    async fn count(
        &self,
        query: &AnalyticsQuery,
        visitors: Visitors,
    ) -> Result<Numbers, EngineError> {
        let counting = self.counting();
        Ok(match visitors {
            Visitors::Counted => counting.series(query, &[]).await?.0,
            Visitors::Ignored => Numbers {
                clicks: counting.clicks(query).await?,
                visitors: 0,
            },
        })
    }

    async fn series(
        &self,
        query: &AnalyticsQuery,
        slots: &[u64],
    ) -> Result<(Numbers, Vec<Slot>), EngineError> {
        self.counting().series(query, slots).await
    }

    async fn breakdown(
        &self,
        query: &AnalyticsQuery,
        by: Attribute,
        limit: usize,
    ) -> Result<(u64, Breakdown), EngineError> {
        let counting = self.counting();
        let breakdown = match (&query.scope, by) {
            (ClickScope::Links(_), Attribute::Link | Attribute::Tag | Attribute::Domain) => {
                links::of_links(&counting, query, by, limit).await?
            }
            (_, Attribute::Link) => links::of_many(&counting, query, limit).await?,
            (ClickScope::Domain { .. }, Attribute::Domain) => {
                links::of_domain(&counting, query).await?
            }
            _ => top(counting.values(query, by).await?, limit),
        };
        let clicks = match by {
            Attribute::Tag => counting.clicks(query).await?,
            _ => breakdown.iter().map(|(_, clicks)| clicks).sum(),
        };
        Ok((clicks, breakdown))
    }

    async fn raw(&self, query: &RawQuery) -> Result<Vec<RawClick>, EngineError> {
        self.check_raw(query)?;
        single::raw(self.store.clicks(), query).await
    }

    async fn count_raw(&self, query: &RawQuery, most: u64) -> Result<u64, EngineError> {
        self.check_raw(query)?;
        single::count(self.store.clicks(), query, most).await
    }

    async fn totals(&self, links: &[u64]) -> Result<HashMap<u64, (u64, u64)>, EngineError> {
        let totals = self.store.clicks().link_totals(links).await?;
        let total = |(link, Tally { clicks, bots })| (link, (clicks, bots));
        Ok(totals.into_iter().map(total).collect())
    }

    async fn delete(&self, links: &[u64]) -> Result<u64, EngineError> {
        Ok(self.store.clicks().delete_link_clicks(links).await?)
    }

    async fn delete_orphans(&self, tenant_id: u32) -> Result<u64, EngineError> {
        Ok(self.store.clicks().delete_orphan_visits(tenant_id).await?)
    }
}
