//! The whole product: a control plane, and an Envoy in front of it.

use super::{ControlPlane, Envoy, EnvoyOptions};
use crate::link::LinkBuilder;

/// One control plane and one Envoy.
#[derive(Debug)]
pub struct Deployment {
    /// The Envoy.
    pub envoy: Envoy,
    /// The control plane.
    pub control_plane: ControlPlane,
}

impl Deployment {
    /// Starts both, with the domains of `options`.
    pub async fn start(options: &EnvoyOptions) -> Self {
        let domains: Vec<&str> = options.domains.iter().map(String::as_str).collect();
        let control_plane = ControlPlane::with_domains(&domains).await;
        let envoy = Envoy::start(options, &[control_plane.address()]).await;
        Self {
            envoy,
            control_plane,
        }
    }

    /// Starts a link with that code; see [`LinkBuilder::new`].
    pub fn link(&self, code: &str) -> LinkBuilder<'_, ControlPlane> {
        self.control_plane.link(code)
    }
}
