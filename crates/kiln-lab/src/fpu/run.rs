//! The policy table: short slices of interrupts that encrypt and of interrupts that do nothing, by turns, through all
//! policies round by round, so that a drift of the machine hits all alike.

use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use kiln_kernel::cpu::{kiln_tsc_hz, Config};
use kiln_kernel::fpu::{state_size, Policy};
use kiln_kernel::load::{Load, Sides};
use kiln_kernel::xts::Impl;
use kiln_measure::Ratio;

use super::bench::Bench;
use super::inject::{Inject, Source};
use super::plan::{Plan, BUSIEST_TABLE};
use super::row::Row;
use super::tally::Tally;
use super::workload::{load_plan, Workload, PACKET};
use super::{breakpoints, costs, Progress};
use crate::Error;

/// A slice: forty interrupts at the usual rate.
const SLICE: Duration = Duration::from_millis(20);
/// Fewer rounds have no interval.
const ROUNDS: u32 = 6;

/// What came of it.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Each row followed by its control, where there is one.
    pub rows: Vec<Row>,
    /// What a reader of the rows must know.
    pub notes: Vec<String>,
    /// A policy lost state that must not.
    pub failed: bool,
    /// Stopped before its end.
    pub interrupted: bool,
}

/// Runs the policy table, or the corruption run at breakpoints.
///
/// # Errors
/// A host that gives no emulated CPU, timers or second core.
pub fn run(plan: &Plan, stop: &AtomicBool, progress: Progress<'_>) -> Result<Outcome, Error> {
    run_on(plan, &mut Bench::own(plan)?, stop, progress)
}

/// The same on a CPU that is there.
///
/// # Errors
/// A host that gives no timers or second core; a tree without the driver.
pub fn run_on(
    plan: &Plan,
    bench: &mut Bench,
    stop: &AtomicBool,
    progress: Progress<'_>,
) -> Result<Outcome, Error> {
    let mut outcome = match plan.inject {
        Inject::Breakpoint => breakpoints::run(plan, bench, stop, progress)?,
        _ => table(plan, bench, stop, progress)?,
    };
    bench.put_back();
    outcome.failed = outcome.rows.iter().any(Row::fails);
    outcome.interrupted = stop.load(Ordering::Relaxed);
    notes(plan, &mut outcome);
    Ok(outcome)
}

fn table(
    plan: &Plan,
    bench: &mut Bench,
    stop: &AtomicBool,
    progress: Progress<'_>,
) -> Result<Outcome, Error> {
    let start = Instant::now();
    let imp = plan.imp.unwrap_or_else(Impl::best);
    let rate = plan.inject.rate(plan.irq_rate);
    let mut outcome = Outcome::default();
    outcome.notes.extend(plan.inject.notes(plan.irq_rate));
    progress(0.0, "empty sections");
    let costs = costs::of_policies(bench.cpu(), &plan.policies, plan.seed, stop);
    bench.put_back();
    if let Some(clock) = costs::of_clock(imp, 4096, plan.seed, stop) {
        outcome.notes.push(clock_note(imp, &clock));
    }
    for (i, &work) in plan.loads.iter().enumerate() {
        let left = plan.budget.saturating_sub(start.elapsed());
        let share = left / (plan.loads.len() - i) as u32;
        let part = 1.0 / plan.loads.len() as f64;
        let mut tell = |done: f64| progress((i as f64 + done) * part, work.name);
        bench.put_back();
        let (tree, streams) = match &plan.tree {
            Some(tree) => {
                let (sides, streams) = bench.tree_sides(plan, tree, work, work.packet)?;
                (Some(sides), Some(streams))
            }
            None => (None, None),
        };
        let task = work.task(imp, plan.seed)?;
        let first = load_plan(plan.seed, task, imp.into(), work.packet, false)?;
        let load = Load::attach(bench.cpu(), first).map_err(|e| Error::lacks(e.to_string()))?;
        let mut run = Rounds {
            plan,
            work,
            rate,
            share,
            load,
            tree,
            of_tree: false,
        };
        let (tallies, lost) = run.go(stop, &mut tell)?;
        drop(run);
        let driver = |policy| match (&streams, plan.tree_of(policy)) {
            (Some(streams), Some(_)) => streams.driver().into(),
            _ => imp.driver().into(),
        };
        let of_load = rows(plan, work, rate, &driver, &tallies, &costs);
        outcome.rows.extend(of_load);
        outcome.notes.extend(lost);
    }
    Ok(outcome)
}

