//! Tests the program's behaviour in scripts: exit statuses, one-line errors, JSON, and atomic file
//! writes.

use crate::common::{fault, kiln, kiln_with, until_measured, Run};
use kiln_kernel::Tier;

const KEY: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\
                   202122232425262728292a2b2c2d2e2f303132333435363738393a3b3c3d3e3f";
const IV: &str = "000102030405060708090a0b0c0d0e0f";

/// Arguments for the shortest run of `speed`.
const SHORT: [&str; 9] = [
    "speed",
    "--quick",
    "--len",
    "16",
    "--peers",
    "none",
    "--impl",
    "xts-aes-generic",
    "--json",
];

/// Expects status 2, a single error line that contains `want`, and an empty stdout.
fn refuses(args: &[&str], want: &str) {
    fault(&kiln(args), 2, want);
}

#[test]
fn bad_arguments_are_refused_in_one_line() {
    refuses(&["speed", "xts(ase)"], "did you mean 'xts(aes)'");
    refuses(&["speed", "--bogus"], "--bogus");
    refuses(&["spede"], "speed");
    refuses(&["speed", "--seed", "x"], "--seed");
    refuses(&["speed", "xts(aes)", "--len", "15"], "length 15");
    refuses(&["speed", "cbc(aes)", "--len", "20"], "whole blocks");
    refuses(&["speed", "--len", "20..16"], "runs backwards");
    refuses(&["speed", "--len", "16..64/0"], "step 0");
    refuses(&["speed", "--len", "x"], "'x' is neither");
    refuses(&["speed", "xts(aes)", "--op", "digest"], "digest");
    refuses(&["speed", "sha256", "--op", "encrypt"], "use --op digest");
    refuses(&["speed", "--op", "encrpyt"], "did you mean 'encrypt'");
    refuses(
        &["speed", "gcm(aes)", "--key-bits", "512"],
        "--key-bits 512",
    );
    refuses(
        &["speed", "--impl", "xts-aes-avx512"],
        "unknown implementation",
    );
    refuses(&["speed", "--layout", "tcrypt"], "add --level api");
    refuses(&["speed", "--layout", "pages"], "unknown layout");
    refuses(
        &["speed", "--level", "api", "--peers", "openssl"],
        "functions only",
    );
    refuses(&["speed", "--peers", "none,openssl"], "cannot be combined");
    refuses(&["speed", "--peers", "nss"], "unknown peer");
    refuses(&["speed", "--baseline", "nobody-here"], "unknown baseline");
    refuses(
        &["speed", "--baseline", "openssl", "--peers", "none"],
        "contradict",
    );
    refuses(&["list", "--cpu", "zero"], "core list");
    refuses(&["list", "--cpu", "1023"], "core 1023");
    refuses(&["test", "sha257"], "unknown algorithm");
    refuses(
        &["test", "--constant-time", "sha256"],
        "unknown algorithm with a key",
    );
    refuses(&["test", "--constant-time", "--cases", "9"], "--cases");
    refuses(&["list", "--out", "/dev/null/x"], "for records");
    // With --json, the error must still be on stderr, and stdout must stay empty.
    refuses(&["speed", "xts(aes)", "--json", "--len", "15"], "length 15");
}

#[test]
fn what_the_machine_lacks_has_status_3() {
    let run = kiln_with(
        &["speed", "--peers", "openssl", "--len", "16"],
        &[("KILN_OPENSSL", "/no/such/libcrypto.so")],
    );
    fault(&run, 3, "KILN_OPENSSL");
    for tier in Tier::ALL {
        let Some(feature) = tier.lacks() else {
            continue;
        };
        let run = kiln_with(&["list"], &[("KILN_TIERS", tier.name())]);
        fault(&run, 3, feature);
        let driver = format!("xts-aes-{tier}");
        fault(&kiln(&["speed", "--impl", &driver]), 3, feature);
    }
}

#[test]
fn a_missing_peer_that_nobody_named_is_a_note() {
    let run = kiln_with(
        &[
            "speed",
            "--quick",
            "--len",
            "16",
            "--impl",
            "xts-aes-generic",
            "--json",
        ],
        &[("KILN_OPENSSL", "/no/such/libcrypto.so")],
    );
    let doc = run.json();
    assert_eq!(run.status, 0);
    let notes = doc["notes"].to_string();
    assert!(notes.contains("openssl is not here"), "{notes}");
}

