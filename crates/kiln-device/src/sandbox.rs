//! The sandbox, which a process enters before the first guest: no new privileges, no access to
//! files or programs, and only the system calls needed for serving. Any other system call kills the
//! process.
//!
//! A process that serves one guest creates all its threads before the last part of its sandbox is
//! active, and cannot create more afterwards. In other processes, new threads inherit the sandbox.
//! Everything that needs more privileges, such as loading libraries and binding sockets, happens
//! before the process enters the sandbox.

use std::collections::BTreeMap;

use landlock::{
    Access, AccessFs, AccessNet, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset,
    RulesetAttr, RulesetCreatedAttr, RulesetError, RulesetStatus, Scope, ABI,
};
use seccompiler::{
    apply_filter, apply_filter_all_threads, BpfProgram, SeccompAction, SeccompCmpArgLen,
    SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
};

use crate::error::Error;

/// The kind of process to confine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// A process that serves one guest.
    Guest,
    /// A process that serves all guests itself.
    Together,
    /// The main process, which accepts connections and starts one process per guest.
    Main,
}

/// System calls allowed in every thread.
const ALWAYS: &[libc::c_long] = &[
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_close,
    libc::SYS_poll,
    libc::SYS_ppoll,
    libc::SYS_munmap,
    libc::SYS_brk,
    libc::SYS_futex,
    libc::SYS_set_robust_list,
    libc::SYS_rseq,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_sched_yield,
    libc::SYS_sched_getaffinity,
    libc::SYS_gettid,
    libc::SYS_getpid,
    libc::SYS_membarrier,
    // Signal calls, which are needed to return from existing handlers and for abort().
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    libc::SYS_restart_syscall,
    // Calls for the time and for random numbers.
    libc::SYS_clock_getres,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_nanosleep,
    libc::SYS_getrandom,
];

/// Additional system calls for threads that communicate with a front end. [`receives`] restricts
/// some of them. A guest process must not call sendmsg(), which can send descriptors
/// ([`crate::relay`]).
const MESSAGES: &[libc::c_long] = &[
    libc::SYS_recvmsg,
    libc::SYS_recvfrom,
    libc::SYS_shutdown,
    libc::SYS_getpeername,
    libc::SYS_getsockopt,
    libc::SYS_setsockopt,
    libc::SYS_readv,
    libc::SYS_writev,
    libc::SYS_eventfd2,
    libc::SYS_fstat,
    libc::SYS_fstatfs,
    libc::SYS_munlock,
];

/// Additional system calls for a process that both accepts and serves connections. The guests'
/// counters need no system calls, because they are in shared memory.
const ACCEPTS: &[libc::c_long] = &[
    libc::SYS_accept4,
    libc::SYS_sendmsg,
    libc::SYS_memfd_create,
    libc::SYS_ftruncate,
    // Needed for writing the log, for which a guest process has no descriptor.
    libc::SYS_pwritev2,
];

/// Additional system calls for the main process: those that start a program, and those that the
/// started program makes before it enters its own sandbox. Calls that wait for a child process are
/// not included ([`crate::child`]).
const STARTS: &[libc::c_long] = &[
    libc::SYS_accept4,
    libc::SYS_access,
    libc::SYS_arch_prctl,
    libc::SYS_clone,
    libc::SYS_clone3,
    libc::SYS_close_range,
    libc::SYS_dup,
    libc::SYS_dup2,
    libc::SYS_dup3,
    libc::SYS_execve,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_fcntl,
    libc::SYS_fork,
    libc::SYS_ftruncate,
    libc::SYS_getcwd,
    libc::SYS_getdents64,
    libc::SYS_getegid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getpeername,
    libc::SYS_getpgid,
    libc::SYS_getppid,
    libc::SYS_getrlimit,
    libc::SYS_getrusage,
    libc::SYS_getsockname,
    libc::SYS_getuid,
    libc::SYS_gettimeofday,
    libc::SYS_capget,
    libc::SYS_ioctl,
    libc::SYS_landlock_create_ruleset,
    libc::SYS_landlock_restrict_self,
    libc::SYS_lseek,
    libc::SYS_madvise,
    libc::SYS_memfd_create,
    libc::SYS_mlockall,
    libc::SYS_mmap,
    libc::SYS_mprotect,
    libc::SYS_mremap,
    libc::SYS_newfstatat,
    libc::SYS_openat,
    libc::SYS_pidfd_open,
    libc::SYS_pidfd_send_signal,
    libc::SYS_pipe2,
    libc::SYS_prctl,
    libc::SYS_pread64,
    libc::SYS_preadv2,
    libc::SYS_prlimit64,
    libc::SYS_pwritev2,
    libc::SYS_readlink,
    libc::SYS_readlinkat,
    libc::SYS_sched_setaffinity,
    libc::SYS_seccomp,
    libc::SYS_sendmsg,
    libc::SYS_set_tid_address,
    libc::SYS_setpgid,
    libc::SYS_signalfd4,
    libc::SYS_socketpair,
    libc::SYS_stat,
    libc::SYS_statfs,
    libc::SYS_statx,
    libc::SYS_sysinfo,
    libc::SYS_tgkill,
    libc::SYS_uname,
    libc::SYS_vfork,
];

