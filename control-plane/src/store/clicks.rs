//! Counts clicks.

use super::calls::{Store, run};
use super::error::{Fault, StoreError};
use super::session::Session;
use super::sql::{pieces, sql};
use edgelink_wire::clicks::WorkerId;
use std::collections::BTreeMap;

const MINUTE_MILLIS: u64 = 60_000;

impl Store {
    /// Counts batches in one transaction, except those counted before; how many were new.
    pub async fn count_clicks(&self, batches: &[CountedBatch]) -> Result<usize, StoreError> {
        run!(self.write("count_clicks", "counting clicks"), |session| {
            count(session, batches).await
        })
    }

    /// The keys of the links followed most since `minute` (unix time / 60), the hottest first.
    pub async fn hot_keys(&self, minute: u64, limit: u32) -> Result<Vec<String>, StoreError> {
        run!(self.read("hot_keys", "finding the hot links"), |session| {
            let query = sql(
                "SELECT link_key FROM click_minutes WHERE minute >= ? GROUP BY link_key \
                 ORDER BY SUM(clicks) DESC, link_key LIMIT ?",
            );
            let rows: Vec<(Vec<u8>,)> = session.fetch_all(query.bind(minute).bind(limit)).await?;
            rows.into_iter()
                .map(|(key,)| String::from_utf8(key).map_err(|error| Fault::corrupt("key", &error)))
                .collect()
        })
    }

    /// What became of all clicks.
    pub async fn click_accounts(&self) -> Result<ClickAccounts, StoreError> {
        let call = self.read("click_accounts", "summing up clicks");
        run!(call, |session| {
            let query = sql("SELECT CAST(COALESCE(SUM(sent), 0) AS UNSIGNED) AS sent, \
             CAST(COALESCE(SUM(counted), 0) AS UNSIGNED) AS counted, \
             CAST(COALESCE(SUM(dropped), 0) AS UNSIGNED) AS dropped FROM click_workers");
            session.fetch_one(query).await
        })
    }

    /// Removes up to `limit` rows each of minutes more than `minutes` ago, and of batches received more than
    /// `batch_minutes` ago, by the database's clock; how many there were.
    pub async fn purge_clicks(
        &self,
        minutes: u64,
        batch_minutes: u64,
        limit: u32,
    ) -> Result<u64, StoreError> {
        let now = self.now().await? / MINUTE_MILLIS;
        let minute = now.saturating_sub(minutes);
        let received_at = now.saturating_sub(batch_minutes) * MINUTE_MILLIS;
        let call = self.write("purge_clicks", "removing old clicks");
        run!(call, |session| {
            let dialect = session.dialect();
            let old = "minute < ? ORDER BY minute";
            let old = dialect.delete_some("click_minutes", "minute, link_key", old);
            let minutes = session
                .autocommit(sql(old).bind(minute).bind(limit))
                .await?;
            let old = "received_at < ? ORDER BY received_at";
            let old = dialect.delete_some("click_batches", "worker, seq", old);
            Ok(minutes
                + session
                    .autocommit(sql(old).bind(received_at).bind(limit))
                    .await?)
        })
    }
}

/// A batch of clicks as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CountedBatch {
    /// The worker that counted.
    pub worker: WorkerId,
    /// Grows with every batch of the worker.
    pub seq: u64,
    /// All clicks of the worker so far.
    pub sent: u64,
    /// All clicks that the worker has dropped.
    pub dropped: u64,
    /// The minute (unix time / 60) that the clicks belong to.
    pub minute: u64,
    /// When it came in: unix time in milliseconds.
    pub received_at: u64,
    /// Keys and clicks.
    pub clicks: Vec<(String, u64)>,
}

/// What became of all clicks: `sent = counted + dropped + what is under way`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, sqlx_macros::FromRow)]
pub struct ClickAccounts {
    /// How many clicks workers report.
    pub sent: u64,
    /// How many are counted.
    pub counted: u64,
    /// How many workers have dropped.
    pub dropped: u64,
}