#[test]
fn kiln_tiers_masks() {
    fault(
        &kiln_with(&["list"], &[("KILN_TIERS", "generic,aes")]),
        2,
        "did you mean 'aesni'",
    );
    let doc = kiln_with(&["list", "--json"], &[("KILN_TIERS", "generic")]).json();
    let rows = doc["rows"].as_array().unwrap();
    let chosen: Vec<_> = rows.iter().filter(|r| r["chosen"] == true).collect();
    let algs = kiln_question::Algorithm::all();
    assert_eq!(chosen.len(), algs.len());
    assert!(chosen.iter().all(|row| row["tier"] == "generic"));
    for row in rows.iter().filter(|r| r["kind"] == "tier") {
        assert_eq!(row["available"], row["name"] == "generic", "{row}");
        assert!(!row["reason"].as_str().unwrap().is_empty());
    }
    assert_eq!(doc["machine"]["tiers"], serde_json::json!(["generic"]));
    if Tier::Aesni.present() {
        let run = kiln_with(
            &["speed", "--impl", "xts-aes-aesni"],
            &[("KILN_TIERS", "generic")],
        );
        fault(&run, 2, "KILN_TIERS");
    }
}

#[test]
fn the_document_of_speed() {
    let mut args = SHORT.to_vec();
    args[3] = "16..18,64";
    args.extend([
        "--seed",
        "7",
        "--op",
        "encrypt,decrypt",
        "--key-bits",
        "128,192",
    ]);
    let run = until_measured(|| kiln(&args));
    assert_eq!(run.status, 0, "{}", run.stderr);
    assert_eq!(run.stderr, "");
    let doc = run.json();
    assert_eq!(doc["command"], "speed");
    assert_eq!(doc["seed"], 7);
    assert_eq!(doc["args"][0], "speed");
    assert!(doc["machine"]["kernel_cc"].is_string());
    let rows = doc["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 4 * 2 * 2);
    for row in rows {
        assert_eq!(row["provider"], "kiln");
        assert_eq!(row["level"], "primitive");
        for field in ["cycles_per_op", "cycles_per_byte", "mb_per_s", "ci_high"] {
            assert!(row[field].as_f64().unwrap() > 0.0, "{field}: {row}");
        }
        // On a busy machine, the lower end of the interval can be 0.
        assert!(row["ci_low"].as_f64().unwrap() >= 0.0, "{row}");
        assert!(row["limit_cycles"].is_null());
        assert!(row.get("ratio").is_none());
    }
}

#[test]
fn a_baseline_adds_its_fields_and_out_a_file() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("deep/records");
    let mut args = SHORT.to_vec();
    args.extend([
        "--baseline",
        "xts-aes-fixed-time",
        "--out",
        out.to_str().unwrap(),
    ]);
    let run = kiln(&args);
    assert_eq!(run.status, 0, "{}", run.stderr);
    let doc = run.json();
    let rows = doc["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 2, "the baseline takes part");
    for row in rows {
        for field in ["ratio", "ratio_low", "ratio_high", "verdict"] {
            assert!(row.get(field).is_some(), "{field}");
        }
    }
    let record = std::fs::read_to_string(out.join("speed.json")).unwrap();
    assert_eq!(record, run.stdout());
}

#[test]
fn a_sweep_and_its_summary() {
    let mut args = SHORT.to_vec();
    args[3] = "16..112";
    let doc = kiln(&args).json();
    assert_eq!(doc["rows"].as_array().unwrap().len(), 97);
    assert!(doc["notes"].to_string().contains("largest step"));
}

#[test]
fn people_get_a_table_of_80_columns() {
    let mut args = SHORT.to_vec();
    args.pop();
    let run = kiln(&args);
    assert_eq!(run.status, 0);
    let text = run.stdout();
    assert!(text.contains("cycles per byte") && text.contains("seed "));
    for line in text.lines() {
        assert!(line.chars().count() <= 80, "{line}");
    }
    args.push("--rows");
    assert!(kiln(&args).stdout().contains("cycles/op"));
}

#[test]
fn list_has_every_kind() {
    let doc = kiln(&["list", "--json"]).json();
    let rows = doc["rows"].as_array().unwrap();
    for kind in ["tier", "impl", "feature", "peer", "compiler", "limit"] {
        assert!(rows.iter().any(|r| r["kind"] == kind), "{kind}");
    }
    for row in rows {
        for field in ["kind", "name", "available", "reason"] {
            assert!(row.get(field).is_some(), "{field}: {row}");
        }
    }
    let rdtsc = rows.iter().find(|r| r["name"] == "rdtsc").unwrap();
    assert!(rdtsc["value"].as_f64().unwrap() > 0.0);
    assert_eq!(rdtsc["unit"], "cycles");
}

#[test]
fn help_and_version_have_status_0() {
    for args in [
        &["--help"][..],
        &["speed", "--help"],
        &["crypt", "--help"],
        &["--version"],
    ] {
        let run = kiln(args);
        assert_eq!(run.status, 0, "{args:?}");
        assert!(run.stdout().contains("kiln"));
    }
}

#[test]
fn the_version_names_the_commit_and_the_features_as_records_do() {
    let version = kiln(&["--version"]).stdout();
    let record = kiln(&["list", "--json"]).json();
    let text = |name: &str| record[name].as_str().unwrap_or_default().to_string();
    let features: Vec<&str> = match cfg!(feature = "peers") {
        true => vec!["peers"],
        false => Vec::new(),
    };
    assert_eq!(record["features"], serde_json::json!(features));
    let told = if features.is_empty() { "none" } else { "peers" };
    let (number, commit) = (text("kiln"), text("commit"));
    assert_eq!(
        version,
        format!("kiln {number} ({commit}, features: {told})\n")
    );
    // In a git checkout, the version must contain a commit that git knows. Elsewhere, the commit is
    // `unknown`.
    let git = std::process::Command::new("git")
        .args(["rev-parse", "--verify", "--quiet"])
        .arg(format!("{}^{{commit}}", commit.trim_end_matches("-dirty")))
        .output();
    match commit.as_str() {
        "unknown" => {}
        _ => assert!(git.is_ok_and(|out| out.status.success()), "{commit}"),
    }
    assert!(text("date").starts_with("20") && text("date").ends_with('Z'));
    let machine = record["machine"].as_object().unwrap();
    let have = std::fs::read_to_string("/proc/cmdline").ok();
    let have = have.map(|text| text.trim().to_string());
    assert_eq!(machine["cmdline"], serde_json::json!(have));
    assert!(machine.contains_key("mitigations"));
}

#[test]
fn a_closed_pipe_ends_quietly() {
    let run = crate::common::kiln_into_closed_pipe(&["list"]);
    assert_eq!((run.status, run.stderr.as_str()), (0, ""));
    let run = crate::common::kiln_into_closed_pipe(&["--help"]);
    assert_eq!((run.status, run.stderr.as_str()), (0, ""));
}

#[test]
fn an_interrupt_prints_what_there_is() {
    // Start a run that takes too long to finish on its own during the test.
    let args = ["speed", "--len", "16..8000", "--json", "--peers", "none"];
    let run = crate::common::kiln_interrupted(&args);
    assert_eq!(run.status, 130, "{}", run.stderr);
    let doc = run.json();
    assert!(doc["notes"].to_string().contains("interrupted"));
    assert!(doc["rows"].as_array().unwrap().len() < 4 * 7985);
}

#[test]
fn records_do_not_hold_keys() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("c");
    let args = crypt(&["--json", "--out-file", out.to_str().unwrap()]);
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let run = crate::common::kiln_fed(&args, &[5; 32]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    assert_eq!(run.json()["rows"][0]["bytes"], 32);
    assert!(!run.stdout().contains(&KEY[32..48]));
    assert_eq!(std::fs::read(out).unwrap().len(), 32);
}

fn crypt(more: &[&str]) -> Vec<String> {
    ["crypt", "--alg", "xts(aes)", "--key", KEY, "--iv", IV]
        .iter()
        .chain(more)
        .map(|s| s.to_string())
        .collect()
}

#[test]
fn test_command_runs() {
    let run: Run = kiln(&["test", "--cases", "50", "--seed", "3"]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    assert!(run.stdout().contains("KTAP version"));
    let doc = kiln(&["test", "ghash", "--cases", "50", "--json"]).json();
    assert_eq!(doc["command"], "test");
    assert!(!doc["rows"].as_array().unwrap().is_empty());
}

/// It must be possible to repeat a single case. A suite or case that does not exist must be
/// rejected.
#[test]
fn a_case_of_a_suite_is_replayed() {
    let replay = [
        "test", "ghash", "--suite", "random", "--seed", "3", "--case", "7",
    ];
    let run: Run = kiln(&replay);
    assert_eq!(run.status, 0, "{}", run.stderr);
    let text = run.stdout();
    assert!(
        text.contains("# 1 cases, 0 failed\n    ok 1 ghash-generic random"),
        "{text}"
    );
    assert!(text.contains("# seed 3\n# case 7 of random\n"), "{text}");
    refuses(&["test", "--suite", "randon"], "did you mean 'random'");
    refuses(
        &["test", "--suite", "wiped", "--seed", "3", "--case", "99"],
        "no such case",
    );
    refuses(
        &["test", "ghash", "--impl", "sha1-generic"],
        "unknown implementation",
    );
}

/// There must be a row for each operation of each usable implementation of every algorithm.
#[test]
fn speed_has_every_algorithm_and_tier() {
    let args = [
        "speed", "--quick", "--len", "64", "--peers", "none", "--json",
    ];
    let run = until_measured(|| kiln(&args));
    assert_eq!(run.status, 0, "{}", run.stderr);
    let doc = run.json();
    let rows = doc["rows"].as_array().unwrap();
    for imp in kiln_kernel::cipher::Impl::all() {
        if !imp.tier().usable() {
            continue;
        }
        let ops: &[&str] = match imp.kind() {
            kiln_kernel::cipher::Kind::Hash => &["digest"],
            _ => &["encrypt", "decrypt"],
        };
        for op in ops {
            let of = |r: &&serde_json::Value| r["impl"] == imp.driver() && r["op"] == *op;
            let row: Vec<_> = rows.iter().filter(of).collect();
            assert_eq!(row.len(), 1, "{imp:?} {op}");
            assert!(row[0]["cycles_per_op"].as_f64().unwrap() > 1.0, "{imp:?}");
            assert_eq!(row[0]["alg"], imp.alg());
        }
    }
    let args = ["speed", "--quick", "--len", "64", "--peers", "none"];
    let masked = kiln_with(&args, &[("KILN_TIERS", "generic")]);
    assert_eq!(masked.status, 0, "{}", masked.stderr);
    let table = kiln(&args).stdout();
    for alg in kiln_question::Algorithm::all() {
        assert!(table.contains(&format!("\n{alg} ")), "{alg}: {table}");
    }
}

/// If the baseline is another library, the rows of Kiln's implementations and those of all
/// libraries must contain a ratio.
#[test]
fn a_peer_as_baseline_of_a_hash() {
    let args = [
        "speed",
        "sha256",
        "--quick",
        "--len",
        "64,512",
        "--json",
        "--baseline",
        "openssl",
    ];
    let run = until_measured(|| kiln(&args));
    if run.status == 3 {
        println!("SKIPPED: {}", run.stderr);
        return;
    }
    assert_eq!(run.status, 0, "{}", run.stderr);
    let doc = run.json();
    for row in doc["rows"].as_array().unwrap() {
        let at = |field: &str| row[field].as_f64().unwrap();
        assert!(
            at("ratio_low") <= at("ratio") && at("ratio") <= at("ratio_high"),
            "{row}"
        );
        assert!(row["verdict"].is_string());
        if row["provider"].as_str().unwrap().starts_with("openssl") {
            assert_eq!(at("ratio"), 1.0);
        }
    }
    let best = doc["rows"].as_array().unwrap().iter();
    assert_eq!(best.filter(|r| r["best_peer_ratio"].is_f64()).count(), 2);
    assert!(doc["notes"]
        .to_string()
        .contains("is compared with a call of the fastest library measured"));
}

#[test]
fn kiln_as_baseline_is_the_chosen_tier() {
    let args = [
        "speed",
        "crc32c",
        "--quick",
        "--len",
        "64",
        "--json",
        "--baseline",
        "kiln",
    ];
    let run = until_measured(|| kiln(&args));
    assert_eq!(run.status, 0, "{}", run.stderr);
    let doc = run.json();
    let best: kiln_question::Algorithm = "crc32c".parse().unwrap();
    for row in doc["rows"].as_array().unwrap() {
        let ratio = row["ratio"].as_f64().unwrap();
        let same = row["impl"] == best.best().driver();
        assert_eq!(same, ratio == 1.0, "{row}");
    }
}
