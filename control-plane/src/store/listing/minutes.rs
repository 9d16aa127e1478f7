//! The minutes in which the links of a list were followed, newest first.
//!
//! Minutes are kept in the order of time, those of all links together. So they are read back in time, and of each batch
//! only those stay whose links are in the list. Of links, no more than their codes is read.

use super::filter::that_meet;
use super::query::ListQuery;
use crate::store::calls::{Store, run};
use crate::store::error::{Fault, StoreError};
use crate::store::link_clicks::{ClickMinute, MAX_MINUTES, read_minutes, select_minutes};
use crate::store::rows::name;
use crate::store::session::Session;
use crate::store::sql::{LONGEST, sql};
use edgelink_wire::{Code, Domain, LinkKey};
use std::collections::{BTreeMap, BTreeSet, HashSet};

/// The most minutes that are looked at, of links in the list and others.
pub const MAX_EXAMINED_MINUTES: usize = 20_000;

/// The minutes of one batch.
const BATCH: usize = 5_000;

/// Minutes of the links of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListMinutes {
    /// The minutes, newest first.
    pub minutes: Vec<ClickMinute>,
    /// Whether there may be older ones.
    pub is_cut_off: bool,
}

impl Store {
    /// The newest minutes from `from` to `to` (unix time / 60) with clicks of links that the list would have, whatever
    /// its order, place and limit.
    pub async fn list_minutes(
        &self,
        query: &ListQuery,
        from: u64,
        to: u64,
    ) -> Result<ListMinutes, StoreError> {
        let call = self.read("list_minutes", "reading clicks of links by the minute");
        run!(call, |session| list_minutes(session, query, from, to).await)
    }
}

async fn list_minutes(
    session: &mut Session,
    query: &ListQuery,
    from: u64,
    to: u64,
) -> Result<ListMinutes, Fault> {
    let mut list = ListMinutes::default();
    let (mut before, mut examined) = ((to, None), 0);
    loop {
        let batch = batch(session, from, &before).await?;
        examined += batch.len();
        let is_last = batch.len() < BATCH;
        if let Some(last) = batch.last() {
            before = (last.minute, Some(last.key.clone()));
        }
        let listed = listed(session, query, &batch).await?;
        let minutes = batch.into_iter();
        list.minutes
            .extend(minutes.filter(|minute| listed.contains(&minute.key)));
        let is_enough = list.minutes.len() >= MAX_MINUTES as usize;
        if is_last || is_enough || examined >= MAX_EXAMINED_MINUTES {
            list.is_cut_off = !is_last;
            return Ok(list);
        }
    }
}

/// The newest minutes of all links before a place, which is a minute and a key.
async fn batch(
    session: &mut Session,
    from: u64,
    before: &(u64, Option<String>),
) -> Result<Vec<ClickMinute>, Fault> {
    let index = session.dialect().force_index("PRIMARY");
    let (minute, key) = before;
    let mut select = select_minutes(&index, from, *minute);
    if let Some(key) = key {
        select = select.push(" AND (m.minute < ? OR m.link_key < ?)");
        select = select.bind(*minute).bind(key.as_str());
    }
    let select = select.push(" ORDER BY m.minute DESC, m.link_key DESC LIMIT ?");
    read_minutes(session, select.bind(BATCH as u64)).await
}

/// The keys among those of minutes whose links are in the list.
async fn listed(
    session: &mut Session,
    query: &ListQuery,
    minutes: &[ClickMinute],
) -> Result<HashSet<String>, Fault> {
    let mut by_domain: BTreeMap<Domain, BTreeSet<Code>> = BTreeMap::new();
    for key in minutes.iter().filter_map(|minute| minute.key.parse().ok()) {
        let LinkKey { domain, code } = key;
        by_domain.entry(domain).or_default().insert(code);
    }
    if let Some(domain) = &query.domain {
        by_domain.retain(|each, _| each == domain);
    }
    let dialect = session.dialect();
    let (index, join) = (
        dialect.force_index("links_domain_code"),
        dialect.join_in_order,
    );
    let select = format!(
        "SELECT l.code FROM domains d {join} links l{index} ON l.domain_id = d.id WHERE d.name = ? AND l.code IN "
    );
    let mut keys = HashSet::new();
    for (domain, codes) in &by_domain {
        let codes: Vec<&Code> = codes.iter().collect();
        for codes in codes.chunks(LONGEST) {
            let select = sql(select.clone()).bind(domain).list(codes);
            let select = that_meet(select, session.dialect(), query);
            let rows: Vec<(Vec<u8>,)> = session.fetch_all(select).await?;
            for (code,) in rows {
                keys.insert(format!("{domain}/{}", name(&code)?));
            }
        }
    }
    Ok(keys)
}
