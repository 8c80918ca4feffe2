//! Memory mappings for a CPU. One holds the CPU's own data, followed by a hosted tree's data.
//! Others hold the CPU's tasks and their stacks. Each stack has a guard page on either side.

use std::io;
use std::mem::ManuallyDrop;
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::atomic::AtomicU64;

const PAGE: usize = 4096;

/// A private mapping of zeroed pages. The host allocates a page when it is first accessed.
pub(super) struct Mapping {
    at: NonNull<u8>,
    len: usize,
}

impl Mapping {
    fn new(len: usize, access: i32) -> io::Result<Mapping> {
        let len = len.next_multiple_of(PAGE);
        // SAFETY: the call creates a new anonymous mapping, which the result owns.
        let map = unsafe {
            libc::mmap(
                ptr::null_mut(),
                len,
                access,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        match NonNull::new(map.cast()) {
            Some(at) if map != libc::MAP_FAILED => Ok(Mapping { at, len }),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Maps readable and writable memory.
    pub(super) fn data(len: usize) -> io::Result<Mapping> {
        Mapping::new(len, libc::PROT_READ | libc::PROT_WRITE)
    }

    pub(super) fn base(&self) -> NonNull<u8> {
        self.at
    }
}

/// Allocates zeroed pages that are never freed. The host allocates a page when it is first
/// accessed.
///
/// # Panics
/// If the host is out of memory.
pub(crate) fn leak_pages(bytes: usize) -> &'static [AtomicU64] {
    let pages = ManuallyDrop::new(Mapping::data(bytes).expect("memory"));
    // SAFETY: the memory is never unmapped, is zeroed, and is at least as long as the slice.
    unsafe { slice::from_raw_parts(pages.at.as_ptr().cast(), bytes / 8) }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: `new` mapped the memory, and the CPU that used it has stopped.
        unsafe { libc::munmap(self.at.as_ptr().cast(), self.len) };
    }
}

/// The stacks of a CPU's tasks, separated by inaccessible pages.
pub(super) struct Stacks {
    map: Mapping,
    pub size: usize,
}

impl Stacks {
    /// Allocates `count` stacks of `size` bytes, rounded up to whole pages.
    pub(super) fn new(count: usize, size: usize) -> io::Result<Stacks> {
        let size = size.next_multiple_of(PAGE);
        let map = Mapping::new(count * (size + PAGE) + PAGE, libc::PROT_NONE)?;
        let stacks = Stacks { map, size };
        for i in 0..count {
            // SAFETY: the stack is inside the mapping made above.
            let ret = unsafe {
                libc::mprotect(
                    stacks.base().add(i * stacks.stride()).cast(),
                    size,
                    libc::PROT_READ | libc::PROT_WRITE,
                )
            };
            if ret != 0 {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(stacks)
    }

    /// Returns the lowest address of the first stack.
    pub(super) fn base(&self) -> *mut u8 {
        // SAFETY: the first guard page is inside the mapping.
        unsafe { self.map.base().as_ptr().add(PAGE) }
    }

    /// Returns the distance in bytes between consecutive stacks.
    pub(super) fn stride(&self) -> usize {
        self.size + PAGE
    }
}
