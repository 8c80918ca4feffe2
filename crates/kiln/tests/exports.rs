//! Validates exports with the programs that read them: kcidb-io for KernelCI's database, and
//! llvm-lnt for LNT. Both are available from PyPI. `KILN_TEST_PYTHON` names a Python interpreter
//! that can import these packages; the default is `python3`. If a package is not installed, its
//! test is skipped.

use std::env;
use std::fs;
use std::process::Command;

use crate::common::kiln;

/// A Python program that validates its standard input against the schema.
const KCIDB: &str = "
import json, sys
import kcidb_io
kcidb_io.schema.LATEST.validate(json.load(sys.stdin))
";

/// A Python program that rebuilds the report on its standard input with LNT's classes, which
/// validate it.
const LNT: &str = "
import json, sys
from lnt.testing import Machine, MetricSamples, Report, Run, Test
got = json.load(sys.stdin)
def rest(of, *names):
    return {k: v for k, v in of.items() if k not in names}
machine = Machine(got['machine']['name'], rest(got['machine'], 'name'), 2)
run = Run(got['run'].get('start_time'), None, rest(got['run'], 'start_time'), 2)
tests = [Test(t['name'], [MetricSamples(m, [v], report_version=2) for m, v in rest(t, 'name').items()]) for t in got['tests']]
assert tests
assert json.loads(Report(machine, run, tests, 2).render()) == got
";

/// Returns the Python interpreter to use, or `None` if it cannot import the module.
fn python(module: &str) -> Option<String> {
    let python = env::var("KILN_TEST_PYTHON").unwrap_or_else(|_| "python3".to_string());
    let run = Command::new(&python)
        .args(["-c", &format!("import {module}")])
        .output();
    match run.is_ok_and(|output| output.status.success()) {
        true => Some(python),
        false => {
            eprintln!("SKIPPED: {python} has no {module}: pip install kcidb-io llvm-lnt");
            None
        }
    }
}

/// Runs the validator on a text. If the text is not valid, returns the validator's message as an
/// error.
fn accepts(python: &str, program: &str, text: &str) -> Result<(), String> {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("export");
    fs::write(&file, text).unwrap();
    let mut command = Command::new(python);
    command
        .args(["-c", program])
        .stdin(fs::File::open(&file).unwrap());
    let output = command.output().unwrap();
    match output.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}

fn export(format: &str, files: &[&str]) -> String {
    let run = kiln(&[&["report", "--format", format], files].concat());
    assert_eq!(run.status, 0, "{run:?}");
    run.stdout()
}

/// Returns the paths of the records in the repository. They come from many different commands.
fn records() -> Vec<String> {
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/records");
    let all = fs::read_dir(dir)
        .unwrap()
        .map(|e| e.unwrap().path().display().to_string());
    all.filter(|path| path.ends_with(".json")).collect()
}

#[test]
fn kcidb_accepts_all_records_of_the_documents() {
    let Some(python) = python("kcidb_io") else {
        return;
    };
    let records = records();
    let files: Vec<&str> = records.iter().map(String::as_str).collect();
    assert!(files.len() > 5);
    let text = export("kcidb", &files);
    accepts(&python, KCIDB, &text).unwrap();
    // Control: this status is not in the schema.
    assert!(accepts(&python, KCIDB, &text.replacen("\"DONE\"", "\"FINE\"", 1)).is_err());
}

#[test]
fn lnt_makes_the_same_report() {
    let Some(python) = python("lnt.testing") else {
        return;
    };
    let file = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/records/compilers.json"
    );
    let text = export("lnt", &[file]);
    accepts(&python, LNT, &text).unwrap();
    // Control: LNT must reject a run without a revision, which it needs to put runs in order.
    let wrong = text.replace("llvm_project_revision", "revision");
    assert!(accepts(&python, LNT, &wrong).is_err());
}
