//! The scenarios that real Envoy runs as well.

use edgelink_tests::abi::host::WasmtimeEdge;

async fn edge() -> WasmtimeEdge {
    WasmtimeEdge::start()
}

edgelink_tests::for_each_scenario!(edge);
