//! proxy_log.

use crate::abi::{NOWHERE, address, proxy_log, size};
use crate::report::Report;

pub(crate) fn run(report: &mut Report) {
    let message = b"a line of the probe";
    for level in 0..=5 {
        report.status(
            &format!("log level {level}"),
            proxy_log(level, address(&message[..]), size(message)),
        );
    }
    report.status("log level 6", proxy_log(6, address(&message[..]), 1));
    report.status(
        "log level max",
        proxy_log(u32::MAX, address(&message[..]), 1),
    );
    report.status("log nowhere", proxy_log(2, NOWHERE, 32));
    report.status(
        "log too long",
        proxy_log(2, address(&message[..]), u32::MAX),
    );
    report.status("log nothing", proxy_log(2, 0, 0));
    report.status("log nothing of nowhere", proxy_log(2, NOWHERE, 0));
    report.status("log bytes", {
        let bytes = [0xff, 0x00, 0x80];
        proxy_log(2, address(&bytes[..]), 3)
    });

    let end = (core::arch::wasm32::memory_size(0) * 65536) as u32;
    report.status("log the last byte", proxy_log(2, end - 1, 1));
    report.status("log across the end", proxy_log(2, end - 1, 2));
    report.status("log nothing at the end", proxy_log(2, end, 0));
    report.status("log nothing beyond the end", proxy_log(2, end + 1, 0));
}
