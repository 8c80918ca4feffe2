//! Selects the implementations, strategies and targets that `budget` measures, and validates the
//! selection.

use std::str::FromStr;

use kiln_kernel::budget::Way;
use kiln_kernel::cipher::{Impl, Kind, Op};
use kiln_kernel::Tier;
use kiln_question::{unknown, Algorithm, Error};

/// Longest target in microseconds: one tick of the slowest timer that a kernel can be configured
/// with (100 Hz).
const LONGEST_US: f64 = 10_000.0;
/// Highest interrupt rate per second. At higher rates, the cost of the host's signals would
/// dominate the measurements.
const BUSIEST: f64 = 10_000.0;

/// Where an operation's data is when the operation begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Data {
    /// The data is in whichever cache level the previous operation left it. An operation reads 1
    /// MiB and writes 1 MiB.
    Warm,
    /// The data is in memory but not in any cache.
    Cold,
}

impl Data {
    /// Returns the name used in rows and flags.
    pub(super) fn name(self) -> &'static str {
        match self {
            Data::Warm => "warm",
            Data::Cold => "cold",
        }
    }
}

impl FromStr for Data {
    type Err = Error;

    fn from_str(name: &str) -> Result<Data, Error> {
        match name {
            "warm" => Ok(Data::Warm),
            "cold" => Ok(Data::Cold),
            _ => Err(unknown("kind of data", name, &["warm", "cold"])),
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Plan {
    /// Implementations to measure. All of them open FPU sections.
    pub impls: Vec<Impl>,
    /// Notes for the record that state what is not measured, and why.
    pub notes: Vec<String>,
    /// Operations to measure: encrypt or decrypt. For hashes this is ignored, because they have
    /// only one operation.
    pub ops: Vec<Op>,
    /// Chunking strategies to measure.
    pub ways: Vec<Way>,
    /// Maximum section lengths in microseconds.
    pub targets_us: Vec<f64>,
    /// Where the data is before an operation. Each location is measured in separate rows.
    pub data: Vec<Data>,
    /// Interrupts per second.
    pub irq_rate: f64,
    /// Seconds per row.
    pub seconds: f64,
    /// Message length in bytes.
    pub len: usize,
    /// Seed for all random choices.
    pub seed: u64,
}

impl Plan {
    /// Creates the default plan for the named algorithms, or for all algorithms if `names` is
    /// empty. With `quick`, only the best implementation of each algorithm is measured.
    ///
    /// # Errors
    /// A name is unknown, or none of the implementations opens a section.
    pub(super) fn new(names: &[String], seed: u64, quick: bool) -> Result<Plan, Error> {
        let algs = match names {
            [] => Algorithm::all(),
            names => names
                .iter()
                .map(|n| n.parse())
                .collect::<Result<Vec<Algorithm>, _>>()?,
        };
        let mut impls = Vec::new();
        let (mut without, mut left_out) = (Vec::new(), Vec::new());
        for alg in algs {
            let simd = |i: &Impl| i.tier() != Tier::Generic && i.tier().usable();
            let mut of: Vec<Impl> = alg.impls().into_iter().filter(simd).collect();
            if of.is_empty() && !names.is_empty() {
                without.push(alg.to_string());
            }
            if quick {
                let best = of.pop();
                left_out.extend(of.iter().map(|i| i.driver()));
                of = best.into_iter().collect();
            }
            impls.extend(
                of.into_iter()
                    .filter(|i| !impls.contains(i))
                    .collect::<Vec<_>>(),
            );
        }
        if impls.is_empty() {
            return Err(Error::lacks(
                "no implementation here opens an FPU section: lift KILN_TIERS, or use a CPU with AES-NI",
            ));
        }
        let mut notes = Vec::new();
        if !without.is_empty() {
            notes.push(format!(
                "{}: not measured: no implementation allowed by this CPU and KILN_TIERS opens an FPU section",
                without.join(", ")
            ));
        }
        if !left_out.is_empty() {
            let which = match names {
                [] => format!("{} others", left_out.len()),
                _ => left_out.join(", "),
            };
            notes.push(format!(
                "--quick measures only the fastest implementation of each algorithm; not measured: {which}"
            ));
        }
        Ok(Plan {
            notes,
            impls,
            ops: vec![Op::Encrypt],
            ways: Way::ALL.to_vec(),
            targets_us: vec![30.0],
            data: vec![Data::Warm],
            irq_rate: 250.0,
            seconds: if quick { 0.06 } else { 0.25 },
            len: 1 << 20,
            seed,
        })
    }

    /// Checks whether the plan can be run. All implementations must have been calibrated.
    ///
    /// # Errors
    /// A target is too short for any section, or a rate or time is out of range.
    pub(super) fn check(&self, tsc_hz: f64) -> Result<(), Error> {
        let rate = self.irq_rate;
        if !(0.0..=BUSIEST).contains(&rate) {
            return Err(Error::input(format!(
                "--irq-rate {rate}: interrupts per second are from 0 to {BUSIEST}"
            )));
        }
        if !(0.001..=60.0).contains(&self.seconds) {
            return Err(Error::input(format!(
                "--seconds {}: a row takes from 0.001 to 60",
                self.seconds
            )));
        }
        for &us in &self.targets_us {
            if !(us > 0.0 && us <= LONGEST_US) {
                return Err(Error::input(format!(
                    "--target-us {us}: a target is more than 0 and at most {LONGEST_US} µs"
                )));
            }
            let slowest = self
                .impls
                .iter()
                .map(|&i| (smallest_us(i, tsc_hz), i.driver()))
                .max_by(|a, b| a.0.total_cmp(&b.0));
            if let Some((least, driver)) = slowest.filter(|s| us < s.0) {
                // Round up, so that the suggested number is accepted.
                let least = (least * 100.0).ceil() / 100.0;
                return Err(Error::input(format!(
                    "--target-us {us}: one block of {driver} takes longer: the smallest possible is {least:.2}"
                )));
            }
        }
        if self.impls.iter().all(|&i| self.ways_of(i).is_empty()) {
            let drivers: Vec<&str> = self.impls.iter().map(|i| i.driver()).collect();
            return Err(Error::input(format!(
                "--mode fixed: no byte limit was posted in 2022 for {}: choose another mode or algorithm",
                drivers.join(", ")
            )));
        }
        Ok(())
    }

    /// Returns the strategies that apply to an implementation. `fixed` applies only if a limit was
    /// posted for the implementation.
    pub(super) fn ways_of(&self, imp: Impl) -> Vec<Way> {
        let posted = imp.budget().posted.is_some();
        let ways = self.ways.iter().copied();
        ways.filter(|&w| w != Way::Fixed || posted).collect()
    }

    pub(super) fn ops_of(&self, imp: Impl) -> &[Op] {
        match imp.kind() {
            Kind::Hash => &self.ops[..1],
            _ => &self.ops,
        }
    }
}

/// Returns the duration in microseconds of a section that processes one granule, including the
/// safety margin of budgets.
fn smallest_us(imp: Impl, tsc_hz: f64) -> f64 {
    let known = imp.budget();
    let of = |d: usize| {
        let bytes = f64::from(known.granule) * (known.rate[d] + known.miss_rate);
        (f64::from(known.start[d]) + bytes + 2.0) / 0.9
    };
    of(0).max(of(1)) / tsc_hz * 1e6
}

/// Parses the names of chunking strategies. Returns all strategies if `names` is empty.
///
/// # Errors
/// A name is unknown.
pub(super) fn parse_ways(names: &[String]) -> Result<Vec<Way>, Error> {
    let known: Vec<&str> = Way::ALL.iter().map(|w| w.name()).collect();
    let mut ways = Vec::new();
    for name in names {
        let way = Way::ALL.into_iter().find(|w| w.name() == name);
        let way = way.ok_or_else(|| unknown("chunking strategy", name, &known))?;
        if !ways.contains(&way) {
            ways.push(way);
        }
    }
    Ok(match ways.is_empty() {
        true => Way::ALL.to_vec(),
        false => ways,
    })
}

#[cfg(test)]
mod tests {
    use std::sync::{Mutex, MutexGuard, PoisonError};

    use super::*;

    #[test]
    fn unknown_names_are_told_the_nearest() {
        let e = Plan::new(&["sha265".into()], 1, false).unwrap_err();
        assert!(e.to_string().contains("did you mean 'sha256'"), "{e}");
        let e = parse_ways(&["clock".into()]).unwrap_err();
        assert!(e.to_string().contains("'clocked'"), "{e}");
        assert_eq!(parse_ways(&[]).unwrap().len(), 7);
        assert!("hot".parse::<Data>().is_err());
    }

    /// Calibrates the budgets. They apply to the whole process, so other tests must not calibrate
    /// them again while the returned guard exists.
    fn calibrate() -> MutexGuard<'static, ()> {
        static TURN: Mutex<()> = Mutex::new(());
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        kiln_kernel::budget::calibrate();
        turn
    }

    #[test]
    fn only_code_with_a_posted_limit_is_cut_by_it() {
        // Calibrate first, because a driver has no limit until it is registered.
        let _turn = calibrate();
        let mut plan = Plan::new(&[], 1, false).unwrap();
        let all = Way::ALL.len();
        for &imp in &plan.impls {
            let ways = plan.ways_of(imp);
            match imp.driver() {
                "sha256-sha-ni" | "ghash-aesni" => assert_eq!(ways.len(), all),
                "sm3-avx512" | "gcm-aes-aesni" | "poly1305-sse2" => {
                    assert_eq!(ways.len(), all - 1);
                    assert!(!ways.contains(&Way::Fixed));
                }
                _ => {}
            }
        }
        plan.ways = vec![Way::Fixed];
        plan.check(2.5e9).unwrap();
        plan.impls.retain(|i| i.alg() == "xts(aes)");
        let e = plan.check(2.5e9).unwrap_err().to_string();
        assert!(
            e.contains("no byte limit was posted in 2022 for xts-aes-"),
            "{e}"
        );
    }

    #[test]
    fn a_target_that_is_not_positive_is_called_that() {
        let mut plan = Plan::new(&["sm3".into()], 1, true).unwrap();
        for us in [-5.0, 0.0, f64::NAN, 1e9] {
            plan.targets_us = vec![us];
            let e = plan.check(2.5e9).unwrap_err().to_string();
            assert!(
                e.contains("a target is more than 0 and at most 10000 µs"),
                "{e}"
            );
        }
    }

    #[test]
    fn the_smallest_target_that_is_named_will_do() {
        let _turn = calibrate();
        let mut plan = Plan::new(&["sm3".into()], 1, true).unwrap();
        plan.targets_us = vec![0.01];
        let e = plan.check(2.5e9).unwrap_err().to_string();
        let least = e.rsplit(' ').next().unwrap().parse().unwrap();
        plan.targets_us = vec![least];
        plan.check(2.5e9).unwrap();
    }
}
