//! Limits how long a system call can block the main process.
//!
//! Front ends send file descriptors, and the main process may drop the last reference to one: when
//! it rejects a connection without reading its messages, or when it reads from a socket on which it
//! expects no descriptors. Closing a TCP socket with `SO_LINGER` set blocks until the remote side
//! has received all data, for as long as the front end has chosen. A signal interrupts such a wait
//! and every further wait that begins before the signal handler runs.

use std::io;
use std::time::Duration;

/// How long the main process may be busy before the timer interrupts its waits for the first time,
/// and the interval between further interruptions.
const PATIENCE: Duration = Duration::from_millis(5);

/// A timer that interrupts system calls of this process, which must be single-threaded.
pub(crate) struct Alarm(());

extern "C" fn ignore(_signal: libc::c_int) {}

impl Alarm {
    /// Creates a disarmed timer. Programs that this process starts do not inherit it.
    pub(crate) fn new() -> io::Result<Alarm> {
        // SAFETY: an all-zero sigaction is valid, the structure outlives the call, and the signal
        // handler does nothing.
        let done = unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = ignore as extern "C" fn(libc::c_int) as usize;
            libc::sigaction(libc::SIGALRM, &action, std::ptr::null_mut())
        };
        match done {
            0 => Ok(Alarm(())),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Arms the timer, which then interrupts waits every [`PATIENCE`].
    pub(crate) fn set(&self) {
        arm(PATIENCE);
    }

    /// Disarms the timer.
    pub(crate) fn clear(&self) {
        arm(Duration::ZERO);
    }
}

fn arm(period: Duration) {
    let time = libc::timeval {
        tv_sec: 0,
        tv_usec: libc::suseconds_t::from(period.subsec_micros()),
    };
    let timer = libc::itimerval {
        it_interval: time,
        it_value: time,
    };
    // SAFETY: `timer` outlives the call, and a null pointer for the old value is allowed. The call
    // cannot fail because the time is valid.
    unsafe { libc::setitimer(libc::ITIMER_REAL, &timer, std::ptr::null_mut()) };
}
