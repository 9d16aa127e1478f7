//! The metric hostcalls.

use crate::abi::{
    NOWHERE, Out, address, proxy_define_metric, proxy_increment_metric, proxy_record_metric, size,
};
use crate::report::Report;

fn define(kind: u32, name: &str, out: &mut Out) -> u32 {
    proxy_define_metric(kind, address(name), size(name.as_bytes()), out.at(0))
}

pub(crate) fn run(report: &mut Report) {
    let mut out = Out::new();
    report.status("define of kind 3", define(3, "probe.unknown", &mut out));
    report.status(
        "define nowhere",
        proxy_define_metric(0, NOWHERE, 32, out.at(0)),
    );
    report.status(
        "define, id nowhere",
        proxy_define_metric(0, address("probe.x"), 7, NOWHERE),
    );
    for (kind, unknown) in [
        ("counter", 4000),
        ("gauge", 4001),
        ("histogram", 4002),
        ("no", 4003),
    ] {
        report.status(
            &format!("increment unknown {kind}"),
            proxy_increment_metric(unknown, 1),
        );
        report.status(
            &format!("record unknown {kind}"),
            proxy_record_metric(unknown, 1),
        );
    }
    counter(report);
    gauge(report);
    histogram(report);
}

fn counter(report: &mut Report) {
    let mut out = Out::new();
    report.status("define counter", define(0, "probe.counter", &mut out));
    let id = out.word(0);
    report.status("increment by 2", proxy_increment_metric(id, 2));
    report.status("increment by 0", proxy_increment_metric(id, 0));
    report.status("increment by -1", proxy_increment_metric(id, -1));
    report.status("record 5", proxy_record_metric(id, 5));
    report.status("define again", define(0, "probe.counter", &mut out));
    report.text("another id", &(out.word(0) != id).to_string());
    report.status("increment by it", proxy_increment_metric(out.word(0), 2));
}

fn gauge(report: &mut Report) {
    let mut out = Out::new();
    report.status("define gauge", define(1, "probe.gauge", &mut out));
    let id = out.word(0);
    report.status("gauge record 7", proxy_record_metric(id, 7));
    report.status("gauge increment by 2", proxy_increment_metric(id, 2));
    report.status("gauge increment by -4", proxy_increment_metric(id, -4));
    report.status("gauge increment by 0", proxy_increment_metric(id, 0));
}

fn histogram(report: &mut Report) {
    let mut out = Out::new();
    report.status("define histogram", define(2, "probe.histogram", &mut out));
    let id = out.word(0);
    report.status("histogram record", proxy_record_metric(id, 7));
    report.status("histogram increment", proxy_increment_metric(id, 1));
}
