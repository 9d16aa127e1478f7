//! Memory for values from the host.
//!
//! The host requests memory, puts a value into it, and passes the pointer. Nearly always the value is small and is dropped
//! soon: one static buffer serves the headers of a request, which are read until it is answered, and another one the values
//! in between; the heap serves the rest.

use std::cell::UnsafeCell;
use std::ops::Deref;
use std::ptr;
use std::slice;
use std::sync::atomic::{AtomicBool, Ordering};
use zeroize::Zeroize;

/// Size of a static buffer in bytes: more than the headers of nearly every request.
const ROOM: usize = 8_192;

struct StaticBuffer {
    bytes: UnsafeCell<[u8; ROOM]>,
    is_taken: AtomicBool,
}

// SAFETY: a VM has one thread.
unsafe impl Sync for StaticBuffer {}

static BUFFERS: [StaticBuffer; 2] = [const { StaticBuffer::free() }; 2];

impl StaticBuffer {
    const fn free() -> Self {
        Self {
            bytes: UnsafeCell::new([0; ROOM]),
            is_taken: AtomicBool::new(false),
        }
    }

    fn start(&self) -> *mut u8 {
        self.bytes.get().cast()
    }
}

/// Gives the host memory to put a value into, which [`HostBytes`] takes over.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn proxy_on_memory_allocate(size: usize) -> *mut u8 {
    let is_free = |buffer: &&StaticBuffer| !buffer.is_taken.swap(true, Ordering::Relaxed);
    if size <= ROOM
        && let Some(buffer) = BUFFERS.iter().find(is_free)
    {
        return buffer.start();
    }
    let memory = Box::<[u8]>::new_uninit_slice(size);
    Box::into_raw(memory).cast()
}

/// A value that the host has handed over.
pub(crate) struct HostBytes {
    data: *mut u8,
    size: usize,
}

impl HostBytes {
    /// Takes over a value that the host has put into our memory.
    ///
    /// # Safety
    /// The host has got this memory, of this size, from [`proxy_on_memory_allocate`], has filled it, and passes it once;
    /// or both are 0.
    pub(super) unsafe fn take(data: *mut u8, size: usize) -> Self {
        Self { data, size }
    }

    /// Overwrites the value, which is a secret, with zeros.
    pub(crate) fn overwrite(&mut self) {
        if !self.data.is_null() {
            // SAFETY: as `take` was promised. Nothing else has this memory, and this value is borrowed mutably.
            unsafe { slice::from_raw_parts_mut(self.data, self.size) }.zeroize();
        }
    }

    fn static_buffer(&self) -> Option<&'static StaticBuffer> {
        BUFFERS.iter().find(|buffer| buffer.start() == self.data)
    }
}

impl Default for HostBytes {
    fn default() -> Self {
        Self {
            data: ptr::null_mut(),
            size: 0,
        }
    }
}

impl Deref for HostBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        if self.data.is_null() {
            return &[];
        }
        // SAFETY: as `take` was promised. Nothing else has this memory: a buffer is given to one value at a time.
        unsafe { slice::from_raw_parts(self.data, self.size) }
    }
}

impl Drop for HostBytes {
    fn drop(&mut self) {
        if self.data.is_null() {
            return;
        }
        if let Some(buffer) = self.static_buffer() {
            buffer.is_taken.store(false, Ordering::Relaxed);
            return;
        }
        // SAFETY: as `take` was promised, and it did not come from a static buffer, so it came from the heap.
        drop(unsafe { Box::from_raw(ptr::slice_from_raw_parts_mut(self.data, self.size)) });
    }
}
