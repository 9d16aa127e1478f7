//! What Envoy's configuration says of a plugin and its surroundings.

use std::collections::BTreeMap;
use std::time::Duration;

/// How often a failed VM may be made anew: Envoy's default of `reload_config`, without its jitter.
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

/// The configuration of the plugin and its VM.
#[derive(Clone, Debug)]
pub(crate) struct Plugin {
    pub(crate) name: String,
    pub(crate) root_id: String,
    pub(crate) vm_id: String,
    pub(crate) vm_configuration: Vec<u8>,
    pub(crate) configuration: Vec<u8>,
    pub(crate) clusters: BTreeMap<Vec<u8>, Cluster>,
    pub(crate) properties: BTreeMap<Vec<u8>, Vec<u8>>,
    pub(crate) environment: Vec<(String, String)>,
    pub(crate) failure_policy: FailurePolicy,
}

impl Default for Plugin {
    fn default() -> Self {
        Self {
            name: "edgelink".to_owned(),
            root_id: "edgelink".to_owned(),
            vm_id: "edgelink".to_owned(),
            vm_configuration: Vec::new(),
            configuration: Vec::new(),
            clusters: BTreeMap::new(),
            properties: BTreeMap::new(),
            environment: Vec::new(),
            failure_policy: FailurePolicy::default(),
        }
    }
}
