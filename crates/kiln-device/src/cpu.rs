//! The CPU time that a process has used, for a guest's rate limit, for metrics, and for programs
//! that measure a device.

use std::time::Duration;

/// Returns the CPU time that all threads of a process have used so far, including those that have
/// exited. Returns `None` if the process has exited.
pub fn cpu_time(process: u32) -> Option<Duration> {
    let mut clock = 0;
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: both calls write only to structures that outlive the calls, and keep no pointers.
    let done = unsafe {
        libc::clock_getcpuclockid(process as libc::pid_t, &mut clock) == 0
            && libc::clock_gettime(clock, &mut time) == 0
    };
    done.then(|| Duration::new(time.tv_sec as u64, time.tv_nsec as u32))
}
