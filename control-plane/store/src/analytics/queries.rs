//! Reads rollups.

use super::docs::{DAYS, DocKind, Docs, HOURS};
use crate::calls::{Store, run};
use crate::error::{Fault, StoreError};
use crate::rows::name;
use crate::session::Session;
use crate::sql::{LONGEST, Sql, sql};
use std::ops::Range;

/// The rollups of an interval.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DocSpan {
    /// Hourly rollups (unix time / 3600).
    Hours(Range<u32>),
    /// Daily rollups (unix time / 86400).
    Days(Range<u32>),
}

/// The part of a rollup that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DocPart {
    /// The clicks of each hour, and the visitors.
    Head,
    /// All clicks, and the values.
    Values,
}

/// A part of a rollup as it is stored.
#[derive(Clone, Debug, PartialEq, Eq, sqlx_macros::FromRow)]
pub struct StoredDoc {
    /// Its scope.
    pub scope_id: u64,
    /// Its hour or day.
    pub time: u32,
    /// All clicks; `None` if the rollup is not split in two.
    pub clicks: Option<u64>,
    /// Clicks of bots.
    pub bots: Option<u64>,
    /// The bytes of the part, or of the whole rollup if it is not split in two.
    pub doc: Vec<u8>,
}

/// All clicks of a scope in an interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, sqlx_macros::FromRow)]
pub struct DocSum {
    /// The scope.
    pub scope_id: u64,
    /// All clicks.
    pub clicks: u64,
    /// Clicks of bots.
    pub bots: u64,
    /// Number of its rollups stored without their total.
    pub unknown: u64,
}

impl DocSpan {
    fn table(&self) -> (Docs, &Range<u32>) {
        match self {
            Self::Hours(hours) => (HOURS, hours),
            Self::Days(days) => (DAYS, days),
        }
    }
}

impl Store {
    /// A part of the rollups of scopes in an interval, in no order.
    pub async fn read_docs(
        &self,
        kind: DocKind,
        scopes: &[u64],
        span: &DocSpan,
        part: DocPart,
    ) -> Result<Vec<StoredDoc>, StoreError> {
        let (Docs { time, .. }, _) = span.table();
        let parts = match part {
            DocPart::Head => "COALESCE(head, doc) AS doc",
            DocPart::Values => "doc",
        };
        let call = self.read("read_docs", "reading clicks");
        run!(call, |session| {
            let columns = format!("scope_id, {time} AS time, clicks, bots, {parts}");
            let mut docs = Vec::new();
            for scopes in scopes.chunks(LONGEST) {
                let query = select(session, kind, span, &columns).list(scopes);
                let found: Vec<StoredDoc> = session.fetch_all(query).await?;
                docs.extend(found);
            }
            Ok(docs)
        })
    }

    /// The clicks of each of these scopes in an interval; scopes without clicks are left out.
    pub async fn sum_docs(
        &self,
        kind: DocKind,
        scopes: &[u64],
        span: &DocSpan,
    ) -> Result<Vec<DocSum>, StoreError> {
        let call = self.read("sum_docs", "summing clicks");
        run!(call, |session| {
            let columns = "scope_id, CAST(COALESCE(SUM(clicks), 0) AS UNSIGNED) AS clicks, \
                           CAST(COALESCE(SUM(bots), 0) AS UNSIGNED) AS bots, \
                           CAST(COUNT(*) - COUNT(clicks) AS UNSIGNED) AS unknown";
            let mut sums = Vec::new();
            for scopes in scopes.chunks(LONGEST) {
                let query = select(session, kind, span, columns).list(scopes);
                let query = query.push(" GROUP BY scope_id");
                let found: Vec<DocSum> = session.fetch_all(query).await?;
                sums.extend(found);
            }
            Ok(sums)
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

/// Selects columns of the rollups of an interval; the list of scopes is to be appended.
fn select<'v>(session: &Session, kind: DocKind, span: &DocSpan, columns: &str) -> Sql<'v> {
    let (table, times) = span.table();
    let Docs {
        table,
        time,
        of_scope,
        ..
    } = table;
    let index = session.dialect().force_index(of_scope);
    sql(format!(
        "SELECT {columns} FROM {table}{index} WHERE kind = ? AND {time} >= ? AND {time} < ? AND scope_id IN "
    ))
    .bind(kind.number())
    .bind(times.start)
    .bind(times.end)
}
