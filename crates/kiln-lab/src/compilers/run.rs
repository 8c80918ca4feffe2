//! From a plan to rows: build all cells, time them, judge them.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::Duration;

use kiln_measure::{ratio_among, rounds_for, Verdict};

use super::answer::expected;
use super::baseline::{self, Baseline};
use super::bench::{self, Effort, Entry, Messages, Place, Timed};
use super::build::{Builder, Built, Refused};
use super::cell::{Abi, Cell, Opt, Status};
use super::kernel::{Kernel, ASSEMBLY};
use super::row::{mark, Row};
use super::store::Store;
use super::subject::{Judge, Subject};
use super::toolchain::Toolchain;
use super::variant::Variant;
use crate::Error;

/// Rounds where nothing is judged.
const ROUNDS: usize = 12;
/// Time of a cell in all rounds: of few cells, of many; with --quick of all cells together, and of one at most.
const FEW_MS: u64 = 1_500;
const MANY_MS: u64 = 800;
const MANY: usize = 48;
const QUICK_MS: u64 = 9_000;
const QUICK_CELL_MS: u64 = 500;
/// What starting a cell takes.
const START_MS: u64 = 3;

/// What is wanted.
pub struct Plan<'a> {
    /// Compilers.
    pub ccs: Vec<Arc<Toolchain>>,
    /// Levels.
    pub opts: Vec<Opt>,
    /// Kinds of build.
    pub variants: Vec<Variant>,
    /// Widths.
    pub abis: Vec<Abi>,
    /// What is compiled.
    pub subjects: Vec<Arc<Subject>>,
    /// Bytes of a message.
    pub len: usize,
    /// From which messages and orders follow.
    pub seed: u64,
    /// At most some 20 s.
    pub quick: bool,
    /// Time for all cells, in place of the usual.
    pub within: Option<Duration>,
    /// Whether what is in the cache is built again.
    pub anew: bool,
    /// What is judged by.
    pub baseline: Option<Baseline>,
    /// Per cent that is too slow.
    pub max_regression: Option<f64>,
    /// Set by Ctrl-C.
    pub stop: &'a AtomicBool,
    /// Called when all is built and nothing else is to run any more.
    pub settle: &'a dyn Fn(),
    /// What is being done, and how much of all is.
    pub progress: &'a (dyn Fn(f64, &str) + Sync),
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// A row for each cell, and one for the reference.
    pub rows: Vec<Row>,
    /// What a reader must know.
    pub notes: Vec<String>,
    /// A compiler miscompiles, or a cell is slower than allowed.
    pub failed: bool,
    /// A cell that was to be judged has no figure.
    pub untried: bool,
}

impl Plan<'_> {
    /// All cells, a compiler's together; those of a baseline among them.
    fn cells(&self) -> Vec<Cell> {
        let mut ccs = self.ccs.clone();
        if let Some(Baseline::Compiler(cc)) = &self.baseline {
            if ccs.iter().all(|c| c.identity() != cc.identity()) {
                ccs.insert(0, cc.clone());
            }
        }
        let mut cells = Vec::new();
        for cc in &ccs {
            for subject in self.subjects.iter().filter(|s| !s.assembly) {
                for opt in &self.opts {
                    for &abi in &self.abis {
                        for variant in &self.variants {
                            cells.push(Cell {
                                cc: cc.clone(),
                                subject: subject.clone(),
                                opt: opt.clone(),
                                variant: variant.clone(),
                                abi,
                            });
                        }
                    }
                }
            }
        }
        cells
    }

    /// The pair of each cell in the same run.
    fn partner(&self, cells: &[Cell], i: usize) -> Option<usize> {
        let Some(Baseline::Compiler(cc)) = &self.baseline else {
            return None;
        };
        let own = &cells[i];
        if own.cc.identity() == cc.identity() {
            return None;
        }
        cells.iter().position(|c| {
            c.cc.identity() == cc.identity()
                && c.subject.name == own.subject.name
                && c.opt == own.opt
                && c.variant == own.variant
                && c.abi == own.abi
        })
    }

    fn effort(&self, timed: usize, comparisons: usize) -> Effort {
        let wanted = match comparisons {
            0 => ROUNDS,
            n => rounds_for(n).max(ROUNDS),
        };
        let shared = |ms: u64| ms / timed.max(1) as u64;
        let of_all = match (self.within, self.quick) {
            (Some(time), _) => shared(time.as_millis() as u64),
            (None, true) => shared(QUICK_MS).min(QUICK_CELL_MS),
            (None, false) if timed > MANY => MANY_MS,
            (None, false) => FEW_MS,
        };
        Effort {
            rounds: wanted,
            round_ms: (of_all / wanted as u64).saturating_sub(START_MS).max(4),
        }
    }
}

