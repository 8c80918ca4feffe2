//! Runs the suites and returns rows. Suites that do not depend on a policy run first, under each
//! mask of tiers; the others run in every context.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use kiln_kernel::cipher::Impl;
use kiln_kernel::guest::Counts;
use kiln_kernel::Tier;
use schemars::JsonSchema;
use serde::Serialize;

use super::family::Family;
use super::run::{self, Job, Part};
use super::selection;
use super::suite::Suite;
use super::tally::{Failure, Tally};
use super::{caller, case, contexts};

/// The implementation name that rows use for messages processed in interrupts.
pub(super) const INTERRUPTS: &str = "interrupts";

/// The tests to run, and the number of cases for each test.
#[derive(Clone, Debug)]
pub struct Plan {
    pub impls: Vec<Impl>,
    pub suites: Vec<Suite>,
    /// Seed of the random cases.
    pub seed: u64,
    /// Number of random cases per algorithm under each mask.
    pub cases: u64,
    /// Number of requests to the drivers of each algorithm under each mask.
    pub requests: u64,
    /// Number of cases with several messages at once, per algorithm and mask. Applies only to masks
    /// that allow an implementation that can process several messages at once.
    pub many: u64,
    /// Number of cases per algorithm under each policy.
    pub in_contexts: u64,
    /// Number of cases with interrupts before random instructions, per algorithm under each policy.
    pub interrupted: u64,
    /// Number of forged messages per algorithm under each mask.
    pub forgeries: u64,
    /// Whether long messages are tested under every mask instead of only under the last one.
    pub longest: bool,
    /// Number of threads that share the cases.
    pub threads: usize,
}

/// The results of one implementation in one test suite.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(
    rename = "test",
    title = "Tests",
    extend(
        "x-question" = "Is every implementation correct, in every context?",
        "x-commands" = ["test"],
        "x-view" = {"check": {"fail": ["failed"], "skip": ["skipped"], "why": "reason"}}
    )
)]
pub struct Row {
    /// Name of the algorithm in the kernel's crypto API, such as `xts(aes)`. `all` if the row is
    /// about messages that were processed in interrupts.
    #[schemars(extend("x-role" = "key"))]
    pub alg: String,
    /// Driver name of the implementation. `interrupts` if the row is about messages that were
    /// processed in interrupts; with `--shard`, the shard's name is appended.
    #[serde(rename = "impl")]
    #[schemars(extend("x-role" = "key"))]
    pub implementation: String,
    /// Name of the test suite, as `--suite` accepts it. `selection` is the test that checks which
    /// driver is chosen. `all` means that every suite was skipped.
    #[schemars(extend("x-role" = "key"))]
    pub suite: String,
    /// The context in which the calls were made, such as `task`, `softirq` or `hardirq`.
    #[schemars(extend("x-role" = "key"))]
    pub context: String,
    /// The ISA tiers that implementations were allowed to use, in the format of `KILN_TIERS`.
    #[schemars(extend("x-role" = "key"))]
    pub tiers: String,
    /// Number of test cases run.
    #[schemars(extend("x-role" = "main"))]
    pub cases: u64,
    /// Number of test cases with a wrong result.
    #[schemars(extend("x-role" = "main"))]
    pub failed: u64,
    /// 1 if the suite was skipped, otherwise 0.
    #[schemars(extend("x-role" = "figure"))]
    pub skipped: u64,
    /// Reason why the suite was skipped. Null if the suite ran.
    #[schemars(extend("x-role" = "figure"))]
    pub reason: Option<String>,
    /// The first few failures. They are not part of the record.
    #[serde(skip)]
    pub failures: Vec<Failure>,
}

impl Row {
    /// Returns the row's name within its group.
    pub fn name(&self) -> String {
        match self.suite.contains(':') {
            true => format!("{} {} {}", self.implementation, self.suite, self.context),
            false => format!("{} {}", self.implementation, self.suite),
        }
    }
}

