//! Conversions, and the ids of clicks that can convert.

use crate::{ClickStore, MAX_DELETED};
use edgelink_database::classes::Class;
use edgelink_database::columns::name;
use edgelink_database::error::{Fault, StoreError};
use edgelink_database::lines::RowLine;
use edgelink_database::run;
use edgelink_database::session::Session;
use edgelink_database::sql::{LONGEST, Sql, pieces, sql};
use edgelink_model::counts;
use std::array::TryFromSliceError;
use std::collections::HashMap;

use edgelink_wire::click_id::ClickId;

/// A click that has an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdentifiedClick {
    /// Its id.
    pub id: ClickId,
    /// The link.
    pub link_id: u64,
    /// The tenant of the link.
    pub tenant_id: u32,
    /// The domain of the link.
    pub domain_id: u32,
    /// Time of the click, in unix seconds.
    pub at: u64,
}

/// A conversion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conversion {
    /// The click that led to it.
    pub click_id: ClickId,
    /// The action of the visitor.
    pub event: String,
    /// Its id in another system.
    pub external_id: Option<String>,
    /// Its value, in the smallest unit of the currency.
    pub value: u64,
    /// Three letters of ISO 4217; empty for none.
    pub currency: String,
    /// Time of the conversion, in unix seconds.
    pub at: u64,
}

/// The conversions of one event and currency.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConversionSum {
    /// The event.
    pub event: String,
    /// The currency; empty for none.
    pub currency: String,
    /// Number of conversions.
    pub conversions: u64,
    /// Their total value, in the smallest unit of the currency.
    pub value: u64,
}

/// The most conversions of a click.
pub const MAX_CONVERSIONS: u64 = 100;

/// Outcome of recording a conversion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recorded {
    /// It is counted.
    New,
    /// It was counted before, as this conversion.
    Before(Conversion),
    /// It is not counted: the click has [`MAX_CONVERSIONS`].
    TooMany,
}

type ConversionRow = (Vec<u8>, Vec<u8>, Option<Vec<u8>>, u64, Vec<u8>, u64);

const CONVERSION: &str = "click_id, event, external_id, value, currency, at";

impl ClickStore {
    /// Stores clicks that may convert; those already stored stay unchanged.
    pub async fn note_click_ids(&self, clicks: &[IdentifiedClick]) -> Result<(), StoreError> {
        for clicks in pieces(clicks) {
            let call = self
                .write("note_click_ids", "storing the ids of clicks")
                .of(Class::Background);
            run!(call, |session| {
                let insert_ignore = session.dialect().insert_ignore;
                let insert =
                    format!("{insert_ignore} click_ids (id, link_id, tenant_id, domain_id, at) ");
                let rows = clicks.iter().map(|click| {
                    [
                        click.id.as_slice().into(),
                        click.link_id.into(),
                        click.tenant_id.into(),
                        click.domain_id.into(),
                        click.at.into(),
                    ]
                });
                session.autocommit(sql(insert).rows(rows)).await
            })?;
        }
        Ok(())
    }

    /// The click of a tenant with this id.
    pub async fn identified_click(
        &self,
        tenant_id: u32,
        id: ClickId,
    ) -> Result<Option<IdentifiedClick>, StoreError> {
        let call = self.read("identified_click", "finding a click");
        run!(call, |session| {
            let query =
                sql("SELECT link_id, domain_id, at FROM click_ids WHERE id = ? AND tenant_id = ?");
            let query = query.bind(id.as_slice()).bind(tenant_id);
            let row: Option<(u64, u32, u64)> = session.fetch_optional(query).await?;
            Ok(row.map(|(link_id, domain_id, at)| IdentifiedClick {
                id,
                link_id,
                tenant_id,
                domain_id,
                at,
            }))
        })
    }

    /// Counts a conversion of a click, once for each `hash`.
    pub async fn record_conversion(
        &self,
        click: &IdentifiedClick,
        conversion: &Conversion,
        hash: &[u8; 32],
    ) -> Result<Recorded, StoreError> {
        let call = self.write("record_conversion", "counting a conversion");
        let call = call.locking([RowLine::Conversion(*hash)]);
        run!(call, |session| record(session, click, conversion, hash)
            .await)
    }

    /// Sums of conversions on the days from `from` to `to` (unix time / 86400, inclusive), the most frequent first.
    pub async fn conversion_sums(
        &self,
        scope: &counts::ClickScope,
        from: u64,
        to: u64,
    ) -> Result<Vec<ConversionSum>, StoreError> {
        let call = self.read("conversion_sums", "summing conversions");
        run!(call, |session| sums(session, scope, (from, to)).await)
    }

