//! Counters that the CPU (perf_event_open) and the kernel provide for the calling thread.
//!
//! The CPU's counters (cycles, instructions, branch misses) count in user mode only. An
//! unprivileged process may open them unless `kernel.perf_event_paranoid` is above 2. Many virtual
//! CPUs do not provide them; [`Counters::refusal`] then returns the reason. The kernel's counts
//! (getrusage, thread clock) are always available, except for migrations, which need a perf event.

use std::fs;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Values of the CPU's counters at one moment, or their increase between two moments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Hardware {
    /// Core cycles in user mode.
    pub cycles: f64,
    /// Retired instructions.
    pub instructions: f64,
    /// Mispredicted branches; `None` if the CPU does not count them.
    pub branch_misses: Option<f64>,
}

/// Values of the kernel's counters for the thread at one moment, or their increase between two
/// moments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Software {
    /// CPU time that the thread has used, in seconds.
    pub task_clock_s: f64,
    pub context_switches: u64,
    pub page_faults: u64,
    /// Number of moves to another core; `None` if the kernel does not let this process count them.
    pub migrations: Option<u64>,
}

impl Hardware {
    /// Returns the increase of each counter since `before`.
    pub(crate) fn since(&self, before: &Hardware) -> Hardware {
        Hardware {
            cycles: self.cycles - before.cycles,
            instructions: self.instructions - before.instructions,
            branch_misses: self
                .branch_misses
                .zip(before.branch_misses)
                .map(|(now, then)| now - then),
        }
    }
}

impl Software {
    /// Adds the increase from `before` to `after` to each counter.
    pub(crate) fn add(&mut self, before: &Software, after: &Software) {
        self.task_clock_s += after.task_clock_s - before.task_clock_s;
        self.context_switches += after.context_switches - before.context_switches;
        self.page_faults += after.page_faults - before.page_faults;
        let more = after.migrations.zip(before.migrations);
        self.migrations = more.map(|(now, then)| self.migrations.unwrap_or(0) + now - then);
    }
}

/// `struct perf_event_attr` in the first version of the interface (PERF_ATTR_SIZE_VER0, 64 bytes),
/// which all kernels accept.
#[repr(C)]
#[derive(Default)]
struct Attr {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    bp_type: u32,
    bp_addr: u64,
}

const _: () = assert!(size_of::<Attr>() == 64);

/// Constants from `linux/perf_event.h`.
const TYPE_HARDWARE: u32 = 0;
const TYPE_SOFTWARE: u32 = 1;
const HW_CPU_CYCLES: u64 = 0;
const HW_INSTRUCTIONS: u64 = 1;
const HW_BRANCH_MISSES: u64 = 5;
const SW_CPU_MIGRATIONS: u64 = 4;
const FLAG_EXCLUDE_KERNEL: u64 = 1 << 5;
const FLAG_EXCLUDE_HV: u64 = 1 << 6;
const FORMAT_TIMES: u64 = 1 | 2;
const FORMAT_GROUP: u64 = 8;
const CLOSE_ON_EXEC: libc::c_ulong = 8;

/// Opens an event that counts for the calling thread on every core. If `leader` is given, the event
/// joins that leader's group.
fn open(kind: u32, config: u64, leader: Option<&OwnedFd>) -> io::Result<OwnedFd> {
    let attr = Attr {
        kind,
        size: size_of::<Attr>() as u32,
        config,
        read_format: match kind {
            TYPE_HARDWARE => FORMAT_TIMES | FORMAT_GROUP,
            _ => 0,
        },
        flags: match kind {
            TYPE_HARDWARE => FLAG_EXCLUDE_KERNEL | FLAG_EXCLUDE_HV,
            _ => 0,
        },
        ..Attr::default()
    };
    let group = leader.map_or(-1, AsRawFd::as_raw_fd);
    // SAFETY: `attr` is a valid perf_event_attr, its `size` field is correct, and the kernel only
    // reads it.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            &attr,
            0,
            -1,
            group,
            CLOSE_ON_EXEC,
        )
    };
    match fd {
        ..0 => Err(io::Error::last_os_error()),
        // SAFETY: the system call returned this descriptor, and nothing else owns it.
        _ => Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) }),
    }
}

