//! Confines a process before it serves a guest, in addition to the sandbox: drops root privileges,
//! limits memory and descriptors, disables core dumps, and locks memory.
//!
//! A process that serves a guest is neither swapped out nor dumped, so keys stay in memory. Guest
//! memory is an exception: it belongs to the front end, which decides whether it may be swapped
//! out.

use std::io;

use rustix::mm::{mlockall, MlockAllFlags};
use rustix::process::{
    geteuid, getrlimit, set_dumpable_behavior, setrlimit, DumpableBehavior, Resource, Rlimit,
};

use crate::config::Config;
use crate::error::Error;
use crate::memory::MAX_REGIONS;
use crate::vhost_user::MAX_GET_INFLIGHT;

/// Maximum number of open file descriptors in a guest process, except those of memory regions. This
/// includes the descriptors of the rings, those received with one message, and the process's own.
const DESCRIPTORS: u64 = 256;

/// Number of descriptors that the main process passes to a guest process: only the connection.
const FDS_PER_GUEST: u64 = 1;

/// Maximum number of descriptors in flight between the main process and the fork server: four for a
/// new process, and that process's pidfd in the reply.
const FORK_SERVER_FDS: u64 = 5;

/// Returns how many descriptors the main process and its children can have in flight. Each guest
/// slot counts twice, because its previous process may still be about to exit. Earlier front ends
/// do not count, because a slot becomes free only when its front end has received everything sent
/// to it. Guest processes cannot send descriptors.
///
/// The kernel counts descriptors in flight per user, and rejects a send while the count exceeds the
/// sender's RLIMIT_NOFILE. That limit must therefore be at least this high.
fn in_flight(config: &Config) -> u64 {
    let sockets = (config.sockets.len() + config.inherited.len()) as u64;
    let processes = sockets
        .saturating_mul(config.max_guests as u64)
        .saturating_mul(2);
    let each = u64::from(MAX_GET_INFLIGHT) + FDS_PER_GUEST;
    processes
        .saturating_mul(each)
        .saturating_add(FORK_SERVER_FDS)
}

/// Maximum size of the first thread's stack, in bytes. This is the usual default.
const STACK: u64 = 8 << 20;

/// The unprivileged user and group that a root process switches to (65534).
const NOBODY: libc::uid_t = 65534;

fn limit(resource: Resource, most: u64, what: &'static str) -> Result<(), Error> {
    let old = getrlimit(resource);
    let most = Some(old.maximum.map_or(most, |hard| hard.min(most)));
    let new = Rlimit {
        current: most,
        maximum: most,
    };
    setrlimit(resource, new).map_err(|e| Error::lacks(what, e))
}

/// Returns an upper bound in bytes for a guest process's own memory: stacks, sessions, and copies
/// of requests.
fn own_memory(config: &Config) -> u64 {
    const BASE: u64 = 256 << 20;
    const THREAD: u64 = 4 << 20;
    /// Bytes allowed per session. The largest kind, an RSA session that has been used, takes 8 KiB.
    const SESSION: u64 = 16 << 10;
    let threads = u64::from(config.queues) + 4;
    // While a buffer grows, its old and new copies exist at the same time.
    let copies = (config.max_chain() as u64).saturating_mul(4);
    threads
        .saturating_mul(copies.saturating_add(THREAD))
        .saturating_add((config.limits.max_sessions as u64).saturating_mul(SESSION))
        .saturating_add(BASE)
}

/// Sets a guest process's limits and locks its memory. Returns whether locking was possible.
pub(crate) fn confine_guest(config: &Config) -> Result<bool, Error> {
    end_core_dumps(config)?;
    let own = own_memory(config);
    limit(Resource::Data, own, "the limit of memory")?;
    // No other limit covers the first thread's stack.
    limit(Resource::Stack, STACK, "the limit of the stack")?;
    // A new region table is mapped before the old one is unmapped, and allocators reserve more
    // than they use.
    let space = config
        .max_memory
        .saturating_mul(2)
        .saturating_add(own)
        .saturating_add(64 << 30);
    limit(Resource::As, space, "the limit of address space")?;
    limit(
        Resource::Nofile,
        MAX_REGIONS as u64 + DESCRIPTORS,
        "the limit of descriptors",
    )?;
    lock(space)
}

