//! The gRPC hostcalls.

use crate::abi::{
    NOWHERE, Out, address, proxy_grpc_cancel, proxy_grpc_send, proxy_grpc_stream, size,
};
use crate::cases::buffer;
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

/// Streams that the host refuses immediately, and unknown tokens.
pub(crate) fn run(report: &mut Report) {
    let mut out = Out::new();
    report.status(
        "stream, unknown cluster",
        stream(b"no-such-cluster", &mut out),
    );
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
            &format!("cancel, unknown {kind} token"),
            proxy_grpc_cancel(unknown),
        );
    }
    report.status(
        "send, message nowhere",
        proxy_grpc_send(4002, NOWHERE, 32, 0),
    );
}

/// A stream that fails immediately. Only one, because Envoy never returns from a second one that fails in the same
/// callback.
pub(crate) fn fail(report: &mut Report) {
    report.status("stream", stream(b"nohost", &mut Out::new()));
}

/// Two streams that fail immediately, from one callback: never send this to an Envoy worker that is still needed.
pub(crate) fn fail_twice(report: &mut Report) {
    fail(report);
    fail(report);
}

/// Notes the message, and that the stream can be used in the callback.
pub(crate) fn message(token: u32) {
    let mut report = Report::new();
    buffer::get(5, 0, 1000, &mut report);
    probe::note(format!(
        "message: {}",
        report.into_text().trim_end().replace('\n', ", ")
    ));
    let status = proxy_grpc_send(token, address("more"), 4, 0);
    probe::note(format!("send in callback: {}", name(status)));
}