/// Progress events from `run`.
pub enum Event<'a> {
    /// A group of rows begins: an algorithm under a mask or a policy.
    Group {
        /// Name of the group: the algorithm or `interrupts`, followed by the tiers or the suite.
        name: &'a str,
        /// Number of rows that will follow.
        rows: usize,
    },
    /// A row is complete.
    Row(&'a Row),
    /// All rows of the group have been reported.
    End,
}

/// A function that receives the events of a run.
pub type Tell<'a> = dyn FnMut(Event<'_>) + 'a;

/// Lock for the mask of tiers. The mask applies to the whole process, so two simultaneous runs
/// would change each other's masks.
static MASK: Mutex<()> = Mutex::new(());

/// Returns the number of groups that `run` will report.
pub fn groups(plan: &Plan) -> usize {
    let masks = Tier::masks();
    let of_masks: usize = match plan.of_masks().is_empty() {
        true => 0,
        false => masks.iter().map(|m| families_under(plan, m)).sum(),
    };
    // Each suite that depends on a policy has one additional group, for the messages processed in
    // interrupts.
    let of_policy = masks.last().map_or(0, |m| families_under(plan, m)) + 1;
    of_masks + of_policy * plan.policies().len()
}

/// Returns the number of groups that `replay` will report; 0 if none of the plan's suites has a
/// case `number`.
pub fn replayed_groups(plan: &Plan, number: u64) -> usize {
    let mask = Tier::masks().pop().unwrap_or_default();
    let phase = Phase::alone(plan, &mask);
    let of = |suite: &Suite| match phase.replayed(*suite, number).len() {
        0 => 0,
        n => n + usize::from(suite.policy().is_some()),
    };
    plan.suites.iter().map(of).sum()
}

/// Returns the number of the plan's algorithms that have an implementation to test under `mask`.
fn families_under(plan: &Plan, mask: &[Tier]) -> usize {
    let some = |family: &Vec<Impl>| family.iter().any(|i| mask.contains(&i.tier()));
    Family::split(&plan.impls)
        .iter()
        .filter(|f| some(f))
        .count()
}

impl Plan {
    fn of_masks(&self) -> Vec<Suite> {
        let of = |s: &Suite| s.policy().is_none();
        self.suites.iter().copied().filter(of).collect()
    }

    fn policies(&self) -> Vec<Suite> {
        let of = |s: &Suite| s.policy().is_some();
        self.suites.iter().copied().filter(of).collect()
    }

    /// Returns how many random cases are planned for a suite; `None` for suites with a fixed list
    /// of cases.
    fn drawn(&self, suite: Suite) -> Option<u64> {
        match suite {
            Suite::Random => Some(self.cases),
            Suite::Requests => Some(self.requests),
            Suite::Many => Some(self.many),
            Suite::Forgeries => Some(self.forgeries),
            Suite::Contexts(_) => Some(self.in_contexts),
            Suite::Interrupted(_) => Some(self.interrupted),
            _ => None,
        }
    }
}

/// Runs `plan` until it is complete or `stop` is set. Any thread may call `progress`, with the
/// number of cases that were just completed. Only the thread that called `run` calls `tell`, with
/// the events in order.
pub fn run(
    plan: &Plan,
    stop: &AtomicBool,
    progress: &(dyn Fn(u64) + Sync),
    tell: &mut Tell<'_>,
) -> io::Result<Vec<Row>> {
    let _alone = MASK.lock().unwrap_or_else(PoisonError::into_inner);
    let masks = Tier::masks();
    let _restore = Restore(masks.last().cloned().unwrap_or_default());
    let mut rows = Vec::new();
    if !plan.of_masks().is_empty() {
        for (i, mask) in masks.iter().enumerate() {
            if stop.load(Ordering::Relaxed) {
                return Ok(rows);
            }
            Tier::mask(mask);
            // The last mask allows every tier. Number its random cases from 0.
            let turn = (masks.len() - 1 - i) as u64;
            let phase = Phase {
                plan,
                mask,
                last: turn == 0,
                turn,
            };
            phase.masked(stop, progress, &mut rows, tell)?;
        }
    }
    let Some(mask) = masks.last() else {
        return Ok(rows);
    };
    for suite in plan.policies() {
        if stop.load(Ordering::Relaxed) {
            return Ok(rows);
        }
        let phase = Phase {
            plan,
            mask,
            last: true,
            turn: 0,
        };
        phase.in_contexts(suite, stop, progress, &mut rows, tell)?;
    }
    Ok(rows)
}

