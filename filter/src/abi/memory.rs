//! Memory for what the host hands over.
//!
//! The host asks for memory, puts a value into it, and says where. Nearly always the value is small and is let go before
//! the next one comes, so one place serves them all; the heap serves the rest.

use std::cell::UnsafeCell;
use std::ops::Deref;
use std::ptr;
use std::slice;
use std::sync::atomic::{AtomicBool, Ordering};

/// The bytes of the place: more than the headers of nearly every request.
const ROOM: usize = 8_192;

struct Place(UnsafeCell<[u8; ROOM]>);

// SAFETY: a VM has one thread.
unsafe impl Sync for Place {}

static PLACE: Place = Place(UnsafeCell::new([0; ROOM]));
static IS_TAKEN: AtomicBool = AtomicBool::new(false);

/// Gives the host memory to put a value into, which [`Given`] takes over.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn proxy_on_memory_allocate(size: usize) -> *mut u8 {
    if size <= ROOM && !IS_TAKEN.swap(true, Ordering::Relaxed) {
        return PLACE.0.get().cast();
    }
    let memory = Box::<[u8]>::new_uninit_slice(size);
    Box::into_raw(memory).cast()
}

/// A value that the host has handed over.
pub(crate) struct Given {
    data: *mut u8,
    size: usize,
}

impl Given {
    /// Takes over what the host has put into memory of ours.
    ///
    /// # Safety
    /// The host has got this memory, of this size, from [`proxy_on_memory_allocate`], has filled it, and gives it once;
    /// or both are 0.
    pub(super) unsafe fn take(data: *mut u8, size: usize) -> Self {
        Self { data, size }
    }

    fn is_in_place(&self) -> bool {
        self.data == PLACE.0.get().cast()
    }
}

impl Default for Given {
    fn default() -> Self {
        Self {
            data: ptr::null_mut(),
            size: 0,
        }
    }
}

impl Deref for Given {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        if self.data.is_null() {
            return &[];
        }
        // SAFETY: as `take` was promised. Nobody else has this memory: the place is given to one at a time.
        unsafe { slice::from_raw_parts(self.data, self.size) }
    }
}

impl Drop for Given {
    fn drop(&mut self) {
        if self.data.is_null() {
            return;
        }
        if self.is_in_place() {
            IS_TAKEN.store(false, Ordering::Relaxed);
            return;
        }
        // SAFETY: as `take` was promised, and it did not come from the place, so it came from the heap.
        drop(unsafe { Box::from_raw(ptr::slice_from_raw_parts_mut(self.data, self.size)) });
    }
}
