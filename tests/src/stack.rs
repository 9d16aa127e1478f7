//! The product as it runs: Envoy started by `envoy/run.sh`, the built control plane, and the tools that tests need around
//! them.
//!
//! Every process has its own ports and its own temporary folder, is killed when its handle is dropped, and shows the end
//! of its log if that happens in a failing test.

mod collector;
mod control_plane;
mod deployment;
mod edge;
mod envoy;
mod http;
mod http2;
mod listeners;
mod nginx;
mod place;
mod process;
mod production;
mod scripted;
mod stats;

use std::time::{Duration, Instant};

pub use collector::{Collector, CollectorKind, TraceSpan};
pub use control_plane::{ApiAnswer, ControlPlane, code_space};
pub use deployment::Deployment;
pub use edge::EnvoyEdge;
pub use envoy::{Envoy, EnvoyOptions, RedisOptions};
pub use http::{Connection, request_bytes};
pub use http2::{Http2Answer, Http2Connection, http2_request, http2_request_with_trailers};
pub use listeners::Listener;
pub use nginx::Nginx;
pub(crate) use place::local;
pub use place::{
    Filter, Version, bridge_module, built_nginx_module, edgelink_binary, envoy_binary,
    filter_module, free_port, hello_module, native_module, nginx_module, probe_module, root,
    simulation_binary,
};
pub use process::{Process, Signal, descriptor_count, resident_bytes, thread_count};
pub use production::{Production, ProductionOptions, await_workers};
pub use scripted::{Behaviour, REPORTS, ScriptedControlPlane};
pub use stats::Stats;

/// Bearer token of the edge API in tests. The quote and the backslash test that it is escaped where it is filled in.
pub const EDGE_TOKEN: &str = r#"edge-"token\of-tests"#;

const PAUSE: Duration = Duration::from_millis(10);

/// Repeats `probe` until it returns a value.
///
/// # Panics
/// Panics with `what` if there is none within `limit`.
pub async fn until<T>(what: &str, limit: Duration, mut probe: impl AsyncFnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(answer) = probe().await {
            return answer;
        }
        assert!(start.elapsed() < limit, "waited {limit:?} in vain: {what}");
        tokio::time::sleep(PAUSE).await;
    }
}
