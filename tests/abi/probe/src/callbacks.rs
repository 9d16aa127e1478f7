//! The callbacks: each records itself in the journal, and some of them run a case.

use crate::abi::{
    NOWHERE, Out, address, pairs, proxy_close_stream, proxy_grpc_cancel, proxy_grpc_stream,
    proxy_http_call, proxy_send_local_response, proxy_set_effective_context, size,
};
use crate::cases::{self, buffer};
use crate::probe::{self, Task};
use crate::report::{Report, name};

const CONTINUE: u32 = 0;
const PAUSE: u32 = 1;

/// Makes the host use version 0.2.1 of the ABI.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn proxy_abi_version_0_2_1() {}

unsafe extern "C" {
    safe fn __wasm_call_ctors();
}

/// Makes the module a reactor: without it, the linker wraps every export into a start and an end of a program.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn _initialize() {
    __wasm_call_ctors();
}

/// A context is created.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn proxy_on_context_create(context: u32, root: u32) {
    probe::created(context, root);
}

/// The VM starts.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn proxy_on_vm_start(_root: u32, configuration_size: u32) -> u32 {
    probe::note(format!("vm_start {configuration_size}"));
    let mut report = Report::new();
    buffer::configuration(&mut report);
    note_report("vm_start", report);
    1
}

/// The plugin is configured.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn proxy_on_configure(_root: u32, configuration_size: u32) -> u32 {
    probe::note(format!("configure {configuration_size}"));
    let mut report = Report::new();
    buffer::configuration(&mut report);
    note_report("configure", report);
    1
}

/// A request arrives.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn proxy_on_request_headers(
    stream: u32,
    _count: u32,
    end_of_stream: u32,
) -> u32 {
    let path = cases::header_map::path();
    let mut parts = path.trim_start_matches('/').splitn(3, '/');
    let (verb, first) = (parts.next(), parts.next().unwrap_or_default());
    let second = parts.next().unwrap_or_default();
    if verb == Some("journal") {
        probe::assign(stream, Task::Silent);
    }
    probe::note_of(stream, format!("request_headers {end_of_stream}"));
    match verb {
        Some("run") => {
            let mut report = Report::new();
            cases::run(first, stream, &mut report);
            respond(stream, &report.into_text());
            CONTINUE
        }
        Some("callout") => callout(stream, first, second, Task::Report),
        Some("abandon") => callout(stream, first, second, Task::Idle),
        Some("grpc") => grpc(stream, first, second),
        Some("response") => {
            probe::assign(stream, Task::Response(first.to_owned()));
            CONTINUE
        }
        Some("twice") => {
            respond(stream, "first");
            respond(stream, "second");
            CONTINUE
        }
        Some("journal") => {
            respond(stream, &probe::take_journal());
            CONTINUE
        }
        Some("pause") => PAUSE,
        Some("close") => {
            let status = proxy_close_stream(0);
            probe::note_of(stream, format!("close {}", name(status)));
            PAUSE
        }
        Some("trap") => core::arch::wasm32::unreachable(),
        _ => CONTINUE,
    }
}

fn callout(stream: u32, cluster: &str, peer_path: &str, task: Task) -> u32 {
    let path = format!("/{peer_path}");
    let headers = pairs(&[(":method", "GET"), (":path", &path), (":authority", "peer")]);
    let mut out = Out::new();
    let status = proxy_http_call(
        address(cluster),
        size(cluster.as_bytes()),
        address(&headers[..]),
        size(&headers),
        0,
        0,
        0,
        0,
        500,
        out.at(0),
    );
    started(stream, status, &out, task)
}

fn grpc(stream: u32, cluster: &str, method: &str) -> u32 {
    let mut out = Out::new();
    let service = "probe.Service";
    let status = proxy_grpc_stream(
        address(cluster),
        size(cluster.as_bytes()),
        address(service),
        size(service.as_bytes()),
        address(method),
        size(method.as_bytes()),
        0,
        0,
        out.at(0),
    );
    started(stream, status, &out, Task::Report)
}

fn started(stream: u32, status: u32, out: &Out, task: Task) -> u32 {
    if status != 0 {
        respond(stream, &format!("dispatch={}\n", name(status)));
        return CONTINUE;
    }
    probe::dispatched(out.word(0), stream);
    probe::assign(stream, task);
    PAUSE
}

