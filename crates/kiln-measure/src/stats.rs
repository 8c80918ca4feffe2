//! Computes results from samples: an estimate with a prediction interval, and a ratio with a
//! confidence interval.

use serde::{Deserialize, Serialize};

use crate::series::{Counted, Series};

/// Relative uncertainty of the conversion from ticks to cycles. The interval around an estimate is
/// never narrower than this.
pub(crate) const CALIBRATION: f64 = 0.001;
/// Maximum probability that the interval of a [`Ratio`] does not contain the true median.
const MISS: f64 = 0.05;
/// Rank of the round whose best result is the upper end of an estimate. Rounds are ranked by their
/// best results, starting with 1 for the fastest.
const RANK: usize = 5;

/// Cycles per operation.
///
/// `best` is the smallest sample of all rounds. Disturbances on a shared machine only add time, so
/// the smallest sample varies the least between runs and is the closest to the undisturbed result.
/// `low..high` predicts the `best` of a *rerun* of the same length on the same machine. It is not a
/// confidence interval for a "true" time.
///
/// *Upper end*: let x1 <= x2 <= .. be the best results of the n rounds. The rerun's best is above
/// xj only if the j smallest of the 2n pooled round-bests are all from this run. If rounds are
/// exchangeable, the probability of this is n/(2n) * (n-1)/(2n-1) * .. (j factors), a little less
/// than 2^-j, regardless of the distribution. With j = 5 it is 3%.
///
/// *Lower end*: with a probability of one half, the rerun's best is below x1. How far below cannot
/// be derived without an assumption, so the distance x5 - x1 is mirrored below x1. This is more
/// than enough for code that cannot run faster than its dependency chain, but too little if the
/// machine was disturbed throughout this run.
///
/// In the simulation of `tests/synthetic.rs` (jitter, interrupts, slow phases, a drifting clock),
/// 6% of reruns are outside the interval, counting both ends. On the reference machine, while it
/// was busy, 8 of 398 reruns (2%) were outside.
///
/// Neither end is closer to `best` than 0.1%, the clock's uncertainty. With fewer than five rounds,
/// `high` is the largest round-best, and the probability of a miss is 2^-rounds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    pub best: f64,
    /// Lower end of the prediction interval.
    pub low: f64,
    /// Upper end of the prediction interval.
    pub high: f64,
    /// Median of all kept samples, which shows how much slower the machine usually was than at its
    /// best.
    pub median: f64,
    /// Number of rounds with at least one kept sample.
    pub rounds: usize,
}

/// Cycles of `a` divided by cycles of `b`.
///
/// Each complete round contributes the best result of `a` divided by the best result of `b`, which
/// were measured within milliseconds of each other. `ratio` is the median of these ratios. The
/// interval is obtained by inverting the sign test: it extends from order statistic k to n+1-k,
/// where k is the largest number with 2 P(Binomial(n, 1/2) < k) <= 5%. It is exact for independent
/// rounds of any distribution.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ratio {
    /// Median ratio over all rounds. A value below 1 means that `a` is faster than `b`.
    pub ratio: f64,
    /// Lower end of the 95 % confidence interval.
    pub low: f64,
    /// Upper end of the 95 % confidence interval.
    pub high: f64,
    /// Number of rounds that were compared.
    pub pairs: usize,
}

impl Series {
    /// Returns the median over all rounds for each of the CPU's counters.
    pub fn counts(&self) -> Option<Counted> {
        let of = |value: &dyn Fn(&Counted) -> Option<f64>| {
            let mut values: Vec<f64> = self.counted.iter().filter_map(value).collect();
            values.sort_by(f64::total_cmp);
            median(&values)
        };
        Some(Counted {
            cycles: of(&|c| Some(c.cycles))?,
            instructions: of(&|c| Some(c.instructions))?,
            branch_misses: of(&|c| c.branch_misses),
            clock_ratio: of(&|c| Some(c.clock_ratio))?,
            estimate_ratio: of(&|c| c.estimate_ratio),
        })
    }

    /// Returns the median of the best samples of all complete rounds, with its 95 % interval.
    /// Returns `None` if there are fewer than six such samples.
    pub fn median_of_bests(&self) -> Option<Ratio> {
        let bests: Vec<f64> = self.bests(usize::MAX).into_iter().flatten().collect();
        median_of_rounds(&bests)
    }

    /// Returns the core's clock frequency in GHz, which is the median over all samples of the
    /// number of cycles per nanosecond.
    pub fn core_ghz(&self) -> Option<f64> {
        let cycles = self.rounds.iter().flat_map(|round| &round.samples);
        let times = self.rounds_ns.iter().flat_map(|round| &round.samples);
        let mut clocks: Vec<f64> = cycles.zip(times).map(|(c, ns)| c / ns).collect();
        clocks.sort_unstable_by(f64::total_cmp);
        median(&clocks)
    }

