//! proxy_http_call.

use crate::abi::{
    NOWHERE, Out, address, pairs, proxy_http_call, proxy_set_effective_context, size,
};
use crate::cases::{buffer, header_map};
use crate::report::Report;

/// A callout with these parts and no body.
fn call(cluster: &str, headers: &[u8], timeout: u32) -> u32 {
    let mut out = Out::new();
    proxy_http_call(
        address(cluster),
        size(cluster.as_bytes()),
        address(headers),
        size(headers),
        0,
        0,
        0,
        0,
        timeout,
        out.at(0),
    )
}

/// Callouts that the host refuses immediately.
pub(crate) fn refused(report: &mut Report) {
    let good = pairs(&[(":method", "GET"), (":path", "/ok"), (":authority", "peer")]);
    report.status("unknown cluster", call("no-such-cluster", &good, 500));
    report.status("no cluster", call("", &good, 500));
    report.status("no host in the cluster", call("nohost", &good, 500));
    report.status("timeout -1", call("peer", &good, u32::MAX));
    report.status("no headers", call("peer", &[], 500));
    report.status(
        "headers cut off",
        call("peer", &good[..good.len() - 2], 500),
    );
    report.status(
        "no method",
        call("peer", &pairs(&[(":path", "/"), (":authority", "a")]), 500),
    );
    report.status(
        "no path",
        call(
            "peer",
            &pairs(&[(":method", "GET"), (":authority", "a")]),
            500,
        ),
    );
    report.status(
        "no authority",
        call("peer", &pairs(&[(":method", "GET"), (":path", "/")]), 500),
    );

    let (headers, length) = (address(&good[..]), size(&good));
    let (peer, peer_size) = (address("peer"), 4);
    let mut out = Out::new();
    let token = out.at(0);
    report.status(
        "cluster nowhere",
        proxy_http_call(NOWHERE, 32, headers, length, 0, 0, 0, 0, 500, token),
    );
    report.status(
        "headers nowhere",
        proxy_http_call(peer, peer_size, NOWHERE, 32, 0, 0, 0, 0, 500, token),
    );
    report.status(
        "body nowhere",
        proxy_http_call(
            peer, peer_size, headers, length, NOWHERE, 32, 0, 0, 500, token,
        ),
    );
    report.status(
        "trailers nowhere",
        proxy_http_call(
            peer, peer_size, headers, length, 0, 0, NOWHERE, 32, 500, token,
        ),
    );
    report.status(
        "token nowhere",
        proxy_http_call(peer, peer_size, headers, length, 0, 0, 0, 0, 500, NOWHERE),
    );
}

/// Reports what the callback of a callout can do; the effective context is that of `stream` when it returns.
pub(crate) fn run(stream: u32, report: &mut Report) {
    header_map_of_the_root(report);
    report.status("effective context", proxy_set_effective_context(stream));
    header_map::in_callout(report);
    buffer::in_callout(report);
}

/// The callback arrives on the root context, which has no stream.
fn header_map_of_the_root(report: &mut Report) {
    let mut out = Out::new();
    let status =
        crate::abi::proxy_get_header_map_value(0, address(":path"), 5, out.at(0), out.at(1));
    report.status("request header on the root", status);
}
