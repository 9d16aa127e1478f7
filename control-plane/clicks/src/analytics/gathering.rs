//! Aggregation of clicks into increments of rollups and totals.
//!
//! Rows are sorted by hour, tenant, domain and link, so that those of each rollup are adjacent, and are then counted column by
//! column in an array with an entry for each text.

use super::chunk::{Chunk, FollowedLink, UTMS};
use super::reading::{cut, host};
use edgelink_click_store::{DocKey, DocKind};
use edgelink_model::counts::Attribute;
use edgelink_model::counts::rollup::{ATTRIBUTES, Added, Tally, Values, bound};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::LazyLock;

/// Longest value in bytes; longer ones are truncated. Link keys are shorter.
const MAX_VALUE: usize = 324;

const HOUR_SECONDS: u64 = 3600;

/// Redirect statuses as texts.
const STATUSES: [(u16, &str); 4] = [(301, "301"), (302, "302"), (307, "307"), (308, "308")];

/// Attributes whose columns hold their values directly.
const COLUMNS: [Attribute; 9] = [
    Attribute::Country,
    Attribute::City,
    Attribute::Referrer,
    Attribute::Language,
    Attribute::UtmSource,
    Attribute::UtmMedium,
    Attribute::UtmCampaign,
    Attribute::UtmTerm,
    Attribute::UtmContent,
];

const _: () = assert!(matches!(COLUMNS[UTMS], Attribute::UtmSource));

/// Increments of rollups and totals.
#[derive(Debug, Default)]
pub(super) struct RollupIncrements<'a> {
    /// By hour, in no order.
    pub(super) docs: Vec<(DocKey, Added<'a>)>,
    /// By link, in their order.
    pub(super) totals: Vec<(u64, Tally)>,
}

/// Clicks of a domain in an hour with a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DomainValue<'a> {
    pub(super) tenant_id: u32,
    pub(super) domain_id: u32,
    /// Unix time / 3600.
    pub(super) hour: u32,
    pub(super) by: Attribute,
    pub(super) value: &'a str,
    pub(super) tally: Tally,
}

/// Aggregates clicks, keeping `most` values of each attribute.
pub(super) fn gather(chunk: &Chunk, most: usize) -> RollupIncrements<'_> {
    let mut counter = ValueCounter::new(chunk, MAX_VALUE);
    let order = SortedRows::of(chunk);
    let mut docs = Vec::new();
    for of_tenant in order.runs(0..order.rows.len(), |place| (place.hour, place.tenant_id)) {
        let mut links = Vec::new();
        for of_domain in order.runs(of_tenant.clone(), |place| place.domain_id) {
            let before = links.len();
            for of_link in order.runs(of_domain.clone(), |place| (place.link_id, place.key)) {
                let place = order.rows[of_link.start].0;
                let rows = order.rows(of_link);
                links.push((place.link, counter.sum(rows)));
                if chunk.links[place.link as usize].is_known() {
                    let key = place.doc(DocKind::Link, place.link_id);
                    docs.push((key, counter.count(rows, &[], most)));
                }
            }
            let place = order.rows[of_domain.start].0;
            let key = place.doc(
                DocKind::Domain,
                domain_scope(place.tenant_id, place.domain_id),
            );
            let rows = order.rows(of_domain);
            let values = [Attribute::Link, Attribute::Tag].map(|by| (by, &links[before..]));
            docs.push((key, counter.count(rows, &values, most)));
        }
        let place = order.rows[of_tenant.start].0;
        let key = place.doc(DocKind::Tenant, place.tenant_id.into());
        let values = [Attribute::Link, Attribute::Tag, Attribute::Domain];
        let values = values.map(|by| (by, &links[..]));
        docs.push((key, counter.count(order.rows(of_tenant), &values, most)));
    }
    RollupIncrements {
        docs,
        totals: chunk.totals(),
    }
}

