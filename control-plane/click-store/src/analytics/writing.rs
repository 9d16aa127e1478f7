//! Writes the clicks of reports and removes these from the queue in one transaction.

use super::docs::{DAYS, DocKey, Docs, HOURS, decode};
use super::orphans::{self, NewOrphan};
use super::raw::{self, NewRaw};
use super::state::ClickState;
use super::totals;
use crate::ClickStore;
use edgelink_database::classes::Class;
use edgelink_database::error::{Fault, StoreError};
use edgelink_database::run;
use edgelink_database::session::Session;
use edgelink_database::sql::{LONGEST, sql};
use edgelink_model::counts::rollup::{Added, Rollup, Tally};
use edgelink_model::runtime::aside;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

const DAY_HOURS: u32 = 24;

/// Clicks that are written together.
#[derive(Debug, Default)]
pub struct ClickWrite<'a> {
    /// The rows of the queue that they were in.
    pub rows: &'a [u64],
    /// By hour, in the order of their keys.
    pub docs: Vec<(DocKey, Added<'a>)>,
    /// By link.
    pub totals: Vec<(u64, Tally)>,
    /// One by one.
    pub raw: Vec<NewRaw<'a>>,
    /// Requests that matched no link.
    pub orphans: Vec<NewOrphan<'a>>,
    /// The most values of an attribute in a rollup.
    pub max_values: usize,
    /// The most orphan visits of a tenant kept per day.
    pub max_orphans: u64,
}

impl ClickStore {
    /// Writes clicks, all of them or none. Fails with a transient error, without writing, if one of their rows has left the queue.
    pub async fn write_clicks(&self, write: &ClickWrite<'_>) -> Result<(), StoreError> {
        let call = self
            .write("write_clicks", "writing clicks")
            .of(Class::Background);
        run!(call, |session| {
            session.begin().await?;
            let state = ClickState::lock(session).await?;
            take(session, write.rows).await?;
            write_docs(session, write, &state).await?;
            totals::add(session, &write.totals).await?;
            let number = raw::insert(session, &write.raw, state.number).await?;
            let number =
                orphans::insert(session, &write.orphans, write.max_orphans, number).await?;
            let update = "UPDATE click_state SET number = ? WHERE id = 1";
            session.execute(sql(update).bind(number)).await?;
            session.commit(write.docs.len() + write.raw.len()).await
        })
    }
}

impl ClickStore {
    /// Marks rows of the queue as part of an insert outside of this database, all of them or none. Fails with a transient error if one
    /// of them is already marked or has left the queue.
    pub async fn mark_reports(&self, rows: &[u64], insert_id: u64) -> Result<(), StoreError> {
        let call = self
            .write("mark_reports", "marking reports of clicks")
            .of(Class::Background);
        run!(call, |session| {
            session.begin().await?;
            let mut marked = 0;
            for rows in rows.chunks(LONGEST) {
                let update =
                    sql("UPDATE click_queue SET insert_id = ? WHERE insert_id IS NULL AND id IN ");
                marked += session.execute(update.bind(insert_id).list(rows)).await?;
            }
            if marked != rows.len() as u64 {
                return Err(Fault::Contended);
            }
            session.commit(rows.len()).await
        })
    }

    /// Removes the rows of a completed insert, and adds to the totals of links and to the orphan visits of tenants and
    /// days (unix time / 86400). Does nothing if they were removed before.
    pub async fn settle_insert(
        &self,
        insert_id: u64,
        rows: &[u64],
        totals: &[(u64, Tally)],
        orphan_days: &[((u32, u64), u64)],
    ) -> Result<(), StoreError> {
        let call = self
            .write("settle_insert", "removing reports of clicks")
            .of(Class::Background);
        run!(call, |session| {
            session.begin().await?;
            ClickState::lock(session).await?;
            let mut removed = 0;
            for rows in rows.chunks(LONGEST) {
                let delete = sql("DELETE FROM click_queue WHERE insert_id = ? AND id IN ");
                removed += session.execute(delete.bind(insert_id).list(rows)).await?;
            }
            if removed > 0 {
                totals::add(session, totals).await?;
                for ((tenant_id, day), visits) in orphan_days {
                    orphans::add(session, *tenant_id, *day, *visits).await?;
                }
            }
            session.commit(rows.len()).await
        })
    }
}

/// Removes rows from the queue.
async fn take(session: &mut Session, rows: &[u64]) -> Result<(), Fault> {
    let mut taken = 0;
    for rows in rows.chunks(LONGEST) {
        let delete = sql("DELETE FROM click_queue WHERE id IN ").list(rows);
        taken += session.execute(delete).await?;
    }
    if taken == rows.len() as u64 {
        Ok(())
    } else {
        Err(Fault::Contended)
    }
}

async fn write_docs(
    session: &mut Session,
    write: &ClickWrite<'_>,
    state: &ClickState,
) -> Result<(), Fault> {
    for of_kind in write
        .docs
        .chunk_by(|(one, _), (other, _)| one.kind == other.kind)
    {
        let most = of_kind.first().map_or(1, |(key, _)| key.kind.part());
        for part in of_kind.chunks(most) {
            let hours = part.iter().map(|(key, added)| (*key, 0, added));
            add_to(
                session,
                &HOURS,
                &hours.collect::<Vec<_>>(),
                write.max_values,
            )
            .await?;
            // Hours of a day that already has rollups, or some of them: as clocks are bounded, only where a clock went back.
            // Rollups that are yet to be built are built from the hours alone.
            let until = state.days_until + u32::from(state.is_building);
            let late = part.iter().filter(|(key, _)| key.time / DAY_HOURS < until);
            let late = late.map(|(key, added)| {
                let hour = usize::try_from(key.time % DAY_HOURS).unwrap_or(0);
                let time = key.time / DAY_HOURS;
                (DocKey { time, ..*key }, hour, added)
            });
            add_to(session, &DAYS, &late.collect::<Vec<_>>(), write.max_values).await?;
        }
    }
    Ok(())
}

/// Adds to rollups, to a slot of each.
async fn add_to(
    session: &mut Session,
    table: &Docs,
    all: &[(DocKey, usize, &Added<'_>)],
    max_values: usize,
) -> Result<(), Fault> {
    if all.is_empty() {
        return Ok(());
    }
    let stored = table
        .read(session, all.iter().map(|(key, ..)| *key))
        .await?;
    let docs = aside(|| {
        let mut rollups: BTreeMap<DocKey, Rollup<'_>> = BTreeMap::new();
        for (key, slot, added) in all {
            let rollup = match rollups.entry(*key) {
                Entry::Occupied(entry) => entry.into_mut(),
                Entry::Vacant(entry) => entry.insert(decode(*key, stored.get(key), table.slots)?),
            };
            rollup.add(*slot, added, key.kind.bounds(max_values));
        }
        let encoded = rollups
            .into_iter()
            .map(|(key, rollup)| (key, rollup.encode()));
        Ok::<_, Fault>(encoded.collect::<Vec<_>>())
    })?;
    table.write(session, &docs).await
}