/// System calls that return an error instead of killing the process, because their callers can
/// handle the error.
const REFUSED: &[(libc::c_long, libc::c_int)] = &[
    // The C library's allocator tries to read a setting from /proc.
    (libc::SYS_openat, libc::EACCES),
    (libc::SYS_open, libc::EACCES),
    // If mremap() grew a mapping of the stack, the additional memory would not count towards the
    // limit on the process's memory. The C library's realloc() allocates a new buffer and copies
    // the data instead.
    (libc::SYS_mremap, libc::ENOMEM),
];

/// In processes that create threads, clone3() also returns an error. The C library then creates
/// threads with clone(), whose flags a filter can check.
const CLONE3: (libc::c_long, libc::c_int) = (libc::SYS_clone3, libc::ENOSYS);

/// Allowed `prctl` options: naming a thread, and naming a mapping.
///
/// Installing another filter is not allowed, whether with prctl() or with seccomp(). The memory for
/// compiled filters has one limit for the whole machine, and a process that was taken over could
/// use all of it. For the same reason, threads that serve queues do not have filters of their own.
/// Such filters would add little protection, because threads share memory, so code in one thread
/// can make another thread act on its behalf.
const PRCTL: [u64; 2] = [libc::PR_SET_NAME as u64, 0x5356_4d41];
/// Allowed `madvise` advice: the values that an allocator uses to return memory or to request huge
/// pages.
const MADVISE: [u64; 5] = [
    libc::MADV_DONTNEED as u64,
    libc::MADV_FREE as u64,
    libc::MADV_HUGEPAGE as u64,
    libc::MADV_NOHUGEPAGE as u64,
    libc::MADV_DONTDUMP as u64,
];
/// Allowed `arch_prctl` options: `ARCH_SET_GS` and `ARCH_GET_GS`, because an emulated CPU sets its
/// own GS base.
const ARCH_PRCTL: [u64; 2] = [0x1001, 0x1004];
/// Allowed `fcntl` commands.
const FCNTL: [u64; 7] = [
    libc::F_GETFL as u64,
    libc::F_SETFL as u64,
    libc::F_GETFD as u64,
    libc::F_SETFD as u64,
    libc::F_DUPFD_CLOEXEC as u64,
    libc::F_GET_SEALS as u64,
    libc::F_ADD_SEALS as u64,
];

/// How completely landlock protects files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Files {
    /// No file can be opened.
    Closed,
    /// This kernel supports only some of the requested restrictions.
    Partly,
    /// The kernel lacks landlock, but seccomp still blocks system calls that open files.
    Open,
}

fn condition(
    arg: u8,
    op: SeccompCmpOp,
    value: u64,
) -> Result<SeccompCondition, seccompiler::BackendError> {
    SeccompCondition::new(arg, SeccompCmpArgLen::Qword, op, value)
}

fn when(arg: u8, op: SeccompCmpOp, value: u64) -> Result<SeccompRule, seccompiler::BackendError> {
    SeccompRule::new(vec![condition(arg, op, value)?])
}

fn dword(arg: u8, value: u64) -> Result<SeccompCondition, seccompiler::BackendError> {
    SeccompCondition::new(arg, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, value)
}

fn low(arg: u8, value: u64) -> Result<SeccompRule, seccompiler::BackendError> {
    SeccompRule::new(vec![dword(arg, value)?])
}

