//! What Envoy's configuration says of a plugin and its surroundings.

use std::collections::BTreeMap;
use std::time::Duration;

/// The least time between two starts of a failed VM: Envoy's default of `reload_config`, without its jitter.
pub const RELOAD_BACKOFF: Duration = Duration::from_secs(1);

/// What happens to requests when the VM has failed: `failure_policy`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FailurePolicy {
    /// They are answered with 503.
    Closed,
    /// As [`Self::Closed`], but the next request gets a new VM, at most one every [`RELOAD_BACKOFF`].
    #[default]
    Reload,
}

/// What stands behind the name of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cluster {
    /// A host that takes requests; the test says what becomes of them.
    Healthy,
    /// No host, or none that is healthy: callouts fail in the hostcall.
    NoHost,
}

/// The configuration of the plugin and its surroundings.
#[derive(Clone, Debug, Default)]
pub(crate) struct Plugin {
    pub(crate) configuration: Vec<u8>,
    pub(crate) clusters: BTreeMap<Vec<u8>, Cluster>,
    pub(crate) failure_policy: FailurePolicy,
    /// Whether `StopIteration` holds headers only; otherwise nothing more of the stream is seen.
    pub(crate) allow_on_headers_stop_iteration: bool,
}
