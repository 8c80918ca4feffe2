//! Measures all of Kiln's own methods of calling a cipher under all policies, interleaved, and
//! creates the rows.

use std::borrow::Cow;
use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering};

use kiln_kernel::calls::Calls;
use kiln_kernel::cipher::{Context, Impl, Op, Sections, BLOCK};
use kiln_kernel::cpu::{Config, Cpu};
use kiln_kernel::crypto::{Model, Part, Skcipher, ASYNC, INTERNAL};
use kiln_kernel::fpu::Policy;
use kiln_kernel::load::{all_impls, best_impl};
use kiln_kernel::messages::Messages as Batch;
use kiln_measure::{measure, Estimate, Series, SplitMix64, Subject};
use kiln_question::{Error, Outcome, Report};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::plan::Plan;

/// Total size of all messages in bytes, chosen so that input and output together fit into the L1
/// cache.
const BYTES: usize = 16 << 10;
/// Maximum number of messages.
const COUNT: usize = 256;

/// A method of calling a cipher, or one component of the overhead of such a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Path {
    /// The function is called inside a single FPU section that surrounds all calls.
    Primitive,
    /// Each call of the function has its own FPU section, as in a library call.
    Library,
    /// Synchronous requests go to the function's driver.
    Direct,
    /// Requests go through the simd helper while the FPU is usable.
    SimdHelper,
    /// Requests go through cryptd, to which the simd helper defers them while the FPU is in use.
    Cryptd,
    /// Requests go to the scalar driver.
    Scalar,
    /// Requests go to the driver that a caller gets if it excludes asynchronous drivers.
    SyncUser,
    /// One component of the simd helper's overhead.
    Part(Part),
}

impl Path {
    const ALL: [Path; 7] = [
        Path::Primitive,
        Path::Library,
        Path::Direct,
        Path::SimdHelper,
        Path::Cryptd,
        Path::Scalar,
        Path::SyncUser,
    ];

    /// Returns the method's name as used in rows.
    pub(super) fn name(self) -> &'static str {
        match self {
            Path::Primitive => "primitive",
            Path::Library => "library",
            Path::Direct => "direct",
            Path::SimdHelper => "simd-helper",
            Path::Cryptd => "cryptd",
            Path::Scalar => "scalar",
            Path::SyncUser => "sync-user",
            Path::Part(Part::Whole) => "whole",
            Path::Part(Part::Checks) => "checks",
            Path::Part(Part::Copy) => "request-copy",
            Path::Part(Part::Call) => "indirect-call",
            Path::Part(Part::Setup) => "setup",
        }
    }
}

/// Policy and path of the method with which all others are compared. This is the method that Linux
/// up to 6.14 offers to softirqs.
const BASELINE: (&str, Path) = ("legacy", Path::SimdHelper);

