//! Determines how small a difference this machine can resolve.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::verdict::FLOOR;

/// Grade of a check, from best to worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Grade {
    /// The value is as good as on a quiet machine.
    Ok,
    /// Results are still right, but their intervals are wider.
    Poor,
    /// Small differences measured on this machine mean nothing.
    Bad,
}

impl std::fmt::Display for Grade {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.pad(match self {
            Grade::Ok => "ok",
            Grade::Poor => "poor",
            Grade::Bad => "bad",
        })
    }
}

/// The result of one check of the machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(
    rename = "self-check",
    title = "How far results can be trusted here",
    extend(
        "x-question" = "Which differences can this machine resolve?",
        "x-commands" = ["self-check"]
    )
)]
pub struct TrustRow {
    /// Name of the check, such as `clock step`.
    #[schemars(extend("x-role" = "key"))]
    pub check: String,
    /// Result of the check, in the unit that `unit` gives.
    #[schemars(extend("x-role" = "main"))]
    pub value: f64,
    /// Unit of `value`.
    #[schemars(extend("x-role" = "figure"))]
    pub unit: String,
    /// Grade of `value`: `ok` (as on a quiet machine), `poor` (results are right, but their
    /// intervals are wider) or `bad` (do not compare small differences here).
    #[schemars(with = "String", extend("x-role" = "figure"))]
    pub verdict: Grade,
    /// Explanation of `value` in a few words.
    #[schemars(extend("x-role" = "figure"))]
    pub meaning: String,
}

/// The outcome of a self-check.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trust {
    /// All checks, in the order in which they were made.
    pub rows: Vec<TrustRow>,
    /// Percentage above which differences can be trusted; `None` if the checks were cut short or
    /// failed.
    pub percent: Option<f64>,
    /// A sentence that states the smallest trustworthy difference.
    pub sentence: String,
}

impl Trust {
    /// Returns the worst grade among all checks, or `None` if no check was made.
    pub fn worst(&self) -> Option<Grade> {
        self.rows.iter().map(|row| row.verdict).max()
    }
}

pub(crate) fn sentence(percent: Option<f64>) -> String {
    match percent {
        Some(percent) => format!("differences above {percent:.1} % can be trusted here"),
        None => {
            "no difference can be trusted here: the checks were cut short or failed".to_string()
        }
    }
}

/// Returns the smallest trustworthy difference, as a percentage. A difference is reported only if
/// its whole interval is beyond the noise floor, so the result is at least the sum of the noise
/// floor and `reach`, which is how far the interval of an unchanged subject can extend from 1, as a
/// percentage. If more than one in twenty comparisons missed a planted difference of 1%, the result
/// is at least 3%; if they missed a planted difference of 3%, it is at least 10%.
pub(crate) fn trusted(reach: f64, alarms: f64, one: f64, three: f64) -> Option<f64> {
    if alarms > 20.0 {
        return None;
    }
    let computed = 100.0 * FLOOR + reach;
    let missed = match (one >= 95.0, three >= 95.0) {
        (true, true) => 0.0,
        (false, true) => 3.0,
        (_, false) => 10.0,
    };
    Some((computed.max(missed) * 10.0).ceil() / 10.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trust_is_floor_plus_reach_or_what_was_found() {
        assert_eq!(trusted(0.11, 0.0, 100.0, 100.0), Some(0.7));
        assert_eq!(trusted(0.11, 0.0, 80.0, 100.0), Some(3.0));
        assert_eq!(trusted(0.11, 0.0, 80.0, 80.0), Some(10.0));
        assert_eq!(trusted(14.0, 0.0, 80.0, 80.0), Some(14.5));
        assert_eq!(trusted(0.11, 50.0, 100.0, 100.0), None);
    }
}
