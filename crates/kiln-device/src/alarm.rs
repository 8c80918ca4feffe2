//! Limits every wait of the main process.
//!
//! Front ends send file descriptors, and this process may drop the last reference to one, either by rejecting a
//! connection before reading its messages or by reading messages from a socket that accepts no descriptors. Closing a
//! TCP socket with `SO_LINGER` set waits until its peer has received all data, for as long as the front end has chosen.
//! A signal interrupts that wait, and any that follow before its handler runs.

use std::io;
use std::time::Duration;

/// How long the main process may be busy before its waits are interrupted.
const PATIENCE: Duration = Duration::from_millis(5);

/// A timer that interrupts this process, which must be single-threaded.
pub(crate) struct Alarm(());

extern "C" fn ignore(_signal: libc::c_int) {}

impl Alarm {
    /// Creates a disarmed timer. Programs that this process starts do not inherit it.
    pub(crate) fn new() -> io::Result<Alarm> {
        // SAFETY: all-zero is a valid value, and the handler does nothing.
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
    // SAFETY: the structure outlives the call, which cannot fail because the time is valid.
    unsafe { libc::setitimer(libc::ITIMER_REAL, &timer, std::ptr::null_mut()) };
}