/// Runs only case `number` of each suite of the plan, on each usable implementation of the plan.
pub fn replay(plan: &Plan, number: u64, tell: &mut Tell<'_>) -> io::Result<Vec<Row>> {
    let _alone = MASK.lock().unwrap_or_else(PoisonError::into_inner);
    let mask = Tier::masks().pop().unwrap_or_default();
    let stop = AtomicBool::new(false);
    let phase = Phase::alone(plan, &mask);
    let mut rows = Vec::new();
    for suite in &plan.suites {
        let jobs = phase.replayed(*suite, number);
        if jobs.is_empty() {
            continue;
        }
        phase.jobs_as_rows(*suite, &jobs, 1, &stop, &|_| (), &mut rows, tell)?;
    }
    Ok(rows)
}

/// Returns the approximate number of cases in a complete run of `plan`, that is, the sum of the
/// numbers that are passed to `progress`.
pub fn total(plan: &Plan) -> u64 {
    let masks = Tier::masks();
    let mut sum = 0;
    for (i, mask) in masks.iter().enumerate() {
        let phase = Phase {
            plan,
            mask,
            last: i + 1 == masks.len(),
            turn: (masks.len() - 1 - i) as u64,
        };
        sum += phase.sizes(&plan.of_masks());
        if phase.last {
            sum += phase.sizes(&plan.policies());
        }
    }
    sum
}

struct Restore(Vec<Tier>);

impl Drop for Restore {
    fn drop(&mut self) {
        Tier::mask(&self.0);
    }
}

struct Phase<'a> {
    plan: &'a Plan,
    mask: &'a [Tier],
    /// Whether the mask allows every tier.
    last: bool,
    /// Index of this mask's share of the random cases.
    turn: u64,
}

