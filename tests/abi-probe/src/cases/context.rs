//! proxy_set_effective_context, proxy_done, proxy_continue_stream, proxy_close_stream.

use crate::abi::{
    Out, address, proxy_close_stream, proxy_continue_stream, proxy_done,
    proxy_get_header_map_value, proxy_set_effective_context,
};
use crate::probe;
use crate::report::Report;

fn path() -> u32 {
    let mut out = Out::new();
    proxy_get_header_map_value(0, address(":path"), 5, out.at(0), out.at(1))
}

pub(crate) fn run(stream: u32, report: &mut Report) {
    report.status("unknown context", proxy_set_effective_context(99_999));
    report.status("request header after that", path());
    report.status("root context", proxy_set_effective_context(probe::root()));
    report.status("request header on the root", path());
    report.status("vm context", proxy_set_effective_context(0));
    report.status("request header after that", path());
    report.status("own context", proxy_set_effective_context(stream));
    report.status("request header on it", path());
    report.status("done", proxy_done());
    report.status("close stream 4", proxy_close_stream(4));
    report.status("continue stream 4", proxy_continue_stream(4));
    report.status("continue stream max", proxy_continue_stream(u32::MAX));
    report.status("continue stream 3", proxy_continue_stream(3));
    report.status("continue stream 2", proxy_continue_stream(2));
    proxy_set_effective_context(probe::root());
    report.status("done on the root", proxy_done());
    report.status("continue the root's request", proxy_continue_stream(0));
    report.status("close the root's request", proxy_close_stream(0));
    proxy_set_effective_context(stream);
}

/// A stream that was there a moment ago: the one before this.
pub(crate) fn gone(report: &mut Report) {
    report.status(
        "gone context",
        proxy_set_effective_context(probe::last_stream() - 1),
    );
    report.status("request header after that", path());
}

/// Continues a stream that is not paused, which takes its request headers away.
pub(crate) fn continue_a_running_stream(report: &mut Report) {
    report.status("request header before", path());
    report.status("continue", proxy_continue_stream(0));
    report.status("request header after", path());
}
