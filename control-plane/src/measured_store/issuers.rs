//! Leases of issuers, measured.

use super::{MeasuredStore, measured};
use crate::store::{IssuerLeases, IssuerUsage, StoreError};
use async_trait::async_trait;

#[async_trait]
impl IssuerLeases for MeasuredStore {
    async fn lease_issuer(
        &self,
        owner: &str,
        milliseconds: u64,
        limit: u64,
    ) -> Result<Option<u16>, StoreError> {
        let call = self.0.lease_issuer(owner, milliseconds, limit);
        measured("lease_issuer", call).await
    }

    async fn renew_issuer(
        &self,
        issuer: u16,
        owner: &str,
        milliseconds: u64,
    ) -> Result<bool, StoreError> {
        let call = self.0.renew_issuer(issuer, owner, milliseconds);
        measured("renew_issuer", call).await
    }

    async fn release_issuer(&self, issuer: u16, owner: &str) -> Result<bool, StoreError> {
        measured("release_issuer", self.0.release_issuer(issuer, owner)).await
    }

    async fn issuer_usage(&self) -> Result<IssuerUsage, StoreError> {
        measured("issuer_usage", self.0.issuer_usage()).await
    }
}
