//! Settings of links that have a limit of visits.

use std::time::Duration;

edgelink_wire::settings! {
    snake_case;

    /// Visits of links that have a limit (`maxVisits`), which are leased to the workers of edges in blocks.
    pub struct VisitsConfig {
        /// Visits of a block at most. It is what a worker that crashes may have served beyond the limit.
        pub max_block: u64 = 1_000, 1..=1_000_000;
        /// How long a worker may spend a block; what is left then comes back.
        pub lease_ms: Duration = Duration::from_secs(5), 100..=60_000;
        /// How long after that a worker that says nothing is waited for, before its block is leased to others.
        pub grace_ms: Duration = Duration::from_secs(30), 100..=600_000;
    }
}
