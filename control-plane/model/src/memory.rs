//! Wiping of secrets: freed memory and the stack are overwritten where secrets pass through third-party code.

use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;
use std::hint::black_box;
use std::mem::MaybeUninit;
use std::slice;
use zeroize::Zeroize;

/// Bytes of the stack that [`wiping`] overwrites: more than connecting to a database takes.
const DEEP: usize = 256 << 10;

/// Bytes of the stack that [`wiping_stack`] overwrites: more than a hash takes.
const SHALLOW: usize = 4 << 10;

thread_local! {
    static WIPES: Cell<bool> = const { Cell::new(false) };
}

/// An allocator that overwrites blocks that a thread frees within [`wiping`].
#[derive(Debug)]
pub struct Wiping<A>(pub A);

// SAFETY: every call goes to the inner allocator, with the same arguments. A block that is overwritten before it is freed is
// the caller's until then.
unsafe impl<A: GlobalAlloc> GlobalAlloc for Wiping<A> {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps to the contract of the trait.
        unsafe { self.0.alloc(layout) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        unsafe { self.0.alloc_zeroed(layout) }
    }

    #[inline]
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        if WIPES.get() {
            // SAFETY: the block has that size, and is no longer used by anything else.
            unsafe { wipe(pointer, layout.size()) };
        }
        // SAFETY: as above.
        unsafe { self.0.dealloc(pointer, layout) }
    }

    #[inline]
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if !WIPES.get() {
            // SAFETY: as above.
            return unsafe { self.0.realloc(pointer, layout, size) };
        }
        // SAFETY: the caller promises that the size is one of a layout with this alignment, and that the old block has the size
        // of `layout`; the new one is another block.
        unsafe {
            let new = self
                .0
                .alloc(Layout::from_size_align_unchecked(size, layout.align()));
            if !new.is_null() {
                new.copy_from_nonoverlapping(pointer, size.min(layout.size()));
                self.dealloc(pointer, layout);
            }
            new
        }
    }
}

#[cold]
unsafe fn wipe(pointer: *mut u8, size: usize) {
    // SAFETY: the caller says that so many bytes are there, and may be written.
    unsafe { slice::from_raw_parts_mut(pointer.cast::<MaybeUninit<u8>>(), size) }.zeroize();
}

/// Runs code through which secrets pass. Memory that it frees on this thread is overwritten, if the global allocator is
/// [`Wiping`], and so is its stack. It must not be nested.
pub fn wiping<T>(run: impl FnOnce() -> T) -> T {
    struct Guard;
    impl Drop for Guard {
        fn drop(&mut self) {
            WIPES.set(false);
            overwrite::<DEEP>();
        }
    }
    WIPES.set(true);
    let _guard = Guard;
    run()
}

/// Runs short code that has a secret on the stack, and overwrites the stack.
pub fn wiping_stack<T>(run: impl FnOnce() -> T) -> T {
    let answer = deeper(run);
    overwrite::<SHALLOW>();
    answer
}

#[inline(never)]
fn deeper<T>(run: impl FnOnce() -> T) -> T {
    run()
}

/// Overwrites the stack below the caller.
#[inline(never)]
fn overwrite<const SIZE: usize>() {
    let mut frame = [0xff_u8; SIZE];
    black_box(&mut frame).zeroize();
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::alloc::System;
    use std::sync::Mutex;

    /// Records the content of a block when it is freed.
    struct Noting(Mutex<Vec<Vec<u8>>>);

    // SAFETY: every call goes to the system allocator.
    unsafe impl GlobalAlloc for Noting {
        unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
            // SAFETY: the caller keeps to the contract of the trait.
            unsafe { System.alloc(layout) }
        }

        unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
            // SAFETY: the block has that size, and was written.
            let block = unsafe { slice::from_raw_parts(pointer, layout.size()) };
            self.0.lock().expect("not poisoned").push(block.to_vec());
            // SAFETY: as above.
            unsafe { System.dealloc(pointer, layout) }
        }
    }

    /// Content left in a block of 8 bytes that is written, grown, and freed.
    fn left_behind() -> Vec<Vec<u8>> {
        let allocator = Wiping(Noting(Mutex::default()));
        let layout = Layout::array::<u8>(8).expect("a layout");
        let larger = Layout::array::<u8>(16).expect("a layout");
        // SAFETY: the block has the sizes of these layouts, one after the other.
        unsafe {
            let block = allocator.alloc(layout);
            block.write_bytes(7, 8);
            let block = allocator.realloc(block, layout, 16);
            assert_eq!(slice::from_raw_parts(block, 8), [7; 8]);
            block.write_bytes(7, 16);
            allocator.dealloc(block, larger);
        }
        allocator.0.0.into_inner().expect("not poisoned")
    }

    #[test]
    fn memory_when_freed_while_wiping_is_overwritten() {
        assert_eq!(left_behind(), [vec![7; 8], vec![7; 16]]);
        assert_eq!(wiping(left_behind), [vec![0; 8], vec![0; 16]]);
        assert_eq!(left_behind(), [vec![7; 8], vec![7; 16]]);
    }

    #[test]
    fn stack_when_wiped_returns_the_answer() {
        assert_eq!(wiping_stack(|| 5), 5);
    }
}
