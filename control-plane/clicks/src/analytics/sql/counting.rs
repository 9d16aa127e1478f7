//! Counts, series and breakdowns from rollups.

use super::super::engine::{AnalyticsQuery, Breakdown, EngineError, Numbers, Slot};
use super::super::gathering::domain_scope;
use super::super::plan::{Part, plan};
use edgelink_click_store::{DocKind, DocPart, StoredDoc};
use edgelink_model::clock;
use edgelink_model::counts::ClickScope;
use edgelink_model::counts::rollup::{EncodedRollup, RollupError, Tally};
use edgelink_model::counts::sketch::SketchUnion;
use edgelink_model::counts::{Attribute, Bots, OTHER};
use edgelink_store::Store;
use std::collections::HashMap;
use std::panic::resume_unwind;
use tokio::task::spawn_blocking;

const DAY_SECONDS: u64 = 86_400;

/// Most links of a statement.
const MAX_LINKS: usize = 512;

/// Most rollups of links that a statement reads, by their heads and by their values.
const HEADS: usize = 50_000;
const VALUES: usize = 10_000;

/// Most rollups of domains and tenants, which are large, by their heads and by their values.
const LARGE_HEADS: usize = 256;
const LARGE_VALUES: usize = 32;

/// Most bytes of rollups that are decoded without yielding: about a millisecond.
const AT_ONCE: usize = 1 << 16;

/// An aggregation of rollups.
pub(super) trait Fold: Send + 'static {
    /// Adds a rollup of that part of the interval.
    fn add(
        &mut self,
        part: &Part,
        doc: &StoredDoc,
        rollup: &EncodedRollup<'_>,
    ) -> Result<(), RollupError>;
}

/// The rollups of a store.
#[derive(Clone, Copy)]
pub(super) struct StoredRollups<'a> {
    pub(super) store: &'a Store,
    /// Retention of hours, in days.
    pub(super) hours_days: u64,
}

