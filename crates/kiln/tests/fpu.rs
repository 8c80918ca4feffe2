//! `kiln fpu` as scripts see it.

mod common;

use common::{fault, kiln};

const POLICIES: [&str; 6] = [
    "legacy",
    "bh-off",
    "nested",
    "nested-v1",
    "preemptible",
    "none",
];

/// Status 2 with one line that contains `want`.
#[track_caller]
fn refuses(args: &[&str], want: &str) {
    fault(&kiln(&[&["fpu"], args].concat()), 2, want);
}

#[test]
fn bad_arguments_are_refused_in_one_line() {
    refuses(&["--policy", "bh_off"], "did you mean 'bh-off'");
    refuses(&["--policy", "tree:/no/such"], "not a Linux source tree");
    refuses(&["--policy", "tree:"], "tree:DIR");
    refuses(
        &["--policy", "tree:/no/such", "--irq-rate", "0"],
        "Linux source tree",
    );
    refuses(
        &["--overhead", "--policy", "tree:/no/such"],
        "not a Linux source tree",
    );
    refuses(&["--fallback", "cryptdd"], "did you mean 'cryptd'");
    refuses(&["--load", "xts-17"], "did you mean 'xts-16'");
    refuses(&["--irq-rate", "0"], "--irq-rate");
    refuses(&["--irq-rate", "-5"], "--irq-rate");
    refuses(&["--irq-rate", "1000000"], "--irq-rate");
    refuses(&["--inject", "tmer"], "did you mean 'timer'");
    refuses(&["--inject", "step:x"], "step:K1,K2");
    refuses(&["--inject", "step:5"], "one policy");
    refuses(&["--inject", "step:5", "--policy", "none"], "--impl");
    refuses(&["--inject", "step", "--load", "xts-16"], "--len");
    refuses(&["--inject", "step", "--len", "15"], "--len 15");
    refuses(&["--len", "16"], "--inject step");
    refuses(&["--preempt", "sometimes"], "--preempt");
    refuses(&["--slice-us", "0"], "--slice-us");
    refuses(&["--overhead", "--load", "xts-16"], "--overhead takes");
    refuses(&["--overhead", "--len", "15"], "--len 15");
    refuses(&["--inject", "replay:/no/such/file"], "cannot read");
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("gaps");
    std::fs::write(&file, "100000\nsoon\n").unwrap();
    let replay = format!("replay:{}", file.display());
    refuses(&["--inject", &replay], "line 2: 'soon'");
}