impl<'a> Phase<'a> {
    /// Creates the phase for the mask that allows every tier.
    fn alone(plan: &'a Plan, mask: &'a [Tier]) -> Phase<'a> {
        Phase {
            plan,
            mask,
            last: true,
            turn: 0,
        }
    }

    /// Returns the jobs that contain case `number` of the suite.
    fn replayed(&self, suite: Suite, number: u64) -> Vec<Job> {
        let mut jobs = self.jobs(&[suite], Some(number..number.saturating_add(1)));
        jobs.retain(|job| job.size() > 0);
        jobs
    }

    /// Creates a job for each family and suite.
    fn jobs(&self, suites: &[Suite], cases: Option<std::ops::Range<u64>>) -> Vec<Job> {
        let mut jobs = Vec::new();
        for impls in Family::split(&self.plan.impls) {
            let (usable, _) = self.split(&impls);
            if usable.is_empty() {
                continue;
            }
            let family = Family::of(usable);
            for suite in suites {
                let cases = cases.clone().or_else(|| {
                    if *suite == Suite::Lengths && !self.plan.longest && !self.last {
                        return Some(0..case::short_lengths(family.judge));
                    }
                    // All tiers share the drivers of the crypto API, which are registered only
                    // once, so it is enough to test these drivers under one mask.
                    if matches!(suite, Suite::Wiped | Suite::Refusals) && !self.last {
                        return Some(0..0);
                    }
                    let n = self.plan.drawn(*suite)?;
                    let first = self.turn.saturating_mul(n);
                    Some(first..first.saturating_add(n))
                });
                jobs.push(Job::new(
                    family.clone(),
                    *suite,
                    self.plan.seed,
                    cases,
                    &self.tiers_before(),
                ));
            }
        }
        jobs
    }

    fn sizes(&self, suites: &[Suite]) -> u64 {
        // The mask may not be set yet, so more implementations may be usable now than during the
        // run. This affects only the number of splits.
        self.jobs(suites, None).iter().map(Job::size).sum()
    }

    fn masked(
        &self,
        stop: &AtomicBool,
        progress: &(dyn Fn(u64) + Sync),
        rows: &mut Vec<Row>,
        tell: &mut Tell<'_>,
    ) -> io::Result<()> {
        let suites = self.plan.of_masks();
        let jobs = self.jobs(&suites, None);
        let mut told = Groups::new(self, rows, tell);
        let threads = self.plan.threads;
        run::run(
            &jobs,
            threads,
            stop,
            progress,
            &run::plain,
            &mut |job, parts| {
                let first = suites.first() == Some(&job.suite());
                if first {
                    let more: usize = jobs
                        .iter()
                        .filter(|j| j.family().alg == job.family().alg)
                        .map(Job::rows)
                        .sum();
                    let name = format!("{} {}", job.family().alg, self.tiers());
                    told.begin(job.family().alg, &name, 1 + more);
                    let tally = selection::check(job.family().alg, self.mask, &self.tiers());
                    told.selection(job.family(), tally);
                }
                told.job(job, parts);
                if suites.last() == Some(&job.suite()) {
                    told.end(job.family().alg);
                }
            },
        )
    }

    fn in_contexts(
        &self,
        suite: Suite,
        stop: &AtomicBool,
        progress: &(dyn Fn(u64) + Sync),
        rows: &mut Vec<Row>,
        tell: &mut Tell<'_>,
    ) -> io::Result<()> {
        let jobs = self.jobs(&[suite], None);
        self.jobs_as_rows(suite, &jobs, self.plan.threads, stop, progress, rows, tell)
    }

    /// Runs the jobs and reports a group for each job.
    #[allow(clippy::too_many_arguments)]
    fn jobs_as_rows(
        &self,
        suite: Suite,
        jobs: &[Job],
        threads: usize,
        stop: &AtomicBool,
        progress: &(dyn Fn(u64) + Sync),
        rows: &mut Vec<Row>,
        tell: &mut Tell<'_>,
    ) -> io::Result<()> {
        let mut told = Groups::new(self, rows, tell);
        let mut tell_job = |job: &Job, parts: Vec<Part>| {
            let name = format!("{} {}", job.family().alg, suite);
            told.begin(job.family().alg, &name, job.rows());
            told.job(job, parts);
            told.end(job.family().alg);
        };
        let Some(policy) = suite.policy() else {
            return run::run(jobs, threads, stop, progress, &run::plain, &mut tell_job);
        };
        let how = (policy, matches!(suite, Suite::Interrupted(_)));
        let seed = self.plan.seed;
        let seen = contexts::run(how, seed, jobs, threads, stop, progress, &mut tell_job)?;
        told.guests(suite, seed, seen);
        Ok(())
    }

    /// Returns the implementations to run under this mask, and the implementations to report as
    /// skipped. The latter are reported only once, under the last mask.
    fn split(&self, impls: &[Impl]) -> (Vec<Impl>, Vec<Impl>) {
        let (usable, not): (Vec<Impl>, Vec<Impl>) =
            impls.iter().partition(|i| self.mask.contains(&i.tier()));
        (usable, if self.last { not } else { Vec::new() })
    }

    fn tiers(&self) -> String {
        let names: Vec<&str> = self.mask.iter().map(|t| t.name()).collect();
        names.join(",")
    }

    /// Returns the environment assignment that, placed before a command, makes the command run
    /// under this mask. Returns an empty string if the mask allows every tier that this CPU has.
    fn tiers_before(&self) -> String {
        let all = Tier::ALL.into_iter().filter(|t| t.present()).count();
        match self.mask.len() == all {
            true => String::new(),
            false => format!("KILN_TIERS={} ", self.tiers()),
        }
    }
}

