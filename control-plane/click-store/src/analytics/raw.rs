//! Single clicks.

use crate::ClickStore;
use edgelink_database::columns::name;
use edgelink_database::error::{Fault, StoreError};
use edgelink_database::run;
use edgelink_database::session::Session;
use edgelink_database::sql::{LONGEST, Sql, pieces, sized, sql};
use std::collections::HashMap;

/// Size of a row without its texts.
const ROW_BYTES: usize = 80;

/// A click that is to be kept, or several clicks of a link without attributes.
#[derive(Clone, Debug)]
pub struct NewRaw<'a> {
    /// Number of clicks.
    pub clicks: u64,
    /// Unix seconds.
    pub at: u64,
    /// The tenant.
    pub tenant_id: u32,
    /// The domain.
    pub domain_id: u32,
    /// The link; 0 for none, where the tenant is 0 too.
    pub link_id: u64,
    /// True for a bot.
    pub is_bot: bool,
    /// The link key where there is no link.
    pub key: Option<&'a str>,
    /// All else, encoded.
    pub described: Vec<u8>,
}

/// A row of clicks, or of an orphan visit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawRow {
    /// The number of its first click.
    pub number: u64,
    /// Number of clicks.
    pub clicks: u64,
    /// Unix seconds.
    pub at: u64,
    /// The link; 0 for none, where the tenant is 0 too.
    pub link_id: u64,
    /// The link key, or the URL of an orphan visit.
    pub key: String,
    /// Number of the kind of an orphan visit; 0 for a click.
    pub kind: u8,
    /// All else, encoded.
    pub described: Vec<u8>,
}

/// Selection of rows, newest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawSelection {
    /// The scope of the rows.
    pub of: RawScope,
    /// The first second.
    pub from: u64,
    /// The end, exclusive.
    pub to: u64,
    /// Only clicks of bots, or only of people.
    pub is_bot: Option<bool>,
    /// Only rows before this cursor, a second and a number.
    pub before: Option<(u64, u64)>,
}

/// The scope of selected rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RawScope {
    /// Clicks of a tenant, or of one of its domains.
    Clicks(u32, Option<u32>),
    /// Orphan visits of a tenant, or of one of its domains.
    Orphans(u32, Option<u32>),
    /// Clicks of links.
    Links(Vec<u64>),
}

/// A row without its key and description.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, sqlx_macros::FromRow)]
pub struct RawHead {
    /// Unix seconds.
    pub at: u64,
    /// The number of its first click.
    pub number: u64,
    /// Number of clicks.
    pub clicks: u64,
}

impl ClickStore {
    /// The first `limit` rows.
    pub async fn raw_heads(
        &self,
        selection: &RawSelection,
        limit: u64,
    ) -> Result<Vec<RawHead>, StoreError> {
        let call = self.read("raw_heads", "finding single clicks");
        run!(call, |session| {
            let RawScope::Links(links) = &selection.of else {
                let query = select_heads(session, selection, &[]);
                return session.fetch_all(query.bind(limit)).await;
            };
            let mut heads: Vec<RawHead> = Vec::new();
            for links in links.chunks(LONGEST) {
                let query = select_heads(session, selection, links);
                let found: Vec<RawHead> = session.fetch_all(query.bind(limit)).await?;
                heads.extend(found);
                heads.sort_unstable_by(|one, other| other.cmp(one));
                heads.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
            }
            Ok(heads)
        })
    }

    /// Number of clicks, or orphan visits, up to `most`.
    pub async fn count_raw(&self, selection: &RawSelection, most: u64) -> Result<u64, StoreError> {
        let call = self.read("count_raw", "counting single clicks");
        run!(call, |session| {
            let all: Vec<&[u64]> = match &selection.of {
                RawScope::Links(links) => links.chunks(LONGEST).collect(),
                RawScope::Clicks(..) | RawScope::Orphans(..) => vec![&[]],
            };
            let mut clicks: u64 = 0;
            for links in all {
                if clicks < most {
                    let room = most - clicks;
                    clicks = clicks.saturating_add(count(session, selection, links, room).await?);
                }
            }
            Ok(clicks.min(most))
        })
    }

    /// The rows with these numbers, in their order; missing ones are left out.
    pub async fn raw_rows(
        &self,
        numbers: &[u64],
        are_orphans: bool,
    ) -> Result<Vec<RawRow>, StoreError> {
        let call = self.read("raw_rows", "reading single clicks");
        run!(call, |session| {
            let mut rows = HashMap::with_capacity(numbers.len());
            for numbers in numbers.chunks(LONGEST) {
                let found = if are_orphans {
                    orphan_rows(session, numbers).await?
                } else {
                    click_rows(session, numbers).await?
                };
                rows.extend(found.into_iter().map(|row| (row.number, row)));
            }
            Ok(numbers
                .iter()
                .filter_map(|number| rows.remove(number))
                .collect())
        })
    }
}

/// Number of clicks in the rows of a selection, restricted to these links if any, up to `most`.
async fn count(
    session: &mut Session,
    selection: &RawSelection,
    links: &[u64],
    most: u64,
) -> Result<u64, Fault> {
    // Rows are counted by an index alone. Each has at least one click.
    let rows = select(session, selection, "1 AS clicks", links);
    let rows = counted("COUNT(*)", rows, most);
    let (rows,): (u64,) = session.fetch_one(rows).await?;
    if rows >= most || matches!(selection.of, RawScope::Orphans(..)) {
        return Ok(rows);
    }
    let clicks = select(session, selection, "clicks", links);
    let clicks = counted("COALESCE(SUM(clicks), 0)", clicks, most);
    let (clicks,): (u64,) = session.fetch_one(clicks).await?;
    Ok(clicks)
}

