//! Writes the clicks of reports, and removes these from the queue: in one transaction.

use super::docs::{DAYS, DocKey, HOURS, decode};
use super::orphans::{self, NewOrphan};
use super::raw::{self, NewRaw};
use super::state::State;
use super::totals;
use crate::analytics::rollup::{Rollup, Tally};
use crate::store::calls::{Store, run};
use crate::store::error::{Fault, StoreError};
use crate::store::session::Session;
use crate::store::sql::{LONGEST, sql};
use std::collections::HashMap;
use std::collections::hash_map::Entry;

const DAY_HOURS: u32 = 24;

/// Clicks that are written together.
#[derive(Debug, Default)]
pub struct ClickWrite<'a> {
    /// The rows of the queue that they were in.
    pub rows: &'a [u64],
    /// By hour.
    pub docs: Vec<(DocKey, Rollup<'a>)>,
    /// By link.
    pub totals: Vec<(u64, Tally)>,
    /// One by one.
    pub raw: Vec<NewRaw<'a>>,
    /// Visits that led to no link.
    pub orphans: Vec<NewOrphan<'a>>,
    /// The most values of an attribute in a rollup.
    pub max_values: usize,
    /// The most orphan visits of a tenant that are kept of a day.
    pub max_orphans: u64,
}

impl Store {
    /// Writes clicks, all of them or none. A transient error, and nothing is written, if one of their rows is not in the queue any more.
    pub async fn write_clicks(&self, write: &ClickWrite<'_>) -> Result<(), StoreError> {
        let call = self.write("write_clicks", "writing clicks");
        run!(call, |session| {
            session.begin().await?;
            let state = State::lock(session).await?;
            take(session, write.rows).await?;
            write_docs(session, write, state.days_until).await?;
            totals::add(session, &write.totals).await?;
            let number = raw::insert(session, &write.raw, state.number).await?;
            let number =
                orphans::insert(session, &write.orphans, write.max_orphans, number).await?;
            let update = "UPDATE click_state SET writes = writes + 1, number = ? WHERE id = 1";
            session.execute(sql(update).bind(number)).await?;
            session.commit(write.docs.len() + write.raw.len()).await
        })
    }
}

impl Store {
    /// Marks rows of the queue as those of an insert outside of this database, all of them or none. A transient error if one of them is
    /// marked, or not in the queue any more.
    pub async fn mark_reports(&self, rows: &[u64], insert_id: u64) -> Result<(), StoreError> {
        let call = self.write("mark_reports", "marking reports of clicks");
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

    /// Removes the rows of an insert that has come to its end, and adds to the totals of links. Nothing happens if they were removed before.
    pub async fn settle_insert(
        &self,
        insert_id: u64,
        rows: &[u64],
        totals: &[(u64, Tally)],
    ) -> Result<(), StoreError> {
        let call = self.write("settle_insert", "removing reports of clicks");
        run!(call, |session| {
            session.begin().await?;
            State::lock(session).await?;
            let mut removed = 0;
            for rows in rows.chunks(LONGEST) {
                let delete = sql("DELETE FROM click_queue WHERE insert_id = ? AND id IN ");
                removed += session.execute(delete.bind(insert_id).list(rows)).await?;
            }
            if removed > 0 {
                totals::add(session, totals).await?;
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
    match taken == rows.len() as u64 {
        true => Ok(()),
        false => Err(Fault::Contended),
    }
}

async fn write_docs(
    session: &mut Session,
    write: &ClickWrite<'_>,
    days_until: u32,
) -> Result<(), Fault> {
    let stored = HOURS
        .read(session, write.docs.iter().map(|(key, _)| *key))
        .await?;
    let mut docs = Vec::with_capacity(write.docs.len());
    for (key, added) in &write.docs {
        let mut rollup = decode(*key, stored.get(key), HOURS.slots)?;
        rollup.merge(added, write.max_values);
        docs.push((*key, rollup.encode()));
    }
    HOURS.write(session, &docs).await?;
    // Hours of a day that has its rollups already: as clocks are bounded, only where a clock went back.
    let late = |key: &DocKey| key.time / DAY_HOURS < days_until;
    let late: Vec<_> = write.docs.iter().filter(|(key, _)| late(key)).collect();
    if late.is_empty() {
        return Ok(());
    }
    let day_of = |key: &DocKey| DocKey {
        time: key.time / DAY_HOURS,
        ..*key
    };
    let stored = DAYS
        .read(session, late.iter().map(|(key, _)| day_of(key)))
        .await?;
    let mut days: HashMap<DocKey, Rollup<'_>> = HashMap::new();
    for (key, added) in late {
        let day = day_of(key);
        if let Entry::Vacant(place) = days.entry(day) {
            place.insert(decode(day, stored.get(&day), DAYS.slots)?);
        }
        if let Some(rollup) = days.get_mut(&day) {
            let hour = usize::try_from(key.time % DAY_HOURS).unwrap_or(0);
            rollup.merge_hour(hour, added, write.max_values);
        }
    }
    let encode = |(key, rollup): (DocKey, Rollup<'_>)| (key, rollup.encode());
    let docs: Vec<_> = days.into_iter().map(encode).collect();
    DAYS.write(session, &docs).await
}