    /// Returns the estimate with its prediction interval, or `None` if no sample was kept.
    pub fn estimate(&self) -> Option<Estimate> {
        let mut bests: Vec<f64> = self.rounds.iter().filter_map(|round| round.best).collect();
        let mut samples: Vec<f64> = self
            .rounds
            .iter()
            .flat_map(|round| &round.samples)
            .copied()
            .collect();
        bests.sort_unstable_by(f64::total_cmp);
        samples.sort_unstable_by(f64::total_cmp);
        let best = *bests.first()?;
        let reach = (bests[bests.len().min(RANK) - 1] - best).max(best * CALIBRATION);
        Some(Estimate {
            best,
            low: (best - reach).max(0.0),
            high: best + reach,
            median: median(&samples)?,
            rounds: bests.len(),
        })
    }
}

/// Compares two series from one call of `measure`. Returns `None` if they have fewer than six
/// rounds in common, because a 95 % interval cannot be formed from fewer. The probability that all
/// rounds are on the same side of the median by chance is 2 * 2^-6 = 3% for six rounds and 6% for
/// five.
pub fn ratio(a: &Series, b: &Series) -> Option<Ratio> {
    ratio_among(a, b, 1)
}

/// Like [`ratio`], but for one of several `comparisons` that are judged together. The probability
/// that every interval contains its true median is at least 95 % (Bonferroni), so false differences
/// are rare even among many pairs that do not differ. Returns `None` if there are too few rounds
/// for this; see [`rounds_for`].
pub fn ratio_among(a: &Series, b: &Series, comparisons: usize) -> Option<Ratio> {
    let ratios = a
        .rounds
        .iter()
        .zip(&b.rounds)
        .filter(|(a, b)| a.complete && b.complete)
        .filter_map(|(a, b)| Some(a.best? / b.best?));
    middle(ratios.collect(), comparisons)
}

/// Returns the median of per-round values, such as rates, with its interval. Returns `None` with
/// fewer than six rounds.
pub fn median_of_rounds(values: &[f64]) -> Option<Ratio> {
    middle(values.to_vec(), 1)
}

/// Returns the median of `a[i] / b[i]` with its interval, where `a[i]` and `b[i]` were measured
/// side by side in round `i`. Returns `None` if there are fewer than six rounds in which both are
/// numbers and `b[i]` is not zero.
pub fn ratio_of_rounds(a: &[f64], b: &[f64]) -> Option<Ratio> {
    middle(a.iter().zip(b).map(|(a, b)| a / b).collect(), 1)
}

fn middle(mut values: Vec<f64>, comparisons: usize) -> Option<Ratio> {
    values.retain(|value| value.is_finite());
    values.sort_unstable_by(f64::total_cmp);
    let k = median_rank_at(values.len(), MISS / comparisons.max(1) as f64)?;
    Some(Ratio {
        ratio: median(&values)?,
        low: values[k - 1],
        high: values[values.len() - k],
        pairs: values.len(),
    })
}

/// Returns the median of a sorted list, or `None` if the list is empty.
pub fn median(sorted: &[f64]) -> Option<f64> {
    let n = sorted.len();
    Some((sorted.get(n / 2)? + sorted[(n - 1) / 2]) / 2.0)
}

/// Returns the number of rounds needed to judge `comparisons` comparisons together, even if one
/// round is disturbed.
pub fn rounds_for(comparisons: usize) -> usize {
    let miss = MISS / comparisons.max(1) as f64;
    let enough = |n: &usize| median_rank_at(*n, miss).is_some_and(|k| k >= 2);
    (6..1000).find(enough).unwrap_or(1000)
}

