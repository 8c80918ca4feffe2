//! The rows that several processes measured for one part, and an estimate based on all of them.

use kiln_measure::median;
use serde_json::Value;

use super::answer::Answer;
use super::part::Part;

/// Number of processes that each headline is based on. An interval is computed only if exactly this
/// number of processes have a result.
pub const PROCESSES: usize = 5;
/// The 97.5% quantile of Student's t with `PROCESSES - 1` degrees of freedom.
const T: f64 = 2.776;

/// Rows, grouped by the process that measured them.
#[derive(Clone, Debug)]
pub struct Runs<'a>(Vec<Vec<&'a Value>>);

impl<'a> Runs<'a> {
    /// Groups the rows of `parts` into runs. Run `k` combines the rows from the `k`-th process of
    /// each part, where processes without rows are not counted.
    pub fn new(answers: &'a [Answer], parts: &[&Part]) -> Runs<'a> {
        let mut runs: Vec<Vec<&Value>> = Vec::new();
        for part in parts {
            let of_part = answers.iter().filter(|a| a.part == *part);
            let with_rows = of_part.filter(|a| !a.rows().is_empty());
            for (k, answer) in with_rows.enumerate() {
                if runs.len() <= k {
                    runs.push(Vec::new());
                }
                runs[k].extend(answer.rows());
            }
        }
        Runs(runs)
    }

    /// Returns the number of processes that produced rows.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether none of the processes produced rows.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the rows of the first process, for reading names and conditions, which are the same
    /// in all processes.
    pub fn first(&self) -> &[&'a Value] {
        self.0.first().map_or(&[], Vec::as_slice)
    }

    /// Returns the rows of all processes, for adding up counts.
    pub fn all(&self) -> impl Iterator<Item = &'a Value> + '_ {
        self.0.iter().flatten().copied()
    }

    /// Computes one number per process and reduces the numbers to an estimate. Skips processes for
    /// which `number` returns `None`.
    pub fn estimate(&self, number: impl Fn(&[&'a Value]) -> Option<f64>) -> Option<Estimate> {
        Estimate::from_values(self.0.iter().filter_map(|run| number(run)).collect())
    }
}

/// Position of an estimate's interval relative to a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Against {
    /// The whole interval is below the number.
    Below,
    /// The interval contains the number.
    Equal,
    /// The whole interval is above the number.
    Above,
    /// The estimate has no interval.
    CannotTell,
}

/// The median over processes, with a 95% prediction interval for the result of one more process.
#[derive(Clone, Debug, PartialEq)]
pub struct Estimate {
    pub value: f64,
    /// Lower end of the interval; `None` unless there are exactly [`PROCESSES`] values.
    pub low: Option<f64>,
    /// Upper end of the interval; `None` unless there are exactly [`PROCESSES`] values.
    pub high: Option<f64>,
    /// The number that each process measured, in the order in which the processes ran.
    pub values: Vec<f64>,
}

impl Estimate {
    /// Computes an estimate from one number per process. If all numbers are positive, the interval
    /// is computed on a logarithmic scale, because the scatter of ratios and times is
    /// multiplicative.
    pub fn from_values(values: Vec<f64>) -> Option<Estimate> {
        let mut sorted: Vec<f64> = values.iter().copied().filter(|v| v.is_finite()).collect();
        sorted.sort_by(f64::total_cmp);
        let n = sorted.len();
        let value = median(&sorted)?;
        // The t quantile is valid only for this number of values.
        let (low, high) = match n != PROCESSES {
            true => (None, None),
            false if sorted[0] > 0.0 => {
                let logs: Vec<f64> = sorted.iter().map(|v| v.ln()).collect();
                let (low, high) = predict(&logs);
                (Some(low.exp()), Some(high.exp()))
            }
            false => {
                let (low, high) = predict(&sorted);
                (Some(low), Some(high))
            }
        };
        // Extend the interval to include all observed values, which rounding in exp() could
        // otherwise exclude.
        Some(Estimate {
            value,
            low: low.map(|l| l.min(sorted[0])),
            high: high.map(|h| h.max(sorted[n - 1])),
            values,
        })
    }

    /// Returns the estimate of `1 / v`, where `self` is the estimate of `v`.
    pub fn inverse(&self) -> Estimate {
        Estimate {
            value: 1.0 / self.value,
            low: self.high.map(|h| 1.0 / h),
            high: self.low.map(|l| 1.0 / l),
            values: self.values.iter().map(|v| 1.0 / v).collect(),
        }
    }

    /// Returns the position of the interval relative to `x`.
    pub fn against(&self, x: f64) -> Against {
        match (self.low, self.high) {
            (Some(_), Some(high)) if high < x => Against::Below,
            (Some(low), Some(_)) if low > x => Against::Above,
            (Some(_), Some(_)) => Against::Equal,
            _ => Against::CannotTell,
        }
    }

    /// Compares two estimates with `x`: `self`, which is based on cycles, and `time`, which is
    /// based on time. Returns `Below` or `Above` only if both estimates are on that side of `x`.
    /// Returns `None` if they contradict each other, which happens if the core's clock frequency
    /// depends on the code. If `time` is `None`, only `self` is compared.
    pub fn against_by_both(&self, time: Option<&Estimate>, x: f64) -> Option<Against> {
        let cycles = self.against(x);
        let Some(time) = time else {
            return Some(cycles);
        };
        let over = |a: &Estimate, b: &Estimate| a.low.zip(b.high).is_some_and(|(a, b)| a > b);
        match (cycles, time.against(x)) {
            (Against::CannotTell, _) | (_, Against::CannotTell) => Some(Against::CannotTell),
            (one, other) if one == other => Some(one),
            _ if over(self, time) || over(time, self) => None,
            _ => Some(Against::Equal),
        }
    }

    /// Formats the interval as ` (LOW to HIGH)`, using `show` for both ends. Returns an empty
    /// string if the estimate has no interval.
    pub fn interval(&self, show: impl Fn(f64) -> String) -> String {
        match (self.low, self.high) {
            (Some(low), Some(high)) => format!(" ({} to {})", show(low), show(high)),
            _ => String::new(),
        }
    }
}

/// Computes the prediction interval, mean ± t s sqrt(1 + 1/n). All input values are within the
/// interval, because t sqrt(1 + 1/n) > (n - 1) / sqrt(n).
fn predict(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let squares: f64 = values.iter().map(|v| (v - mean).powi(2)).sum();
    let half = T * (squares / (n - 1.0)).sqrt() * (1.0 + 1.0 / n).sqrt();
    (mean - half, mean + half)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn estimate(values: &[f64]) -> Estimate {
        Estimate::from_values(values.to_vec()).unwrap()
    }

    #[test]
    fn four_processes_give_no_interval_and_no_verdict() {
        let of = estimate(&[1.0, 1.1, 1.2, 1.3]);
        assert_eq!((of.low, of.high), (None, None));
        assert!((of.value - 1.15).abs() < 1e-12);
        assert_eq!(of.against(9.0), Against::CannotTell);
        assert_eq!(of.interval(|x| x.to_string()), "");
        assert_eq!(Estimate::from_values(vec![]), None);
        assert_eq!(Estimate::from_values(vec![f64::NAN]), None);
    }

    #[test]
    fn the_interval_contains_what_was_seen_and_is_wider_than_it() {
        for values in [
            [1.0, 1.0, 1.0, 1.0, 1.0],
            [1.0, 1.0, 1.0, 1.0, 100.0],
            [3.0, 1.0, 2.0, 5.0, 4.0],
            [-1.0, 0.0, 1.0, 2.0, 3.0],
        ] {
            let of = estimate(&values);
            let (low, high) = (of.low.unwrap(), of.high.unwrap());
            assert!(values.iter().all(|v| (low..=high).contains(v)), "{of:?}");
            assert!((low..=high).contains(&of.value));
        }
        let of = estimate(&[1.40, 1.42, 1.41, 1.43, 1.39]);
        // The expected values were computed by hand: the logarithms have a standard deviation of
        // 0.01121, and the interval extends 3.041 standard deviations to either side of the
        // logarithm of 1.40993.
        assert!((of.low.unwrap() - 1.3627).abs() < 5e-4, "{of:?}");
        assert!((of.high.unwrap() - 1.4588).abs() < 5e-4, "{of:?}");
    }

    /// Simulates 2,000 surveys with a fixed seed. In about 95 % of them, the result of the sixth
    /// process is within the interval computed from the first five. As a control, it is within the
    /// range of the first five results in only about two thirds of the surveys.
    #[test]
    fn the_next_process_falls_into_the_interval_in_95_of_100() {
        let mut rng = kiln_measure::SplitMix64(7);
        let mut unit = || (rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
        // The sum of twelve uniform random numbers has a variance of 1 and is close enough to a
        // normal distribution.
        let mut normal = || (0..12).map(|_| unit()).sum::<f64>() - 6.0;
        let (mut inside, mut in_range) = (0, 0);
        for _ in 0..2000 {
            let five: Vec<f64> = (0..5).map(|_| (0.02 * normal()).exp()).collect();
            let next = (0.02 * normal()).exp();
            let of = estimate(&five);
            inside += usize::from((of.low.unwrap()..=of.high.unwrap()).contains(&next));
            let least = five.iter().copied().fold(f64::MAX, f64::min);
            let most = five.iter().copied().fold(0.0, f64::max);
            in_range += usize::from((least..=most).contains(&next));
        }
        assert!((1860..=1940).contains(&inside), "{inside}");
        assert!((1230..=1430).contains(&in_range), "{in_range}");
    }

    #[test]
    fn a_verdict_needs_cycles_and_time() {
        let around = |x: f64| estimate(&[0.99, 1.0, 1.01, 1.0, 0.99].map(|noise| x * noise));
        let both = |cycles, time| around(cycles).against_by_both(Some(&around(time)), 1.0);
        assert_eq!(both(1.2, 0.8), None);
        assert_eq!(both(0.8, 1.2), None);
        assert_eq!(both(1.2, 1.0), None);
        assert_eq!(both(1.2, 1.15), Some(Against::Above));
        assert_eq!(both(0.8, 0.8), Some(Against::Below));
        assert_eq!(both(1.0, 1.01), Some(Against::Equal));
        // One interval is entirely above 1. The other contains 1.
        assert_eq!(both(1.04, 1.02), Some(Against::Equal));
        assert_eq!(around(1.2).against_by_both(None, 1.0), Some(Against::Above));
        let once = estimate(&[0.8]);
        assert_eq!(
            around(1.2).against_by_both(Some(&once), 1.0),
            Some(Against::CannotTell)
        );
    }

    #[test]
    fn verdicts_follow_the_interval() {
        let of = estimate(&[1.40, 1.42, 1.41, 1.43, 1.39]);
        assert_eq!(of.against(1.0), Against::Above);
        assert_eq!(of.against(1.45), Against::Equal);
        assert_eq!(of.against(2.0), Against::Below);
        let inverse = of.inverse();
        assert_eq!(inverse.against(1.0), Against::Below);
        assert!(inverse.low.unwrap() < inverse.value && inverse.value < inverse.high.unwrap());
        assert_eq!(of.interval(|x| format!("{x:.2}")), " (1.36 to 1.46)");
    }
}
