//! Keeping the lease, and watching how much is used up.

use super::supply::Supply;
use crate::telemetry::prometheus::{ISSUER_USED, ISSUERS_HELD};
use metrics::gauge;
use std::sync::Arc;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

/// From this share on people are warned: a longer code length takes a new deployment.
const WARN_FROM: f64 = 0.9;

/// Renews the lease of `supply` until `closing`.
pub(super) async fn beat(supply: Arc<Supply>, closing: CancellationToken) {
    let mut ticks = tokio::time::interval(supply.heartbeat());
    // A process that was stopped has nothing to catch up with.
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while closing.run_until_cancelled(ticks.tick()).await.is_some() {
        if let Err(error) = supply.keep_lease().await {
            tracing::warn!(%error, "the lease of an issuer could not be renewed");
        }
        watch(&supply).await;
    }
}

async fn watch(supply: &Supply) {
    match supply.usage().await {
        Ok((usage, share)) => {
            gauge!(ISSUER_USED).set(share);
            gauge!(ISSUERS_HELD).set(usage.held() as f64);
            if share >= WARN_FROM {
                tracing::warn!(
                    used_ratio = share,
                    "the numbers of this code length run out: configure a longer links.code_length"
                );
            }
        }
        Err(error) => tracing::debug!(%error, "how many numbers are used up is not known"),
    }
}
