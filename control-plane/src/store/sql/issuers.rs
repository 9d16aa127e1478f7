//! [`IssuerLeases`] over any database that has [`IssuerStatements`].

use super::fault::Fault;
use super::relay::text;
use super::rows::Unsigned;
use super::session::Session;
use super::statements::Statements;
use super::store::SqlStore;
use crate::store::{IssuerHolder, IssuerLeases, IssuerUsage, StoreError};
use async_trait::async_trait;
use sqlx::Database;

/// Somebody who holds issuers, as a query answers it.
#[derive(Debug, sqlx_macros::FromRow)]
pub(in crate::store) struct HolderRow {
    owner: Vec<u8>,
    issuers: Unsigned,
    ends_in_ms: Unsigned,
}

/// The statements that a database has to bring. Those that write last.
pub(in crate::store) trait IssuerStatements: Send {
    /// Takes the issuer that has drawn least of those that nobody holds, in one atomic statement.
    fn lease_issuer(
        &mut self,
        owner: &str,
        milliseconds: u64,
        limit: u64,
    ) -> impl Future<Output = Result<Option<u16>, Fault>> + Send;

    /// Moves the end of a lease.
    fn renew_issuer(
        &mut self,
        issuer: u16,
        owner: &str,
        milliseconds: u64,
    ) -> impl Future<Output = Result<bool, Fault>> + Send;

    /// Ends a lease.
    fn release_issuer(
        &mut self,
        issuer: u16,
        owner: &str,
    ) -> impl Future<Output = Result<bool, Fault>> + Send;

    /// The sum of what is drawn.
    fn drawn_sequences(&mut self) -> impl Future<Output = Result<u64, Fault>> + Send;

    /// Who holds leases that have not run out, by name.
    fn issuer_holders(&mut self) -> impl Future<Output = Result<Vec<HolderRow>, Fault>> + Send;
}

#[async_trait]
impl<DB: Database> IssuerLeases for SqlStore<DB>
where
    Session<DB>: Statements,
{
    async fn lease_issuer(
        &self,
        owner: &str,
        milliseconds: u64,
        limit: u64,
    ) -> Result<Option<u16>, StoreError> {
        self.connections()
            .write("leasing an issuer", |mut session| async move {
                let leased = session.lease_issuer(owner, milliseconds, limit).await;
                (leased, session)
            })
            .await
    }

    async fn renew_issuer(
        &self,
        issuer: u16,
        owner: &str,
        milliseconds: u64,
    ) -> Result<bool, StoreError> {
        self.connections()
            .write(
                "renewing the lease of an issuer",
                |mut session| async move {
                    let renewed = session.renew_issuer(issuer, owner, milliseconds).await;
                    (renewed, session)
                },
            )
            .await
    }

    async fn release_issuer(&self, issuer: u16, owner: &str) -> Result<bool, StoreError> {
        self.connections()
            .write("giving back an issuer", |mut session| async move {
                (session.release_issuer(issuer, owner).await, session)
            })
            .await
    }

    async fn issuer_usage(&self) -> Result<IssuerUsage, StoreError> {
        self.connections()
            .read("looking at the issuers", |mut session| async move {
                (usage(&mut session).await, session)
            })
            .await
    }
}

async fn usage<S: Statements>(session: &mut S) -> Result<IssuerUsage, Fault> {
    let drawn = session.drawn_sequences().await?;
    let holders = session.issuer_holders().await?;
    Ok(IssuerUsage {
        drawn,
        holders: holders.into_iter().map(holder).collect::<Result<_, _>>()?,
    })
}

fn holder(row: HolderRow) -> Result<IssuerHolder, Fault> {
    Ok(IssuerHolder {
        owner: text(row.owner)?,
        issuers: row.issuers.0,
        ends_in_ms: row.ends_in_ms.0,
    })
}
