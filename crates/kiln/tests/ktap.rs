//! Parses the output of `kiln test` with the kernel's own KTAP parser. Without KILN_TEST_TREE or
//! python3, the tests are skipped with a message.

use std::env;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::common::kiln;

/// Python program that prints the status, the numbers of tests that passed, failed, crashed and
/// were skipped, and the number of format errors.
const READER: &str = "\
import sys
sys.dont_write_bytecode = True
sys.path.insert(0, sys.argv[1])
import kunit_parser
test = kunit_parser.parse_run_tests(sys.stdin.read().splitlines())
c = test.counts
print()
print('read', test.status.name, c.passed, c.failed, c.crashed, c.skipped, c.errors)
";

fn parser() -> Option<PathBuf> {
    let tree = env::var_os("KILN_TEST_TREE").filter(|v| !v.is_empty());
    let dir = tree.map(|t| Path::new(&t).join("tools/testing/kunit"));
    let dir = dir.filter(|d| d.join("kunit_parser.py").is_file());
    let python = Command::new("python3").arg("--version").output();
    if dir.is_none() || !python.is_ok_and(|o| o.status.success()) {
        eprintln!("\nSKIPPED: no kunit_parser.py or no python3: set KILN_TEST_TREE to a kernel tree, apt-get install python3\n");
        return None;
    }
    dir
}

/// Parses KTAP with the kernel's parser. Returns the status and the numbers that `READER` prints.
fn read(parser: &Path, ktap: &str) -> (String, Vec<usize>) {
    let mut child = Command::new("python3")
        .args(["-c", READER])
        .arg(parser)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(ktap.as_bytes()).unwrap();
    drop(input);
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let line = text.lines().find_map(|l| l.strip_prefix("read "));
    let mut words = line.unwrap_or_else(|| panic!("{text}")).split(' ');
    let status = words.next().unwrap().to_string();
    (status, words.map(|n| n.parse().unwrap()).collect())
}

#[test]
fn the_kernels_parser_reads_what_is_printed() {
    let Some(parser) = parser() else { return };
    let run = kiln(&[
        "test",
        "crc32c",
        "--suite",
        "vectors,random",
        "--cases",
        "5",
    ]);
    assert_eq!(run.status, 0, "{run:?}");
    let ktap = run.stdout();
    let rows = ktap.lines().filter(|l| l.starts_with("    ok ")).count();
    let skipped = ktap.lines().filter(|l| l.contains("# SKIP")).count();
    assert!(rows > 3, "{ktap}");
    let all_is_well = (
        "SUCCESS".to_string(),
        vec![rows - skipped, 0, 0, skipped, 0],
    );
    assert_eq!(read(&parser, &ktap), all_is_well, "{ktap}");

    // Controls: one copy of the output with a failed test, and another without one of the tests.
    let mut passed = ktap.lines().filter(|l| !l.contains("# SKIP"));
    let last = passed.rfind(|l| l.starts_with("    ok ")).unwrap();
    let failed = last.replacen("ok", "not ok", 1);
    let (status, counts) = read(&parser, &ktap.replacen(last, &failed, 1));
    assert_eq!((status.as_str(), counts[1]), ("FAILURE", 1));
    let (_, counts) = read(&parser, &ktap.replacen(&format!("{last}\n"), "", 1));
    assert!(counts[4] > 0, "{counts:?}");
}

#[test]
fn the_kernels_parser_reads_what_is_exported() {
    let Some(parser) = parser() else { return };
    let row = |imp: &str, failed: u64, skipped: u64| {
        serde_json::json!({"alg": "xts(aes)", "impl": imp, "suite": "vectors", "context": "task", "cases": 3,
            "failed": failed, "skipped": skipped, "reason": "why # not"})
    };
    let rows = [row("a", 0, 0), row("b # c", 2, 0), row("d", 0, 1)];
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("test.json");
    let record = serde_json::json!({"kiln": "0", "command": "test", "rows": rows});
    std::fs::write(&file, record.to_string()).unwrap();
    let run = kiln(&["report", file.to_str().unwrap(), "--format", "ktap"]);
    let (status, counts) = read(&parser, &run.stdout());
    assert_eq!((status.as_str(), counts), ("FAILURE", vec![1, 1, 0, 1, 0]));
}
