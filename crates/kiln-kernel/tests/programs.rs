//! Runs C programs that test internal functions of `kernel/`.
//!
//! Each program includes the source file under test, so that it can call static functions and
//! replace the time stamp counter with a variable. The rest of `kernel/` is linked from the
//! archive. No result depends on measured time. Each test runs one case of one program.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use kiln_kbuild::{Compiler, LIBRARY};

/// Links `tests/programs/NAME.c` with the archive of `kernel/`, once per process.
fn link(name: &str) -> PathBuf {
    static LINKED: Mutex<Vec<String>> = Mutex::new(Vec::new());
    let mut linked = LINKED.lock().unwrap_or_else(PoisonError::into_inner);
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("programs");
    let program = dir.join(name);
    if linked.iter().any(|l| l == name) {
        return program;
    }
    fs::create_dir_all(&dir).unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let kernel = root.join("../../kernel");
    let compiler = Compiler::from_env().unwrap_or_else(|e| panic!("{e}"));
    let mut cc = Command::new(&compiler.path);
    // These flags are required by `kernel/`, and its build recipe uses the same flags.
    cc.args(["-std=gnu11", "-O2", "-g", "-Wall", "-Wextra", "-Werror"])
        .args(["-mno-red-zone", "-fno-strict-aliasing", "-funsigned-char"])
        .args([OsStr::new("-I"), kernel.as_os_str()])
        .args([OsStr::new("-I"), kernel.join("include").as_os_str()])
        .arg(root.join(format!("tests/programs/{name}.c")))
        .arg(Path::new(env!("OUT_DIR")).join(format!("lib{LIBRARY}.a")))
        .arg("-o")
        .arg(&program);
    succeed(&mut cc);
    linked.push(name.to_owned());
    program
}

#[track_caller]
fn succeed(command: &mut Command) {
    let output = command.output().unwrap_or_else(|e| panic!("{e}"));
    print!("{}", String::from_utf8_lossy(&output.stdout));
    assert!(
        output.status.success(),
        "{command:?}: {}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
}

#[track_caller]
fn run(program: &str, case: &str) {
    succeed(Command::new(link(program)).arg(case));
}

#[test]
fn a_task_is_charged_for_the_time_it_runs() {
    run("scheduler", "charged");
}

#[test]
fn a_task_is_not_charged_for_time_that_its_cpu_was_idle() {
    run("scheduler", "idle");
}

#[test]
fn a_task_that_slept_on_an_idle_cpu_begins_a_new_slice() {
    run("scheduler", "slice");
}

#[test]
fn a_task_is_not_charged_while_the_host_runs_others() {
    run("scheduler", "stolen");
}

#[test]
fn a_gap_within_the_limit_is_charged() {
    run("scheduler", "no_gap");
}

#[test]
fn every_gap_is_charged_when_the_limit_is_zero() {
    run("scheduler", "no_limit");
}

#[test]
fn a_task_that_yields_runs_after_all_others() {
    run("scheduler", "yields");
}

#[test]
fn sections_of_any_length_are_followed_by_a_proportional_number_of_untimed_ones() {
    run("section", "lengths");
}

#[test]
fn an_interrupt_while_a_section_opens_leaves_the_skip_count_right() {
    run("section", "interrupted");
}

#[test]
fn an_interrupt_while_a_tree_opens_a_section_leaves_the_skip_count_right() {
    run("section", "interrupted_in_tree");
}

#[test]
fn leaving_the_gate_serves_each_interrupt_once() {
    run("gate", "pairs");
}

#[test]
fn a_gate_that_serves_an_interrupt_twice_is_caught() {
    run("gate", "control");
}
