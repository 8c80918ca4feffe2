//! Faster, same, slower.

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
    /// No difference beyond noise was shown; not a proof that there is none.
    Same,
    /// `a` takes more cycles than `b`.
    Slower,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.pad(match self {
            Verdict::Faster => "faster",
            Verdict::Same => "same",
            Verdict::Slower => "slower",
        })
    }
}

/// `Same` unless the whole interval of `r` = cycles of a / cycles of b lies beyond 1 ± `floor`.
///
/// An interval alone would call a layout difference of 0.1 % real, and it may well be: but it is gone with the
/// next link. The floor says what is not worth a word.
pub fn verdict(r: &Ratio, floor: f64) -> Verdict {
    if r.high < 1.0 - floor {
        Verdict::Faster
    } else if r.low > 1.0 + floor {
        Verdict::Slower
    } else {
        Verdict::Same
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(low: f64, high: f64) -> Verdict {
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
        assert_eq!(of(0.98, 0.99), Verdict::Faster);
        assert_eq!(of(0.98, 0.996), Verdict::Same);
        assert_eq!(of(0.90, 1.10), Verdict::Same);
        assert_eq!(of(1.004, 1.2), Verdict::Same);
        assert_eq!(of(1.006, 1.2), Verdict::Slower);
        assert_eq!(of(f64::NAN, f64::NAN), Verdict::Same);
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
