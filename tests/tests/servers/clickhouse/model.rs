//! What an engine must answer, computed from the clicks themselves.

use crate::clickhouse::fixture::DAY;
use edgelink_clicks::analytics::{
    AnalyticsQuery, Breakdown, Click, Numbers, Orphan, RawPlace, RawQuery, Slot,
};
use edgelink_model::counts::{Attribute, Bots, ClickScope, OTHER};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// All clicks and orphan visits.
#[derive(Default)]
pub(crate) struct Model {
    pub(crate) clicks: Vec<Click>,
    pub(crate) orphans: Vec<Orphan>,
}

impl Model {
    pub(crate) fn count(&self, query: &AnalyticsQuery) -> Numbers {
        let mut visitors: BTreeSet<(u64, u64)> = BTreeSet::new();
        let mut clicks = 0;
        for click in self.clicks.iter().filter(|click| within(query, click)) {
            clicks += counted(click, query.bots);
            let visitor = click
                .described
                .as_ref()
                .filter(|described| !described.agent.is_bot);
            if let Some(visitor) = visitor.and_then(|described| described.visitor) {
                visitors.insert((click.at / DAY, visitor));
            }
        }
        let visitors = if query.bots == Bots::Only {
            0
        } else {
            visitors.len() as u64
        };
        Numbers { clicks, visitors }
    }

    pub(crate) fn series(&self, query: &AnalyticsQuery, slots: &[u64]) -> Vec<Slot> {
        let ends = slots.iter().skip(1).chain([&query.to]);
        slots
            .iter()
            .zip(ends)
            .map(|(&from, &to)| Slot {
                from,
                numbers: self.count(&AnalyticsQuery {
                    from,
                    to,
                    ..query.clone()
                }),
            })
            .collect()
    }

    pub(crate) fn breakdown(
        &self,
        query: &AnalyticsQuery,
        by: Attribute,
        limit: usize,
    ) -> Breakdown {
        let mut values: BTreeMap<String, u64> = BTreeMap::new();
        for click in self.clicks.iter().filter(|click| within(query, click)) {
            for value in values_of(click, by) {
                *values.entry(value).or_default() += counted(click, query.bots);
            }
        }
        let mut values: Breakdown = values
            .into_iter()
            .filter(|(_, clicks)| *clicks > 0)
            .collect();
        values.sort_by(|(a, of_a), (b, of_b)| of_b.cmp(of_a).then_with(|| a.cmp(b)));
        let others: u64 = values.iter().skip(limit).map(|(_, clicks)| clicks).sum();
        values.truncate(limit);
        if others > 0 {
            values.push((OTHER.to_owned(), others));
        }
        values
    }

    pub(crate) fn totals(&self) -> HashMap<u64, (u64, u64)> {
        let mut totals: HashMap<u64, (u64, u64)> = HashMap::new();
        for click in self.clicks.iter().filter(|click| click.has_link()) {
            let total = totals.entry(click.link_id).or_default();
            total.0 += click.count;
            total.1 += counted(click, Bots::Only);
        }
        totals
    }

    /// Second, link, key and country of each, the newest second first.
    pub(crate) fn raw(&self, query: &RawQuery) -> Vec<(u64, u64, Arc<str>, Arc<str>)> {
        let (from, to) = (query.from, query.to);
        let interval = AnalyticsQuery {
            scope: query.scope.clone(),
            from,
            to,
            bots: query.bots,
        };
        let mut raw = Vec::new();
        if query.orphans {
            for orphan in &self.orphans {
                let bots = if orphan.described.agent.is_bot {
                    Bots::Only
                } else {
                    Bots::Excluded
                };
                let is_wanted = query.bots == Bots::Included || query.bots == bots;
                let is_within = (from..to).contains(&orphan.at)
                    && match query.scope {
                        ClickScope::Tenant(tenant) => tenant == orphan.tenant_id,
                        ClickScope::Domain {
                            tenant_id,
                            domain_id,
                        } => tenant_id == orphan.tenant_id && domain_id == orphan.domain_id,
                        ClickScope::Links(_) => false,
                    };
                if is_wanted && is_within {
                    raw.push((
                        orphan.at,
                        0,
                        orphan.url.clone(),
                        orphan.described.country.clone(),
                    ));
                }
            }
        } else {
            for click in self.clicks.iter().filter(|click| within(&interval, click)) {
                let country = click
                    .described
                    .as_ref()
                    .map(|described| described.country.clone());
                let row = (
                    click.at,
                    click.link_id,
                    click.key.clone(),
                    country.unwrap_or_default(),
                );
                raw.extend((0..counted(click, query.bots)).map(|_| row.clone()));
            }
        }
        raw.sort();
        raw.reverse();
        raw
    }
}

/// Whether places go back in time, each for itself.
pub(crate) fn descends(places: &[RawPlace]) -> bool {
    places.windows(2).all(|pair| pair[0] > pair[1])
}

fn within(query: &AnalyticsQuery, click: &Click) -> bool {
    (query.from..query.to).contains(&click.at)
        && match &query.scope {
            ClickScope::Tenant(tenant) => *tenant == click.tenant_id,
            ClickScope::Domain {
                tenant_id,
                domain_id,
            } => *tenant_id == click.tenant_id && *domain_id == click.domain_id,
            ClickScope::Links(links) => click.has_link() && links.contains(&click.link_id),
        }
}

fn counted(click: &Click, bots: Bots) -> u64 {
    let is_bot = click
        .described
        .as_ref()
        .is_some_and(|described| described.agent.is_bot);
    match (bots, is_bot) {
        (Bots::Excluded, true) | (Bots::Only, false) => 0,
        _ => click.count,
    }
}

fn values_of(click: &Click, by: Attribute) -> Vec<String> {
    let described = click.described.as_deref();
    let number = |number: u64| {
        if number == 0 {
            String::new()
        } else {
            number.to_string()
        }
    };
    let text = |text: Option<&str>| text.unwrap_or_default().to_owned();
    let one = match by {
        Attribute::Link if click.has_link() => click.key.to_string(),
        Attribute::Link => String::new(),
        Attribute::Domain => click.key.split('/').next().unwrap_or_default().to_owned(),
        Attribute::Tag if !click.tags.is_empty() => return click.tags.to_vec(),
        Attribute::Tag => String::new(),
        Attribute::Country => text(described.map(|it| &*it.country)),
        Attribute::City => text(described.map(|it| &*it.city)),
        Attribute::Device => text(described.map(|it| it.agent.device.as_str())),
        Attribute::Browser => text(described.map(|it| &*it.agent.browser)),
        Attribute::Os => text(described.map(|it| &*it.agent.os)),
        Attribute::Referrer => text(described.map(|it| &*it.referrer)),
        Attribute::Language => text(described.map(|it| &*it.language)),
        Attribute::UtmSource => text(described.map(|it| &*it.utm[0])),
        Attribute::UtmMedium => text(described.map(|it| &*it.utm[1])),
        Attribute::UtmCampaign => text(described.map(|it| &*it.utm[2])),
        Attribute::UtmTerm => text(described.map(|it| &*it.utm[3])),
        Attribute::UtmContent => text(described.map(|it| &*it.utm[4])),
        Attribute::Rule => number(described.map_or(0, |it| it.rule.into())),
        Attribute::Status => number(described.map_or(0, |it| it.status.into())),
    };
    vec![one]
}
