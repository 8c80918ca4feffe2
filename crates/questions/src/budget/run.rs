//! Runs every implementation under every chunking strategy.

use std::sync::atomic::{AtomicBool, Ordering};

use kiln_kernel::budget::{self, Calibrated, Part, Parts, Run, Way};
use kiln_kernel::cipher::{Impl, Kind, Op};
use kiln_kernel::cpu::{Config, Cpu};
use kiln_kernel::crypto::Model;
use kiln_kernel::fpu::Policy;
use kiln_kernel::irq::{Arrivals, Timer};
use kiln_question::algorithm::op_name;
use kiln_question::{Error, Outcome, Report};

use super::bench::Bench;
use super::plan::{Data, Plan};
use super::row::{holds, loss, pct, us, Lengths, Row};

/// A section is long if it exceeds this multiple of the target.
const LONG: f64 = 1.1;
/// Minimum number of operations per row. With fewer, the number of timed pairs would be too small
/// to compute an interval for the loss.
const OPS: u64 = 8;
/// Length of the chain of dependent multiplications that is timed to determine how long a single
/// multiplication takes.
const CHAIN: u64 = 10_000;
/// Strategies designed to keep sections within the target.
const MEANT: [Way; 3] = [Way::Fixed, Way::Calibrated, Way::Clocked];

/// The combination of parameters measured for one row.
struct Cell {
    imp: Impl,
    op: Op,
    data: Data,
    target_us: f64,
    way: Way,
}

/// Returns rows sorted by implementation, operation, data, target and strategy, along with the
/// section lengths under each strategy for the first target. `calibrated` describes the initial
/// calibration.
///
/// # Errors
/// The host cannot provide an emulated CPU or a timer.
pub(super) fn run(
    plan: &Plan,
    calibrated: Calibrated,
    (tsc_hz, core_hz): (f64, f64),
    stop: &AtomicBool,
    progress: Report<'_>,
) -> Result<(Outcome<Row>, Vec<Lengths>), Error> {
    let config = Config {
        preempt_full: true,
        ..Config::default()
    };
    let mut cpu = Cpu::boot(&config).map_err(|e| {
        Error::lacks(format!(
            "cannot make an emulated CPU: {e}: free some memory, and allow arch_prctl"
        ))
    })?;
    let bh_off = Policy::all().into_iter().find(|p| p.name() == "bh-off");
    bh_off.expect("a policy of this name").set(&mut cpu);
    Model::Direct.set();
    let (way, target) = Way::current();
    let (mut outcome, mut lengths) = (Outcome::default(), Vec::new());
    let ran = measure_all(
        plan,
        &mut cpu,
        (tsc_hz, core_hz),
        stop,
        progress,
        &mut outcome,
        &mut lengths,
    );
    way.set(target);
    Policy::all()[0].set(&mut cpu);
    ran?;
    outcome
        .notes
        .extend(notes(plan, calibrated, tsc_hz, &outcome.rows));
    Ok((outcome, lengths))
}

fn measure_all(
    plan: &Plan,
    cpu: &mut Cpu,
    hz: (f64, f64),
    stop: &AtomicBool,
    progress: Report<'_>,
    outcome: &mut Outcome<Row>,
    lengths: &mut Vec<Lengths>,
) -> Result<(), Error> {
    let each = plan.data.len() * plan.targets_us.len();
    let rows = |&imp: &Impl| each * plan.ops_of(imp).len() * plan.ways_of(imp).len();
    let total = plan.impls.iter().map(rows).sum::<usize>();
    for &imp in &plan.impls {
        let ways = plan.ways_of(imp);
        if ways.is_empty() {
            continue;
        }
        for &op in plan.ops_of(imp) {
            let mut bench = Bench::new(imp, op, plan.len, plan.seed)?;
            // Measure budgets again if the clock frequency changed. A kernel would do this in a
            // cpufreq notifier.
            if budget::calibrate_again().is_some() {
                let changed =
                    "the clock speed changed during the run, so the byte budgets were measured again";
                if !outcome.notes.iter().any(|n| n == changed) {
                    outcome.notes.push(changed.to_string());
                }
            }
            for &data in &plan.data {
                for &target_us in &plan.targets_us {
                    for &way in &ways {
                        if stop.load(Ordering::Relaxed) {
                            outcome.interrupted = true;
                            return Ok(());
                        }
                        let done = outcome.rows.len() as f64 / total as f64;
                        progress(done, &format!("{}, {way}", imp.driver()));
                        let cell = Cell {
                            imp,
                            op,
                            data,
                            target_us,
                            way,
                        };
                        let parts = cell.measure(plan, cpu, &mut bench, hz.0)?;
                        if !bench.is_right() {
                            outcome.failed = true;
                            outcome
                                .notes
                                .push(format!("{} {way}: the answer is wrong", imp.driver()));
                        }
                        if target_us == plan.targets_us[0] {
                            add_lengths(lengths, way, &parts.judged, hz.0);
                        }
                        outcome.rows.push(cell.row(plan, &parts, hz));
                    }
                }
            }
        }
    }
    Ok(())
}

