//! Tests `kiln here` on recorded machines, on this machine, and with invalid input.

use std::path::PathBuf;

use crate::common::{kiln, kiln_with};

fn machine(name: &str) -> String {
    let machines = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../questions/tests/machines");
    machines.join(name).to_str().unwrap().to_owned()
}

fn verdicts(run: &crate::common::Run) -> Vec<String> {
    let json = run.json();
    let rows = json["rows"].as_array().unwrap();
    let verdict = |row: &serde_json::Value| row["verdict"].as_str().unwrap().to_owned();
    rows.iter().map(verdict).collect()
}

#[test]
fn a_recorded_machine_is_judged_for_people_and_programs() {
    let (old, new) = (machine("debian-6.12"), machine("debian-7.3"));
    let run = kiln(&["here", "--root", &old]);
    assert_eq!(run.status, 0, "{run:?}");
    let text = run.stdout();
    assert!(text.contains("1. SIMD from softirqs: has it"), "{text}");
    assert!(
        text.contains("xts(aes) is served by xts-aes-aesni"),
        "{text}"
    );
    assert!(text.lines().all(|l| l.chars().count() <= 80), "{text}");
    let json = kiln(&["here", "--root", &old, "--json"]);
    assert_eq!(verdicts(&json)[0], "has it");
    let json = kiln(&["here", "--root", &new, "--json"]);
    assert_eq!(verdicts(&json)[0], "does not have it");
    let run = kiln(&["here", "--root", &old, "--check"]);
    assert_eq!((run.status, run.stderr.as_str()), (1, ""), "{run:?}");
}

#[test]
fn this_machine_is_judged_and_its_recording_alike() {
    let here = kiln(&["here", "--json"]);
    assert_eq!(here.status, 0, "{here:?}");
    let judged = verdicts(&here);
    assert_eq!(judged.len(), 5);
    let dir = tempfile::tempdir().unwrap();
    let to = dir.path().join("machine");
    let to = to.to_str().unwrap();
    let run = kiln(&["here", "--record", to]);
    assert_eq!(run.status, 0, "{run:?}");
    assert_eq!(verdicts(&kiln(&["here", "--root", to, "--json"])), judged);
}

#[test]
fn bad_input_is_one_line_and_its_status() {
    let dir = tempfile::tempdir().unwrap();
    let empty = dir.path().to_str().unwrap();
    let old = machine("debian-6.12");
    for args in [
        vec!["--root", empty],
        vec!["--root", "/nonexistent"],
        vec!["--record", &old],
        vec!["--bpftrace", "--json"],
        vec!["--bpftrace", "--check"],
        vec!["--live", "0"],
        vec!["--live", "1", "--root", &old],
    ] {
        let run = kiln(&[&["here"], &args[..]].concat());
        assert_eq!(
            (run.status, run.stderr.lines().count()),
            (2, 1),
            "{args:?}: {run:?}"
        );
    }
    let run = kiln_with(&["here", "--live", "1"], &[("PATH", empty)]);
    assert_eq!((run.status, run.stderr.lines().count()), (3, 1), "{run:?}");
}

#[test]
fn the_script_is_printed_alone() {
    let run = kiln(&["here", "--bpftrace", "--root", &machine("debian-6.12")]);
    assert_eq!((run.status, run.stderr.as_str()), (0, ""), "{run:?}");
    let script = run.stdout();
    assert!(script.starts_with("//"), "{script}");
    assert!(
        script.contains("\nkprobe:kernel_fpu_begin_mask\n"),
        "{script}"
    );
}

/// Boots Debian's 6.12 kernel. Runs only if `KILN_TEST_QEMU` is set, because it downloads a kernel.
#[test]
fn a_kernel_recorded_now_is_judged_as_the_recorded_one() {
    if std::env::var_os("KILN_TEST_QEMU").is_none() {
        return println!(
            "SKIPPED: set KILN_TEST_QEMU=1 to boot a kernel under QEMU (a minute, 120 MB)"
        );
    }
    let dir = tempfile::tempdir().unwrap();
    let to = dir.path().join("machine");
    let to = to.to_str().unwrap();
    let run = kiln(&["linux", "record", to]);
    assert_eq!(run.status, 0, "{run:?}");
    let now = verdicts(&kiln(&["here", "--root", to, "--json"]));
    let then = verdicts(&kiln(&[
        "here",
        "--root",
        &machine("debian-6.12"),
        "--json",
    ]));
    assert_eq!(now, then);
}
