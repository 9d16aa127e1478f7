//! Leases of issuers, so that instances draw from rows of their own.

use super::StoreError;
use async_trait::async_trait;

/// How many issuers there are: 0 to 999.
pub const ISSUERS: u16 = 1000;

/// The leases of issuers. Times are those of the database's clock.
///
/// A lease keeps instances out of each other's way. That no number is issued twice does not depend on it: a segment once
/// drawn is nobody else's, whoever holds the lease by then.
#[async_trait]
pub trait IssuerLeases {
    /// Leases, of the issuers that nobody holds, the one that has drawn least, if that is less than `limit` sequences.
    async fn lease_issuer(
        &self,
        owner: &str,
        milliseconds: u64,
        limit: u64,
    ) -> Result<Option<u16>, StoreError>;

    /// Renews a lease. `false` where it was lost: it ran out and somebody else has the issuer.
    async fn renew_issuer(
        &self,
        issuer: u16,
        owner: &str,
        milliseconds: u64,
    ) -> Result<bool, StoreError>;

    /// Gives an issuer back before its time. `false` where `owner` does not hold it.
    async fn release_issuer(&self, issuer: u16, owner: &str) -> Result<bool, StoreError>;

    /// Who holds what, and how much is used.
    async fn issuer_usage(&self) -> Result<IssuerUsage, StoreError>;
}

/// How the issuers are used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IssuerUsage {
    /// Sequences drawn, of all issuers together.
    pub drawn: u64,
    /// Who holds issuers now, by name.
    pub holders: Vec<IssuerHolder>,
}

/// Somebody who holds issuers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IssuerHolder {
    /// The name that the leases were taken under.
    pub owner: String,
    /// How many issuers they hold.
    pub issuers: u64,
    /// In how many milliseconds the first of their leases ends, unless it is renewed.
    pub ends_in_ms: u64,
}

impl IssuerUsage {
    /// How many issuers are held.
    #[must_use]
    pub fn held(&self) -> u64 {
        self.holders.iter().map(|holder| holder.issuers).sum()
    }
}
