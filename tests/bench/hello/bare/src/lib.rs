//! The smallest redirect on the bare ABI of proxy-wasm: one callback, one hostcall, no heap. What wasm itself costs.

#![cfg(target_arch = "wasm32")]

use std::ptr;

/// Pairs as hostcalls take them: count, lengths, and the strings with a NUL behind each.
static HEADERS: &[u8] = b"\x01\0\0\0\x08\0\0\0\x19\0\0\0location\0https://example.com/a?b=1\0";

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

/// The host wants it to be there; nothing here asks for anything that comes through it.
#[unsafe(no_mangle)]
extern "C" fn proxy_on_memory_allocate(_: usize) -> *mut u8 {
    ptr::null_mut()
}

#[unsafe(no_mangle)]
extern "C" fn proxy_on_request_headers(_: u32, _: u32, _: u32) -> u32 {
    let (headers, none) = (HEADERS, ptr::null());
    // SAFETY: the headers live for ever, and the other pointers are null with size 0.
    unsafe {
        proxy_send_local_response(302, none, 0, none, 0, headers.as_ptr(), headers.len(), -1);
    }
    PAUSE
}
