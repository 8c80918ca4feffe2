//! Verdicts on comparisons: faster, same or slower. A difference counts only if both cycles and
//! time show it.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::stats::Ratio;

/// Noise floor for comparisons within one process on a machine that passed the self-check: 0.5 %.
pub const FLOOR: f64 = 0.005;

/// The outcome of comparing `a` with `b`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// `a` takes fewer cycles than `b`.
    Faster,
    /// The comparison showed no difference beyond noise. This does not prove that the two are
    /// equal.
    Same,
    /// `a` takes more cycles than `b`.
    Slower,
    /// Cycles and time contradict each other beyond the noise of both, because the core's clock
    /// frequency depends on the code it runs.
    Disagree,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.pad(match self {
            Verdict::Faster => "faster",
            Verdict::Same => "same",
            Verdict::Slower => "slower",
            Verdict::Disagree => "disagree",
        })
    }
}

/// Judges `r`, the cycles of `a` divided by the cycles of `b`. The verdict is `Same` unless the
/// whole interval is beyond 1 ± `floor`.
///
/// Without the floor, a difference of 0.1 % caused by code layout would count as faster or slower.
/// Such a difference may be real, but it can disappear the next time the program is linked. The
/// floor excludes differences too small to report.
pub fn verdict(r: &Ratio, floor: f64) -> Verdict {
    if r.high < 1.0 - floor {
        Verdict::Faster
    } else if r.low > 1.0 + floor {
        Verdict::Slower
    } else {
        Verdict::Same
    }
}

/// Returns the joint verdict on the ratio of cycles and the ratio of times: `a` is faster or slower
/// only if both ratios show it.
///
/// If only one of the two ratios is beyond the floor, the verdict is `Same` unless their intervals
/// do not overlap. In that case the result depends on the unit, and the verdict is `Disagree`.
pub fn verdict_by_both(cycles: &Ratio, time: &Ratio, floor: f64) -> Verdict {
    match (verdict(cycles, floor), verdict(time, floor)) {
        (one, other) if one == other => one,
        _ if cycles.high < time.low || time.high < cycles.low => Verdict::Disagree,
        _ => Verdict::Same,
    }
}

/// Like [`verdict_by_both`], but judges only the cycles if the time is unknown, as in older
/// records.
pub fn verdict_by_known(cycles: &Ratio, time: Option<&Ratio>, floor: f64) -> Verdict {
    match time {
        Some(time) => verdict_by_both(cycles, time, floor),
        None => verdict(cycles, floor),
    }
}

/// Returns whether `a` is slower than `b` by more than `limit`: true if both cycles and time show
/// it, false if neither does, and `None` if only one does. If the time is unknown, only the cycles
/// are judged.
pub fn exceeds_by_known(cycles: &Ratio, time: Option<&Ratio>, limit: f64) -> Option<bool> {
    let slower = |r: &Ratio| verdict(r, limit) == Verdict::Slower;
    match time {
        Some(time) if slower(cycles) != slower(time) => None,
        _ => Some(slower(cycles)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(low: f64, high: f64) -> Verdict {
        verdict(
            &Ratio {
                ratio: (low + high) / 2.0,
                low,
                high,
                pairs: 20,
            },
            FLOOR,
        )
    }

    #[test]
    fn the_whole_interval_must_lie_beyond_the_floor() {
        assert_eq!(judge(0.98, 0.99), Verdict::Faster);
        assert_eq!(judge(0.98, 0.996), Verdict::Same);
        assert_eq!(judge(0.90, 1.10), Verdict::Same);
        assert_eq!(judge(1.004, 1.2), Verdict::Same);
        assert_eq!(judge(1.006, 1.2), Verdict::Slower);
        assert_eq!(judge(f64::NAN, f64::NAN), Verdict::Same);
    }

    #[test]
    fn faster_and_slower_need_cycles_and_time() {
        let ratio = |(low, high)| Ratio {
            ratio: (low + high) / 2.0,
            low,
            high,
            pairs: 20,
        };
        let both = |cycles, time| verdict_by_both(&ratio(cycles), &ratio(time), FLOOR);
        assert_eq!(both((0.89, 0.91), (0.89, 0.91)), Verdict::Faster);
        assert_eq!(both((1.19, 1.21), (1.15, 1.25)), Verdict::Slower);
        assert_eq!(both((0.99, 1.01), (0.98, 1.02)), Verdict::Same);
        // 512-bit code may need only 90 % of the cycles, but lower the clock frequency to 80 %.
        assert_eq!(both((0.89, 0.91), (1.11, 1.14)), Verdict::Disagree);
        assert_eq!(both((0.89, 0.91), (0.99, 1.01)), Verdict::Disagree);
        assert_eq!(both((1.11, 1.14), (0.89, 0.91)), Verdict::Disagree);
        // If one of the two intervals is so wide that it contains 1, it neither contradicts nor
        // confirms the other.
        assert_eq!(both((0.89, 0.91), (0.85, 1.10)), Verdict::Same);
        assert_eq!(both((0.85, 1.10), (0.89, 0.91)), Verdict::Same);
    }

    #[test]
    fn without_a_time_cycles_decide() {
        let ratio = |low, high| Ratio {
            ratio: (low + high) / 2.0,
            low,
            high,
            pairs: 20,
        };
        let (cycles, time) = (ratio(0.89, 0.91), ratio(1.11, 1.14));
        let by = |time| verdict_by_known(&cycles, time, FLOOR);
        assert_eq!(by(None), Verdict::Faster);
        assert_eq!(by(Some(&cycles)), Verdict::Faster);
        assert_eq!(by(Some(&time)), Verdict::Disagree);
    }

    #[test]
    fn a_limit_is_exceeded_by_both_or_cannot_be_judged() {
        let ratio = |(low, high)| Ratio {
            ratio: (low + high) / 2.0,
            low,
            high,
            pairs: 20,
        };
        let exceeds = |cycles, time| exceeds_by_known(&ratio(cycles), Some(&ratio(time)), 0.05);
        let (faster, equal, slower, unsure) = ((0.8, 0.82), (0.99, 1.01), (1.1, 1.12), (0.9, 1.3));
        assert_eq!(exceeds(slower, slower), Some(true));
        for other in [faster, equal, unsure] {
            assert_eq!(exceeds(slower, other), None);
            assert_eq!(exceeds(other, slower), None);
            // The two units disagree strongly, but neither shows a slowdown beyond the limit.
            assert_eq!(exceeds(faster, other), Some(false));
        }
        let alone = |cycles| exceeds_by_known(&ratio(cycles), None, 0.05);
        assert_eq!((alone(slower), alone(unsure)), (Some(true), Some(false)));
    }

    #[test]
    fn words() {
        assert_eq!(format!("[{:>7}]", Verdict::Same), "[   same]");
        assert_eq!(
            serde_json::to_string(&Verdict::Slower).unwrap(),
            "\"slower\""
        );
    }
}
