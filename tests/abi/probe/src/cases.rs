//! The cases, one file for each family of hostcalls. Each records the status of every hostcall it makes.

pub(crate) mod buffer;
pub(crate) mod callout;
pub(crate) mod context;
pub(crate) mod grpc;
pub(crate) mod header_map;
pub(crate) mod log;
pub(crate) mod metric;
pub(crate) mod shared_data;
pub(crate) mod wasi;

use crate::report::Report;

/// Runs a case in the request headers callback of `stream`.
pub(crate) fn run(case: &str, stream: u32, report: &mut Report) {
    match case {
        "buffer" => buffer::run(report),
        "http-call" => callout::refused(report),
        "context" => context::run(stream, report),
        "gone" => context::gone(report),
        "grpc" => grpc::run(report),
        "grpc-stream" => grpc::fail(report),
        "grpc-twice" => grpc::fail_twice(report),
        "header-read" => header_map::read(report),
        "header-replace" => header_map::replace_in_request(report),
        "header-types" => header_map::types(report),
        "property" => header_map::property(report),
        "local-response" => crate::callbacks::refused_local_responses(report),
        "log" => log::run(report),
        "metric" => metric::run(report),
        "shared-data" => shared_data::run(report),
        "timer" => context::timer(report),
        "tick" => context::start_timer(report),
        "wasi" => wasi::run(report),
        // No module of ours makes this hostcall, and so the test host does not implement it.
        "unknown" => report.status("done", crate::abi::proxy_done()),
        _ => report.text("unknown case", case),
    }
}

/// Runs a case in the response headers callback.
pub(crate) fn run_in_response(case: &str, report: &mut Report) {
    match case {
        "headers" => header_map::in_response(report),
        "buffer" => buffer::run(report),
        _ => report.text("unknown case", case),
    }
}
