//! Tests `kiln compare` from a user's point of view.

use std::fs;
use std::path::{Path, PathBuf};

use crate::common::{fault, kiln};
use serde_json::{json, Value};

/// Writes a record of `speed` with one row per implementation. `width` is half the width of the
/// interval relative to the value.
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

fn compare(a: &Path, b: &Path, more: &[&str]) -> crate::common::Run {
    let mut args = vec!["compare", a.to_str().unwrap(), b.to_str().unwrap()];
    args.extend(more);
    kiln(&args)
}

#[test]
fn a_record_compared_with_itself_is_noted() {
    let dir = tempfile::tempdir().unwrap();
    let a = record(dir.path(), "a.json", 0.01, &[("a", 100.0)]);
    let copy = dir.path().join("copy.json");
    fs::copy(&a, &copy).unwrap();
    for b in [&a, &copy] {
        let run = compare(&a, b, &[]);
        assert!(run.stdout().contains("the same record"), "{run:?}");
    }
    // Control: this record has different results.
    let b = record(dir.path(), "b.json", 0.01, &[("a", 101.0)]);
    let run = compare(&a, &b, &[]);
    assert!(!run.stdout().contains("the same record"), "{run:?}");
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

    // Controls: a limit that is not exceeded, a change in the opposite direction, and identical
    // files.
    assert_eq!(compare(&a, &b, &["--max-regression", "25"]).status, 0);
    assert_eq!(compare(&a, &b, &[]).status, 0);
    assert_eq!(compare(&b, &a, &["--max-regression", "5"]).status, 0);
    let same = compare(&a, &a, &["--max-regression", "0"]);
    assert_eq!(same.status, 0);
    assert!(same.stdout().contains("same"), "{}", same.stdout());
}

#[test]
fn a_gate_needs_cycles_and_time() {
    let dir = tempfile::tempdir().unwrap();
    let record = |name: &str, cycles: f64, ns: Option<f64>| {
        let mut row = json!({"alg": "xts(aes)", "impl": "i", "cycles_per_op": cycles, "ci_low": 0.998 * cycles,
                             "ci_high": 1.002 * cycles});
        if let Some(ns) = ns {
            let time = json!({"ns_per_op": ns, "ns_low": 0.998 * ns, "ns_high": 1.002 * ns});
            row.as_object_mut()
                .unwrap()
                .extend(time.as_object().unwrap().clone());
        }
        write(
            dir.path(),
            name,
            &json!({"kiln": "0", "command": "speed", "rows": [row]}),
        )
    };
    let a = record("a.json", 1000.0, Some(250.0));
    // At a lower clock frequency, 512-bit code takes fewer cycles but more time. At a higher clock
    // frequency, it takes more cycles but less time.
    let lower = record("lower.json", 900.0, Some(300.0));
    let higher = record("higher.json", 1100.0, Some(230.0));
    let gate = ["--max-regression", "5"];
    for b in [&lower, &higher] {
        let run = compare(&a, b, &["--max-regression", "5", "--json"]);
        assert_eq!(run.status, 1, "{}", run.stdout());
        let record = run.json();
        assert_eq!(record["rows"][0]["verdict"], "disagree");
        let notes = record["notes"].to_string();
        for said in [
            "the core's clock was not the same",
            "UNJUDGED",
            "0 equal; 1 disagree; 0 unjudged",
        ] {
            assert!(notes.contains(said), "{said}: {notes}");
        }
        assert!(!notes.contains("REGRESSION"), "{notes}");
        let bisect = ["--max-regression", "5", "--bisect"];
        assert_eq!(compare(&a, b, &bisect).status, 125);
        let allow = ["--max-regression", "5", "--allow-unjudged"];
        assert_eq!(compare(&a, b, &allow).status, 0);
        assert_eq!(compare(&a, b, &[]).status, 0);
    }
    // Controls: if cycles and time agree, a slower record must be a regression, and a faster record
    // must pass.
    let slower = record("slower.json", 1100.0, Some(275.0));
    let run = compare(&a, &slower, &gate);
    assert!(run.status == 1 && run.stdout().contains("REGRESSION"));
    assert_eq!(compare(&slower, &a, &gate).status, 0);
    // If an old record lacks times, the comparison must use cycles and add a note.
    let old = record("old.json", 1000.0, None);
    let run = compare(&old, &lower, &gate);
    assert!(run.status == 0 && run.stdout().contains("judged by cycles alone: 1"));
    assert_eq!(compare(&old, &higher, &gate).status, 1);
}

