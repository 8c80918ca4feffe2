//! Keys stay in memory: nothing of this process is swapped out, and none of it gets into a core dump.
//!
//! Guests' memory is the exception. It is the front end's, which decides about it, and it would count against the limit
//! of what may be locked.

use std::io;

use crate::error::Error;

/// Whether memory is locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Locked {
    /// All that is touched stays.
    All,
    /// The limit of locked memory would also limit guests' memory, so nothing is locked.
    Limited(u64),
}

fn check(done: libc::c_int, what: &'static str) -> Result<(), Error> {
    match done {
        0 => Ok(()),
        _ => Err(Error::lacks(what, io::Error::last_os_error())),
    }
}

/// Locks what this process has and will have.
pub(crate) fn lock() -> Result<Locked, Error> {
    // SAFETY: no pointers.
    let done = unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0) };
    check(done, "core dumps cannot be turned off")?;
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: `limit` is what the call fills.
    let done = unsafe { libc::getrlimit(libc::RLIMIT_MEMLOCK, &mut limit) };
    check(done, "the limit of locked memory")?;
    if limit.rlim_max == libc::RLIM_INFINITY {
        limit.rlim_cur = limit.rlim_max;
        // SAFETY: `limit` is read only.
        let done = unsafe { libc::setrlimit(libc::RLIMIT_MEMLOCK, &limit) };
        check(done, "the limit of locked memory")?;
    } else if !may_lock_all() {
        return Ok(Locked::Limited(limit.rlim_cur));
    }
    // Pages are locked when they are touched: stacks and scratch are larger than what is used of them.
    let all = libc::MCL_CURRENT | libc::MCL_FUTURE | libc::MCL_ONFAULT;
    // SAFETY: no pointers; a mapping that cannot be locked fails, which its maker sees.
    let done = unsafe { libc::mlockall(all) };
    check(done, "memory cannot be locked")?;
    Ok(Locked::All)
}

/// Whether the limit does not count for this process (`CAP_IPC_LOCK`).
fn may_lock_all() -> bool {
    const CAP_IPC_LOCK: u32 = 14;
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    status
        .lines()
        .find_map(|line| u64::from_str_radix(line.strip_prefix("CapEff:")?.trim(), 16).ok())
        .is_some_and(|caps| caps >> CAP_IPC_LOCK & 1 != 0)
}

/// Lets a guest's memory be swapped out again.
pub(crate) fn release(at: *mut u8, len: usize) {
    // SAFETY: changes nothing that a program sees; of a range that is not mapped it says so, which does not matter.
    unsafe { libc::munlock(at.cast(), len) };
}
