//! Measures hardware limits: the throughput and latency of instructions. Upper limits for the speed
//! of ciphers are derived from them.

mod aes;
mod instructions;
mod state;

use std::sync::atomic::AtomicBool;

use kiln_measure::{measure, Estimate, Plan, Subject};
use serde::Serialize;

pub(crate) use aes::{serial_cycles, xts_cycles};

#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Limit {
    /// Name of the limit, which is one of the constants below.
    pub name: &'static str,
    /// Description of what was measured.
    pub what: &'static str,
    /// The limit; `None` if the CPU lacks the instruction, or if the measurement was interrupted.
    pub value: Option<f64>,
    /// Lower end of the prediction interval of `value`.
    pub low: Option<f64>,
    /// Upper end of the prediction interval of `value`.
    pub high: Option<f64>,
    /// `per cycle` or `cycles`.
    pub unit: &'static str,
    /// The CPU feature that the instruction needs and the CPU lacks; `None` if nothing is missing.
    pub lacks: Option<&'static str>,
}

/// Name of the limit: AESENC instructions per cycle, with xmm registers.
pub(crate) const AES_XMM: &str = "aesenc-xmm";
/// Name of the limit: VAESENC instructions per cycle, with ymm registers.
pub(crate) const AES_YMM: &str = "vaesenc-ymm";
/// Name of the limit: VAESENC instructions per cycle, with zmm registers.
pub(crate) const AES_ZMM: &str = "vaesenc-zmm";
/// Name of the limit: cycles from an AESENC to the next one that depends on its result.
pub(crate) const AES_LATENCY: &str = "aesenc-latency";
/// Name of the limit: VPCLMULQDQ instructions per cycle, with zmm registers.
pub(crate) const CLMUL_ZMM: &str = "vpclmulqdq-zmm";
/// Name of the limit: cycles per RDTSC.
pub(crate) const RDTSC: &str = "rdtsc";
/// Name of the limit: cycles to save and restore the vector state once.
pub(crate) const SAVE_RESTORE: &str = "xsave-xrstor";

/// The limits of this machine's CPU.
#[derive(Clone, Debug, Default)]
pub(crate) struct Limits {
    /// All limits in a fixed order, including those for instructions that the CPU lacks.
    pub all: Vec<Limit>,
}

/// How a measured cycle count is converted to a limit.
enum Figure {
    /// The limit is a throughput: this number of instructions, divided by the measured cycles.
    Rate(f64),
    /// The limit is a duration: the measured cycles, divided by this number of instructions or
    /// operations.
    Each(f64),
}

impl Limits {
    /// Measures the limits that this CPU supports, in about 0.2 s.
    pub(crate) fn measure(seed: u64, stop: &AtomicBool) -> Limits {
        let mut limits = Limits::default();
        let mut subjects = Vec::new();
        let mut figures = Vec::new();
        for probe in probes() {
            if probe.lacks.is_none() {
                subjects.push(Subject::new(probe.name, probe.run));
                figures.push((limits.all.len(), probe.figure));
            }
            limits.all.push(Limit {
                name: probe.name,
                what: probe.what,
                value: None,
                low: None,
                high: None,
                unit: probe.unit,
                lacks: probe.lacks,
            });
        }
        let series = measure(&mut subjects, &Plan::quick(seed), stop, &mut |_, _| {});
        for ((i, figure), series) in figures.into_iter().zip(&series) {
            if let Some(e) = series.estimate() {
                limits.all[i].set(&figure, &e);
            }
        }
        limits
    }

    /// Returns the value of the limit `name`; `None` if it was not measured.
    pub(crate) fn get(&self, name: &str) -> Option<f64> {
        self.all.iter().find(|l| l.name == name)?.value
    }
}

impl Limit {
    fn set(&mut self, figure: &Figure, e: &Estimate) {
        let (value, low, high) = match figure {
            // The shortest time gives the highest rate, so the two ends of the interval are
            // swapped.
            Figure::Rate(n) => (n / e.best, n / e.high, n / e.low),
            Figure::Each(n) => (e.best / n, e.low / n, e.high / n),
        };
        (self.value, self.low, self.high) = (Some(value), Some(low), Some(high));
    }
}

