//! Runs campaigns, which inject a requested number of interrupts at random instructions of FPU
//! sections. A campaign is divided into slices.
//!
//! A round consists of one slice of each policy under each load. A slice has a fixed number of
//! interrupts and is fully determined by its seed, so that a wrong result can be reproduced. Every
//! round has a different seed, and therefore different messages, keys and breakpoints. Counts are
//! 64-bit sums over slices, so memory use does not grow with the length of a campaign.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use kiln_kernel::cpu::{kiln_tsc_hz, Scheduler};
use kiln_kernel::irq::{Breakpoints, Step, Stepping};
use kiln_kernel::load::{best_impl, Load};
use kiln_measure::counters::thread_cpu_time;
use kiln_measure::SplitMix64;
use kiln_question::{Error, Outcome, Report};

use super::bench::{idle_load, Bench};
use super::plan::{Entry, Fallback, Plan};
use super::replay::REPLAY;
use super::row::Row;
use super::tally::Tally;
use super::workload::{load_plan, Workload, SHORT_PACKET};

/// Number of interrupts that hit a section in each slice. A slice takes about 50 ms.
const SLICE: u64 = 16_384;
/// Maximum duration of a slice, for loads under which few interrupts hit a section. If the
/// requested time is short, slices are shorter, so that a whole round fits.
const SLICE_TIME: Duration = Duration::from_secs(2);
/// The control runs only once in this many rounds, because a verdict requires only a few wrong
/// results of the control.
const CONTROL_EVERY: u64 = 8;
/// Maximum number of replay lines per policy.
const REPLAYS: usize = 3;
/// Number of messages traced to find out which instructions a section executes.
const TRACED: u64 = 4;

/// One policy under one load, with its counts so far.
struct Run {
    entry: Entry,
    work: Workload,
    driver: String,
    tally: Tally,
    replays: Vec<String>,
}

pub(super) fn run(
    plan: &Plan,
    bench: &mut Bench,
    stop: &AtomicBool,
    progress: Report<'_>,
) -> Result<Outcome<Row>, Error> {
    let mut runs = Vec::new();
    for &work in &plan.loads {
        runs.extend(plan.entries().into_iter().map(|entry| Run {
            entry,
            work,
            driver: String::new(),
            tally: Tally::default(),
            replays: Vec::new(),
        }));
    }
    let alone = runs.iter().all(|r| r.entry.policy.is_broken());
    let counts = |r: &Run| alone || !r.entry.policy.is_broken();
    let counted = runs.iter().filter(|r| counts(r)).count() as u64;
    let start = Instant::now();
    let in_time = || start.elapsed() < plan.budget;
    let longest = SLICE_TIME.min(plan.budget / runs.len().max(1) as u32);
    let mut hits = 0;
    for round in 0.. {
        let more = plan.interrupts.is_none_or(|asked| hits < asked) && in_time();
        if stop.load(Ordering::Relaxed) || round > 0 && !more {
            break;
        }
        let share = plan.interrupts.map(|n| (n - hits).div_ceil(counted));
        let size = share.unwrap_or(SLICE).clamp(1, SLICE);
        let seed = seed_of_round(plan.seed, round);
        for run in &mut runs {
            let control = !counts(run);
            // Complete the first round even if the time is up, so that every policy has a result.
            let over = stop.load(Ordering::Relaxed) || round > 0 && !in_time();
            if over || control && round % CONTROL_EVERY != 0 {
                continue;
            }
            // The control always gets full slices. A short replay would give it too few interrupts
            // for any statistical power.
            let size = if control { SLICE } else { size };
            let done = slice(plan, bench, run, (seed, size), longest, stop)?;
            hits += if control { 0 } else { done };
            let lasted = start.elapsed().as_secs_f64();
            let of_time = lasted / plan.budget.as_secs_f64();
            let of_count = plan.interrupts.map_or(0.0, |n| hits as f64 / n as f64);
            progress(
                of_time.max(of_count),
                &format!(
                    "{}: {} at {}/s",
                    plan.name(run.entry.policy),
                    short(hits as f64),
                    short(hits as f64 / lasted)
                ),
            );
        }
    }
    let mut outcome = Outcome::default();
    for run in &mut runs {
        let mut row = Row::new(
            plan,
            run.entry,
            run.work,
            run.work.packet.min(SHORT_PACKET),
            &run.tally,
            false,
            kiln_tsc_hz() / 1e6,
        );
        row.imp = std::mem::take(&mut run.driver).into();
        row.without_throughput();
        outcome.rows.push(row);
        // The control is expected to lose state, so its losses are reported only if no other policy
        // was requested.
        if counts(run) {
            let replays = run.replays.drain(..);
            outcome
                .notes
                .extend(replays.map(|line| format!("{REPLAY}{line}")));
        }
    }
    outcome.notes.push(format!(
        "each interrupt comes before a random instruction of the task's FPU sections. A round runs one slice of up to {SLICE} interrupts per \
         policy and load, and has new messages, keys and breakpoints. The number in a load's name is the size of the task's messages \
         in bytes; messages of softirqs have {SHORT_PACKET} B ({} B under load 'pattern'). The control runs in every {CONTROL_EVERY}th \
         round. Throughput is not measured",
        Workload::PATTERN.packet
    ));
    Ok(outcome)
}

