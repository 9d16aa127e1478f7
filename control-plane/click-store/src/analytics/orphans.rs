//! Orphan visits: requests that matched no link. A bounded number is kept of each day, and all are counted.

use super::state::ClickState;
use crate::{ClickStore, MAX_DELETED};
use edgelink_database::error::{Fault, StoreError};
use edgelink_database::run;
use edgelink_database::session::Session;
use edgelink_database::sql::{pieces, sized, sql};
use std::collections::{BTreeMap, HashMap};
use std::ops::RangeInclusive;

const DAY_SECONDS: u64 = 86_400;

/// Size of a row without its texts.
const ROW_BYTES: usize = 80;

/// An orphan visit that is to be kept.
#[derive(Clone, Debug)]
pub struct NewOrphan<'a> {
    /// Unix seconds.
    pub at: u64,
    /// The tenant.
    pub tenant_id: u32,
    /// The domain; 0 if it is unknown.
    pub domain_id: u32,
    /// Number of the kind of request, at least 1.
    pub kind: u8,
    /// True for a bot.
    pub is_bot: bool,
    /// Domain and path.
    pub url: &'a str,
    /// All else, encoded.
    pub described: Vec<u8>,
}

impl ClickStore {
    /// Number of orphan visits of a tenant on these days (unix time / 86400), beyond the first `kept` of each day.
    pub async fn orphans_beyond(
        &self,
        tenant_id: u32,
        days: RangeInclusive<u64>,
        kept: u64,
    ) -> Result<u64, StoreError> {
        let call = self.read("orphans_beyond", "counting orphan visits");
        run!(call, |session| {
            let query = sql(
                "SELECT CAST(COALESCE(SUM(visits - ?), 0) AS UNSIGNED) FROM orphan_days \
                 WHERE tenant_id = ? AND day >= ? AND day <= ? AND visits > ?",
            );
            let query =
                query
                    .bind(kept)
                    .bind(tenant_id)
                    .bind_all([*days.start(), *days.end(), kept]);
            let (visits,): (u64,) = session.fetch_one(query).await?;
            Ok(visits)
        })
    }

    /// Number of orphan visits counted for each of these tenants and days (unix time / 86400); 0 where nothing was counted.
    pub async fn orphan_days(
        &self,
        days: &[(u32, u64)],
    ) -> Result<HashMap<(u32, u64), u64>, StoreError> {
        let call = self.read("orphan_days", "counting orphan visits");
        run!(call, |session| {
            let mut counted = HashMap::new();
            for (tenant_id, day) in days {
                let visits = visits_of(session, *tenant_id, *day).await?;
                counted.insert((*tenant_id, *day), visits);
            }
            Ok(counted)
        })
    }

    /// Deletes the orphan visits of a tenant. Returns the number of deleted rows.
    pub async fn delete_orphan_visits(&self, tenant_id: u32) -> Result<u64, StoreError> {
        let call = self.write("delete_orphans", "deleting orphan visits");
        let before = run!(call, |session| {
            session.begin().await?;
            let before = ClickState::lock(session).await?.number;
            let delete = sql("DELETE FROM orphan_days WHERE tenant_id = ?");
            session.execute(delete.bind(tenant_id)).await?;
            session.commit(1).await?;
            Ok(before)
        })?;
        let mut deleted = 0;
        loop {
            let call = self.write("delete_orphans", "deleting orphan visits");
            let count: u64 = run!(call, |session| {
                let of_tenant = "tenant_id = ? AND number < ? ORDER BY tenant_id, at, number";
                let of_tenant = sql(of_tenant).bind(tenant_id).bind(before);
                session
                    .purge("orphan_visits", "number", of_tenant, MAX_DELETED)
                    .await
            })?;
            deleted += count;
            if count < MAX_DELETED.into() {
                break;
            }
        }
        Ok(deleted)
    }
}

/// Counts orphan visits, and inserts at most `most` of each tenant and day, numbered from `number`. Returns the next number.
pub(super) async fn insert(
    session: &mut Session,
    orphans: &[NewOrphan<'_>],
    most: u64,
    mut number: u64,
) -> Result<u64, Fault> {
    let mut days: BTreeMap<(u32, u64), Vec<&NewOrphan<'_>>> = BTreeMap::new();
    for orphan in orphans {
        let day = days.entry((orphan.tenant_id, orphan.at / DAY_SECONDS));
        day.or_default().push(orphan);
    }
    let mut kept = Vec::new();
    for ((tenant_id, day), orphans) in days {
        let before = add(session, tenant_id, day, orphans.len() as u64).await?;
        let room = usize::try_from(most.saturating_sub(before)).unwrap_or(usize::MAX);
        kept.extend(orphans.into_iter().take(room));
    }
    for part in sized(&kept, |orphan| {
        ROW_BYTES + orphan.url.len() + orphan.described.len()
    }) {
        for part in pieces(part) {
            let rows = part.iter().map(|orphan| {
                let own = number;
                number += 1;
                [
                    own.into(),
                    orphan.at.into(),
                    orphan.tenant_id.into(),
                    orphan.domain_id.into(),
                    u64::from(orphan.kind).into(),
                    orphan.is_bot.into(),
                    orphan.url.into(),
                    orphan.described.as_slice().into(),
                ]
            });
            let insert = sql(
                "INSERT INTO orphan_visits (number, at, tenant_id, domain_id, kind, is_bot, url, described) ",
            );
            session.execute(insert.rows(rows)).await?;
        }
    }
    Ok(number)
}

/// Number of orphan visits counted on a day.
async fn visits_of(session: &mut Session, tenant_id: u32, day: u64) -> Result<u64, Fault> {
    let query = sql("SELECT visits FROM orphan_days WHERE tenant_id = ? AND day = ?");
    let before: Option<(u64,)> = session
        .fetch_optional(query.bind(tenant_id).bind(day))
        .await?;
    Ok(before.map_or(0, |(visits,)| visits))
}

/// Adds to the count of a day. Returns the previous count.
pub(super) async fn add(
    session: &mut Session,
    tenant_id: u32,
    day: u64,
    visits: u64,
) -> Result<u64, Fault> {
    let before = visits_of(session, tenant_id, day).await?;
    let update = session.dialect().overwrite("tenant_id, day", ["visits"]);
    let row = [tenant_id.into(), day.into(), (before + visits).into()];
    let insert = sql("INSERT INTO orphan_days (tenant_id, day, visits) ")
        .rows([row])
        .push(&update);
    session.execute(insert).await?;
    Ok(before)
}