/// Builds, times and judges.
pub fn run(plan: &Plan) -> Result<Outcome, Error> {
    let store = Store::open()?;
    let mut builder = Builder::new(&store, &plan.ccs)?;
    builder.anew = plan.anew;
    let kernel = Kernel::open(&store)?;
    let cells = plan.cells();
    let total = cells.len().max(1) as f64;
    let built = builder.all(&cells, plan.stop, &|n, what| {
        (plan.progress)(0.3 * n as f64 / total, what);
    });
    let fixed = reference(&builder, &kernel);
    if plan.stop.load(Ordering::Relaxed) {
        return Ok(Outcome::default());
    }
    (plan.settle)();

    let messages = Messages::new(plan.seed, plan.len);
    let places: Vec<usize> = (0..cells.len()).filter(|i| built[*i].is_ok()).collect();
    let entries: Vec<Entry> = places
        .iter()
        .filter_map(|&i| Some((i, built[i].as_ref().ok()?)))
        .map(|(i, b)| Entry {
            name: cells[i].to_string(),
            executable: &b.executable,
            messages,
            group: group(&cells, i),
        })
        .collect();
    let fixed_entry = fixed.as_ref().ok().map(|(_, b)| Entry {
        name: ASSEMBLY.to_string(),
        executable: &b.executable,
        messages: Messages::new(plan.seed, plan.len.div_ceil(16) * 16),
        group: 0,
    });
    let comparisons = places
        .iter()
        .filter(|i| plan.partner(&cells, **i).is_some())
        .count();
    let effort = plan.effort(entries.len(), comparisons);
    let scratch = store.scratch()?;
    let (timed, of_reference) = bench::time(
        &entries,
        fixed_entry.as_ref(),
        &effort,
        plan.seed,
        &Place {
            scratch: &scratch,
            stop: plan.stop,
        },
        &mut |f, what| (plan.progress)(0.3 + 0.7 * f, what),
    );

    let _ = std::fs::remove_dir_all(&scratch);
    let mut of_cell: HashMap<usize, Timed> = places.iter().copied().zip(timed).collect();
    let right = answers(plan, &cells, &of_cell)?;
    for (i, timed) in &mut of_cell {
        let want = right.get(cells[*i].subject.name.as_str());
        if let (None, Some(want), Some(got)) = (&timed.fault, want, timed.answer) {
            if got != *want {
                let why = format!(
                    "MISCOMPILED: answers {got:016x} where {want:016x} is right (seed {})",
                    plan.seed
                );
                timed.fault = Some((Status::Wrong, why));
            }
        }
    }
    let mut rows: Vec<Row> = (0..cells.len())
        .map(|i| row(plan, &cells[i], &built[i], of_cell.get(&i)))
        .collect();
    mark(&mut rows);
    let mut outcome = judge(plan, &cells, &of_cell, rows, comparisons);
    match (&fixed, &of_reference) {
        (Ok((cell, b)), Some(timed)) => outcome.rows.extend(of_assembly(plan, cell, b, timed)),
        (Err(why), _) => outcome.notes.push(format!("no reference: {}", why.reason)),
        _ => {}
    }
    outcome.notes.extend(notes(plan, &outcome.rows, &effort));
    Ok(outcome)
}

/// The assembly, which no compiler under test has a part in.
fn reference(builder: &Builder, kernel: &Kernel) -> Result<(Cell, Built), Refused> {
    let subject = match kernel.subject(ASSEMBLY) {
        Some(subject) => subject?,
        None => return Err(super::build::failed("it is not there")),
    };
    let cell = Cell {
        cc: builder.helper().clone(),
        subject: Arc::new(subject),
        opt: Opt::parse("O2").expect("a level"),
        variant: Variant::parse("default").expect("a variant"),
        abi: Abi::Bits64,
    };
    builder.cell(&cell).map(|built| (cell, built))
}

