//! proxy_get_buffer_bytes, proxy_set_buffer_bytes.

use crate::abi::{NOWHERE, Out, address, proxy_get_buffer_bytes, proxy_set_buffer_bytes};
use crate::report::Report;

/// The bodies of request and response.
const BODIES: [u32; 2] = [0, 1];
const CALLOUT_BODY: u32 = 4;
const GRPC_MESSAGE: u32 = 5;
const CONFIGURATION: u32 = 7;

pub(crate) fn get(buffer: u32, start: u32, length: u32, report: &mut Report) {
    let mut out = Out::new();
    let status = proxy_get_buffer_bytes(buffer, start, length, out.at(0), out.at(1));
    report.bytes(&format!("get {buffer} {start}+{length}"), status, &out);
}

fn set(buffer: u32, start: u32, length: u32, data: &[u8], report: &mut Report) {
    let status = proxy_set_buffer_bytes(buffer, start, length, address(data), data.len() as u32);
    report.status(&format!("set {buffer} {start}+{length}"), status);
}

/// Every buffer that our modules read, in a phase in which it is absent, and some that are undefined in the ABI.
pub(crate) fn run(report: &mut Report) {
    let [request, response] = BODIES;
    for buffer in [
        request,
        response,
        CALLOUT_BODY,
        GRPC_MESSAGE,
        CONFIGURATION,
        9,
        10,
    ] {
        get(buffer, 0, 10, report);
        get(buffer, 0, 0, report);
        get(buffer, 1, u32::MAX, report);
        set(buffer, 0, 10, b"new", report);
    }
    let mut out = Out::new();
    report.status(
        "get nowhere",
        proxy_get_buffer_bytes(GRPC_MESSAGE, 0, 10, NOWHERE, out.at(1)),
    );
    report.status(
        "set nowhere",
        proxy_set_buffer_bytes(GRPC_MESSAGE, 0, 10, NOWHERE, 32),
    );
}

/// Buffers readable at the start of a VM and of a plugin.
pub(crate) fn configuration(report: &mut Report) {
    get(CONFIGURATION, 0, 1000, report);
    get(CONFIGURATION, 7, 5, report);
}

/// Buffers readable in a callback of a callout.
pub(crate) fn in_callout(report: &mut Report) {
    get(CALLOUT_BODY, 0, 5, report);
    get(CALLOUT_BODY, 2, 100, report);
    get(CALLOUT_BODY, 5, 1, report);
    get(CALLOUT_BODY, 100, 1, report);
    set(CALLOUT_BODY, 0, 10, b"new", report);
}

/// Buffers readable and writable in the response body callback.
pub(crate) fn response_body(body_size: u32, report: &mut Report) {
    report.text("size", &body_size.to_string());
    get(1, 0, 1000, report);
    get(1, 3, 2, report);
    set(1, 0, 0, b"before ", report);
    set(1, 2, 1, b"inside", report);
    set(1, 0, 1, b"part", report);
    set(1, 100, 0, b" after", report);
    get(1, 0, 1000, report);
    set(1, 0, 1000, b"edited", report);
}