/// Returns the seed of a round. The first round uses the seed that the user gave, so a user can
/// replay any round by passing its seed.
fn seed_of_round(seed: u64, round: u64) -> u64 {
    match round {
        0 => seed,
        _ => SplitMix64(seed.wrapping_add(round)).next_u64(),
    }
}

/// Formats a number with three digits and a suffix that `--interrupts` accepts.
fn short(n: f64) -> String {
    let (scaled, suffix) = match n {
        n if n < 1e3 => return format!("{n:.0}"),
        n if n < 1e6 => (n / 1e3, "k"),
        n if n < 1e9 => (n / 1e6, "M"),
        n => (n / 1e9, "G"),
    };
    match scaled {
        x if x < 9.995 => format!("{x:.2}{suffix}"),
        x if x < 99.95 => format!("{x:.1}{suffix}"),
        x => format!("{x:.0}{suffix}"),
    }
}

/// Runs a load under a policy until `size` interrupts have hit a section or `longest` has passed.
/// Returns the number of interrupts that hit a section.
fn slice(
    plan: &Plan,
    bench: &mut Bench,
    run: &mut Run,
    (seed, size): (u64, u64),
    longest: Duration,
    stop: &AtomicBool,
) -> Result<u64, Error> {
    let (policy, work) = (run.entry.policy, run.work);
    let packet = work.packet.min(SHORT_PACKET);
    let before = (run.tally.stats.irqs_in_section, run.losses());
    let seeded = Plan {
        seed,
        ..plan.clone()
    };
    policy.set(bench.cpu());
    if seeded.tree_of(policy).is_some() {
        let tree = seeded.tree.as_ref().expect("it is the tree's policy");
        let (mut sides, streams) = bench.tree_sides(&seeded, tree, work, packet)?;
        let mut load = Load::attach(bench.cpu(), idle_load(&seeded)?).map_err(lacks)?;
        load.exchange(&mut sides);
        interrupt(&mut load, &mut run.tally, (seed, size), longest, stop)?;
        run.driver = streams.driver();
    } else {
        let imp = plan.imp.unwrap_or_else(best_impl);
        run.driver = imp.driver().to_string();
        if run.entry.fallback == Fallback::Cryptd {
            let (mut sides, _asked) = bench.asking_sides(&seeded, imp, work, packet)?;
            let mut load = Load::attach(bench.cpu(), idle_load(&seeded)?).map_err(lacks)?;
            load.exchange(&mut sides);
            interrupt(&mut load, &mut run.tally, (seed, size), longest, stop)?;
        } else {
            let task = work.task(imp, seed)?;
            let load = load_plan(seed, task, imp.into(), packet, false)?;
            let mut load = Load::attach(bench.cpu(), load).map_err(lacks)?;
            interrupt(&mut load, &mut run.tally, (seed, size), longest, stop)?;
        }
    }
    if run.losses() > before.1 && run.replays.len() < REPLAYS {
        run.replays.push(run.replay(plan, seed, size));
    }
    Ok(run.tally.stats.irqs_in_section - before.0)
}