    /// The conversions of clicks, by their ids.
    pub async fn conversions_of(
        &self,
        ids: &[ClickId],
    ) -> Result<HashMap<ClickId, Vec<Conversion>>, StoreError> {
        let mut found: HashMap<ClickId, Vec<Conversion>> = HashMap::new();
        if ids.is_empty() {
            return Ok(found);
        }
        let call = self.read("conversions_of", "reading conversions of clicks");
        let rows = run!(call, |session| {
            let mut conversions = Vec::new();
            for ids in ids.chunks(LONGEST) {
                let ids: Vec<&[u8]> = ids.iter().map(ClickId::as_slice).collect();
                let query = sql(format!(
                    "SELECT {CONVERSION} FROM conversions WHERE click_id IN "
                ));
                let query = query.list(&ids).push(" ORDER BY click_id, at");
                let rows: Vec<ConversionRow> = session.fetch_all(query).await?;
                let read = rows.into_iter().map(read);
                conversions.extend(read.collect::<Result<Vec<_>, _>>()?);
            }
            Ok(conversions)
        })?;
        for conversion in rows {
            found
                .entry(conversion.click_id)
                .or_default()
                .push(conversion);
        }
        Ok(found)
    }

    /// Removes up to `limit` ids of clicks older than `kept` seconds by the database's clock. Returns their number.
    pub async fn purge_click_ids(&self, kept: u64, limit: u32) -> Result<u64, StoreError> {
        let call = self
            .write("purge_click_ids", "purging the ids of clicks")
            .of(Class::Background);
        run!(call, |session| {
            let now = session.dialect().now_seconds;
            let old = format!("at < CAST({now} AS SIGNED) - ? ORDER BY at");
            let old = sql(old).bind(kept.cast_signed());
            session.purge("click_ids", "id", old, limit).await
        })
    }

    /// Removes up to `limit` conversions, and up to `limit` daily counts, older than `kept` seconds by the database's clock. Returns
    /// their number.
    pub async fn purge_conversions(&self, kept: u64, limit: u32) -> Result<u64, StoreError> {
        let call = self
            .write("purge_conversions", "purging conversions")
            .of(Class::Background);
        run!(call, |session| {
            let (now, kept) = (session.dialect().now_seconds, kept.cast_signed());
            let old = format!("at < CAST({now} AS SIGNED) - ? ORDER BY at");
            let (single, old) = (TABLES[1], sql(old).bind(kept));
            let purged = session.purge(single.0, single.1, old, limit).await?;
            let old = format!("day < (CAST({now} AS SIGNED) - ?) / 86400 ORDER BY day");
            let (days, old) = (TABLES[2], sql(old).bind(kept));
            Ok(purged + session.purge(days.0, days.1, old, limit).await?)
        })
    }

    /// Removes the conversions of a link, and the ids of its clicks.
    pub async fn delete_conversions(&self, link_id: u64) -> Result<(), StoreError> {
        for (table, key) in TABLES {
            let delete = async || {
                let call = self.write("delete_conversions", "deleting conversions");
                run!(call, |session| {
                    let of_link = sql("link_id = ?").bind(link_id);
                    session.purge(table, key, of_link, MAX_DELETED).await
                })
            };
            while delete().await? >= MAX_DELETED.into() {}
        }
        Ok(())
    }
}

/// The tables that have rows of a link, and their keys.
const TABLES: [(&str, &str); 3] = [
    ("click_ids", "id"),
    ("conversions", "tenant_id, hash"),
    ("conversion_days", "link_id, day, event, currency"),
];

