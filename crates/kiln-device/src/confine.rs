//! What a process gives up before it meets a guest, besides the system calls and files of the sandbox: root, the memory
//! and descriptors that it does not need, core dumps, and swapping.
//!
//! Keys stay in memory: nothing of a guest's process is swapped out, and none of it gets into a core dump. Guests' memory
//! is the exception. It is the front end's, which decides about it.

use std::io;

use rustix::mm::{mlockall, MlockAllFlags};
use rustix::process::{
    geteuid, getrlimit, set_dumpable_behavior, setrlimit, DumpableBehavior, Resource, Rlimit,
};

use crate::config::Config;
use crate::error::Error;
use crate::memory::MAX_REGIONS;

/// Descriptors of a guest's process beyond those of its memory regions: rings, messages that are under way, its own.
const DESCRIPTORS: u64 = 256;

/// The user and group `nobody`, which a process of root changes to.
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

/// Bytes of memory that a guest's process needs for itself at most: stacks, sessions, and copies of requests.
fn own_memory(config: &Config) -> u64 {
    const BASE: u64 = 256 << 20;
    const THREAD: u64 = 4 << 20;
    /// An RSA session that was used has 8 KiB.
    const SESSION: u64 = 16 << 10;
    let threads = u64::from(config.queues) + 4;
    // A copy that grows is there twice for a moment.
    let copies = (config.max_chain() as u64).saturating_mul(4);
    threads
        .saturating_mul(copies.saturating_add(THREAD))
        .saturating_add((config.limits.max_sessions as u64).saturating_mul(SESSION))
        .saturating_add(BASE)
}

/// Gives a guest's process its limits and locks its memory; whether that was possible.
pub(crate) fn confine_guest(config: &Config) -> Result<bool, Error> {
    end_core_dumps(config)?;
    let own = own_memory(config);
    limit(Resource::Data, own, "the limit of memory")?;
    // A new table of regions is mapped before the old one goes. Allocators reserve more than they use.
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

/// The main process: as many descriptors as it may have, and it needs `descriptors`.
pub(crate) fn confine_main(config: &Config, descriptors: u64) -> Result<(), Error> {
    end_core_dumps(config)?;
    let old = getrlimit(Resource::Nofile);
    let new = Rlimit {
        current: old.maximum,
        maximum: old.maximum,
    };
    setrlimit(Resource::Nofile, new).map_err(|e| Error::lacks("the limit of descriptors", e))?;
    if old.maximum.is_some_and(|most| most < descriptors) {
        return Err(Error::lacks(
            "the limit of descriptors",
            format!("{descriptors} are needed: raise it (ulimit -n, LimitNOFILE), or lower --max-guests"),
        ));
    }
    Ok(())
}

/// Without a sandbox a debugger may still look at the process.
fn end_core_dumps(config: &Config) -> Result<(), Error> {
    let what = "core dumps cannot be turned off";
    if config.sandbox {
        set_dumpable_behavior(DumpableBehavior::NotDumpable).map_err(|e| Error::lacks(what, e))?;
    }
    limit(Resource::Core, 0, what)
}

/// Locks what this process has and will have, page by page as it is touched. False if the limit does not allow that: it
/// counts all that is mapped, guests' memory too, before that is let go.
pub(crate) fn lock(space: u64) -> Result<bool, Error> {
    let may = getrlimit(Resource::Memlock).maximum;
    if may.is_some_and(|most| most < space) && !may_lock_all() {
        return Ok(false);
    }
    if may.is_none() {
        limit(Resource::Memlock, space, "the limit of locked memory")?;
    }
    // Stacks and scratch are larger than what is used of them.
    mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT)
        .map_err(|e| Error::lacks("memory cannot be locked", e))?;
    Ok(true)
}

/// Whether the limit does not count for this process (`CAP_IPC_LOCK`).
fn may_lock_all() -> bool {
    rustix::thread::capabilities(None).is_ok_and(|sets| {
        sets.effective
            .contains(rustix::thread::CapabilitySet::IPC_LOCK)
    })
}

/// Whether the process is root's.
pub(crate) fn is_root() -> bool {
    geteuid().is_root()
}

/// A process of root changes to the user `nobody` for good. It loses its capabilities, and the processes that it starts have
/// neither.
pub(crate) fn leave_root() -> Result<(), Error> {
    // From here on locked memory counts against the limit. Root may raise it.
    let unlimited = Rlimit {
        current: None,
        maximum: None,
    };
    let _ = setrlimit(Resource::Memlock, unlimited);
    // SAFETY: no pointer but that of an empty list; every thread changes.
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