/// Writes a record for an arbitrary command.
fn write(dir: &Path, name: &str, record: &Value) -> PathBuf {
    let path = dir.join(name);
    fs::write(&path, record.to_string()).unwrap();
    path
}

#[test]
fn a_gate_passes_nothing_that_it_cannot_judge() {
    let dir = tempfile::tempdir().unwrap();
    let row = |mode: &str, pairs: f64, width: Option<f64>| {
        json!({"mode": mode, "workers": 8, "session": "akcipher", "ctrl": "thread", "depth": 1, "ops_per_s": 2.0 * pairs,
               "pairs_per_s": pairs, "pairs_per_s_low": width.map(|w| pairs * (1.0 - w)),
               "pairs_per_s_high": width.map(|w| pairs * (1.0 + w))})
    };
    let record = |name: &str, rows: Vec<Value>| {
        let document = json!({"kiln": "0", "command": "ctrlq", "args": ["ctrlq"], "rows": rows});
        write(dir.path(), name, &document)
    };
    let a = record(
        "a.json",
        vec![row("poll", 1000.0, Some(0.01)), row("wait", 1000.0, None)],
    );
    let slow = record(
        "b.json",
        vec![row("poll", 1000.0, Some(0.01)), row("wait", 1.0, None)],
    );
    let gate = ["--max-regression", "5"];
    let run = compare(&a, &slow, &gate);
    assert_eq!(run.status, 1, "{}", run.stdout());
    assert!(run.stdout().contains("--allow-unjudged"));
    let counts = "1 judged: 0 faster, 0 slower, 1 equal; 1 unjudged; 0 only in A, 0 only in B";
    let stdout = run.stdout();
    let own = |l: &&str| !l.starts_with("warning") && !l.starts_with(' ');
    assert_eq!(stdout.lines().rfind(own), Some(counts));
    assert_eq!(
        compare(&a, &slow, &["--max-regression", "5", "--allow-unjudged"]).status,
        0
    );
    assert_eq!(
        compare(&a, &slow, &["--max-regression", "5", "--bisect"]).status,
        125
    );
    assert_eq!(compare(&a, &slow, &[]).status, 0);
    fault(
        &compare(&a, &slow, &["--allow-unjudged"]),
        2,
        "--max-regression",
    );
    // If the rows have intervals, a lower rate must count as a regression, even with --bisect. A
    // higher rate must pass.
    let good = record("c.json", vec![row("wait", 1000.0, Some(0.01))]);
    let bad = record("d.json", vec![row("wait", 940.0, Some(0.002))]);
    assert_eq!(compare(&good, &bad, &gate).status, 1);
    assert_eq!(
        compare(&good, &bad, &["--max-regression", "5", "--bisect"]).status,
        1
    );
    assert_eq!(compare(&bad, &good, &gate).status, 0);
    // A row that exists on only one side must also cause status 1.
    assert_eq!(compare(&a, &good, &gate).status, 1);
}

