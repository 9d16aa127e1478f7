//! Memory for what the host hands over.
//!
//! The host asks for memory, puts a value into it, and says where. Nearly always the value is small and is let go soon:
//! one place serves the headers of a request, which are looked at until it is answered, and another one what comes
//! meanwhile; the heap serves the rest.

use std::cell::UnsafeCell;
use std::ops::Deref;
use std::ptr;
use std::slice;
use std::sync::atomic::{AtomicBool, Ordering};

/// The bytes of a place: more than the headers of nearly every request.
const ROOM: usize = 8_192;

struct Place {
    bytes: UnsafeCell<[u8; ROOM]>,
    is_taken: AtomicBool,
}

// SAFETY: a VM has one thread.
unsafe impl Sync for Place {}

static PLACES: [Place; 2] = [const { Place::free() }; 2];

impl Place {
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

/// Gives the host memory to put a value into, which [`Given`] takes over.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn proxy_on_memory_allocate(size: usize) -> *mut u8 {
    let is_free = |place: &&Place| !place.is_taken.swap(true, Ordering::Relaxed);
    if size <= ROOM
        && let Some(place) = PLACES.iter().find(is_free)
    {
        return place.start();
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

    fn place(&self) -> Option<&'static Place> {
        PLACES.iter().find(|place| place.start() == self.data)
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
        // SAFETY: as `take` was promised. Nobody else has this memory: a place is given to one at a time.
        unsafe { slice::from_raw_parts(self.data, self.size) }
    }
}

impl Drop for Given {
    fn drop(&mut self) {
        if self.data.is_null() {
            return;
        }
        if let Some(place) = self.place() {
            place.is_taken.store(false, Ordering::Relaxed);
            return;
        }
        // SAFETY: as `take` was promised, and it did not come from a place, so it came from the heap.
        drop(unsafe { Box::from_raw(ptr::slice_from_raw_parts_mut(self.data, self.size)) });
    }
}
