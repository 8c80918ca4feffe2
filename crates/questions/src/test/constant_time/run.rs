//! Runs all trials, and decides whether the times of the two classes differ.

use std::sync::atomic::{AtomicBool, Ordering};

use kiln_kernel::cipher::{Impl, Kind, Op};
use kiln_measure::classes::{self, Finding, CROPS};
use kiln_measure::{Clock, SplitMix64};
use kiln_question::{unknown, Error, Outcome, Report};
use schemars::JsonSchema;
use serde::Serialize;

use super::trial::{key_bytes, measure, Subject, LEN};

/// What to measure, and how often.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    /// Names of algorithms. If empty, all algorithms that take a key are tested.
    pub algs: Vec<String>,
    /// Driver names. If empty, all drivers are tested.
    pub impls: Vec<String>,
    /// Number of measurements of each implementation, over both classes together. If a difference
    /// is found, the same number of measurements is made again to confirm it.
    pub samples: usize,
    /// Seed from which all inputs are derived.
    pub seed: u64,
}

/// The result of timing one operation of an implementation, or of timing a control.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
#[schemars(
    rename = "constant-time",
    title = "Constant time",
    extend(
        "x-question" = "Does the execution time depend on keys and texts?",
        "x-commands" = ["test --constant-time"],
        "x-view" = {"check": {"fail": ["failed"], "why": "finding"}}
    )
)]
pub(crate) struct Row {
    /// Name of the algorithm in the kernel's crypto API, such as `xts(aes)`. `control` for a
    /// control, which is a test function whose finding is known in advance.
    #[schemars(extend("x-role" = "key"))]
    pub alg: &'static str,
    /// Driver name of the implementation, or name of the control.
    #[serde(rename = "impl")]
    #[schemars(extend("x-role" = "key"))]
    pub implementation: &'static str,
    /// Operation that was timed: `encrypt`, `decrypt`, `digest` or `control`.
    #[schemars(extend("x-role" = "key"))]
    pub op: &'static str,
    /// Size of the whole key; for XTS, the size of both keys together.
    #[schemars(extend("unit" = "bits", "x-role" = "key"))]
    pub key_bits: usize,
    /// Size of the message.
    #[schemars(extend("unit" = "bytes", "x-role" = "key"))]
    pub len: usize,
    /// Whether the execution time depends on the input: `differs` (two runs found a difference),
    /// `unconfirmed` (only the first run found one) or `nothing found`.
    #[schemars(extend("x-role" = "main"))]
    pub finding: &'static str,
    /// Welch's t statistic of the first run, for random inputs compared with a fixed input. It is
    /// taken at the percentile (`crop_pct`) where its absolute value is largest. An absolute value
    /// of 5 or more counts as a difference. Null if there are too few measurements.
    #[schemars(extend("x-role" = "main"))]
    pub t: Option<f64>,
    /// Mean time with random inputs minus mean time with a fixed input, computed from the
    /// measurements up to the percentile `crop_pct`.
    #[schemars(extend("unit" = "cycles", "x-role" = "figure", "x-heading" = "difference, cycles"))]
    pub difference_cycles: Option<f64>,
    /// Smallest difference that the first run could have detected, computed without the slowest
    /// tenth of the measurements.
    #[schemars(extend("unit" = "cycles", "x-role" = "figure", "x-heading" = "detectable, cycles"))]
    pub detectable_cycles: Option<f64>,
    /// Number of measurements in the first run, with random and with fixed inputs together.
    #[schemars(extend("x-role" = "figure"))]
    pub samples: usize,
    /// Whether the row counts as a failure: an implementation that claims to be constant-time has
    /// the finding `differs`, or a control has the wrong finding.
    #[schemars(extend("x-role" = "figure"))]
    pub failed: bool,
    /// Whether the implementation claims to be constant-time or, for a control, whether it really
    /// is.
    pub constant_time: bool,
    /// Percentile up to which measurements were used to compute `t`. Slower measurements were left
    /// out.
    #[schemars(extend("unit" = "%"))]
    pub crop_pct: Option<f64>,
}

