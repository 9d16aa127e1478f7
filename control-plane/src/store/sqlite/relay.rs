//! The relay's statements in the dialect of SQLite.

use crate::store::sql::fault::Fault;
use crate::store::sql::relay::{Announcements, BoundRow, RelayStatements, ScannedRow};
use crate::store::sql::session::Session;
use crate::store::{BOUND_LEAD_MS, MAX_LEASE_MS};
use sqlx::{Sqlite, query, query_as};

/// The database's clock: unix time in milliseconds.
macro_rules! now {
    () => {
        "CAST(unixepoch('subsec') * 1000 AS INTEGER)"
    };
}
pub(super) use now;

impl RelayStatements for Session<Sqlite> {
    async fn announce(&mut self, changes: &Announcements, now: u64) -> Result<(), Fault> {
        for batch in changes.batches() {
            let query =
                query("INSERT INTO outbox (link_keys, records, created_at) VALUES (?, ?, ?)")
                    .bind(batch.keys.as_bytes())
                    .bind(batch.records.as_bytes())
                    .bind(now.cast_signed());
            self.run(|c| query.execute(c)).await?;
        }
        Ok(())
    }

    async fn take_lease(
        &mut self,
        name: &str,
        owner: &str,
        milliseconds: u64,
    ) -> Result<bool, Fault> {
        let query = query(concat!(
            "UPDATE leases SET owner = ?, lease_until = ",
            now!(),
            " + ? WHERE name = ? AND (owner = ? OR lease_until <= ",
            now!(),
            " OR lease_until > ",
            now!(),
            " + ?)"
        ))
        .bind(owner)
        .bind(milliseconds.cast_signed())
        .bind(name)
        .bind(owner)
        .bind(MAX_LEASE_MS.cast_signed());
        self.about_to_last();
        let done = self.run(|c| query.execute(c)).await?;
        Ok(done.rows_affected() > 0)
    }

    async fn release_lease(&mut self, name: &str, owner: &str) -> Result<(), Fault> {
        let query = query("UPDATE leases SET lease_until = 0 WHERE name = ? AND owner = ?")
            .bind(name)
            .bind(owner);
        self.about_to_last();
        self.run(|c| query.execute(c)).await?;
        Ok(())
    }

    async fn bound_state(&mut self) -> Result<BoundRow, Fault> {
        // Published in the future: by a clock that was ahead. Then it is to be marked again.
        let query = query_as(concat!(
            "SELECT (SELECT MAX(next) * 1000 FROM issuers) AS allocated, bound, \
             published_at IS NOT NULL AND published_at <= ",
            now!(),
            " AS is_published FROM bounds ORDER BY bound DESC LIMIT 1"
        ));
        self.run(|c| query.fetch_one(c)).await
    }

    async fn add_bound(&mut self, bound: u64) -> Result<(), Fault> {
        let query = query("INSERT INTO bounds (bound) VALUES (?) ON CONFLICT DO NOTHING")
            .bind(bound.cast_signed());
        self.about_to_last();
        self.run(|c| query.execute(c)).await?;
        Ok(())
    }

    async fn mark_bound_published(&mut self, bound: u64) -> Result<(), Fault> {
        let mark = query(concat!(
            "UPDATE bounds SET published_at = ",
            now!(),
            " WHERE bound = ? AND (published_at IS NULL OR published_at > ",
            now!(),
            ")"
        ))
        .bind(bound.cast_signed());
        self.about_to_last();
        self.run(|c| mark.execute(c)).await?;
        let forget = query(concat!(
            "DELETE FROM bounds WHERE bound < (SELECT MAX(bound) FROM bounds WHERE published_at + ? <= ",
            now!(),
            ")"
        ))
        .bind(BOUND_LEAD_MS.cast_signed());
        self.run(|c| forget.execute(c)).await?;
        Ok(())
    }

    async fn scan_keys(
        &mut self,
        after: Option<u64>,
        limit: u32,
    ) -> Result<Vec<ScannedRow>, Fault> {
        let query = query_as(
            "SELECT l.id, d.name AS domain, l.code FROM links l JOIN domains d ON d.id = l.domain_id \
             WHERE l.id >= ? ORDER BY l.id LIMIT ?",
        )
        .bind(after.map_or(0, |after| after.saturating_add(1).cast_signed()))
        .bind(limit);
        self.run(|c| query.fetch_all(c)).await
    }
}
