//! Reads rollups.

use super::docs::{DAYS, DocKind, Docs, HOURS};
use crate::ClickStore;
use edgelink_database::error::StoreError;
use edgelink_database::run;
use edgelink_database::session::Session;
use edgelink_database::sql::{LONGEST, Sql, sql};
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

impl ClickStore {
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
