//! Issuers: rows from which instances draw segments of numbers, each from one that it has leased.
//!
//! Times are by the database's clock. A lease keeps instances from contending. The uniqueness of numbers
//! does not depend on it: a segment is drawn once, whichever instance holds the lease at that time.

use super::bounds::BOUND_LEAD_MILLIS;
use crate::Store;
use edgelink_database::classes::Class;
use edgelink_database::error::{Fault, StoreError};
use edgelink_database::run;
use edgelink_database::sql::sql;
use std::collections::BTreeMap;

/// Number of issuers: 0 to 999.
pub const ISSUERS: u16 = 1000;

impl Store {
    /// Draws the next `step` sequences of `issuer`, permanently. Their numbers are below a bound that was
    /// published at least [`BOUND_LEAD_MILLIS`] ago; `None` if they would not be, until the publisher has raised the
    /// bound. It fails if the database went back behind the state that this process has read, until the publisher has
    /// repaired it.
    pub async fn draw_segment(
        &self,
        issuer: u16,
        step: u32,
    ) -> Result<Option<Segment>, StoreError> {
        let (context, token) = ("drawing a segment", self.newest.token());
        let drawn = run!(
            self.write("draw_segment", context).of(Class::Control),
            |session| {
                if issuer >= ISSUERS {
                    return Err(Fault::Refused(format!("there is no issuer {issuer}")));
                }
                let dialect = session.dialect();
                let now = dialect.now_millis;
                let (next, returning) = if dialect.has_returning() {
                    ("next + ?", " RETURNING next")
                } else {
                    ("LAST_INSERT_ID(next + ?)", "")
                };
                let draw = sql(format!(
                    "UPDATE issuers SET next = {next} WHERE issuer = ? AND (next + ?) * 1000 <= \
                 (SELECT MAX(bound) FROM bounds WHERE published_at + ? <= {now}) \
                 AND (SELECT token FROM publisher WHERE id = 1) >= ?{returning}"
                ));
                let draw = draw
                    .bind(step)
                    .bind(issuer)
                    .bind(step)
                    .bind(BOUND_LEAD_MILLIS)
                    .bind(token);
                let end = session.autocommit_answering(draw).await?;
                Ok(end.map(|end| Segment {
                    issuer,
                    start: end - u64::from(step),
                    end,
                }))
            }
        )?;
        if drawn.is_none() {
            self.check_token(context, token).await?;
        }
        Ok(drawn)
    }

    /// Returns the unused rest of a segment. `false` if another process has drawn since, or the database went back: the
    /// rest is lost then. After an error the call must not be repeated: the rest may have been returned and drawn again.
    pub async fn return_segment(&self, rest: Segment) -> Result<bool, StoreError> {
        let token = self.newest.token();
        let call = self
            .write("return_segment", "returning a segment")
            .of(Class::Control);
        run!(call, |session| {
            let back = sql("UPDATE issuers SET next = ? WHERE issuer = ? AND next = ? \
                 AND (SELECT token FROM publisher WHERE id = 1) >= ?");
            let back = back
                .bind(rest.start)
                .bind(rest.issuer)
                .bind(rest.end)
                .bind(token);
            Ok(session.autocommit(back).await? > 0)
        })
    }

    /// Prevents these numbers, and lower ones of the same issuers, from being drawn.
    pub async fn reserve_numbers(&self, numbers: &[u64]) -> Result<(), StoreError> {
        let mut ends: BTreeMap<u64, u64> = BTreeMap::new();
        for number in numbers {
            let end = ends.entry(number % u64::from(ISSUERS)).or_default();
            *end = (number / u64::from(ISSUERS) + 1).max(*end);
        }
        let call = self
            .write("reserve_numbers", "reserving numbers")
            .of(Class::Creations);
        run!(call, |session| {
            for (issuer, end) in &ends {
                let reserve = sql("UPDATE issuers SET next = ? WHERE issuer = ? AND next < ?");
                let reserve = reserve.bind(*end).bind(*issuer).bind(*end);
                session.autocommit(reserve).await?;
            }
            Ok(())
        })
    }