#[test]
fn the_answers_are_those_of_the_table() {
    let run = kiln(&["fpu", "--usable", "--policy", "legacy,nested", "--json"]);
    assert_eq!(run.status, 0, "{run:?}");
    let doc = run.json();
    let rows = doc["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 2 * 7 * 2);
    let answer = |policy: &str, context: &str, in_section: bool| {
        let row = rows.iter().find(|r| {
            r["policy"] == policy && r["context"] == context && r["in_section"] == in_section
        });
        row.unwrap()["usable"].as_bool().unwrap()
    };
    assert!(answer("legacy", "softirq", false) && !answer("legacy", "softirq", true));
    assert!(answer("nested", "softirq", true) && !answer("nested", "NMI", false));
    let run = kiln(&["fpu", "--usable"]);
    assert_eq!(run.status, 0);
    assert!(run.stdout().contains("hardirq over softirq"), "{run:?}");
}

#[test]
fn every_policy_has_a_row_and_a_control_and_loses_nothing() {
    let run = kiln(&["fpu", "--quick", "--load", "xts-4096", "--json"]);
    assert_eq!(run.status, 0, "{run:?}");
    let doc = run.json();
    let rows = doc["rows"].as_array().unwrap();
    for policy in POLICIES {
        for control in [false, true] {
            let row = rows
                .iter()
                .find(|r| r["policy"] == policy && r["control"] == control)
                .unwrap_or_else(|| panic!("{policy} {control}"));
            for field in "fallback load sections irqs softirqs task_mb_per_s softirq_mb_per_s softirq_us_p50 \
                          softirq_us_p99 softirq_us_max section_us_p50 section_us_p999 section_us_max nested_saves \
                          scalar_fallbacks async_punts reordered dropped warnings corrupted user_corrupted"
                .split_whitespace()
            {
                assert!(row.get(field).is_some(), "{field}");
            }
            assert!(row["irqs"].as_u64() > Some(0), "{row}");
            if policy != "none" {
                assert_eq!(row["corrupted"], 0, "{row}");
                assert_eq!(row["user_corrupted"], 0, "{row}");
            } else if !control {
                assert!(row["corrupted"].as_u64() > Some(0), "{row}");
            }
            if control {
                assert_eq!(row["corrupted"], 0, "{row}");
                assert_eq!(row["softirqs"], 0, "{row}");
            }
        }
    }
}

#[test]
fn what_finds_the_fpu_taken_goes_to_cryptd_if_asked() {
    let args = "fpu --quick --policy legacy,bh-off --fallback scalar,cryptd --load xts-4096 --json";
    let run = kiln(&args.split(' ').collect::<Vec<_>>());
    assert_eq!(run.status, 0, "{:?}", run.stderr);
    let doc = run.json();
    let rows: Vec<_> = doc["rows"].as_array().unwrap().iter().collect();
    let find = |policy: &str, fallback: &str| {
        rows.iter()
            .find(|r| r["policy"] == policy && r["fallback"] == fallback && r["control"] == false)
    };
    let scalar = find("legacy", "scalar").unwrap();
    let cryptd = find("legacy", "cryptd").unwrap();
    assert!(scalar["scalar_fallbacks"].as_u64() > Some(0), "{scalar}");
    assert!(scalar["async_punts"].is_null(), "{scalar}");
    assert!(cryptd["async_punts"].as_u64() > Some(0), "{cryptd}");
    assert_eq!(cryptd["scalar_fallbacks"], 0, "{cryptd}");
    for field in ["corrupted", "user_corrupted", "reordered"] {
        assert_eq!(cryptd[field], 0, "{field}: {cryptd}");
    }
    // Only under legacy does a softirq find the FPU taken.
    assert!(find("bh-off", "scalar").is_some() && find("bh-off", "cryptd").is_none());
}

#[test]
fn every_way_to_a_cipher_has_a_figure() {
    let run = kiln(&["fpu", "--overhead", "--quick", "--len", "16", "--json"]);
    assert_eq!(run.status, 0, "{:?}", run.stderr);
    let doc = run.json();
    let rows = doc["rows"].as_array().unwrap();
    for policy in ["legacy", "bh-off"] {
        let find = |path: &str| {
            let of = |r: &&serde_json::Value| r["policy"] == policy && r["path"] == path;
            rows.iter()
                .find(of)
                .unwrap_or_else(|| panic!("{policy} {path}"))
        };
        for path in "primitive library direct simd-helper cryptd scalar sync-user".split(' ') {
            let row = find(path);
            for field in "cycles_per_op mb_per_s ratio ci_low ci_high".split(' ') {
                assert!(row[field].as_f64() > Some(0.0), "{field}: {row}");
            }
        }
        for part in "checks request-copy indirect-call hand-over".split(' ') {
            assert!(find(part)["cycles_per_op"].is_f64(), "{part}");
        }
        // Who cannot wait gets the scalar driver where SIMD is behind the helper.
        let sync = find("sync-user")["impl"].as_str().unwrap();
        assert_eq!(sync == "xts-aes-fixed-time", policy == "legacy", "{sync}");
    }
}

#[test]
fn a_proof_covers_and_finds_nothing() {
    let run = kiln(&[
        "fpu",
        "--inject",
        "step",
        "--quick",
        "--policy",
        "nested,bh-off",
        "--len",
        "16,31",
        "--json",
    ]);
    assert_eq!(run.status, 0, "{run:?}");
    let doc = run.json();
    let rows = doc["rows"].as_array().unwrap();
    for policy in ["nested", "bh-off"] {
        assert!(rows.iter().any(|r| r["policy"] == policy));
    }
    for row in rows {
        if row["op"] != "decrypt" && row["len"] != 31 {
            assert_eq!(row["singles"], row["instructions"], "{row}");
        }
        assert!(row["points"].as_u64() > Some(0), "{row}");
        assert!(row["softirq_points"].as_u64() > Some(0), "{row}");
        assert!(row["pairs"].as_u64() > Some(0), "{row}");
        assert_eq!(row["corrupted"], 0, "{row}");
        assert_eq!(row["user_corrupted"], 0, "{row}");
        assert!(row["replay"].is_null());
    }
}

#[test]
fn the_broken_control_is_caught_and_replayed() {
    let run = kiln(&[
        "fpu", "--inject", "step", "--quick", "--policy", "none", "--len", "31", "--seed", "5",
    ]);
    assert_eq!(run.status, 0, "{run:?}");
    let text = run.stdout();
    let replays: Vec<&str> = text
        .lines()
        .filter_map(|l| l.strip_prefix("replay: kiln "))
        .collect();
    assert!(!replays.is_empty(), "{text}");
    for line in replays {
        let mut args: Vec<&str> = line.split(' ').collect();
        args.push("--json");
        let again = kiln(&args);
        assert_eq!(again.status, 0, "{line}: {again:?}");
        let doc = again.json();
        let row = &doc["rows"][0];
        assert_eq!(row["injected"], 1, "{row}");
        let wrong = row["corrupted"].as_u64().unwrap() + row["user_corrupted"].as_u64().unwrap();
        assert!(wrong > 0, "{line}: {row}");
    }
}

#[test]
fn corruption_runs_hit_sections() {
    let run = kiln(&[
        "fpu",
        "--inject",
        "breakpoint",
        "--quick",
        "--policy",
        "nested,none",
        "--load",
        "xts-16",
        "--json",
    ]);
    assert_eq!(run.status, 0, "{run:?}");
    let doc = run.json();
    for row in doc["rows"].as_array().unwrap() {
        assert!(row["irqs_in_section"].as_u64() > Some(100), "{row}");
        assert_eq!(
            row["corrupted"].as_u64() > Some(0),
            row["policy"] == "none",
            "{row}"
        );
        assert!(row["task_mb_per_s"].is_null());
    }
}
