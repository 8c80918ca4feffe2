//! What is closed before the first guest: no new privileges, no file, no program, and only the system calls that
//! serving takes. Anything else ends the process.
//!
//! Threads that are made later inherit all of it. What needs more (loading libraries, binding sockets) comes before.

use std::collections::BTreeMap;

use landlock::{
    Access, AccessFs, AccessNet, CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetStatus, ABI,
};
use seccompiler::{
    apply_filter, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition,
    SeccompFilter, SeccompRule,
};

use crate::error::Error;

/// Calls that are allowed whatever their arguments are.
const ALLOWED: &[libc::c_long] = &[
    // Sockets and their messages.
    libc::SYS_accept4,
    libc::SYS_recvmsg,
    libc::SYS_recvfrom,
    libc::SYS_sendmsg,
    libc::SYS_sendto,
    libc::SYS_shutdown,
    libc::SYS_getsockopt,
    libc::SYS_setsockopt,
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_close,
    libc::SYS_poll,
    libc::SYS_ppoll,
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_wait,
    libc::SYS_epoll_pwait,
    libc::SYS_eventfd2,
    libc::SYS_fstat,
    libc::SYS_lseek,
    // Memory.
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_brk,
    libc::SYS_mlock,
    libc::SYS_mlock2,
    libc::SYS_munlock,
    // Threads.
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
    // Signals: handlers that are there return, and an abort is an abort.
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    libc::SYS_restart_syscall,
    libc::SYS_tgkill,
    // Time and chance.
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_nanosleep,
    libc::SYS_getrandom,
];

/// Calls that fail with an error: their callers can do without them.
const REFUSED: &[(libc::c_long, libc::c_int)] = &[
    // The C library then makes threads by clone, whose flags can be looked at.
    (libc::SYS_clone3, libc::ENOSYS),
    // Its allocator looks into /proc for a setting.
    (libc::SYS_openat, libc::EACCES),
    (libc::SYS_open, libc::EACCES),
];

/// `prctl` options: a thread's name, a mapping's name.
const PRCTL: [u64; 2] = [libc::PR_SET_NAME as u64, 0x5356_4d41];
/// `arch_prctl` options: an emulated CPU has its own GS base.
const ARCH_PRCTL: [u64; 2] = [0x1001, 0x1004];
/// `fcntl` commands.
const FCNTL: [u64; 6] = [
    libc::F_GETFL as u64,
    libc::F_SETFL as u64,
    libc::F_GETFD as u64,
    libc::F_SETFD as u64,
    libc::F_DUPFD_CLOEXEC as u64,
    libc::F_GET_SEALS as u64,
];

/// Whether the landlock domain is there in full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Files {
    /// No file can be opened.
    Closed,
    /// Some of what is asked for this kernel does not know.
    Partly,
    /// The kernel has no landlock; system calls that open files are refused all the same.
    Open,
}

fn when(arg: u8, op: SeccompCmpOp, value: u64) -> Result<SeccompRule, seccompiler::BackendError> {
    SeccompRule::new(vec![SeccompCondition::new(
        arg,
        SeccompCmpArgLen::Qword,
        op,
        value,
    )?])
}

fn low(arg: u8, value: u64) -> Result<SeccompRule, seccompiler::BackendError> {
    SeccompRule::new(vec![SeccompCondition::new(
        arg,
        SeccompCmpArgLen::Dword,
        SeccompCmpOp::Eq,
        value,
    )?])
}

/// The allow list, with everything else fatal.
fn allow() -> Result<BpfProgram, seccompiler::BackendError> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> =
        ALLOWED.iter().map(|&call| (call, Vec::new())).collect();
    for &(call, _) in REFUSED {
        rules.insert(call, Vec::new());
    }
    let threads = libc::CLONE_THREAD as u64;
    rules.insert(
        libc::SYS_clone,
        vec![when(0, SeccompCmpOp::MaskedEq(threads), threads)?],
    );
    let code = libc::PROT_EXEC as u64;
    for call in [libc::SYS_mmap, libc::SYS_mprotect] {
        rules.insert(call, vec![when(2, SeccompCmpOp::MaskedEq(code), 0)?]);
    }
    let each = |arg, values: &[u64]| {
        values
            .iter()
            .map(|&v| low(arg, v))
            .collect::<Result<Vec<_>, _>>()
    };
    rules.insert(libc::SYS_prctl, each(0, &PRCTL)?);
    rules.insert(libc::SYS_arch_prctl, each(0, &ARCH_PRCTL)?);
    rules.insert(libc::SYS_fcntl, each(1, &FCNTL)?);
    rules.insert(libc::SYS_ioctl, each(1, &[libc::FIONBIO])?);
    rules.insert(libc::SYS_socketpair, each(0, &[libc::AF_UNIX as u64])?);
    filter(rules, SeccompAction::KillProcess, SeccompAction::Allow)
}

/// An error for those calls whose makers live without.
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

/// Closes the calling thread in, and with it those that it makes later.
pub(crate) fn close() -> Result<Files, Error> {
    let files = no_files()?;
    let lacks = |e: &dyn std::fmt::Display| {
        Error::lacks(
            "seccomp",
            format!("{e}: run with --no-sandbox to do without"),
        )
    };
    // The one that kills comes last: the others still have to be installed.
    for &(call, errno) in REFUSED {
        let program = refuse(call, errno).map_err(|e| lacks(&e))?;
        apply_filter(&program).map_err(|e| lacks(&e))?;
    }
    let program = allow().map_err(|e| lacks(&e))?;
    apply_filter(&program).map_err(|e| lacks(&e))?;
    Ok(files)
}

/// A landlock domain without a rule: nothing beneath any directory, no TCP.
fn no_files() -> Result<Files, Error> {
    let lacks = |e: &dyn std::fmt::Display| {
        Error::lacks(
            "landlock",
            format!("{e}: run with --no-sandbox to do without"),
        )
    };
    let abi = ABI::V6;
    let status = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(abi))
        .and_then(|rules| rules.handle_access(AccessNet::from_all(abi)))
        .and_then(|rules| rules.create())
        .and_then(|rules| rules.restrict_self())
        .map_err(|e| lacks(&e))?;
    Ok(match status.ruleset {
        RulesetStatus::FullyEnforced => Files::Closed,
        RulesetStatus::PartiallyEnforced => Files::Partly,
        RulesetStatus::NotEnforced => Files::Open,
    })
}