/// A collection of rows, each reported as soon as it is added.
struct Groups<'a, 'b> {
    phase: &'a Phase<'a>,
    rows: &'a mut Vec<Row>,
    tell: &'a mut Tell<'b>,
}

impl<'a, 'b> Groups<'a, 'b> {
    fn new(phase: &'a Phase<'a>, rows: &'a mut Vec<Row>, tell: &'a mut Tell<'b>) -> Groups<'a, 'b> {
        Groups { phase, rows, tell }
    }

    /// Returns the algorithm's implementations that are skipped and have no row yet. An algorithm
    /// has several groups if its suites run in several phases.
    fn skipped(&self, alg: &str) -> Vec<Impl> {
        let has_row = |imp: &Impl| {
            let mut rows = self.rows.iter();
            rows.any(|row| row.skipped > 0 && row.implementation == imp.driver())
        };
        let impls: Vec<Impl> = self
            .phase
            .plan
            .impls
            .iter()
            .copied()
            .filter(|imp| imp.alg() == alg && !has_row(imp))
            .collect();
        self.phase.split(&impls).1
    }

    fn begin(&mut self, alg: &str, name: &str, rows: usize) {
        let rows = rows + self.skipped(alg).len();
        (self.tell)(Event::Group { name, rows });
    }

    fn end(&mut self, alg: &str) {
        for imp in self.skipped(alg) {
            let reason = match imp.tier().lacks() {
                Some(feature) => format!("this CPU lacks {feature}"),
                None => "masked".into(),
            };
            let row = self.row(imp, "all".into(), "task", Tally::default());
            self.done(Row {
                skipped: 1,
                reason: Some(reason),
                ..row
            });
        }
        (self.tell)(Event::End);
    }

    fn selection(&mut self, family: &Family, tally: Tally) {
        let best = Impl::best(family.alg).unwrap_or(family.judge);
        let row = self.row(best, "selection".into(), "task", tally);
        self.done(row);
    }

    fn job(&mut self, job: &Job, parts: Vec<Part>) {
        for part in parts {
            let imp = job.family().subjects[part.subject];
            if !job.suite().fits(imp) {
                continue;
            }
            let context = caller::name(part.context);
            let row = self.row(imp, job.suite().name(), context, part.tally);
            self.done(row);
        }
    }

    /// Reports the results of the messages that were processed in interrupts.
    fn guests(&mut self, suite: Suite, seed: u64, seen: Counts) {
        let name = format!("interrupts {suite}");
        (self.tell)(Event::Group {
            name: &name,
            rows: 1,
        });
        let failure = Failure {
            what: format!(
                "{} of {} messages came out wrong",
                seen.corrupted, seen.served
            ),
            replay: format!("kiln test --suite {suite} --seed {seed}"),
        };
        self.done(Row {
            alg: "all".into(),
            implementation: INTERRUPTS.into(),
            suite: suite.name(),
            context: "softirq, hardirq".into(),
            tiers: self.phase.tiers(),
            cases: seen.served,
            failed: seen.corrupted,
            skipped: 0,
            reason: None,
            failures: (seen.corrupted > 0)
                .then_some(failure)
                .into_iter()
                .collect(),
        });
        (self.tell)(Event::End);
    }

    fn done(&mut self, row: Row) {
        (self.tell)(Event::Row(&row));
        self.rows.push(row);
    }

    fn row(&self, imp: Impl, suite: String, context: &str, tally: Tally) -> Row {
        Row {
            alg: imp.alg().into(),
            implementation: imp.driver().into(),
            suite,
            context: context.into(),
            tiers: self.phase.tiers(),
            cases: tally.cases,
            failed: tally.failed,
            skipped: 0,
            reason: None,
            failures: tally.failures,
        }
    }
}
