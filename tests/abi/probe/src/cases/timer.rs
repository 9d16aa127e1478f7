//! proxy_set_tick_period_milliseconds.

use crate::abi::proxy_set_tick_period_milliseconds;
use crate::probe;
use crate::report::Report;

/// From a stream, it is the root's timer that is set.
pub(crate) fn run(report: &mut Report) {
    report.status("period 0", proxy_set_tick_period_milliseconds(0));
    report.status("period max", proxy_set_tick_period_milliseconds(u32::MAX));
    report.status("period 0 again", proxy_set_tick_period_milliseconds(0));
}

/// Asks for one tick.
pub(crate) fn start(report: &mut Report) {
    report.status("period 1", proxy_set_tick_period_milliseconds(1));
}

/// Wants no more.
pub(crate) fn ticked() {
    probe::note("tick");
    proxy_set_tick_period_milliseconds(0);
}
