//! proxy_call_foreign_function.

use crate::abi::{NOWHERE, Out, address, proxy_call_foreign_function, size};
use crate::report::Report;

fn call(name: &str) -> u32 {
    let mut out = Out::new();
    let length = size(name.as_bytes());
    proxy_call_foreign_function(address(name), length, 0, 0, out.at(0), out.at(1))
}

pub(crate) fn run(report: &mut Report) {
    report.status("unknown function", call("no_such_function"));
    report.status("no name", call(""));
    report.status("clear_route_cache", call("clear_route_cache"));
    report.status(
        "name nowhere",
        proxy_call_foreign_function(NOWHERE, 32, 0, 0, 0, 0),
    );
    report.status("arguments nowhere", {
        let name = "clear_route_cache";
        proxy_call_foreign_function(address(name), size(name.as_bytes()), NOWHERE, 32, 0, 0)
    });
    report.status("results nowhere", {
        let name = "clear_route_cache";
        proxy_call_foreign_function(address(name), size(name.as_bytes()), 0, 0, NOWHERE, 0)
    });
}
