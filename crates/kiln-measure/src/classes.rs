//! Tests whether two classes of inputs take different times, using Welch's t test over many short
//! measurements (Reparaz, Balasch, Verbauwhede, "Dude, is my code constant time?", 2017).
//!
//! A difference normally shows in the mean of all measurements. If interrupts and other noise hide
//! it there, it can still show in the mean of the shorter measurements, that is, those up to a
//! percentile that is computed over both classes together. If both classes have the same
//! distribution, |t| at any one percentile exceeds 5 by chance only about once in two million
//! tests.

/// Percentiles at which measurements are cropped. A crop keeps only the measurements up to this
/// percentile of both classes together; 100 keeps all of them.
pub const CROPS: [f64; 7] = [100.0, 99.0, 95.0, 90.0, 75.0, 50.0, 25.0];

/// Limit for |t|. A difference whose |t| reaches this limit is not attributed to chance.
pub const LIMIT: f64 = 5.0;

/// Minimum number of measurements per class for a comparison.
const FEWEST: f64 = 50.0;

/// Count, mean and variance of a stream of values (Welford's algorithm).
#[derive(Clone, Copy, Debug, Default)]
struct Moments {
    n: f64,
    mean: f64,
    squares: f64,
}

impl Moments {
    fn from_values(values: impl Iterator<Item = f64>) -> Moments {
        let mut m = Moments::default();
        for v in values {
            m.n += 1.0;
            let from = v - m.mean;
            m.mean += from / m.n;
            m.squares += from * (v - m.mean);
        }
        m
    }

    /// Returns the squared standard error of the mean.
    fn error2(&self) -> f64 {
        self.squares / (self.n - 1.0) / self.n
    }
}

/// The difference between two classes at one crop.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Difference {
    /// Index into [`CROPS`].
    pub crop: usize,
    /// Welch's t: the difference divided by its standard error. If neither class varies, t is 0 or
    /// infinite.
    pub t: f64,
    /// Mean of the second class minus mean of the first class, in the same unit as the
    /// measurements.
    pub mean: f64,
    /// The smallest difference between the means for which |t| would have reached [`LIMIT`].
    pub detectable: f64,
}

/// Computes the difference at one crop, given as an index into [`CROPS`]. Returns `None` if a class
/// has too few measurements.
pub fn difference(classes: [&[u32]; 2], crop: usize) -> Option<Difference> {
    let mut all: Vec<u32> = classes.concat();
    let last = all.len().checked_sub(1)?;
    let rank = (last as f64 * CROPS[crop] / 100.0).round() as usize;
    let (_, &mut most, _) = all.select_nth_unstable(rank);
    let [a, b] = classes.map(|class| {
        let kept = class.iter().filter(|&&v| v <= most);
        Moments::from_values(kept.map(|&v| f64::from(v)))
    });
    if a.n < FEWEST || b.n < FEWEST {
        return None;
    }
    let error = (a.error2() + b.error2()).sqrt();
    let mean = b.mean - a.mean;
    let t = match error {
        0.0 if mean == 0.0 => 0.0,
        0.0 => mean.signum() * f64::INFINITY,
        _ => mean / error,
    };
    Some(Difference {
        crop,
        t,
        mean,
        detectable: LIMIT * error,
    })
}

/// Computes the difference at the crop with the largest |t|.
pub fn most_different(classes: [&[u32]; 2]) -> Option<Difference> {
    (0..CROPS.len())
        .filter_map(|crop| difference(classes, crop))
        .max_by(|a, b| a.t.abs().total_cmp(&b.t.abs()))
}

/// Computes the difference between the classes of a second run, at the crop that the first run
/// used. If that crop keeps too few measurements of one class, the next looser crop that keeps
/// enough of both is used. This happens if the times of the classes do not overlap: a crop may then
/// keep nearly all of one class and almost none of the other.
pub fn difference_near_crop(classes: [&[u32]; 2], first: &Difference) -> Option<Difference> {
    (0..=first.crop)
        .rev()
        .find_map(|crop| difference(classes, crop))
}

/// Returns the smallest difference that would have reached [`LIMIT`], computed without the slowest
/// tenth of the measurements. Tighter crops are not used, because all measurements that they keep
/// may fall into a single step of the clock, which hides any difference.
pub fn detectable(classes: [&[u32]; 2]) -> Option<f64> {
    let crop = CROPS.iter().position(|&c| c == 90.0)?;
    Some(difference(classes, crop)?.detectable)
}

/// The conclusion drawn from a first run and, if that run found a difference, from a second one
/// that is independent of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finding {
    /// Both runs found a difference in the same direction. [`difference_near_crop`] chooses the
    /// crop of the second run.
    Differs,
    /// The first run found a difference, but the second run did not confirm it.
    Unconfirmed,
    /// The first run found no difference, so a second run was not made. There may still be a
    /// difference that is too small to detect.
    Nothing,
}

