//! Allocates the memory of each CPU. By default, a CPU gets its own mapping. Once a kernel tree is
//! loaded, a CPU gets one of the tree's areas, where the tree's per-CPU data follows the CPU's own
//! data. When the CPU is dropped, its mapping is freed, but an area can be used by another CPU.

use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::OnceLock;

use super::memory::Mapping;
use crate::sys::{self, GateFn};

/// Offset in bytes from the start of the CPU's memory to the tree's data. Exported as
/// [`super::Cpu::TAIL`].
pub(super) const TAIL: usize = 0x10_0000;

/// Consecutive areas of the same size, one per CPU. The first is for CPU 0.
#[derive(Clone, Copy, Debug)]
pub struct Areas {
    /// Start of the first area, aligned to 64 bytes.
    pub base: NonNull<u8>,
    /// Size of each area in bytes.
    pub size: usize,
    /// Number of areas, at most 64.
    pub count: u32,
    /// Number of tasks that each CPU must be able to hold.
    pub tasks: usize,
    /// Function called in kernel mode on each CPU after boot. A result other than 0 means failure.
    pub start: GateFn,
}

// SAFETY: the structure contains only addresses and numbers. `TAKEN` ensures that no two CPUs use
// the same area.
unsafe impl Send for Areas {}
// SAFETY: the structure contains only addresses and numbers. `TAKEN` ensures that no two CPUs use
// the same area.
unsafe impl Sync for Areas {}

static AREAS: OnceLock<Areas> = OnceLock::new();

/// One bit for each area that a live CPU uses.
static TAKEN: AtomicU64 = AtomicU64::new(0);

/// Makes CPU n of this process store its data at the start of area n. Must be called once, before
/// the first CPU boots.
///
/// # Safety
/// The areas must be readable and writable until the process ends, and nothing else may use the
/// part of each area before [`super::Cpu::TAIL`]. `start` must be callable through the gate.
pub unsafe fn set_areas(areas: Areas) {
    assert!(areas.size > TAIL && (1..=64).contains(&areas.count));
    assert!(AREAS.set(areas).is_ok(), "areas have been set already");
}

pub(super) fn tasks() -> usize {
    AREAS.get().map_or(0, |a| a.tasks)
}

pub(super) fn start() -> Option<GateFn> {
    AREAS.get().map(|a| a.start)
}

pub(super) enum Memory {
    Own { map: Mapping, tail: usize },
    Area { areas: Areas, number: u32 },
}

impl Memory {
    /// Allocates memory for CPU `number` and returns it with the CPU's actual number. If areas have
    /// been set, the memory is the area with this number or, for `None`, the first free area.
    /// Otherwise, the memory is a new mapping with `tail` bytes after the CPU's own data, `None`
    /// means 0, and several CPUs may have the same number.
    pub(super) fn new(number: Option<u32>, tail: usize) -> io::Result<(Memory, u32)> {
        if let Some(areas) = AREAS.get() {
            return areas.take(number);
        }
        // SAFETY: the function takes no arguments and returns a constant.
        let size = unsafe { sys::kiln_cpu_size() };
        let map = match tail {
            0 => Mapping::data(size)?,
            tail => Mapping::data(TAIL + tail)?,
        };
        Ok((Memory::Own { map, tail }, number.unwrap_or(0)))
    }

    pub(super) fn base(&self) -> NonNull<u8> {
        match self {
            Memory::Own { map, .. } => map.base(),
            // SAFETY: the address is inside the areas. The caller of `set_areas` promised that they
            // are valid.
            Memory::Area { areas, number } => unsafe {
                areas.base.add(*number as usize * areas.size)
            },
        }
    }

    /// Returns the number of bytes available at [`super::Cpu::TAIL`].
    pub(super) fn tail(&self) -> usize {
        match self {
            Memory::Own { tail, .. } => *tail,
            Memory::Area { areas, .. } => areas.size - TAIL,
        }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if let Memory::Area { number, .. } = self {
            TAKEN.fetch_and(!(1 << *number), Ordering::Release);
        }
    }
}

impl Areas {
    fn take(&self, number: Option<u32>) -> io::Result<(Memory, u32)> {
        let busy = |what: String| Err(io::Error::new(io::ErrorKind::ResourceBusy, what));
        loop {
            let taken = TAKEN.load(Ordering::Relaxed);
            let n = number.unwrap_or_else(|| taken.trailing_ones());
            if n >= self.count {
                return busy(format!("the hosted tree has {} CPUs", self.count));
            }
            if taken & 1 << n != 0 {
                return busy(format!("CPU {n} of the hosted tree is in use"));
            }
            let new = taken | 1 << n;
            if TAKEN
                .compare_exchange(taken, new, Ordering::Acquire, Ordering::Relaxed)
                .is_ok()
            {
                let areas = *self;
                return Ok((Memory::Area { areas, number: n }, n));
            }
        }
    }
}