/// One method of calling a cipher, at one message length, under one FPU policy. All of Kiln's own
/// methods are measured in one process, interleaved.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(
    rename = "fpu-overhead",
    title = "Methods of calling a cipher",
    extend(
        "x-question" = "How can SIMD crypto be used from softirqs, and what does each method cost?",
        "x-commands" = ["fpu overhead"],
        "x-old-commands" = ["fpu --overhead"],
        "x-view" = {
            "how": "The cost of one message with each method of calling the cipher, on a logarithmic scale. Farther left is better.",
            // All other paths are parts of methods.
            "only": ["path=primitive|library|direct|simd-helper|cryptd|scalar|sync-user"],
            "each": ["alg", "len", "policy", "provider", "config"],
            "name": ["path"],
            "pictures": [{
                "form": "bars",
                "value": "cycles_per_op",
                "unit": "cycles per message",
                "log": true,
                "mark": "path=direct"
            }]
        }
    )
)]
pub(super) struct Row {
    /// Name of the algorithm in the kernel's crypto API, such as `xts(aes)`.
    #[schemars(extend("x-role" = "key"))]
    pub alg: Cow<'static, str>,
    /// Size of each message.
    #[schemars(extend("unit" = "bytes", "x-role" = "key"))]
    pub len: usize,
    /// FPU policy, such as `legacy` or `bh-off`, or the name of the kernel tree that provided the
    /// policy.
    #[schemars(extend("x-role" = "key"))]
    pub policy: Cow<'static, str>,
    /// Method of calling the cipher: `direct`, `simd-helper`, `cryptd`, `scalar`, `sync-user`,
    /// `primitive` or `library`. Rows for part of a method have `setup`, `checks`, `request-copy`,
    /// `indirect-call` or `hand-over`.
    #[schemars(extend("x-role" = "key"))]
    pub path: Cow<'static, str>,
    /// Name of the driver that the method calls.
    #[serde(rename = "impl")]
    #[schemars(extend("x-role" = "key"))]
    pub imp: String,
    /// Where the measured code comes from: `kiln`, or the name and version of a kernel tree.
    #[schemars(extend("x-role" = "key"))]
    pub provider: String,
    /// Configuration that the kernel tree was built with. Absent for Kiln's own code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", extend("x-role" = "key"))]
    pub config: Option<String>,
    /// Core cycles per message: the minimum over all rounds. For part of a method, the extra cycles
    /// that the part costs.
    #[schemars(extend(
        "unit" = "cycles",
        "x-role" = "main",
        "x-heading" = "cycles per message",
        "x-interval" = ["cycles_low", "cycles_high"],
        "x-better" = "less",
        "x-time" = "ns_per_op",
        "x-benchmark" = "real_time"
    ))]
    pub cycles_per_op: Option<f64>,
    /// Lower end of the prediction interval of `cycles_per_op`. A rerun is expected to give a
    /// result within this interval.
    #[schemars(extend("unit" = "cycles"))]
    pub cycles_low: Option<f64>,
    /// Upper end of the prediction interval of `cycles_per_op`.
    #[schemars(extend("unit" = "cycles"))]
    pub cycles_high: Option<f64>,
    /// Speed relative to the method in `baseline`: the baseline's cycles divided by
    /// `cycles_per_op`. A value above 1 means that this row's method is faster. Null for part of a
    /// method, or if the baseline was not measured.
    #[schemars(extend(
        "x-role" = "main",
        "x-heading" = "speed, relative to the simd helper (policy legacy, or the tree's)",
        "x-interval" = ["speedup_low", "speedup_high"]
    ))]
    pub speedup: Option<f64>,
    /// Lower end of the interval of `speedup`: the baseline's `cycles_low` divided by this row's
    /// `cycles_high`.
    pub speedup_low: Option<f64>,
    /// Upper end of the interval of `speedup`: the baseline's `cycles_high` divided by this row's
    /// `cycles_low`.
    pub speedup_high: Option<f64>,
    /// Cost relative to the method `direct`: `cycles_per_op` divided by the `cycles_per_op` of
    /// `direct` under the same policy. Null for part of a method, or if `direct` was not measured.
    #[schemars(extend(
        "x-role" = "figure",
        "x-heading" = "cycles, relative to direct",
        "x-interval" = ["ci_low", "ci_high"]
    ))]
    pub ratio: Option<f64>,
    /// Lower end of the interval of `ratio`: this row's `cycles_low` divided by the `cycles_high`
    /// of `direct`.
    pub ci_low: Option<f64>,
    /// Upper end of the interval of `ratio`: this row's `cycles_high` divided by the `cycles_low`
    /// of `direct`.
    pub ci_high: Option<f64>,
    /// Time per message: the minimum over all rounds. Measured with the TSC, in the same samples as
    /// `cycles_per_op`. Null for part of a method.
    #[serde(default)]
    #[schemars(extend(
        "unit" = "ns",
        "x-role" = "figure",
        "x-heading" = "ns per message",
        "x-interval" = ["ns_low", "ns_high"],
        "x-since" = 2
    ))]
    pub ns_per_op: Option<f64>,
    /// Lower end of the prediction interval of `ns_per_op`. A rerun is expected to give a result
    /// within this interval.
    #[serde(default)]
    #[schemars(extend("unit" = "ns", "x-since" = 2))]
    pub ns_low: Option<f64>,
    /// Upper end of the prediction interval of `ns_per_op`.
    #[serde(default)]
    #[schemars(extend("unit" = "ns", "x-since" = 2))]
    pub ns_high: Option<f64>,
    /// Throughput: `len` divided by `ns_per_op`.
    #[schemars(extend(
        "unit" = "10^6 bytes/s",
        "x-role" = "figure",
        "x-heading" = "MB/s",
        "x-benchmark" = "bytes_per_second"
    ))]
    pub mb_per_s: Option<f64>,
    /// Policy and path of the baseline, the method that `speedup` compares this row's method with.
    /// The baseline is `legacy/simd-helper` for Kiln's own code, and the tree's own simd helper for
    /// a kernel tree. Null for part of a method, or if the baseline was not measured.
    pub baseline: Option<String>,
    /// Speed in time relative to the method in `baseline`: the baseline's time divided by
    /// `ns_per_op`. A value above 1 means that this row's method is faster. Null for part of a
    /// method, or if the baseline was not measured.
    #[serde(default)]
    #[schemars(extend("x-since" = 2))]
    pub time_speedup: Option<f64>,
    /// Lower end of the interval of `time_speedup`: the baseline's `ns_low` divided by this row's
    /// `ns_high`.
    #[serde(default)]
    #[schemars(extend("x-since" = 2))]
    pub time_speedup_low: Option<f64>,
    /// Upper end of the interval of `time_speedup`: the baseline's `ns_high` divided by this row's
    /// `ns_low`.
    #[serde(default)]
    #[schemars(extend("x-since" = 2))]
    pub time_speedup_high: Option<f64>,
    /// Minimum number of core cycles per message in each round, in the order of measurement. Empty
    /// for part of a method, and for a kernel tree.
    #[serde(default)]
    #[schemars(extend("unit" = "cycles"))]
    pub rounds: Vec<f64>,
}

