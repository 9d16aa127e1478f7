//! Reads rollups.

use super::docs::{DAYS, DocKind, HOURS};
use crate::store::calls::{Store, run};
use crate::store::error::{Fault, StoreError};
use crate::store::rows::name;
use crate::store::sql::{LONGEST, sql};
use std::ops::Range;

/// The rollups of an interval.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DocSpan {
    /// Those of these hours (unix time / 3600).
    Hours(Range<u32>),
    /// Those of these days (unix time / 86400).
    Days(Range<u32>),
}

/// A rollup as it is stored.
#[derive(Clone, Debug, PartialEq, Eq, sqlx_macros::FromRow)]
pub struct StoredDoc {
    /// Whose.
    pub scope_id: u64,
    /// Its hour or day.
    pub time: u32,
    /// The bytes.
    pub doc: Vec<u8>,
}

impl Store {
    /// The rollups of scopes in an interval, in no order.
    pub async fn read_docs(
        &self,
        kind: DocKind,
        scopes: &[u64],
        span: &DocSpan,
    ) -> Result<Vec<StoredDoc>, StoreError> {
        let (table, times) = match span {
            DocSpan::Hours(hours) => (HOURS, hours),
            DocSpan::Days(days) => (DAYS, days),
        };
        let call = self.read("read_docs", "reading clicks");
        run!(call, |session| {
            let index = session.dialect().force_index(table.of_scope);
            let time = table.time;
            let select = format!(
                "SELECT scope_id, {time} AS time, doc FROM {}{index} \
                 WHERE kind = ? AND {time} >= ? AND {time} < ? AND scope_id IN ",
                table.table
            );
            let mut docs = Vec::new();
            for scopes in scopes.chunks(LONGEST) {
                let query = sql(select.clone())
                    .bind(kind.number())
                    .bind(times.start)
                    .bind(times.end);
                let found: Vec<StoredDoc> = session.fetch_all(query.list(scopes)).await?;
                docs.extend(found);
            }
            Ok(docs)
        })
    }

    /// The keys and tags of links, tombstones included.
    pub async fn keys_and_tags(
        &self,
        links: &[u64],
    ) -> Result<Vec<(u64, String, Vec<String>)>, StoreError> {
        let call = self.read("keys_and_tags", "reading keys and tags of links");
        run!(call, |session| {
            let (index, join) = (
                session.dialect().force_index("PRIMARY"),
                session.dialect().join_in_order,
            );
            let select = format!(
                "SELECT l.id, d.name, l.code, l.tags FROM links l{index} {join} domains d ON d.id = l.domain_id WHERE l.id IN "
            );
            let mut found = Vec::with_capacity(links.len());
            for links in links.chunks(LONGEST) {
                let query = sql(select.clone()).list(links);
                let rows: Vec<(u64, Vec<u8>, Vec<u8>, String)> = session.fetch_all(query).await?;
                for (id, domain, code, tags) in rows {
                    let key = format!("{}/{}", name(&domain)?, name(&code)?);
                    let tags = serde_json::from_str(&tags)
                        .map_err(|error| Fault::corrupt("tags", &error))?;
                    found.push((id, key, tags));
                }
            }
            Ok(found)
        })
    }
}