/// A commit message must state what was measured, and give a verdict for every row.
#[test]
fn a_commit_message_says_what_was_measured() {
    let dir = tempfile::tempdir().unwrap();
    let row = |imp: &str, len: u64, cycles: f64, width: Option<f64>| {
        json!({
            "alg": "xts(aes)", "impl": imp, "provider": "kiln", "level": "primitive", "op": "encrypt", "key_bits": 256,
            "len": len, "latency": false, "cycles_per_op": cycles, "ci_low": width.map(|w| cycles * (1.0 - w)),
            "ci_high": width.map(|w| cycles * (1.0 + w))
        })
    };
    let record = |name: &str, commit: &str, quick: bool, rows: Vec<Value>| {
        let mut args = vec!["speed", "xts(aes)", "--json"];
        args.extend(quick.then_some("--quick"));
        let document = json!({
            "kiln": "0.1.0", "commit": commit, "date": "2026-11-22T15:33:07Z", "schema": 2, "type": "speed",
            "command": "speed", "seed": 7, "args": args, "rows": rows,
            "machine": {
                "model": "Intel(R) Xeon(R)  Processor", "family": 6, "model_number": 106, "cores": 2, "kernel": "6.1.0-18-amd64",
                "hypervisor_vendor": "KVMKVMKVM", "kernel_cc": "/usr/bin/cc (cc (Debian 12.2.0-14) 12.2.0)"
            }
        });
        write(dir.path(), name, &document)
    };
    let before = vec![
        row("xts-aes-aesni", 64, 100.0, Some(0.001)),
        row("xts-aes-aesni", 512, 1000.0, Some(0.001)),
        row("xts-aes-aesni", 4096, 8000.0, None),
    ];
    let after = vec![
        row("xts-aes-aesni", 64, 120.0, Some(0.001)),
        row("xts-aes-aesni", 512, 1001.0, Some(0.001)),
        row("xts-aes-aesni", 4096, 8100.0, None),
    ];
    let a = record("before.json", "312f00c", true, before);
    let b = record("after.json", "4a5b6c7", true, after.clone());
    let message = |a: &Path, b: &Path| {
        let dir = dir.path().to_str().unwrap();
        let [a, b] = [a, b].map(|p| p.file_name().unwrap().to_str().unwrap());
        let run = kiln(&["-C", dir, "compare", a, b, "--format", "commit-message"]);
        assert_eq!(run.status, 0, "{run:?}");
        for line in run.stdout().lines() {
            assert!(line.chars().count() <= 72, "{line}");
        }
        run.stdout().to_string()
    };
    let wanted = "
    Before: before.json, of 2026-11-22
    After: after.json, of 2026-11-22
    CPU: Intel Xeon Processor (family 6 model 106), 2 cores, under KVM
    Compiler: cc (Debian 12.2.0-14) 12.2.0
    Measured by (before): Kiln 0.1.0 (312f00c), in a process on Linux
      6.1.0-18-amd64
    Measured by (after): Kiln 0.1.0 (4a5b6c7), in a process on Linux
      6.1.0-18-amd64
    Command: kiln speed 'xts(aes)' --quick
    Measured with --quick: a short run, whose intervals are wider
    Unit: cycles per call, less is better
    In parentheses: range that the intervals of both results allow

    xts(aes) encrypt, 256 bit, called directly
      length  before  after  change
      ------  ------  -----  ---------------------------------
    xts-aes-aesni (kiln)
          64     100    120   +20.0% (+19.8..+20.2%)  slower
         512    1000   1001  no difference found (-0.1..+0.3%)
        4096    8000   8100  cannot tell: no interval
";
    assert_eq!(message(&a, &b), wanted.trim_start_matches('\n'));

    // Control: a run without --quick must not be mistaken for a quick one.
    let long = record("long.json", "4a5b6c7", false, after);
    let text = message(&a, &long);
    assert!(
        text.contains("    Before was measured with --quick: "),
        "{text}"
    );
    assert!(!message(&long, &long).contains("--quick"));
}

#[test]
fn nothing_in_common_is_2_and_one_line() {
    let dir = tempfile::tempdir().unwrap();
    let a = record(dir.path(), "a.json", 0.01, &[("i", 1.0)]);
    let b = record(dir.path(), "b.json", 0.01, &[("j", 1.0)]);
    fault(&compare(&a, &b, &[]), 2, "nothing in common");
    fault(
        &compare(&a, &b, &["--max-regression", "5", "--allow-unjudged"]),
        2,
        "nothing in common",
    );
    let bisect = ["--bisect", "--max-regression", "5"];
    fault(&compare(&a, &b, &bisect), 125, "nothing in common");
}