/// The rounds of one load.
struct Rounds<'a> {
    plan: &'a Plan,
    work: Workload,
    rate: f64,
    share: Duration,
    load: Load<'a>,
    /// What a tree's task and softirqs do, or, while they do it, what Kiln's own do.
    tree: Option<Sides>,
    of_tree: bool,
}

/// Real and control, of each policy.
type Tallies = Vec<[Tally; 2]>;

impl Rounds<'_> {
    fn go(
        &mut self,
        stop: &AtomicBool,
        tell: &mut dyn FnMut(f64),
    ) -> Result<(Tallies, Option<String>), Error> {
        let start = Instant::now();
        let stopped = || stop.load(Ordering::Relaxed);
        let mut tallies: Tallies = Vec::new();
        tallies.resize_with(self.plan.policies.len(), Default::default);
        let lost = self.price_of_an_interrupt(stop)?;
        let source = self.source()?;
        let mut rounds = 0;
        while !stopped() && (rounds < ROUNDS || start.elapsed() < self.share) {
            for turn in 0..self.plan.policies.len() {
                // No policy always follows the same one.
                let n = self.plan.policies.len();
                let i = (turn * if rounds % 2 == 0 { 1 } else { n - 1 } + rounds as usize) % n;
                for half in 0..2 {
                    let control = (half + rounds) % 2 == 1;
                    let tally = &mut tallies[i][usize::from(control)];
                    self.slice(tally, self.plan.policies[i], control);
                }
                tell(start.elapsed().as_secs_f64() / self.share.as_secs_f64());
                if stopped() {
                    break;
                }
            }
            rounds += 1;
        }
        drop(source);
        Ok((tallies, lost))
    }

    fn source(&mut self) -> Result<Source, Error> {
        let plan = self.plan;
        plan.inject.start(self.load.cpu(), self.rate, plan.seed)
    }

    /// A slice of a policy, with the work that goes with it.
    fn slice(&mut self, tally: &mut Tally, policy: Policy, control: bool) {
        let of_tree = self.plan.tree_of(policy).is_some();
        if let Some(other) = self.tree.as_mut().filter(|_| of_tree != self.of_tree) {
            // Under the policy that was in force: what is under way is still answered.
            self.load.exchange(other);
            self.of_tree = of_tree;
        }
        tally.slice(&mut self.load, policy, control, self.work, SLICE);
    }

    /// Microseconds that an empty interrupt takes from the task: host signal and all.
    fn price_of_an_interrupt(&mut self, stop: &AtomicBool) -> Result<Option<String>, Error> {
        let policy = self.plan.policies[0];
        let mut tallies: [Tally; 2] = Default::default();
        for _ in 0..10 {
            if stop.load(Ordering::Relaxed) {
                return Ok(None);
            }
            self.slice(&mut tallies[0], policy, true);
            let source = self.source()?;
            self.slice(&mut tallies[1], policy, true);
            drop(source);
        }
        let irqs = tallies[1].stats.irqs as f64 / tallies[1].seconds;
        let Some(r) = tallies[1].ratio(&tallies[0]).filter(|_| irqs > 0.0) else {
            return Ok(None);
        };
        let us = |share: f64| (1.0 - share) / irqs * 1e6;
        Ok(Some(format!(
            "{}: an empty interrupt takes {:.1} µs ({:.1} to {:.1}) from the task here, of which nearly all is the \
             host's signal; the control has it, too",
            self.work.name,
            us(r.ratio),
            us(r.high).max(0.0),
            us(r.low)
        )))
    }
}

