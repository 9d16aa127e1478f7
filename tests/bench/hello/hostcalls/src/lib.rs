//! The hostcalls of the filter for a hit in the worker's cache, and nothing in between: it gets the callbacks for headers
//! and the end of a stream, reads the headers, and sends two of its own. The filter cannot be cheaper.

#![cfg(target_arch = "wasm32")]

#[path = "../../bare/src/redirect.rs"]
mod redirect;

use std::cell::UnsafeCell;
use std::ptr;

static HEADERS: &[u8] = b"\x02\0\0\0\x08\0\0\0\x19\0\0\0\x0d\0\0\0\x12\0\0\0location\0https://example.com/a?b=1\0cache-control\0private, max-age=0\0";

const REQUEST_HEADERS: u32 = 0;
const ROOM: usize = 8_192;

struct Place(UnsafeCell<[u8; ROOM]>);

// SAFETY: a VM has one thread.
unsafe impl Sync for Place {}

/// Memory in which the host puts the headers, which are not read.
static PLACE: Place = Place(UnsafeCell::new([0; ROOM]));

#[link(wasm_import_module = "env")]
unsafe extern "C" {
    fn proxy_get_header_map_pairs(map: u32, pairs: *mut *mut u8, size: *mut usize) -> u32;
}

#[unsafe(no_mangle)]
extern "C" fn proxy_on_memory_allocate(size: usize) -> *mut u8 {
    if size <= ROOM {
        PLACE.0.get().cast()
    } else {
        ptr::null_mut()
    }
}

#[unsafe(no_mangle)]
extern "C" fn proxy_on_request_headers(_: u32, _: u32, _: u32) -> u32 {
    let (mut pairs, mut size) = (ptr::null_mut(), 0);
    // SAFETY: the host writes a pointer and a size, and the variables have these types.
    unsafe { proxy_get_header_map_pairs(REQUEST_HEADERS, &raw mut pairs, &raw mut size) };
    redirect::redirect(HEADERS)
}

#[unsafe(no_mangle)]
extern "C" fn proxy_on_delete(_: u32) {}