fn respond(stream: u32, body: &str) {
    let headers = pairs(&[("x-probe", "1")]);
    let status = proxy_send_local_response(
        200,
        0,
        0,
        address(body),
        size(body.as_bytes()),
        address(&headers[..]),
        size(&headers),
        u32::MAX,
    );
    probe::note_of(stream, format!("respond {}", name(status)));
}

/// A callout was answered, or has failed.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn proxy_on_http_call_response(
    context: u32,
    token: u32,
    headers: u32,
    body_size: u32,
    trailers: u32,
) {
    let is_root = context == probe::root();
    probe::note(format!("http_call_response root={is_root}"));
    let Some(stream) = probe::caller(token) else {
        probe::note("unknown token");
        return;
    };
    let mut report = Report::new();
    report.text("counts", &format!("{} {body_size} {trailers}", headers > 0));
    cases::callout::run(stream, &mut report);
    if let Task::Report = probe::task(stream) {
        respond(stream, &report.into_text());
    } else {
        note_report("callout", report);
    }
}

/// A gRPC stream received initial metadata.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn proxy_on_grpc_receive_initial_metadata(
    _context: u32,
    _token: u32,
    _count: u32,
) {
    probe::note("grpc_receive_initial_metadata");
}

/// A gRPC stream received trailing metadata.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn proxy_on_grpc_receive_trailing_metadata(
    _context: u32,
    _token: u32,
    _count: u32,
) {
    probe::note("grpc_receive_trailing_metadata");
}

/// A gRPC stream received a message.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn proxy_on_grpc_receive(_context: u32, token: u32, message_size: u32) {
    probe::note(format!("grpc_receive {message_size}"));
    cases::grpc::message(token);
}

/// A gRPC stream was closed by its peer, or has failed.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn proxy_on_grpc_close(context: u32, token: u32, status: u32) {
    let is_root = context == probe::root();
    probe::note(format!("grpc_close {status} root={is_root}"));
    let Some(stream) = probe::caller(token) else {
        probe::note("unknown token");
        return;
    };
    let mut report = Report::new();
    report.text("close", &status.to_string());
    buffer::get(5, 0, 1000, &mut report);
    report.status("cancel", proxy_grpc_cancel(token));
    proxy_set_effective_context(stream);
    respond(stream, &report.into_text());
}

/// The timer has fired.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn proxy_on_tick(_root: u32) {
    cases::context::ticked();
}

/// The response arrives.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn proxy_on_response_headers(
    stream: u32,
    _count: u32,
    end_of_stream: u32,
) -> u32 {
    probe::note_of(stream, format!("response_headers {end_of_stream}"));
    if let Task::Response(case) = probe::task(stream) {
        let mut report = Report::new();
        cases::run_in_response(&case, &mut report);
        cases::header_map::set_report(report.into_text().trim_end());
    }
    CONTINUE
}

/// The body of the response arrives.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn proxy_on_response_body(
    stream: u32,
    body_size: u32,
    end_of_stream: u32,
) -> u32 {
    probe::note_of(stream, format!("response_body {end_of_stream}"));
    if let Task::Response(_) = probe::task(stream) {
        let mut report = Report::new();
        buffer::response_body(body_size, &mut report);
        note_report("response_body", report);
    }
    CONTINUE
}

/// The stream has ended, for its access log.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn proxy_on_log(stream: u32) {
    probe::note_of(stream, "log");
}

/// The stream has ended.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn proxy_on_done(context: u32) -> u32 {
    probe::note_of(context, "done");
    1
}

/// The context is deleted.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn proxy_on_delete(context: u32) {
    probe::note_of(context, "delete");
}

fn note_report(callback: &str, report: Report) {
    for line in report.into_text().lines() {
        probe::note(format!("{callback}: {line}"));
    }
}

/// Sends a local response with the given parts, to see which of them the host refuses.
pub(crate) fn refused_local_responses(report: &mut Report) {
    report.status(
        "local response, details nowhere",
        proxy_send_local_response(200, NOWHERE, 32, 0, 0, 0, 0, u32::MAX),
    );
    report.status(
        "local response, body nowhere",
        proxy_send_local_response(200, 0, 0, NOWHERE, 32, 0, 0, u32::MAX),
    );
    report.status(
        "local response, headers nowhere",
        proxy_send_local_response(200, 0, 0, 0, 0, NOWHERE, 32, u32::MAX),
    );
}