impl StoredRollups<'_> {
    /// Counts all clicks, and those of each slot.
    pub(super) async fn series(
        &self,
        query: &AnalyticsQuery,
        slots: &[u64],
    ) -> Result<(Numbers, Vec<Slot>), EngineError> {
        let fold = IntervalSums::new(slots, query.bots);
        let bounds = if fold.counts_visitors { slots } else { &[] };
        let parts = self.parts(query, bounds).await?;
        let folded = self.fold(query, &parts, DocPart::Head, fold).await?;
        let sums = slots.iter().zip(&folded.sums);
        let slot = |(from, sum): (&u64, &Sum)| Slot {
            from: *from,
            numbers: sum.numbers(),
        };
        Ok((folded.all.numbers(), sums.map(slot).collect()))
    }

    /// Counts clicks without visitors.
    pub(super) async fn clicks(&self, query: &AnalyticsQuery) -> Result<u64, EngineError> {
        let sums = self.by_scope(query).await?;
        Ok(sums.into_values().fold(0, u64::saturating_add))
    }

    /// Counts clicks by the values of an attribute.
    pub(super) async fn values(
        &self,
        query: &AnalyticsQuery,
        by: Attribute,
    ) -> Result<HashMap<String, u64>, EngineError> {
        let fold = ValueSums::new(by, query.bots);
        let parts = self.parts(query, &[]).await?;
        let folded = self.fold(query, &parts, DocPart::Values, fold).await?;
        Ok(folded.sums)
    }

    /// Counts clicks by scope id, such as that of a link.
    pub(super) async fn by_scope(
        &self,
        query: &AnalyticsQuery,
    ) -> Result<HashMap<u64, u64>, EngineError> {
        let (kind, scopes) = places(&query.scope);
        let mut fold = ByScope {
            bots: query.bots,
            sums: HashMap::new(),
        };
        for part in self.parts(query, &[]).await? {
            // Rollups that must be decoded.
            let mut unknown = Vec::new();
            if part.is_whole() {
                for scopes in scopes.chunks(at_once(&part, HEADS)) {
                    let found = self.store.clicks().sum_docs(kind, scopes, &part.span);
                    for sum in found.await? {
                        let tally = Tally {
                            clicks: sum.clicks,
                            bots: sum.bots,
                        };
                        match sum.unknown {
                            0 => fold.count(sum.scope_id, tally),
                            _ => unknown.push(sum.scope_id),
                        }
                    }
                }
            } else {
                unknown.clone_from(&scopes);
            }
            let places = (kind, unknown);
            fold = self.fold_of(&places, &[part], DocPart::Head, fold).await?;
        }
        Ok(fold.sums)
    }

    async fn parts(
        &self,
        query: &AnalyticsQuery,
        bounds: &[u64],
    ) -> Result<Vec<Part>, EngineError> {
        let kept = (clock::unix_seconds() / DAY_SECONDS).saturating_sub(self.hours_days);
        let days_until = self.store.clicks().days_until().await?;
        Ok(plan(query.from..query.to, bounds, days_until, kept))
    }

    /// Reads and adds a part of the rollups of a query, a bounded number at a time.
    async fn fold<F: Fold>(
        &self,
        query: &AnalyticsQuery,
        parts: &[Part],
        of: DocPart,
        fold: F,
    ) -> Result<F, EngineError> {
        self.fold_of(&places(&query.scope), parts, of, fold).await
    }

    async fn fold_of<F: Fold>(
        &self,
        (kind, scopes): &(DocKind, Vec<u64>),
        parts: &[Part],
        of: DocPart,
        mut fold: F,
    ) -> Result<F, EngineError> {
        let kind = *kind;
        let most = match (kind, of) {
            (DocKind::Link, DocPart::Head) => HEADS,
            (DocKind::Link, DocPart::Values) => VALUES,
            (_, DocPart::Head) => LARGE_HEADS,
            (_, DocPart::Values) => LARGE_VALUES,
        };
        for part in parts.iter().flat_map(|part| part.pieces(most)) {
            for scopes in scopes.chunks(at_once(&part, most)) {
                let docs = self
                    .store
                    .clicks()
                    .read_docs(kind, scopes, &part.span, of)
                    .await?;
                fold = add_all(fold, &part, docs, of).await;
            }
        }
        Ok(fold)
    }
}

/// Kind and ids of the rollups of a scope.
fn places(scope: &ClickScope) -> (DocKind, Vec<u64>) {
    match scope {
        ClickScope::Tenant(tenant_id) => (DocKind::Tenant, vec![u64::from(*tenant_id)]),
        ClickScope::Domain {
            tenant_id,
            domain_id,
        } => (DocKind::Domain, vec![domain_scope(*tenant_id, *domain_id)]),
        ClickScope::Links(links) => {
            let mut links = links.clone();
            links.sort_unstable();
            links.dedup();
            (DocKind::Link, links)
        }
    }
}

/// Number of scopes whose rollups of a part one statement reads, given the most that it may read.
fn at_once(part: &Part, most: usize) -> usize {
    (most / part.times().len().max(1)).clamp(1, MAX_LINKS)
}

/// Adds rollups; many of them on another thread, because this one serves requests.
async fn add_all<F: Fold>(mut fold: F, part: &Part, docs: Vec<StoredDoc>, of: DocPart) -> F {
    if docs.iter().map(|doc| doc.doc.len()).sum::<usize>() <= AT_ONCE {
        add_each(&mut fold, part, &docs, of);
        return fold;
    }
    let part = part.clone();
    let added = spawn_blocking(move || {
        add_each(&mut fold, &part, &docs, of);
        fold
    });
    match added.await {
        Ok(fold) => fold,
        Err(error) => resume_unwind(error.into_panic()),
    }
}

fn add_each<F: Fold>(fold: &mut F, part: &Part, docs: &[StoredDoc], of: DocPart) {
    for doc in docs {
        let read = match (of, doc.clicks, doc.bots) {
            (DocPart::Head, ..) => EncodedRollup::open_head(&doc.doc),
            (DocPart::Values, Some(clicks), Some(bots)) => {
                EncodedRollup::open_values(Tally { clicks, bots }, &doc.doc)
            }
            (DocPart::Values, ..) => EncodedRollup::open(&doc.doc),
        };
        if let Err(error) = read.and_then(|rollup| fold.add(part, doc, &rollup)) {
            tracing::error!(scope = doc.scope_id, time = doc.time, %error, "malformed stored clicks; omitting them");
        }
    }
}

