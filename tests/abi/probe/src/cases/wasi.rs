//! The WASI functions that Rust's standard library imports. Their results are WASI's errors, not statuses.

use crate::abi::{self, NOWHERE, Out, address};
use crate::report::Report;

pub(crate) fn run(report: &mut Report) {
    let mut result = |label: &str, errno: u32| report.text(label, &errno.to_string());
    let mut out = Out::new();
    let line = b"a line of the probe\n";
    let vectors = [address(&line[..]), line.len() as u32, 0, 0];
    let bad = [NOWHERE, 32];
    let vectors = address(&vectors);
    result("write to stdout", abi::fd_write(1, vectors, 2, out.at(0)));
    result("written", out.word(0));
    result("write to stderr", abi::fd_write(2, vectors, 1, out.at(0)));
    result("write nothing", abi::fd_write(1, vectors, 0, out.at(0)));
    result("write to 0", abi::fd_write(0, vectors, 1, out.at(0)));
    result("write to 3", abi::fd_write(3, vectors, 1, out.at(0)));
    result(
        "write from nowhere",
        abi::fd_write(1, address(&bad), 1, out.at(0)),
    );
    result(
        "write, vectors nowhere",
        abi::fd_write(1, NOWHERE, 1, out.at(0)),
    );
    result(
        "write, written nowhere",
        abi::fd_write(1, vectors, 1, NOWHERE),
    );
    result(
        "environ sizes",
        abi::environ_sizes_get(out.at(0), out.at(1)),
    );
    result("environ", abi::environ_get(out.at(0), out.at(1)));
    result(
        "environ sizes nowhere",
        abi::environ_sizes_get(NOWHERE, out.at(1)),
    );
    result("real time", abi::clock_time_get(0, 1, out.at(0)));
    result("monotonic time", abi::clock_time_get(1, 1, out.at(0)));
    result("cpu time", abi::clock_time_get(2, 1, out.at(0)));
    result("time nowhere", abi::clock_time_get(0, 1, NOWHERE));
    result("random", abi::random_get(out.at(0), 16));
    result("no random", abi::random_get(NOWHERE, 0));
    result("random nowhere", abi::random_get(NOWHERE, 16));
    result("too much random", abi::random_get(out.at(0), 65_537));
}
