//! A buffer between two inaccessible pages. Every byte outside the data is poisoned.

use std::fmt;
use std::io;
use std::ptr;

/// Size of a page on x86-64.
pub const PAGE: usize = 4096;

/// Value of every byte outside the data.
pub const POISON: u8 = 0xa5;

/// Minimum number of poisoned bytes that are checked on each side of the data, unless the guard
/// page is nearer. Poison is always checked up to the boundary of the page in which the data begins
/// or ends.
const LEAST: usize = 256;

static PATTERN: [u8; PAGE] = [POISON; PAGE];

/// Returns the position of the first byte that is not poison. Whole pages are compared first,
/// because almost all bytes are poison.
pub(super) fn find_stray(bytes: &[u8]) -> Option<usize> {
    let page = bytes
        .chunks(PAGE)
        .position(|page| page != &PATTERN[..page.len()])?;
    let bytes = &bytes[page * PAGE..];
    let stray = bytes.iter().position(|b| *b != POISON)?;
    Some(page * PAGE + stray)
}

/// Position of data in the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The last byte is directly before the upper guard page.
    End,
    /// The first byte is this many bytes after the lower guard page.
    At(usize),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::End => f.write_str("end at guard"),
            Place::At(n) => write!(f, "offset {n}"),
        }
    }
}

/// The position of `len` bytes of data, `offset` bytes after the lower guard page.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    offset: usize,
    len: usize,
}

/// The position of an overwritten poison byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stray {
    /// This many bytes before the data; 1 is the adjacent byte.
    Before(usize),
    /// This many bytes after the data; 1 is the adjacent byte.
    After(usize),
}

impl fmt::Display for Stray {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Stray::Before(n) => write!(f, "wrote {n} byte(s) before the start"),
            Stray::After(n) => write!(f, "wrote {n} byte(s) past the end"),
        }
    }
}

/// Readable and writable pages with a guard page on each side. The buffer hands out raw pointers,
/// and creates slices only while it copies or compares.
pub struct Guarded {
    first: *mut u8,
    len: usize,
}

// SAFETY: the value is the only owner of the mapping, and the mapping is not tied to a thread.
unsafe impl Send for Guarded {}

