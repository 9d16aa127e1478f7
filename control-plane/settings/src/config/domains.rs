//! Settings of domains that the API makes.

use std::net::SocketAddr;
use std::time::Duration;

edgelink_wire::settings! {
    snake_case;

    /// Domains that the API makes.
    pub struct DomainsConfig {
        /// Whether the owner of a domain has to prove with a TXT record that it is his before it has links. Without that, a tenant
        /// can take any name that no other has.
        pub require_verification: bool = true;
        /// Domains that a tenant may make at most. An installation has 1,000 at most.
        pub max_per_tenant: u64 = 100, 1..=1_000;
        /// Domains of a tenant that are not verified at most.
        pub max_unverified: u64 = 20, 1..=1_000;
        /// The DNS server that is asked for TXT records. Without it those of `/etc/resolv.conf` are.
        pub resolver: Option<SocketAddr> = None, "192.0.2.53:53";
        /// How long a verification waits for the DNS.
        pub timeout_ms: Duration = Duration::from_secs(3), 100..=10_000;
        /// After how long the TXT record of a verified domain is looked at again; 0: never. One that the operator called verified, and whose
        /// record was never there, stays so.
        pub recheck_seconds: Duration = Duration::from_hours(24), 0..=2_592_000;
        /// How long the record of a verified domain may be missing. Then the domain is not verified any longer, and its links are not
        /// served, until it is verified again. A DNS that does not answer does not count.
        pub missing_seconds: Duration = Duration::from_hours(168), 0..=31_536_000;
    }
}