/// Returns the ID of the clock that measures a process's CPU time, computed as in the C library.
fn cpu_clock(process: u32) -> u32 {
    const SCHEDULED: u32 = 2;
    !process << 3 | SCHEDULED
}

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

fn each(arg: u8, values: &[u64]) -> Result<Vec<SeccompRule>, seccompiler::BackendError> {
    values.iter().map(|&v| low(arg, v)).collect()
}

const CODE: u64 = libc::PROT_EXEC as u64;
const WRITABLE: u64 = (libc::PROT_READ | libc::PROT_WRITE) as u64;

/// Builds the conditions for mappings that are not executable and do not have `flag`. Mappings that
/// grow like a stack or use huge pages are excluded: such memory does not count towards the limit
/// on the process's memory.
fn maps_without(flag: libc::c_int) -> Result<Vec<SeccompCondition>, seccompiler::BackendError> {
    let flags = (flag | libc::MAP_GROWSDOWN | libc::MAP_HUGETLB) as u64;
    Ok(vec![
        condition(2, SeccompCmpOp::MaskedEq(CODE), 0)?,
        condition(3, SeccompCmpOp::MaskedEq(flags), 0)?,
    ])
}

/// Returns whether a process may create threads after it has entered the sandbox.
fn creates_threads(role: Role) -> bool {
    role != Role::Guest
}

/// Returns the system calls that fail instead of killing the process, each with the errno that it
/// returns.
fn refused(role: Role) -> Vec<(libc::c_long, libc::c_int)> {
    let more = creates_threads(role).then_some(CLONE3);
    REFUSED.iter().copied().chain(more).collect()
}

/// Builds the rules for the system calls that every thread may make, and for those in `more`.
fn always(role: Role, more: &[libc::c_long]) -> Result<Rules, seccompiler::BackendError> {
    let mut rules: Rules = [ALWAYS, more]
        .concat()
        .into_iter()
        .map(|call| (call, Vec::new()))
        .collect();
    for (call, _) in refused(role) {
        rules.insert(call, Vec::new());
    }
    // Writable memory would stop counting towards the process's memory limit if the process made it
    // unwritable. Therefore, a process that creates no threads may only make memory readable and
    // writable. Other processes may also remove these permissions, because a new thread does so for
    // its guard page.
    let protection = match creates_threads(role) {
        true => when(2, SeccompCmpOp::MaskedEq(CODE), 0)?,
        false => when(2, SeccompCmpOp::Eq, WRITABLE)?,
    };
    rules.insert(libc::SYS_mprotect, vec![protection]);
    // Shared anonymous memory does not count towards the process's memory limit. MAP_SHARED or
    // MAP_ANONYMOUS is allowed, but not both together.
    rules.insert(
        libc::SYS_mmap,
        vec![
            SeccompRule::new(maps_without(libc::MAP_SHARED)?)?,
            SeccompRule::new(maps_without(libc::MAP_ANONYMOUS)?)?,
        ],
    );
    // Allow reading only at a file's current position (offset -1), and only with the flag
    // RWF_NOWAIT.
    let at_position = SeccompRule::new(vec![
        condition(3, SeccompCmpOp::Eq, u64::MAX)?,
        SeccompCondition::new(
            5,
            SeccompCmpArgLen::Dword,
            SeccompCmpOp::Eq,
            libc::RWF_NOWAIT as u64,
        )?,
    ])?;
    rules.insert(libc::SYS_preadv2, vec![at_position]);
    rules.insert(libc::SYS_madvise, each(2, &MADVISE)?);
    rules.insert(libc::SYS_prctl, each(0, &PRCTL)?);
    rules.insert(libc::SYS_arch_prctl, each(0, &ARCH_PRCTL)?);
    // Allow signals to this process only, which abort() sends.
    rules.insert(libc::SYS_tgkill, each(0, &[u64::from(std::process::id())])?);
    Ok(rules)
}

/// Builds the rules for receiving. Receiving out-of-band data (MSG_OOB) is not allowed: it would
/// take the out-of-band byte and leave the descriptors sent with it in the socket, where the main
/// process does not see them.
fn receives(rules: &mut Rules) -> Result<(), seccompiler::BackendError> {
    let in_band = SeccompCmpOp::MaskedEq(libc::MSG_OOB as u64);
    rules.insert(libc::SYS_recvmsg, vec![when(2, in_band.clone(), 0)?]);
    rules.insert(libc::SYS_recvfrom, vec![when(3, in_band, 0)?]);
    Ok(())
}

