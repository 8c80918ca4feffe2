//! Tests `kiln fpu` from a script's point of view.

use crate::common::{fault, kiln, kiln_with};

const POLICIES: [&str; 6] = [
    "legacy",
    "bh-off",
    "nested",
    "nested-v1",
    "preemptible",
    "none",
];

/// Expects status 2 and a single error line that contains `want`.
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
        &["overhead", "--policy", "tree:/no/such"],
        "not a Linux source tree",
    );
    refuses(&["prove", "--policy", "tree:/no/such"], "source tree");
    refuses(&["usable", "--cc", "gcc"], "--policy tree:DIR");
    refuses(&["--fallback", "cryptdd"], "did you mean 'cryptd'");
    refuses(&["--load", "xts-17"], "did you mean 'xts-16'");
    refuses(&["--irq-rate", "0"], "--irq-rate");
    refuses(&["--irq-rate", "-5"], "--irq-rate");
    refuses(&["--irq-rate", "1000000"], "--irq-rate");
    refuses(&["--inject", "tmer"], "did you mean 'timer'");
    refuses(&["prove", "--at", "x"], "use K or K1,K2");
    refuses(&["prove", "--at", "5"], "one policy");
    refuses(&["prove", "--at", "5", "--policy", "none"], "--impl");
    refuses(&["prove", "--load", "xts-16"], "--load");
    refuses(&["prove", "--len", "15"], "--len 15");
    refuses(&["prove", "--hardirq-fpu"], "--at");
    refuses(&["--len", "16"], "--len");
    refuses(&["--preempt", "sometimes"], "--preempt");
    refuses(&["--slice-us", "0"], "--slice-us");
    refuses(&["overhead", "--load", "xts-16"], "--load");
    refuses(&["overhead", "--len", "15"], "--len 15");
    refuses(&["--inject", "replay:/no/such/file"], "cannot read");
    // Each subcommand must reject flags that it does not use.
    refuses(&["prove", "--seconds", "3"], "--seconds");
    refuses(&["prove", "--interrupts", "1k"], "--interrupts");
    refuses(&["usable", "--seconds", "3"], "--seconds");
    refuses(&["overhead", "--interrupts", "1k"], "--interrupts");
    refuses(&["prove", "breakpoint", "--len", "16"], "--len");
    refuses(&["prove", "breakpoint", "--irq-rate", "9"], "--irq-rate");
    for count in ["0", "-5", "1.5", "many", "1T"] {
        let args = ["prove", "breakpoint", "--interrupts", count];
        refuses(&args, "a whole number from 1 to 9e15");
    }
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("gaps");
    std::fs::write(&file, "100000\nsoon\n").unwrap();
    let replay = format!("replay:{}", file.display());
    refuses(&["--inject", &replay], "line 2: 'soon'");
}

/// Some flags that `kiln fpu` had in Kiln 0.1 have become separate commands. The error for such a
/// flag must name the command that replaced it.
#[test]
fn flags_that_became_commands_are_named_with_them() {
    refuses(&["--overhead"], "use: kiln fpu overhead");
    refuses(&["--usable", "--json"], "use: kiln fpu usable");
    refuses(&["--inject", "step"], "use: kiln fpu prove");
    refuses(&["--inject", "step:58", "--json"], "use: kiln fpu prove");
    refuses(
        &["--inject", "breakpoint"],
        "use: kiln fpu prove breakpoint",
    );
    refuses(&["--interrupts", "1k"], "use: kiln fpu prove breakpoint");
    refuses(&["--hardirq-fpu"], "use: kiln fpu prove");
    refuses(&["--load", "esp"], "use: kiln ipsec --load esp");
    refuses(&["--load", "pcap:x"], "use: kiln ipsec --load pcap:x");
    for flag in [
        "--packet-rate",
        "--stack-ns",
        "--replay-window",
        "--own-every",
    ] {
        refuses(&[flag, "1"], "use: kiln ipsec");
    }
    refuses(&["--policy", "legacy", "usable"], "put it after 'usable'");
}

#[test]
fn the_answers_are_those_of_the_table() {
    let run = kiln(&["fpu", "--json", "usable", "--policy", "legacy,nested"]);
    assert_eq!(run.status, 0, "{run:?}");
    let doc = run.json();
    assert_eq!(doc["command"], "fpu-usable");
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
    let run = kiln(&["fpu", "usable"]);
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
    // A softirq can find the FPU in use only under `legacy`, so only `legacy` has a row for cryptd.
    assert!(find("bh-off", "scalar").is_some() && find("bh-off", "cryptd").is_none());
}