struct Probe {
    name: &'static str,
    what: &'static str,
    unit: &'static str,
    lacks: Option<&'static str>,
    figure: Figure,
    run: Box<dyn FnMut(u64)>,
}

/// Returns the first feature in the list that the CPU lacks.
fn first_missing(features: &[(&'static str, bool)]) -> Option<&'static str> {
    features.iter().find(|(_, has)| !has).map(|(name, _)| *name)
}

fn probes() -> Vec<Probe> {
    use instructions as i;
    let aes = ("AES-NI", is_x86_feature_detected!("aes"));
    let avx2 = ("AVX2", is_x86_feature_detected!("avx2"));
    let vaes = ("VAES", is_x86_feature_detected!("vaes"));
    let avx512 = ("AVX-512F", is_x86_feature_detected!("avx512f"));
    let clmul = ("VPCLMULQDQ", is_x86_feature_detected!("vpclmulqdq"));
    let rate = || Figure::Rate(f64::from(i::IN_LOOP));
    let each = || Figure::Each(f64::from(i::IN_LOOP));
    let probe = |name, what, unit, lacks, figure, run| Probe {
        name,
        what,
        unit,
        lacks,
        figure,
        run,
    };
    let mut all = vec![
        probe(
            AES_XMM,
            "AESENC on 16 bytes, independent",
            "per cycle",
            first_missing(&[aes]),
            rate(),
            Box::new(i::aesenc_xmm),
        ),
        probe(
            AES_YMM,
            "VAESENC on 32 bytes, independent",
            "per cycle",
            first_missing(&[avx2, vaes]),
            rate(),
            Box::new(i::vaesenc_ymm),
        ),
        probe(
            AES_ZMM,
            "VAESENC on 64 bytes, independent",
            "per cycle",
            first_missing(&[avx512, vaes]),
            rate(),
            Box::new(i::vaesenc_zmm),
        ),
        probe(
            AES_LATENCY,
            "AESENC that needs the last one's result",
            "cycles",
            first_missing(&[aes]),
            each(),
            Box::new(i::aesenc_chain),
        ),
        probe(
            CLMUL_ZMM,
            "VPCLMULQDQ on 64 bytes, independent",
            "per cycle",
            first_missing(&[avx512, clmul]),
            rate(),
            Box::new(i::vpclmulqdq_zmm),
        ),
        probe(RDTSC, "RDTSC", "cycles", None, each(), Box::new(i::rdtsc)),
    ];
    let (run, what, lacks) = match state::SaveArea::new() {
        Some(mut area) => {
            let what = area.describe();
            let run: Box<dyn FnMut(u64)> = Box::new(move |n| area.save_restore(n));
            (run, what, None)
        }
        None => {
            let run: Box<dyn FnMut(u64)> = Box::new(|_| ());
            (run, "save and restore of the vector state", Some("XSAVE"))
        }
    };
    let each = Figure::Each(1.0);
    all.push(probe(SAVE_RESTORE, what, "cycles", lacks, each, run));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_probe_the_cpu_has_runs_and_lacks_are_named() {
        for mut probe in probes() {
            match probe.lacks {
                None => (probe.run)(3),
                Some(feature) => assert!(!feature.is_empty()),
            }
        }
    }

    #[test]
    fn stopped_at_once_measures_nothing_and_invents_nothing() {
        let limits = Limits::measure(1, &AtomicBool::new(true));
        assert_eq!(limits.all.len(), 7);
        assert!(limits.all.iter().all(|l| l.value.is_none()));
        assert_eq!(limits.get(RDTSC), None);
    }

    #[test]
    fn rates_and_latencies_turn_the_right_way_round() {
        let e = Estimate {
            best: 48.0,
            low: 47.0,
            high: 49.0,
            median: 48.0,
            rounds: 9,
        };
        let mut limit = Limits::measure(1, &AtomicBool::new(true)).all.remove(0);
        limit.set(&Figure::Rate(96.0), &e);
        assert_eq!(limit.value, Some(2.0));
        assert!(limit.low < limit.value && limit.value < limit.high);
        limit.set(&Figure::Each(12.0), &e);
        assert_eq!(limit.value, Some(4.0));
        assert!(limit.low < limit.value && limit.value < limit.high);
    }
}