/// Cells that are compared with each other: all compilers of one place.
fn group(cells: &[Cell], i: usize) -> usize {
    let own = &cells[i];
    cells
        .iter()
        .position(|c| {
            c.subject.name == own.subject.name
                && c.opt == own.opt
                && c.variant == own.variant
                && c.abi == own.abi
        })
        .unwrap_or(i)
}

/// The right answer for each subject; where the cells have to agree, that of most, or of the first.
fn answers(
    plan: &Plan,
    cells: &[Cell],
    timed: &HashMap<usize, Timed>,
) -> Result<HashMap<String, u64>, Error> {
    let messages = Messages::new(plan.seed, plan.len);
    let mut right = HashMap::new();
    for subject in &plan.subjects {
        let known = expected(subject, plan.seed, plan.len, messages.count)?;
        let answer = known.or_else(|| {
            let mut votes: Vec<(u64, usize)> = Vec::new();
            for (i, cell) in cells.iter().enumerate() {
                let of_it = cell.subject.name == subject.name;
                let Some(answer) = timed.get(&i).filter(|_| of_it).and_then(|t| t.answer) else {
                    continue;
                };
                match votes.iter_mut().find(|(a, _)| *a == answer) {
                    Some((_, n)) => *n += 1,
                    None => votes.push((answer, 1)),
                }
            }
            let most = votes.iter().map(|(_, n)| *n).max()?;
            votes.iter().find(|(_, n)| *n == most).map(|(a, _)| *a)
        });
        right.extend(answer.map(|a| (subject.name.clone(), a)));
    }
    Ok(right)
}

fn row(plan: &Plan, cell: &Cell, built: &Result<Built, Refused>, timed: Option<&Timed>) -> Row {
    let facts = built.as_ref().ok().map(|b| b.facts.clone());
    let facts = facts.unwrap_or_default();
    let mut row = Row::of(cell, plan.len, &facts);
    row.build_ms = row.build_ms.filter(|_| built.is_ok());
    match (built, timed) {
        (Err(refused), _) => {
            row.status = refused.status;
            row.reason = Some(refused.reason.clone());
        }
        (Ok(_), Some(timed)) => figures(&mut row, timed, plan.len),
        (Ok(_), None) => {
            row.status = Status::Absent;
            row.reason = Some("interrupted".to_string());
        }
    }
    row
}

fn figures(row: &mut Row, timed: &Timed, len: usize) {
    row.reason = timed.complaint.clone();
    if let Some((status, why)) = &timed.fault {
        row.status = *status;
        row.reason = Some(why.clone());
        return;
    }
    let Some(e) = timed.series.estimate() else {
        row.status = Status::Absent;
        row.reason = Some("not timed: interrupted, or the clock never stood still".to_string());
        return;
    };
    let bytes = len.max(1) as f64;
    row.cycles_per_byte = Some(e.best / bytes);
    row.ci_low = Some(e.low / bytes);
    row.ci_high = Some(e.high / bytes);
}

/// The row of the assembly: always there, whatever was asked for.
fn of_assembly(plan: &Plan, cell: &Cell, built: &Built, timed: &Timed) -> Option<Row> {
    let plain = plan.len.div_ceil(16) * 16;
    let mut row = row(plan, cell, &Ok(built.clone()), None);
    row.status = Status::Ok;
    row.reason = None;
    row.len = plain;
    figures(&mut row, timed, plain);
    for word in [
        &mut row.cc,
        &mut row.cc_version,
        &mut row.opt,
        &mut row.variant,
    ] {
        *word = "-".to_string();
    }
    (row.stack_bytes, row.build_ms) = (None, None);
    row.cycles_per_byte.is_some().then_some(row)
}

