//! proxy_get_buffer_bytes, proxy_get_buffer_status, proxy_set_buffer_bytes.

use crate::abi::{
    NOWHERE, Out, address, proxy_get_buffer_bytes, proxy_get_buffer_status, proxy_set_buffer_bytes,
};
use crate::report::Report;

pub(crate) fn get(buffer: u32, start: u32, length: u32, report: &mut Report) {
    let mut out = Out::new();
    let status = proxy_get_buffer_bytes(buffer, start, length, out.at(0), out.at(1));
    report.bytes(&format!("get {buffer} {start}+{length}"), status, &out);
}

pub(crate) fn status(buffer: u32, report: &mut Report) {
    let mut out = Out::new();
    let status = proxy_get_buffer_status(buffer, out.at(0), out.at(1));
    report.word(&format!("status {buffer}"), status, out.word(0));
}

fn set(buffer: u32, start: u32, length: u32, data: &[u8], report: &mut Report) {
    let status = proxy_set_buffer_bytes(buffer, start, length, address(data), data.len() as u32);
    report.status(&format!("set {buffer} {start}+{length}"), status);
}

/// Every kind of buffer, in a phase in which most of them are absent.
pub(crate) fn run(report: &mut Report) {
    for buffer in 0..=10 {
        status(buffer, report);
        get(buffer, 0, 10, report);
        get(buffer, 0, 0, report);
        get(buffer, 1, u32::MAX, report);
        set(buffer, 0, 10, b"new", report);
    }
    let mut out = Out::new();
    report.status(
        "get nowhere",
        proxy_get_buffer_bytes(6, 0, 10, NOWHERE, out.at(1)),
    );
    report.status(
        "status nowhere",
        proxy_get_buffer_status(6, NOWHERE, out.at(1)),
    );
    report.status("set nowhere", proxy_set_buffer_bytes(6, 0, 10, NOWHERE, 32));
}

/// What a callback of a callout can read.
pub(crate) fn in_callout(report: &mut Report) {
    status(4, report);
    get(4, 0, 5, report);
    get(4, 2, 100, report);
    get(4, 5, 1, report);
    get(4, 100, 1, report);
    set(4, 0, 10, b"new", report);
    status(5, report);
    status(0, report);
}

/// What the response body callback can read and write.
pub(crate) fn response_body(body_size: u32, report: &mut Report) {
    report.text("size", &body_size.to_string());
    status(1, report);
    get(1, 0, 1000, report);
    get(1, 3, 2, report);
    set(1, 0, 0, b"before ", report);
    status(1, report);
    set(1, 2, 1, b"inside", report);
    set(1, 0, 1, b"part", report);
    set(1, 100, 0, b" after", report);
    get(1, 0, 1000, report);
    set(1, 0, 1000, b"edited", report);
    status(0, report);
}
