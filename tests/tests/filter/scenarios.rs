//! The scenarios that real Envoy runs as well.

use edgelink_tests::host::WasmtimeEdge;

async fn edge() -> WasmtimeEdge {
    WasmtimeEdge::start()
}

edgelink_tests::for_each_scenario!(edge);