fn add_lengths(lengths: &mut Vec<Lengths>, way: Way, judged: &Part, tsc_hz: f64) {
    let mode = way.name();
    let at = lengths.iter().position(|l| l.mode == mode);
    let at = at.unwrap_or_else(|| {
        lengths.push(Lengths {
            mode,
            buckets: Vec::new(),
        });
        lengths.len() - 1
    });
    let buckets = judged.section.buckets().into_iter();
    lengths[at]
        .buckets
        .extend(buckets.map(|(ticks, n)| (ticks as f64 / tsc_hz * 1e6, n)));
}

impl Cell {
    fn measure(
        &self,
        plan: &Plan,
        cpu: &mut Cpu,
        bench: &mut Bench,
        tsc_hz: f64,
    ) -> Result<Parts, Error> {
        let ticks = |us: f64| (us * tsc_hz / 1e6) as u64;
        let target = ticks(self.target_us);
        let one = budget::chain(CHAIN) as f64 / CHAIN as f64;
        self.way.set(target);
        let mut run = Run {
            null_chain: ((target as f64 / one) as u64).max(1),
            long_ticks: ticks(LONG * self.target_us),
            ticks: 1,
            min_ops: 2,
            cold: self.data == Data::Cold,
            alone: true,
        };
        // Process a few messages first, to fill the caches and let each strategy adapt its steps.
        bench.run(cpu, &run)?;
        (run.ticks, run.min_ops, run.alone) = (ticks(plan.seconds * 1e6), OPS, false);
        let _timer = (plan.irq_rate > 0.0)
            .then(|| Timer::start(cpu, Arrivals::Poisson(plan.irq_rate, plan.seed | 1)))
            .transpose()
            .map_err(|e| Error::lacks(format!("cannot make a timer: {e}: allow timer_create")))?;
        bench.run(cpu, &run)
    }

    fn row(&self, plan: &Plan, parts: &Parts, (tsc_hz, core_hz): (f64, f64)) -> Row {
        let (judged, null) = (&parts.judged, &parts.null);
        let known = self.imp.budget();
        let hash = self.imp.kind() == Kind::Hash;
        let d = usize::from(self.op == Op::Decrypt && !hash);
        let by_bytes = !matches!(self.way, Way::Unbounded | Way::Clocked | Way::OnDemand);
        let looks = matches!(self.way, Way::Clocked | Way::OnDemand);
        let sections_per_op = judged.sections as f64 / judged.ops.max(1) as f64;
        let most = u64::from(known.most[d]);
        let lost = loss(&judged.op_ticks, &parts.unbounded.op_ticks);
        let time = |h, q| us(h, q, tsc_hz);
        let timed = judged.section.total();
        let target = (self.target_us * tsc_hz / 1e6) as u64;
        Row {
            alg: self.imp.alg(),
            imp: self.imp.driver(),
            tier: self.imp.tier().name(),
            op: if hash { "digest" } else { op_name(self.op) },
            mode: self.way.name(),
            data: self.data.name(),
            target_us: self.target_us,
            bytes: match by_bytes {
                true => most.min(plan.len as u64),
                false => (plan.len as f64 / sections_per_op.max(1.0)) as u64,
            },
            step_bytes: looks.then_some(most),
            holds_bytes: holds(&parts.unbounded.op_ticks, plan.len, target),
            budget_bytes: self.imp.bytes_in(self.op, target).map(u64::from),
            min_bytes: known.min_bytes.into(),
            cycles_per_byte: known.rate[d] * core_hz / tsc_hz,
            len: plan.len,
            ops: judged.ops,
            sections_per_op,
            section_us_p50: time(&judged.section, 0.5),
            section_us_p95: time(&judged.section, 0.95),
            section_us_p999: time(&judged.section, 0.999),
            section_us_max: time(&judged.section, 1.0),
            null_us_p95: time(&null.section, 0.95),
            null_us_p999: time(&null.section, 0.999),
            loss_pct: lost.map(|l| l.0),
            loss_low: lost.map(|l| l.1),
            loss_high: lost.map(|l| l.2),
            softirq_us_p50: time(&judged.softirq, 0.5),
            softirq_us_p95: time(&judged.softirq, 0.95),
            softirq_us_p999: time(&judged.softirq, 0.999),
            null_softirq_us_p95: time(&null.softirq, 0.95),
            null_softirq_us_p999: time(&null.softirq, 0.999),
            wake_us_p50: time(&judged.wake, 0.5),
            wake_us_p95: time(&judged.wake, 0.95),
            wake_us_p999: time(&judged.wake, 0.999),
            null_wake_us_p95: time(&null.wake, 0.95),
            null_wake_us_p999: time(&null.wake, 0.999),
            softirqs: judged.softirq.total(),
            interrupted_pct: pct(judged.interrupted, timed),
            stolen_pct: pct(judged.stolen, timed),
            long_pct: pct(judged.long_sections, timed),
            null_long_pct: pct(null.long_sections, null.section.total()),
            long_witnessed_pct: pct(judged.long_witnessed, judged.long_sections),
            stalls: judged.stalls,
        }
    }
}

