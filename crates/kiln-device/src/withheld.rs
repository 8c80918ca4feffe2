//! For tests: a page of memory that never arrives, as from a file system whose server does not
//! answer. userfaultfd does this without leaving anything behind: the page arrives when the
//! descriptor is closed.

use std::fs::File;
use std::io::Write;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::thread::{self, JoinHandle};

use rustix::event::{poll, PollFd, PollFlags};

const SIZE: usize = 4096;
const UFFDIO_API: libc::c_ulong = 0xc018_aa3f;
const UFFDIO_REGISTER: libc::c_ulong = 0xc020_aa00;
const API: u64 = 0xaa;
const MISSING: u64 = 1;

pub(crate) struct Page {
    faults: OwnedFd,
    bytes: &'static [u8],
}

impl Page {
    /// Returns `None` if this process may not use userfaultfd.
    pub(crate) fn new() -> Option<Page> {
        let flags = libc::O_CLOEXEC | libc::O_NONBLOCK;
        // SAFETY: the new descriptor is owned here only. The new mapping is never unmapped, and both
        // structures outlive the calls that use them.
        unsafe {
            let fd = libc::syscall(libc::SYS_userfaultfd, flags);
            if fd < 0 {
                return None;
            }
            let faults = OwnedFd::from_raw_fd(fd as i32);
            let private = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let page = libc::mmap(std::ptr::null_mut(), SIZE, libc::PROT_READ, private, -1, 0);
            assert_ne!(page, libc::MAP_FAILED);
            let mut api = [API, 0, 0];
            let mut range = [page as u64, SIZE as u64, MISSING, 0];
            let fd = faults.as_raw_fd();
            let done = libc::ioctl(fd, UFFDIO_API, api.as_mut_ptr()) == 0
                && libc::ioctl(fd, UFFDIO_REGISTER, range.as_mut_ptr()) == 0;
            let bytes = std::slice::from_raw_parts(page.cast(), SIZE);
            done.then_some(Page { faults, bytes })
        }
    }

    /// Starts a thread that writes the first bytes of the page to a file. Returns when the thread
    /// waits for the page. The thread continues when this value is dropped.
    pub(crate) fn write_to(&self, file: OwnedFd) -> JoinHandle<()> {
        let bytes = &self.bytes[..8];
        let thread = thread::spawn(move || {
            let _ = File::from(file).write(bytes);
        });
        assert_eq!(
            poll(&mut [PollFd::new(&self.faults, PollFlags::IN)], None),
            Ok(1)
        );
        thread
    }
}
