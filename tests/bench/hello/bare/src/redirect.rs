//! Common parts of the smallest filters: the version of the ABI, and the hostcall that answers.

use std::ptr;

/// Makes the proxy wait: the request is answered.
const PAUSE: u32 = 1;

#[link(wasm_import_module = "env")]
unsafe extern "C" {
    fn proxy_send_local_response(
        status: u32,
        details: *const u8,
        details_size: usize,
        body: *const u8,
        body_size: usize,
        headers: *const u8,
        headers_size: usize,
        grpc_status: i32,
    ) -> u32;
}

#[unsafe(no_mangle)]
extern "C" fn proxy_abi_version_0_2_1() {}

/// Answers with a 302. The headers are encoded for hostcalls: count, lengths, and the strings, each followed by a NUL.
pub(crate) fn redirect(headers: &'static [u8]) -> u32 {
    let none = ptr::null();
    // SAFETY: the headers live for ever, and the other pointers are null with size 0.
    unsafe {
        proxy_send_local_response(302, none, 0, none, 0, headers.as_ptr(), headers.len(), -1);
    }
    PAUSE
}