fn lacks(e: kiln_kernel::load::Error) -> Error {
    Error::lacks(e.to_string())
}

/// Interrupts the load until `size` interrupts have hit a section or `longest` has passed.
fn interrupt(
    load: &mut Load<'_>,
    tally: &mut Tally,
    (seed, size): (u64, u64),
    longest: Duration,
    stop: &AtomicBool,
) -> Result<(), Error> {
    let refused = |e| {
        Error::lacks(format!(
            "this host does not allow breakpoints: {e}: use 'kiln fpu', which needs none"
        ))
    };
    let mut stepping = Stepping::start(load.cpu(), Step::Trace).map_err(refused)?;
    load.set_stepping(true, false);
    load.run(TRACED);
    // Use only instructions that every message executes, so that nearly all breakpoints are hit.
    let addresses = stepping.addresses(TRACED as usize);
    load.set_stepping(false, false);
    drop(stepping);
    load.cpu().reset_stats();
    let before = load.counts();
    let mut points = Breakpoints::start(load.cpu(), &addresses, seed).map_err(refused)?;
    let (start, had) = (Instant::now(), thread_cpu_time());
    while load.cpu().stats().irqs_in_section < size
        && start.elapsed() < longest
        && !stop.load(Ordering::Relaxed)
    {
        load.run(20);
        points.redraw();
    }
    let lasted = thread_cpu_time() - had;
    drop(points);
    load.drain();
    let done = load.counts() - before;
    tally.add(load, done, lasted);
    Ok(())
}

impl Run {
    /// Returns the number of wrong results plus the number of lost user states. The latter are not
    /// counted for the control, which is not supposed to preserve them.
    fn losses(&self) -> u64 {
        let user = match self.entry.policy.is_broken() {
            true => 0,
            false => self.tally.counts.user_corrupted,
        };
        self.tally.corrupted() + user
    }

    /// Returns the command that repeats a slice.
    fn replay(&self, plan: &Plan, seed: u64, size: u64) -> String {
        let Entry { policy, fallback } = self.entry;
        let mut line = format!(
            "kiln fpu prove breakpoint --policy {} --load {}",
            plan.name(policy),
            self.work.name
        );
        let driver = plan.tree_of(policy).and_then(|t| t.driver.as_deref());
        if let Some(name) = driver.or(plan.imp.map(|i| i.driver())) {
            line.push_str(&format!(" --impl {name}"));
        }
        if fallback == Fallback::Cryptd {
            line.push_str(" --fallback cryptd");
        }
        if plan.preempt_full {
            line.push_str(" --preempt full");
        }
        if plan.scheduler != Scheduler::Eevdf612 {
            line.push_str(&format!(" --scheduler {}", plan.scheduler));
        }
        let flags = [
            (
                "--scheduler-cpus",
                Some(u64::from(plan.scheduler_cpus)).filter(|n| *n != 1),
            ),
            ("--slice-us", plan.slice_us),
            ("--tick-us", plan.tick_us),
        ];
        for (flag, value) in flags {
            if let Some(value) = value {
                line.push_str(&format!(" {flag} {value}"));
            }
        }
        format!("{line} --interrupts {size} --seed {seed}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_as_the_flag_takes_them() {
        let all = [12.0, 1234.0, 45_678.0, 987_654.0, 1e9].map(short);
        assert_eq!(all, ["12", "1.23k", "45.7k", "988k", "1.00G"]);
    }

    #[test]
    fn rounds_differ_and_the_first_is_the_one_asked_for() {
        let seeds: Vec<u64> = (0..1000).map(|r| seed_of_round(7, r)).collect();
        assert_eq!(seeds[0], 7);
        let mut distinct = seeds.clone();
        distinct.sort_unstable();
        distinct.dedup();
        assert_eq!(distinct.len(), seeds.len());
    }
}
