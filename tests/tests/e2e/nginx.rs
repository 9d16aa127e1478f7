//! nginx in front of Envoy, as `nginx/run.sh` starts it.

mod canary;
mod downgrades;
mod failover;
mod following;
mod headers;
mod limits;
mod settings;
mod smuggled;
mod smuggling;
mod tls;

use edgelink_tests::stack::{Deployment, EnvoyOptions, Nginx};

/// One control plane, one Envoy that hears from nginx who its visitors are, and nginx in front.
async fn start(options: EnvoyOptions, variables: &[(&str, &str)]) -> (Nginx, Deployment) {
    let edgelink = Deployment::start(&EnvoyOptions {
        trusted_hops: 1,
        ..options
    })
    .await;
    let nginx = Nginx::start(
        &[edgelink.envoy.edge()],
        &[edgelink.control_plane.address()],
        variables,
    )
    .await;
    (nginx, edgelink)
}
