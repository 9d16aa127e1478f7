//! Settings of webhooks.

use super::network::Network;
use edgelink_wire::target::HostPattern;
use std::time::Duration;

edgelink_wire::settings! {
    snake_case;

    /// Webhooks: events of links are sent to the hosts that are named here, by one control plane at a time.
    pub struct WebhooksConfig {
        /// Hosts that events may be sent to: `hooks.example` is this one, `*.hooks.example` all below it. Without any there are no
        /// webhooks. A host's addresses must be public, as far as `allowed_networks` does not say otherwise: what is checked is the
        /// very address that the connection goes to.
        pub allowed_hosts: Vec<HostPattern> = Vec::new();
        /// Networks whose addresses may be connected to although they are not public, such as `10.1.0.0/16`.
        pub allowed_networks: Vec<Network> = Vec::new();
        /// Whether `http` URLs are allowed beside `https`.
        pub allow_http: bool = false;
        /// Time for an attempt, from the lookup of the name to the head of the answer.
        pub timeout_ms: Duration = Duration::from_secs(10), 10..=60_000;
        /// Attempts of a delivery. With the pauses that the defaults yield, the last one is after about 8 hours.
        pub max_attempts: u32 = 20, 1..=100;
        /// The longest pause before the second attempt. It doubles from failure to failure; the actual pause is at random between
        /// none and the longest.
        pub first_pause_ms: u64 = 2_000, 1..=3_600_000;
        /// The longest pause of all.
        pub longest_pause_ms: u64 = 7_200_000, 1..=86_400_000;
        /// The longest pause of a webhook whose last attempts have failed. Meanwhile one delivery at a time is attempted.
        pub longest_probe_pause_ms: u64 = 300_000, 1..=86_400_000;
        /// A webhook all of whose attempts have failed for so long is disabled.
        pub disable_after_seconds: u64 = 432_000, 1..=31_536_000;
        /// A webhook for which more deliveries wait after its turn is disabled.
        pub max_waiting: u64 = 100_000, 1..=100_000_000;
        /// Webhooks that are worked on at once; a quarter of them, and one at least, may be of the same tenant.
        pub max_concurrent: u32 = 16, 1..=1_000;
        /// Deliveries of a webhook that are attempted at once.
        pub max_attempts_at_once: u32 = 8, 1..=100;
    }
}

impl WebhooksConfig {
    /// True if webhooks are possible.
    pub fn is_on(&self) -> bool {
        !self.allowed_hosts.is_empty()
    }
}
