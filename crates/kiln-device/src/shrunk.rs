//! Guests' memory that goes away: a front end may shrink the file that it shares, and whoever then reads the mapping
//! gets SIGBUS, which ends a process and with it every other guest.
//!
//! Here such a fault puts zeros in place of the region, of this process alone. What its guest's rings say then is checked
//! as all that a guest says is; other guests notice nothing. A fault anywhere else ends the process, as it should.

use std::io;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::error::Error;

/// Regions of all guests together that are watched.
const WATCHED: usize = 4096;

/// `first` is 0 for a free place, `TAKEN` for one that is being written.
struct Place {
    first: AtomicUsize,
    end: AtomicUsize,
}

const TAKEN: usize = usize::MAX;

/// Read in a signal handler: no lock, and no memory that goes.
static PLACES: [Place; WATCHED] = [const {
    Place {
        first: AtomicUsize::new(0),
        end: AtomicUsize::new(0),
    }
}; WATCHED];

/// Faults handled so far.
static MENDED: AtomicUsize = AtomicUsize::new(0);

/// A mapping that may go away; watched for as long as this lives, which must not be longer than the mapping.
pub(crate) struct Watch(usize);

impl Watch {
    /// Watches `len` bytes from `at` on; `None` if the table is full.
    pub(crate) fn new(at: usize, len: usize) -> Option<Watch> {
        PLACES.iter().enumerate().find_map(|(i, place)| {
            place
                .first
                .compare_exchange(0, TAKEN, Ordering::Acquire, Ordering::Relaxed)
                .ok()?;
            place.end.store(at.saturating_add(len), Ordering::Relaxed);
            place.first.store(at, Ordering::Release);
            Some(Watch(i))
        })
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        PLACES[self.0].first.store(0, Ordering::Release);
    }
}

/// Faults handled so far, in the memory of all guests.
pub(crate) fn count_faults() -> usize {
    MENDED.load(Ordering::Relaxed)
}

/// The region that this address is of: its first byte, and the one behind it.
fn watched(at: usize) -> Option<(usize, usize)> {
    PLACES.iter().find_map(|place| {
        let first = place.first.load(Ordering::Acquire);
        let end = place.end.load(Ordering::Relaxed);
        (first != 0 && first <= at && at < end).then_some((first, end))
    })
}

extern "C" fn mend(_signal: libc::c_int, info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    // SAFETY: the kernel fills it for a handler with SA_SIGINFO; SIGBUS has an address.
    let at = unsafe { (*info).si_addr() } as usize;
    // SAFETY: errno of this thread, which the interrupted code may be about to read.
    let errno = unsafe { *libc::__errno_location() };
    let there = watched(at).map(|(first, end)| {
        // SAFETY: a guest's mapping is replaced by another, which nobody in this process counts on to keep its bytes.
        unsafe {
            libc::mmap(
                first as *mut libc::c_void,
                end - first,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_FIXED | libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        }
    });
    if there.is_none_or(|there| there == libc::MAP_FAILED) {
        // SAFETY: the default action, which the instruction meets when it is tried again.
        unsafe { libc::signal(libc::SIGBUS, libc::SIG_DFL) };
    } else {
        MENDED.fetch_add(1, Ordering::Relaxed);
    }
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
}

/// Installs the handler: from now on a fault in watched memory maps zeros there.
pub(crate) fn install() -> Result<(), Error> {
    // SAFETY: all-zero is a valid sigaction; the handler calls nothing but system calls.
    let done = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) = mend;
        action.sa_sigaction = handler as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        libc::sigaction(libc::SIGBUS, &action, ptr::null_mut())
    };
    match done {
        0 => Ok(()),
        _ => Err(Error::lacks(
            "a handler of SIGBUS",
            io::Error::last_os_error(),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_given_back() {
        let watch = Watch::new(0x1000, 0x2000).unwrap();
        let whole = Some((0x1000, 0x3000));
        assert_eq!((watched(0x1000), watched(0x2fff)), (whole, whole));
        assert_eq!((watched(0xfff), watched(0x3000)), (None, None));
        drop(watch);
        assert_eq!(watched(0x1000), None);
    }
}
