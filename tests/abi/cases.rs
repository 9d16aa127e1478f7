//! The table of cases. The expected transcript of each is in `answers/{name}.txt`, as recorded from real Envoy.

use crate::scenario::Request;

/// A few requests to the probe.
#[derive(Clone, Debug)]
pub struct Case {
    /// Name of the case.
    pub name: &'static str,
    /// Actions, in order.
    pub steps: Vec<Step>,
}

/// An action on a host.
#[derive(Clone, Debug)]
pub enum Step {
    /// A request, and its answer.
    Visit(Request),
    /// A request whose client leaves before it is answered.
    Leave(Request),
    /// Reads the callbacks since the last time, once one of them contains `until`.
    Journal {
        /// Text to wait for; empty if everything has happened by now.
        until: &'static str,
    },
    /// Waits until a failed VM may be replaced.
    AwaitReload,
}

fn get(path: &str) -> Step {
    Step::Visit(Request::get(path))
}

fn head(path: &str) -> Step {
    Step::Visit(Request::new("HEAD", path.as_bytes()))
}

fn leave(path: &str) -> Step {
    Step::Leave(Request::get(path))
}

fn journal() -> Step {
    Step::Journal { until: "" }
}

fn journal_until(until: &'static str) -> Step {
    Step::Journal { until }
}

fn case(name: &'static str, steps: impl Into<Vec<Step>>) -> Case {
    let steps = steps.into();
    Case { name, steps }
}

/// All cases, in the order in which one host runs them.
#[must_use]
pub fn cases() -> Vec<Case> {
    [
        start_cases(),
        hostcall_cases(),
        callout_cases(),
        grpc_cases(),
        stream_cases(),
    ]
    .concat()
}

/// The actions possible when a VM starts show in the journal of one that has just replaced another.
fn start_cases() -> Vec<Case> {
    let steps = [
        Step::AwaitReload,
        get("/trap"),
        Step::AwaitReload,
        journal(),
    ];
    vec![case("trap-and-reload", steps)]
}

/// One family of hostcalls each, in the request headers callback.
fn hostcall_cases() -> Vec<Case> {
    let with_headers = Request::get("/run/header-read")
        .header("x-test", b"t")
        .header("x-twice", b"1")
        .header("x-twice", b"2")
        .header("x-empty", b"");
    let forwarded =
        Request::get("/run/property").header("x-forwarded-for", b"192.0.2.7, 192.0.2.9");
    let forwarded_v6 = Request::get("/run/property").header("x-forwarded-for", b"2001:DB8::0:1");
    vec![
        case("log", [get("/run/log")]),
        case("header-read", [Step::Visit(with_headers)]),
        case("header-types", [get("/run/header-types")]),
        case("property", [Step::Visit(forwarded)]),
        case("property-ipv6", [Step::Visit(forwarded_v6)]),
        case("header-replace", [get("/run/header-replace")]),
        case("buffer", [get("/run/buffer")]),
        case("http-call-refused", [get("/run/http-call")]),
        case("local-response-refused", [get("/run/local-response")]),
        case("shared-data", [get("/run/shared-data")]),
        case("metric", [get("/run/metric")]),
        case("timer", [get("/run/timer")]),
        case("tick", [get("/run/tick"), journal_until("tick")]),
        case("context", [get("/run/context")]),
        case("context-gone", [get("/"), get("/run/gone")]),
        case("stream-closed", [leave("/close"), journal_until("delete")]),
        case("wasi", [get("/run/wasi")]),
    ]
}

/// Data visible to callbacks of callouts, by the outcome of the callout.
fn callout_cases() -> Vec<Case> {
    vec![
        case("callout-answered", [get("/callout/peer/ok"), journal()]),
        case("callout-without-body", [get("/callout/peer/empty")]),
        case("callout-closed", [get("/callout/peer/close")]),
        case("callout-timed-out", [get("/callout/peer/hang")]),
        case("callout-connection-refused", [get("/callout/refused/x")]),
        case("callout-broken-off", [get("/callout/peer/cut"), journal()]),
        case(
            "callout-answered-after-one-broken-off",
            [get("/callout/peer/ok")],
        ),
        case(
            "callout-without-host",
            [get("/callout/nohost/x"), journal()],
        ),
        case(
            "callout-to-no-cluster",
            [get("/callout/nosuch/x"), journal()],
        ),
        case(
            "callout-of-a-stream-that-is-gone",
            [leave("/abandon/peer/hang"), journal_until("callout: set 4")],
        ),
    ]
}

/// gRPC: refused streams, immediate failures, streams closed by the peer.
fn grpc_cases() -> Vec<Case> {
    vec![
        case("grpc-refused", [get("/run/grpc"), journal()]),
        case(
            "grpc-stream-without-host",
            [get("/run/grpc-stream"), journal()],
        ),
        case(
            "grpc-closed-with-a-status",
            [get("/grpc/grpc/closed"), journal()],
        ),
        case(
            "grpc-message-received",
            [get("/grpc/grpc/message"), journal()],
        ),
        case(
            "grpc-connection-refused",
            [get("/grpc/refused/x"), journal()],
        ),
        case(
            "grpc-dispatch-without-host",
            [get("/grpc/nohost/x"), journal()],
        ),
    ]
}

/// Lifecycle of streams.
fn stream_cases() -> Vec<Case> {
    vec![
        case("stream-answered", [get("/run/timer"), journal()]),
        case("stream-answered-head", [head("/run/timer"), journal()]),
        case("stream-answered-twice", [get("/twice"), journal()]),
        case("stream-passed-through", [get("/other"), journal()]),
        case("stream-passed-through-head", [head("/other"), journal()]),
        case("stream-left", [leave("/pause"), journal_until("delete")]),
        case("response-headers", [get("/response/headers"), journal()]),
        case("response-buffers", [get("/response/buffer"), journal()]),
    ]
}
