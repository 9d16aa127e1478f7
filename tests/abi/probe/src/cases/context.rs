//! proxy_set_effective_context, proxy_close_stream, proxy_set_tick_period_milliseconds.

use crate::abi::{
    Out, address, proxy_close_stream, proxy_get_header_map_value, proxy_set_effective_context,
    proxy_set_tick_period_milliseconds,
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
    report.status("close stream 4", proxy_close_stream(4));
    proxy_set_effective_context(probe::root());
    report.status("close the root's request", proxy_close_stream(0));
    proxy_set_effective_context(stream);
}

/// A stream that existed a moment ago: the one before this.
pub(crate) fn gone(report: &mut Report) {
    report.status(
        "gone context",
        proxy_set_effective_context(probe::last_stream() - 1),
    );
    report.status("request header after that", path());
}

/// A stream sets the root's timer.
pub(crate) fn timer(report: &mut Report) {
    report.status("period 0", proxy_set_tick_period_milliseconds(0));
    report.status("period max", proxy_set_tick_period_milliseconds(u32::MAX));
    report.status("period 0 again", proxy_set_tick_period_milliseconds(0));
}

/// Starts a timer for one tick.
pub(crate) fn start_timer(report: &mut Report) {
    report.status("period 1", proxy_set_tick_period_milliseconds(1));
}

/// Stops the timer.
pub(crate) fn ticked() {
    probe::note("tick");
    proxy_set_tick_period_milliseconds(0);
}
