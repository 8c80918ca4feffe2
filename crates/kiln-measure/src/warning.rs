//! Warnings about disturbances of a run. Each is a single line that states what happened, what it
//! means for the results, and what to do about it.
//!
//! Warnings cover disturbances that the intervals do not show. Each threshold is above the level
//! observed on a quiet machine.

use std::fmt;

use crate::watch::Reading;

/// Disturbances are judged only in runs of at least this many seconds. The kernel counts in steps
/// of 10 ms, which is too coarse for shorter runs.
const SHORTEST_S: f64 = 0.2;
/// Share of all processors that other programs may use without causing a warning. Daemons and
/// kernel threads use 1% or 2%.
const OTHERS: f64 = 0.05;
/// Share of a single processor. Other programs cause a warning only if they use more than this as
/// well as more than [`OTHERS`]. Without this second threshold, timer ticks alone would make a
/// small machine count as busy.
const OTHERS_CPU: f64 = 0.10;
/// Share of one processor's time that the hypervisor may steal without causing a warning. The
/// self-check uses the same limit.
const STOLEN: f64 = 0.01;
/// Tolerated relative change of the core's clock frequency. Repeated calibrations agree to within
/// 1%.
const CLOCK: f64 = 0.03;
/// Maximum share of its time that the measuring thread may spend waiting for a core.
const WAITED: f64 = 0.02;
/// The thread that takes the readings counts as the measuring thread if it was running or waiting
/// to run for at least this share of the run.
const MEASURES: f64 = 0.5;
/// A warning is given if the thread migrates more than [`MOVES_A_SECOND`] times per second and at
/// least [`MOVES`] times in total. Starting a program causes one or two migrations.
const MOVES_A_SECOND: f64 = 1.0;
const MOVES: u64 = 5;
/// Maximum share of the run during which other work may keep the core's SMT sibling busy.
const SIBLING: f64 = 0.05;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// Other programs ran during the measurement.
    Busy,
    /// The hypervisor took processor time for other guests.
    Stolen,
    /// The core's clock frequency changed.
    Clock,
    /// The measuring thread moved to another core.
    Moved,
    /// The measuring thread waited for its core.
    SwitchedOut,
    /// Other work ran on the SMT sibling of the measuring thread's core.
    Sibling,
    /// The clock frequency may exceed its nominal value (turbo).
    Turbo,
    /// A value that the machine could provide is missing.
    Missing,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Kind::Busy => "busy machine",
            Kind::Stolen => "stolen time",
            Kind::Clock => "floating clock",
            Kind::Moved => "moved between cores",
            Kind::SwitchedOut => "switched out",
            Kind::Sibling => "busy sibling",
            Kind::Turbo => "turbo",
            Kind::Missing => "missing",
        }
    }
}

/// Prefix of every warning, which distinguishes it from other notes.
pub const PREFIX: &str = "warning: ";

/// A warning, printed as a line that begins with [`PREFIX`] and the name of its kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    pub kind: Kind,
    /// States the size of the disturbance, what it means for the results, and the remedy.
    pub text: String,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}: {}", self.kind.name(), self.text)
    }
}

/// Returns whether other programs use enough of the machine's `cpus` processors to affect results.
/// `others` is the CPU time of these programs, in seconds per second of the run.
pub fn is_busy(others: f64, cpus: usize) -> bool {
    others > OTHERS * cpus.max(1) as f64 && others > OTHERS_CPU
}

/// Returns all warnings that follow from the readings before and after a run.
pub fn judge(before: &Reading, after: &Reading) -> Vec<Warning> {
    let mut all = Vec::new();
    let mut warn = |kind, text: Option<String>| all.extend(text.map(|text| Warning { kind, text }));
    warn(Kind::Turbo, turbo(after));
    let run = Run {
        before,
        after,
        seconds: after.at_s - before.at_s,
    };
    if run.seconds >= SHORTEST_S {
        warn(Kind::Busy, run.busy());
        warn(Kind::Stolen, run.stolen());
        warn(Kind::Clock, run.clock());
        warn(Kind::Moved, run.moved());
        warn(Kind::SwitchedOut, run.switched_out());
        warn(Kind::Sibling, run.sibling());
    }
    all.sort_by_key(|w| w.kind);
    all
}

fn turbo(after: &Reading) -> Option<String> {
    (after.turbo == Some(true)).then(|| {
        "the core's clock depends on heat and load. Results in cycles are valid, but results per unit of time (GB/s, µs, packets/s) \
         may not repeat. To switch turbo off, write 0 to /sys/devices/system/cpu/cpufreq/boost, or 1 to \
         .../cpu/intel_pstate/no_turbo"
            .to_string()
    })
}

