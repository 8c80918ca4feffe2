//! Reads the machine's state before and after a run. Uses only /proc and /sys. Each reading takes
//! about a millisecond.

use std::fs;
use std::time::Instant;

use crate::machine::stolen_s;
use crate::pin::siblings;
use crate::Clock;

/// The machine's state at one moment. A value that could not be read is `None` or empty. Times are
/// in seconds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reading {
    /// Seconds between [`Watch::start`] and the reading.
    pub at_s: f64,
    /// Each processor's number and its busy time since boot, excluding stolen time.
    pub busy_s: Vec<(usize, f64)>,
    /// CPU time of this process and of all its child processes that have exited.
    pub own_s: f64,
    /// Time that the hypervisor has stolen since boot, summed over all processors.
    pub stolen_s: Option<f64>,
    /// Load average over the last minute.
    pub load: Option<f64>,
    /// How long the calling thread has run since it was created, and how long it has waited for a
    /// core.
    pub thread: Option<ThreadTime>,
    /// Number of times the calling thread has changed cores.
    pub migrations: Option<u64>,
    /// The core on which the calling thread last ran.
    pub core: Option<usize>,
    /// The other logical processors that share the execution units of `core`.
    pub siblings: Vec<usize>,
    /// Whether the clock frequency may exceed its nominal value; `None` if the setting cannot be
    /// read, as in some guests.
    pub turbo: Option<bool>,
    /// Core cycles per second.
    pub core_hz: Option<f64>,
}

/// How long a thread has run, and how long it has waited for a core (proc(5), schedstat).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ThreadTime {
    /// Seconds for which the thread ran on a core.
    pub ran_s: f64,
    /// Seconds for which the thread was runnable but waited for a core.
    pub waited_s: f64,
}

/// Takes readings of the machine's state before and after a run. [`Watch::start`] and
/// [`Watch::readings`] must be called from the measuring thread.
#[derive(Clone, Debug)]
pub struct Watch {
    since: Instant,
    before: Reading,
}

impl Watch {
    pub fn start() -> Watch {
        let since = Instant::now();
        Watch {
            since,
            before: Reading::take(since),
        }
    }

    /// Returns the reading taken at the start and a new one. `core_hz` is the core's clock
    /// frequency at the start. This call measures the current frequency, which takes 30 ms.
    pub fn readings(&self, core_hz: f64) -> (Reading, Reading) {
        let mut after = Reading::take(self.since);
        after.core_hz = Some(Clock::calibrate().core_hz());
        let mut before = self.before.clone();
        before.core_hz = Some(core_hz);
        (before, after)
    }
}

impl Reading {
    fn take(since: Instant) -> Reading {
        let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let core = current_core();
        Reading {
            at_s: since.elapsed().as_secs_f64(),
            busy_s: busy(&text("/proc/stat"), ticks_a_second()),
            own_s: own_s(),
            stolen_s: stolen_s(),
            load: text("/proc/loadavg")
                .split(' ')
                .next()
                .and_then(|w| w.parse().ok()),
            thread: thread(&text("/proc/thread-self/schedstat")),
            migrations: migrations(&text("/proc/thread-self/sched")),
            core,
            siblings: core.map(siblings).unwrap_or_default(),
            turbo: turbo(
                &text("/sys/devices/system/cpu/intel_pstate/no_turbo"),
                &text("/sys/devices/system/cpu/cpufreq/boost"),
            ),
            core_hz: None,
        }
    }
}

/// Returns the core that the calling thread last ran on.
pub fn current_core() -> Option<usize> {
    core(&fs::read_to_string("/proc/thread-self/stat").ok()?)
}

/// Returns the total time, in seconds, that the processors in `cores` have been busy since boot,
/// excluding stolen time. Returns `None` if /proc/stat does not list all of them.
pub fn busy_on(cores: &[usize]) -> Option<f64> {
    let all = busy(&fs::read_to_string("/proc/stat").ok()?, ticks_a_second());
    let of = |core: &usize| all.iter().find(|b| b.0 == *core).map(|b| b.1);
    cores.iter().map(of).sum()
}

fn ticks_a_second() -> f64 {
    // SAFETY: sysconf() only reads its argument.
    let hz = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    hz.max(1) as f64
}

/// Returns the number of each processor and the sum of its user, nice, system, irq and softirq
/// time, read from the `cpuN` lines (proc_stat(5)).
fn busy(stat: &str, ticks_a_second: f64) -> Vec<(usize, f64)> {
    let of = |line: &str| {
        let mut words = line.strip_prefix("cpu")?.split_whitespace();
        let number = words.next()?.parse().ok()?;
        let ticks: Vec<u64> = words.map_while(|w| w.parse().ok()).collect();
        let busy = [0, 1, 2, 5, 6].iter().map(|&i| ticks.get(i).copied());
        let busy: u64 = busy.sum::<Option<u64>>()?;
        Some((number, busy as f64 / ticks_a_second))
    };
    // Skip the first line, which holds the sum over all processors and has no number.
    stat.lines()
        .filter(|l| !l.starts_with("cpu "))
        .filter_map(of)
        .collect()
}

