//! Leases of issuers.

use super::relay::now;
use crate::store::sql::fault::Fault;
use crate::store::sql::issuers::{HolderRow, IssuerStatements};
use crate::store::sql::rows::Unsigned;
use crate::store::sql::session::Session;
use sqlx::{Sqlite, query, query_as, query_scalar};

impl IssuerStatements for Session<Sqlite> {
    async fn lease_issuer(
        &mut self,
        owner: &str,
        milliseconds: u64,
        limit: u64,
    ) -> Result<Option<u16>, Fault> {
        let query = query_scalar(concat!(
            "UPDATE issuers SET owner = ?, lease_until = ",
            now!(),
            " + ? WHERE issuer = (SELECT issuer FROM issuers WHERE (owner IS NULL OR lease_until <= ",
            now!(),
            ") AND next < ? ORDER BY next, issuer LIMIT 1) RETURNING issuer"
        ))
        .bind(owner)
        .bind(milliseconds.cast_signed())
        .bind(limit.cast_signed());
        self.about_to_last();
        self.run(|c| query.fetch_optional(c)).await
    }

    async fn renew_issuer(
        &mut self,
        issuer: u16,
        owner: &str,
        milliseconds: u64,
    ) -> Result<bool, Fault> {
        let query = query(concat!(
            "UPDATE issuers SET lease_until = ",
            now!(),
            " + ? WHERE issuer = ? AND owner = ?"
        ))
        .bind(milliseconds.cast_signed())
        .bind(issuer)
        .bind(owner);
        self.about_to_last();
        let done = self.run(|c| query.execute(c)).await?;
        Ok(done.rows_affected() > 0)
    }

    async fn release_issuer(&mut self, issuer: u16, owner: &str) -> Result<bool, Fault> {
        let query = query(
            "UPDATE issuers SET owner = NULL, lease_until = 0 WHERE issuer = ? AND owner = ?",
        )
        .bind(issuer)
        .bind(owner);
        self.about_to_last();
        let done = self.run(|c| query.execute(c)).await?;
        Ok(done.rows_affected() > 0)
    }

    async fn drawn_sequences(&mut self) -> Result<u64, Fault> {
        let query = query_scalar("SELECT SUM(next) FROM issuers");
        let drawn: Option<Unsigned> = self.run(|c| query.fetch_one(c)).await?;
        Ok(drawn.map_or(0, |drawn| drawn.0))
    }

    async fn issuer_holders(&mut self) -> Result<Vec<HolderRow>, Fault> {
        let query = query_as(concat!(
            "SELECT owner, COUNT(*) AS issuers, MIN(lease_until) - ",
            now!(),
            " AS ends_in_ms FROM issuers WHERE owner IS NOT NULL AND lease_until > ",
            now!(),
            " GROUP BY owner ORDER BY owner"
        ));
        self.run(|c| query.fetch_all(c)).await
    }
}