    /// Leases the free issuer with the fewest sequences drawn, if that is less than `limit`; `None` if there is none.
    pub async fn lease_issuer(
        &self,
        owner: &str,
        duration_millis: u64,
        limit: u64,
    ) -> Result<Option<u16>, StoreError> {
        run!(
            self.write("lease_issuer", "leasing an issuer")
                .of(Class::Control),
            |session| {
                let dialect = session.dialect();
                let now = dialect.now_millis;
                let free = format!(
                    "(owner IS NULL OR lease_until <= {now}) AND next < ? ORDER BY next, issuer LIMIT 1"
                );
                let set = format!("UPDATE issuers SET owner = ?, lease_until = {now} + ?");
                let lease = sql(if dialect.has_returning() {
                    format!(
                        "{set} WHERE issuer = (SELECT issuer FROM issuers WHERE {free}) RETURNING issuer"
                    )
                } else {
                    // LAST_INSERT_ID(issuer) makes an UPDATE report the updated row.
                    format!("{set}, issuer = LAST_INSERT_ID(issuer) WHERE {free}")
                });
                let lease = lease.bind(owner).bind(duration_millis).bind(limit);
                let issuer = session.autocommit_answering(lease).await?;
                let issuer = issuer.map(u16::try_from).transpose();
                issuer.map_err(|error| Fault::corrupt("issuer", &error))
            }
        )
    }

    /// Renews a lease. `false` if it expired and another owner has the issuer.
    pub async fn renew_issuer(
        &self,
        issuer: u16,
        owner: &str,
        duration_millis: u64,
    ) -> Result<bool, StoreError> {
        let call = self
            .write("renew_issuer", "renewing the lease of an issuer")
            .of(Class::Control);
        run!(call, |session| {
            let now = session.dialect().now_millis;
            let renew = sql(format!(
                "UPDATE issuers SET lease_until = {now} + ? WHERE issuer = ? AND owner = ?"
            ));
            let renew = renew.bind(duration_millis).bind(issuer).bind(owner);
            Ok(session.autocommit(renew).await? > 0)
        })
    }

    /// Releases an issuer before its lease expires. `false` if `owner` does not hold it.
    pub async fn release_issuer(&self, issuer: u16, owner: &str) -> Result<bool, StoreError> {
        let call = self
            .write("release_issuer", "releasing an issuer")
            .of(Class::Control);
        run!(call, |session| {
            let release = sql(
                "UPDATE issuers SET owner = NULL, lease_until = 0 WHERE issuer = ? AND owner = ?",
            );
            Ok(session.autocommit(release.bind(issuer).bind(owner)).await? > 0)
        })
    }

    /// The holders of issuers, and the sequences drawn.
    pub async fn issuer_usage(&self) -> Result<IssuerUsage, StoreError> {
        let call = self
            .read("issuer_usage", "reading the usage of issuers")
            .of(Class::Control);
        run!(call, |session| {
            let now = session.dialect().now_millis;
            let drawn = sql("SELECT CAST(SUM(next) AS UNSIGNED) FROM issuers");
            let (drawn,): (Option<u64>,) = session.fetch_one(drawn).await?;
            let holders = sql(format!(
                "SELECT CAST(owner AS CHAR) AS owner, CAST(COUNT(*) AS UNSIGNED) AS issuers, \
             CAST(MIN(lease_until) - {now} AS UNSIGNED) AS ends_in_ms FROM issuers \
             WHERE owner IS NOT NULL AND lease_until > {now} GROUP BY issuers.owner ORDER BY issuers.owner"
            ));
            Ok(IssuerUsage {
                drawn: drawn.unwrap_or(0),
                holders: session.fetch_all(holders).await?,
            })
        })
    }
}

/// Consecutive sequences of one issuer: `number = sequence * 1000 + issuer`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// 0..=999.
    pub issuer: u16,
    /// The first sequence.
    pub start: u64,
    /// The end, exclusive.
    pub end: u64,
}

/// Usage of the issuers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IssuerUsage {
    /// Sequences drawn, of all issuers together.
    pub drawn: u64,
    /// The holders of issuers, by name.
    pub holders: Vec<IssuerHolder>,
}

/// An owner of leases.
#[derive(Clone, Debug, PartialEq, Eq, sqlx_macros::FromRow)]
pub struct IssuerHolder {
    /// The name under which the leases were taken.
    pub owner: String,
    /// Number of issuers held.
    pub issuers: u64,
    /// Milliseconds until the first of its leases expires, unless renewed.
    #[sqlx(rename = "ends_in_ms")]
    pub ends_in_millis: u64,
}

impl IssuerUsage {
    /// Number of issuers held by anyone.
    #[must_use]
    pub fn held(&self) -> u64 {
        self.holders.iter().map(|holder| holder.issuers).sum()
    }
}
