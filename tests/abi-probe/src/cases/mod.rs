//! The cases, one file a family of hostcalls. Each notes the status of every hostcall it makes.

pub(crate) mod buffer;
pub(crate) mod callout;
pub(crate) mod configuration;
pub(crate) mod context;
pub(crate) mod foreign;
pub(crate) mod grpc;
pub(crate) mod header_map;
pub(crate) mod log;
pub(crate) mod metric;
pub(crate) mod property;
pub(crate) mod shared_data;
pub(crate) mod shared_queue;
pub(crate) mod timer;
pub(crate) mod wasi;

use crate::report::Report;

/// Runs a case in the request headers callback of `stream`.
pub(crate) fn run(case: &str, stream: u32, report: &mut Report) {
    match case {
        "buffer" => buffer::run(report),
        "http-call" => callout::refused(report),
        "context" => context::run(stream, report),
        "gone" => context::gone(report),
        "continue" => context::continue_a_running_stream(report),
        "foreign" => foreign::run(report),
        "grpc" => grpc::run(report),
        "grpc-stream" | "grpc-call" | "grpc-message" | "grpc-unknown" | "grpc-empty" => {
            grpc::fail(case.trim_start_matches("grpc-"), report);
        }
        "grpc-twice" => grpc::fail_twice(report),
        "header-read" => header_map::read(report),
        "header-write" => header_map::write(report),
        "header-types" => header_map::types(report),
        "local-response" => crate::callbacks::refused_local_responses(report),
        "log" => log::run(report),
        "metric" => metric::run(report),
        "property" => property::run(report),
        "shared-data" => shared_data::run(report),
        "shared-queue" => shared_queue::run(report),
        "timer" => timer::run(report),
        "tick" => timer::start(report),
        "wasi" => wasi::run(report),
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
