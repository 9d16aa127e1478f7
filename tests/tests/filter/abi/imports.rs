//! Imports of the modules. The host traps calls that it does not implement, but only when a test reaches such a call: a
//! hostcall that is new to the filter must first be checked on real Envoy (see [`conformance`](super::conformance)).

use edgelink_tests::abi::host::{Metering, Module};

const FILTER: [&str; 25] = [
    "env.proxy_continue_stream",
    "env.proxy_define_metric",
    "env.proxy_get_buffer_bytes",
    "env.proxy_get_header_map_pairs",
    "env.proxy_get_header_map_value",
    "env.proxy_get_property",
    "env.proxy_get_shared_data",
    "env.proxy_grpc_cancel",
    "env.proxy_grpc_send",
    "env.proxy_grpc_stream",
    "env.proxy_http_call",
    "env.proxy_increment_metric",
    "env.proxy_log",
    "env.proxy_record_metric",
    "env.proxy_send_local_response",
    "env.proxy_set_effective_context",
    "env.proxy_set_property",
    "env.proxy_set_shared_data",
    "env.proxy_set_tick_period_milliseconds",
    "wasi_snapshot_preview1.clock_time_get",
    "wasi_snapshot_preview1.environ_get",
    "wasi_snapshot_preview1.environ_sizes_get",
    "wasi_snapshot_preview1.fd_write",
    "wasi_snapshot_preview1.proc_exit",
    "wasi_snapshot_preview1.random_get",
];

/// Everything that the SDK may call; the bridge calls few of them.
const BRIDGE: [&str; 36] = [
    "env.proxy_add_header_map_value",
    "env.proxy_call_foreign_function",
    "env.proxy_close_stream",
    "env.proxy_continue_stream",
    "env.proxy_dequeue_shared_queue",
    "env.proxy_done",
    "env.proxy_enqueue_shared_queue",
    "env.proxy_get_buffer_bytes",
    "env.proxy_get_current_time_nanoseconds",
    "env.proxy_get_header_map_pairs",
    "env.proxy_get_header_map_value",
    "env.proxy_get_property",
    "env.proxy_get_shared_data",
    "env.proxy_get_status",
    "env.proxy_grpc_call",
    "env.proxy_grpc_cancel",
    "env.proxy_grpc_close",
    "env.proxy_grpc_send",
    "env.proxy_grpc_stream",
    "env.proxy_http_call",
    "env.proxy_log",
    "env.proxy_register_shared_queue",
    "env.proxy_remove_header_map_value",
    "env.proxy_replace_header_map_value",
    "env.proxy_resolve_shared_queue",
    "env.proxy_send_local_response",
    "env.proxy_set_buffer_bytes",
    "env.proxy_set_effective_context",
    "env.proxy_set_header_map_pairs",
    "env.proxy_set_property",
    "env.proxy_set_shared_data",
    "env.proxy_set_tick_period_milliseconds",
    "wasi_snapshot_preview1.environ_get",
    "wasi_snapshot_preview1.environ_sizes_get",
    "wasi_snapshot_preview1.fd_write",
    "wasi_snapshot_preview1.proc_exit",
];

#[test]
fn filter_when_built_imports_listed_functions() {
    assert_eq!(Module::filter(Metering::Off).imports(), FILTER);
}

#[test]
fn bridge_when_built_imports_listed_functions() {
    assert_eq!(Module::bridge().imports(), BRIDGE);
}
