//! Lists with numbered pages and a total, for clients without cursors.
//!
//! A page number is meaningless without all links before it. So such a list has only the first [`MAX_NUMBERED`]
//! links of a [`LinkSource`]: all conditions and orders apply to these, and the answer says whether there are more.

use super::filter;
use super::query::ListQuery;
use super::source::{Candidate, LinkSource};
use crate::Store;
use crate::link_clicks;
use crate::rows::LinkRow;
use edgelink_click_store::{JOIN_TOTALS, VISITS};
use edgelink_database::columns::numbers;
use edgelink_database::error::{Fault, StoreError};
use edgelink_database::run;
use edgelink_database::session::Session;
use edgelink_database::sql::{LONGEST, sql};
use edgelink_model::links::model::Link;
use std::collections::HashMap;

/// The most links that a list with numbered pages examines.
pub const MAX_NUMBERED: usize = 10_000;

/// Bytes of a target by which links are sorted.
const SORTED_LENGTH: usize = 255;

/// Query for a numbered page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NumberedQuery {
    /// The list. Its `limit` is the size of a page; it has no `after`.
    pub list: ListQuery,
    /// A sort order other than the list's own, and true for descending. It needs all links of the list.
    pub sort: Option<(SortBy, bool)>,
    /// Number of links before the page.
    pub offset: usize,
}

/// Sort key of a whole list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SortBy {
    /// The code.
    ShortCode,
    /// The first 255 bytes of the target.
    LongUrl,
    /// The title in lower case.
    Title,
    /// The number of clicks.
    Visits,
}

/// A page of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NumberedPage {
    /// The links.
    pub links: Vec<Link>,
    /// Number of links in the list.
    pub total: usize,
    /// True if some links were not examined. Then the list cannot be sorted by [`SortBy`], and `links` is empty if it was to be.
    pub is_cut_off: bool,
}

/// The numbers of the links of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListedIds {
    /// The numbers, in the order of the list.
    pub ids: Vec<u64>,
    /// True if some links were not examined.
    pub is_cut_off: bool,
}

/// Sum of the clicks of a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VisitSum {
    /// The sum.
    pub visits: u64,
    /// Clicks of bots among them.
    pub bots: u64,
    /// True if some links were not examined.
    pub is_cut_off: bool,
}

impl Store {
    /// A page of links by offset.
    pub async fn numbered_page(&self, query: &NumberedQuery) -> Result<NumberedPage, StoreError> {
        let call = self.read("numbered_page", "listing links by number");
        run!(call, |session| numbered_page(session, query).await)
    }

    /// The numbers of the links of a list.
    pub async fn listed_ids(&self, query: &ListQuery) -> Result<ListedIds, StoreError> {
        let call = self.read("listed_ids", "finding the links of a list");
        run!(call, |session| ListedIds::read(session, query).await)
    }

    /// Sums the clicks of the links of a list.
    pub async fn sum_visits(&self, query: &ListQuery) -> Result<VisitSum, StoreError> {
        let call = self.read("sum_visits", "summing clicks of links");
        run!(call, |session| {
            let list = ListedIds::read(session, query).await?;
            let mut sum = VisitSum {
                is_cut_off: list.is_cut_off,
                ..VisitSum::default()
            };
            for ids in list.ids.chunks(LONGEST) {
                let (visits, bots) = link_clicks::sum(session, ids).await?;
                sum.visits = sum.visits.saturating_add(visits);
                sum.bots = sum.bots.saturating_add(bots);
            }
            Ok(sum)
        })
    }
}

async fn numbered_page(
    session: &mut Session,
    query: &NumberedQuery,
) -> Result<NumberedPage, Fault> {
    let ListedIds {
        mut ids,
        is_cut_off,
    } = ListedIds::read(session, &query.list).await?;
    let mut page = NumberedPage {
        total: ids.len(),
        is_cut_off,
        ..NumberedPage::default()
    };
    if let Some((by, is_descending)) = query.sort {
        if is_cut_off {
            return Ok(page);
        }
        ids = sorted(session, by, is_descending, &ids).await?;
    }
    let limit = usize::try_from(query.list.limit).unwrap_or(usize::MAX);
    let ids: Vec<u64> = ids.into_iter().skip(query.offset).take(limit).collect();
    let mut links: HashMap<u64, Link> = HashMap::with_capacity(ids.len());
    for ids in ids.chunks(LONGEST) {
        let select = filter::select(session.dialect(), &query.list, ids);
        let found = LinkRow::into_links(session.fetch_all(select).await?)?;
        links.extend(found.into_iter().map(|link| (link.id, link)));
    }
    page.links = ids.iter().filter_map(|id| links.remove(id)).collect();
    Ok(page)
}