#[test]
fn every_way_to_a_cipher_has_a_figure() {
    // Measure again if an interval has no upper bound, which can happen on a very busy machine.
    let ends = |doc: &serde_json::Value| {
        let rows = doc["rows"].as_array().unwrap().iter();
        rows.filter(|r| r["ratio"].is_number())
            .all(|r| r["ci_high"].is_number() && r["speedup_high"].is_number())
    };
    let doc = (0..5)
        .map(|_| {
            let run = kiln(&["fpu", "overhead", "--quick", "--len", "16", "--json"]);
            assert_eq!(run.status, 0, "{:?}", run.stderr);
            run.json()
        })
        .find(ends)
        .expect("one of five runs with whole intervals");
    assert_eq!(doc["command"], "fpu-overhead");
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
            let numbers = "cycles_per_op cycles_low cycles_high ns_per_op ns_low ns_high mb_per_s ratio ci_low ci_high \
                           speedup speedup_low speedup_high time_speedup time_speedup_low time_speedup_high";
            for field in numbers.split_whitespace() {
                assert!(row[field].as_f64() > Some(0.0), "{field}: {row}");
            }
            assert_eq!(row["baseline"], "legacy/simd-helper");
            assert!(row["rounds"].as_array().unwrap().len() >= 6, "{row}");
            // The ratios in each column must be quotients of the cycle counts in the table.
            let cycles = |row: &serde_json::Value| row["cycles_per_op"].as_f64().unwrap();
            let near = |field: &str, want: f64| {
                let is = row[field].as_f64().unwrap();
                assert!((is / want - 1.0).abs() < 1e-9, "{field}: {row}");
            };
            near("ratio", cycles(row) / cycles(find("direct")));
            let len = row["len"].as_f64().unwrap();
            near("mb_per_s", len / row["ns_per_op"].as_f64().unwrap() * 1e3);
            let base =
                |r: &&serde_json::Value| r["policy"] == "legacy" && r["path"] == "simd-helper";
            near(
                "speedup",
                cycles(rows.iter().find(base).unwrap()) / cycles(row),
            );
        }
        for part in "checks request-copy indirect-call hand-over".split(' ') {
            assert!(find(part)["cycles_per_op"].is_f64(), "{part}");
        }
        // Under `legacy`, SIMD needs the SIMD helper, so callers that cannot wait must get the
        // scalar driver.
        let sync = find("sync-user")["impl"].as_str().unwrap();
        assert_eq!(sync == "xts-aes-fixed-time", policy == "legacy", "{sync}");
    }
}

#[test]
fn a_proof_covers_and_finds_nothing() {
    let run = kiln(&[
        "fpu",
        "prove",
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
    let control: u64 = rows
        .iter()
        .filter(|r| r["policy"] == "none")
        .map(|r| r["corrupted"].as_u64().unwrap())
        .sum();
    assert!(control >= 7, "the control is added and loses: {rows:?}");
    for row in rows.iter().filter(|r| r["policy"] != "none") {
        assert!(row["expected_wrong"].as_f64() > Some(0.0), "{row}");
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
        "fpu", "prove", "--quick", "--policy", "none", "--len", "31", "--seed", "5",
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
fn a_campaign_ends_at_its_count_and_has_the_control() {
    let args = "fpu prove breakpoint --policy nested --load xts-16 --interrupts 30k --json";
    let run = kiln(&args.split(' ').collect::<Vec<_>>());
    assert_eq!(run.status, 0, "{run:?}");
    let doc = run.json();
    let rows = doc["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 2, "{rows:?}");
    let (nested, none) = (&rows[0], &rows[1]);
    let hits = |row: &serde_json::Value| row["irqs_in_section"].as_u64().unwrap();
    // Allow more interrupts than requested, because the last kernel entry runs to completion.
    assert!((30_000..40_000).contains(&hits(nested)), "{nested}");
    assert_eq!(
        (&nested["corrupted"], &nested["user_corrupted"]),
        (&0.into(), &0.into())
    );
    assert!(nested["expected_wrong"].as_f64() >= Some(6.9), "{nested}");
    assert!(nested["task_mb_per_s"].is_null());
    assert_eq!(none["policy"], "none");
    assert!(
        hits(none) > 0 && none["corrupted"].as_u64() >= Some(7),
        "{none}"
    );
    let notes = doc["notes"].to_string();
    assert!(
        notes.contains("the tested policies had 0 wrong results and 0 lost user states in"),
        "{notes}"
    );
    assert!(
        !notes.contains("no power") && !notes.contains("replay"),
        "{notes}"
    );
}

#[test]
fn what_a_campaign_loses_has_a_line_that_loses_it_again() {
    let args = "fpu prove breakpoint --policy none --load xts-16 --interrupts 20k --seed 9";
    let run = kiln(&args.split(' ').collect::<Vec<_>>());
    assert_eq!(run.status, 0, "{run:?}");
    let text = run.stdout();
    let lines: Vec<&str> = text
        .lines()
        .filter_map(|l| l.strip_prefix("replay: kiln "))
        .collect();
    assert!(
        !lines.is_empty() && text.contains("wrong if as bad"),
        "{text}"
    );
    let mut args: Vec<&str> = lines[0].split(' ').collect();
    args.push("--json");
    let again = kiln(&args);
    assert_eq!(again.status, 0, "{again:?}");
    let row = &again.json()["rows"][0];
    assert!(row["corrupted"].as_u64() >= Some(7), "{row}");
}

/// If SIMD tiers are masked, the control cannot lose state, because the scalar code in softirqs
/// does not overwrite vector registers. The run must then give no verdict.
#[test]
fn a_control_made_harmless_leaves_no_verdict() {
    let harmless = [("KILN_TIERS", "generic")];
    for args in [
        "fpu prove breakpoint --policy nested --load xts-16 --interrupts 1k --json",
        "fpu --policy nested,none --load xts-16 --seconds 0.2 --json",
    ] {
        let run = kiln_with(&args.split(' ').collect::<Vec<_>>(), &harmless);
        assert_eq!(run.status, 1, "{args}: {run:?}");
        let doc = run.json();
        let notes = doc["notes"].to_string();
        assert!(
            notes.contains("no power: the control that saves nothing lost 0 of"),
            "{notes}"
        );
        for row in doc["rows"].as_array().unwrap() {
            assert_eq!(row["corrupted"], 0, "{row}");
            assert!(row["expected_wrong"].is_null(), "{row}");
        }
    }
    // A table without the control must contain results but no verdict.
    let args = "fpu --policy nested --load xts-16 --seconds 0.2 --json";
    let run = kiln_with(&args.split(' ').collect::<Vec<_>>(), &harmless);
    assert_eq!(run.status, 0, "{run:?}");
    assert!(run.json()["notes"]
        .to_string()
        .contains("no verdict on lost state: the control policy none"));
}