/// Reads `N` words from an event. Returns `None` if the event provides fewer.
fn read<const N: usize>(event: &OwnedFd) -> Option<[u64; N]> {
    let mut words = [0u64; N];
    // SAFETY: `words` is writable, and its size is the length passed to read().
    let got = unsafe {
        libc::read(
            event.as_raw_fd(),
            words.as_mut_ptr().cast(),
            size_of_val(&words),
        )
    };
    (got == size_of_val(&words) as isize).then_some(words)
}

/// The counters of the thread that called [`Counters::open`].
pub struct Counters {
    /// The group of counters for cycles (the leader), instructions, and branch misses.
    hardware: Option<(OwnedFd, OwnedFd, Option<OwnedFd>)>,
    refusal: Option<String>,
    migrations: Option<OwnedFd>,
}

impl Counters {
    /// Opens the counters that this machine provides. Unavailable counters are omitted, so this
    /// function cannot fail.
    pub fn open() -> Counters {
        let group = || {
            let cycles = open(TYPE_HARDWARE, HW_CPU_CYCLES, None)?;
            let instructions = open(TYPE_HARDWARE, HW_INSTRUCTIONS, Some(&cycles))?;
            let misses = open(TYPE_HARDWARE, HW_BRANCH_MISSES, Some(&cycles)).ok();
            Ok((cycles, instructions, misses))
        };
        let (hardware, refusal) = match group() {
            Ok(group) => (Some(group), None),
            Err(e) => (None, Some(explain(&e, &paranoid()))),
        };
        Counters {
            hardware,
            refusal,
            migrations: open(TYPE_SOFTWARE, SW_CPU_MIGRATIONS, None).ok(),
        }
    }

    /// Returns why the CPU's counters are not available, or `None` if they are.
    pub fn refusal(&self) -> Option<&str> {
        self.refusal.as_deref()
    }

    /// Reads the CPU's counters. If the kernel multiplexed them with other events, the values are
    /// scaled up to estimate the counts for the whole period.
    pub fn hardware(&self) -> Option<Hardware> {
        let (cycles, _, misses) = self.hardware.as_ref()?;
        match misses {
            Some(_) => read::<6>(cycles).and_then(|words| parse_group(&words)),
            None => read::<5>(cycles).and_then(|words| parse_group(&words)),
        }
    }

    /// Reads the kernel's counters.
    pub fn software(&self) -> Software {
        let mut usage = MaybeUninit::<libc::rusage>::zeroed();
        // SAFETY: the structure consists of integers, so all-zero bytes are valid, and it is writable
        // during the call. If the call fails, the structure stays zero.
        let usage = unsafe {
            libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr());
            usage.assume_init()
        };
        Software {
            task_clock_s: thread_cpu_time().as_secs_f64(),
            context_switches: (usage.ru_nvcsw + usage.ru_nivcsw) as u64,
            page_faults: (usage.ru_minflt + usage.ru_majflt) as u64,
            migrations: self.migrations.as_ref().and_then(read::<1>).map(|w| w[0]),
        }
    }
}

