//! Tests `kiln budget` as scripts call it.

use std::fs;
use std::process::Command;

use crate::common::{fault, kiln, kiln_with};

/// Expects status 2 and a single error line that contains `want`.
#[track_caller]
fn refuses(args: &[&str], want: &str) {
    fault(&kiln(&[&["budget"], args].concat()), 2, want);
}

#[test]
fn bad_arguments_are_refused_in_one_line() {
    refuses(&["sha265"], "did you mean 'sha256'");
    refuses(&["--mode", "clock"], "did you mean 'clocked'");
    refuses(&["sm3", "--target-us", "0.01"], "the smallest possible is ");
    let range = "a target is more than 0 and at most 10000 µs";
    for outside in ["-5", "0", "1e9"] {
        refuses(&["sm3", "--target-us", outside], range);
    }
    refuses(
        &["xts(aes)", "--mode", "fixed"],
        "--mode fixed: no byte limit was posted in 2022 for xts-aes-",
    );
    refuses(
        &["sm3", "--header", "/no/such/dir/x.h"],
        "--header: cannot write '/no/such/dir/x.h'",
    );
    refuses(&["sm3", "--data", "hot"], "unknown kind of data 'hot'");
    refuses(&["sm3", "--op", "sign"], "unknown operation 'sign'");
    refuses(&["sm3", "--irq-rate", "-1"], "--irq-rate -1");
    refuses(&["sm3", "--seconds", "0"], "--seconds 0");
    let nothing = kiln_with(&["budget"], &[("KILN_TIERS", "generic")]);
    fault(&nothing, 3, "opens an FPU section");
}

#[test]
fn the_smallest_target_that_is_named_is_taken() {
    let run = kiln(&["budget", "sm3", "--target-us", "0.01"]);
    let least = run.stderr.trim().rsplit(' ').next().unwrap().to_string();
    // Request more than the minimum that the error named, because the second run may measure a
    // larger minimum.
    let least = (least.parse::<f64>().unwrap() * 1.5).to_string();
    let run = kiln(&[
        "budget",
        "sm3",
        "--target-us",
        &least,
        "--mode",
        "calibrated",
        "--quick",
        "--seconds",
        "0.001",
    ]);
    assert_eq!(run.status, 0, "{run:?}");
}

#[test]
fn every_way_has_a_row_with_the_fields_of_the_contract() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().to_str().unwrap();
    // With --quick, Kiln measures one implementation per algorithm, the one with the widest tier.
    // Only AVX2 Poly1305 can have a row for the mode `fixed`, because no byte limit was published
    // for CTR.
    let args = [
        "budget",
        "poly1305",
        "ctr(aes)",
        "--quick",
        "--seconds",
        "0.01",
        "--json",
        "--out",
        out,
    ];
    let run = kiln(&args);
    assert_eq!(run.status, 0, "{run:?}");
    let doc = run.json();
    let rows = doc["rows"].as_array().unwrap();
    let fixed: Vec<_> = rows.iter().filter(|r| r["mode"] == "fixed").collect();
    assert_eq!(rows.len(), 2 * 6 + fixed.len());
    assert!(fixed.iter().all(|r| r["bytes"] == 217 * 1024), "{fixed:?}");
    assert!(
        run.stdout()
            .contains("no byte limit was posted for them in 2022"),
        "{run:?}"
    );
    for row in rows {
        for field in [
            "alg",
            "impl",
            "mode",
            "bytes",
            "target_us",
            "holds_bytes",
            "budget_bytes",
            "section_us_p50",
            "section_us_p95",
            "section_us_p999",
            "section_us_max",
            "null_us_p95",
            "null_us_p999",
            "long_pct",
            "null_long_pct",
            "loss_pct",
            "sections_per_op",
            "min_bytes",
        ] {
            assert!(!row[field].is_null(), "{field} of {row}");
        }
        let per_op = row["sections_per_op"].as_f64().unwrap();
        match row["mode"].as_str().unwrap() {
            "unbounded" => assert_eq!(per_op, 1.0),
            "page" => assert_eq!(per_op, 256.0),
            _ => assert!(per_op >= 1.0),
        }
    }
    assert_eq!(doc["command"], "budget");
    let picture = fs::read_to_string(dir.path().join("budget.svg")).unwrap();
    assert!(picture.contains("target 30") && picture.contains("on-demand"));
    assert!(dir.path().join("budget.json").exists());
}

/// The header with the constants must compile on its own with every installed compiler, and
/// `FPU_BUDGET` must accept the constants.
#[test]
fn the_header_compiles_freestanding() {
    let dir = tempfile::tempdir().unwrap();
    let header = dir.path().join("kiln_budget.h");
    let args = [
        "budget",
        "sha256",
        "gcm(aes)",
        "crc32c",
        "--seconds",
        "0.001",
        "--header",
        header.to_str().unwrap(),
    ];
    let run = kiln(&args);
    assert_eq!(run.status, 0, "{run:?}");
    let text = fs::read_to_string(&header).unwrap();
    assert!(
        text.contains("cycles per byte measured") && text.contains("for cache misses"),
        "{text}"
    );
    let constants: Vec<&str> = text
        .lines()
        .filter(|l| l.starts_with("\tBYTES_PER_FPU_"))
        .collect();
    assert!(!constants.is_empty());
    let mut user = String::from("#include \"kiln_budget.h\"\n");
    for line in &constants {
        let name = line.trim().split(' ').next().unwrap();
        user.push_str(&format!(
            "_Static_assert({name} > 0 && {name} % 16 == 0, \"blocks\");\n"
        ));
    }
    user.push_str("enum { TWICE_DEFINED = 1 };\n#include \"kiln_budget.h\"\n");
    let file = dir.path().join("user.c");
    fs::write(&file, user).unwrap();
    let mut compiled = 0;
    for cc in ["gcc", "clang", "clang-14", "clang-16", "clang-19"] {
        let flags = [
            "-std=gnu11",
            "-ffreestanding",
            "-nostdinc",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-fsyntax-only",
        ];
        match Command::new(cc).args(flags).arg(&file).output() {
            Err(_) => continue,
            Ok(run) => assert!(
                run.status.success(),
                "{cc}: {}",
                String::from_utf8_lossy(&run.stderr)
            ),
        }
        compiled += 1;
    }
    assert!(compiled > 0, "a C compiler");
}
