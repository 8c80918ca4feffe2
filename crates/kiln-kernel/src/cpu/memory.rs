//! Stacks of kthreads, each between two guard pages.

use std::io;
use std::ptr;

pub struct Stacks {
    map: *mut u8,
    len: usize,
}

impl Stacks {
    const GUARD: usize = 4096;
    /// Bytes of a stack.
    pub const SIZE: usize = 64 * 1024;
    /// From one to the next.
    pub const STRIDE: usize = Stacks::SIZE + Stacks::GUARD;

    pub fn new(count: usize) -> io::Result<Stacks> {
        let len = count * Stacks::STRIDE + Stacks::GUARD;
        // SAFETY: a fresh anonymous mapping, owned by the result.
        let map = unsafe {
            libc::mmap(
                ptr::null_mut(),
                len,
                libc::PROT_NONE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if map == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let stacks = Stacks {
            map: map.cast(),
            len,
        };
        for i in 0..count {
            // SAFETY: inside the mapping made above.
            let ret = unsafe {
                libc::mprotect(
                    stacks.base().add(i * Stacks::STRIDE).cast(),
                    Stacks::SIZE,
                    libc::PROT_READ | libc::PROT_WRITE,
                )
            };
            if ret != 0 {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(stacks)
    }

    /// The first stack's lowest byte.
    pub fn base(&self) -> *mut u8 {
        // SAFETY: the first guard page is inside the mapping.
        unsafe { self.map.add(Stacks::GUARD) }
    }
}

impl Drop for Stacks {
    fn drop(&mut self) {
        // SAFETY: mapped in `new`; the tasks that had these stacks run no more.
        unsafe { libc::munmap(self.map.cast(), self.len) };
    }
}