/// Returns the largest k >= 1 with 2 P(Binomial(n, 1/2) <= k - 1) <= `miss`, or `None` if no such k
/// exists.
fn median_rank_at(n: usize, miss: f64) -> Option<usize> {
    // Use logarithms, because 2^-n underflows for n above 1074.
    let mut ln_term = -(n as f64) * std::f64::consts::LN_2;
    let mut tail = 0.0;
    let mut k = 0;
    while k < n {
        tail += ln_term.exp();
        if 2.0 * tail > miss {
            break;
        }
        ln_term += ((n - k) as f64 / (k + 1) as f64).ln();
        k += 1;
    }
    (k > 0).then_some(k)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::SplitMix64;
    use crate::series::Round;

    fn median_rank(n: usize) -> Option<usize> {
        median_rank_at(n, MISS)
    }

    #[test]
    fn many_comparisons_want_more_rounds() {
        // The expected numbers are the smallest n with 2 (n + 1) 2^-n <= 5 % / comparisons.
        assert_eq!([1, 10, 192].map(rounds_for), [9, 13, 18]);
        let (a, b) = (series(&[1.0; 13]), series(&[1.0; 13]));
        assert!(ratio_among(&a, &b, 10).is_some() && ratio_among(&a, &b, 1000).is_none());
        // If one of thirteen rounds is disturbed, the interval for ten joint comparisons does not
        // change.
        let mut off = vec![1.0; 12];
        off.push(2.0);
        let r = ratio_among(&series(&off), &b, 10).unwrap();
        assert_eq!((r.low, r.high), (1.0, 1.0));
    }

    fn series(bests: &[f64]) -> Series {
        let round = |&best: &f64| Round {
            best: Some(best),
            samples: vec![best, 2.0 * best],
            complete: true,
        };
        Series {
            rounds: bests.iter().map(round).collect(),
            ..Series::default()
        }
    }

    fn uniform(rng: &mut SplitMix64) -> f64 {
        (rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    #[test]
    fn ranks_are_those_of_the_printed_tables() {
        // Values from a table of the two-sided sign test at 5%. The critical values in that table
        // are `k - 1`.
        for (n, k) in [
            (6, 1),
            (8, 1),
            (9, 2),
            (12, 3),
            (15, 4),
            (20, 6),
            (25, 8),
            (50, 18),
            (100, 40),
        ] {
            assert_eq!(median_rank(n), Some(k), "n = {n}");
        }
        assert!((0..6).all(|n| median_rank(n).is_none()));
        // For this n, 2^-n underflows, so the code must use logarithms. Compare the rank with the
        // normal approximation n/2 - 0.98 sqrt(n).
        assert!((median_rank(10_000).unwrap() as f64 - 4902.0).abs() < 2.0);
    }

    #[test]
    fn the_estimate_is_the_best_with_its_fifth() {
        let e = series(&[106.0, 101.0, 100.0, 103.0, 102.0, 104.0, 150.0])
            .estimate()
            .unwrap();
        assert_eq!((e.best, e.low, e.high, e.rounds), (100.0, 96.0, 104.0, 7));
        let few = series(&[100.0, 101.0]).estimate().unwrap();
        assert_eq!((few.low, few.high), (99.0, 101.0));
        let still = series(&[100.0; 9]).estimate().unwrap();
        assert!((still.low - 99.9).abs() < 1e-9 && (still.high - 100.1).abs() < 1e-9);
        assert_eq!(series(&[]).estimate(), None);
    }

    #[test]
    fn only_complete_common_rounds_are_compared() {
        let mut a = series(&[2.0; 8]);
        let b = series(&[1.0; 9]);
        a.rounds[0].best = None;
        a.rounds[1].complete = false;
        let r = ratio(&a, &b).unwrap();
        assert_eq!((r.ratio, r.low, r.high, r.pairs), (2.0, 2.0, 2.0, 6));
        a.rounds[2].complete = false;
        assert_eq!(ratio(&a, &b), None);
        assert_eq!(ratio(&series(&[0.0; 9]), &series(&[0.0; 9])), None);
    }

    #[test]
    fn rounds_of_rates_have_a_median_and_an_interval() {
        let rates = [30.0, 10.0, 20.0, 60.0, 40.0, 50.0];
        let r = median_of_rounds(&rates).unwrap();
        assert_eq!((r.ratio, r.low, r.high, r.pairs), (35.0, 10.0, 60.0, 6));
        assert_eq!(median_of_rounds(&rates[..5]), None);
        let twice: Vec<f64> = rates.iter().map(|r| r * 2.0).collect();
        let r = ratio_of_rounds(&twice, &rates).unwrap();
        assert_eq!((r.ratio, r.low, r.high, r.pairs), (2.0, 2.0, 2.0, 6));
        // A round in which one of the two rates is zero does not count as a pair.
        let mut stuck = rates;
        stuck[0] = 0.0;
        assert_eq!(ratio_of_rounds(&twice, &stuck), None);
        assert_eq!(ratio_of_rounds(&stuck, &twice).unwrap().low, 0.0);
    }

    #[test]
    fn the_ratio_interval_covers_the_median_95_times_in_100() {
        // Use skewed noise with different scales, so that the test does not depend on normality or
        // symmetry. The two series are independent, and the median of the difference of their
        // logarithms is ln 1.2.
        let mut rng = SplitMix64(1);
        for n in [6, 11, 20, 50] {
            let trials = 4000;
            let mut covered = 0;
            for _ in 0..trials {
                let mut draw = |base: f64| -> Vec<f64> {
                    (0..n)
                        .map(|_| base * (1.0 - uniform(&mut rng)).ln().mul_add(-0.3, 1.0))
                        .collect()
                };
                let (a, b) = (draw(1.2), draw(1.0));
                let r = ratio(&series(&a), &series(&b)).unwrap();
                covered += u32::from(r.low <= 1.2 && 1.2 <= r.high);
            }
            // The simulation itself has binomial noise; 3 sigma is 1%.
            let share = f64::from(covered) / f64::from(trials);
            assert!(share >= 0.94, "n = {n}: {share}");
        }
    }

    #[test]
    fn a_rerun_rarely_exceeds_the_fifth_best() {
        let mut rng = SplitMix64(2);
        let mut run = || {
            series(
                &(0..20)
                    .map(|_| 1.0 + uniform(&mut rng).powi(2))
                    .collect::<Vec<_>>(),
            )
        };
        let above = (0..4000)
            .filter(|_| {
                let first = run().estimate().unwrap();
                run().estimate().unwrap().best > first.high
            })
            .count();
        // For this n, at most 2^-5 = 3.1% of reruns are above the interval. Widening the interval
        // by the clock's uncertainty of 0.1% only lowers that share.
        assert!(above < 4000 * 4 / 100, "{above} of 4000");
    }
}