impl ListedIds {
    async fn read(session: &mut Session, query: &ListQuery) -> Result<Self, Fault> {
        let source = LinkSource::choose(session, query).await?;
        let (mut ids, mut place, mut examined) = (Vec::new(), None, 0);
        loop {
            let size = LONGEST.min(MAX_NUMBERED - examined);
            if size == 0 {
                // One more link shows whether there are others.
                let more = source.after(session, query, place.as_ref(), 1).await?;
                let is_cut_off = !more.is_empty();
                return Ok(Self { ids, is_cut_off });
            }
            let batch = source.after(session, query, place.as_ref(), size).await?;
            examined += batch.len();
            place = batch.last().map(|last| last.place.clone());
            let is_last = batch.len() < size;
            ids.extend(matching(session, query, &batch).await?);
            if is_last {
                let is_cut_off = false;
                return Ok(Self { ids, is_cut_off });
            }
        }
    }
}

/// The numbers of the candidates that meet all conditions, in their order.
async fn matching(
    session: &mut Session,
    query: &ListQuery,
    candidates: &[Candidate],
) -> Result<Vec<u64>, Fault> {
    if candidates.is_empty() {
        return Ok(Vec::new());
    }
    let ids: Vec<u64> = candidates.iter().map(|candidate| candidate.id).collect();
    let select = filter::select_ids(session.dialect(), query, &ids);
    let mut found = numbers(session, select).await?;
    found.sort_unstable();
    let is_found = |id: &u64| found.binary_search(id).is_ok();
    Ok(ids.into_iter().filter(is_found).collect())
}

async fn sorted(
    session: &mut Session,
    by: SortBy,
    is_descending: bool,
    ids: &[u64],
) -> Result<Vec<u64>, Fault> {
    let mut keys = Vec::with_capacity(ids.len());
    for ids in ids.chunks(LONGEST) {
        keys.extend(match by {
            SortBy::Visits => by_visits(session, ids).await?,
            SortBy::ShortCode => by_text(session, "l.code", ids).await?,
            SortBy::LongUrl => {
                let beginning = format!("SUBSTR(l.url, 1, {SORTED_LENGTH})");
                by_text(session, &beginning, ids).await?
            }
            SortBy::Title => {
                let mut keys = by_text(session, "l.title", ids).await?;
                for (title, _) in &mut keys {
                    *title = String::from_utf8_lossy(title).to_lowercase().into_bytes();
                }
                keys
            }
        });
    }
    keys.sort_unstable();
    if is_descending {
        keys.reverse();
    }
    Ok(keys.into_iter().map(|(_, id)| id).collect())
}

async fn by_text(
    session: &mut Session,
    column: &str,
    ids: &[u64],
) -> Result<Vec<(Vec<u8>, u64)>, Fault> {
    let query = sql(format!(
        "SELECT {column} AS sort_key, l.id FROM links l WHERE l.id IN "
    ));
    let rows: Vec<(Option<Vec<u8>>, u64)> = session.fetch_all(query.list(ids)).await?;
    let key = |(key, id): (Option<Vec<u8>>, u64)| (key.unwrap_or_default(), id);
    Ok(rows.into_iter().map(key).collect())
}

/// The numbers of clicks, as bytes that sort in their order.
async fn by_visits(session: &mut Session, ids: &[u64]) -> Result<Vec<(Vec<u8>, u64)>, Fault> {
    let query = sql(format!(
        "SELECT CAST({VISITS} AS UNSIGNED) AS visits, l.id FROM links l {JOIN_TOTALS} WHERE l.id IN "
    ));
    let rows: Vec<(u64, u64)> = session.fetch_all(query.list(ids)).await?;
    let key = |(visits, id): (u64, u64)| (visits.to_be_bytes().to_vec(), id);
    Ok(rows.into_iter().map(key).collect())
}
