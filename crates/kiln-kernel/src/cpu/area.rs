//! Where a CPU's memory comes from: the allocator or, once a kernel tree is loaded, areas in
//! which the tree's per-CPU data lie behind it.

use std::alloc::{alloc_zeroed, dealloc, handle_alloc_error, Layout};
use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::OnceLock;

/// Areas of the same size one behind the other, the first for CPU 0.
#[derive(Clone, Copy, Debug)]
pub struct Areas {
    /// Where the first begins, aligned to 64 bytes.
    pub base: NonNull<u8>,
    /// Of each, bytes.
    pub size: usize,
    /// At most 64.
    pub count: u32,
}

// SAFETY: an address; who may use which area `TAKEN` decides.
unsafe impl Send for Areas {}
// SAFETY: as above.
unsafe impl Sync for Areas {}

static AREAS: OnceLock<Areas> = OnceLock::new();

/// A bit for each area that is a live CPU's.
static TAKEN: AtomicU64 = AtomicU64::new(0);

/// From now on a CPU of this process lies at the start of the area of its number. To be
/// called once, before the first CPU.
///
/// # Safety
/// The areas are readable and writable for as long as the process lives, and nobody else
/// uses the first [`cpu_size`] bytes of one.
pub unsafe fn set_areas(areas: Areas) {
    assert!(areas.size >= cpu_size() && (1..=64).contains(&areas.count));
    assert!(AREAS.set(areas).is_ok(), "there are areas already");
}

/// Bytes of `struct cpu`.
pub fn cpu_size() -> usize {
    // SAFETY: no arguments; a constant.
    unsafe { crate::sys::kiln_cpu_size() }
}

/// The memory of one CPU.
pub(super) enum Memory {
    Heap(NonNull<u8>, Layout),
    Area(NonNull<u8>, u32),
}

impl Memory {
    /// For the CPU of this number; without areas a number may be any, and used twice.
    /// None: whichever is free.
    pub fn new(number: Option<u32>) -> io::Result<(Memory, u32)> {
        if let Some(areas) = AREAS.get() {
            return areas.take(number);
        }
        let layout = Layout::from_size_align(cpu_size(), 64).expect("a small power of two");
        // SAFETY: the size is not zero.
        let memory = NonNull::new(unsafe { alloc_zeroed(layout) });
        let memory = memory.unwrap_or_else(|| handle_alloc_error(layout));
        Ok((Memory::Heap(memory, layout), number.unwrap_or(0)))
    }

    pub fn start(&self) -> NonNull<u8> {
        match self {
            Memory::Heap(at, _) | Memory::Area(at, _) => *at,
        }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        match self {
            // SAFETY: allocated in `new` with this layout.
            Memory::Heap(at, layout) => unsafe { dealloc(at.as_ptr(), *layout) },
            Memory::Area(_, number) => {
                TAKEN.fetch_and(!(1 << *number), Ordering::Release);
            }
        }
    }
}

impl Areas {
    fn take(&self, number: Option<u32>) -> io::Result<(Memory, u32)> {
        let lacks = |what: String| Err(io::Error::new(io::ErrorKind::ResourceBusy, what));
        loop {
            let taken = TAKEN.load(Ordering::Relaxed);
            let n = number.unwrap_or_else(|| taken.trailing_ones());
            if n >= self.count {
                return lacks(format!("the hosted tree has {} CPUs", self.count));
            }
            if taken & 1 << n != 0 {
                return lacks(format!("CPU {n} of the hosted tree is in use"));
            }
            let new = taken | 1 << n;
            if TAKEN
                .compare_exchange(taken, new, Ordering::Acquire, Ordering::Relaxed)
                .is_ok()
            {
                // SAFETY: inside the areas, as `set_areas` was promised.
                let at = unsafe { self.base.add(n as usize * self.size) };
                return Ok((Memory::Area(at, n), n));
            }
        }
    }
}