/// Values of the clicks of each domain, without links and without empty values, except the empty tag.
pub(super) fn domain_values(chunk: &Chunk) -> Vec<DomainValue<'_>> {
    let mut counter = ValueCounter::new(chunk, usize::MAX);
    let order = SortedRows::of(chunk);
    let mut found = Vec::new();
    let domain = |place: &Place| (place.hour, place.tenant_id, place.domain_id);
    for of_domain in order.runs(0..order.rows.len(), domain) {
        let links = order.runs(of_domain.clone(), |place| (place.link_id, place.key));
        let sums: Vec<(u32, Tally)> = links
            .map(|run| (order.rows[run.start].0.link, counter.sum(order.rows(run))))
            .collect();
        let place = order.rows[of_domain.start].0;
        let values = [Attribute::Tag, Attribute::Domain].map(|by| (by, &sums[..]));
        let added = counter.count(order.rows(of_domain), &values, usize::MAX);
        for (by, values) in Attribute::ALL.into_iter().zip(added.values) {
            found.extend(values.into_iter().map(|(value, tally)| DomainValue {
                tenant_id: place.tenant_id,
                domain_id: place.domain_id,
                hour: place.hour,
                by,
                value,
                tally,
            }));
        }
    }
    found
}

/// The scope of the links that a tenant has on a domain.
pub(super) fn domain_scope(tenant_id: u32, domain_id: u32) -> u64 {
    u64::from(tenant_id) << 32 | u64::from(domain_id)
}

/// Sort key of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    hour: u32,
    tenant_id: u32,
    domain_id: u32,
    link_id: u64,
    /// The text of the key if there is no link, else 0.
    key: u32,
    /// The place of the link.
    link: u32,
}

impl Place {
    fn doc(self, kind: DocKind, scope_id: u64) -> DocKey {
        DocKey {
            kind,
            time: self.hour,
            scope_id,
        }
    }
}

/// Rows in the order of their keys.
struct SortedRows {
    rows: Vec<(Place, u32)>,
    numbers: Vec<u32>,
}

impl SortedRows {
    fn of(chunk: &Chunk) -> Self {
        let place = |link: u32, hour| {
            let FollowedLink {
                key,
                link_id,
                tenant_id,
                domain_id,
                ..
            } = chunk.links[link as usize];
            Place {
                hour,
                tenant_id,
                domain_id,
                link_id,
                key: if tenant_id > 0 { 0 } else { key },
                link,
            }
        };
        // Sorting a few numbers is faster: the ranks of links, and the hours.
        let mut ranked: Vec<Place> = (0..chunk.links.len() as u32)
            .map(|link| place(link, 0))
            .collect();
        ranked.sort_unstable();
        let mut ranks = vec![0; ranked.len()];
        for (rank, place) in (0..).zip(&ranked) {
            ranks[place.link as usize] = rank;
        }
        let clicks = chunk.clicks.at.iter().zip(&chunk.clicks.link);
        let mut keys: Vec<(u64, u32)> = (0..)
            .zip(clicks)
            .map(|(row, (at, link))| {
                let hour = u32::try_from(at / HOUR_SECONDS).unwrap_or(u32::MAX);
                let rank: u32 = ranks[*link as usize];
                (u64::from(hour) << 32 | u64::from(rank), row)
            })
            .collect();
        keys.sort_unstable();
        let rows = keys.iter().map(|(key, row)| {
            let place = ranked[*key as u32 as usize];
            let hour = (*key >> 32) as u32;
            (Place { hour, ..place }, *row)
        });
        Self {
            rows: rows.collect(),
            numbers: keys.iter().map(|(_, row)| *row).collect(),
        }
    }

    fn rows(&self, run: Range<usize>) -> &[u32] {
        self.numbers.get(run).unwrap_or_default()
    }

    /// The parts of a range whose rows have the same key.
    fn runs<K: PartialEq>(
        &self,
        range: Range<usize>,
        key: impl Fn(&Place) -> K,
    ) -> impl Iterator<Item = Range<usize>> {
        let mut rest = range;
        std::iter::from_fn(move || {
            let start = rest.start;
            let (first, _) = self.rows.get(start).filter(|_| start < rest.end)?;
            let first = key(first);
            let is_same = |(place, _): &&(Place, u32)| key(place) == first;
            let rows = &self.rows[start..rest.end];
            rest.start += rows.iter().take_while(is_same).count();
            Some(start..rest.start)
        })
    }
}

