//! Looks at the TXT records of verified domains again, in the process that has the lease: a name that has lapsed and was registered
//! by another owner is not to stay with the tenant that once had it.

use crate::config::DomainsConfig;
use crate::domains::model::DomainPatch;
use crate::domains::{Verdict, Verifier};
use crate::lease::NamedLease;
use crate::store::{Actor, ChangedDomain, Store, StoreError, WatchedDomain};
use crate::tenancy::FIRST_TENANT;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// The name of the lease, as the migrations have it.
const LEASE: &str = "domains";

/// How long the lease lasts.
const LEASE_TIME: Duration = Duration::from_secs(30);

/// How many domains a turn asks about.
const BATCH: u32 = 50;

/// The pauses between turns.
const PAUSE: std::ops::RangeInclusive<Duration> =
    Duration::from_millis(250)..=Duration::from_mins(10);

/// Asks the DNS about verified domains, each once in `domains.recheck_seconds`.
pub(crate) struct Rechecker {
    store: Arc<Store>,
    verifier: Verifier,
    settings: DomainsConfig,
    lease: NamedLease,
}

impl Rechecker {
    /// A rechecker that holds the lease under a name of its own; `None` if domains are not looked at again.
    pub(crate) fn new(store: Arc<Store>, settings: &DomainsConfig) -> Option<Self> {
        (!settings.recheck_seconds.is_zero()).then(|| Self {
            lease: NamedLease::new(Arc::clone(&store), LEASE, LEASE_TIME),
            verifier: Verifier::new(settings),
            settings: settings.clone(),
            store,
        })
    }

    /// Takes turns until `stop`.
    pub(crate) async fn run(mut self, stop: CancellationToken) {
        let pause = (self.settings.recheck_seconds / 4).clamp(*PAUSE.start(), *PAUSE.end());
        loop {
            tokio::select! {
                () = stop.cancelled() => break,
                () = tokio::time::sleep(pause) => {}
            }
            if let Err(error) = self.take_turn().await {
                tracing::warn!(%error, "looking at the records of domains again failed: the next turn retries it");
            }
        }
        if let Err(error) = self.lease.release().await {
            tracing::warn!(%error, "giving the lease of domains back failed: it ends by itself");
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
            Verdict::Verified => Some(true),
            Verdict::NotFound => Some(false),
            // It says nothing about the owner, but others are asked about before it is asked again.
            Verdict::NoAnswer => None,
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
            "the TXT record of a verified domain is missing: if it was there before, its links are not served after domains.missing_seconds"
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
                "a domain is not verified any longer: its TXT record was missing for domains.missing_seconds"
            );
        }
        Ok(())
    }
}
