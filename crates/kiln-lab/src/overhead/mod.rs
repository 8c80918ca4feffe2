//! What the ways to reach a cipher cost against each other: the function itself, a request through the crypto API,
//! the simd helper before it, the kworker behind that, and what those are left with who cannot use any.

mod tree;

use std::borrow::Cow;
use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering};

use kiln_kernel::cpu::{Config, Cpu};
use kiln_kernel::crypto::{Model, Part, Requests, Skcipher, ASYNC, INTERNAL};
use kiln_kernel::fpu::Policy;
use kiln_kernel::xts::{Impl, Key, Op, Sections, Series as Calls, BLOCK};
use kiln_measure::{measure, ratio, Series, SplitMix64, Subject};
use serde::{Deserialize, Serialize};

use crate::Error;

/// Told how much is done, from 0 to 1, and what is being measured.
pub type Progress<'a> = &'a mut dyn FnMut(f64, &str);

/// Messages lie in the first-level cache, in and out together.
const BYTES: usize = 16 << 10;
/// And are as many as this at most.
const COUNT: usize = 256;

/// What is asked for.
pub struct Plan {
    /// Each in turn.
    pub policies: Vec<Policy>,
    /// Message lengths in bytes.
    pub lens: Vec<usize>,
    /// SIMD implementation; the best if none.
    pub imp: Option<Impl>,
    /// Key, messages, order.
    pub seed: u64,
    /// Fewer rounds.
    pub quick: bool,
}

/// A way to reach a cipher, or a part of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Path {
    /// The function, one FPU section around all calls.
    Primitive,
    /// The function, a section for each call: what a library call is.
    Library,
    /// A synchronous request to its driver.
    Direct,
    /// A request through the simd helper, the FPU being usable.
    SimdHelper,
    /// A request to cryptd: what the helper does where the FPU is taken.
    Cryptd,
    /// A request to the scalar driver.
    Scalar,
    /// What a caller gets who excludes asynchronous drivers.
    SyncUser,
    /// A part of what the simd helper adds.
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

    /// Its name in rows.
    pub fn name(self) -> &'static str {
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

/// A path at a length under a policy. `ratio` is its cycles over those of `direct`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[allow(missing_docs)] // the names are those of the contract
pub struct Row {
    pub alg: Cow<'static, str>,
    /// Driver the path ends at.
    #[serde(rename = "impl")]
    pub imp: String,
    pub provider: String,
    /// Of a tree: the configuration it was built with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<String>,
    pub len: usize,
    pub policy: Cow<'static, str>,
    pub path: Cow<'static, str>,
    pub cycles_per_op: Option<f64>,
    pub cycles_low: Option<f64>,
    pub cycles_high: Option<f64>,
    pub mb_per_s: Option<f64>,
    pub ratio: Option<f64>,
    pub ci_low: Option<f64>,
    pub ci_high: Option<f64>,
}

pub use tree::of_tree;

/// What came of it.
#[derive(Debug, Default)]
pub struct Outcome {
    /// By policy, length and path.
    pub rows: Vec<Row>,
    /// What a reader of the rows must know.
    pub notes: Vec<String>,
    /// An answer was wrong.
    pub failed: bool,
    /// Stopped before its end.
    pub interrupted: bool,
}

/// Runs it.
///
/// # Errors
/// A host that gives no emulated CPU, a CPU without SIMD tiers.
pub fn run(
    plan: &Plan,
    core_hz: f64,
    stop: &AtomicBool,
    progress: Progress<'_>,
) -> Result<Outcome, Error> {
    let imp = plan.imp.unwrap_or_else(Impl::best);
    if imp.tier() == kiln_kernel::Tier::Generic {
        return Err(Error::lacks(
            "no SIMD tier is usable here: there is no detour to measure: lift KILN_TIERS, or use a CPU with AES-NI",
        ));
    }
    let mut cpu = Cpu::boot(&Config::default()).map_err(|e| {
        Error::lacks(format!(
            "cannot make an emulated CPU: {e}: free some memory, and allow arch_prctl"
        ))
    })?;
    let mut outcome = Outcome::default();
    let steps = plan.policies.len() * plan.lens.len();
    for (i, &policy) in plan.policies.iter().enumerate() {
        for (j, &len) in plan.lens.iter().enumerate() {
            let at = i * plan.lens.len() + j;
            let mut tell = |done: f64| {
                let what = format!("{policy}, {len} B");
                progress((at as f64 + done) / steps as f64, &what);
            };
            let bench = Bench {
                plan,
                imp,
                policy,
                len,
                core_hz,
            };
            bench.run(&mut cpu, stop, &mut outcome, &mut tell)?;
        }
    }
    Policy::all()[0].set(&mut cpu);
    outcome.notes.push(format!(
        "ways to a cipher: {} in the task, one request after the other, each waited for, in one \
         piece; primitive: one section around all calls, library: one each, the others through \
         the crypto API; cryptd: two switches of tasks are charged {:.1} µs each; ratio: cycles \
         over those of direct, interval 95 %",
        imp.driver(),
        Config::default().switch_ns as f64 / 1e3
    ));
    outcome.interrupted = stop.load(Ordering::Relaxed);
    Ok(outcome)
}

