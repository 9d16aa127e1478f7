//! An engine that computes each answer from the clicks themselves.

use crate::engines::fixture::Differences;
use crate::engines::random::DAY;
use async_trait::async_trait;
use edgelink_clicks::analytics::{
    AnalyticsQuery, Breakdown, Chunk, Click, Described, Engine, EngineError, Numbers, Orphan,
    RawClick, RawPlace, RawQuery, Slot, Visitors,
};
use edgelink_model::counts::{Attribute, Bots, ClickScope, OTHER};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::LazyLock;

/// All clicks and orphan visits.
pub(crate) struct Model {
    pub(crate) clicks: Vec<Click>,
    pub(crate) orphans: Vec<Orphan>,
    /// Differences of the engine that has to answer as this one does.
    pub(crate) differences: &'static Differences,
}

impl Model {
    /// A model without clicks.
    pub(crate) fn new(differences: &'static Differences) -> Self {
        Self {
            clicks: Vec::new(),
            orphans: Vec::new(),
            differences,
        }
    }

    /// The clicks of all links, and how many of them are by bots.
    pub(crate) fn sums(&self) -> HashMap<u64, (u64, u64)> {
        let mut sums: HashMap<u64, (u64, u64)> = HashMap::new();
        for click in self.clicks.iter().filter(|click| click.has_link()) {
            let sum = sums.entry(click.link_id).or_default();
            sum.0 += click.count;
            sum.1 += counted(click, Bots::Only);
        }
        sums
    }

    /// The orphan visits of a tenant.
    pub(crate) fn orphans_of(&self, tenant_id: u32) -> u64 {
        let of_tenant = |orphan: &&Orphan| orphan.tenant_id == tenant_id;
        self.orphans.iter().filter(of_tenant).count() as u64
    }

    fn within(&self, query: &AnalyticsQuery) -> Vec<&Click> {
        let clicks = self.clicks.iter();
        clicks.filter(|click| within(query, click)).collect()
    }

    fn values(&self, query: &AnalyticsQuery, by: Attribute, limit: usize) -> Breakdown {
        let mut values: BTreeMap<String, u64> = BTreeMap::new();
        for click in self.within(query) {
            for value in self.values_of(click, by) {
                *values.entry(value).or_default() += counted(click, query.bots);
            }
        }
        let unnamed = values.remove(OTHER).unwrap_or(0);
        values.retain(|_, clicks| *clicks > 0);
        let mut values: Breakdown = values.into_iter().collect();
        values.sort_by(|(a, of_a), (b, of_b)| of_b.cmp(of_a).then_with(|| a.cmp(b)));
        let others = values.iter().skip(limit).map(|(_, clicks)| clicks);
        let others = unnamed + others.sum::<u64>();
        values.truncate(limit);
        if others > 0 {
            values.push((OTHER.to_owned(), others));
        }
        values
    }

    fn values_of(&self, click: &Click, by: Attribute) -> Vec<String> {
        static NONE: LazyLock<Described> = LazyLock::new(Described::default);
        let described = click.described.as_deref().unwrap_or(&NONE);
        let number = |number: u16| match number {
            0 => String::new(),
            number => number.to_string(),
        };
        let text = |text: &str| text.to_owned();
        vec![match by {
            Attribute::Link if !click.has_link() && !self.differences.names_keys_without_link => {
                OTHER.to_owned()
            }
            Attribute::Link => text(&click.key),
            Attribute::Domain => text(click.key.split('/').next().unwrap_or_default()),
            Attribute::Tag if !click.tags.is_empty() => return click.tags.to_vec(),
            Attribute::Tag => String::new(),
            Attribute::Country => text(&described.country),
            Attribute::City => text(&described.city),
            Attribute::Device => text(described.agent.device.as_str()),
            Attribute::Browser => text(&described.agent.browser),
            Attribute::Os => text(&described.agent.os),
            Attribute::Referrer => text(&described.referrer),
            Attribute::Language => text(&described.language),
            Attribute::UtmSource => text(&described.utm[0]),
            Attribute::UtmMedium => text(&described.utm[1]),
            Attribute::UtmCampaign => text(&described.utm[2]),
            Attribute::UtmTerm => text(&described.utm[3]),
            Attribute::UtmContent => text(&described.utm[4]),
            Attribute::Rule => number(described.rule.into()),
            Attribute::Status => number(described.status),
        }]
    }

