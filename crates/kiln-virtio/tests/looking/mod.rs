//! An allocator that searches for a key in all memory being freed.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Every key here starts with these bytes. Expanded AES and ChaCha20 keys start with the key itself.
pub(crate) const MARK: [u8; 16] = *b"\x93kiln's own mark";

static FOUND: AtomicUsize = AtomicUsize::new(0);

struct Looking;

// SAFETY: forwards to the system's allocator, and reads memory before freeing it.
unsafe impl GlobalAlloc for Looking {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: promised by the caller.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the memory is still allocated with this size, and was initially zeroed.
        let bytes = unsafe { std::slice::from_raw_parts(at, layout.size()) };
        if bytes.windows(MARK.len()).any(|w| w == MARK) {
            FOUND.fetch_add(1, Ordering::Relaxed);
        }
        // SAFETY: promised by the caller.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static LOOKING: Looking = Looking;

/// Number of blocks freed with a key inside while `run` ran. Only one test at a time may call this.
pub(crate) fn found(run: impl FnOnce()) -> usize {
    let before = FOUND.load(Ordering::Relaxed);
    run();
    FOUND.load(Ordering::Relaxed) - before
}