/// Disables the main process's core dumps, sets close-on-exec on the descriptors that it inherited,
/// and raises its descriptor limit as far as allowed. Fails if the limit stays below `descriptors`.
pub(crate) fn confine_main(config: &Config, descriptors: u64) -> Result<(), Error> {
    end_core_dumps(config)?;
    close_inherited()?;
    let old = getrlimit(Resource::Nofile);
    let new = Rlimit {
        current: old.maximum,
        maximum: old.maximum,
    };
    setrlimit(Resource::Nofile, new).map_err(|e| Error::lacks("the limit of descriptors", e))?;
    let descriptors = descriptors.max(in_flight(config));
    if old.maximum.is_some_and(|most| most < descriptors) {
        return Err(Error::lacks(
            "the limit of descriptors",
            format!("{descriptors} are needed: raise it (ulimit -n, LimitNOFILE), or lower --max-guests"),
        ));
    }
    Ok(())
}

/// Disables core dumps. Without a sandbox, a debugger may still inspect the process.
///
/// Even with a limit of 0 bytes, the kernel pipes a dump to a program (core(5)). With a limit of 1,
/// it skips both the program and the file.
pub(crate) fn end_core_dumps(config: &Config) -> Result<(), Error> {
    const NEITHER: u64 = 1;
    let what = "core dumps cannot be turned off";
    let least = getrlimit(Resource::Core).maximum.unwrap_or(NEITHER);
    if config.sandbox || least < NEITHER {
        set_dumpable_behavior(DumpableBehavior::NotDumpable).map_err(|e| Error::lacks(what, e))?;
    }
    limit(Resource::Core, NEITHER, what)
}

/// Keeps the programs that this process starts from inheriting descriptors that this process itself
/// inherited.
fn close_inherited() -> Result<(), Error> {
    // SAFETY: the call changes only a flag of the descriptors, and takes no pointers.
    let done = unsafe {
        libc::syscall(
            libc::SYS_close_range,
            3 as libc::c_uint,
            libc::c_uint::MAX,
            libc::CLOSE_RANGE_CLOEXEC,
        )
    };
    match done {
        0 => Ok(()),
        _ => Err(Error::lacks(
            "descriptors for this process only",
            io::Error::last_os_error(),
        )),
    }
}

/// Locks all present and future memory of this process; pages are locked when first touched.
/// Returns false if the limit on locked memory is too low. All mapped memory counts towards that
/// limit, including a guest's memory until it is unlocked.
pub(crate) fn lock(space: u64) -> Result<bool, Error> {
    let may = getrlimit(Resource::Memlock).maximum;
    if may.is_some_and(|most| most < space) && !may_lock_all() {
        return Ok(false);
    }
    if may.is_none() {
        limit(Resource::Memlock, space, "the limit of locked memory")?;
    }
    // Stacks and scratch buffers are mostly unused, so lock a page only when it is touched.
    mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT)
        .map_err(|e| Error::lacks("memory cannot be locked", e))?;
    Ok(true)
}

/// Returns whether the process is exempt from the limit on locked memory (`CAP_IPC_LOCK`).
fn may_lock_all() -> bool {
    rustix::thread::capabilities(None).is_ok_and(|sets| {
        sets.effective
            .contains(rustix::thread::CapabilitySet::IPC_LOCK)
    })
}

pub(crate) fn is_root() -> bool {
    geteuid().is_root()
}

/// Switches a root process to the user `nobody` permanently. The process loses its capabilities,
/// and programs that it starts do not regain them.
pub(crate) fn leave_root() -> Result<(), Error> {
    // The limit on locked memory applies to a normal user, so raise it while the process is still
    // root.
    let unlimited = Rlimit {
        current: None,
        maximum: None,
    };
    let _ = setrlimit(Resource::Memlock, unlimited);
    // SAFETY: the null pointer is valid because the list of groups is empty, and the other calls
    // take no pointers. The C library applies these calls to every thread.
    let done = unsafe {
        libc::setgroups(0, std::ptr::null()) == 0
            && libc::setresgid(NOBODY, NOBODY, NOBODY) == 0
            && libc::setresuid(NOBODY, NOBODY, NOBODY) == 0
    };
    match done {
        true => Ok(()),
        false => Err(Error::lacks(
            "root cannot be given up",
            io::Error::last_os_error(),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    /// [`in_flight`] covers two processes per guest slot, each with the maximum number of
    /// descriptors in flight.
    #[test]
    fn descriptors_in_flight_are_five_per_process_and_five_for_the_fork_server() {
        for (sockets, guests) in [(1, 16), (1, 1), (4, 16), (64, 100)] {
            let config = Config {
                sockets: vec![PathBuf::new(); sockets],
                max_guests: guests,
                ..Config::default()
            };
            let all = (2 * sockets * guests) as u64 * (4 + 1) + 5;
            assert_eq!(in_flight(&config), all);
        }
    }
}
