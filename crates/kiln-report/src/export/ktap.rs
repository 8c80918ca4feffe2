//! Exports checks as KTAP, a format that the kernel's tools read.

use kiln_record::view::{all_hold, Check, Term};
use kiln_record::{type_of, RowType};
use serde_json::Value;

use crate::error::Error;
use crate::ktap::{Ktap, Verdict};
use crate::number::value;
use crate::record::{self, word, Row};
use crate::side::Side;
use crate::verdict::has_power;

/// Exports all rows that are checks.
pub(super) fn text(sides: &[Side]) -> Result<String, Error> {
    let mut lines: Vec<(String, Verdict, String)> = Vec::new();
    for side in sides {
        for record in &side.records {
            let kind = type_of(record);
            let Some(check) = &kind.view.check else {
                continue;
            };
            for row in record::rows(record).filter(|row| all_hold(&check.only, row)) {
                let mut name = kind.key(row, false).join(", ");
                if sides.len() > 1 {
                    name = format!("{}: {name}", side.name);
                }
                let (verdict, why) = judge(kind, check, row);
                lines.push((name, verdict, why));
            }
        }
    }
    if lines.is_empty() {
        return Err(Error::new(
            "no row there is a check: ktap wants records of test, fpu, compilers, compare, virtio-check or linux selftest",
        ));
    }
    let mut out = Vec::new();
    let mut ktap = Ktap::new(&mut out, lines.len(), &[]);
    for (name, verdict, why) in lines {
        if verdict == Verdict::NotOk {
            ktap.comment(&why);
        }
        ktap.result(&name, verdict);
    }
    ktap.finish().expect("a vector takes all bytes");
    Ok(String::from_utf8(out).expect("lines are texts"))
}

/// Returns the verdict on a row that is a check, and a description of what failed. The description
/// is empty unless the check failed.
pub(super) fn judge(kind: &RowType, check: &Check, row: &Row) -> (Verdict, String) {
    let holding = |terms: &[Term]| -> Vec<String> {
        let holding = terms.iter().filter(|term| term.holds(row));
        holding.map(|term| say(kind, &term.field, row)).collect()
    };
    let why = word(row, &check.why);
    let failed = holding(&check.fail);
    if !failed.is_empty() {
        let why = why.map(|w| format!(": {w}")).unwrap_or_default();
        return (Verdict::NotOk, failed.join(", ") + &why);
    }
    let skipped = holding(&check.skip);
    if !skipped.is_empty() {
        let why = why.map_or_else(|| skipped.join(", "), str::to_string);
        return (Verdict::Skip(why), String::new());
    }
    // A check without enough statistical power to reveal a loss counts as skipped. This applies
    // only to rows in which state could be lost and that are judged one by one.
    let loss = kind.view.loss.as_ref();
    let loss = loss.filter(|loss| !loss.together && all_hold(&loss.only, row));
    let verdict = match loss.is_some_and(|loss| !has_power(loss, row)) {
        true => Verdict::Skip("no power: a loss would not have been seen".to_string()),
        false => Verdict::Ok,
    };
    (verdict, String::new())
}

/// Formats a field in words, such as `2 failed` or `status crashed`.
fn say(kind: &RowType, name: &str, row: &Row) -> String {
    let heading = kind.field(name).map_or(name, |f| &f.heading);
    match row.get(name).unwrap_or(&Value::Null) {
        Value::Null => format!("{heading} unknown"),
        Value::Bool(true) => heading.to_string(),
        Value::Number(n) => format!("{n} {heading}"),
        other => format!("{heading} {}", value(other)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn export(command: &str, rows: Value) -> Result<String, Error> {
        text(&[Side::new("s", json!({"command": command, "rows": rows})).unwrap()])
    }

    #[test]
    fn a_plan_and_a_line_for_each_check() {
        let rows = json!([
            {"alg": "xts(aes)", "impl": "a", "suite": "vectors", "context": "task", "cases": 3, "failed": 0, "skipped": 0},
            {"alg": "xts(aes)", "impl": "b#c", "suite": "vectors", "context": "task", "cases": 3, "failed": 2, "skipped": 0},
            {"alg": "xts(aes)", "impl": "d", "suite": "vectors", "context": "task", "cases": 0, "failed": 0, "skipped": 1,
             "reason": "no\ntier"},
        ]);
        assert_eq!(
            export("test", rows).unwrap(),
            "KTAP version 1\n1..3\n\
             ok 1 xts(aes), a, vectors, task\n\
             # 2 failed\n\
             not ok 2 xts(aes), b_c, vectors, task\n\
             ok 3 xts(aes), d, vectors, task # SKIP no tier\n"
        );
    }

    #[test]
    fn what_the_control_cannot_vouch_for_is_skipped() {
        let row = |policy: &str, n: u64, expected: Option<f64>| json!({"policy": policy, "load": "xts-16", "corrupted": n, "user_corrupted": 0, "expected_wrong": expected});
        let text = export(
            "fpu",
            json!([
                row("a", 0, Some(7.0)),
                row("b", 0, Some(6.0)),
                row("c", 0, None),
                row("d", 1, None)
            ]),
        )
        .unwrap();
        assert!(
            text.contains("ok 1 a, xts-16\nok 2 b, xts-16 # SKIP no power"),
            "{text}"
        );
        assert!(text.contains("ok 3 c, xts-16 # SKIP no power"), "{text}");
        assert!(text.contains("not ok 4 d"), "{text}");
    }

    #[test]
    fn a_comparison_that_depends_on_the_unit_is_no_pass() {
        let row = |verdict: &str| json!({"key": verdict, "unit": "cycles_per_op", "a": 1.0, "b": 1.0, "verdict": verdict});
        let text = export(
            "compare",
            json!([row("disagree"), row("slower"), row("same")]),
        )
        .unwrap();
        for line in [
            "ok 1 disagree, cycles_per_op # SKIP verdict disagree",
            "# verdict slower\nnot ok 2 slower",
            "ok 3 same, cycles_per_op\n",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
    }

    #[test]
    fn the_broken_control_is_no_check_and_its_neighbours_are() {
        let row = |policy: &str, n: u64| json!({"policy": policy, "load": "xts-16", "corrupted": n, "user_corrupted": 0});
        let text = export(
            "fpu",
            json!([row("legacy", 0), row("nested", 1), row("none", 9)]),
        )
        .unwrap();
        assert!(
            text.contains("1..2") && text.contains("not ok 2 nested"),
            "{text}"
        );
        let e = export("list", json!([{"kind": "tier", "name": "x"}])).unwrap_err();
        assert!(e.to_string().contains("no row there is a check"), "{e}");
    }
}
