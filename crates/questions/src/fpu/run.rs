//! Measures the policy table. Each policy runs in pairs of short slices: in one slice, interrupts
//! raise softirqs that encrypt messages; in the other, interrupts do nothing. Each round includes
//! all policies, so that a drift in the machine's speed affects all of them equally.

use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use kiln_kernel::cipher::Impl;
use kiln_kernel::cpu::{kiln_tsc_hz, Config};
use kiln_kernel::fpu::{state_size, Policy};
use kiln_kernel::load::{best_impl, Load, Sides};
use kiln_measure::Ratio;
use kiln_question::{Error, Outcome, Report};

use super::bench::Bench;
use super::inject::{Inject, Source};
use super::plan::{Entry, Fallback, Plan, BUSIEST_TABLE};
use super::power::{self, is_control, Count, NoVerdict};
use super::row::Row;
use super::tally::Tally;
use super::workload::{load_plan, Workload, PACKET};
use super::{breakpoints, costs};

/// Duration of a slice. At the default rate, a slice contains forty interrupts on average.
const SLICE: Duration = Duration::from_millis(20);
/// Minimum number of rounds. With fewer rounds, a confidence interval cannot be computed.
const ROUNDS: u32 = 6;

/// Runs the policy table, or a campaign of interrupts at breakpoints.
///
/// # Errors
/// Fails if the host has no timers or no second core, or if the tree lacks the driver.
pub(super) fn run(
    plan: &Plan,
    bench: &mut Bench,
    stop: &AtomicBool,
    progress: Report<'_>,
) -> Result<Outcome<Row>, Error> {
    let mut outcome = match plan.inject {
        Inject::Breakpoint => breakpoints::run(plan, bench, stop, progress)?,
        _ => table(plan, bench, stop, progress)?,
    };
    bench.put_back();
    outcome.interrupted = stop.load(Ordering::Relaxed);
    notes(plan, &mut outcome);
    conclude(&mut outcome);
    Ok(outcome)
}

