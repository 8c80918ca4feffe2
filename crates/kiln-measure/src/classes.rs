//! Whether two classes of inputs take different time: Welch's t of many short measurements, all of them and
//! the shorter ones only (Reparaz, Balasch, Verbauwhede, "Dude, is my code constant time?", 2017).
//!
//! A difference shows in the mean of all measurements, or, where interrupts and neighbours drown it there, in
//! that of the shorter ones: those up to a percentile of both classes together. If the two classes have one
//! distribution, each of these values of t is beyond 5 by chance once in about two million times.

/// Percentiles up to which measurements are kept.
pub const CROPS: [f64; 7] = [100.0, 99.0, 95.0, 90.0, 75.0, 50.0, 25.0];

/// From here on a difference is not due to chance.
pub const LIMIT: f64 = 5.0;

/// Fewer measurements in a class say nothing.
const FEWEST: f64 = 50.0;

/// Number, mean and variance, as they come (Welford).
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

    /// The squared standard error of the mean.
    fn error2(&self) -> f64 {
        self.squares / (self.n - 1.0) / self.n
    }
}

/// What two classes differ by, at one crop.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Difference {
    /// Which of [`CROPS`].
    pub crop: usize,
    /// Welch's: the difference in units of its own standard error. Infinite if neither class varies.
    pub t: f64,
    /// Mean of the second class less mean of the first, in the unit of the measurements.
    pub mean: f64,
    /// The least difference that would have come to [`LIMIT`].
    pub detectable: f64,
}

/// The difference at one crop; `None` with too few measurements.
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

/// The crop at which two classes differ most.
pub fn most_different(classes: [&[u32]; 2]) -> Option<Difference> {
    (0..CROPS.len())
        .filter_map(|crop| difference(classes, crop))
        .max_by(|a, b| a.t.abs().total_cmp(&b.t.abs()))
}

/// The least difference that would have come to [`LIMIT`] without the tail of the slowest tenth. Tighter crops
/// may hold a single step of the clock, and see no difference at all for all their precision.
pub fn detectable(classes: [&[u32]; 2]) -> Option<f64> {
    let crop = CROPS.iter().position(|&c| c == 90.0)?;
    Some(difference(classes, crop)?.detectable)
}

/// What two independent runs say together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finding {
    /// Both runs found the same difference: at one crop, in one direction.
    Differs,
    /// The first found one that the second did not.
    Unconfirmed,
    /// No difference was found. A smaller one may exist.
    Nothing,
}

/// `again` measures once more, and is asked only if there is something to confirm.
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

    /// A measurement as machines make them: steps of 26 ticks, a long tail, now and then an interrupt.
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
        // By hand: means 20 and 22, variances 10/99 * 2 and so on, a hundred of each.
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
    fn one_distribution_is_rarely_two() {
        let mut rng = SplitMix64(5);
        let beyond = (0..300)
            .filter(|_| compare(&classes(&mut rng, 2000, 0.0)).t.abs() >= LIMIT)
            .count();
        assert_eq!(beyond, 0);
        // The limit means something: half of it is passed now and then.
        let half = (0..300)
            .filter(|_| compare(&classes(&mut rng, 2000, 0.0)).t.abs() >= LIMIT / 2.0)
            .count();
        assert!((1..60).contains(&half), "{half}");
    }

    #[test]
    fn a_difference_under_the_clocks_step_is_found() {
        // Three ticks with a clock that steps by 26, which the interrupts hide from the mean of all.
        let mut rng = SplitMix64(6);
        let found = classes(&mut rng, 40_000, 3.0);
        let d = compare(&found);
        assert!(d.t >= LIMIT && d.crop > 0, "{d:?}");
        let uncropped = difference([&found[0], &found[1]], 0).unwrap();
        assert!(uncropped.t < LIMIT, "{uncropped:?}");
        // And what it says it can see, it sees.
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
