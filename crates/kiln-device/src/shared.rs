//! Memory that a guest process shares with the main process: an array of numbers.
//!
//! A process that was taken over can write any value at any time, but must not be able to make the
//! main process wait. Both processes therefore map the memory before a guest is handed over, and do
//! not keep a descriptor for it. With a descriptor, a process or a front end could remove pages
//! from the file and then hold locks that block any access to a removed page. All pages are
//! allocated when they are mapped.

use std::fs::File;
use std::io;
use std::ptr::{null_mut, NonNull};
use std::sync::atomic::AtomicU64;

use rustix::fs::{fcntl_add_seals, fstat, memfd_create, MemfdFlags, SealFlags};
use rustix::mm::{mmap, munmap, MapFlags, ProtFlags};

pub(crate) struct Shared {
    first: NonNull<AtomicU64>,
    cells: usize,
}

// SAFETY: the mapping belongs to this value, and its cells are atomic.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

impl Shared {
    /// Creates zeroed memory. Also returns the memory's file, which another process can map.
    pub(crate) fn create(cells: usize) -> io::Result<(Shared, File)> {
        let file = File::from(memfd_create(
            "kiln-shared",
            MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING,
        )?);
        file.set_len((cells * size_of::<AtomicU64>()) as u64)?;
        fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        Ok((Shared::map(&file)?, file))
    }

    /// Maps a file that another process has created with [`Shared::create`].
    pub(crate) fn map(file: &File) -> io::Result<Shared> {
        let bytes = usize::try_from(fstat(file)?.st_size).unwrap_or(0);
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::SHARED | MapFlags::POPULATE;
        // SAFETY: the kernel chooses the address of the new mapping.
        let first = unsafe { mmap(null_mut(), bytes, access, flags, file, 0) }?;
        Ok(Shared {
            first: NonNull::new(first.cast()).ok_or(io::ErrorKind::OutOfMemory)?,
            cells: bytes / size_of::<AtomicU64>(),
        })
    }

    /// Returns the number at an index. Panics if the index is out of range.
    pub(crate) fn cell(&self, index: usize) -> &AtomicU64 {
        assert!(index < self.cells);
        // SAFETY: the cell is in the mapping, which exists as long as `self`, and the cell is
        // aligned because the mapping starts at a page boundary.
        unsafe { self.first.add(index).as_ref() }
    }

    #[cfg(test)]
    pub(crate) fn fill(&self, value: u64) {
        let all = (0..self.cells).map(|index| self.cell(index));
        all.for_each(|cell| cell.store(value, std::sync::atomic::Ordering::Relaxed));
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: this value owns the mapping and is being dropped, so no references to it exist.
        let _ = unsafe {
            munmap(
                self.first.as_ptr().cast(),
                self.cells * size_of::<AtomicU64>(),
            )
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering;

    #[test]
    fn both_sides_see_all_cells_and_the_file_keeps_its_size() {
        let (ours, file) = Shared::create(1000).unwrap();
        let theirs = Shared::map(&file).unwrap();
        for index in 0..1000 {
            ours.cell(index).store(7 + index as u64, Ordering::Relaxed);
            assert_eq!(theirs.cell(index).load(Ordering::Relaxed), 7 + index as u64);
        }
        assert!(file.set_len(0).is_err(), "it is sealed");
        assert!(std::panic::catch_unwind(|| ours.cell(1000).load(Ordering::Relaxed)).is_err());
    }

    /// All pages are present from the beginning.
    #[test]
    fn no_access_needs_a_page_fault() {
        const CELLS: usize = 1 << 20;
        let faults = || {
            // SAFETY: the call writes only to the structure, for which all zeros are a valid value.
            unsafe {
                let mut usage: libc::rusage = std::mem::zeroed();
                assert_eq!(libc::getrusage(libc::RUSAGE_THREAD, &mut usage), 0);
                usage.ru_minflt
            }
        };
        let touch = |shared: &Shared| {
            let before = faults();
            for index in (0..CELLS).step_by(512) {
                shared.cell(index).store(1, Ordering::Relaxed);
            }
            faults() - before
        };
        let (shared, file) = Shared::create(CELLS).unwrap();
        assert!(touch(&shared) < 10);
        // Control: in an ordinary mapping of the same file, accesses fault.
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let bytes = CELLS * size_of::<AtomicU64>();
        // SAFETY: the kernel chooses the address of the new mapping.
        let plain = unsafe { mmap(null_mut(), bytes, access, MapFlags::SHARED, &file, 0) }.unwrap();
        let plain = Shared {
            first: NonNull::new(plain.cast()).unwrap(),
            cells: CELLS,
        };
        assert!(touch(&plain) > 10);
    }
}