    /// The clicks or orphan visits of all pages, the newest second first.
    pub(crate) fn single(&self, query: &RawQuery) -> Vec<RawClick> {
        let interval = AnalyticsQuery {
            scope: query.scope.clone(),
            from: query.from,
            to: query.to,
            bots: query.bots,
        };
        let all: Vec<(Click, _)> = if query.orphans {
            let visits = self.orphans.iter();
            visits
                .map(|orphan| (as_click(orphan), Some(orphan.kind)))
                .collect()
        } else {
            let clicks = self.clicks.iter();
            clicks.map(|click| (click.clone(), None)).collect()
        };
        let mut single = Vec::new();
        for (click, orphan) in all.iter().filter(|(click, _)| within(&interval, click)) {
            let one = RawClick {
                place: RawPlace {
                    at: click.at,
                    number: 0,
                },
                link_id: click.link_id,
                key: click.key.to_string(),
                orphan: *orphan,
                described: click.described.as_deref().cloned().unwrap_or_default(),
            };
            single.extend((0..counted(click, query.bots)).map(|_| one.clone()));
        }
        single.sort_by_key(|click| std::cmp::Reverse(click.place.at));
        single
    }
}

#[async_trait]
impl Engine for Model {
    async fn write(&self, _: &Chunk) -> Result<(), EngineError> {
        Err(UNSUPPORTED)
    }

    async fn count(&self, query: &AnalyticsQuery, of: Visitors) -> Result<Numbers, EngineError> {
        let Numbers { clicks, visitors } = numbers(&self.within(query), query.bots);
        Ok(Numbers {
            clicks,
            visitors: match of {
                Visitors::Counted => visitors,
                Visitors::Ignored => 0,
            },
        })
    }

    async fn series(
        &self,
        query: &AnalyticsQuery,
        slots: &[u64],
    ) -> Result<(Numbers, Vec<Slot>), EngineError> {
        let clicks = self.within(query);
        let mut of_slots = vec![Vec::new(); slots.len()];
        for click in &clicks {
            let place = slots.partition_point(|from| *from <= click.at);
            of_slots[place - 1].push(*click);
        }
        let slots = slots.iter().zip(of_slots).map(|(from, clicks)| Slot {
            from: *from,
            numbers: numbers(&clicks, query.bots),
        });
        Ok((numbers(&clicks, query.bots), slots.collect()))
    }

    async fn breakdown(
        &self,
        query: &AnalyticsQuery,
        by: Attribute,
        limit: usize,
    ) -> Result<(u64, Breakdown), EngineError> {
        let clicks = numbers(&self.within(query), query.bots).clicks;
        Ok((clicks, self.values(query, by, limit)))
    }

    async fn raw(&self, query: &RawQuery) -> Result<Vec<RawClick>, EngineError> {
        let mut single = self.single(query);
        single.truncate(query.limit as usize);
        Ok(single)
    }

    async fn count_raw(&self, query: &RawQuery, most: u64) -> Result<u64, EngineError> {
        Ok(most.min(self.single(query).len() as u64))
    }

    async fn totals(&self, links: &[u64]) -> Result<HashMap<u64, (u64, u64)>, EngineError> {
        let mut sums = self.sums();
        sums.retain(|link, _| links.contains(link));
        Ok(sums)
    }

    async fn delete(&self, _: &[u64]) -> Result<u64, EngineError> {
        Err(UNSUPPORTED)
    }

    async fn delete_orphans(&self, _: u32) -> Result<u64, EngineError> {
        Err(UNSUPPORTED)
    }
}

const UNSUPPORTED: EngineError = EngineError::Unsupported("its clicks are changed directly");

fn numbers(clicks: &[&Click], bots: Bots) -> Numbers {
    let mut visitors: HashSet<(u64, u64)> = HashSet::new();
    for click in clicks {
        let described = click.described.as_deref();
        let person = described.filter(|it| !it.agent.is_bot && bots != Bots::Only);
        if let Some(visitor) = person.and_then(|it| it.visitor) {
            visitors.insert((click.at / DAY, visitor));
        }
    }
    Numbers {
        clicks: clicks.iter().map(|click| counted(click, bots)).sum(),
        visitors: visitors.len() as u64,
    }
}

fn as_click(orphan: &Orphan) -> Click {
    Click {
        at: orphan.at,
        count: 1,
        link_id: 0,
        tenant_id: orphan.tenant_id,
        domain_id: orphan.domain_id,
        key: orphan.url.clone(),
        tags: [].into(),
        described: Some(orphan.described.clone()),
    }
}

fn within(query: &AnalyticsQuery, click: &Click) -> bool {
    (query.from..query.to).contains(&click.at)
        && match &query.scope {
            ClickScope::Tenant(tenant) => *tenant == click.tenant_id,
            ClickScope::Domain {
                tenant_id,
                domain_id,
            } => (*tenant_id, *domain_id) == (click.tenant_id, click.domain_id),
            ClickScope::Links(links) => click.has_link() && links.contains(&click.link_id),
        }
}

fn counted(click: &Click, bots: Bots) -> u64 {
    let described = click.described.as_ref();
    let is_bot = described.is_some_and(|described| described.agent.is_bot);
    match (bots, is_bot) {
        (Bots::Excluded, true) | (Bots::Only, false) => 0,
        _ => click.count,
    }
}
