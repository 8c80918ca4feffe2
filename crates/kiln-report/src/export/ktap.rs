//! Checks as the kernel's tools take them (Documentation/dev-tools/ktap.rst).

use kiln_record::{type_of, RowType};

use crate::error::Error;
use crate::record::{self, is, number, word, Row};
use crate::side::Side;
use crate::verdict::{has_power, is_control};

/// How a row came out.
enum Came {
    Ok,
    NotOk(String),
    Skipped(String),
}

/// All rows that are checks: a version line, a plan, a line for each.
pub fn text(sides: &[Side]) -> Result<String, Error> {
    let mut lines: Vec<String> = Vec::new();
    for side in sides {
        for record in &side.records {
            for row in record::rows(record) {
                let kind = type_of(record);
                let Some(came) = came(kind, row) else {
                    continue;
                };
                let mut name = kind.key(row, false).join(", ");
                if sides.len() > 1 {
                    name = format!("{}: {name}", side.name);
                }
                lines.push(line(lines.len() + 1, &name, came));
            }
        }
    }
    if lines.is_empty() {
        return Err(Error::new(
            "no row there is a check: ktap wants records of test, fpu, compilers, compare, virtio-check or linux selftest",
        ));
    }
    let plan = format!("KTAP version 1\n1..{}\n", lines.len());
    Ok(plan + &lines.concat())
}

fn came(kind: &RowType, row: &Row) -> Option<Came> {
    let reason = || word(row, "reason").unwrap_or_default().to_string();
    let wrong = |n: f64, what: &str| match n {
        0.0 => Came::Ok,
        n => Came::NotOk(format!("{n} {what}")),
    };
    Some(match kind.name.as_str() {
        "test" => match (number(row, "failed")?, number(row, "skipped")?) {
            (0.0, 0.0) => Came::Ok,
            (0.0, _) => Came::Skipped(reason()),
            (n, _) => Came::NotOk(format!("{n} cases failed")),
        },
        "constant-time" => match is(row, "failed") {
            true => Came::NotOk(word(row, "finding")?.to_string()),
            false => Came::Ok,
        },
        "virtio-check" => match word(row, "status")? {
            "pass" => Came::Ok,
            "skip" => Came::Skipped(word(row, "note").unwrap_or_default().to_string()),
            _ => Came::NotOk(word(row, "note").unwrap_or("failed").to_string()),
        },
        "linux-selftest" | "linux-virtio" => match word(row, "selftest")? {
            "passed" => Came::Ok,
            "failed" => Came::NotOk(reason()),
            other => Came::Skipped(other.to_string()),
        },
        "linux-fidelity" => match row.get("agree")?.as_bool() {
            Some(true) => Came::Ok,
            Some(false) => Came::NotOk("the answers differ".to_string()),
            None => Came::Skipped("not asked".to_string()),
        },
        // The control that saves nothing is there to be wrong.
        "fpu" | "fpu-esp" | "fpu-step" if !is_control(row) => {
            let came = wrong(
                number(row, "corrupted")? + number(row, "user_corrupted")?,
                "wrong",
            );
            // The control that saves nothing vouches for rows of its own load; empty interrupts have nothing to lose.
            let judged = kind.name == "fpu" && !is(row, "control");
            match came {
                Came::Ok if judged && !has_power(row) => {
                    Came::Skipped("no power: a loss would not have been seen".to_string())
                }
                came => came,
            }
        }
        "compilers" => match word(row, "status")? {
            "ok" => Came::Ok,
            "absent" => Came::Skipped(reason()),
            other => Came::NotOk(format!("{other} {}", reason())),
        },
        "compare" => match word(row, "verdict") {
            Some("slower") => Came::NotOk("slower".to_string()),
            Some("disagree") => Came::Skipped("cycles and time disagree".to_string()),
            Some(_) => Came::Ok,
            None => Came::Skipped("no interval".to_string()),
        },
        _ => return None,
    })
}

fn line(n: usize, name: &str, came: Came) -> String {
    // A line ends a line. A hash begins a directive, and the kernel's parser knows no escape: a name has none.
    let plain = |text: &str| text.replace(char::is_control, " ");
    let name = plain(name).replace('#', "_");
    match came {
        Came::Ok => format!("ok {n} - {name}\n"),
        Came::NotOk(why) => format!("# {}\nnot ok {n} - {name}\n", plain(why.trim())),
        Came::Skipped(why) => format!("ok {n} - {name} # SKIP {}\n", plain(&why)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{json, Value};

    fn of(command: &str, rows: Value) -> Result<String, Error> {
        text(&[Side::of("s", json!({"command": command, "rows": rows})).unwrap()])
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
            of("test", rows).unwrap(),
            "KTAP version 1\n1..3\n\
             ok 1 - xts(aes), a, vectors, task\n\
             # 2 cases failed\n\
             not ok 2 - xts(aes), b_c, vectors, task\n\
             ok 3 - xts(aes), d, vectors, task # SKIP no tier\n"
        );
    }

    #[test]
    fn what_the_control_cannot_vouch_for_is_skipped() {
        let row = |policy: &str, n: u64, expected: Option<f64>| json!({"policy": policy, "load": "xts-16", "corrupted": n, "user_corrupted": 0, "expected_wrong": expected});
        let text = of(
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
            text.contains("ok 1 - a, xts-16\nok 2 - b, xts-16 # SKIP no power"),
            "{text}"
        );
        assert!(text.contains("ok 3 - c, xts-16 # SKIP no power"), "{text}");
        assert!(text.contains("not ok 4 - d"), "{text}");
    }

    #[test]
    fn a_comparison_that_depends_on_the_unit_is_no_pass() {
        let row = |verdict: &str| json!({"key": verdict, "unit": "cycles_per_op", "a": 1.0, "b": 1.0, "verdict": verdict});
        let text = of(
            "compare",
            json!([row("disagree"), row("slower"), row("same")]),
        )
        .unwrap();
        for line in [
            "ok 1 - disagree, cycles_per_op # SKIP cycles and time disagree",
            "not ok 2 - slower",
            "ok 3 - same, cycles_per_op\n",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
    }

    #[test]
    fn the_broken_control_is_no_check_and_its_neighbours_are() {
        let row = |policy: &str, n: u64| json!({"policy": policy, "load": "xts-16", "corrupted": n, "user_corrupted": 0});
        let text = of(
            "fpu",
            json!([row("legacy", 0), row("nested", 1), row("none", 9)]),
        )
        .unwrap();
        assert!(
            text.contains("1..2") && text.contains("not ok 2 - nested"),
            "{text}"
        );
        let e = of("list", json!([{"kind": "tier", "name": "x"}])).unwrap_err();
        assert!(e.to_string().contains("no row there is a check"), "{e}");
    }
}
