//! Rechecks the TXT records of verified domains, in the process that has the lease: a name that has lapsed and was registered by
//! another owner must not stay with the tenant that once had it.

use edgelink_model::tenancy::FIRST_TENANT;
use edgelink_settings::config::DomainsConfig;
use edgelink_settings::domains::model::DomainPatch;
use edgelink_settings::domains::{Verification, Verifier};
use edgelink_store::lease::NamedLease;
use edgelink_store::{Actor, ChangedDomain, Store, StoreError, WatchedDomain};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Name of the lease, as in the migrations.
const LEASE: &str = "domains";

/// Duration of the lease.
const LEASE_TIME: Duration = Duration::from_secs(30);

/// Number of domains checked in a turn.
const BATCH: u32 = 50;

/// The pauses between turns.
const PAUSE: std::ops::RangeInclusive<Duration> =
    Duration::from_millis(250)..=Duration::from_mins(10);

/// Looks up the records of verified domains in the DNS, each once in `domains.recheck_seconds`.
pub struct Rechecker {
    store: Arc<Store>,
    verifier: Verifier,
    settings: DomainsConfig,
    lease: NamedLease,
}

impl Rechecker {
    /// A rechecker that holds the lease under a name of its own; `None` if domains are not rechecked.
    pub fn new(store: Arc<Store>, settings: &DomainsConfig) -> Option<Self> {
        (!settings.recheck_seconds.is_zero()).then(|| Self {
            lease: NamedLease::new(Arc::clone(&store), LEASE, LEASE_TIME),
            verifier: Verifier::new(settings),
            settings: settings.clone(),
            store,
        })
    }

    /// Takes turns until `stop`.
    pub async fn run(mut self, stop: CancellationToken) {
        let pause = (self.settings.recheck_seconds / 4).clamp(*PAUSE.start(), *PAUSE.end());
        loop {
            tokio::select! {
                () = stop.cancelled() => break,
                () = tokio::time::sleep(pause) => {}
            }
            if let Err(error) = self.take_turn().await {
                tracing::warn!(%error, "failed to recheck domain records; retrying next turn");
            }
        }
        if let Err(error) = self.lease.release().await {
            tracing::warn!(%error, "failed to release the domains lease; it will expire");
        }
    }

    async fn take_turn(&mut self) -> Result<(), StoreError> {
        let due = self.settings.recheck_seconds;
        if !self.lease.hold().await? {
            return Ok(());
        }
        for watched in self.store.domains_to_recheck(due, BATCH).await? {
            if !self.lease.hold().await? {
                break;
            }
            self.check(&watched).await?;
        }
        Ok(())
    }

    async fn check(&self, watched: &WatchedDomain) -> Result<(), StoreError> {
        let WatchedDomain { domain, token, .. } = watched;
        let is_there = match self.verifier.verify(domain, token).await {
            Verification::Verified => Some(true),
            Verification::NotFound => Some(false),
            // This says nothing about the owner, but other domains come first before this one is looked up again.
            Verification::NoAnswer => None,
        };
        self.store
            .note_domain_record(domain, token, is_there)
            .await?;
        let (limit, missing) = (self.settings.missing_seconds, watched.missing);
        if is_there != Some(false) {
            return Ok(());
        }
        if missing.is_some_and(|missing| missing >= limit) {
            return self.unverify(watched).await;
        }
        tracing::warn!(
            %domain,
            missing_seconds = missing.unwrap_or_default().as_secs(),
            limit_seconds = limit.as_secs(),
            "TXT record of a verified domain is missing; if it was there before, the domain loses its verification after domains.missing_seconds"
        );
        Ok(())
    }

    async fn unverify(&self, watched: &WatchedDomain) -> Result<(), StoreError> {
        let which = ChangedDomain {
            domain: watched.domain.clone(),
            tenant_id: None,
            // It may have been removed meanwhile, and made by another tenant.
            token: Some(watched.token.clone()),
            is_configured: false,
        };
        let patch = DomainPatch {
            verified: Some(false),
            ..DomainPatch::default()
        };
        let actor = Actor::command_line(FIRST_TENANT);
        if let Ok(row) = self.store.change_domain(&which, &patch, &actor).await? {
            tracing::warn!(
                domain = %row.domain,
                tenant = row.tenant_id,
                "domain lost its verification: TXT record missing for domains.missing_seconds"
            );
        }
        Ok(())
    }
}