#[test]
fn conditions_that_differ_are_noted_and_packets_compared() {
    let dir = tempfile::tempdir().unwrap();
    let esp = |name: &str, model: &str, slice: &str, packets: f64| {
        let row = json!({"policy": "legacy", "load": "esp", "task_mb_per_s": 9000.0, "task_mb_per_s_low": 8900.0,
                         "task_mb_per_s_high": 9100.0, "esp_mb_per_s": packets, "esp_mb_per_s_low": packets * 0.98,
                         "esp_mb_per_s_high": packets * 1.02});
        let document = json!({"kiln": "0.1.0", "command": "ipsec", "seed": 1,
                              "args": ["ipsec", "--slice-us", slice, "--out", name],
                              "machine": {"model": model, "family": 6, "model_number": 1, "cores": 2, "kernel": "6.1"}, "rows": [row]});
        write(dir.path(), name, &document)
    };
    let a = esp("a.json", "EPYC", "3000", 343.0);
    let b = esp("b.json", "Xeon", "200", 127.0);
    let run = compare(&a, &b, &["--max-regression", "5", "--json"]);
    assert_eq!(run.status, 1);
    let json = run.json();
    let worst = &json["rows"][0];
    assert_eq!(
        (&worst["unit"], &worst["verdict"]),
        (&json!("esp_mb_per_s"), &json!("slower"))
    );
    assert_eq!(json["rows"][1]["verdict"], "same");
    let notes: Vec<&str> = json["notes"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(Value::as_str)
        .collect();
    let differs: Vec<&&str> = notes
        .iter()
        .filter(|n| n.starts_with("differs: "))
        .collect();
    assert_eq!(
        differs,
        [
            &"differs: CPU: A EPYC (family 6 model 1), 2 cores; B Xeon (family 6 model 1), 2 cores",
            &"differs: arguments of ipsec: A ipsec --slice-us 3000; B ipsec --slice-us 200"
        ]
    );
    // Control: comparing a record with itself must not report a difference.
    let same = compare(&a, &a, &["--max-regression", "0", "--json"]);
    assert_eq!(same.status, 0);
    assert!(!same.json()["notes"].to_string().contains("differs"));
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
    fault(&compare(&good, &bad, &[]), 2, "not a record");
    fault(
        &compare(&none, &good, &[]),
        2,
        "no file, directory or git revision",
    );
    fault(
        &compare(&good, &good, &["--max-regression", "-1"]),
        2,
        "--max-regression",
    );
    fault(&kiln(&["compare", good.to_str().unwrap()]), 2, "<B>");
    // Without a limit, a regression would count as a good commit.
    fault(&compare(&good, &good, &["--bisect"]), 2, "--max-regression");
    let bisect = ["--bisect", "--max-regression", "5"];
    fault(&compare(&good, &bad, &bisect), 125, "not a record");
    // An invalid baseline is invalid for all commits, so the status must make git bisect stop.
    fault(&compare(&bad, &good, &bisect), 128, "not a record");
    // With --bisect, a missing result must not count as a regression.
    assert_eq!(compare(&good, &good, &bisect).status, 0);
}

#[test]
fn no_escape_sequence_of_a_record_reaches_the_terminal() {
    let dir = tempfile::tempdir().unwrap();
    // One name appears in a row, and the other in the note about rows that exist on only one side.
    let rows = [("both\x1b[2Jx", 1000.0), ("alone\x1b[1A\u{9b}2Kx", 1000.0)];
    let a = record(dir.path(), "a.json", 0.003, &rows);
    let b = record(dir.path(), "b.json", 0.003, &rows[..1]);
    for more in [&[][..], &["--format", "commit-message"]] {
        let run = compare(&a, &b, more);
        for text in [&run.stdout(), &run.stderr] {
            assert!(!text.contains(['\x1b', '\u{9b}']), "{more:?}: {text:?}");
        }
    }
    // Control: both names are shown.
    let run = compare(&a, &b, &[]);
    assert!(run.stdout().contains("both [2Jx"), "{}", run.stdout());
    assert!(run.stdout().contains("alone [1A 2Kx"), "{}", run.stdout());
}