/// A result, followed by the lower and the upper end of its interval.
type Figure = (f64, f64, f64);

/// Divides one result by another and computes the interval of the quotient. If a rerun gives two
/// results within their intervals, their quotient is within the returned interval. The quotient is
/// computed from the results in the table, so that the columns are consistent with each other.
fn divide(a: Option<Figure>, b: Option<Figure>) -> Option<Figure> {
    let (a, b) = a.zip(b)?;
    Some((a.0 / b.0, a.1 / b.2, a.2 / b.1))
}

impl Row {
    fn cycles(&self) -> Option<Figure> {
        Some((self.cycles_per_op?, self.cycles_low?, self.cycles_high?))
    }

    fn time(&self) -> Option<Figure> {
        Some((self.ns_per_op?, self.ns_low?, self.ns_high?))
    }

    fn set_ratio(&mut self, of: Option<Figure>) {
        self.ratio = of.map(|q| q.0);
        self.ci_low = of.map(|q| q.1);
        self.ci_high = of.map(|q| q.2);
    }

    fn set_speedup(&mut self, baseline: &str, cycles: Option<Figure>, time: Option<Figure>) {
        self.baseline = cycles.map(|_| baseline.to_string());
        self.speedup = cycles.map(|q| q.0);
        self.speedup_low = cycles.map(|q| q.1);
        self.speedup_high = cycles.map(|q| q.2);
        self.time_speedup = time.map(|q| q.0);
        self.time_speedup_low = time.map(|q| q.1);
        self.time_speedup_high = time.map(|q| q.2);
    }
}

/// Computes the ratios and speedups of whole methods at one length. A ratio is a method's cost
/// divided by the cost of `direct` under the same policy; a speedup is the cost of the method
/// `baseline` divided by this method's cost.
pub(super) fn compare(rows: &mut [Row], baseline: (&str, Path)) {
    let find = |all: &[Row], policy: &str, path: Path| {
        let mut same = all
            .iter()
            .filter(|r| r.policy == policy && r.path == path.name());
        same.next().cloned()
    };
    let from = rows.to_vec();
    let base = find(&from, baseline.0, baseline.1);
    let name = format!("{}/{}", baseline.0, baseline.1.name());
    for row in rows.iter_mut().filter(|r| r.mb_per_s.is_some()) {
        if let Some(direct) = find(&from, &row.policy, Path::Direct) {
            row.set_ratio(divide(row.cycles(), direct.cycles()));
        }
        if let Some(base) = &base {
            let cycles = divide(base.cycles(), row.cycles());
            row.set_speedup(&name, cycles, divide(base.time(), row.time()));
        }
    }
}