/// Returns the CPU time that the calling thread has used.
pub fn thread_cpu_time() -> Duration {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is writable, and the call writes nothing else. The return value is ignored,
    // because every Linux kernel has this clock.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Parses the words read from a group: the number of events, how long the group was enabled, how
/// long it actually counted, and one value per event. Returns `None` if the group never counted.
fn parse_group(words: &[u64]) -> Option<Hardware> {
    let [events, enabled, running, values @ ..] = words else {
        return None;
    };
    if *running == 0 || *events != values.len() as u64 {
        return None;
    }
    let scale = *enabled as f64 / *running as f64;
    let value = |i: usize| values.get(i).map(|v| *v as f64 * scale);
    Some(Hardware {
        cycles: value(0)?,
        instructions: value(1)?,
        branch_misses: value(2),
    })
}

/// Returns the value of the sysctl `kernel.perf_event_paranoid`, or "unknown" if it cannot be read.
fn paranoid() -> String {
    let text = fs::read_to_string("/proc/sys/kernel/perf_event_paranoid");
    text.map_or("unknown".to_string(), |text| text.trim().to_string())
}

/// Explains why perf_event_open failed. The text includes the name of the error.
fn explain(e: &io::Error, paranoid: &str) -> String {
    let virtual_cpu = match std::arch::x86_64::__cpuid(1).ecx >> 31 {
        0 => "this CPU or kernel has none",
        _ => "this CPU is virtual, and its hypervisor offers no counters",
    };
    let (name, why) = match e.raw_os_error() {
        Some(libc::ENOENT) => ("ENOENT", virtual_cpu.to_string()),
        Some(libc::ENODEV) => ("ENODEV", virtual_cpu.to_string()),
        Some(libc::EOPNOTSUPP) => ("EOPNOTSUPP", virtual_cpu.to_string()),
        Some(libc::ENOSYS) => ("ENOSYS", "this kernel was built without CONFIG_PERF_EVENTS".to_string()),
        Some(code @ (libc::EACCES | libc::EPERM)) => (
            if code == libc::EACCES { "EACCES" } else { "EPERM" },
            format!(
                "kernel.perf_event_paranoid is {paranoid}: run sysctl kernel.perf_event_paranoid=2, add CAP_PERFMON, or allow \
                 the call in the container"
            ),
        ),
        _ => ("", e.to_string()),
    };
    match name {
        "" => format!("perf_event_open: {why}"),
        name => format!("perf_event_open: {name}, {why}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_read_and_scaled() {
        let found = parse_group(&[3, 100, 100, 4000, 8000, 7]).unwrap();
        let want = Hardware {
            cycles: 4000.0,
            instructions: 8000.0,
            branch_misses: Some(7.0),
        };
        assert_eq!(found, want);
        // The group counted for half of the time, so its values are doubled.
        let found = parse_group(&[2, 100, 50, 4000, 8000]).unwrap();
        assert_eq!((found.cycles, found.branch_misses), (8000.0, None));
        assert_eq!(parse_group(&[2, 100, 0, 0, 0]), None);
        assert_eq!(parse_group(&[3, 100, 100, 1, 2]), None);
        assert_eq!(parse_group(&[]), None);
    }

    #[test]
    fn a_refusal_has_its_reason() {
        let of = |code| explain(&io::Error::from_raw_os_error(code), "4");
        assert!(of(libc::ENOENT).starts_with("perf_event_open: ENOENT, this CPU"));
        let e = of(libc::EACCES);
        assert!(e.contains("EACCES, kernel.perf_event_paranoid is 4"), "{e}");
        assert!(of(libc::EPERM).contains("EPERM"));
        assert!(of(libc::ENOSYS).contains("CONFIG_PERF_EVENTS"));
        assert!(of(libc::EIO).starts_with("perf_event_open: "));
    }

    /// Depending on the machine, either the counters count or `refusal` gives a reason.
    #[test]
    fn counters_count_or_give_a_reason() {
        let counters = Counters::open();
        if let Some(why) = counters.refusal() {
            assert!(why.contains("perf_event_open"), "{why}");
            assert_eq!(counters.hardware(), None);
            return;
        }
        // Try repeatedly: if other programs also use the counters, this thread has them only part
        // of the time.
        let is_counted = || {
            let before = counters.hardware()?;
            std::hint::black_box((0..100_000u64).fold(0, |x, n| std::hint::black_box(x ^ n)));
            Some(counters.hardware()?.since(&before).instructions > 100_000.0)
        };
        assert!((0..10_000).any(|_| is_counted() == Some(true)));
    }

    #[test]
    fn the_kernel_counts_page_faults_and_time() {
        let counters = Counters::open();
        let before = counters.software();
        let mut pages = vec![0u8; 1 << 22];
        pages.iter_mut().step_by(4096).for_each(|byte| *byte = 1);
        std::hint::black_box(&pages);
        let mut sum = Software::default();
        sum.add(&before, &counters.software());
        assert!(sum.page_faults > 0 && sum.task_clock_s > 0.0, "{sum:?}");
    }
}
