//! A global allocator that counts, so that "no allocation" is a measurement and not a claim.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

static COUNT: AtomicU64 = AtomicU64::new(0);

/// The system allocator with a counter of calls that hand out memory (a `realloc` is one).
pub(crate) struct Counting;

/// How many allocations there have been since the program started.
pub fn count() -> u64 {
    COUNT.load(Relaxed)
}

/// A load and a store, not a locked add: the program has one thread, and the counter also runs while others are timed.
fn add_one() {
    COUNT.store(COUNT.load(Relaxed) + 1, Relaxed);
}

#[expect(
    unsafe_code,
    reason = "`GlobalAlloc` is an unsafe trait; every call is passed on to `System` unchanged"
)]
// SAFETY: `System` keeps the contract of `GlobalAlloc`; counting neither touches the memory nor allocates.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        add_one();
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        add_one();
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        add_one();
        unsafe { System.realloc(pointer, layout, size) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        unsafe { System.dealloc(pointer, layout) }
    }
}
