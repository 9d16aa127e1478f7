//! The gRPC hostcalls.

use crate::abi::{
    NOWHERE, Out, address, proxy_grpc_call, proxy_grpc_cancel, proxy_grpc_close, proxy_grpc_send,
    proxy_grpc_stream, size,
};
use crate::cases::{buffer, header_map};
use crate::probe;
use crate::report::{Report, name};

fn stream(cluster: &[u8], out: &mut Out) -> u32 {
    let word = address("word");
    proxy_grpc_stream(
        address(cluster),
        size(cluster),
        word,
        4,
        word,
        4,
        0,
        0,
        out.at(0),
    )
}

fn call(cluster: &[u8], out: &mut Out) -> u32 {
    let word = address("word");
    proxy_grpc_call(
        address(cluster),
        size(cluster),
        word,
        4,
        word,
        4,
        0,
        0,
        0,
        0,
        500,
        out.at(0),
    )
}

/// A GrpcService message: envoy_grpc { cluster_name: `cluster` }.
fn service(cluster: &str) -> Vec<u8> {
    let length = cluster.len() as u8;
    let mut inner = vec![0x0a, length];
    inner.extend(cluster.as_bytes());
    let mut outer = vec![0x0a, inner.len() as u8];
    outer.extend(inner);
    outer
}

/// Streams and calls that the host refuses at once, and tokens that it does not know.
pub(crate) fn run(report: &mut Report) {
    let mut out = Out::new();
    report.status(
        "stream, unknown cluster",
        stream(b"no-such-cluster", &mut out),
    );
    report.status("call, unknown cluster", call(b"no-such-cluster", &mut out));
    let word = address("word");
    let token = out.at(0);
    report.status(
        "stream, service nowhere",
        proxy_grpc_stream(NOWHERE, 32, word, 4, word, 4, 0, 0, token),
    );
    report.status(
        "stream, metadata nowhere",
        proxy_grpc_stream(word, 4, word, 4, word, 4, NOWHERE, 32, token),
    );
    for (kind, unknown) in [
        ("http", 4000),
        ("call", 4001),
        ("stream", 4002),
        ("no", 4003),
    ] {
        report.status(
            &format!("send, unknown {kind} token"),
            proxy_grpc_send(unknown, word, 4, 0),
        );
        report.status(
            &format!("close, unknown {kind} token"),
            proxy_grpc_close(unknown),
        );
        report.status(
            &format!("cancel, unknown {kind} token"),
            proxy_grpc_cancel(unknown),
        );
    }
    report.status(
        "send, message nowhere",
        proxy_grpc_send(4002, NOWHERE, 32, 0),
    );
}

/// One stream or call that fails at once. Only one, because Envoy never comes back from a second one that fails in the
/// same callback.
pub(crate) fn fail(which: &str, report: &mut Report) {
    let mut out = Out::new();
    let status = match which {
        "call" => call(b"nohost", &mut out),
        "message" => stream(&service("nohost"), &mut out),
        "empty" => stream(b"", &mut out),
        "unknown" => stream(&service("no-such-cluster"), &mut out),
        _ => stream(b"nohost", &mut out),
    };
    report.status(which, status);
}

/// Two streams that fail at once, from one callback: never to be asked of a worker of Envoy that is still needed.
pub(crate) fn fail_twice(report: &mut Report) {
    fail("stream", report);
    fail("stream", report);
}

/// Notes what can be read of the initial metadata.
pub(crate) fn initial_metadata(_token: u32) {
    probe::note(format!("initial metadata: {}", header_map::in_grpc(4)));
}

/// Notes what can be read of the trailing metadata.
pub(crate) fn trailing_metadata(_token: u32) {
    probe::note(format!("trailing metadata: {}", header_map::in_grpc(5)));
}

/// Notes the message, and that the stream can be used in the callback.
pub(crate) fn message(token: u32) {
    let mut report = Report::new();
    buffer::status(5, &mut report);
    buffer::get(5, 0, 1000, &mut report);
    probe::note(format!(
        "message: {}",
        report.into_text().trim_end().replace('\n', ", ")
    ));
    let status = proxy_grpc_send(token, address("more"), 4, 0);
    probe::note(format!("send in callback: {}", name(status)));
}

/// What is known of a stream in the callback that says it is closed.
pub(crate) fn closed(token: u32, report: &mut Report) {
    buffer::status(5, report);
    report.text("metadata", &header_map::in_grpc(4));
    let mut out = Out::new();
    let status = crate::abi::proxy_get_status(out.at(2), out.at(0), out.at(1));
    report.status("status", status);
    report.text("status code", &out.word(2).to_string());
    report.status("close", proxy_grpc_close(token));
}