impl Guarded {
    /// Creates a buffer for at least `len` bytes and fills it with poison.
    pub fn new(len: usize) -> io::Result<Guarded> {
        let len = len.div_ceil(PAGE).max(1) * PAGE;
        // SAFETY: this creates a new anonymous mapping at an address that the kernel chooses, so it
        // replaces no other mapping.
        let map = unsafe {
            libc::mmap(
                ptr::null_mut(),
                len + 2 * PAGE,
                libc::PROT_NONE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if map == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let buffer = Guarded {
            first: map.cast::<u8>().wrapping_add(PAGE),
            len,
        };
        // SAFETY: these pages are inside the mapping, between its first and its last page.
        let opened =
            unsafe { libc::mprotect(buffer.first.cast(), len, libc::PROT_READ | libc::PROT_WRITE) };
        if opened != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: these `len` bytes were made writable above.
        unsafe { ptr::write_bytes(buffer.first, POISON, len) };
        Ok(buffer)
    }

    /// Returns the first address after the lower guard page and the address of the upper guard
    /// page.
    pub fn range(&self) -> (usize, usize) {
        (self.first as usize, self.first as usize + self.len)
    }

    /// Returns the span of `len` bytes at `place`. Panics if they do not fit.
    pub fn place(&self, len: usize, place: Place) -> Span {
        let offset = match place {
            Place::End => self.len.checked_sub(len).expect("fits"),
            Place::At(n) => n,
        };
        assert!(offset + len <= self.len, "{len} bytes at {place}: no room");
        Span { offset, len }
    }

    /// Returns the address of a span, which can be passed to tested code.
    pub fn ptr(&self, span: Span) -> *mut u8 {
        self.first.wrapping_add(span.offset)
    }

    pub fn write(&mut self, span: Span, data: &[u8]) {
        assert_eq!(data.len(), span.len);
        // SAFETY: `place` checked that the span is inside the accessible pages. `data` is a
        // separate slice, which cannot overlap these pages.
        unsafe { ptr::copy_nonoverlapping(data.as_ptr(), self.ptr(span), span.len) };
    }

    /// Fills a span with poison.
    pub fn wipe(&mut self, span: Span) {
        self.fill(span, POISON);
    }

    pub fn fill(&mut self, span: Span, byte: u8) {
        // SAFETY: `place` checked that the span is inside the accessible pages.
        unsafe { ptr::write_bytes(self.ptr(span), byte, span.len) };
    }

    /// Returns a span's content.
    pub fn bytes(&self, span: Span) -> &[u8] {
        // SAFETY: the span is inside the accessible pages, which `new` initialised. Tested code
        // writes to these pages only while it is being called, and no caller keeps the returned
        // slice across such a call.
        unsafe { std::slice::from_raw_parts(self.ptr(span), span.len) }
    }

    /// Checks that the poison on both sides of a span is intact.
    pub fn check(&self, span: Span) -> Result<(), Stray> {
        let end = span.offset + span.len;
        let before = (span.offset % PAGE).max(LEAST).min(span.offset);
        let after = (end.next_multiple_of(PAGE) - end)
            .max(LEAST)
            .min(self.len - end);
        let low = self.bytes(Span {
            offset: span.offset - before,
            len: before,
        });
        if find_stray(low).is_some() {
            let nearest = low.iter().rev().position(|b| *b != POISON);
            return Err(Stray::Before(1 + nearest.unwrap_or(0)));
        }
        let high = self.bytes(Span {
            offset: end,
            len: after,
        });
        if let Some(nearest) = find_stray(high) {
            return Err(Stray::After(1 + nearest));
        }
        Ok(())
    }

    /// Refills the whole buffer with poison, which is necessary after stray writes.
    pub fn reset(&mut self) {
        self.wipe(Span {
            offset: 0,
            len: self.len,
        });
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // SAFETY: this is the whole mapping created in `new`, and nothing refers to it after the
        // drop.
        unsafe {
            libc::munmap(self.first.wrapping_sub(PAGE).cast(), self.len + 2 * PAGE);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_ends_and_begins_at_the_guards() {
        let buffer = Guarded::new(5000).unwrap();
        let (low, high) = buffer.range();
        assert_eq!(high - low, 2 * PAGE);
        assert_eq!(buffer.ptr(buffer.place(33, Place::End)) as usize + 33, high);
        assert_eq!(buffer.ptr(buffer.place(33, Place::At(0))) as usize, low);
    }

    #[test]
    fn strays_are_found_near_and_far() {
        let mut buffer = Guarded::new(PAGE).unwrap();
        for (place, stray, want) in [
            (Place::At(100), 99, Stray::Before(1)),
            (Place::At(100), 0, Stray::Before(100)),
            (Place::At(100), 132, Stray::After(1)),
            (Place::At(100), PAGE - 1, Stray::After(PAGE - 132)),
            (Place::End, 0, Stray::Before(PAGE - 32)),
            (Place::At(0), 32, Stray::After(1)),
        ] {
            let span = buffer.place(32, place);
            buffer.write(span, &[1; 32]);
            assert_eq!(buffer.check(span), Ok(()));
            buffer.write(buffer.place(1, Place::At(stray)), &[0]);
            assert_eq!(buffer.check(span), Err(want), "{place}");
            buffer.reset();
        }
    }

    #[test]
    fn the_first_stray_is_found_in_any_page() {
        let mut bytes = vec![POISON; 3 * PAGE + 5];
        assert_eq!(find_stray(&bytes), None);
        for at in [3 * PAGE + 4, 2 * PAGE, PAGE - 1, 0] {
            bytes[at] = 0;
            assert_eq!(find_stray(&bytes), Some(at));
        }
        assert_eq!(find_stray(&[]), None);
    }

    /// Checks that a stray write is detected even beyond a page boundary.
    #[test]
    fn a_page_boundary_hides_nothing() {
        let mut buffer = Guarded::new(3 * PAGE).unwrap();
        let span = buffer.place(32, Place::At(2 * PAGE - 32));
        buffer.write(buffer.place(1, Place::At(2 * PAGE + 15)), &[0]);
        assert_eq!(buffer.check(span), Err(Stray::After(16)));
    }
}