/// Builds the filter of a process that serves guests. System calls that the filter does not allow
/// kill the process.
fn allow(role: Role) -> Result<BpfProgram, seccompiler::BackendError> {
    let mut rules = always(role, MESSAGES)?;
    if role == Role::Together {
        for call in ACCEPTS {
            rules.insert(*call, Vec::new());
        }
    }
    if creates_threads(role) {
        let threads = libc::CLONE_THREAD as u64;
        rules.insert(
            libc::SYS_clone,
            vec![when(0, SeccompCmpOp::MaskedEq(threads), threads)?],
        );
    }
    receives(&mut rules)?;
    rules.insert(libc::SYS_fcntl, each(1, &FCNTL)?);
    rules.insert(libc::SYS_ioctl, each(1, &[libc::FIONBIO])?);
    // Allow setting only timeouts. A socket filter would use the same limited memory as filters for
    // system calls ([`PRCTL`]).
    rules.insert(
        libc::SYS_setsockopt,
        [libc::SO_RCVTIMEO, libc::SO_SNDTIMEO]
            .map(|option| {
                SeccompRule::new(vec![
                    dword(1, libc::SOL_SOCKET as u64)?,
                    dword(2, option as u64)?,
                ])
            })
            .into_iter()
            .collect::<Result<_, _>>()?,
    );
    // Allow the clocks of the machine, and the clock that measures this process's own CPU time.
    // Reading another process's CPU-time clock, or sleeping on it, would show how much that process
    // encrypts.
    for call in [
        libc::SYS_clock_gettime,
        libc::SYS_clock_getres,
        libc::SYS_clock_nanosleep,
    ] {
        let clocks = SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Le, 15)?;
        let own = low(0, u64::from(cpu_clock(std::process::id())))?;
        rules.insert(call, vec![SeccompRule::new(vec![clocks])?, own]);
    }
    // Allow sending only on a connected socket: the address argument must be null.
    rules.insert(libc::SYS_sendto, vec![when(4, SeccompCmpOp::Eq, 0)?]);
    filter(rules, SeccompAction::KillProcess, SeccompAction::Allow)
}

/// Builds the main process's filter. Programs that it starts inherit the filter, and their C
/// library probes for system calls, so calls that are not allowed return an error instead of
/// killing the process.
fn allow_main() -> Result<BpfProgram, seccompiler::BackendError> {
    let calls = [ALWAYS, MESSAGES, STARTS].concat();
    let mut rules: Rules = calls.into_iter().map(|call| (call, Vec::new())).collect();
    // Allow sending only on a connected socket: the address argument must be null. Writing needs no
    // such rule, because landlock restricts which files can be opened.
    rules.insert(libc::SYS_sendto, vec![when(4, SeccompCmpOp::Eq, 0)?]);
    filter(
        rules,
        SeccompAction::Errno(libc::EPERM as u32),
        SeccompAction::Allow,
    )
}

/// Builds a filter that makes one system call return an error that its callers can handle.
fn refuse(call: libc::c_long, errno: libc::c_int) -> Result<BpfProgram, seccompiler::BackendError> {
    filter(
        BTreeMap::from([(call, Vec::new())]),
        SeccompAction::Allow,
        SeccompAction::Errno(errno as u32),
    )
}

fn filter(
    rules: BTreeMap<i64, Vec<SeccompRule>>,
    otherwise: SeccompAction,
    matched: SeccompAction,
) -> Result<BpfProgram, seccompiler::BackendError> {
    SeccompFilter::new(
        rules,
        otherwise,
        matched,
        std::env::consts::ARCH.try_into()?,
    )?
    .try_into()
}

fn lacks(what: &'static str, e: &dyn std::fmt::Display) -> Error {
    Error::lacks(what, format!("{e}: use --no-sandbox to run without it"))
}