/// Removes the conversions of links, and the ids of their clicks. Returns `false`, with only some removed, if there are more than
/// one statement deletes. Part of a transaction.
pub(super) async fn remove(session: &mut Session, links: &[u64]) -> Result<bool, Fault> {
    for links in links.chunks(LONGEST) {
        for (table, key) in TABLES {
            let of_links = sql("link_id IN ").list(links);
            let delete = session.dialect().delete_some(table, key, of_links);
            if session.execute(delete.bind(MAX_DELETED)).await? >= MAX_DELETED.into() {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

async fn record(
    session: &mut Session,
    click: &IdentifiedClick,
    conversion: &Conversion,
    hash: &[u8; 32],
) -> Result<Recorded, Fault> {
    session.begin().await?;
    let insert_ignore = session.dialect().insert_ignore;
    let insert = sql(format!(
        "{insert_ignore} conversions (tenant_id, hash, link_id, {CONVERSION}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
    ));
    let insert = insert
        .bind(click.tenant_id)
        .bind(hash)
        .bind(click.link_id)
        .bind(conversion.click_id.as_slice())
        .bind(conversion.event.as_str())
        .bind(conversion.external_id.as_deref())
        .bind(conversion.value)
        .bind(conversion.currency.as_str())
        .bind(conversion.at);
    if session.execute(insert).await? == 0 {
        session.rollback().await?;
        let query = sql(format!(
            "SELECT {CONVERSION} FROM conversions WHERE tenant_id = ? AND hash = ?"
        ));
        let row: ConversionRow = session
            .fetch_one(query.bind(click.tenant_id).bind(hash))
            .await?;
        return read(row).map(Recorded::Before);
    }
    let count = sql("SELECT COUNT(*) AS conversions FROM conversions WHERE click_id = ?");
    let (count,): (i64,) = session
        .fetch_one(count.bind(conversion.click_id.as_slice()))
        .await?;
    if count.cast_unsigned() > MAX_CONVERSIONS {
        session.rollback().await?;
        return Ok(Recorded::TooMany);
    }
    add_to_day(session, click, conversion).await?;
    session.commit(1).await?;
    Ok(Recorded::New)
}

async fn add_to_day(
    session: &mut Session,
    click: &IdentifiedClick,
    conversion: &Conversion,
) -> Result<(), Fault> {
    let dialect = session.dialect();
    let update = dialect.on_duplicate("link_id, day, event, currency");
    let [conversions, value] = ["conversions", "value"].map(|column| dialect.inserted(column));
    let add = sql(
        "INSERT INTO conversion_days (link_id, day, event, currency, tenant_id, domain_id, conversions, value) ",
    )
    .rows([[
        click.link_id.into(),
        (conversion.at / 86_400).into(),
        conversion.event.as_str().into(),
        conversion.currency.as_str().into(),
        click.tenant_id.into(),
        click.domain_id.into(),
        1_u64.into(),
        conversion.value.into(),
    ]])
    .push(&format!(
        "{update} conversions = conversion_days.conversions + {conversions}, value = conversion_days.value + {value}"
    ));
    session.execute(add).await.map(drop)
}

async fn sums(
    session: &mut Session,
    scope: &counts::ClickScope,
    (from, to): (u64, u64),
) -> Result<Vec<ConversionSum>, Fault> {
    let mut sums: HashMap<(String, String), (u64, u64)> = HashMap::new();
    let mut queries: Vec<Sql<'_>> = Vec::new();
    match scope {
        counts::ClickScope::Tenant(tenant_id) => {
            queries.push(of_days("tenant_id = ?").bind(*tenant_id));
        }
        counts::ClickScope::Domain {
            tenant_id,
            domain_id,
        } => {
            let query = of_days("tenant_id = ? AND domain_id = ?");
            queries.push(query.bind(*tenant_id).bind(*domain_id));
        }
        counts::ClickScope::Links(ids) => {
            let of_ids = |ids: &[u64]| of_days("link_id IN ").list(ids);
            queries.extend(ids.chunks(LONGEST).map(of_ids));
        }
    }
    for query in queries {
        let query = query.push(" AND day >= ? AND day <= ? GROUP BY event, currency");
        let rows: Vec<(Vec<u8>, Vec<u8>, u64, u64)> =
            session.fetch_all(query.bind(from).bind(to)).await?;
        for (event, currency, conversions, value) in rows {
            let sum = sums.entry((name(&event)?, name(&currency)?)).or_default();
            *sum = (sum.0 + conversions, sum.1.saturating_add(value));
        }
    }
    let sum = |((event, currency), (conversions, value))| ConversionSum {
        event,
        currency,
        conversions,
        value,
    };
    let mut sums: Vec<ConversionSum> = sums.into_iter().map(sum).collect();
    sums.sort_unstable_by(|one, other| {
        let order = other.conversions.cmp(&one.conversions);
        order.then_with(|| (&one.event, &one.currency).cmp(&(&other.event, &other.currency)))
    });
    Ok(sums)
}

/// The query for sums of days that meet a condition.
fn of_days<'v>(condition: &str) -> Sql<'v> {
    sql(format!(
        "SELECT event, currency, CAST(SUM(conversions) AS UNSIGNED) AS conversions, \
         CAST(SUM(value) AS UNSIGNED) AS value FROM conversion_days WHERE {condition}"
    ))
}

fn read(row: ConversionRow) -> Result<Conversion, Fault> {
    let (click_id, event, external_id, value, currency, at) = row;
    let wrong = |error: TryFromSliceError| Fault::corrupt("click id", &error);
    Ok(Conversion {
        click_id: ClickId::try_from(click_id.as_slice()).map_err(wrong)?,
        event: name(&event)?,
        external_id: external_id.map(|id| name(&id)).transpose()?,
        value,
        currency: name(&currency)?,
        at,
    })
}
