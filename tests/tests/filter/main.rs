//! The modules as they are built, on the wasmtime host.

mod abi;
mod background;
mod bounds;
mod bytes;
mod callouts;
mod clock;
mod configuration;
mod cost;
mod described;
mod events;
mod passwords;
mod redis;
mod resp_bridge;
mod roots;
mod support;
mod threads;

/// The scenarios of every edge.
mod scenarios {
    async fn edge() -> edgelink_tests::abi::host::WasmtimeEdge {
        edgelink_tests::abi::host::WasmtimeEdge::start()
    }

    edgelink_tests::for_each_scenario!(edge);
}

/// Those of an edge that cannot know which hosts are domains.
mod host_scenarios {
    async fn edge() -> edgelink_tests::abi::host::WasmtimeEdge {
        edgelink_tests::abi::host::WasmtimeEdge::start_with_api_domains()
    }

    edgelink_tests::for_each_host_scenario!(edge);
}
