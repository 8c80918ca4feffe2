//! An end to every wait of the main process.
//!
//! A front end sends descriptors, and the last reference to one of them may be dropped here: with a connection that is turned
//! away before its messages were read, or by reading them from a socket that takes none. To close a TCP socket with
//! `SO_LINGER` is to wait until its peer has taken what was sent, for as long as the front end has said. A signal ends
//! such a wait, and all that follow before its handler runs.

use std::io;
use std::time::Duration;

/// How long the main process may be busy before its waits are cut short.
const PATIENCE: Duration = Duration::from_millis(5);

/// A timer that interrupts this process, which must have one thread.
pub(crate) struct Alarm(());

extern "C" fn ignore(_signal: libc::c_int) {}

impl Alarm {
    /// One that is not set. The signal is this process's own: the programs that it starts do not inherit the timer.
    pub(crate) fn new() -> io::Result<Alarm> {
        // SAFETY: zero is a valid value of all fields, and the handler does nothing.
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

    /// Arms the timer: from now on, waits are interrupted.
    pub(crate) fn set(&self) {
        arm(PATIENCE);
    }

    /// Disarms the timer: later waits are not interrupted.
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
    // SAFETY: the structure outlives the call. It cannot fail: the time is valid.
    unsafe { libc::setitimer(libc::ITIMER_REAL, &timer, std::ptr::null_mut()) };
}
