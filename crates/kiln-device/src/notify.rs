//! The file descriptors that the driver and the device use to notify each other.
//!
//! A front end passes these descriptors: eventfds, pipes and sockets. The front end shares their
//! non-blocking flag and may change it at any time. Each read therefore requests non-blocking
//! behaviour explicitly, but writes to these files have no such option. A front end that fills an
//! eventfd's counter can block the queue's thread, and therefore the guest process, which the main
//! process then kills ([`crate::server`]).

use std::fs::File;
use std::io::{self, IoSliceMut, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::{eventfd, EventfdFlags, Timespec};
use rustix::io::{preadv2, Errno, ReadWriteFlags};

/// The descriptor the driver uses to signal available requests.
pub(crate) struct Kick(File);

/// The descriptor the device uses to signal completed requests.
pub(crate) struct Call(File);

fn unblock(file: &File) -> io::Result<()> {
    // SAFETY: the descriptor is open while `file` is borrowed, and neither command takes a pointer.
    let done = unsafe {
        let flags = libc::fcntl(file.as_raw_fd(), libc::F_GETFL);
        flags >= 0 && libc::fcntl(file.as_raw_fd(), libc::F_SETFL, flags | libc::O_NONBLOCK) == 0
    };
    if done {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

impl Kick {
    /// Takes ownership of the file and makes it non-blocking.
    pub(crate) fn new(file: File) -> io::Result<Kick> {
        unblock(&file)?;
        Ok(Kick(file))
    }

    /// Consumes the notification. Returns false if the file cannot deliver notifications, because
    /// it is at end of file or reading fails.
    pub(crate) fn clear(&self) -> bool {
        match read_count(&self.0) {
            Ok(8) => true,
            Ok(_) => false,
            Err(e) => matches!(e, Errno::AGAIN | Errno::INTR),
        }
    }
}

/// Reads a counter without waiting, even if another process has made the file blocking.
fn read_count(file: &File) -> Result<usize, Errno> {
    let mut count = [0; 8];
    let mut parts = [IoSliceMut::new(&mut count)];
    // Offset -1 means the current position; files without positions accept no other offset.
    preadv2(file, &mut parts, u64::MAX, ReadWriteFlags::NOWAIT)
}

impl Call {
    /// Takes ownership of the file and makes it non-blocking.
    pub(crate) fn new(file: File) -> io::Result<Call> {
        unblock(&file)?;
        Ok(Call(file))
    }

    /// Notifies the driver. If the counter is full, earlier notifications are still pending, so
    /// this one can be dropped.
    pub(crate) fn tell(&self) {
        let _ = (&self.0).write(&1u64.to_ne_bytes());
    }
}

/// An eventfd that wakes the main process, or a thread of this process that waits in [`wait`].
pub(crate) struct Bell(File);

impl Bell {
    /// Creates a bell that has not rung.
    pub(crate) fn new() -> io::Result<Bell> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        Ok(Bell(eventfd(0, flags)?.into()))
    }

    pub(crate) fn ring(&self) {
        let _ = (&self.0).write(&1u64.to_ne_bytes());
    }

    /// Resets the bell. Other processes that have the bell cannot make this call block, because a
    /// write to an eventfd copies the number from user memory before it takes the eventfd's lock. A
    /// write to a pipe, in contrast, copies its bytes while it holds the pipe's lock.
    pub(crate) fn clear(&self) {
        let _ = read_count(&self.0);
    }
}

/// Wraps a bell that another process has created.
impl From<OwnedFd> for Bell {
    fn from(bell: OwnedFd) -> Bell {
        Bell(bell.into())
    }
}

impl From<Bell> for OwnedFd {
    fn from(bell: Bell) -> OwnedFd {
        bell.0.into()
    }
}

impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// The events that ended a wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Woken {
    /// The kick descriptor is readable.
    pub kick: bool,
    /// The bell rang.
    pub bell: bool,
}

/// Sleeps until the driver kicks, the bell rings, or `limit` has passed.
pub(crate) fn wait(kick: Option<&Kick>, bell: &Bell, limit: Option<Duration>) -> Woken {
    let watch = |fd| libc::pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    };
    // poll() ignores a negative descriptor.
    let mut fds = [
        watch(bell.as_fd().as_raw_fd()),
        watch(kick.map_or(-1, |kick| kick.0.as_raw_fd())),
    ];
    let limit = limit.map(|limit| libc::timespec {
        tv_sec: limit.as_secs().min(i32::MAX as u64) as libc::time_t,
        tv_nsec: libc::c_long::from(limit.subsec_nanos()),
    });
    let limit = limit.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: both pointers are valid during the call, and the length passed is the array's length.
    unsafe {
        libc::ppoll(
            fds.as_mut_ptr(),
            fds.len() as libc::nfds_t,
            limit,
            std::ptr::null(),
        )
    };
    Woken {
        bell: fds[0].revents != 0,
        kick: fds[1].revents != 0,
    }
}

/// Converts a time limit to the type that poll() takes.
pub(crate) fn timespec(time: Duration) -> Timespec {
    Timespec {
        tv_sec: time.as_secs() as i64,
        tv_nsec: i64::from(time.subsec_nanos()),
    }
}