/// Counts rows by their values.
struct ValueCounter<'a> {
    chunk: &'a Chunk,
    /// The longest value in bytes.
    max_value: usize,
    /// Numbers and truncated texts, after the texts of the chunk.
    more: HashMap<&'a str, u32>,
    texts: Vec<&'a str>,
    /// The value of each text.
    values: Vec<u32>,
    /// The rank of each value in byte order.
    ranks: Vec<u32>,
    by_rank: Vec<u32>,
    is_bot: Vec<bool>,
    tallies: Vec<Tally>,
    /// Values with tallies other than zero.
    touched: Vec<u32>,
    agents: Vec<Tally>,
}

impl<'a> ValueCounter<'a> {
    fn new(chunk: &'a Chunk, max_value: usize) -> Self {
        let mut counter = Self {
            chunk,
            max_value,
            more: HashMap::new(),
            texts: chunk.texts.all().iter().map(|text| &**text).collect(),
            values: Vec::new(),
            ranks: Vec::new(),
            by_rank: Vec::new(),
            is_bot: chunk.is_bot().collect(),
            tallies: Vec::new(),
            touched: Vec::new(),
            agents: vec![Tally::default(); chunk.agents.len()],
        };
        for (number, text) in (0..).zip(chunk.texts.all()) {
            let value = if text.len() > max_value {
                counter.value(cut(text, max_value))
            } else {
                number
            };
            counter.values.push(value);
        }
        counter.add_further_texts();
        let mut by_rank: Vec<u32> = (0..counter.texts.len() as u32).collect();
        by_rank.sort_unstable_by_key(|value| counter.texts[*value as usize]);
        counter.ranks = vec![0; by_rank.len()];
        for (rank, value) in (0..).zip(&by_rank) {
            counter.ranks[*value as usize] = rank;
        }
        counter.by_rank = by_rank;
        counter.tallies = vec![Tally::default(); counter.texts.len()];
        counter
    }

    /// Adds the texts that are in no column.
    fn add_further_texts(&mut self) {
        for rule in &self.chunk.clicks.rule {
            if *rule > 0 {
                self.value(number(*rule));
            }
        }
        for (_, text) in STATUSES {
            self.value(text);
        }
        for link in &self.chunk.links {
            self.value(host(self.chunk.texts.get(link.key)));
            for tag in &*link.tags {
                self.value(cut(tag, self.max_value));
            }
        }
    }

    /// The number of a value, which is added if it is missing.
    fn value(&mut self, text: &'a str) -> u32 {
        if let Some(known) = self.known(text) {
            return known;
        }
        let number = self.texts.len() as u32;
        self.texts.push(text);
        self.more.insert(text, number);
        number
    }

    fn known(&self, text: &str) -> Option<u32> {
        let known = self.chunk.texts.find(text);
        known.or_else(|| self.more.get(text).copied())
    }

    fn sum(&self, rows: &[u32]) -> Tally {
        let counts = &self.chunk.clicks.count;
        rows.iter().fold(Tally::default(), |mut sum, row| {
            let row = *row as usize;
            sum.add(Tally::of_clicks(counts[row], self.is_bot[row]));
            sum
        })
    }