struct Run<'a> {
    before: &'a Reading,
    after: &'a Reading,
    seconds: f64,
}

impl Run<'_> {
    /// Returns how many seconds this processor was busy during the run.
    fn busy_time(&self, core: usize) -> Option<f64> {
        let of = |r: &Reading| r.busy_s.iter().find(|b| b.0 == core).map(|b| b.1);
        Some(of(self.after)? - of(self.before)?)
    }

    fn busy(&self) -> Option<String> {
        let cores = self.after.busy_s.len();
        let all: Option<Vec<f64>> = self
            .after
            .busy_s
            .iter()
            .map(|b| self.busy_time(b.0))
            .collect();
        let all: f64 = all?.iter().sum();
        let own = self.after.own_s - self.before.own_s;
        let others = (all - own).max(0.0) / self.seconds;
        let load = match self.before.load {
            Some(load) => format!(" (load average before the run: {load:.1})"),
            None => String::new(),
        };
        is_busy(others, cores).then(|| {
            format!(
                "other programs used {:.0} % of {cores} CPUs{load}. This makes intervals wider and throughput too low. End these \
                 programs, or name idle cores with --cpu",
                100.0 * others / cores.max(1) as f64
            )
        })
    }

    fn stolen(&self) -> Option<String> {
        let stolen = (self.after.stolen_s? - self.before.stolen_s?) / self.seconds;
        (stolen > STOLEN).then(|| {
            format!(
                "the hypervisor took {:.1} % of a CPU's time for other work. The shortest times are valid, but the longest (p99.9, max) \
                 are not. Run again when the host is quiet",
                100.0 * stolen
            )
        })
    }

    fn clock(&self) -> Option<String> {
        let (was, is) = (self.before.core_hz?, self.after.core_hz?);
        let moved = (is / was).max(was / is) - 1.0;
        (moved > CLOCK).then(|| {
            format!(
                "the core's clock went from {:.2} to {:.2} GHz during the run. Results in cycles are valid. Results per unit of time \
                 (GB/s, ns, µs, packets/s) may be wrong by {:.0} % or more. To hold the clock, run cpupower frequency-set -g \
                 performance; for a virtual machine, run it on the host",
                was / 1e9,
                is / 1e9,
                100.0 * moved
            )
        })
    }

    /// Returns how many seconds the thread ran and how many it waited, or `None` if it is not the
    /// measuring thread.
    fn thread(&self) -> Option<(f64, f64)> {
        let (was, is) = (self.before.thread?, self.after.thread?);
        let (ran, waited) = (is.ran_s - was.ran_s, is.waited_s - was.waited_s);
        (ran + waited >= MEASURES * self.seconds).then_some((ran, waited))
    }

    fn moved(&self) -> Option<String> {
        self.thread()?;
        let moves = self
            .after
            .migrations?
            .saturating_sub(self.before.migrations?);
        let often = moves as f64 > MOVES_A_SECOND * self.seconds && moves >= MOVES;
        often.then(|| {
            format!(
                "the measuring thread changed cores {moves} times, each time to cold caches. Allow sched_setaffinity, or start Kiln \
                 with taskset -c N"
            )
        })
    }

    fn switched_out(&self) -> Option<String> {
        let (ran, waited) = self.thread()?;
        let share = waited / (ran + waited);
        (share > WAITED).then(|| {
            format!(
                "the measuring thread waited {:.0} % of its time for a core. The shortest times are valid, throughput and the \
                 longest times are not. Name an idle core with --cpu",
                100.0 * share
            )
        })
    }

    fn sibling(&self) -> Option<String> {
        let (ran, _) = self.thread()?;
        let core = self.after.core?;
        let sibling = *self.after.siblings.first()?;
        // Subtract the time of this process's other threads, because they may run on the sibling.
        let own = (self.after.own_s - self.before.own_s - ran).max(0.0);
        let others = (self.busy_time(sibling)? - own) / self.seconds;
        (others > SIBLING).then(|| {
            format!(
                "CPU {sibling}, the other half of core {core}, was busy for {:.0} % of the time. Results are too slow. Leave it \
                 idle, or write off to /sys/devices/system/cpu/smt/control",
                100.0 * others
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watch::ThreadTime;

    /// Returns the readings taken before and after a thread ran for ten seconds on core 0 of an
    /// otherwise idle machine with four cores.
    fn quiet() -> (Reading, Reading) {
        let before = Reading {
            at_s: 0.0,
            busy_s: (0..4).map(|i| (i, 100.0)).collect(),
            own_s: 1.0,
            stolen_s: Some(5.0),
            load: Some(0.1),
            thread: Some(ThreadTime {
                ran_s: 1.0,
                waited_s: 0.0,
            }),
            migrations: Some(3),
            core: Some(0),
            siblings: vec![2],
            turbo: Some(false),
            core_hz: Some(4.00e9),
        };
        let after = Reading {
            at_s: 10.0,
            busy_s: vec![(0, 110.0), (1, 100.1), (2, 100.1), (3, 100.1)],
            own_s: 11.0,
            stolen_s: Some(5.05),
            load: Some(0.9),
            thread: Some(ThreadTime {
                ran_s: 10.9,
                waited_s: 0.1,
            }),
            migrations: Some(5),
            core_hz: Some(4.03e9),
            ..before.clone()
        };
        (before, after)
    }

    fn kinds(change: impl FnOnce(&mut Reading, &mut Reading)) -> Vec<Kind> {
        let (mut before, mut after) = quiet();
        change(&mut before, &mut after);
        judge(&before, &after).iter().map(|w| w.kind).collect()
    }

    #[test]
    fn a_quiet_run_has_no_warning() {
        assert_eq!(kinds(|_, _| ()), []);
    }

    #[test]
    fn each_disturbance_has_its_warning_and_no_other() {
        assert_eq!(kinds(|_, a| a.busy_s[1].1 += 4.0), [Kind::Busy]);
        assert_eq!(
            kinds(|_, a| a.stolen_s = a.stolen_s.map(|s| s + 0.2)),
            [Kind::Stolen]
        );
        assert_eq!(kinds(|_, a| a.core_hz = Some(3.7e9)), [Kind::Clock]);
        assert_eq!(kinds(|_, a| a.core_hz = Some(4.4e9)), [Kind::Clock]);
        assert_eq!(kinds(|_, a| a.migrations = Some(40)), [Kind::Moved]);
        let waits = |_: &mut Reading, a: &mut Reading| {
            a.thread = Some(ThreadTime {
                ran_s: 10.0,
                waited_s: 1.0,
            });
        };
        assert_eq!(kinds(waits), [Kind::SwitchedOut]);
        // One busy second in ten is too little for a warning about the whole machine, but enough
        // for a warning about the core's sibling.
        assert_eq!(kinds(|_, a| a.busy_s[2].1 += 1.0), [Kind::Sibling]);
        assert_eq!(kinds(|_, a| a.turbo = Some(true)), [Kind::Turbo]);
    }

    #[test]
    fn what_a_run_does_itself_is_no_disturbance() {
        // Add the CPU time of three more threads, or of child processes that have exited.
        let own = |_: &mut Reading, a: &mut Reading| {
            a.own_s += 30.0;
            a.busy_s[1..].iter_mut().for_each(|b| b.1 += 10.0);
        };
        assert_eq!(kinds(own), []);
    }

    #[test]
    fn a_thread_that_sleeps_is_not_the_one_that_measures() {
        let sleeps = |b: &mut Reading, a: &mut Reading| {
            a.thread = b.thread.map(|t| ThreadTime {
                ran_s: t.ran_s + 1.0,
                waited_s: t.waited_s + 0.5,
            });
            a.migrations = Some(900);
        };
        assert_eq!(kinds(sleeps), []);
    }

    #[test]
    fn what_cannot_be_read_is_not_judged() {
        let blind = |b: &mut Reading, a: &mut Reading| {
            for r in [b, a] {
                *r = Reading {
                    at_s: r.at_s,
                    ..Reading::default()
                };
            }
        };
        assert_eq!(kinds(blind), []);
        let short = |_: &mut Reading, a: &mut Reading| {
            a.at_s = 0.1;
            a.busy_s[3].1 += 50.0;
        };
        assert_eq!(kinds(short), []);
    }

    #[test]
    fn a_warning_is_a_line_that_says_what_to_do() {
        let (before, mut after) = quiet();
        after.busy_s[1].1 += 20.0;
        let line = judge(&before, &after)[0].to_string();
        assert!(
            line.starts_with("warning: busy machine: other programs used 51 % of 4 CPUs (load average before the run: 0.1"),
            "{line}"
        );
        assert!(line.ends_with("--cpu") && line.lines().count() == 1);
    }
}