/// Returns the largest value in any row, and the implementation in that row.
fn worst(rows: &[&Row], value: impl Fn(&Row) -> Option<f64>) -> Option<(f64, &'static str)> {
    rows.iter()
        .filter_map(|r| Some((value(r)?, r.imp)))
        .max_by(|a, b| a.0.total_cmp(&b.0))
}

/// Returns a sentence that summarises a strategy: how many rows met the target, the largest p99.9,
/// and the largest loss.
fn summarize(rows: &[Row], way: Way) -> Option<String> {
    let rows: Vec<&Row> = rows.iter().filter(|r| r.mode == way.name()).collect();
    let verdicts = rows.iter().map(|r| r.keeps_target());
    let kept = verdicts.clone().filter(|v| *v == Some(true)).count();
    let unknown = verdicts.filter(Option::is_none).count();
    let p999 = worst(&rows, |r| Some(r.section_us_p999? / r.null_us_p999?))?;
    let lost = worst(&rows, |r| r.loss_pct)?;
    let untold = match unknown {
        0 => String::new(),
        1 => " (1 row is undecided, because the machine may have lengthened its sections)"
            .to_string(),
        n => format!(
            " ({n} rows are undecided, because the machine may have lengthened their sections)"
        ),
    };
    Some(format!(
        "strategy '{way}' meets the target in {kept} of {} rows{untold}. In these rows, 95 % of the sections end within {LONG} \
         times the target. Null sections do only arithmetic, for as long as the target. The 99.9th percentile of section lengths is at most {:.1} times \
         that of null sections (with {}). Compared with one section per request, throughput falls by at most {:.1} % (with {})",
        rows.len(),
        p999.0,
        p999.1,
        lost.0,
        lost.1
    ))
}

fn notes(plan: &Plan, calibrated: Calibrated, tsc_hz: f64, rows: &[Row]) -> Vec<String> {
    let mut notes = plan.notes.clone();
    notes.extend([
        format!(
            "to compute byte budgets, the speed of all implementations was measured at the start, in {:.1} ms with {} runs. A budget \
             leaves a fifth of the target free, and assumes that every byte misses the cache",
            calibrated.ticks as f64 / tsc_hz * 1e3,
            calibrated.runs
        ),
        format!(
            "requests of {} KiB, each in one piece, go through the crypto API, under policy bh-off with full preemption. {} interrupts per \
             second raise a softirq and wake a task (a task switch counts as 1.8 µs). Column 'loss %' is the throughput lost, compared \
             with one section for the whole request (median of pairs). Null sections (column 'null') do only arithmetic, for as long as \
             the target, and alternate with the others. Quantiles are upper edges of buckets that are 3 to 6 % wide",
            plan.len >> 10,
            plan.irq_rate
        ),
    ]);
    let without = plan.impls.iter().filter(|i| i.budget().posted.is_none());
    match (plan.ways.contains(&Way::Fixed), without.count()) {
        (true, n) if n > 0 => notes.push(format!(
            "strategy 'fixed' has no row for {n} of {} implementations, because no byte limit was posted for them in 2022",
            plan.impls.len()
        )),
        _ => {}
    }
    notes.extend(MEANT.iter().filter_map(|&way| summarize(rows, way)));
    notes
}
