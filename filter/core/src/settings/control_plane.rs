//! The section `controlPlane` of the plugin configuration.

use super::tls::{Tls, TlsFiles};
use super::written::{ControlPlaneSection, HeaderText, ServerAddress};
use edgelink_wire::settings::Problems;

/// Maximum number of servers.
const MAX_SERVERS: usize = 64;

/// Access to the control plane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControlPlane {
    /// The name of the proxy's cluster; empty for a host that connects by itself.
    pub cluster: String,
    /// The servers, for a host that connects to them by itself.
    pub servers: ControlPlaneServers,
    /// The `:authority` of callouts.
    pub authority: String,
    /// The value of `authorization` of callouts; `None` if the proxy adds it, or a file has it.
    pub authorization: Option<String>,
    /// Timeout of a callout in milliseconds.
    pub timeout_millis: u32,
    /// Maximum number of lookups in flight.
    pub max_pending: usize,
    /// Maximum number of requests that wait for them.
    pub max_waiting: usize,
}

/// The control planes that a host without clusters connects to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControlPlaneServers {
    /// The servers; empty for a host with clusters.
    pub addresses: Vec<ServerAddress>,
    /// Settings of TLS; `None` without it.
    pub tls: Option<Tls>,
    /// The file with the token, if that is not in [`ControlPlane::authorization`].
    pub token_file: Option<String>,
    /// Timeout of connecting and the handshakes, in milliseconds.
    pub connect_timeout_millis: u64,
    /// Maximum number of requests in flight at a server.
    pub max_streams: usize,
    /// Seconds between two resolutions of names.
    pub resolve_seconds: u64,
}

impl ControlPlaneSection {
    /// Checks values against each other.
    pub(super) fn check(&self, problems: &mut Problems) {
        if self.servers.len() > MAX_SERVERS {
            let must = "must be a list of at most 64 servers";
            problems.refuse("controlPlane.servers", must);
        }
        self.tls_files().check("controlPlane", problems);
        let is_encrypted = self.ca_file.is_some();
        if self
            .servers
            .iter()
            .any(|server| server.is_encrypted != is_encrypted)
        {
            let must = "must all begin with https:// with controlPlane.caFile, and with http:// without it";
            problems.refuse("controlPlane.servers", must);
        }
        if self.token.is_some() && self.token_file.is_some() {
            let must = "must be left out with controlPlane.token";
            problems.refuse("controlPlane.tokenFile", must);
        }
    }

    fn tls_files(&self) -> TlsFiles<'_> {
        TlsFiles {
            ca: self.ca_file.as_ref(),
            server_name: self.server_name.as_ref(),
            certificate: self.certificate_file.as_ref(),
            key: self.key_file.as_ref(),
        }
    }
}

impl From<ControlPlaneSection> for ControlPlane {
    fn from(section: ControlPlaneSection) -> Self {
        let text = |text: Option<HeaderText>| text.map(|text| text.0);
        let tls = section.tls_files().read();
        Self {
            cluster: text(section.cluster).unwrap_or_default(),
            authorization: section.token.map(|token| format!("Bearer {}", token.0)),
            authority: section.authority.0,
            timeout_millis: section.timeout_millis,
            max_pending: section.max_pending,
            max_waiting: section.max_waiting,
            servers: ControlPlaneServers {
                addresses: section.servers,
                tls,
                token_file: text(section.token_file),
                connect_timeout_millis: section.connect_timeout_millis,
                max_streams: section.max_streams,
                resolve_seconds: section.resolve_seconds,
            },
        }
    }
}

#[cfg(test)]
mod tests;