fn counted<'v>(what: &str, rows: Sql<'v>, most: u64) -> Sql<'v> {
    let select = format!("SELECT CAST({what} AS UNSIGNED) FROM (");
    rows.push(" LIMIT ?")
        .bind(most)
        .within(&select, ") AS found")
}

fn select_heads<'v>(session: &Session, selection: &'v RawSelection, links: &[u64]) -> Sql<'v> {
    let clicks = match selection.of {
        RawScope::Orphans(..) => "CAST(1 AS UNSIGNED) AS clicks",
        _ => "clicks",
    };
    let columns = format!("at, number, {clicks}");
    let query = select(session, selection, &columns, links);
    query.push(" ORDER BY at DESC, number DESC LIMIT ?")
}

/// Selects columns of the rows of a selection, in no order.
fn select<'v>(
    session: &Session,
    selection: &'v RawSelection,
    columns: &str,
    links: &[u64],
) -> Sql<'v> {
    let dialect = session.dialect();
    let select = |table: &str, index: &str| {
        let index = dialect.force_index(index);
        sql(format!("SELECT {columns} FROM {table}{index} WHERE "))
    };
    let query = match &selection.of {
        RawScope::Links(_) => select("click_events", "click_events_of_link")
            .push("link_id IN ")
            .list(links),
        RawScope::Clicks(tenant_id, None) => select("click_events", "click_events_of_tenant")
            .push("tenant_id = ?")
            .bind(*tenant_id),
        RawScope::Clicks(tenant_id, Some(domain_id)) => {
            select("click_events", "click_events_of_domain")
                .push("domain_id = ? AND tenant_id = ?")
                .bind_all([*domain_id, *tenant_id])
        }
        RawScope::Orphans(tenant_id, domain_id) => {
            let query = select("orphan_visits", "orphan_visits_of_tenant")
                .push("tenant_id = ?")
                .bind(*tenant_id);
            match domain_id {
                Some(domain_id) => query.push(" AND domain_id = ?").bind(*domain_id),
                None => query,
            }
        }
    };
    let mut query = query
        .push(" AND at >= ? AND at < ?")
        .bind_all([selection.from, selection.to]);
    // A link may have the number 0, which clicks without a link have too.
    if matches!(selection.of, RawScope::Links(_)) && links.contains(&0) {
        query = query.push(" AND tenant_id > 0");
    }
    if let Some(is_bot) = selection.is_bot {
        query = query.push(" AND is_bot = ?").bind(is_bot);
    }
    if let Some((at, number)) = selection.before {
        query = query
            .push(" AND at <= ? AND (at < ? OR number < ?)")
            .bind_all([at, at, number]);
    }
    query
}

async fn click_rows(session: &mut Session, numbers: &[u64]) -> Result<Vec<RawRow>, Fault> {
    type Row = (
        u64,
        u64,
        u64,
        u64,
        Option<Vec<u8>>,
        Option<Vec<u8>>,
        Option<Vec<u8>>,
        Vec<u8>,
    );
    let query = sql(
        "SELECT e.number, e.clicks, e.at, e.link_id, e.link_key, d.name, l.code, e.described \
         FROM click_events e LEFT JOIN links l ON l.id = e.link_id AND e.tenant_id > 0 \
         LEFT JOIN domains d ON d.id = l.domain_id WHERE e.number IN ",
    );
    let rows: Vec<Row> = session.fetch_all(query.list(numbers)).await?;
    let row = |(number, clicks, at, link_id, key, domain, code, described): Row| {
        let key = match (key, domain, code) {
            (Some(key), ..) => name(&key)?,
            (None, Some(domain), Some(code)) => format!("{}/{}", name(&domain)?, name(&code)?),
            _ => String::new(),
        };
        Ok(RawRow {
            number,
            clicks,
            at,
            link_id,
            key,
            kind: 0,
            described,
        })
    };
    rows.into_iter().map(row).collect()
}

/// Number, time, kind, URL and description of an orphan visit.
type OrphanColumns = (u64, u64, u8, Vec<u8>, Vec<u8>);

async fn orphan_rows(session: &mut Session, numbers: &[u64]) -> Result<Vec<RawRow>, Fault> {
    let query = sql("SELECT number, at, kind, url, described FROM orphan_visits WHERE number IN ");
    let rows: Vec<OrphanColumns> = session.fetch_all(query.list(numbers)).await?;
    let row = |(number, at, kind, url, described): OrphanColumns| {
        Ok(RawRow {
            number,
            clicks: 1,
            at,
            link_id: 0,
            key: name(&url)?,
            kind,
            described,
        })
    };
    rows.into_iter().map(row).collect()
}

/// Inserts clicks, numbered from `number`. Returns the next number.
pub(super) async fn insert(
    session: &mut Session,
    clicks: &[NewRaw<'_>],
    mut number: u64,
) -> Result<u64, Fault> {
    for part in sized(clicks, |click| ROW_BYTES + click.described.len()) {
        for part in pieces(part) {
            let rows = part.iter().map(|click| {
                let first = number;
                number = number.saturating_add(click.clicks);
                [
                    first.into(),
                    click.clicks.into(),
                    click.at.into(),
                    click.tenant_id.into(),
                    click.domain_id.into(),
                    click.link_id.into(),
                    click.is_bot.into(),
                    click.key.into(),
                    click.described.as_slice().into(),
                ]
            });
            let insert = sql(
                "INSERT INTO click_events (number, clicks, at, tenant_id, domain_id, link_id, is_bot, link_key, described) ",
            );
            session.execute(insert.rows(rows)).await?;
        }
    }
    Ok(number)
}
