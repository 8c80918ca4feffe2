//! Decides whether interrupts in FPU sections caused a loss of state, and whether the run contained
//! enough of them for a verdict.
//!
//! The control policy saves no state. Each other policy's row contains an expected number of wrong
//! results, computed on the assumption that the policy loses state as often as the control policy
//! did in the same run. If at least ln 1000 wrong results are expected, the probability of seeing
//! none is at most 0.001.

use kiln_record::view::{all_hold, Loss};
use kiln_record::{Row, RowType};

use crate::record::{number, word};

/// Minimum number of expected wrong results that allows a verdict: ln 1000.
const ENOUGH: f64 = 6.907_755_278_982_137;

/// Returns whether the expected number of wrong results in this row is at least [`ENOUGH`], so that
/// a loss of state would be noticed.
pub(crate) fn has_power(loss: &Loss, row: &Row) -> bool {
    number(row, &loss.expected).is_some_and(|n| n >= ENOUGH)
}

fn sum<'a>(rows: impl IntoIterator<Item = &'a &'a Row>, field: &str) -> f64 {
    rows.into_iter().filter_map(|r| number(r, field)).sum()
}

/// Returns the verdict on lost state that follows from these rows. Returns `None` if rows of this
/// type contain no counts of lost state, or if the rows contain no policy to judge.
pub(crate) fn lost_state(kind: &RowType, rows: &[&Row]) -> Option<String> {
    let loss = kind.view.loss.as_ref()?;
    let (results, users) = &loss.wrong;
    let real = rows.iter().copied().filter(|r| all_hold(&loss.only, r));
    let (control, judged): (Vec<&Row>, Vec<&Row>) = real.partition(|r| loss.control.holds(r));
    if judged.is_empty() {
        return None;
    }
    let count = |rows: &[&Row]| {
        format!(
            "{} wrong results and {} losses of the user's FPU registers in {} interrupts of FPU sections",
            sum(rows, results),
            sum(rows, users),
            sum(rows, &loss.hit)
        )
    };
    let wrong = sum(&judged, results) + sum(&judged, users) > 0.0;
    let mut weak: Vec<&str> = Vec::new();
    for policy in judged.iter().filter_map(|r| word(r, &loss.of)) {
        let mut of = judged.iter().filter(|r| word(r, &loss.of) == Some(policy));
        let enough = match loss.together {
            true => sum(of, &loss.expected) >= ENOUGH,
            false => of.all(|r| has_power(loss, r)),
        };
        if !enough && !weak.contains(&policy) {
            weak.push(policy);
        }
    }
    let head = match (wrong, weak.is_empty()) {
        (true, _) => "State was lost: ".to_string(),
        (false, true) => "No state was lost: ".to_string(),
        (false, false) if control.is_empty() => format!(
            "No verdict on lost state: the control that saves nothing did not run, so nothing shows that a loss under {} \
             would have been seen: ",
            weak.join(", ")
        ),
        (false, false) => format!(
            "No power, no verdict on lost state: the control that saves nothing lost {} of {}: too few losses, or too few \
             interrupts under {}, to be sure that a loss would have been seen: ",
            sum(&control, results),
            sum(&control, &loss.hit),
            weak.join(", ")
        ),
    };
    let control = match control.is_empty() {
        true => String::new(),
        false => format!(
            ". The control saves nothing, so it must have both: {}",
            count(&control)
        ),
    };
    Some(format!("{head}{}{control}.", count(&judged)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use kiln_record::row_type;
    use serde_json::{json, Value};

    fn said(kind: &str, rows: Value) -> String {
        let rows: Vec<Row> = rows
            .as_array()
            .unwrap()
            .iter()
            .map(|r| r.as_object().unwrap().clone())
            .collect();
        let rows: Vec<&Row> = rows.iter().collect();
        lost_state(row_type(kind).unwrap(), &rows).unwrap()
    }

    fn row(policy: &str, hit: u64, wrong: u64, expected: Option<f64>) -> Value {
        json!({"policy": policy, "control": false, "irqs_in_section": hit, "corrupted": wrong, "user_corrupted": 0,
               "expected_wrong": expected})
    }

    #[test]
    fn a_verdict_needs_the_control() {
        let none = row("none", 100, 50, None);
        let text = said("fpu", json!([row("nested", 1000, 0, Some(500.0)), none]));
        assert!(
            text.starts_with("No state was lost: 0 wrong results")
                && text.contains("must have both: 50 wrong results"),
            "{text}"
        );
        // The three cases: the control policy has no wrong results, no interrupt hit a section, and
        // too few interrupts hit a section under the judged policy.
        for (hit, wrong, expected) in [(100, 0, None), (0, 0, None), (100, 50, Some(1.5))] {
            let text = said(
                "fpu",
                json!([row("nested", 3, 0, expected), row("none", hit, wrong, None)]),
            );
            let want = format!("No power, no verdict on lost state: the control that saves nothing lost {wrong} of {hit}");
            assert!(text.starts_with(&want), "{text}");
        }
        let text = said("fpu", json!([row("nested", 1000, 0, None)]));
        assert!(
            text.starts_with(
                "No verdict on lost state: the control that saves nothing did not run"
            ),
            "{text}"
        );
        let text = said(
            "fpu",
            json!([
                row("nested", 1000, 1, Some(500.0)),
                row("none", 100, 50, None)
            ]),
        );
        assert!(
            text.starts_with("State was lost: 1 wrong results"),
            "{text}"
        );
    }

    #[test]
    fn empty_interrupts_are_not_judged() {
        let mut empty = row("nested", 1000, 0, None);
        empty["control"] = json!(true);
        let text = said(
            "fpu",
            json!([
                row("nested", 10, 0, Some(9.0)),
                empty,
                row("none", 10, 9, None)
            ]),
        );
        assert!(
            text.starts_with(
                "No state was lost: 0 wrong results and 0 losses of the user's FPU registers in 10 "
            ),
            "{text}"
        );
    }

    #[test]
    fn the_rows_of_a_proof_count_together() {
        let part = |expected: f64| json!({"policy": "nested", "instructions": 3, "injected": 10, "corrupted": 0, "user_corrupted": 0, "expected_wrong": expected});
        assert!(said("fpu-step", json!([part(4.0), part(4.0)])).starts_with("No state was lost"));
        assert!(said("fpu-step", json!([part(3.0), part(3.0)])).starts_with("No verdict"));
    }
}
