//! For tests: a page of memory that blocks every thread that accesses it, like a page of a file
//! whose server does not answer. The page is withheld with userfaultfd. When the descriptor is
//! closed, the page becomes accessible, so no thread stays blocked.

use std::fs::File;
use std::io::Write;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::thread::{self, JoinHandle};

const SIZE: usize = 4096;
const UFFDIO_API: libc::c_ulong = 0xc018_aa3f;
const UFFDIO_REGISTER: libc::c_ulong = 0xc020_aa00;
const API: u64 = 0xaa;
const MISSING: u64 = 1;

pub(crate) struct Page {
    faults: OwnedFd,
    /// The address of the page, which is never unmapped.
    address: usize,
}

impl Page {
    /// Returns `None` if this process may not use userfaultfd.
    pub(crate) fn new() -> Option<Page> {
        let flags = libc::O_CLOEXEC | libc::O_NONBLOCK;
        // SAFETY: only this value owns the new descriptor, and both structures outlive the calls
        // that use them.
        unsafe {
            let fd = libc::syscall(libc::SYS_userfaultfd, flags);
            if fd < 0 {
                return None;
            }
            let faults = OwnedFd::from_raw_fd(fd as i32);
            let private = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let access = libc::PROT_READ | libc::PROT_WRITE;
            let page = libc::mmap(std::ptr::null_mut(), SIZE, access, private, -1, 0);
            assert_ne!(page, libc::MAP_FAILED);
            let mut api = [API, 0, 0];
            let mut range = [page as u64, SIZE as u64, MISSING, 0];
            let fd = faults.as_raw_fd();
            let done = libc::ioctl(fd, UFFDIO_API, api.as_mut_ptr()) == 0
                && libc::ioctl(fd, UFFDIO_REGISTER, range.as_mut_ptr()) == 0;
            let address = page as usize;
            done.then_some(Page { faults, address })
        }
    }

    /// Starts a thread that writes the first bytes of the page to a file. Returns once the thread
    /// is waiting for the page. The thread continues when this `Page` is dropped.
    pub(crate) fn write_to(&self, file: OwnedFd) -> JoinHandle<()> {
        // SAFETY: the mapping has at least this many bytes, and nothing writes to it.
        let bytes = unsafe { std::slice::from_raw_parts(self.address as *const u8, 8) };
        let thread = thread::spawn(move || {
            let _ = File::from(file).write(bytes);
        });
        let mut faults = libc::pollfd {
            fd: self.faults.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: the structure outlives the call.
        assert_eq!(unsafe { libc::poll(&mut faults, 1, -1) }, 1);
        thread
    }
}