/// Installs a filter. A process that serves one guest has already created all its threads, so the
/// filter applies to all of them. In other processes, it applies to the calling thread, from which
/// later threads inherit it.
fn apply(role: Role, program: Result<BpfProgram, seccompiler::BackendError>) -> Result<(), Error> {
    let program = program.map_err(|e| lacks("seccomp", &e))?;
    let done = match creates_threads(role) {
        true => apply_filter(&program),
        false => apply_filter_all_threads(&program),
    };
    done.map_err(|e| lacks("seccomp", &e))
}

/// Confines a process that has a single thread. A process that serves one guest calls the two parts
/// of this function itself, and creates its threads in between.
pub(crate) fn enter(role: Role) -> Result<Files, Error> {
    let files = enter_landlock(role)?;
    install_filters(role)?;
    Ok(files)
}

/// Restricts the system calls of the calling thread and of threads that it creates later. In a
/// process that serves one guest, restricts the system calls of all threads, and forbids creating
/// more threads.
pub(crate) fn install_filters(role: Role) -> Result<(), Error> {
    if role == Role::Main {
        return apply(role, allow_main());
    }
    // The filters that return errors come first, because the last filter forbids installing more.
    for (call, errno) in refused(role) {
        apply(role, refuse(call, errno))?;
    }
    apply(role, allow(role))
}

