//! Runs a plan: builds all cells, times them, and judges the results.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::Duration;

use kiln_measure::{rounds_for, Verdict};
use kiln_question::{Error, Outcome, Share};

use super::answer::expected;
use super::baseline::{self, Baseline, Ratios, Regressions};
use super::bench::{self, Effort, Entry, Messages, Place, Timed};
use super::build::{Builder, Built, Refused};
use super::cell::{Abi, Cell, Opt, Status};
use super::kernel::{Kernel, ASSEMBLY};
use super::row::{mark, Row};
use super::store::Store;
use super::subject::{Judge, Subject};
use super::toolchain::Toolchain;
use super::variant::Variant;

/// Name of the variant that adds no flags.
pub(super) const DEFAULT: &str = "default";
/// Number of rounds if rows are not compared with a baseline.
const ROUNDS: usize = 12;
/// Time to spend on each cell in milliseconds, summed over all rounds: `FEW_MS`, or `MANY_MS` if
/// there are more than `MANY` cells. With --quick, all cells share `QUICK_MS`, and each gets at
/// most `QUICK_CELL_MS`.
const FEW_MS: u64 = 1_500;
const MANY_MS: u64 = 800;
const MANY: usize = 48;
const QUICK_MS: u64 = 9_000;
const QUICK_CELL_MS: u64 = 500;
/// Time that it takes to start a cell's process, in milliseconds.
const START_MS: u64 = 3;

/// The cells to build and time, and how to judge them.
pub(super) struct Plan<'a> {
    pub ccs: Vec<Arc<Toolchain>>,
    pub opts: Vec<Opt>,
    pub variants: Vec<Variant>,
    pub abis: Vec<Abi>,
    pub subjects: Vec<Arc<Subject>>,
    /// Message length in bytes.
    pub len: usize,
    /// Seed that determines the messages and the order of the cells.
    pub seed: u64,
    /// Whether to finish within about 20 s.
    pub quick: bool,
    /// Total time to spend on timing all cells, if the user set one.
    pub within: Option<Duration>,
    /// Whether to rebuild cells that are in the cache.
    pub anew: bool,
    /// The baseline to compare the cells with.
    pub baseline: Option<Baseline>,
    /// How much slower than its baseline a cell may be, as a percentage.
    pub max_regression: Option<f64>,
    /// Which of the cells this process builds and times.
    pub share: Share,
    /// Set by Ctrl-C.
    pub stop: &'a AtomicBool,
    /// Called once all cells have been built, before any cell is timed.
    pub settle: &'a dyn Fn(),
    /// Called with the completed fraction and the current activity.
    pub progress: &'a (dyn Fn(f64, &str) + Sync),
}

