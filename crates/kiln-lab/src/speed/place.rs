//! Memory for messages, in large pages where the host gives them.
//!
//! A set of long messages takes half of a second-level cache. In small pages it depends on where the host happened to
//! put each of them how many lines share a set of the cache: AES-GCM of 16 KiB took 0.155 or 0.20 cycles a byte, from one
//! process to the next. In a large page neighbours are neighbours.

use std::io;
use std::ptr::{null_mut, NonNull};
use std::sync::{Arc, Mutex, PoisonError};

/// A large page.
const LARGE: usize = 2 << 20;
/// What is asked of the host at once: sets share it, so that small ones cost what they need.
const CHUNK: usize = 4 * LARGE;
/// Page; also the distance at which processors mistake a store for a load's.
pub const PAGE: usize = 4096;

/// A piece of the address space, given back when nobody has a part of it any more.
#[derive(Debug)]
struct Chunk {
    mapped: NonNull<u8>,
    bytes: usize,
    /// From here on it is used.
    start: NonNull<u8>,
}

// SAFETY: it is memory; each part is given to one owner.
unsafe impl Send for Chunk {}
// SAFETY: the same.
unsafe impl Sync for Chunk {}

impl Chunk {
    /// At least so many bytes, all zero, from the beginning of a large page on.
    fn new(bytes: usize) -> Chunk {
        let bytes = bytes.next_multiple_of(LARGE) + LARGE;
        // SAFETY: new memory, nobody's address.
        let mapped = unsafe {
            libc::mmap(
                null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        assert!(
            mapped != libc::MAP_FAILED,
            "no memory for {bytes} bytes of messages: {}",
            io::Error::last_os_error()
        );
        // SAFETY: the mapping. A host that has no large pages to give goes on with small ones.
        unsafe { libc::madvise(mapped, bytes, libc::MADV_HUGEPAGE) };
        let mapped = NonNull::new(mapped.cast::<u8>()).expect("not at zero");
        let start = mapped.as_ptr().align_offset(LARGE);
        Chunk {
            mapped,
            bytes,
            // SAFETY: the mapping is a large page longer than what was asked for.
            start: unsafe { mapped.add(start) },
        }
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        // SAFETY: mapped so, and no part is used any more.
        unsafe { libc::munmap(self.mapped.as_ptr().cast(), self.bytes) };
    }
}

/// The chunk that parts are taken of, and how much of it is taken.
static CURRENT: Mutex<Option<(Arc<Chunk>, usize)>> = Mutex::new(None);

/// Bytes whose first lies at a chosen place in its page.
#[derive(Debug)]
pub struct Placed {
    _chunk: Arc<Chunk>,
    at: NonNull<u8>,
    /// How many.
    pub len: usize,
}

// SAFETY: it is the only owner of its bytes.
unsafe impl Send for Placed {}
// SAFETY: the same; who has it shared only reads.
unsafe impl Sync for Placed {}

impl Placed {
    /// So many bytes of this value.
    pub fn new(len: usize, in_page: usize, fill: u8) -> Placed {
        let room = (in_page + len).next_multiple_of(PAGE);
        let mut current = CURRENT.lock().unwrap_or_else(PoisonError::into_inner);
        let (chunk, taken) = match current.take() {
            Some((chunk, taken)) if taken + room <= CHUNK => (chunk, taken),
            _ => (Arc::new(Chunk::new(CHUNK.max(room))), 0),
        };
        *current = Some((chunk.clone(), taken + room));
        drop(current);
        let mut placed = Placed {
            // SAFETY: within the chunk; nobody else is given these bytes.
            at: unsafe { chunk.start.add(taken + in_page) },
            _chunk: chunk,
            len,
        };
        placed.bytes_mut().fill(fill);
        placed
    }

    /// They.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: its own bytes, which were zeroed and filled.
        unsafe { std::slice::from_raw_parts(self.at.as_ptr(), self.len) }
    }

    /// They, to be changed.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: the same, and nobody else has them.
        unsafe { std::slice::from_raw_parts_mut(self.at.as_ptr(), self.len) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_placed_and_apart() {
        let mut all: Vec<Placed> = [1, 100, PAGE, 3 * CHUNK, 64, CHUNK - 10]
            .into_iter()
            .enumerate()
            .map(|(i, len)| Placed::new(len, 64 * i, i as u8))
            .collect();
        for (i, placed) in all.iter().enumerate() {
            assert_eq!(placed.bytes().as_ptr() as usize % PAGE, 64 * i);
            assert!(placed.bytes().iter().all(|b| *b == i as u8), "{i}");
        }
        let last = all.len() - 1;
        all[last].bytes_mut().fill(0xff);
        all.remove(3);
        for (i, placed) in all[..last - 1].iter().enumerate() {
            let value = if i < 3 { i } else { i + 1 } as u8;
            assert!(placed.bytes().iter().all(|b| *b == value), "{i}");
        }
    }
}