    /// Counts rows by their own values and those of their links.
    fn count(
        &mut self,
        rows: &[u32],
        of_links: &[(Attribute, &[(u32, Tally)])],
        most: usize,
    ) -> Added<'a> {
        let mut added = Added {
            sum: self.sum(rows),
            ..Added::default()
        };
        let chunk = self.chunk;
        let clicks = &chunk.clicks;
        let lists: &mut [_; ATTRIBUTES] = &mut added.values;
        for (by, column) in COLUMNS.into_iter().zip(&clicks.texts) {
            self.count_column(rows, |row| column[row]);
            lists[by as usize] = self.take(most);
        }
        self.count_agents(rows, lists, most);
        for (by, values) in of_links {
            self.count_links(*by, values);
            lists[*by as usize] = self.take(most);
        }
        self.count_numbers(rows, lists, most);
        let visitors = rows.iter().map(|row| *row as usize);
        let visitors = visitors.filter(|row| clicks.has_visitor[*row] && !self.is_bot[*row]);
        added.visitors = visitors.map(|row| clicks.visitor[row]).collect();
        added
    }

    fn count_column(&mut self, rows: &[u32], text: impl Fn(usize) -> u32) {
        let counts = &self.chunk.clicks.count;
        for row in rows {
            let row = *row as usize;
            let text = text(row);
            if text > 0 {
                let value = self.values[text as usize];
                let tally = &mut self.tallies[value as usize];
                if tally.clicks == 0 {
                    self.touched.push(value);
                }
                tally.add(Tally::of_clicks(counts[row], self.is_bot[row]));
            }
        }
    }

    fn add(&mut self, value: u32, added: Tally) {
        let tally = &mut self.tallies[value as usize];
        if tally.clicks == 0 {
            self.touched.push(value);
        }
        tally.add(added);
    }

    fn count_agents(&mut self, rows: &[u32], lists: &mut [Values<'a>; ATTRIBUTES], most: usize) {
        let chunk = self.chunk;
        let clicks = &chunk.clicks;
        let mut found = Vec::new();
        for row in rows {
            let row = *row as usize;
            let agent = clicks.agent[row];
            let tally = &mut self.agents[agent as usize];
            if tally.clicks == 0 {
                found.push(agent);
            }
            tally.add(Tally::of_clicks(clicks.count[row], self.is_bot[row]));
        }
        let texts = [Attribute::Device, Attribute::Browser, Attribute::Os];
        for (place, by) in texts.into_iter().enumerate() {
            for agent in &found {
                let user_agent = &chunk.agents[*agent as usize];
                let texts = [user_agent.device, user_agent.browser, user_agent.os];
                if texts[place] > 0 {
                    let value = self.values[texts[place] as usize];
                    self.add(value, self.agents[*agent as usize]);
                }
            }
            lists[by as usize] = self.take(most);
        }
        for agent in found {
            self.agents[agent as usize] = Tally::default();
        }
    }

    /// Counts rules and statuses.
    fn count_numbers(&mut self, rows: &[u32], lists: &mut [Values<'a>; ATTRIBUTES], most: usize) {
        let clicks = &self.chunk.clicks;
        let mut rules: HashMap<u8, Tally> = HashMap::new();
        let mut statuses = [Tally::default(); STATUSES.len()];
        for row in rows {
            let row = *row as usize;
            let tally = Tally::of_clicks(clicks.count[row], self.is_bot[row]);
            let status = STATUSES
                .iter()
                .position(|(status, _)| *status == clicks.status[row]);
            if let Some(place) = status {
                statuses[place].add(tally);
            }
            if clicks.rule[row] > 0 {
                rules.entry(clicks.rule[row]).or_default().add(tally);
            }
        }
        for (rule, tally) in rules {
            self.add_text(number(rule), tally);
        }
        lists[Attribute::Rule as usize] = self.take(most);
        for ((_, text), tally) in STATUSES.into_iter().zip(statuses) {
            if tally.clicks > 0 {
                self.add_text(text, tally);
            }
        }
        lists[Attribute::Status as usize] = self.take(most);
    }

    fn add_text(&mut self, text: &str, tally: Tally) {
        if let Some(value) = self.known(text) {
            self.add(value, tally);
        }
    }

    fn count_links(&mut self, by: Attribute, links: &[(u32, Tally)]) {
        let chunk = self.chunk;
        for (link, tally) in links {
            let link = &chunk.links[*link as usize];
            match by {
                Attribute::Link => self.add(self.values[link.key as usize], *tally),
                Attribute::Domain => self.add_text(host(chunk.texts.get(link.key)), *tally),
                _ if link.tags.is_empty() => self.add(0, *tally),
                _ => link
                    .tags
                    .iter()
                    .for_each(|tag| self.add_text(cut(tag, self.max_value), *tally)),
            }
        }
    }

    /// Takes the tallies counted since the last call, in the order of the values.
    fn take(&mut self, most: usize) -> Values<'a> {
        for value in &mut self.touched {
            *value = self.ranks[*value as usize];
        }
        self.touched.sort_unstable();
        let mut values = Vec::with_capacity(self.touched.len());
        for rank in self.touched.drain(..) {
            let value = self.by_rank[rank as usize] as usize;
            values.push((self.texts[value], std::mem::take(&mut self.tallies[value])));
        }
        bound(&mut values, most);
        values
    }
}

/// A number in decimal.
fn number(number: u8) -> &'static str {
    static TEXTS: LazyLock<Vec<String>> =
        LazyLock::new(|| (0..=u8::MAX).map(|number| number.to_string()).collect());
    TEXTS.get(usize::from(number)).map_or("", String::as_str)
}

#[cfg(test)]
mod tests;
