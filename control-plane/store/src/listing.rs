//! Lists links, page by page.
//!
//! A page comes from a [`LinkSource`]: a range of an index that has the links in the order of the list. Its links
//! are looked up by number, with all filters, until the page is full. At most [`MAX_EXAMINED`] links are
//! examined, so that a filter that matches hardly any link costs no more than one that matches all; such a page is
//! short, and has a successor.

mod filter;
mod numbered;
mod query;
mod source;

pub use numbered::{ListedIds, MAX_NUMBERED, NumberedPage, NumberedQuery, SortBy, VisitSum};
pub use query::{LinkPage, ListCursor, ListOrder, ListQuery, ListedState, TagsMode};

use super::rows::LinkRow;
use crate::Store;
use edgelink_database::error::{Fault, StoreError};
use edgelink_database::run;
use edgelink_database::session::Session;
use edgelink_database::sql::sql;
use edgelink_model::links::model::Link;
use edgelink_model::tenancy::Scope;
use source::{Candidate, LinkSource};
use std::collections::HashMap;

/// The most links examined for one page.
pub const MAX_EXAMINED: usize = 1536;

/// The most links looked up at once.
const MAX_BATCH: usize = 512;

impl Store {
    /// A page of links.
    pub async fn list_links(&self, query: &ListQuery) -> Result<LinkPage, StoreError> {
        run!(self.read("list_links", "listing links"), |session| page(
            session, query
        )
        .await)
    }

    /// True if a link is visible and not deleted.
    pub async fn has_link(&self, scope: &Scope, id: u64) -> Result<bool, StoreError> {
        let query = ListQuery::newest(scope.clone(), 1);
        run!(self.read("has_link", "looking for a link"), |session| {
            let select = filter::select_ids(session.dialect(), &query, &[id]);
            let row: Option<(u64,)> = session.fetch_optional(select).await?;
            Ok(row.is_some())
        })
    }

    /// True if there is any link, deleted ones included.
    pub async fn has_links(&self) -> Result<bool, StoreError> {
        run!(self.read("has_links", "looking for any link"), |session| {
            let query = sql("SELECT EXISTS (SELECT 1 FROM links) AS found");
            let (found,): (bool,) = session.fetch_one(query).await?;
            Ok(found)
        })
    }
}

async fn page(session: &mut Session, query: &ListQuery) -> Result<LinkPage, Fault> {
    let limit = usize::try_from(query.limit).unwrap_or(usize::MAX);
    let source = LinkSource::choose(session, query).await?;
    let mut page = LinkPage::default();
    let mut place = query.after.clone();
    let mut examined = 0;
    // One link more than requested shows whether there is a next page.
    let mut size = limit.saturating_add(1).min(MAX_BATCH);
    loop {
        let batch = source.after(session, query, place.as_ref(), size).await?;
        examined += batch.len();
        let is_last = batch.len() < size;
        place = batch.last().map(|last| last.place.clone());
        page.links.extend(matching(session, query, batch).await?);
        if page.links.len() > limit {
            page.links.truncate(limit);
            page.next = page.links.last().map(|last| query.order.place(last));
            return Ok(page);
        }
        if is_last {
            return Ok(page);
        }
        if examined >= MAX_EXAMINED {
            page.next = place;
            return Ok(page);
        }
        size = (size * 4).min(MAX_BATCH);
    }
}

/// The links among candidates that meet all conditions, in their order.
async fn matching(
    session: &mut Session,
    query: &ListQuery,
    candidates: Vec<Candidate>,
) -> Result<Vec<Link>, Fault> {
    if candidates.is_empty() {
        return Ok(Vec::new());
    }
    let ids: Vec<u64> = candidates.iter().map(|candidate| candidate.id).collect();
    let rows = session.fetch_all(filter::select(session.dialect(), query, &ids));
    let links = LinkRow::into_links(rows.await?)?;
    let mut links: HashMap<u64, Link> = links.into_iter().map(|link| (link.id, link)).collect();
    let in_order = candidates
        .iter()
        .filter_map(|candidate| links.remove(&candidate.id));
    Ok(in_order.collect())
}