/// Clicks and visitors.
#[derive(Clone, Default)]
struct Sum {
    clicks: u64,
    visitors: SketchUnion,
}

impl Sum {
    fn numbers(&self) -> Numbers {
        Numbers {
            clicks: self.clicks,
            visitors: self.visitors.estimate(),
        }
    }
}

/// Sums up an interval and its parts.
struct IntervalSums {
    slots: Vec<u64>,
    sums: Vec<Sum>,
    all: Sum,
    bots: Bots,
    counts_visitors: bool,
}

impl IntervalSums {
    fn new(slots: &[u64], bots: Bots) -> Self {
        Self {
            slots: slots.to_vec(),
            sums: vec![Sum::default(); slots.len()],
            all: Sum::default(),
            bots,
            counts_visitors: bots != Bots::Only,
        }
    }

    fn at(&mut self, second: u64) -> Option<&mut Sum> {
        let place = self.slots.partition_point(|slot| *slot <= second);
        self.sums.get_mut(place.checked_sub(1)?)
    }
}

impl Fold for IntervalSums {
    fn add(
        &mut self,
        part: &Part,
        doc: &StoredDoc,
        rollup: &EncodedRollup<'_>,
    ) -> Result<(), RollupError> {
        let bots = self.bots;
        for (second, tally) in part.tallies(doc.time, &rollup.slots) {
            let clicks = tally.of(bots);
            self.all.clicks = self.all.clicks.saturating_add(clicks);
            if let Some(sum) = self.at(second) {
                sum.clicks = sum.clicks.saturating_add(clicks);
            }
        }
        if self.counts_visitors && part.is_mostly_in(doc.time) {
            let visitors = rollup.visitors()?;
            self.all.visitors.add(&visitors);
            if let Some(sum) = self.at(part.begin(doc.time)) {
                sum.visitors.add(&visitors);
            }
        }
        Ok(())
    }
}

/// Sums up the values of an attribute.
struct ValueSums {
    by: Attribute,
    bots: Bots,
    sums: HashMap<String, u64>,
}

impl ValueSums {
    fn new(by: Attribute, bots: Bots) -> Self {
        Self {
            by,
            bots,
            sums: HashMap::new(),
        }
    }
}

impl Fold for ValueSums {
    fn add(
        &mut self,
        part: &Part,
        doc: &StoredDoc,
        rollup: &EncodedRollup<'_>,
    ) -> Result<(), RollupError> {
        if !part.is_mostly_in(doc.time) {
            return Ok(());
        }
        for (value, tally) in rollup.values(self.by)? {
            let clicks = tally.of(self.bots);
            match self.sums.get_mut(value) {
                Some(sum) => *sum = sum.saturating_add(clicks),
                None => drop(self.sums.insert(value.to_owned(), clicks)),
            }
        }
        Ok(())
    }
}

/// Sums up the clicks of each scope.
struct ByScope {
    bots: Bots,
    sums: HashMap<u64, u64>,
}

impl ByScope {
    fn count(&mut self, scope_id: u64, tally: Tally) {
        let sum = self.sums.entry(scope_id).or_default();
        *sum = sum.saturating_add(tally.of(self.bots));
    }
}

impl Fold for ByScope {
    fn add(
        &mut self,
        part: &Part,
        doc: &StoredDoc,
        rollup: &EncodedRollup<'_>,
    ) -> Result<(), RollupError> {
        self.count(doc.scope_id, part.tally(doc.time, &rollup.slots));
        Ok(())
    }
}

/// The values with most clicks, and the rest as [`OTHER`], which is the last.
pub(super) fn top(mut sums: HashMap<String, u64>, limit: usize) -> Breakdown {
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