async fn count(session: &mut Session, batches: &[CountedBatch]) -> Result<usize, Fault> {
    session.begin().await?;
    let mut new = Vec::new();
    for batch in in_order(batches) {
        if note(session, batch).await? {
            add_to_accounts(session, batch).await?;
            new.push(batch);
        }
    }
    let minutes: Vec<((u64, &str), u64)> = by_minute(&new).into_iter().collect();
    for rows in pieces(&minutes) {
        let update = session.dialect().on_duplicate("minute, link_key");
        let clicks = session.dialect().inserted("clicks");
        let rows = rows
            .iter()
            .map(|((minute, key), clicks)| [(*minute).into(), (*key).into(), (*clicks).into()]);
        let add = sql("INSERT INTO click_minutes (minute, link_key, clicks) ")
            .rows(rows)
            .push(&format!("{update} clicks = clicks + {clicks}"));
        session.execute(add).await?;
    }
    add_to_totals(session, &new).await?;
    session.commit(1).await?;
    Ok(new.len())
}

/// Adds to the totals of links.
async fn add_to_totals(session: &mut Session, batches: &[&CountedBatch]) -> Result<(), Fault> {
    let totals: Vec<(&str, u64)> = by_link(batches).into_iter().collect();
    for rows in pieces(&totals) {
        let update = session.dialect().on_duplicate("link_key");
        let clicks = session.dialect().inserted("clicks");
        let rows = rows
            .iter()
            .map(|(key, clicks)| [(*key).into(), (*clicks).into()]);
        let add = sql("INSERT INTO click_totals (link_key, clicks) ")
            .rows(rows)
            .push(&format!("{update} clicks = clicks + {clicks}"));
        session.execute(add).await?;
    }
    Ok(())
}

/// Transactions that touch the same rows in the same order do not deadlock.
fn in_order(batches: &[CountedBatch]) -> Vec<&CountedBatch> {
    let mut batches: Vec<&CountedBatch> = batches.iter().collect();
    batches.sort_unstable_by_key(|batch| (batch.worker, batch.seq));
    batches
}

/// Notes a batch; `false` if it was noted before.
async fn note(session: &mut Session, batch: &CountedBatch) -> Result<bool, Fault> {
    let insert_ignore = session.dialect().insert_ignore;
    let note = sql(format!(
        "{insert_ignore} click_batches (worker, seq, received_at) VALUES (?, ?, ?)"
    ));
    let worker = batch.worker.as_slice();
    let note = note.bind(worker).bind(batch.seq).bind(batch.received_at);
    Ok(session.execute(note).await? > 0)
}

/// Adds to the accounts of the batch's worker.
async fn add_to_accounts(session: &mut Session, batch: &CountedBatch) -> Result<(), Fault> {
    let dialect = session.dialect();
    let greatest = dialect.greatest;
    let update = dialect.on_duplicate("worker");
    let [sent, dropped, counted, seen_at] =
        ["sent", "dropped", "counted", "seen_at"].map(|column| dialect.inserted(column));
    let clicks = batch.clicks.iter().map(|(_, clicks)| *clicks);
    let add = sql("INSERT INTO click_workers (worker, sent, dropped, counted, seen_at) ")
        .rows([[
            batch.worker.as_slice().into(),
            batch.sent.into(),
            batch.dropped.into(),
            clicks.fold(0, u64::saturating_add).into(),
            batch.received_at.into(),
        ]])
        .push(&format!(
            "{update} sent = {greatest}(sent, {sent}), dropped = {greatest}(dropped, {dropped}), \
             counted = counted + {counted}, seen_at = {seen_at}"
        ));
    session.execute(add).await.map(drop)
}

fn by_minute<'a>(batches: &[&'a CountedBatch]) -> BTreeMap<(u64, &'a str), u64> {
    let mut sums = BTreeMap::new();
    for batch in batches {
        for (key, clicks) in &batch.clicks {
            let sum: &mut u64 = sums.entry((batch.minute, key.as_str())).or_default();
            *sum = sum.saturating_add(*clicks);
        }
    }
    sums
}

fn by_link<'a>(batches: &[&'a CountedBatch]) -> BTreeMap<&'a str, u64> {
    let mut sums = BTreeMap::new();
    for (key, clicks) in batches.iter().flat_map(|batch| &batch.clicks) {
        let sum: &mut u64 = sums.entry(key.as_str()).or_default();
        *sum = sum.saturating_add(*clicks);
    }
    sums
}
