//! The click queue: reports that are acknowledged, but not written yet. Reads begin behind its low-water mark: see
//! [`crate::low_water`].

use crate::ClickStore;
use bytes::Bytes;
use edgelink_database::classes::Class;
use edgelink_database::error::{Fault, StoreError};
use edgelink_database::run;
use edgelink_database::session::Session;
use edgelink_database::sql::{pieces, sized, sql};

/// The most rows that are read at once.
const MAX_ROWS: u64 = 1024;

/// A waiting report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueuedReport {
    /// Its number.
    pub id: u64,
    /// Time of receipt, in unix milliseconds.
    pub received_at: u64,
    /// Encoded batches that have not been counted before.
    pub body: Vec<u8>,
    /// The insert that it is part of; `None` if it has not been inserted yet.
    pub insert_id: Option<u64>,
}

impl ClickStore {
    /// The low-water mark: reports up to it are removed, except for reports of transactions that committed long after writing them.
    pub async fn queue_mark(&self) -> Result<u64, StoreError> {
        let call = self
            .read("queue_mark", "reading the mark of the click queue")
            .of(Class::Background);
        run!(call, |session| mark(session).await)
    }

    /// Raises the low-water mark to `to` if it is lower.
    pub async fn raise_queue_mark(&self, to: u64) -> Result<(), StoreError> {
        let call = self
            .write("raise_queue_mark", "raising the mark of the click queue")
            .of(Class::Background);
        run!(call, |session| {
            let raise =
                sql("UPDATE click_state SET queue_mark = ? WHERE id = 1 AND queue_mark < ?");
            session.autocommit(raise.bind(to).bind(to)).await.map(drop)
        })
    }

    /// Lowers the low-water mark below a row.
    pub async fn lower_queue_mark(&self, row: u64) -> Result<(), StoreError> {
        let call = self
            .write("lower_queue_mark", "lowering the mark of the click queue")
            .of(Class::Background);
        let to = row.saturating_sub(1);
        run!(call, |session| {
            let lower =
                sql("UPDATE click_state SET queue_mark = ? WHERE id = 1 AND queue_mark > ?");
            session.autocommit(lower.bind(to).bind(to)).await.map(drop)
        })
    }

    /// The reports that wait longest: as many as fit into `max_bytes`, and at least one. Reports of an insert stay together.
    pub async fn queued_reports(
        &self,
        max_rows: u64,
        max_bytes: u64,
    ) -> Result<Vec<QueuedReport>, StoreError> {
        let call = self
            .read("queued_reports", "reading reports of clicks")
            .of(Class::Background);
        run!(call, |session| {
            let index = session.dialect().force_index("click_queue_waiting");
            let query = sql(format!(
                "SELECT id, bytes, insert_id FROM click_queue{index} WHERE aside = 0 AND id > ? ORDER BY id LIMIT ?"
            ));
            let query = query.bind(mark(session).await?).bind(MAX_ROWS);
            let rows: Vec<(u64, u64, Option<u64>)> = session.fetch_all(query).await?;
            let most = usize::try_from(max_rows).unwrap_or(usize::MAX);
            let insert_of = |place: usize| rows.get(place).and_then(|(.., insert_id)| *insert_id);
            let mut room = max_bytes;
            let fits = |(place, (_, bytes, insert_id)): &(usize, &(u64, u64, Option<u64>))| {
                let before = place.checked_sub(1);
                let is_part = insert_id.is_some() && before.and_then(insert_of) == *insert_id;
                let has_room = is_part || *place == 0 || (*bytes <= room && *place < most);
                room = room.saturating_sub(*bytes);
                has_room
            };
            let fitting = rows.iter().enumerate().take_while(fits);
            let ids: Vec<u64> = fitting.map(|(_, (id, ..))| *id).collect();
            if ids.is_empty() {
                return Ok(Vec::new());
            }
            let index = session.dialect().force_index("PRIMARY");
            let query = sql(format!(
                "SELECT id, received_at, body, insert_id FROM click_queue{index} WHERE id IN "
            ));
            let mut rows: Vec<(u64, u64, Vec<u8>, Option<u64>)> =
                session.fetch_all(query.list(&ids)).await?;
            rows.sort_unstable_by_key(|(id, ..)| *id);
            let report = |(id, received_at, body, insert_id)| QueuedReport {
                id,
                received_at,
                body,
                insert_id,
            };
            Ok(rows.into_iter().map(report).collect())
        })
    }

    /// Quarantines a report that cannot be read: it is not read again.
    pub async fn set_report_aside(&self, id: u64) -> Result<(), StoreError> {
        let call = self
            .write("set_report_aside", "quarantining a report of clicks")
            .of(Class::Background);
        run!(call, |session| {
            let set = sql("UPDATE click_queue SET aside = 1 WHERE id = ?");
            session.autocommit(set.bind(id)).await.map(drop)
        })
    }

    /// Total bytes of the waiting reports.
    pub async fn queued_bytes(&self) -> Result<u64, StoreError> {
        let call = self
            .read("queued_bytes", "measuring reports of clicks")
            .of(Class::Clicks);
        run!(call, |session| {
            let index = session.dialect().force_index("click_queue_waiting");
            let query = sql(format!(
                "SELECT CAST(COALESCE(SUM(bytes), 0) AS UNSIGNED) AS bytes FROM click_queue{index} WHERE aside = 0 AND id > ?"
            ));
            let query = query.bind(mark(session).await?);
            let (bytes,): (u64,) = session.fetch_one(query).await?;
            Ok(bytes)
        })
    }

    /// Time of receipt of the oldest waiting report, in unix milliseconds. `None` if none waits.
    pub async fn oldest_report(&self) -> Result<Option<u64>, StoreError> {
        let call = self
            .read("oldest_report", "looking for the oldest report of clicks")
            .of(Class::Background);
        run!(call, |session| {
            let index = session.dialect().force_index("click_queue_waiting");
            let query = sql(format!(
                "SELECT received_at FROM click_queue{index} WHERE aside = 0 AND id > ? ORDER BY id LIMIT 1"
            ));
            let query = query.bind(mark(session).await?);
            let row: Option<(u64,)> = session.fetch_optional(query).await?;
            Ok(row.map(|(received_at,)| received_at))
        })
    }
}

/// The low-water mark.
async fn mark(session: &mut Session) -> Result<u64, Fault> {
    let query = sql("SELECT queue_mark FROM click_state WHERE id = 1");
    let (mark,): (u64,) = session.fetch_one(query).await?;
    Ok(mark)
}

/// Inserts reports, each with its time of receipt.
pub(crate) async fn insert_reports(
    session: &mut Session,
    reports: &[(u64, Bytes)],
) -> Result<(), Fault> {
    for part in sized(reports, |(_, body)| body.len()) {
        for part in pieces(part) {
            let rows = part.iter().map(|(received_at, body)| {
                [
                    (*received_at).into(),
                    (body.len() as u64).into(),
                    body.as_ref().into(),
                ]
            });
            let insert = sql("INSERT INTO click_queue (received_at, bytes, body) ");
            session.execute(insert.rows(rows)).await?;
        }
    }
    Ok(())
}
