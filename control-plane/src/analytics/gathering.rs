//! From clicks to what is added to rollups and totals.

use super::model::{Attribute, Click, Described};
use super::reading::{cut, host};
use super::rollup::{ATTRIBUTES, Rollup, Tally, Values, bound};
use crate::store::{DocKey, DocKind};
use foldhash::fast::RandomState;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

/// The longest value in bytes; longer ones are cut off. That of a link key is shorter.
const MAX_VALUE: usize = 324;

const HOUR_SECONDS: u64 = 3600;

/// The texts of the statuses of redirects.
const STATUSES: [(u16, &str); 4] = [(301, "301"), (302, "302"), (307, "307"), (308, "308")];

type Map<K, V> = HashMap<K, V, RandomState>;

/// What is added to rollups and totals.
#[derive(Debug, Default)]
pub(super) struct Gathered<'a> {
    /// By hour, in no order.
    pub(super) docs: Vec<(DocKey, Rollup<'a>)>,
    /// By link, in their order.
    pub(super) totals: Vec<(u64, Tally)>,
}

/// Values and their clicks, by attribute and by the address and length of the text.
type Counts<'a> = Map<(u8, usize, usize), (&'a str, Tally)>;

/// Clicks of a link, domain or tenant in an hour.
#[derive(Debug, Default)]
struct Group<'a> {
    sum: Tally,
    counts: Counts<'a>,
    visitors: Vec<u64>,
}

/// Gathers clicks. Of each attribute `most` values stay.
pub(super) fn gather(clicks: &[Click], most: usize) -> Gathered<'_> {
    let mut links: Map<(u64, usize, u32), (&Click, Group<'_>)> = Map::default();
    for click in clicks {
        let hour = u32::try_from(click.at / HOUR_SECONDS).unwrap_or(u32::MAX);
        // Clicks without a link are those of their key.
        let key = match click.has_link() {
            true => 0,
            false => click.key.as_ptr() as usize,
        };
        let group = links.entry((click.link_id, key, hour));
        group
            .or_insert_with(|| (click, Group::default()))
            .1
            .add(click);
    }
    let mut totals: Map<u64, Tally> = Map::default();
    let mut scopes: Map<DocKey, Group<'_>> = Map::default();
    let mut docs = Vec::with_capacity(links.len());
    for ((link_id, _, hour), (click, group)) in links {
        for (key, values) in above(click, hour) {
            scopes.entry(key).or_default().add_group(&group, &values);
        }
        if click.has_link() {
            totals.entry(link_id).or_default().add(group.sum);
            let key = DocKey {
                kind: DocKind::Link,
                time: hour,
                scope_id: link_id,
            };
            docs.push((key, group.into_rollup(most)));
        }
    }
    docs.extend(
        scopes
            .into_iter()
            .map(|(key, group)| (key, group.into_rollup(most))),
    );
    let mut totals: Vec<_> = totals.into_iter().collect();
    totals.sort_unstable_by_key(|(link_id, _)| *link_id);
    Gathered { docs, totals }
}

/// The domain and the tenant of a link, and the values that its clicks have there beside their own.
fn above(click: &Click, hour: u32) -> [(DocKey, Vec<(Attribute, &str)>); 2] {
    let mut values = vec![(Attribute::Link, cut(&click.key, MAX_VALUE))];
    match click.tags.is_empty() {
        true => values.push((Attribute::Tag, "")),
        false => values.extend(
            click
                .tags
                .iter()
                .map(|tag| (Attribute::Tag, cut(tag, MAX_VALUE))),
        ),
    }
    let key = |kind, scope_id| DocKey {
        kind,
        time: hour,
        scope_id,
    };
    let tenant = u64::from(click.tenant_id);
    let domain = key(
        DocKind::Domain,
        domain_scope(click.tenant_id, click.domain_id),
    );
    let mut of_tenant = values.clone();
    of_tenant.push((Attribute::Domain, host(&click.key)));
    [(domain, values), (key(DocKind::Tenant, tenant), of_tenant)]
}

