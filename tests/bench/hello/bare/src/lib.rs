//! The smallest redirect on the bare ABI of proxy-wasm: one callback, one hostcall, no heap. It shows the cost of Wasm
//! itself.

#![cfg(target_arch = "wasm32")]

mod redirect;

use std::ptr;

static HEADERS: &[u8] = b"\x01\0\0\0\x08\0\0\0\x19\0\0\0location\0https://example.com/a?b=1\0";

/// The host requires this export; nothing here requests data that would be passed through it.
#[unsafe(no_mangle)]
extern "C" fn proxy_on_memory_allocate(_: usize) -> *mut u8 {
    ptr::null_mut()
}

#[unsafe(no_mangle)]
extern "C" fn proxy_on_request_headers(_: u32, _: u32, _: u32) -> u32 {
    redirect::redirect(HEADERS)
}