impl Plan<'_> {
    /// Returns whether the user also listed the baseline's compiler in --cc. If so, the variants
    /// built with this compiler are judged as well.
    fn tests_baseline(&self) -> bool {
        match &self.baseline {
            Some(Baseline::Compiler(cc)) => self.ccs.iter().any(|c| c.identity() == cc.identity()),
            _ => false,
        }
    }

    /// Returns all cells, including those of a baseline compiler, grouped by compiler.
    fn cells(&self) -> Vec<Cell> {
        let mut ccs = self.ccs.clone();
        if let Some(Baseline::Compiler(cc)) = &self.baseline {
            if ccs.iter().all(|c| c.identity() != cc.identity()) {
                ccs.insert(0, cc.clone());
            }
        }
        let mut variants = self.variants.clone();
        if self.tests_baseline() && variants.iter().all(|v| v.name() != DEFAULT) {
            variants.insert(0, Variant::parse(DEFAULT).expect("a variant"));
        }
        let mut cells = Vec::new();
        for cc in &ccs {
            for subject in self.subjects.iter().filter(|s| !s.assembly) {
                for opt in &self.opts {
                    for &abi in &self.abis {
                        for variant in &variants {
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

    /// Selects the cells of this shard. All cells with the same subject, level and width stay in
    /// one shard, because compilers and variants are compared within such a group.
    fn select(&self, cells: Vec<Cell>) -> Vec<Cell> {
        let unit = |cell: &Cell| format!("{}/{:?}/{:?}", cell.subject.name, cell.opt, cell.abi);
        let mut units: Vec<String> = Vec::new();
        for name in cells.iter().map(unit) {
            if !units.contains(&name) {
                units.push(name);
            }
        }
        let own = self.share.select(units, String::clone);
        cells
            .into_iter()
            .filter(|cell| own.contains(&unit(cell)))
            .collect()
    }

    /// Returns, for each cell, the index of the cell against which it is judged. Both cells are
    /// part of this run.
    fn partners(&self, cells: &[Cell]) -> Vec<Option<usize>> {
        let Some(Baseline::Compiler(cc)) = &self.baseline else {
            return vec![None; cells.len()];
        };
        let sites: Vec<Site> = cells.iter().map(Site::new).collect();
        let own = self.tests_baseline();
        (0..cells.len())
            .map(|i| partner(&sites, i, cc.identity(), own))
            .collect()
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

/// The properties by which a cell's partner is found.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Site<'a> {
    cc: u64,
    subject: &'a str,
    opt: &'a Opt,
    abi: Abi,
    variant: &'a str,
}

impl<'a> Site<'a> {
    fn new(cell: &'a Cell) -> Site<'a> {
        Site {
            cc: cell.cc.identity(),
            subject: &cell.subject.name,
            opt: &cell.opt,
            abi: cell.abi,
            variant: cell.variant.name(),
        }
    }
}

/// Returns the index of the cell against which the `i`-th cell is judged. For a cell whose
/// compiler is not the baseline's, this is the baseline compiler's cell with the same variant. If
/// the baseline's compiler is itself under test, its cells are judged against its default build at
/// the same level.
fn partner(sites: &[Site], i: usize, baseline: u64, tests_baseline: bool) -> Option<usize> {
    let wanted = match sites[i] {
        own if own.cc != baseline => Site {
            cc: baseline,
            ..own
        },
        own if tests_baseline && own.variant != DEFAULT => Site {
            variant: DEFAULT,
            ..own
        },
        _ => return None,
    };
    sites.iter().position(|site| *site == wanted)
}

/// Builds, times and judges the cells. Returns one row per cell and one for the reference. The
/// outcome is marked as failed if a compiler miscompiles the code or a cell is slower than allowed.
/// The returned flag is true if a cell could not be measured or judged.
pub(super) fn run(plan: &Plan) -> Result<(Outcome<Row>, bool), Error> {
    let store = Store::open()?;
    let mut builder = Builder::new(&store, &plan.ccs)?;
    builder.anew = plan.anew;
    let kernel = Kernel::open(&store)?;
    let cells = plan.select(plan.cells());
    let total = cells.len().max(1) as f64;
    let built = builder.build_all(&cells, plan.stop, &|n, what| {
        (plan.progress)(0.3 * n as f64 / total, what);
    });
    let fixed = reference(&builder, &kernel);
    if plan.stop.load(Ordering::Relaxed) {
        return Ok((Outcome::default(), false));
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
    let partners = plan.partners(&cells);
    let comparisons = places.iter().filter(|i| partners[**i].is_some()).count();
    let effort = plan.effort(entries.len(), comparisons);
    let scratch = store.scratch()?;
    let (timed, of_reference) = bench::time(
        &entries,
        fixed_entry.as_ref(),
        &effort,
        plan.seed,
        &Place {
            scratch: scratch.path(),
            stop: plan.stop,
        },
        &mut |f, what| (plan.progress)(0.3 + 0.7 * f, what),
    );

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
    let (mut outcome, untried) = judge(plan, &partners, &of_cell, rows, comparisons);
    match (&fixed, &of_reference) {
        (Ok((cell, b)), Some(timed)) => outcome.rows.extend(row_of_assembly(plan, cell, b, timed)),
        (Err(why), _) => outcome.notes.push(format!("no reference: {}", why.reason)),
        _ => {}
    }
    outcome.notes.extend(notes(plan, &outcome.rows, &effort));
    Ok((outcome, untried))
}

/// Builds the assembly implementation. It serves as the reference because it does not depend on the
/// compilers under test.
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

/// Returns the group number of the `i`-th cell. Cells that differ only in the compiler share a
/// group, because they are compared with each other.
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

/// Returns the expected digest for each subject. If no other implementation can compute it, the
/// digest that the largest number of builds agree on is taken as correct; in a tie, the first such
/// digest.
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
    let mut row = Row::new(cell, plan.len, &facts);
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
    let time = timed.series.in_ns().estimate();
    row.ns_per_byte = time.map(|t| t.best / bytes);
    row.ns_low = time.map(|t| t.low / bytes);
    row.ns_high = time.map(|t| t.high / bytes);
}

/// Creates the row for the assembly implementation, which is part of every run.
fn row_of_assembly(plan: &Plan, cell: &Cell, built: &Built, timed: &Timed) -> Option<Row> {
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

/// Judges each row against its partner. Returns, for each row, whether its partner has a result.
/// `by` is the name of the baseline.
fn judge_by_partners(
    rows: &mut [Row],
    partners: &[Option<usize>],
    timed: &HashMap<usize, Timed>,
    by: &str,
    comparisons: usize,
) -> Vec<bool> {
    let mut had = vec![false; rows.len()];
    for i in 0..rows.len() {
        let Some(partner) = partners.get(i).copied().flatten() else {
            continue;
        };
        let own = rows[partner].cc == rows[i].cc && rows[partner].variant != rows[i].variant;
        // If the compiler does not support a variant, the variant counts neither as slower nor as
        // lost.
        if own && rows[i].status == Status::Absent {
            continue;
        }
        let pair = timed.get(&i).zip(timed.get(&partner));
        let pair = pair.filter(|(a, b)| a.fault.is_none() && b.fault.is_none());
        let ratios = pair.and_then(|(a, b)| Ratios::from_series(&a.series, &b.series, comparisons));
        had[i] = rows[partner].status == Status::Ok;
        let name = match own {
            true => format!("{by} {DEFAULT}"),
            false => by.to_string(),
        };
        baseline::judge(&mut rows[i], &name, ratios, false);
    }
    had
}

fn judge(
    plan: &Plan,
    partners: &[Option<usize>],
    timed: &HashMap<usize, Timed>,
    mut rows: Vec<Row>,
    comparisons: usize,
) -> (Outcome<Row>, bool) {
    let mut outcome = Outcome::default();
    let mut had = vec![false; rows.len()];
    match &plan.baseline {
        None => {}
        Some(Baseline::Compiler(cc)) => {
            had = judge_by_partners(&mut rows, partners, timed, &cc.name, comparisons);
        }
        Some(Baseline::Record { name, rows: old }) => {
            for (i, row) in rows.iter_mut().enumerate() {
                let Some(old) = baseline::of_record(old, row) else {
                    continue;
                };
                had[i] = old.status == Status::Ok;
                let ratios = Ratios::from_rows(row, old);
                baseline::judge(row, name, ratios, true);
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
    let mut untried = if plan.baseline.is_some() {
        let judged = rows.iter().filter(|r| r.baseline.is_some());
        judged.clone().any(|r| r.ratio.is_none()) || judged.count() == 0
    } else {
        rows.iter().all(|r| r.status != Status::Ok)
    };
    if let (Some(percent), Some(_)) = (plan.max_regression, &plan.baseline) {
        let index = |row: &Row| rows.iter().position(|r| std::ptr::eq(r, row));
        let found = baseline::regressions(&rows, percent, &|r| index(r).is_some_and(|i| had[i]));
        tell_regressions(&rows, &found, percent, &mut outcome.notes);
        let worse = !found.slower.is_empty() || !found.lost.is_empty();
        // If some rows might be slower but none certainly is, a bisection must skip the commit.
        untried |= !worse && !found.unjudged.is_empty();
        outcome.failed |= worse || !found.unjudged.is_empty();
    }
    outcome.rows = rows;
    (outcome, untried)
}

/// Adds a note for each row that exceeds the slowdown limit, lost its result, or could not be
/// judged.
fn tell_regressions(rows: &[Row], found: &Regressions, percent: f64, notes: &mut Vec<String>) {
    let name = |r: &Row| format!("{} -{} {} {}", r.cc, r.opt, r.variant, r.subject);
    let number = |x: Option<f64>| x.unwrap_or(f64::NAN);
    for r in found.slower.iter().map(|i| &rows[*i]) {
        notes.push(format!(
            "REGRESSION: {}: {:.3} times {}'s ({:.3} to {:.3}), more than {percent} % slower",
            name(r),
            number(r.ratio),
            r.baseline.as_deref().unwrap_or_default(),
            number(r.ratio_low),
            number(r.ratio_high)
        ));
    }
    for r in found.lost.iter().map(|i| &rows[*i]) {
        notes.push(format!(
            "REGRESSION: {}: no figure where {} has one: {}",
            name(r),
            r.baseline.as_deref().unwrap_or_default(),
            r.reason.as_deref().unwrap_or_default()
        ));
    }
    for r in found.unjudged.iter().map(|i| &rows[*i]) {
        notes.push(format!(
            "UNJUDGED: {}: {:.3} times {}'s cycles but {:.3} times its time: only one of the two is more than {percent} % slower \
             beyond its noise",
            name(r),
            number(r.ratio),
            r.baseline.as_deref().unwrap_or_default(),
            number(r.time_ratio)
        ));
    }
}

/// Adds notes that state how often each verdict occurs and how many verdicts are based on cycles
/// alone.
fn verdict_notes(by: &Baseline, rows: &[Row], notes: &mut Vec<String>) {
    let judged = |r: &&Row| r.verdict.is_some();
    if !rows.iter().any(|r| judged(&r)) {
        return;
    }
    let count = |v| rows.iter().filter(|r| r.verdict == Some(v)).count();
    let together = match by {
        Baseline::Compiler(_) => "the intervals of all hold at once in 95 cases of 100",
        Baseline::Record { .. } => {
            "judged by the intervals of reruns; differences below 2 % count as none"
        }
    };
    let without = rows
        .iter()
        .filter(|r| r.baseline.is_some() && r.verdict.is_none());
    let disagree = count(Verdict::Disagree);
    let shown = match disagree {
        0 => String::new(),
        n => format!(", {n} disagree"),
    };
    notes.push(format!(
        "against {}: {} faster, {} same, {} slower{shown}, {} without a verdict; {together}",
        by.name(),
        count(Verdict::Faster),
        count(Verdict::Same),
        count(Verdict::Slower),
        without.count()
    ));
    if disagree > 0 {
        notes.push(
            "disagree: cycles and time differ by more than their noise, because the core's clock was not the same; \
             these cells have no verdict"
                .to_string(),
        );
    }
    if matches!(by, Baseline::Compiler(_)) {
        notes.push(
            "cells of the table are the best of all rounds, whereas a ratio is the median over rounds: on a busy machine \
             they can differ"
                .to_string(),
        );
    }
    let by_cycles = |r: &&Row| judged(r) && r.time_ratio.is_none();
    match rows.iter().filter(by_cycles).count() {
        0 => {}
        n => notes.push(format!(
            "judged by cycles alone: {n}, because {} has no times; a lower clock goes unseen",
            by.name()
        )),
    }
}

fn notes(plan: &Plan, rows: &[Row], effort: &Effort) -> Vec<String> {
    let mut notes = vec![format!(
        "results are core cycles per byte, with messages of {} bytes: the best of {} rounds of {} ms, in which the builds take turns. \
         ci_low, ci_high: the range in which the result of a rerun is expected",
        plan.len, effort.rounds, effort.round_ms
    )];
    if rows.iter().any(|r| r.outlier) {
        notes.push("! takes more than 1.5 times the cycles and the time of the fastest build in the same line of the table".to_string());
    }
    if plan.subjects.iter().any(|s| s.judge == Judge::Majority) {
        notes.push(
            "the right results of your own files are unknown, so a build is called wrong if its results differ from those of most builds"
                .to_string(),
        );
    }
    if let Some(by) = &plan.baseline {
        verdict_notes(by, rows, &mut notes);
    }
    // Report each reason only once, with the number of rows that have it.
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

#[cfg(test)]
mod tests {
    use super::super::row::tests::row;
    use super::*;
    use kiln_measure::{Round, Series};

    /// Creates the results of a cell that took about `cycles` cycles in every round, with `ns`
    /// nanoseconds per cycle.
    fn timed_at(cycles: f64, ns: f64) -> Timed {
        let rounds = |figure: f64| {
            let round = |i: usize| {
                let figure = figure * (1.0 + 0.0001 * i as f64);
                Round {
                    best: Some(figure),
                    samples: vec![figure],
                    complete: true,
                }
            };
            (0..20).map(round).collect()
        };
        Timed {
            series: Series {
                rounds: rounds(cycles),
                rounds_ns: rounds(cycles * ns),
                ..Series::default()
            },
            answer: None,
            complaint: None,
            fault: None,
        }
    }

    fn timed(cycles: f64) -> Timed {
        timed_at(cycles, 0.25)
    }

    /// Creates a plan without cells that allows a slowdown of at most 5%.
    fn gated<'a>(baseline: Baseline, stop: &'a AtomicBool) -> Plan<'a> {
        Plan {
            ccs: Vec::new(),
            opts: Vec::new(),
            variants: Vec::new(),
            abis: Vec::new(),
            subjects: Vec::new(),
            len: 4096,
            seed: 1,
            quick: true,
            within: None,
            anew: false,
            baseline: Some(baseline),
            max_regression: Some(5.0),
            share: Share::default(),
            stop,
            settle: &|| (),
            progress: &|_, _| (),
        }
    }

    /// Judges `new` against the recorded row `old`, with a limit of 5%. Returns the verdict,
    /// whether the run fails, whether a bisection would skip the commit, and the notes.
    fn gate(new: Row, old: Row) -> (Verdict, bool, bool, Vec<String>) {
        let stop = AtomicBool::new(false);
        let record = Baseline::Record {
            name: "old.json".into(),
            rows: vec![old],
        };
        let plan = gated(record, &stop);
        let (mut outcome, untried) = judge(&plan, &[None], &HashMap::new(), vec![new], 1);
        let effort = plan.effort(1, 1);
        let more = notes(&plan, &outcome.rows, &effort);
        outcome.notes.extend(more);
        let verdict = outcome.rows[0].verdict.unwrap();
        (verdict, outcome.failed, untried, outcome.notes)
    }

    #[test]
    fn a_gate_does_not_pass_a_cell_on_which_cycles_and_time_disagree() {
        let old = || row("a", "default", Some(10.0));
        let new = |cycles: f64, clock: f64| row("a", "default", Some(cycles)).at_clock(clock);
        let has = |notes: &[String], word: &str| notes.iter().any(|n| n.contains(word));
        for (what, cycles, clock) in [
            ("fewer cycles, more time", 9.0, 1.33),
            ("more cycles, less time", 11.0, 0.8),
        ] {
            let (verdict, failed, untried, notes) = gate(new(cycles, clock), old());
            assert_eq!(verdict, Verdict::Disagree, "{what}");
            assert!(failed && untried, "{what}");
            assert!(has(&notes, "UNJUDGED: a -O2 default s:"), "{notes:?}");
            assert!(
                has(&notes, "the core's clock was not the same"),
                "{notes:?}"
            );
            assert!(has(&notes, "0 slower, 1 disagree, 0 without"), "{notes:?}");
        }
        // Controls: a row that is slower in both cycles and time, a row that is faster in both, and
        // a record without times, which adds a note.
        let (verdict, failed, untried, notes) = gate(new(11.0, 1.0), old());
        assert_eq!((verdict, failed, untried), (Verdict::Slower, true, false));
        assert!(has(&notes, "REGRESSION") && !has(&notes, "UNJUDGED"));
        let (verdict, failed, untried, notes) = gate(new(9.0, 1.0), old());
        assert_eq!((verdict, failed, untried), (Verdict::Faster, false, false));
        assert!(!has(&notes, "disagree") && !has(&notes, "cycles alone"));
        let (verdict, failed, _, notes) = gate(new(9.0, 1.33), old().without_time());
        assert_eq!((verdict, failed), (Verdict::Faster, false));
        assert!(has(
            &notes,
            "judged by cycles alone: 1, because old.json has no times"
        ));
    }

    #[test]
    fn cells_side_by_side_are_judged_by_cycles_and_time() {
        let verdict = |own: Timed| {
            let mut rows = [
                row("a", "default", Some(10.0)),
                row("b", "default", Some(9.0)),
            ];
            let timed = [(0, timed(10.0)), (1, own)].into();
            judge_by_partners(&mut rows, &[None, Some(0)], &timed, "a", 1);
            rows[1].verdict.unwrap()
        };
        assert_eq!(verdict(timed_at(9.0, 0.33)), Verdict::Disagree);
        assert_eq!(verdict(timed_at(11.0, 0.2)), Verdict::Disagree);
        assert_eq!(verdict(timed_at(9.0, 0.25)), Verdict::Faster);
        assert_eq!(verdict(timed_at(11.0, 0.25)), Verdict::Slower);
        assert_eq!(verdict(timed_at(10.0, 0.25)), Verdict::Same);
    }

    /// Judges simulated cells of two compilers, a (the baseline) and b, that take the given numbers
    /// of cycles. Returns the cells that are slower than their partners by more than 5%.
    fn slower(cells: &[(&str, &str, f64)], tests_baseline: bool) -> Vec<(String, String)> {
        let opt = Opt::parse("O2").unwrap();
        let sites: Vec<Site> = cells
            .iter()
            .map(|(cc, variant, _)| Site {
                cc: u64::from(*cc == "b"),
                subject: "s",
                opt: &opt,
                abi: Abi::Bits64,
                variant,
            })
            .collect();
        let partners: Vec<Option<usize>> = (0..sites.len())
            .map(|i| partner(&sites, i, 0, tests_baseline))
            .collect();
        let mut rows: Vec<Row> = cells
            .iter()
            .map(|(cc, variant, cycles)| row(cc, variant, Some(*cycles)))
            .collect();
        let timed = cells.iter().map(|c| timed(c.2)).enumerate().collect();
        let comparisons = partners.iter().flatten().count();
        let had = judge_by_partners(&mut rows, &partners, &timed, "a", comparisons);
        let found = baseline::regressions(&rows, 5.0, &|_| had.iter().any(|h| *h));
        assert_eq!(found.lost, [0; 0]);
        let said = |i: &usize| {
            let by = rows[*i].baseline.clone().unwrap();
            (format!("{} {}", rows[*i].cc, rows[*i].variant), by)
        };
        found.slower.iter().map(said).collect()
    }

    #[test]
    fn a_planted_variant_of_the_baseline_is_judged_against_its_default() {
        let planted = [
            ("a", "default", 10.0),
            ("a", "-O0", 100.0),
            ("b", "default", 10.1),
            ("b", "-O0", 100.0),
        ];
        let a_slow = ("a -O0".to_string(), "a default".to_string());
        assert_eq!(slower(&planted, true), [a_slow]);
        // A compiler that serves only as the baseline is not itself judged.
        assert_eq!(slower(&planted, false), []);
        // Controls: a variant that costs nothing, and a slower compiler other than the baseline.
        let mut equal = planted;
        (equal[1].2, equal[3].2) = (10.0, 10.0);
        assert_eq!(slower(&equal, true), []);
        equal[2].2 = 12.0;
        assert_eq!(
            slower(&equal, true),
            [("b default".to_string(), "a".to_string())]
        );
    }

    #[test]
    fn a_variant_that_the_baseline_does_not_have_is_not_lost() {
        let mut rows = [row("a", "default", Some(10.0)), row("a", "patched", None)];
        rows[1].status = Status::Absent;
        let timed = [(0, timed(10.0))].into();
        let had = judge_by_partners(&mut rows, &[None, Some(0)], &timed, "a", 1);
        assert_eq!((had[1], rows[1].baseline.as_deref()), (false, None));
        // Control: a build that crashes counts as lost.
        rows[1].status = Status::Crashed;
        let had = judge_by_partners(&mut rows, &[None, Some(0)], &timed, "a", 1);
        assert_eq!(baseline::regressions(&rows, 5.0, &|_| had[1]).lost, [1]);
    }
}