/// Returns the CPU time of this process and of all its child processes that it has waited for.
fn own_s() -> f64 {
    let of = |who| {
        // SAFETY: rusage consists of integers, so all-zero bytes are valid.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: `usage` is a valid, writable rusage for the call's duration. If the call fails,
        // it stays zero.
        unsafe { libc::getrusage(who, &mut usage) };
        let seconds = |t: libc::timeval| t.tv_sec as f64 + t.tv_usec as f64 / 1e6;
        seconds(usage.ru_utime) + seconds(usage.ru_stime)
    };
    of(libc::RUSAGE_SELF) + of(libc::RUSAGE_CHILDREN)
}

fn thread(schedstat: &str) -> Option<ThreadTime> {
    let mut ns = schedstat.split_whitespace().map(|w| w.parse::<u64>());
    let mut next = || Some(ns.next()?.ok()? as f64 / 1e9);
    Some(ThreadTime {
        ran_s: next()?,
        waited_s: next()?,
    })
}

fn migrations(sched: &str) -> Option<u64> {
    let line = sched.lines().find(|l| l.starts_with("se.nr_migrations"))?;
    line.rsplit(':').next()?.trim().parse().ok()
}

/// Returns field 39, the core that the thread last ran on (proc_pid_stat(5)). The process name may
/// contain blanks, so the fields are counted from the parenthesis that closes it.
fn core(stat: &str) -> Option<usize> {
    let after_name = stat.rsplit_once(')')?.1;
    after_name.split_whitespace().nth(36)?.parse().ok()
}

/// Returns whether turbo is enabled. Uses the Intel driver's file if it exists, and the generic
/// file otherwise.
fn turbo(no_turbo: &str, boost: &str) -> Option<bool> {
    match (no_turbo.trim(), boost.trim()) {
        ("0", _) => Some(true),
        ("1", _) => Some(false),
        (_, "0") => Some(false),
        (_, "1") => Some(true),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proc_files() {
        let stat = "cpu  9 9 9 9 9 9 9 9 0 0\ncpu0 10 20 30 9999 9 1 2 77 0 0\ncpu1 100 0 0 1 0 0 0 0\nintr 5\n";
        assert_eq!(busy(stat, 100.0), [(0, 0.63), (1, 1.0)]);
        assert_eq!(busy("cpu0 1 2\n", 100.0), []);
        let time = thread("2000000000 500000000 17\n").unwrap();
        assert_eq!((time.ran_s, time.waited_s), (2.0, 0.5));
        assert_eq!(thread(""), None);
        let sched = "kiln (1, #threads: 1)\nse.exec_start : 1.0\nse.nr_migrations      :      12\n";
        assert_eq!(migrations(sched), Some(12));
        assert_eq!(migrations("no debugging"), None);
        let tail = "0 ".repeat(36);
        assert_eq!(core(&format!("7 (a b) c) {tail}5 0")), Some(5));
        assert_eq!(core(""), None);
    }

    #[test]
    fn a_core_that_spins_is_busy() {
        let core = current_core().unwrap();
        crate::pin(&core.to_string().parse().unwrap()).unwrap();
        // Time that the host steals does not count as busy time, so several attempts may be needed.
        let is_seen = || {
            let (start, before) = (Instant::now(), busy_on(&[core]).unwrap());
            while start.elapsed().as_millis() < 100 {
                std::hint::spin_loop();
            }
            busy_on(&[core]).unwrap() > before
        };
        assert!((0..50).any(|_| is_seen()));
        assert_eq!(busy_on(&[core, usize::MAX]), None);
    }

    #[test]
    fn this_thread_runs_on_an_allowed_core() {
        let core = current_core().unwrap();
        assert!(crate::CoreList::allowed().unwrap().cores().contains(&core));
    }

    #[test]
    fn turbo_is_on_off_or_unknown() {
        assert_eq!(turbo("0\n", ""), Some(true));
        assert_eq!(turbo("1\n", "1\n"), Some(false));
        assert_eq!(turbo("", "1\n"), Some(true));
        assert_eq!(turbo("", "0\n"), Some(false));
        assert_eq!(turbo("", ""), None);
    }

    #[test]
    fn time_that_is_spent_is_this_process_s() {
        let watch = Watch::start();
        let start = Instant::now();
        while start.elapsed().as_millis() < 30 {
            std::hint::spin_loop();
        }
        let (before, after) = watch.readings(4e9);
        assert!(after.own_s > before.own_s && after.at_s > before.at_s);
        assert_eq!(before.core_hz, Some(4e9));
        assert!(after.core_hz.unwrap() > 1e8);
        assert!(after.busy_s.len() >= before.busy_s.len());
    }
}