/// Measures all methods. The rows are sorted by policy, then by length.
///
/// # Errors
/// Fails if the host provides no emulated CPU or the CPU has no SIMD tiers.
pub(super) fn run(
    plan: &Plan,
    stop: &AtomicBool,
    progress: Report<'_>,
) -> Result<Outcome<Row>, Error> {
    let imp = plan.imp.unwrap_or_else(best_impl);
    if imp.tier() == kiln_kernel::Tier::Generic {
        if plan.imp.is_some() {
            return Err(Error::input(format!(
                "--impl {} uses no SIMD, so its method has no overhead: name another implementation",
                imp.driver()
            )));
        }
        return Err(Error::lacks(
            "no SIMD tier is usable here, so there is no helper to measure: lift KILN_TIERS, or use a CPU with AES-NI",
        ));
    }
    let mut cpu = Cpu::boot(&Config::default()).map_err(|e| {
        Error::lacks(format!(
            "cannot make an emulated CPU: {e}: free some memory, and allow arch_prctl"
        ))
    })?;
    let mut outcome = Outcome::default();
    let lens = plan.lens.len() as f64;
    for (i, &len) in plan.lens.iter().enumerate() {
        let mut tell = |done: f64| progress((i as f64 + done) / lens, &format!("{len} B"));
        let bench = Bench { plan, imp, len };
        bench.run(&mut cpu, stop, &mut outcome, &mut tell)?;
    }
    // Sort by policy, then by length, as in the tables.
    let place = |row: &Row| plan.policies.iter().position(|p| p.name() == row.policy);
    outcome.rows.sort_by_key(place);
    Policy::all()[0].set(&mut cpu);
    outcome.notes.push(format!(
        "a task encrypts with {}; each request has one piece of memory, and starts after the previous request has ended. Method \
         'primitive' has one FPU section around all calls, method 'library' has one section per call, and the other methods send requests to \
         the crypto API. Each of the two task switches of method 'cryptd' counts as {:.1} µs. 'cycles' is the smallest sample of all rounds, \
         with the range in which the result of a rerun is expected. 'x direct' is the cycles divided by the cycles of method 'direct' under \
         the same policy. 'speedup' is the cycles of the simd helper under policy 'legacy', divided by the cycles of this row. The range of \
         such a ratio goes from the lowest dividend divided by the highest divisor, to the highest dividend divided by the lowest \
         divisor. All policies take turns: each round measures every policy. MB/s is computed from the times of the same samples",
        imp.driver(),
        Config::default().switch_ns as f64 / 1e3
    ));
    outcome.interrupted = stop.load(Ordering::Relaxed);
    Ok(outcome)
}

/// A measurement of all methods at one length.
struct Bench<'a> {
    plan: &'a Plan,
    imp: Impl,
    len: usize,
}

/// A method under test: its FPU policy, its call path, and the transform for that path.
struct Way {
    policy: Policy,
    path: Path,
    tfm: Option<Skcipher>,
    driver: String,
    fault: Option<String>,
}

/// Buffers that all methods share, because the address of a buffer can have a larger effect than
/// the difference between methods.
struct Messages {
    src: Vec<u8>,
    dst: Vec<u8>,
    ivs: Vec<[u8; BLOCK]>,
    work: Vec<u8>,
}