fn rows(
    plan: &Plan,
    work: Workload,
    rate: f64,
    driver: &dyn Fn(Policy) -> Cow<'static, str>,
    tallies: &Tallies,
    costs: &[costs::Costs],
) -> Vec<Row> {
    let ticks_per_us = kiln_tsc_hz() / 1e6;
    let mut rows = Vec::new();
    for ((&policy, pair), costs) in plan.policies.iter().zip(tallies).zip(costs) {
        for control in [false, true] {
            let (tally, first) = (
                &pair[usize::from(control)],
                &tallies[0][usize::from(control)],
            );
            let mut row = Row::new(
                plan,
                policy,
                work,
                work.packet,
                tally,
                control,
                ticks_per_us,
            );
            row.imp = driver(policy);
            row.set_costs(costs);
            row.set_ratio(tally.ratio(first));
            if !control {
                row.set_of_control(pair[0].ratio(&pair[1]));
            }
            if rate > BUSIEST_TABLE {
                row.without_throughput();
            }
            rows.push(row);
        }
    }
    rows
}

fn clock_note(imp: Impl, clock: &Ratio) -> String {
    let pct = |r: f64| 100.0 * (r - 1.0);
    format!(
        "section clock: {} at 4096 B, a section each, takes {:+.2} % ({:+.2} to {:+.2}) with it; shorter sections are \
         timed in proportion to their length, and each timed one stands for those before it",
        imp.driver(),
        pct(clock.ratio),
        pct(clock.low),
        pct(clock.high)
    )
}

fn notes(plan: &Plan, outcome: &mut Outcome) {
    let config: Config = plan.config();
    let model = if config.preempt_full {
        "full"
    } else {
        "voluntary"
    };
    let notes = &mut outcome.notes;
    notes.push(format!(
        "emulated CPU: preemption {model}, tick {} µs, slice {} µs, a switch of tasks is charged {:.1} µs; a save of the \
         registers takes {} bytes",
        config.tick_us,
        config.slice_us,
        config.switch_ns as f64 / 1e3,
        state_size()
    ));
    if plan.inject != Inject::Breakpoint {
        let entries: Vec<String> = plan.loads.iter().map(|l| l.to_string()).collect();
        notes.push(format!(
            "the task enters the kernel for {}, a section each; each interrupt raises a softirq that encrypts one message \
             of {PACKET} B, about a packet (of {} B under load pattern); all results are compared, which is part of the throughput; the softirq also \
             overwrites every register",
            entries.join(" or "),
            Workload::PATTERN.packet
        ));
        notes.push(
            "throughput and rates count the thread's time on its core; control: the same interrupts, but they do nothing; of_control and ratio (to the first policy) are medians of \
             neighbouring slices' ratios, low and high their 95 % interval; a section's longest times include host signals"
                .to_string(),
        );
    }
    let timed: u64 = outcome.rows.iter().map(|r| r.sections_timed).sum();
    let stolen: u64 = outcome.rows.iter().map(|r| r.sections_stolen).sum();
    if timed > 0 {
        notes.push(format!(
            "of {timed} sections timed the host took the CPU away in {stolen} without an interrupt of ours ({:.4} %)",
            100.0 * stolen as f64 / timed as f64
        ));
    }
    let rate = plan.inject.rate(plan.irq_rate);
    if plan.inject != Inject::Breakpoint && rate > BUSIEST_TABLE {
        notes.push(format!(
            "throughput is null: above {BUSIEST_TABLE} interrupts a second it is mostly the host's signals"
        ));
    }
    notes.push(match &plan.tree {
        Some(tree) => format!(
            "{}: the tree's own code, {}; where its softirqs find no FPU it knows by itself what to do: async_punts \
             requests went to its own cryptd",
            tree.name, tree.version
        ),
        None => "async_punts, reordered and dropped are null: Kiln's own softirqs use scalar code where SIMD is not \
                 usable"
            .to_string(),
    });
    if let Some(none) = broken(&outcome.rows) {
        notes.push(none);
    }
    if outcome.interrupted {
        notes.push("interrupted: figures of the rounds until then".to_string());
    }
}

/// How much of what was interrupted the broken control spoilt.
fn broken(rows: &[Row]) -> Option<String> {
    let of = |f: fn(&Row) -> u64| -> u64 {
        let rows = rows.iter().filter(|r| r.policy == "none" && !r.control);
        rows.map(f).sum()
    };
    let (hit, wrong) = (of(|r| r.irqs_in_section), of(|r| r.corrupted));
    (hit > 0).then(|| {
        format!(
            "none, the broken control, saves nothing: {wrong} results were wrong after {hit} interrupts into sections \
             ({:.0} %)",
            100.0 * wrong as f64 / hit as f64
        )
    })
}