/// Judges a measurement. If the measurement shows a difference, calls `again` for a second
/// measurement, which must confirm the difference.
pub fn judge(first: &Difference, again: impl FnOnce() -> Option<Difference>) -> Finding {
    if first.t.abs() < LIMIT {
        return Finding::Nothing;
    }
    match again() {
        Some(d) if d.t.abs() >= LIMIT && d.t.signum() == first.t.signum() => Finding::Differs,
        _ => Finding::Unconfirmed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::SplitMix64;

    /// Simulates a typical measurement: a clock that advances in steps of 26 ticks, a long tail,
    /// and an occasional interrupt.
    fn measured(rng: &mut SplitMix64, base: f64) -> u32 {
        let mut uniform = || (rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
        let mut time = base + 40.0 * uniform() - 20.0 * (1.0 - uniform()).ln();
        if uniform() < 0.002 {
            time += 5000.0 + 20_000.0 * uniform();
        }
        (time / 26.0) as u32 * 26
    }

    fn classes(rng: &mut SplitMix64, n: usize, by: f64) -> [Vec<u32>; 2] {
        [0.0, by].map(|by| (0..n).map(|_| measured(rng, 400.0 + by)).collect())
    }

    fn compare([a, b]: &[Vec<u32>; 2]) -> Difference {
        most_different([a, b]).unwrap()
    }

    #[test]
    fn t_is_that_of_the_book() {
        // The expected result was computed by hand for a hundred values per class: the means are 20
        // and 22, and the squared standard errors of the means are 1/99 and 4/99.
        let a: Vec<u32> = (0..100).map(|i| 19 + 2 * (i % 2)).collect();
        let b: Vec<u32> = (0..100).map(|i| 20 + 4 * (i % 2)).collect();
        let d = difference([&a, &b], 0).unwrap();
        let error = (1.0 / 99.0 + 4.0 / 99.0f64).sqrt();
        assert!((d.mean - 2.0).abs() < 1e-9 && (d.t - 2.0 / error).abs() < 1e-9);
        assert!((d.detectable - 5.0 * error).abs() < 1e-9);
    }

    #[test]
    fn few_or_constant_measurements() {
        assert_eq!(most_different([&[], &[]]), None);
        assert_eq!(most_different([&[1; 49], &[2; 49]]), None);
        assert_eq!(difference([&[7; 60], &[7; 60]], 0).unwrap().t, 0.0);
        assert_eq!(
            difference([&[7; 60], &[9; 60]], 0).unwrap().t,
            f64::INFINITY
        );
    }

    #[test]
    fn a_difference_without_overlap_is_confirmed() {
        // The median of the first run is a slow measurement. The median of the second run is a fast
        // one, so its 50 % crop keeps no slow measurement.
        let run = |fast, slow| [vec![20u32; fast], vec![90u32; slow]];
        let narrow = CROPS.iter().position(|&c| c == 50.0).unwrap();
        let [a, b] = run(4990, 5010);
        let first = difference([&a, &b], narrow).unwrap();
        let [a, b] = run(5010, 4990);
        assert_eq!(difference([&a, &b], narrow), None);
        let again = difference_near_crop([&a, &b], &first).unwrap();
        assert_eq!((CROPS[again.crop], again.mean), (75.0, 70.0));
        let finding = judge(&first, || difference_near_crop([&a, &b], &first));
        assert_eq!(finding, Finding::Differs);
        // Control: a second run without a difference does not confirm the first.
        let equal = vec![20u32; 5000];
        let finding = judge(&first, || difference_near_crop([&equal, &equal], &first));
        assert_eq!(finding, Finding::Unconfirmed);
        assert_eq!(difference_near_crop([&a, &[]], &first), None);
    }

    #[test]
    fn one_distribution_is_rarely_two() {
        let mut rng = SplitMix64(5);
        let beyond = (0..300)
            .filter(|_| compare(&classes(&mut rng, 2000, 0.0)).t.abs() >= LIMIT)
            .count();
        assert_eq!(beyond, 0);
        // Control: by chance, |t| sometimes exceeds half the limit, so the limit is not much higher
        // than necessary.
        let half = (0..300)
            .filter(|_| compare(&classes(&mut rng, 2000, 0.0)).t.abs() >= LIMIT / 2.0)
            .count();
        assert!((1..60).contains(&half), "{half}");
    }

    #[test]
    fn a_difference_under_the_clocks_step_is_found() {
        // The classes differ by three ticks, although the clock advances in steps of 26. Interrupts
        // hide the difference in the mean of all measurements.
        let mut rng = SplitMix64(6);
        let found = classes(&mut rng, 40_000, 3.0);
        let d = compare(&found);
        assert!(d.t >= LIMIT && d.crop > 0, "{d:?}");
        let uncropped = difference([&found[0], &found[1]], 0).unwrap();
        assert!(uncropped.t < LIMIT, "{uncropped:?}");
        // Three times the difference that was reported as detectable must be detected.
        let by = 3.0 * detectable([&found[0], &found[1]]).unwrap();
        assert!(compare(&classes(&mut rng, 40_000, by)).t >= LIMIT);
    }

    #[test]
    fn one_run_alone_convicts_nobody() {
        let at = |t| Difference {
            crop: 2,
            t,
            mean: t,
            detectable: 5.0,
        };
        assert_eq!(judge(&at(4.0), || panic!("not asked")), Finding::Nothing);
        assert_eq!(judge(&at(6.0), || Some(at(1.0))), Finding::Unconfirmed);
        assert_eq!(judge(&at(6.0), || Some(at(-9.0))), Finding::Unconfirmed);
        assert_eq!(judge(&at(6.0), || None), Finding::Unconfirmed);
        assert_eq!(judge(&at(-6.0), || Some(at(-7.0))), Finding::Differs);
    }
}