fn table(
    plan: &Plan,
    bench: &mut Bench,
    stop: &AtomicBool,
    progress: Report<'_>,
) -> Result<Outcome<Row>, Error> {
    let start = Instant::now();
    let imp = plan.imp.unwrap_or_else(best_impl);
    let rate = plan.inject.rate(plan.irq_rate);
    let mut outcome = Outcome::default();
    outcome.notes.extend(plan.inject.notes(plan.irq_rate));
    progress(0.0, "empty sections");
    let costs = costs::measure_policies(bench.cpu(), &plan.policies, plan.seed, stop);
    bench.put_back();
    if let Some(clock) = costs::measure_clock(imp, 4096, plan.seed, stop) {
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
        let asks = plan
            .entries()
            .iter()
            .any(|e| e.fallback == Fallback::Cryptd);
        let (asking, _asked) = match asks {
            true => {
                let (sides, asked) = bench.asking_sides(plan, imp, work, work.packet)?;
                (Some(sides), asked)
            }
            false => (None, Vec::new()),
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
            others: [tree, asking],
            whose: Sort::Plain,
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

/// A measurement that runs one load in rounds.
struct Rounds<'a> {
    plan: &'a Plan,
    work: Workload,
    rate: f64,
    share: Duration,
    load: Load<'a>,
    /// Work that can be swapped into the load, indexed by [`Sort::place`]. Element 0 uses a tree's
    /// ciphers, and element 1 uses Kiln's crypto API. While the work of an element is in the load,
    /// the element holds the load's original work.
    others: [Option<Sides>; 2],
    whose: Sort,
}

/// How the load currently calls ciphers.
#[derive(Clone, Copy, PartialEq)]
enum Sort {
    /// Calls Kiln's ciphers directly.
    Plain,
    /// Calls a tree's ciphers.
    Tree,
    /// Calls Kiln's ciphers through the crypto API.
    Asking,
}

impl Sort {
    fn new(plan: &Plan, entry: Entry) -> Sort {
        match (plan.tree_of(entry.policy), entry.fallback) {
            (Some(_), _) => Sort::Tree,
            (None, Fallback::Cryptd) => Sort::Asking,
            (None, Fallback::Scalar) => Sort::Plain,
        }
    }

    fn place(self) -> Option<usize> {
        match self {
            Sort::Plain => None,
            Sort::Tree => Some(0),
            Sort::Asking => Some(1),
        }
    }
}

/// Two tallies for each policy: one for the slices in which interrupts raise softirqs, and one for
/// the control slices, in which interrupts do nothing.
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
        let entries = self.plan.entries();
        tallies.resize_with(entries.len(), Default::default);
        let lost = self.price_of_an_interrupt(stop)?;
        let source = self.source()?;
        let mut rounds = 0;
        while !stopped() && (rounds < ROUNDS || start.elapsed() < self.share) {
            for turn in 0..entries.len() {
                // Vary the order from round to round, so that a policy does not always follow the
                // same other policy.
                let n = entries.len();
                let i = (turn * if rounds % 2 == 0 { 1 } else { n - 1 } + rounds as usize) % n;
                for half in 0..2 {
                    let control = (half + rounds) % 2 == 1;
                    let tally = &mut tallies[i][usize::from(control)];
                    self.slice(tally, entries[i], control);
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

    /// Runs one slice of a policy with the kind of work that the policy needs.
    fn slice(&mut self, tally: &mut Tally, entry: Entry, control: bool) {
        let whose = Sort::new(self.plan, entry);
        if whose != self.whose {
            // Exchange the work while the previous policy is still set, so that pending requests
            // complete under that policy. Undo any previous exchange first.
            for place in [self.whose.place(), whose.place()].into_iter().flatten() {
                if let Some(other) = &mut self.others[place] {
                    self.load.exchange(other);
                }
            }
            self.whose = whose;
        }
        tally.slice(&mut self.load, entry.policy, control, self.work, SLICE);
    }

    /// Measures how many microseconds of the task's time an empty interrupt costs, including the
    /// delivery of the host's signal. Returns a note that states the result.
    fn price_of_an_interrupt(&mut self, stop: &AtomicBool) -> Result<Option<String>, Error> {
        let policy = self.plan.entries()[0];
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
            "under load {}, even an interrupt that does nothing costs the task {:.1} µs here ({:.1} to {:.1}). Nearly all of this \
             time is the delivery of the host signal by which Kiln emulates an interrupt. The controls include this time as well",
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
    costs_of: &[costs::Costs],
) -> Vec<Row> {
    let ticks_per_us = kiln_tsc_hz() / 1e6;
    let mut rows = Vec::new();
    for (entry, pair) in plan.entries().into_iter().zip(tallies) {
        let policy = entry.policy;
        let costs = plan.policies.iter().position(|p| *p == policy);
        let costs = costs.and_then(|i| costs_of.get(i));
        for control in [false, true] {
            let (tally, first) = (
                &pair[usize::from(control)],
                &tallies[0][usize::from(control)],
            );
            let mut row = Row::new(plan, entry, work, work.packet, tally, control, ticks_per_us);
            row.imp = driver(policy);
            if let Some(costs) = costs {
                row.set_costs(costs);
            }
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
        "a section timer measures how long sections last. With one 4096-byte message per section, the timer changes the cycles of {} \
         by {:+.2} % ({:+.2} to {:+.2}). The shorter the sections are, the fewer of them are timed; in the histograms, each timed \
         section also counts for the untimed sections before it",
        imp.driver(),
        pct(clock.ratio),
        pct(clock.low),
        pct(clock.high)
    )
}

fn notes(plan: &Plan, outcome: &mut Outcome<Row>) {
    let config: Config = plan.config();
    let model = if config.preempt_full {
        "full"
    } else {
        "voluntary"
    };
    let notes = &mut outcome.notes;
    notes.push(format!(
        "emulated CPU: {model} preemption, {}; each task switch counts as {:.1} µs, and one set of saved registers has {} bytes",
        plan.scheduler_note(),
        config.switch_ns as f64 / 1e3,
        state_size()
    ));
    if plan.inject != Inject::Breakpoint {
        let entries: Vec<String> = plan.loads.iter().map(|l| l.to_string()).collect();
        notes.push(format!(
            "in each emulated system call, the task processes {}, each in its own FPU section. Each interrupt raises a softirq, which \
             encrypts one message of {PACKET} B, the size of a packet ({} B under load 'pattern'), and overwrites every register. All \
             results are checked, and the time that the checks take lowers the throughput",
            entries.join(" or "),
            Workload::PATTERN.packet
        ));
        notes.push(
            "throughput and rates are per second of the thread's CPU time. In a control, the same interrupts arrive, but do nothing. \
             of_control is the task's throughput divided by its throughput in the control. ratio is the task's throughput divided by its \
             throughput under the first policy. Both are medians over pairs of adjacent time slices; low and high are the ends of the \
             95 % interval. The longest section times include the delivery of the host's signals"
                .to_string(),
        );
    }
    let timed: u64 = outcome.rows.iter().map(|r| r.sections_timed).sum();
    let stolen: u64 = outcome.rows.iter().map(|r| r.sections_stolen).sum();
    if timed > 0 {
        notes.push(format!(
            "during {stolen} of {timed} timed FPU sections ({:.4} %), the host took the CPU away without an interrupt by Kiln; the times \
             of these sections are too long",
            100.0 * stolen as f64 / timed as f64
        ));
    }
    let rate = plan.inject.rate(plan.irq_rate);
    if plan.inject != Inject::Breakpoint && rate > BUSIEST_TABLE {
        notes.push(format!(
            "throughput is null: above {BUSIEST_TABLE} interrupts per second it is mostly the host's signals"
        ));
    }
    notes.push(match &plan.tree {
        Some(tree) => format!(
            "{} runs the code of Linux {}. If the tree's softirqs cannot use the FPU, the tree decides what to do; async_punts \
             counts the requests that it deferred to its own cryptd",
            tree.name, tree.version
        ),
        None if plan.entries().iter().any(|e| e.fallback == Fallback::Cryptd) => {
            "fallback cryptd: the task and the softirqs send requests through the simd helper of the crypto API. Requests of softirqs \
             that find the FPU in use wait for a kworker (async_punts); if 1000 requests are waiting, further ones are dropped (dropped)"
                .to_string()
        }
        None => "the fields async_punts, reordered and dropped are null, because Kiln's softirqs use scalar code where SIMD is \
                 not usable. With --fallback cryptd, these fields have values"
            .to_string(),
    });
    if outcome.interrupted {
        notes.push("interrupted: figures of the rounds until then".to_string());
    }
}

/// Adds a conclusion about lost state: a failure, a verdict, or a note that no verdict is possible.
fn conclude(outcome: &mut Outcome<Row>) {
    let counts: Vec<Count> = outcome.rows.iter().filter_map(Row::count).collect();
    let judged = power::judge(&counts);
    let expected = |row: &Row| power::expected(&row.count()?, &counts);
    let expected: Vec<Option<f64>> = outcome.rows.iter().map(expected).collect();
    for (row, expected) in outcome.rows.iter_mut().zip(expected) {
        row.expected_wrong = expected.filter(|_| !is_control(&row.policy));
    }
    let lost = outcome.rows.iter().any(Row::fails);
    // The control may be missing, because a user may want the results of only some policies. If it
    // did run, but a verdict is still not possible, the run fails.
    let blind = matches!(judged, Err(NoVerdict::NoPower(_))) && !outcome.interrupted;
    let reordered = reordered(&outcome.rows);
    outcome.failed = lost || blind || !reordered.is_empty();
    outcome.notes.push(lost_state(&outcome.rows));
    outcome.notes.extend(reordered);
    outcome
        .notes
        .extend(judged.err().map(|why| why.to_string()));
}

/// Describes rows in which more requests completed out of order than in the corresponding control.
/// If one CPU submits several requests for the same transform, a crypto API must complete them in
/// the order of submission.
fn reordered(rows: &[Row]) -> Vec<String> {
    let real = rows.iter().filter(|r| !r.control && !is_control(&r.policy));
    let of = |row: &Row| {
        let control = rows.iter().find(|c| {
            c.control
                && (&c.policy, &c.fallback, &c.load) == (&row.policy, &row.fallback, &row.load)
        });
        let usual = control.and_then(|c| c.reordered).unwrap_or(0);
        let count = row.reordered.filter(|n| *n > usual)?;
        Some(format!(
            "{} under {}: {count} answers came in another order than their requests, but only {usual} in the control. A crypto API \
             must not let requests of one transform overtake each other",
            row.policy, row.load
        ))
    };
    real.filter_map(of).collect()
}

/// Describes how much state the policies and the control lost.
fn lost_state(rows: &[Row]) -> String {
    let sums = |control: bool| {
        let of: Vec<&Row> = rows
            .iter()
            .filter(|r| !r.control && is_control(&r.policy) == control)
            .collect();
        let sum = |f: fn(&Row) -> u64| of.iter().map(|r| f(r)).sum::<u64>();
        (!of.is_empty()).then(|| {
            format!(
                "{} wrong results and {} lost user states in {} interrupts of FPU sections",
                sum(|r| r.corrupted),
                sum(|r| r.user_corrupted),
                sum(|r| r.irqs_in_section)
            )
        })
    };
    let parts = [
        sums(false).map(|s| format!("the tested policies had {s}")),
        sums(true).map(|s| {
            format!("The control, policy 'none', saves nothing, so it must have both: {s}")
        }),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(". ")
}

#[cfg(test)]
mod tests {
    use super::super::tally::Tally;
    use super::*;

    /// Creates two rows for a policy: one in which interrupts raise softirqs, and the control row,
    /// in which interrupts do nothing.
    fn rows(policy: &str, hit: u64, wrong: u64) -> Vec<Row> {
        let plan = Plan::new(1, true);
        let entry = plan.entries()[0];
        let of = |control: bool| {
            let (work, tally) = (Workload::XTS[0], Tally::default());
            let mut row = Row::new(&plan, entry, work, PACKET, &tally, control, 1.0);
            row.policy = policy.to_string().into();
            if !control {
                (row.irqs_in_section, row.corrupted) = (hit, wrong);
            }
            row
        };
        vec![of(false), of(true)]
    }

    fn outcome(rows: Vec<Vec<Row>>) -> Outcome<Row> {
        let mut outcome = Outcome {
            rows: rows.concat(),
            ..Outcome::default()
        };
        conclude(&mut outcome);
        outcome
    }

    #[test]
    fn answers_in_another_order_beyond_the_control_are_a_finding() {
        let outcome_of = |counted: u64, usual: u64| {
            let mut rows = rows("tree", 100, 0);
            (rows[0].reordered, rows[1].reordered) = (Some(counted), Some(usual));
            outcome(vec![rows])
        };
        let found = outcome_of(3, 2);
        assert!(found.failed);
        let says = |n: &String| n.contains("3 answers came in another order than their requests");
        assert!(found.notes.iter().any(says), "{:?}", found.notes);
        assert!(!outcome_of(2, 2).failed);
    }

    #[test]
    fn a_control_that_loses_carries_the_verdict() {
        let good = outcome(vec![rows("nested", 1000, 0), rows("none", 500, 250)]);
        assert!(!good.failed, "{:?}", good.notes);
        assert_eq!(good.rows[0].expected_wrong, Some(500.0));
        assert_eq!(good.rows[2].expected_wrong, None, "it is not judged");
        assert!(good.notes[0].starts_with(
            "the tested policies had 0 wrong results and 0 lost user states in 1000 "
        ));
        assert!(good.notes[0].contains("must have both: 250 wrong results"));
        assert_eq!(good.notes.len(), 1);
    }

    #[test]
    fn a_harmless_control_fails_the_run() {
        for (hit, wrong) in [(500, 0), (0, 0), (500, 3)] {
            let blind = outcome(vec![rows("nested", 1000, 0), rows("none", hit, wrong)]);
            assert!(blind.failed);
            let said = &blind.notes[1];
            let want = format!("no power: the control that saves nothing lost {wrong} of {hit}");
            assert!(said.starts_with(&want), "{said}");
            assert_eq!(blind.rows[0].expected_wrong, None);
        }
    }

    #[test]
    fn a_policy_that_was_hardly_hit_fails_the_run() {
        let rare = outcome(vec![rows("nested", 3, 0), rows("none", 500, 250)]);
        assert!(rare.failed && rare.notes[1].contains("nested was hit 3 times"));
    }

    #[test]
    fn without_the_control_there_are_figures_and_no_verdict() {
        let alone = outcome(vec![rows("nested", 1000, 0)]);
        assert!(!alone.failed);
        assert!(alone.notes[1].starts_with("no verdict on lost state"));
    }

    #[test]
    fn a_loss_fails_the_run_whatever_the_control_did() {
        for control in [rows("none", 500, 250), rows("none", 0, 0)] {
            assert!(outcome(vec![rows("nested", 1000, 1), control]).failed);
        }
        let mut user = rows("nested", 1000, 0);
        user[0].user_corrupted = 1;
        let user = outcome(vec![user, rows("none", 500, 250)]);
        assert!(user.failed && user.notes[0].contains("1 lost user states"));
    }

    #[test]
    fn an_interrupted_run_did_not_fail() {
        let mut cut = Outcome {
            rows: [rows("nested", 3, 0), rows("none", 0, 0)].concat(),
            interrupted: true,
            ..Outcome::default()
        };
        conclude(&mut cut);
        assert!(!cut.failed && cut.notes[1].starts_with("no power"));
    }
}