/// Runs the measurements. `progress` is called with the completed fraction and a description of the
/// current measurement.
///
/// # Errors
/// Fails if an algorithm or implementation is unknown or takes no key.
pub(super) fn run(
    plan: &Plan,
    stop: &AtomicBool,
    progress: Report<'_>,
) -> Result<Outcome<Row>, Error> {
    let impls = chosen(plan)?;
    let mut out = Outcome::default();
    let mut subjects = Subject::CONTROLS.to_vec();
    for imp in impls {
        if !imp.tier().usable() {
            out.notes.push(format!(
                "SKIPPED {}: no tier {} here",
                imp.driver(),
                imp.tier()
            ));
            continue;
        }
        subjects.push(Subject::Cipher(imp, Op::Encrypt));
        if imp.kind() != Kind::Hash {
            subjects.push(Subject::Cipher(imp, Op::Decrypt));
        }
    }
    let per_cycle = Clock::calibrate().ticks_per_cycle();
    for (i, &subject) in subjects.iter().enumerate() {
        if stop.load(Ordering::Relaxed) {
            out.interrupted = true;
            out.notes.push("interrupted: not all was tried".into());
            break;
        }
        let mut row = named(subject);
        progress(i as f64 / subjects.len() as f64, row.implementation);
        try_one(subject, plan, per_cycle, &mut row);
        out.rows.push(row);
    }
    judge(&mut out);
    Ok(out)
}

fn chosen(plan: &Plan) -> Result<Vec<Impl>, Error> {
    let all: Vec<Impl> = Impl::all().into_iter().filter(|i| i.is_keyed()).collect();
    for name in &plan.algs {
        if !all.iter().any(|i| i.alg() == name) {
            let mut known: Vec<&str> = Vec::new();
            for alg in all.iter().map(|i| i.alg()) {
                if !known.contains(&alg) {
                    known.push(alg);
                }
            }
            return Err(unknown("algorithm with a key", name, &known));
        }
    }
    for name in &plan.impls {
        if !all.iter().any(|i| i.driver() == name) {
            let known: Vec<&str> = all.iter().map(|i| i.driver()).collect();
            return Err(unknown("implementation with a key", name, &known));
        }
    }
    let asked = |names: &[String], name| names.is_empty() || names.iter().any(|n| n == name);
    Ok(all
        .into_iter()
        .filter(|i| asked(&plan.algs, i.alg()) && asked(&plan.impls, i.driver()))
        .collect())
}

fn named(subject: Subject) -> Row {
    let (alg, implementation, op, key_bits, len, constant_time) = match subject {
        Subject::Cipher(imp, op) => {
            let op = match (imp.kind(), op) {
                (Kind::Hash, _) => "digest",
                (_, Op::Encrypt) => "encrypt",
                (_, Op::Decrypt) => "decrypt",
            };
            let bits = 8 * key_bytes(imp);
            (imp.alg(), imp.driver(), op, bits, LEN, imp.constant_time())
        }
        Subject::Control(name, _, leaks) => ("control", name, "control", 256, 32, !leaks),
    };
    Row {
        alg,
        implementation,
        op,
        key_bits,
        len,
        constant_time,
        finding: "nothing found",
        ..Row::default()
    }
}

fn try_one(subject: Subject, plan: &Plan, ticks_per_cycle: f64, row: &mut Row) {
    let mut rng = SplitMix64(plan.seed ^ 1);
    let [a, b] = measure(subject, plan.samples, plan.seed, &mut rng);
    row.samples = a.len() + b.len();
    let Some(first) = classes::most_different([&a, &b]) else {
        return;
    };
    let finding = classes::judge(&first, || {
        let [a, b] = measure(subject, plan.samples, plan.seed, &mut rng);
        classes::difference_near_crop([&a, &b], &first)
    });
    row.t = Some(first.t);
    row.crop_pct = Some(CROPS[first.crop]);
    row.difference_cycles = Some(first.mean / ticks_per_cycle);
    row.detectable_cycles = classes::detectable([&a, &b]).map(|d| d / ticks_per_cycle);
    row.finding = match finding {
        Finding::Differs => "differs",
        Finding::Unconfirmed => "unconfirmed",
        Finding::Nothing => "nothing found",
    };
    row.failed = row.constant_time && finding == Finding::Differs;
}

