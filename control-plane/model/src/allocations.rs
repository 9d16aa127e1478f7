//! Allocations of tests, counted for each thread by [`Counting`], which is to be the global allocator of the tests.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The system allocator, with counts for each thread.
pub struct Counting;

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
    static HELD: Cell<i64> = const { Cell::new(0) };
    static PEAK: Cell<i64> = const { Cell::new(0) };
}

// SAFETY: every call is forwarded to the system allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.set(COUNT.get() + 1);
        let held = HELD.get() + layout.size() as i64;
        HELD.set(held);
        PEAK.set(PEAK.get().max(held));
        // SAFETY: the caller keeps to the contract of the trait.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        HELD.set(HELD.get() - layout.size() as i64);
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// Counts the allocations that `work` makes on this thread.
pub fn count_of(work: impl FnOnce()) -> u64 {
    let before = COUNT.get();
    work();
    COUNT.get() - before
}

/// The bytes that this thread has allocated and not freed.
pub fn held() -> i64 {
    HELD.get()
}

/// Bytes that `work` has allocated on this thread.
#[derive(Clone, Copy, Debug)]
pub struct Allocated {
    /// The most at one time.
    pub peak: i64,
    /// Bytes still held when the work is done.
    pub held: i64,
}

/// Runs `work` and measures the bytes that it allocates.
pub fn bytes_of<T>(work: impl FnOnce() -> T) -> (T, Allocated) {
    let before = HELD.get();
    PEAK.set(before);
    let done = work();
    let allocated = Allocated {
        peak: PEAK.get() - before,
        held: HELD.get() - before,
    };
    (done, allocated)
}

#[test]
fn allocation_when_partly_freed_keeps_its_peak() {
    let (text, allocated) = bytes_of(|| {
        drop(vec![0_u8; 10_000]);
        vec![0_u8; 1_000]
    });
    assert_eq!((allocated.peak, allocated.held), (10_000, 1_000));
    assert_eq!(count_of(|| drop(text)), 0);
}