/// 10^6 bytes a second of operations of so many cycles, one after the other.
pub fn mb_per_s(len: usize, cycles: f64, core_hz: f64) -> f64 {
    len as f64 * core_hz / cycles / 1e6
}

/// One policy and length.
struct Bench<'a> {
    plan: &'a Plan,
    imp: Impl,
    policy: Policy,
    len: usize,
    core_hz: f64,
}

/// A subject: where it ends, and what it asks.
struct Way {
    path: Path,
    tfm: Option<Skcipher>,
    driver: String,
    fault: Option<String>,
}

/// The same for all paths: where a buffer lies can cost more than what is measured.
struct Messages {
    src: Vec<u8>,
    dst: Vec<u8>,
    ivs: Vec<[u8; BLOCK]>,
}

impl Bench<'_> {
    fn run(
        &self,
        cpu: &mut Cpu,
        stop: &AtomicBool,
        outcome: &mut Outcome,
        tell: &mut dyn FnMut(f64),
    ) -> Result<(), Error> {
        let mut rng = SplitMix64(self.plan.seed);
        let mut raw_key = [0; 64];
        rng.fill(&mut raw_key);
        let key = Key::new(&raw_key).expect("64 bytes");
        let stride = self.len.next_multiple_of(64);
        let count = (BYTES / stride).clamp(4, COUNT);
        let mut src = vec![0; stride * count];
        rng.fill(&mut src);
        let mut ivs = vec![[0; BLOCK]; count];
        ivs.iter_mut().for_each(|iv| rng.fill(iv));

        self.policy.set(cpu);
        let parts = [Part::Setup, Part::Checks, Part::Copy, Part::Call].map(Path::Part);
        let mut ways = Vec::new();
        for path in Path::ALL.into_iter().chain(parts) {
            let tfm = self.open(path, &raw_key)?;
            ways.push(Way {
                driver: tfm
                    .as_ref()
                    .map_or(self.imp.driver(), |t| t.driver())
                    .to_string(),
                path,
                tfm,
                fault: None,
            });
        }
        let mut messages = Messages {
            dst: vec![0; src.len()],
            src,
            ivs,
        };
        for way in &mut ways {
            self.check(way, &mut messages, &key, count as u64);
        }
        let messages = RefCell::new(messages);
        let ways: Vec<RefCell<Way>> = ways.into_iter().map(RefCell::new).collect();
        let mut subjects: Vec<Subject> = ways
            .iter()
            .map(|way| {
                let (key, messages) = (&key, &messages);
                let name = way.borrow().path.name();
                Subject::new(name, move |n| {
                    self.call(&mut way.borrow_mut(), &mut messages.borrow_mut(), key, n)
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
            self.check(way, &mut messages, &key, count as u64);
            if let Some(fault) = &way.fault {
                outcome.failed = true;
                outcome.notes.push(format!(
                    "{}, {} B, {}: {fault}",
                    self.policy,
                    self.len,
                    way.path.name()
                ));
            }
        }
        self.rows(&ways, &series, outcome);
        Ok(())
    }

    /// The transform a path goes to.
    fn open(&self, path: Path, raw_key: &[u8]) -> Result<Option<Skcipher>, Error> {
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
            // With sections that softirqs may find taken, SIMD is behind the helper.
            Path::SyncUser => match self.policy.name() {
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

    fn call(&self, way: &mut Way, messages: &mut Messages, key: &Key, n: u64) {
        let stride = self.len.next_multiple_of(64);
        let Some(tfm) = &mut way.tfm else {
            let sections = match way.path {
                Path::Library => Sections::Each,
                _ => Sections::One,
            };
            let calls = Calls::new(
                key,
                Op::Encrypt,
                &messages.src,
                &mut messages.dst,
                &messages.ivs,
                self.len,
                stride,
                false,
            );
            let mut calls = calls.expect("buffers of this very size").sections(sections);
            self.imp.run(&mut calls, n).expect("a usable tier");
            return;
        };
        let requests = Requests::new(
            Op::Encrypt,
            &mut messages.src,
            &mut messages.dst,
            &mut messages.ivs,
            self.len,
            stride,
        );
        let part = match way.path {
            Path::Part(part) => part,
            _ => Part::Whole,
        };
        let mut requests = requests.expect("buffers of this very size").part(part);
        match tfm.run(&mut requests, n) {
            Ok(later) if part == Part::Whole && (way.path == Path::Cryptd) != (later > 0) => {
                way.fault = Some(format!("{later} of {n} answered later"));
            }
            Ok(_) => {}
            Err(e) => way.fault = Some(format!("answered {e}")),
        }
    }

    /// Whether a path writes what the generic implementation writes.
    fn check(&self, way: &mut Way, messages: &mut Messages, key: &Key, count: u64) {
        if matches!(way.path, Path::Part(_)) || way.fault.is_some() {
            return;
        }
        messages.dst.fill(0);
        self.call(way, messages, key, count);
        let judge = Impl::all()[0];
        let stride = self.len.next_multiple_of(64);
        let mut want = vec![0; self.len];
        for (i, iv) in messages.ivs.iter().enumerate() {
            let at = i * stride..i * stride + self.len;
            judge
                .crypt(Op::Encrypt, key, iv, &messages.src[at.clone()], &mut want)
                .expect("a right length");
            if messages.dst[at] != want[..] {
                way.fault.get_or_insert_with(|| {
                    format!("message {i} differs from {}'s", judge.driver())
                });
            }
        }
    }

    fn rows(&self, ways: &[Way], series: &[Series], outcome: &mut Outcome) {
        let index = |path| ways.iter().position(|w| w.path == path);
        let best = |path| Some(series[index(path)?].estimate()?.best);
        let setup = best(Path::Part(Part::Setup));
        let direct = index(Path::Direct).map(|i| &series[i]);
        let row = |way: &Way| Row {
            alg: "xts(aes)".into(),
            imp: way.driver.clone(),
            provider: "kiln".into(),
            config: None,
            len: self.len,
            policy: self.policy.name().into(),
            path: way.path.name().into(),
            cycles_per_op: None,
            cycles_low: None,
            cycles_high: None,
            mb_per_s: None,
            ratio: None,
            ci_low: None,
            ci_high: None,
        };
        for (way, series) in ways.iter().zip(series) {
            let Some(estimate) = series.estimate() else {
                continue;
            };
            let mut row = row(way);
            if matches!(way.path, Path::Part(_)) {
                // A part is what it adds to a loop that only sets up requests.
                if way.path != Path::Part(Part::Setup) {
                    row.cycles_per_op = setup.map(|setup| estimate.best - setup);
                } else {
                    row.cycles_per_op = Some(estimate.best);
                }
                outcome.rows.push(row);
                continue;
            }
            row.cycles_per_op = Some(estimate.best);
            row.cycles_low = Some(estimate.low);
            row.cycles_high = Some(estimate.high);
            row.mb_per_s = Some(mb_per_s(self.len, estimate.best, self.core_hz));
            let against = direct.and_then(|direct| ratio(series, direct));
            row.ratio = against.map(|r| r.ratio);
            row.ci_low = against.map(|r| r.low);
            row.ci_high = against.map(|r| r.high);
            outcome.rows.push(row);
        }
        // What the way to the kworker and back adds to the request itself.
        if let (Some(way), Some(cryptd), Some(direct)) = (
            index(Path::Cryptd).map(|i| &ways[i]),
            best(Path::Cryptd),
            best(Path::Direct),
        ) {
            let mut row = row(way);
            row.path = "hand-over".into();
            row.cycles_per_op = Some(cryptd - direct);
            outcome.rows.push(row);
        }
    }
}