/// Makes the calling thread and all threads that it creates later enter a landlock domain. The
/// domain forbids access to files and TCP. It also forbids sending signals to processes outside the
/// domain and connecting to abstract sockets outside it. The main process may still read files and
/// execute programs, because it has to start itself, and may write to `/dev/null`.
pub(crate) fn enter_landlock(role: Role) -> Result<Files, Error> {
    let abi = ABI::V6;
    let closed = || -> Result<_, RulesetError> {
        let rules = Ruleset::default()
            .set_compatibility(CompatLevel::BestEffort)
            .handle_access(AccessFs::from_all(abi))?
            .handle_access(AccessNet::from_all(abi))?
            .scope(Scope::from_all(abi))?
            .create()?;
        let rules = match (role, PathFd::new("/")) {
            (Role::Main, Ok(root)) => {
                rules.add_rule(PathBeneath::new(root, AccessFs::from_read(abi)))?
            }
            _ => rules,
        };
        // Guest processes use `/dev/null` as their standard output.
        let rules = match (role, PathFd::new("/dev/null")) {
            (Role::Main, Ok(null)) => {
                rules.add_rule(PathBeneath::new(null, AccessFs::WriteFile))?
            }
            _ => rules,
        };
        rules.restrict_self()
    };
    let status = closed().map_err(|e| lacks("landlock", &e))?;
    Ok(match status.ruleset {
        RulesetStatus::FullyEnforced => Files::Closed,
        RulesetStatus::PartiallyEnforced => Files::Partly,
        RulesetStatus::NotEnforced => Files::Open,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    use crate::cpu::cpu_time;
    use crate::fork_lock::fork_alone;

    /// Runs `attempt` in a confined child process and returns its exit status, or the
    /// signal that killed it.
    fn ends(role: Role, attempt: impl FnOnce()) -> i32 {
        run_apart(|| {
            exit_unless(enter(role).is_ok());
            attempt();
        })
    }

    /// Exits with status 99, which nothing else uses, if `is_well` is false. A forked child must
    /// not panic.
    fn exit_unless(is_well: bool) {
        if !is_well {
            // SAFETY: the call ends the process.
            unsafe { libc::_exit(99) }
        }
    }

    /// Runs `job` in a child process and returns its exit status, or the signal that killed it.
    fn run_apart(job: impl FnOnce()) -> i32 {
        // SAFETY: the child only makes system calls, allocates and creates threads, and exits with
        // _exit(). POSIX does not promise that a child of a multithreaded process may do this; it
        // works because glibc takes its allocator's locks around a fork.
        unsafe {
            let child = libc::fork();
            assert!(child >= 0);
            if child == 0 {
                job();
                libc::_exit(0);
            }
            let mut status = 0;
            assert_eq!(libc::waitpid(child, &mut status, 0), child);
            match libc::WIFSIGNALED(status) {
                true => libc::WTERMSIG(status),
                false => libc::WEXITSTATUS(status),
            }
        }
    }

    /// Makes the read or write call `call` at an offset of standard error, without any buffers.
    fn at(call: libc::c_long, offset: i64, flags: libc::c_int) {
        let none: *const libc::iovec = std::ptr::null();
        // SAFETY: the call gets no buffers.
        unsafe {
            libc::syscall(call, 2, none, 0, offset, 0, flags);
        }
    }

    /// Grows a mapping. Returns 1 on success, or the negated error number.
    fn moves() -> i32 {
        let none: *mut libc::c_void = std::ptr::null_mut();
        // SAFETY: only memory that was mapped here is moved and unmapped.
        unsafe {
            let private = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let page = libc::mmap(none, 4096, libc::PROT_READ, private, -1, 0);
            let moved = libc::mremap(page, 4096, 1 << 20, libc::MREMAP_MAYMOVE);
            if moved == libc::MAP_FAILED {
                return -*libc::__errno_location();
            }
            libc::munmap(moved, 1 << 20);
            1
        }
    }

    /// Returns whether this kernel's landlock can forbid signals to processes outside the domain.
    /// Landlock has supported this since ABI 6 (Linux 6.12).
    fn forbids_signals() -> bool {
        const VERSION: libc::c_long = 1;
        let none: *const libc::c_void = std::ptr::null();
        // SAFETY: a call with this flag takes no attributes and returns the ABI's version.
        unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, none, 0_usize, VERSION) >= 6 }
    }

    #[test]
    fn what_a_taken_over_process_tries_ends_it() {
        let _alone = fork_alone();
        // SAFETY: these calls access only the memory passed to them, which is valid.
        unsafe {
            let parent = libc::getpid();
            let mut pair = [0; 2];
            libc::socketpair(libc::AF_UNIX, libc::SOCK_STREAM, 0, pair.as_mut_ptr());
            let address = libc::sockaddr {
                sa_family: libc::AF_UNIX as u16,
                sa_data: [0; 14],
            };
            let len = size_of_val(&address) as libc::socklen_t;
            let none: *mut libc::c_void = std::ptr::null_mut();
            // Controls: the calls needed for serving must be allowed.
            assert_eq!(
                ends(Role::Guest, || {
                    libc::syscall(libc::SYS_tgkill, libc::getpid(), libc::gettid(), 0);
                    exit_unless(libc::send(pair[0], pair.as_ptr().cast(), 1, 0) == 1);
                    let mut bytes = [0u8; 8];
                    libc::recv(pair[1], bytes.as_mut_ptr().cast(), 8, libc::MSG_DONTWAIT);
                    libc::recvmsg(pair[1], none.cast(), libc::MSG_DONTWAIT);
                    libc::setsockopt(pair[1], libc::SOL_SOCKET, libc::SO_SNDTIMEO, none, 0);
                    if cpu_time(std::process::id()).is_none() {
                        libc::_exit(96);
                    }
                    libc::mprotect(none, 0, libc::PROT_READ | libc::PROT_WRITE);
                    std::thread::sleep(std::time::Duration::from_millis(1));
                    libc::fcntl(pair[1], libc::F_SETFL, libc::O_NONBLOCK);
                    let mut off: libc::c_int = 0;
                    libc::ioctl(pair[1], libc::FIONBIO, &mut off);
                    libc::shutdown(pair[1], libc::SHUT_RDWR);
                    libc::open(c"/dev/null".as_ptr(), libc::O_RDONLY);
                    let private = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
                    libc::mmap(none, 4096, libc::PROT_READ, private, -1, 0);
                    libc::mmap(none, 4096, libc::PROT_READ, libc::MAP_SHARED, -1, 0);
                    at(libc::SYS_preadv2, -1, libc::RWF_NOWAIT);
                    // Use buffers so large that the C library maps each of them.
                    let mut grows = vec![7u8; 1 << 20];
                    grows.resize(16 << 20, 8);
                    grows.truncate(1 << 19);
                    grows.shrink_to_fit();
                    if grows.iter().any(|byte| *byte != 7) || moves() != -libc::ENOMEM {
                        libc::_exit(97);
                    }
                }),
                0
            );
            assert!(moves() > 0, "without the sandbox");
            let attempts: [(&str, &dyn Fn()); 37] = [
                ("memory made unwritable", &|| {
                    libc::mprotect(none, 4096, libc::PROT_READ);
                }),
                ("memory made inaccessible", &|| {
                    libc::mprotect(none, 4096, libc::PROT_NONE);
                }),
                ("another process's CPU time, waited for", &|| {
                    let time: libc::timespec = std::mem::zeroed();
                    let clock = cpu_clock(parent as u32) as i32;
                    let absolute = libc::TIMER_ABSTIME;
                    libc::clock_nanosleep(clock, absolute, &time, std::ptr::null_mut());
                }),
                ("whether another process exists, by its clock", &|| {
                    libc::clock_getres(cpu_clock(parent as u32) as i32, std::ptr::null_mut());
                }),
                // The next two calls fail at once even if the filter allows them: clone() is called
                // without CLONE_SIGHAND, which CLONE_THREAD requires, and clone3() without
                // arguments.
                ("a thread", &|| {
                    libc::syscall(libc::SYS_clone, libc::CLONE_THREAD, 0, 0, 0, 0);
                }),
                ("a thread by the newer call", &|| {
                    libc::syscall(libc::SYS_clone3, none, 0);
                }),
                ("a thread of the C library", &|| {
                    exit_unless(can_create_thread());
                }),
                ("a process by the oldest call", &|| {
                    libc::syscall(libc::SYS_fork);
                }),
                ("a process that shares its memory", &|| {
                    libc::syscall(libc::SYS_vfork);
                }),
                ("a filter for a socket", &|| {
                    libc::setsockopt(pair[0], libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, none, 0);
                }),
                ("huge pages", &|| {
                    let huge = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_HUGETLB;
                    libc::mmap(none, 4096, libc::PROT_READ, huge, -1, 0);
                }),
                ("another process's CPU time", &|| {
                    let mut time: libc::timespec = std::mem::zeroed();
                    libc::clock_gettime(cpu_clock(parent as u32) as i32, &mut time);
                }),
                ("a byte out of band", &|| {
                    libc::recv(pair[0], none, 0, libc::MSG_OOB);
                }),
                ("a message out of band", &|| {
                    libc::recvmsg(pair[0], none.cast(), libc::MSG_OOB);
                }),
                ("bytes at an offset, to write", &|| {
                    at(libc::SYS_pwritev2, -1, libc::RWF_NOWAIT);
                }),
                ("bytes at an offset, to read", &|| {
                    at(libc::SYS_preadv2, 0, libc::RWF_NOWAIT);
                }),
                ("another file as its standard error", &|| {
                    libc::dup2(0, 2);
                }),
                ("fewer pages of a file that others have", &|| {
                    libc::fallocate(2, libc::FALLOC_FL_PUNCH_HOLE, 0, 4096);
                }),
                ("fewer pages of memory that others have", &|| {
                    libc::madvise(none, 0, libc::MADV_REMOVE);
                }),
                ("a page whose faults it serves", &|| {
                    libc::syscall(libc::SYS_userfaultfd, 0);
                }),
                ("a signal to another process", &|| {
                    libc::syscall(libc::SYS_tgkill, parent, parent, 0);
                }),
                ("a signal by another call", &|| {
                    libc::kill(parent, 0);
                }),
                ("sendmsg()", &|| {
                    libc::sendmsg(pair[0], none.cast(), 0);
                }),
                ("sendmmsg()", &|| {
                    libc::sendmmsg(pair[0], none.cast(), 0, 0);
                }),
                ("a pair of stream sockets", &|| {
                    let mut pair = [0; 2];
                    libc::socketpair(libc::AF_UNIX, libc::SOCK_STREAM, 0, pair.as_mut_ptr());
                }),
                ("a datagram socket", &|| {
                    let mut pair = [0; 2];
                    libc::socketpair(libc::AF_UNIX, libc::SOCK_DGRAM, 0, pair.as_mut_ptr());
                }),
                ("bytes to an address", &|| {
                    libc::sendto(1, none, 0, 0, &address, len);
                }),
                ("a socket", &|| {
                    libc::socket(libc::AF_UNIX, libc::SOCK_STREAM, 0);
                }),
                ("a process", &|| {
                    libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0);
                }),
                ("a program", &|| {
                    libc::execve(c"/bin/true".as_ptr(), std::ptr::null(), std::ptr::null());
                }),
                ("memory beyond its limit", &|| {
                    let shared = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
                    libc::mmap(none, 4096, libc::PROT_READ, shared, -1, 0);
                }),
                ("a second stack", &|| {
                    let private = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
                    let grows = private | libc::MAP_GROWSDOWN;
                    libc::mmap(none, 4096, libc::PROT_READ, grows, -1, 0);
                }),
                ("a file that grows like a stack", &|| {
                    let grows = libc::MAP_PRIVATE | libc::MAP_GROWSDOWN;
                    libc::mmap(none, 4096, libc::PROT_READ, grows, -1, 0);
                }),
                // Even where they are allowed, both calls fail immediately and install nothing.
                ("another filter", &|| {
                    libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0, none);
                }),
                ("another filter by prctl()", &|| {
                    libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, none);
                }),
                ("new privileges given up again", &|| {
                    libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
                }),
                ("executable memory", &|| {
                    let code = libc::PROT_READ | libc::PROT_EXEC;
                    libc::mmap(
                        none,
                        4096,
                        code,
                        libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                        -1,
                        0,
                    );
                }),
            ];
            for (what, attempt) in attempts {
                assert_eq!(ends(Role::Guest, attempt), libc::SIGSYS, "{what}");
            }
            // The main process may start programs, but may signal only programs that it has
            // started, and must not reap them.
            let signal = |process: libc::pid_t| {
                let fd = libc::syscall(libc::SYS_pidfd_open, process, 0);
                let no_info = std::ptr::null::<libc::siginfo_t>();
                libc::syscall(libc::SYS_pidfd_send_signal, fd, 0, no_info, 0) == 0
            };
            assert!(signal(parent), "without the sandbox");
            let forbids_signals = forbids_signals();
            if !forbids_signals {
                println!("SKIPPED in part: this kernel cannot forbid signals to other processes");
            }
            assert_eq!(
                ends(Role::Main, || {
                    let child = libc::fork();
                    if child == 0 {
                        libc::_exit(0);
                    }
                    let waits = libc::waitpid(child, std::ptr::null_mut(), 0) != -1;
                    if waits
                        || !signal(child)
                        || forbids_signals && (signal(parent) || libc::kill(parent, 0) == 0)
                        || libc::socket(libc::AF_INET, 1, 0) >= 0
                    {
                        libc::_exit(98);
                    }
                }),
                0
            );
        }
    }

    fn can_create_thread() -> bool {
        let thread = std::thread::Builder::new().spawn(|| {});
        thread.is_ok_and(|thread| thread.join().is_ok())
    }

    /// Runs a process that creates a thread between the two parts of its sandbox, and returns the
    /// process's exit status or the signal that killed it. The thread calls `then` after the second
    /// part.
    fn ends_with_thread(then: fn()) -> i32 {
        run_apart(|| {
            exit_unless(enter_landlock(Role::Guest).is_ok());
            let (go, wait) = mpsc::channel();
            let (started, starts) = mpsc::channel();
            let thread = std::thread::Builder::new().spawn(move || {
                exit_unless(started.send(()).is_ok());
                exit_unless(wait.recv().is_ok());
                then();
            });
            // When a new thread starts, it protects its guard page. The filter forbids this, so
            // wait until the thread has started.
            exit_unless(starts.recv().is_ok());
            exit_unless(install_filters(Role::Guest).is_ok());
            exit_unless(go.send(()).is_ok());
            exit_unless(thread.is_ok_and(|thread| thread.join().is_ok()));
        })
    }

    #[test]
    fn all_threads_of_a_guests_process_are_confined_and_none_is_added() {
        let _alone = fork_alone();
        assert_eq!(ends_with_thread(|| {}), 0, "it can end");
        let file = || {
            // SAFETY: the name is a valid string.
            let file = unsafe { libc::open(c"/".as_ptr(), libc::O_RDONLY) };
            exit_unless(file == -1);
        };
        assert_eq!(ends_with_thread(file), 0, "no file can be opened");
        let socket = || {
            // SAFETY: the call takes no pointers.
            unsafe { libc::socket(libc::AF_UNIX, libc::SOCK_STREAM, 0) };
        };
        assert_eq!(ends_with_thread(socket), libc::SIGSYS);
        let thread = || exit_unless(can_create_thread());
        assert_eq!(ends_with_thread(thread), libc::SIGSYS);
        // Control: a process that serves all guests creates threads for them.
        assert_eq!(ends(Role::Together, thread), 0);
    }
}
