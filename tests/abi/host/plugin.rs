//! Envoy's configuration of a plugin and its surroundings.

use std::collections::BTreeMap;
use std::time::Duration;

/// Shortest time between two starts of a failed VM: Envoy's default of `reload_config`, without its jitter.
pub const RELOAD_BACKOFF: Duration = Duration::from_secs(1);

/// Treatment of requests after the VM has failed: `failure_policy`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FailurePolicy {
    /// They are answered with 503.
    Closed,
    /// Like [`Self::Closed`], but the next request gets a new VM, at most one every [`RELOAD_BACKOFF`].
    #[default]
    Reload,
}

/// State of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cluster {
    /// It has a host that accepts requests; the test determines their outcome.
    Healthy,
    /// It has no host, or no healthy one: callouts fail in the hostcall.
    NoHost,
}

/// The configuration of the plugin and its surroundings.
#[derive(Clone, Debug, Default)]
pub(crate) struct Plugin {
    pub(crate) configuration: Vec<u8>,
    pub(crate) clusters: BTreeMap<Vec<u8>, Cluster>,
    pub(crate) failure_policy: FailurePolicy,
    /// Set if `StopIteration` holds headers only; otherwise nothing more of the stream is seen.
    pub(crate) allow_on_headers_stop_iteration: bool,
}
