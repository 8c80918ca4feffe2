//! Checks whether any jump or address depends on a secret. To detect this, valgrind's memcheck runs
//! each implementation with keys and texts marked as undefined. Each implementation declares
//! whether it is constant-time, and the declaration must match memcheck's result.
//!
//! valgrind supports instructions up to AVX2, but not SHA-NI, VAES or AVX-512. For those, see
//! docs/CONSTANT-TIME.md.

mod memcheck;
mod secrets;

use std::collections::BTreeMap;
use std::env;
use std::io::{stderr, Write};
use std::path::Path;
use std::process::Command;

use kiln_kernel::tier::Tier;
use secrets::Found;

/// Runs a test of this program under valgrind. Returns the test's findings and valgrind's messages,
/// or `None` if valgrind cannot be run.
fn under_valgrind(child: &str) -> Option<(Vec<Found>, String)> {
    let suppressions =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/constant_time/public.supp");
    let output = Command::new("valgrind")
        .args([
            "-q",
            "--tool=memcheck",
            "--error-limit=no",
            "--num-callers=4",
        ])
        .arg(format!("--suppressions={}", suppressions.display()))
        .arg(env::current_exe().expect("the path of this program"))
        .args([
            child,
            "--exact",
            "--ignored",
            "--nocapture",
            "--test-threads=1",
        ])
        // Ignore KILN_TIERS, which is meant for other tests.
        .env_remove("KILN_TIERS")
        .output();
    let output = match output {
        Ok(output) => output,
        Err(e) => {
            loud(&format!(
                "constant time: SKIPPED: cannot run valgrind ({e}): apt-get install valgrind"
            ));
            return None;
        }
    };
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let wrote = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{wrote}\n{said}");
    let found: Vec<Found> = wrote.lines().filter_map(Found::read).collect();
    assert!(!found.is_empty(), "the child did nothing:\n{wrote}\n{said}");
    Some((found, said))
}

/// Prints a line that the test harness does not capture.
fn loud(line: &str) {
    let _ = writeln!(stderr(), "{line}");
}

#[test]
fn only_what_says_so_depends_on_secrets() {
    let Some((found, said)) = under_valgrind("every_implementation") else {
        return;
    };
    let mut errors: BTreeMap<&str, u64> = BTreeMap::new();
    for row in &found {
        *errors.entry(&row.name).or_default() += row.errors;
    }
    let mut wrong = Vec::new();
    let mut left_out = Vec::new();
    for (name, tier, constant_time) in secrets::all() {
        match errors.get(name) {
            // memcheck reports an error wherever undefined data affects a jump or an address. An
            // implementation must have no errors if it is declared constant-time, and at least one
            // error if it is not.
            Some(&n) if constant_time == (n == 0) => {}
            Some(&n) => wrong.push(format!(
                "{name}: constant-time: {constant_time}, and {n} jumps or addresses depend on secrets"
            )),
            // valgrind supports AVX2, so an implementation must have run if its tier needs only
            // features of the AVX2 tier.
            None if tier.features().iter().all(|f| Tier::Avx2.has(*f)) => {
                wrong.push(format!("{name} was not tried"));
            }
            None => left_out.push(name),
        }
    }
    assert!(
        wrong.is_empty(),
        "{}\n{}",
        wrong.join("\n"),
        said.lines().take(60).collect::<Vec<_>>().join("\n")
    );
    loud(&format!(
        "constant time: {} implementations and {} calls under valgrind, {} out of its reach",
        errors.len(),
        found.len(),
        left_out.len()
    ));
    // Controls: memcheck must find errors in these implementations, or the test would prove
    // nothing.
    for control in ["ctr-aes-generic", "xts-aes-generic", "gcm-aes-generic"] {
        assert!(errors[control] > 0, "{control} went unseen");
    }
}

#[test]
fn offenders_are_caught() {
    let Some((found, said)) = under_valgrind("every_offender") else {
        return;
    };
    for row in &found {
        assert_eq!(row.errors > 0, row.name != "innocent", "{row:?}\n{said}");
    }
    assert_eq!(found.len(), 4, "{found:?}");
}

#[test]
#[ignore = "runs under valgrind, started by only_what_says_so_depends_on_secrets"]
fn every_implementation() {
    assert!(memcheck::running(), "this is for valgrind");
    secrets::every_implementation();
}

#[test]
#[ignore = "runs under valgrind, started by offenders_are_caught"]
fn every_offender() {
    assert!(memcheck::running(), "this is for valgrind");
    secrets::every_offender();
}