/// Marks controls with a wrong finding as failed, and adds notes. If a control fails, the other
/// findings are meaningless.
fn judge(out: &mut Outcome<Row>) {
    for row in &mut out.rows {
        let differs = row.finding == "differs";
        if row.op == "control" && differs == row.constant_time {
            row.failed = true;
            out.notes.push(format!(
                "FAILED control '{}': {}; the other rows say nothing: try again on a quieter machine",
                row.implementation, row.finding
            ));
        } else if row.failed {
            out.notes.push(format!(
                "FAILED {} {}: its time differs by {:.2} cycles with key and text, and it says it does not",
                row.implementation,
                row.op,
                row.difference_cycles.unwrap_or(0.0)
            ));
        }
        out.failed |= row.failed;
    }
    out.notes.push(
        "nothing found is no proof: it is of this CPU, one length, one fixed input against random ones, and of \
         no difference under detectable_cycles; what is not constant-time by its own account is not judged"
            .into(),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(op: &'static str, constant_time: bool, finding: &'static str) -> Row {
        Row {
            constant_time,
            finding,
            failed: op != "control" && constant_time && finding == "differs",
            op,
            ..named(Subject::CONTROLS[0])
        }
    }

    fn failed(row: Row) -> bool {
        let mut out = Outcome {
            rows: vec![row],
            ..Outcome::default()
        };
        judge(&mut out);
        assert_eq!(out.notes.len(), 1 + usize::from(out.failed));
        out.failed
    }

    #[test]
    fn what_fails() {
        assert!(failed(row("encrypt", true, "differs")));
        assert!(!failed(row("encrypt", true, "unconfirmed")));
        assert!(!failed(row("encrypt", false, "differs")));
        // A control fails if it leaks and the leak is not found, or if it does not leak and a leak
        // is reported.
        assert!(failed(row("control", false, "nothing found")));
        assert!(failed(row("control", false, "unconfirmed")));
        assert!(failed(row("control", true, "differs")));
        assert!(!failed(row("control", true, "nothing found")));
        assert!(!failed(row("control", false, "differs")));
    }

    #[test]
    fn every_keyed_implementation_can_be_measured() {
        let plan = Plan {
            algs: Vec::new(),
            impls: Vec::new(),
            samples: 1,
            seed: 3,
        };
        let out = run(&plan, &AtomicBool::new(false), &mut |_, _| ()).unwrap();
        let usable = |i: &Impl| i.is_keyed() && i.tier().usable();
        for imp in Impl::all().into_iter().filter(usable) {
            let ways = out.rows.iter().filter(|r| r.implementation == imp.driver());
            assert_eq!(ways.count(), if imp.kind() == Kind::Hash { 1 } else { 2 });
        }
        assert!(out.rows.iter().all(|r| r.samples >= 256));
    }

    #[test]
    fn names_that_are_not_there() {
        for (algs, impls) in [(vec!["sha256"], vec![]), (vec![], vec!["aes"])] {
            let owned = |names: Vec<&str>| names.into_iter().map(String::from).collect();
            let plan = Plan {
                algs: owned(algs),
                impls: owned(impls),
                samples: 1,
                seed: 3,
            };
            let error = run(&plan, &AtomicBool::new(false), &mut |_, _| ()).unwrap_err();
            let told = error.to_string();
            assert!(told.starts_with("unknown "), "{told}");
            let names = ["choose from ", "kiln list"];
            assert!(names.iter().any(|n| told.contains(n)), "{told}");
        }
    }
}
