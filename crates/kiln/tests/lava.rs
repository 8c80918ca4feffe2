//! Tests the script in `packaging/lava/` that converts KTAP to LAVA test cases.

use std::fs::{self, File};
use std::process::Command;

use crate::common::kiln;

const SCRIPT: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../packaging/lava/ktap-cases"
);

/// Converts KTAP. Returns the name and the result of each test case.
fn cases(ktap: &str) -> Vec<(String, String)> {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("ktap");
    fs::write(&file, ktap).unwrap();
    let output = Command::new(SCRIPT)
        .stdin(File::open(&file).unwrap())
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let case = |line: &str| {
        let (name, result) = line.split_once(' ').unwrap();
        (name.to_string(), result.to_string())
    };
    text.lines().map(case).collect()
}

#[test]
fn each_row_of_ktap_is_a_test_case() {
    let ktap = kiln(&["test", "sha256", "xts(aes)", "--suite", "vectors"]).stdout();
    let rows = ktap.lines().filter(|l| l.starts_with("    ok ")).count();
    let all = cases(&ktap);
    assert!(rows > 4 && all.len() == rows + 1, "{rows} {all:?}");
    let (last, rest) = all.split_last().unwrap();
    assert_eq!((last.0.as_str(), last.1.as_str()), ("complete", "pass"));
    let allowed = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    assert!(rest.iter().all(|(name, _)| name.chars().all(allowed)));
    // Some implementations are skipped on a CPU without AVX-512.
    let count = |wanted: &str| rest.iter().filter(|(_, result)| result == wanted).count();
    let skips = ktap.lines().filter(|l| l.contains("# SKIP")).count();
    assert_eq!((count("pass"), count("skip")), (rows - skips, skips));
    let mut names: Vec<&String> = rest.iter().map(|(name, _)| name).collect();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), rows, "names are distinct");
    // Controls: a failed row, a skipped row, and a run that was cut off.
    let failed = cases(&ktap.replacen("    ok 2 ", "    not ok 2 ", 1));
    assert_eq!(failed[1].1, "fail");
    let first = ktap.lines().find(|l| l.starts_with("    ok 1 ")).unwrap();
    let skipped = cases(&ktap.replacen(first, &format!("{first} # SKIP no such CPU"), 1));
    assert_eq!(
        (skipped[0].0.as_str(), skipped[0].1.as_str()),
        (rest[0].0.as_str(), "skip")
    );
    let cut: String = ktap.lines().take(12).map(|l| format!("{l}\n")).collect();
    assert_eq!(cases(&cut).last().unwrap().1, "fail");
}
