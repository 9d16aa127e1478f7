//! The scenarios of every edge, on real Envoy.

use edgelink_tests::stack::EnvoyEdge;

async fn edge() -> EnvoyEdge {
    EnvoyEdge::start().await
}

edgelink_tests::for_each_scenario!(edge);
