//! An allocator that searches every block of memory for a key when the block is freed.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Every key in these tests starts with these bytes. Expanded AES and ChaCha20 keys start with the
/// key itself.
pub(crate) const MARK: [u8; 16] = *b"\x93kiln's own mark";

static FOUND: AtomicUsize = AtomicUsize::new(0);

struct Looking;

// SAFETY: every call is forwarded to the system's allocator. This allocator itself only reads
// memory, and does so before freeing it.
unsafe impl GlobalAlloc for Looking {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller guarantees that the layout is valid, as `alloc_zeroed` requires.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the memory is still allocated with this size, and was zeroed when allocated.
        let bytes = unsafe { std::slice::from_raw_parts(at, layout.size()) };
        if bytes.windows(MARK.len()).any(|w| w == MARK) {
            FOUND.fetch_add(1, Ordering::Relaxed);
        }
        // SAFETY: the caller guarantees that `at` was allocated with this layout.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static LOOKING: Looking = Looking;

/// Calls `run` and returns how many of the memory blocks that it freed contained a key. Tests that
/// use this function must not run concurrently.
pub(crate) fn found(run: impl FnOnce()) -> usize {
    let before = FOUND.load(Ordering::Relaxed);
    run();
    FOUND.load(Ordering::Relaxed) - before
}
