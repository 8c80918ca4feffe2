//! Memory shared by the driver and the device.
//!
//! The device may write to all of this memory at any time, so the driver keeps no private state in
//! it and reads each value only once. The file is sealed, because a device that shrank it would
//! kill the driver with SIGBUS.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::{fcntl_add_seals, ftruncate, memfd_create, MemfdFlags, SealFlags};
use vm_memory::mmap::MmapRegionBuilder;
use vm_memory::{AtomicAccess, Bytes, FileOffset, MmapRegion, VolatileMemory};

use crate::error::Error;

/// Start address of the memory as the device sees it. It is not 0, so that an unwritten address is
/// invalid.
pub(crate) const GUEST_BASE: u64 = 1 << 20;
/// Alignment of blocks: one cache line, so that two blocks never share a line.
const LINE: usize = 64;

/// A block of shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    /// Offset in bytes from the start of the memory.
    pub offset: usize,
    /// Size in bytes.
    pub len: usize,
}

impl Span {
    /// Returns the block's address as the device sees it.
    pub(crate) fn guest(self) -> u64 {
        GUEST_BASE + self.offset as u64
    }

    /// Returns the `len` bytes that start at offset `from` within the span.
    ///
    /// # Panics
    /// Panics if the span is too short.
    pub(crate) fn part(self, from: usize, len: usize) -> Span {
        assert!(from <= self.len && len <= self.len - from);
        Span {
            offset: self.offset + from,
            len,
        }
    }
}

struct Free {
    /// Offset of the first byte that has never been allocated.
    next: usize,
    /// Offsets of freed blocks, by block size.
    returned: BTreeMap<usize, Vec<usize>>,
}

/// A sealed and mapped memory file, with an allocator for blocks in it.
pub(crate) struct Memory {
    region: MmapRegion,
    file: File,
    free: Mutex<Free>,
}

impl Memory {
    /// Creates `len` bytes of zeroed memory.
    ///
    /// # Errors
    /// [`Error::Resource`] if the host refuses the memory.
    pub(crate) fn new(len: usize) -> Result<Arc<Memory>, Error> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let fd = memfd_create("virtio-crypto", flags).map_err(Error::resource("shared memory"))?;
        let len = len.next_multiple_of(4096);
        ftruncate(&fd, len as u64).map_err(Error::resource("shared memory"))?;
        let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
        fcntl_add_seals(&fd, seals).map_err(Error::resource("shared memory"))?;
        let file = File::from(fd);
        let shared = file.try_clone().map_err(Error::resource("shared memory"))?;
        let region = MmapRegionBuilder::new(len)
            .with_file_offset(FileOffset::new(shared, 0))
            .with_mmap_prot(libc::PROT_READ | libc::PROT_WRITE)
            // Populate the mapping now, so that the first requests do not cause page faults.
            .with_mmap_flags(libc::MAP_SHARED | libc::MAP_POPULATE)
            .build()
            .map_err(Error::resource("shared memory"))?;
        Ok(Arc::new(Memory {
            region,
            file,
            free: Mutex::new(Free {
                next: 0,
                returned: BTreeMap::new(),
            }),
        }))
    }

    /// Returns the size in bytes.
    pub(crate) fn size(&self) -> usize {
        self.region.size()
    }

    /// Returns the file to send to the device.
    pub(crate) fn fd(&self) -> RawFd {
        self.file.as_raw_fd()
    }

    /// Returns the start address of the mapping in this process.
    pub(crate) fn host_base(&self) -> u64 {
        self.region.as_ptr() as u64
    }

    /// Returns a block's address in this process. vhost-user refers to rings by such addresses.
    pub(crate) fn host(&self, span: Span) -> u64 {
        self.host_base() + span.offset as u64
    }

    /// Allocates a block aligned to `align` bytes.
    ///
    /// # Errors
    /// [`Error::Full`] if the memory is exhausted.
    pub(crate) fn take(&self, len: usize, align: usize) -> Result<Span, Error> {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let rounded = len.max(1).next_multiple_of(LINE);
        if let Some(list) = free.returned.get_mut(&rounded) {
            if let Some(at) = list.iter().position(|offset| offset % align == 0) {
                let offset = list.swap_remove(at);
                return Ok(Span { offset, len });
            }
        }
        let offset = free.next.next_multiple_of(align.max(LINE));
        let end = offset.checked_add(rounded).ok_or(Error::Full)?;
        if end > self.size() {
            return Err(Error::Full);
        }
        free.next = end;
        Ok(Span { offset, len })
    }

    /// Frees a block. Neither the driver nor the device may use it afterwards.
    pub(crate) fn give_back(&self, span: Span) {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let rounded = span.len.max(1).next_multiple_of(LINE);
        free.returned.entry(rounded).or_default().push(span.offset);
    }

    /// Writes to the start of a block.
    ///
    /// # Panics
    /// Panics if `bytes` is longer than the block.
    pub(crate) fn write(&self, span: Span, bytes: &[u8]) {
        assert!(bytes.len() <= span.len);
        self.region
            .as_volatile_slice()
            .write_slice(bytes, span.offset)
            .expect("blocks are inside the mapping");
    }

    /// Reads from the start of a block.
    ///
    /// # Panics
    /// Panics if `bytes` is longer than the block.
    pub(crate) fn read(&self, span: Span, bytes: &mut [u8]) {
        assert!(bytes.len() <= span.len);
        self.region
            .as_volatile_slice()
            .read_slice(bytes, span.offset)
            .expect("blocks are inside the mapping");
    }

    /// Atomically reads one word of the memory.
    pub(crate) fn load<T: AtomicAccess>(&self, offset: usize, order: Ordering) -> T {
        let slice = self.region.as_volatile_slice();
        slice
            .load(offset, order)
            .expect("rings are inside the mapping")
    }

    /// Atomically writes one word of the memory.
    pub(crate) fn store<T: AtomicAccess>(&self, offset: usize, value: T, order: Ordering) {
        let slice = self.region.as_volatile_slice();
        slice
            .store(value, offset, order)
            .expect("rings are inside the mapping");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_apart_and_come_back() {
        let memory = Memory::new(8192).unwrap();
        let a = memory.take(100, 1).unwrap();
        let b = memory.take(100, 4096).unwrap();
        assert!(a.offset + 128 <= b.offset && b.offset % 4096 == 0);
        memory.write(a, &[7; 100]);
        memory.write(b, &[9; 100]);
        let mut back = [0; 100];
        memory.read(a, &mut back);
        assert_eq!(back, [7; 100]);
        memory.give_back(a);
        assert_eq!(memory.take(90, 1).unwrap().offset, a.offset);
        assert!(matches!(memory.take(8192, 1), Err(Error::Full)));
    }

    #[test]
    fn the_other_side_cannot_shrink_it() {
        let memory = Memory::new(4096).unwrap();
        assert!(memory.file.set_len(0).is_err());
        assert!(memory.file.set_len(1 << 20).is_err());
    }
}