impl Bench<'_> {
    fn run(
        &self,
        cpu: &mut Cpu,
        stop: &AtomicBool,
        outcome: &mut Outcome<Row>,
        tell: &mut dyn FnMut(f64),
    ) -> Result<(), Error> {
        let mut rng = SplitMix64(self.plan.seed);
        let mut raw_key = [0; 64];
        rng.fill(&mut raw_key);
        let ctx = Context::new(self.imp, &raw_key).expect("64 bytes");
        let stride = self.len.next_multiple_of(64);
        let count = (BYTES / stride).clamp(4, COUNT);
        let mut src = vec![0; stride * count];
        rng.fill(&mut src);
        let mut ivs = vec![[0; BLOCK]; count];
        ivs.iter_mut().for_each(|iv| rng.fill(iv));

        let parts = [Part::Setup, Part::Checks, Part::Copy, Part::Call].map(Path::Part);
        let mut ways = Vec::new();
        for &policy in &self.plan.policies {
            for path in Path::ALL.into_iter().chain(parts) {
                let tfm = self.open(policy, path, &raw_key)?;
                ways.push(Way {
                    policy,
                    driver: tfm
                        .as_ref()
                        .map_or(self.imp.driver(), |t| t.driver())
                        .to_string(),
                    path,
                    tfm,
                    fault: None,
                });
            }
        }
        let mut messages = Messages {
            dst: vec![0; src.len()],
            src,
            work: vec![0; ivs.len() * BLOCK],
            ivs,
        };
        for way in &mut ways {
            way.policy.set(cpu);
            self.check(way, &mut messages, &ctx, count as u64);
        }
        let messages = RefCell::new(messages);
        let shared = RefCell::new(&mut *cpu);
        let ways: Vec<RefCell<Way>> = ways.into_iter().map(RefCell::new).collect();
        let mut subjects: Vec<Subject> = ways
            .iter()
            .map(|way| {
                let (ctx, messages, cpu) = (&ctx, &messages, &shared);
                let name = way.borrow().path.name();
                Subject::new(name, move |n| {
                    way.borrow().policy.set(&mut cpu.borrow_mut());
                    self.call(&mut way.borrow_mut(), &mut messages.borrow_mut(), ctx, n)
                })
            })
            .collect();
        let plan = kiln_measure::Plan {
            rounds: if self.plan.quick { 10 } else { 24 },
            samples: 4,
            sample_us: 60.0,
            seed: self.plan.seed,
            deadline: None,
        };
        let series = measure(&mut subjects, &plan, stop, &mut |done, all| {
            tell(done as f64 / all.max(1) as f64)
        });
        drop(subjects);
        let mut ways: Vec<Way> = ways.into_iter().map(RefCell::into_inner).collect();
        let mut messages = messages.into_inner();
        for way in &mut ways {
            way.policy.set(cpu);
            self.check(way, &mut messages, &ctx, count as u64);
            if let Some(fault) = &way.fault {
                outcome.failed = true;
                outcome.notes.push(format!(
                    "{}, {} B, {}: {fault}",
                    way.policy,
                    self.len,
                    way.path.name()
                ));
            }
        }
        self.rows(&ways, &series, outcome);
        Ok(())
    }

    /// Opens the transform that a method uses.
    fn open(&self, policy: Policy, path: Path, raw_key: &[u8]) -> Result<Option<Skcipher>, Error> {
        let name = self.imp.driver();
        let (model, name, kind, mask) = match path {
            Path::Primitive | Path::Library => return Ok(None),
            Path::Direct => (Model::Direct, name.to_string(), 0, ASYNC),
            Path::SimdHelper | Path::Part(_) => (Model::Helper, name.to_string(), 0, 0),
            Path::Cryptd => (
                Model::Helper,
                format!("cryptd(__{name})"),
                INTERNAL,
                INTERNAL,
            ),
            Path::Scalar => (Model::Helper, "xts-aes-fixed-time".to_string(), 0, 0),
            // Under legacy, softirqs may find the FPU in use, so SIMD drivers are available only
            // through the simd helper. The helper is asynchronous, so this caller excludes it.
            Path::SyncUser => match policy.name() {
                "legacy" => (Model::Helper, "xts(aes)".to_string(), 0, ASYNC),
                _ => (Model::Direct, "xts(aes)".to_string(), 0, ASYNC),
            },
        };
        model.set();
        let opened = Skcipher::open(&name, kind, mask).and_then(|mut tfm| {
            tfm.set_key(raw_key)?;
            Ok(tfm)
        });
        Model::Helper.set();
        opened
            .map(Some)
            .map_err(|e| Error::lacks(format!("{name}: the crypto API says {e}")))
    }

    fn call(&self, way: &mut Way, messages: &mut Messages, ctx: &Context, n: u64) {
        let stride = self.len.next_multiple_of(64);
        let mut all = Batch {
            op: Op::Encrypt,
            src: &messages.src,
            dst: &mut messages.dst,
            ivs: messages.ivs.as_flattened(),
            iv_room: &mut messages.work,
            src_stride: stride,
            dst_stride: stride,
            iv_stride: BLOCK,
            len: self.len,
            count: messages.ivs.len(),
            ..Batch::default()
        };
        let Some(tfm) = &mut way.tfm else {
            let sections = match way.path {
                Path::Library => Sections::Each,
                _ => Sections::One,
            };
            let mut calls = Calls {
                sections,
                ..Calls::new(all)
            };
            if let Err(e) = calls.run(self.imp, ctx, n) {
                way.fault = Some(e.to_string());
            }
            return;
        };
        let part = match way.path {
            Path::Part(part) => part,
            _ => Part::Whole,
        };
        match tfm.run(&mut all, part, n) {
            Ok(later) if part == Part::Whole && (way.path == Path::Cryptd) != (later > 0) => {
                way.fault = Some(format!("{later} of {n} answered later"));
            }
            Ok(_) => {}
            Err(e) => way.fault = Some(format!("answered {e}")),
        }
    }

    /// Checks that a method gives the same output as the generic implementation. If not, sets the
    /// method's `fault`.
    fn check(&self, way: &mut Way, messages: &mut Messages, ctx: &Context, count: u64) {
        if matches!(way.path, Path::Part(_)) || way.fault.is_some() {
            return;
        }
        messages.dst.fill(0);
        self.call(way, messages, ctx, count);
        let judge = all_impls()[0];
        let stride = self.len.next_multiple_of(64);
        let mut want = vec![0; self.len];
        for (i, iv) in messages.ivs.iter().enumerate() {
            let at = i * stride..i * stride + self.len;
            judge.crypt(Op::Encrypt, ctx, iv, &messages.src[at.clone()], &mut want);
            if messages.dst[at] != want[..] {
                way.fault.get_or_insert_with(|| {
                    format!("message {i} differs from {}'s", judge.driver())
                });
            }
        }
    }

    fn rows(&self, ways: &[Way], series: &[Series], outcome: &mut Outcome<Row>) {
        let mut rows = Vec::new();
        for &policy in &self.plan.policies {
            let of_policy = ways.iter().zip(series).filter(|(w, _)| w.policy == policy);
            rows.extend(self.rows_of(of_policy.collect::<Vec<_>>().as_slice()));
        }
        compare(&mut rows, BASELINE);
        outcome.rows.append(&mut rows);
    }

    /// Creates rows that do not contain ratios or speedups yet.
    fn rows_of(&self, measured: &[(&Way, &Series)]) -> Vec<Row> {
        let best = |path| -> Option<f64> {
            let (_, series) = measured.iter().find(|(w, _)| w.path == path)?;
            Some(series.estimate()?.best)
        };
        let setup = best(Path::Part(Part::Setup));
        let mut rows = Vec::new();
        for (way, series) in measured {
            let Some(estimate) = series.estimate() else {
                continue;
            };
            let mut row = self.row(way);
            match way.path {
                Path::Part(Part::Setup) => row.cycles_per_op = Some(estimate.best),
                // The cost of a part is what it adds to `setup`, the loop that only sets up
                // requests.
                Path::Part(_) => row.cycles_per_op = setup.map(|setup| estimate.best - setup),
                _ => self.set_figures(&mut row, &estimate, series),
            }
            rows.push(row);
        }
        // The cost of the hand-over is what the kworker and the two task switches add to the cost
        // of a direct request.
        if let (Some((way, _)), Some(cryptd), Some(direct)) = (
            measured.iter().find(|(w, _)| w.path == Path::Cryptd),
            best(Path::Cryptd),
            best(Path::Direct),
        ) {
            rows.push(Row {
                path: "hand-over".into(),
                cycles_per_op: Some(cryptd - direct),
                ..self.row(way)
            });
        }
        rows
    }

    fn row(&self, way: &Way) -> Row {
        Row {
            alg: "xts(aes)".into(),
            imp: way.driver.clone(),
            provider: "kiln".into(),
            len: self.len,
            policy: way.policy.name().into(),
            path: way.path.name().into(),
            ..Row::default()
        }
    }

    fn set_figures(&self, row: &mut Row, cycles: &Estimate, series: &Series) {
        row.cycles_per_op = Some(cycles.best);
        row.cycles_low = Some(cycles.low);
        row.cycles_high = Some(cycles.high);
        let time = series.in_ns().estimate();
        row.ns_per_op = time.map(|t| t.best);
        row.ns_low = time.map(|t| t.low);
        row.ns_high = time.map(|t| t.high);
        row.mb_per_s = time.map(|t| self.len as f64 / t.best * 1e3);
        row.rounds = series.rounds.iter().filter_map(|r| r.best).collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(policy: &'static str, path: Path, cycles: f64, reach: f64) -> Row {
        Row {
            policy: policy.into(),
            path: path.name().into(),
            len: 16,
            cycles_per_op: Some(cycles),
            cycles_low: Some(cycles - reach),
            cycles_high: Some(cycles + reach),
            mb_per_s: Some(1.0),
            ..Row::default()
        }
    }

    #[test]
    fn quotients_are_those_of_the_cycles_in_the_table() {
        let mut rows = [
            row("legacy", Path::Direct, 50.0, 1.0),
            row("legacy", Path::SimdHelper, 75.0, 3.0),
            row("bh-off", Path::Direct, 60.0, 0.0),
            row("bh-off", Path::SimdHelper, 90.0, 0.0),
            Row {
                mb_per_s: None,
                ..row("legacy", Path::Part(Part::Copy), 5.0, 0.0)
            },
        ];
        compare(&mut rows, BASELINE);
        let of = |i: usize| (rows[i].ratio.unwrap(), rows[i].speedup.unwrap());
        assert_eq!(of(0), (1.0, 1.5));
        assert_eq!(of(1), (1.5, 1.0));
        assert_eq!(of(2), (1.0, 1.25));
        // The ratio is relative to `direct` under the same policy, but the speedup is relative to
        // the baseline, which has another policy.
        assert_eq!(of(3), (1.5, 75.0 / 90.0));
        assert_eq!(
            (rows[1].ci_low, rows[1].ci_high),
            (Some(72.0 / 51.0), Some(78.0 / 49.0))
        );
        assert_eq!(
            (rows[2].speedup_low, rows[2].speedup_high),
            (Some(1.2), Some(1.3))
        );
        assert_eq!(rows[2].baseline.as_deref(), Some("legacy/simd-helper"));
        assert!(rows[4].ratio.is_none() && rows[4].speedup.is_none());
    }

    #[test]
    fn a_speedup_in_time_is_its_own() {
        let timed = |row: Row, ns: f64| Row {
            ns_per_op: Some(ns),
            ns_low: Some(ns - 1.0),
            ns_high: Some(ns + 1.0),
            ..row
        };
        // The method takes two thirds of the cycles, but at roughly half the clock frequency.
        let mut rows = [
            timed(row("legacy", Path::SimdHelper, 75.0, 0.0), 20.0),
            timed(row("bh-off", Path::Direct, 50.0, 0.0), 25.0),
            row("bh-off", Path::Library, 50.0, 0.0),
        ];
        compare(&mut rows, BASELINE);
        assert_eq!(
            (rows[1].speedup, rows[1].time_speedup),
            (Some(1.5), Some(0.8))
        );
        assert_eq!(
            (rows[1].time_speedup_low, rows[1].time_speedup_high),
            (Some(19.0 / 26.0), Some(21.0 / 24.0))
        );
        assert_eq!((rows[2].speedup, rows[2].time_speedup), (Some(1.5), None));
    }

    #[test]
    fn throughput_is_that_of_the_time_and_not_of_the_clock() {
        let round = |best| kiln_measure::Round {
            best: Some(best),
            samples: vec![best],
            complete: true,
        };
        let series = |ns: f64| Series {
            rounds: vec![round(40.0)],
            rounds_ns: vec![round(ns)],
            ..Series::default()
        };
        let plan = Plan {
            policies: Vec::new(),
            lens: vec![16],
            imp: None,
            seed: 1,
            quick: true,
        };
        let bench = Bench {
            plan: &plan,
            imp: Impl::all()[0],
            len: 16,
        };
        let rate = |ns| {
            let (series, mut row) = (series(ns), Row::default());
            bench.set_figures(&mut row, &series.estimate().unwrap(), &series);
            (row.cycles_per_op, row.ns_per_op, row.mb_per_s)
        };
        assert_eq!(rate(10.0), (Some(40.0), Some(10.0), Some(1600.0)));
        // At half the clock frequency, the same number of cycles takes twice the time.
        assert_eq!(rate(20.0), (Some(40.0), Some(20.0), Some(800.0)));
    }

    #[test]
    fn without_the_baseline_there_is_no_speedup() {
        let mut rows = [
            row("bh-off", Path::Direct, 60.0, 0.0),
            row("bh-off", Path::SimdHelper, 90.0, 0.0),
        ];
        compare(&mut rows, BASELINE);
        assert!(rows[0].speedup.is_none() && rows[0].baseline.is_none());
        assert_eq!(rows[1].ratio, Some(1.5));
    }
}
