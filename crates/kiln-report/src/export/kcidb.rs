//! Exports reports for KernelCI's database, following version 5.3 of the schema in kcidb-io. The
//! build under test is Kiln itself, and the compiler is the one that built Kiln's kernel code.
//! `crates/kiln/tests/exports.rs` validates the reports with kcidb-io.

use std::collections::BTreeMap;

use serde_json::{json, Value};
use sha2::{Digest, Sha256};

use crate::error::Error;
use crate::ktap::Verdict;
use crate::record::{self, origin};
use crate::side::Side;

use kiln_record::view::all_hold;

use super::ktap::judge;
use super::result::{results, to_text, Result as Row};

/// Name of the CI system that submits the reports. Every identifier begins with this name. Any
/// other CI system that submits these reports must replace it with its own name.
const ORIGIN: &str = "kiln";

/// Exports every row as a test with at most one result. The status of a check is its verdict; the
/// status of a measurement is DONE.
pub(super) fn text(sides: &[Side]) -> Result<String, Error> {
    let mut builds: BTreeMap<String, Value> = BTreeMap::new();
    let mut tests: Vec<Value> = Vec::new();
    for (n, one) in results(sides).enumerate() {
        let from = origin(one.record);
        let id = format!("{ORIGIN}:{}", digest(&[&from.commit, &from.compiler]));
        builds.entry(id.clone()).or_insert_with(|| {
            json!({"id": id, "checkout_id": format!("{ORIGIN}:{}", digest(&[&from.commit])), "origin": ORIGIN,
                   "comment": format!("Kiln {}", from.commit), "architecture": "x86_64", "compiler": from.compiler})
        });
        tests.push(test(&one, n, &id, sides.len()));
    }
    if tests.is_empty() {
        return Err(Error::new(
            "there are no rows: kcidb wants records with rows",
        ));
    }
    let document = json!({
        "version": {"major": 5, "minor": 3},
        "builds": builds.into_values().collect::<Vec<_>>(),
        "tests": tests,
    });
    Ok(to_text(&document))
}

fn test(one: &Row, n: usize, build: &str, sides: usize) -> Value {
    let record = one.record;
    let from = origin(record);
    let words = one.words(sides, false).join(", ");
    let (text, place) = (record.to_string(), n.to_string());
    let mut test = json!({
        "id": format!("{ORIGIN}:{}", digest(&[&text, &place])),
        "build_id": build,
        "origin": ORIGIN,
        "path": one.path(1),
        "comment": words,
        "status": "DONE",
        "environment": {"comment": from.machine, "misc": record.get("machine").cloned().unwrap_or(json!({}))},
        "misc": one.row,
    });
    if let Some(date) = record::date(record) {
        test["start_time"] = json!(date);
    }
    let check = one.kind.view.check.as_ref();
    if let Some(check) = check.filter(|check| all_hold(&check.only, one.row)) {
        let (verdict, why) = judge(one.kind, check, one.row);
        let (status, why) = match verdict {
            Verdict::Ok => ("PASS", String::new()),
            Verdict::NotOk => ("FAIL", why),
            Verdict::Skip(why) => ("SKIP", why),
        };
        test["status"] = json!(status);
        if !why.is_empty() {
            test["comment"] = json!(format!("{words}: {why}"));
        }
    }
    // A skipped test does not have a result.
    if test["status"] != "SKIP" {
        if let Some(number) = number(one) {
            test["number"] = number;
        }
    }
    test
}

/// Returns the row's time if it has one, and otherwise its first main result. A time is exported in
/// seconds, with `"prefix": "metric"` so that the reader can scale it to a unit such as ns.
fn number(one: &Row) -> Option<Value> {
    if let Some(time) = one.time() {
        return Some(json!({"value": time.value / 1e9, "unit": "s", "prefix": "metric"}));
    }
    let (field, figure) = one.main()?;
    Some(match &field.unit {
        Some(unit) => json!({"value": figure.value, "unit": unit}),
        None => json!({"value": figure.value}),
    })
}

fn digest(parts: &[&str]) -> String {
    let digest = Sha256::digest(parts.join("\n"));
    digest[..10]
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checks_have_verdicts_and_measurements_have_numbers() {
        let record = |kind: &str, rows: Value| {
            let record = json!({"kiln": "1", "commit": "c", "schema": 2, "command": kind, "type": kind, "args": [],
                "seed": 1, "date": "2026-11-24T00:00:00Z", "machine": {"core_hz": 4e9, "model": "m", "kernel_cc": "gcc"},
                "rows": rows, "notes": []});
            Side::new(kind, record).unwrap()
        };
        let check = |imp: &str, failed: u64, skipped: u64| {
            json!({"alg": "gcm(aes)", "impl": imp, "suite": "s", "context": "task", "tiers": "generic", "cases": 9,
                   "failed": failed, "skipped": skipped, "reason": null})
        };
        let sides = [
            record(
                "speed",
                json!([{"alg": "xts(aes)", "impl": "i", "op": "encrypt", "len": 16, "cycles_per_op": 40.0}]),
            ),
            record(
                "test",
                json!([check("a", 0, 0), check("b", 2, 0), check("c", 0, 1)]),
            ),
        ];
        let document: Value = serde_json::from_str(&text(&sides).unwrap()).unwrap();
        let tests = document["tests"].as_array().unwrap();
        let statuses: Vec<&Value> = tests.iter().map(|t| &t["status"]).collect();
        assert_eq!(statuses, ["DONE", "PASS", "FAIL", "SKIP"]);
        assert_eq!(tests[0]["path"], "speed.xts_aes.encrypt.16_B.i");
        assert_eq!(
            tests[0]["number"],
            json!({"value": 1e-8, "unit": "s", "prefix": "metric"})
        );
        assert!(tests[3].get("number").is_none());
        assert!(tests[2]["comment"].as_str().unwrap().contains("2 failed"));
        assert_eq!(document["builds"].as_array().unwrap().len(), 1);
        let mut ids: Vec<&str> = tests.iter().map(|t| t["id"].as_str().unwrap()).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), 4);
    }
}