/// The scope of the links that a tenant has on a domain.
pub(super) fn domain_scope(tenant_id: u32, domain_id: u32) -> u64 {
    u64::from(tenant_id) << 32 | u64::from(domain_id)
}

impl<'a> Group<'a> {
    fn add(&mut self, click: &'a Click) {
        let is_bot = click
            .described
            .as_ref()
            .is_some_and(|described| described.agent.is_bot);
        let tally = Tally {
            clicks: click.count,
            bots: if is_bot { click.count } else { 0 },
        };
        self.sum.add(tally);
        let Some(described) = &click.described else {
            return;
        };
        for (by, value) in values(described) {
            self.count(by, value, tally);
        }
        if let (Some(visitor), false) = (described.visitor, is_bot) {
            self.visitors.push(visitor);
        }
    }

    /// Adds the clicks of a link, all of which have these values as well.
    fn add_group(&mut self, group: &Group<'a>, values: &[(Attribute, &'a str)]) {
        self.sum.add(group.sum);
        for (key, (value, tally)) in &group.counts {
            let count = self.counts.entry(*key);
            count.or_insert((value, Tally::default())).1.add(*tally);
        }
        for (by, value) in values {
            let count = self.counts.entry(address(*by, value));
            count.or_insert((value, Tally::default())).1.add(group.sum);
        }
        self.visitors.extend_from_slice(&group.visitors);
    }

    fn count(&mut self, by: Attribute, value: &'a str, tally: Tally) {
        if !value.is_empty() {
            let count = self.counts.entry(address(by, value));
            count.or_insert((value, Tally::default())).1.add(tally);
        }
    }

    fn into_rollup(self, most: usize) -> Rollup<'a> {
        let mut rollup = Rollup::new(1);
        rollup.slots = vec![self.sum];
        let mut lists: [Values<'a>; ATTRIBUTES] = Default::default();
        for ((by, ..), count) in self.counts {
            if let Some(list) = lists.get_mut(usize::from(by)) {
                list.push(count);
            }
        }
        for list in &mut lists {
            list.sort_unstable_by(|one, other| one.0.cmp(other.0));
            // The same text may be at several addresses.
            list.dedup_by(|next, kept| {
                let is_same = next.0 == kept.0;
                if is_same {
                    kept.1.add(next.1);
                }
                is_same
            });
            bound(list, most);
        }
        rollup.values = lists;
        for visitor in self.visitors {
            rollup.visitors.insert(visitor);
        }
        rollup
    }
}

/// A number in decimal.
fn number(number: u8) -> &'static str {
    static TEXTS: LazyLock<Vec<String>> =
        LazyLock::new(|| (0..=u8::MAX).map(|number| number.to_string()).collect());
    TEXTS.get(usize::from(number)).map_or("", String::as_str)
}

fn address(by: Attribute, value: &str) -> (u8, usize, usize) {
    (by as u8, value.as_ptr() as usize, value.len())
}

/// The values of a click, the empty ones among them.
fn values(described: &Described) -> impl Iterator<Item = (Attribute, &str)> {
    let agent = &described.agent;
    let [source, medium, campaign, term, content] = &described.utm;
    let texts: [(Attribute, &Arc<str>); 11] = [
        (Attribute::Country, &described.country),
        (Attribute::City, &described.city),
        (Attribute::Browser, &agent.browser),
        (Attribute::Os, &agent.os),
        (Attribute::Referrer, &described.referrer),
        (Attribute::Language, &described.language),
        (Attribute::UtmSource, source),
        (Attribute::UtmMedium, medium),
        (Attribute::UtmCampaign, campaign),
        (Attribute::UtmTerm, term),
        (Attribute::UtmContent, content),
    ];
    let rule = match described.rule {
        0 => "",
        rule => number(rule),
    };
    let status = STATUSES
        .iter()
        .find(|(status, _)| *status == described.status);
    texts
        .into_iter()
        .map(|(by, text)| (by, cut(text, MAX_VALUE)))
        .chain([
            (Attribute::Device, agent.device.as_str()),
            (Attribute::Rule, rule),
            (Attribute::Status, status.map_or("", |(_, text)| text)),
        ])
}
