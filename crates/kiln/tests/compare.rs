//! `kiln compare` as a user sees it.

mod common;

use std::fs;
use std::path::{Path, PathBuf};

use common::{fault, kiln};
use serde_json::{json, Value};

/// A record of `speed`: a row for each implementation, with an interval of this half width.
fn record(dir: &Path, name: &str, width: f64, cycles: &[(&str, f64)]) -> PathBuf {
    let rows: Vec<Value> = cycles
        .iter()
        .map(|(imp, cycles)| {
            json!({
                "alg": "xts(aes)", "impl": imp, "provider": "kiln", "tier": "aesni", "level": "primitive",
                "op": "encrypt", "key_bits": 256, "len": 4096, "latency": false, "cycles_per_op": cycles,
                "cycles_per_byte": cycles / 4096.0, "mb_per_s": 1.0, "ci_low": cycles * (1.0 - width),
                "ci_high": cycles * (1.0 + width), "limit_cycles": null
            })
        })
        .collect();
    let path = dir.join(name);
    let document = json!({"kiln": "0", "command": "speed", "rows": rows});
    fs::write(&path, document.to_string()).unwrap();
    path
}

fn compare(a: &Path, b: &Path, more: &[&str]) -> common::Run {
    let mut args = vec!["compare", a.to_str().unwrap(), b.to_str().unwrap()];
    args.extend(more);
    kiln(&args)
}

#[test]
fn a_planted_regression_is_found_and_noise_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let a = record(
        dir.path(),
        "a.json",
        0.003,
        &[("slow", 1000.0), ("three", 1000.0), ("noise", 1000.0)],
    );
    let b = record(
        dir.path(),
        "b.json",
        0.003,
        &[("slow", 1200.0), ("three", 1030.0), ("noise", 1004.0)],
    );
    let run = compare(&a, &b, &["--max-regression", "5", "--json"]);
    assert_eq!(run.status, 1, "{}", run.stderr);
    let rows = run.json()["rows"].as_array().unwrap().clone();
    let told: Vec<_> = rows
        .iter()
        .map(|r| (r["a"].as_f64().unwrap(), r["verdict"].as_str().unwrap()))
        .collect();
    assert_eq!(
        told,
        [(1000.0, "slower"), (1000.0, "slower"), (1000.0, "same")]
    );
    let worst = &rows[0];
    assert!(worst["key"].as_str().unwrap().contains("slow"));
    let (low, high) = (
        worst["ci_low"].as_f64().unwrap(),
        worst["ci_high"].as_f64().unwrap(),
    );
    assert!(
        low > 1.19 && low < 1.2 && high > 1.2 && high < 1.21,
        "{worst}"
    );
    let json = run.json();
    let notes = json["notes"].as_array().unwrap();
    let regressions = notes
        .iter()
        .filter(|n| n.as_str().unwrap().contains("REGRESSION"));
    assert_eq!(regressions.count(), 1);

    // Controls: the limit that is not reached, the other direction, the same file.
    assert_eq!(compare(&a, &b, &["--max-regression", "25"]).status, 0);
    assert_eq!(compare(&a, &b, &[]).status, 0);
    assert_eq!(compare(&b, &a, &["--max-regression", "5"]).status, 0);
    let same = compare(&a, &a, &["--max-regression", "0"]);
    assert_eq!(same.status, 0);
    assert!(same.stdout().contains("same"), "{}", same.stdout());
}

#[test]
fn wide_intervals_show_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let a = record(dir.path(), "a.json", 0.05, &[("i", 1000.0)]);
    let b = record(dir.path(), "b.json", 0.05, &[("i", 1060.0)]);
    let run = compare(&a, &b, &["--max-regression", "5", "--json"]);
    assert_eq!(run.status, 0);
    assert_eq!(run.json()["rows"][0]["verdict"], "same");
}

#[test]
fn real_records_of_one_machine_compare() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().to_str().unwrap();
    let run = kiln(&[
        "speed",
        "--quick",
        "--len",
        "64",
        "--impl",
        "xts-aes-generic",
        "--peers",
        "none",
        "--out",
        out,
    ]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    let file = dir.path().join("speed.json");
    let run = compare(&file, &file, &["--json", "--max-regression", "0"]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    let row = &run.json()["rows"][0];
    assert_eq!(
        (&row["ratio"], &row["verdict"]),
        (&json!(1.0), &json!("same"))
    );
}

#[test]
fn bad_input_is_one_line_and_125_for_bisect() {
    let dir = tempfile::tempdir().unwrap();
    let good = record(dir.path(), "a.json", 0.01, &[("i", 1.0)]);
    let bad = dir.path().join("bad.json");
    fs::write(&bad, "[1,2]").unwrap();
    let none = dir.path().join("none.json");
    fault(&compare(&good, &bad, &[]), 2, "no record");
    fault(&compare(&none, &good, &[]), 2, "cannot read");
    fault(
        &compare(&good, &good, &["--max-regression", "-1"]),
        2,
        "--max-regression",
    );
    fault(&kiln(&["compare", good.to_str().unwrap()]), 2, "<B>");
    fault(&compare(&good, &bad, &["--bisect"]), 125, "no record");
    // Whoever bisects must not be told that a regression is there because a figure is not.
    assert_eq!(
        compare(&good, &good, &["--bisect", "--max-regression", "5"]).status,
        0
    );
}
