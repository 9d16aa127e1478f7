//! How changes are published.

use super::error::Checks;
use crate::clicks::HotOptions;
use crate::relay::RelayOptions;
use crate::store::MAX_LEASE_MS;
use serde::Deserialize;
use std::time::Duration;

/// How changes are published to caches and edges.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "a section")]
pub struct RelayConfig {
    /// How often the outbox is looked into where nobody nudges, in milliseconds, 10 to 60,000. Default 250. That is how late
    /// a change can come when Redis has lost the nudge of another control plane.
    pub poll_ms: u64,
    /// For how long one control plane publishes before it has to renew its lease, in milliseconds, 500 to 60,000. Default
    /// 3,000. When it dies, changes wait for up to that long until another one takes over.
    pub lease_ms: u64,
    /// How often there is a beat, in milliseconds, 100 to 2,000. Default 1,000. It says up to when everything is published, so
    /// that caches know how old they are, and how far numbers are issued.
    pub heartbeat_ms: u64,
    /// How many rows of the outbox are read at once, 1 to 1,000. Default 256. A row holds the changes of a transaction, or 64
    /// KiB of them.
    pub batch: u32,
    /// How far the bound is ahead of the numbers issued, 10,000,000 to 1,000,000,000,000. Default 1,000,000,000, which is a
    /// million links from one issuer. Codes above the bound are answered 404 by the edges without a lookup; when numbers are
    /// issued so fast that they come to it, an instance goes on with another issuer, of which there are a thousand.
    pub bound_room: u64,
}

impl Default for RelayConfig {
    fn default() -> Self {
        Self {
            poll_ms: 250,
            lease_ms: 3_000,
            heartbeat_ms: 1_000,
            batch: 256,
            bound_room: 1_000_000_000,
        }
    }
}

impl RelayConfig {
    pub(super) fn check(&self, checks: &mut Checks) {
        checks.range("relay.poll_ms", self.poll_ms, &(10..=60_000));
        let leases = 500..=MAX_LEASE_MS;
        checks.range("relay.lease_ms", self.lease_ms, &leases);
        checks.range("relay.heartbeat_ms", self.heartbeat_ms, &(100..=2_000));
        checks.range("relay.batch", self.batch, &(1..=1_000));
        checks.range(
            "relay.bound_room",
            self.bound_room,
            &(10_000_000..=1_000_000_000_000),
        );
    }

    pub(crate) fn options(&self, hot: HotOptions) -> RelayOptions {
        RelayOptions {
            poll: Duration::from_millis(self.poll_ms),
            lease: Duration::from_millis(self.lease_ms),
            heartbeat: Duration::from_millis(self.heartbeat_ms),
            batch: self.batch,
            hot,
        }
    }
}