fn judge(
    plan: &Plan,
    cells: &[Cell],
    timed: &HashMap<usize, Timed>,
    mut rows: Vec<Row>,
    comparisons: usize,
) -> Outcome {
    let mut outcome = Outcome::default();
    let mut had = vec![false; rows.len()];
    match &plan.baseline {
        None => {}
        Some(Baseline::Compiler(cc)) => {
            for i in 0..rows.len() {
                let Some(partner) = plan.partner(cells, i) else {
                    continue;
                };
                let pair = timed.get(&i).zip(timed.get(&partner));
                let pair = pair.filter(|(a, b)| a.fault.is_none() && b.fault.is_none());
                let ratio = pair.and_then(|(a, b)| ratio_among(&a.series, &b.series, comparisons));
                had[i] = rows[partner].status == Status::Ok;
                baseline::judge(&mut rows[i], &cc.name, ratio, false);
            }
        }
        Some(Baseline::Record { name, rows: old }) => {
            for (i, row) in rows.iter_mut().enumerate() {
                let Some(old) = baseline::of_record(old, row) else {
                    continue;
                };
                had[i] = old.status == Status::Ok;
                let ratio = baseline::between(row, old);
                baseline::judge(row, name, ratio, true);
            }
        }
    }
    let wrong = rows.iter().filter(|r| r.status == Status::Wrong);
    for row in wrong.clone() {
        outcome.notes.push(format!(
            "{} -{} {} {}: {}",
            row.cc,
            row.opt,
            row.variant,
            row.subject,
            row.reason.as_deref().unwrap_or_default()
        ));
    }
    outcome.failed = wrong.count() > 0;
    if plan.baseline.is_some() {
        let judged = rows.iter().filter(|r| r.baseline.is_some());
        outcome.untried = judged.clone().any(|r| r.ratio.is_none()) || judged.count() == 0;
    } else {
        outcome.untried = rows.iter().all(|r| r.status != Status::Ok);
    }
    if let (Some(percent), Some(by)) = (plan.max_regression, &plan.baseline) {
        let index = |row: &Row| rows.iter().position(|r| std::ptr::eq(r, row));
        let found = baseline::regressions(&rows, percent, &|r| index(r).is_some_and(|i| had[i]));
        for i in &found.slower {
            let r = &rows[*i];
            outcome.notes.push(format!(
                "REGRESSION: {} -{} {} {}: {:.3} times {}'s ({:.3} to {:.3}), more than {percent} % slower",
                r.cc,
                r.opt,
                r.variant,
                r.subject,
                r.ratio.unwrap_or(f64::NAN),
                by.name(),
                r.ratio_low.unwrap_or(f64::NAN),
                r.ratio_high.unwrap_or(f64::NAN)
            ));
        }
        for i in &found.lost {
            let r = &rows[*i];
            outcome.notes.push(format!(
                "REGRESSION: {} -{} {} {}: no figure where {} has one: {}",
                r.cc,
                r.opt,
                r.variant,
                r.subject,
                by.name(),
                r.reason.as_deref().unwrap_or_default()
            ));
        }
        outcome.failed |= found != baseline::Regressions::default();
    }
    outcome.rows = rows;
    outcome
}

fn notes(plan: &Plan, rows: &[Row], effort: &Effort) -> Vec<String> {
    let mut notes = vec![format!(
        "core cycles a byte of {} bytes, best of {} rounds of {} ms, cells interleaved; ci_low, ci_high: where the \
         figure of a rerun falls",
        plan.len, effort.rounds, effort.round_ms
    )];
    if rows.iter().any(|r| r.outlier) {
        notes.push("! more than 1.5 times the best of its row".to_string());
    }
    if plan.subjects.iter().any(|s| s.judge == Judge::Majority) {
        notes.push(
            "nothing here knows the right answers of a file of yours: cells that differ from most are called wrong"
                .to_string(),
        );
    }
    let judged = rows.iter().filter(|r| r.verdict.is_some()).count();
    if let (Some(by), true) = (&plan.baseline, judged > 0) {
        let of = |v| rows.iter().filter(|r| r.verdict == Some(v)).count();
        let together = match by {
            Baseline::Compiler(_) => "the intervals of all hold at once in 95 cases of 100",
            Baseline::Record { .. } => "by where reruns fall; less than 2 % is no difference",
        };
        notes.push(format!(
            "against {}: {} faster, {} same, {} slower; {together}",
            by.name(),
            of(Verdict::Faster),
            of(Verdict::Same),
            of(Verdict::Slower)
        ));
    }
    // Each reason once.
    let mut said: Vec<(&str, usize)> = Vec::new();
    for row in rows.iter().filter(|r| r.status != Status::Wrong) {
        let Some(why) = row.reason.as_deref() else {
            continue;
        };
        match said.iter_mut().find(|(w, _)| *w == why) {
            Some((_, n)) => *n += 1,
            None => said.push((why, 1)),
        }
    }
    for (why, n) in said {
        let cells = if n == 1 { "cell" } else { "cells" };
        notes.push(format!("{n} {cells}: {why}"));
    }
    notes
}
