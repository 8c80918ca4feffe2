//! Tests the spin locks in `tree/services/locks.c`, linked with a small program instead of a tree.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use kiln_kbuild::Compiler;

fn link() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let services = root.join("../../tree/services");
    let headers = root.join("../../kernel/include");
    let out = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let program = out.join("spin_locks");
    // Copy `abi.h` to `kiln/tree.h`, the name under which the services include it.
    let named = out.join("spin_locks_include");
    fs::create_dir_all(named.join("kiln")).unwrap();
    fs::copy(root.join("../../tree/abi.h"), named.join("kiln/tree.h")).unwrap();
    let compiler = Compiler::from_env().unwrap_or_else(|e| panic!("{e}"));
    let output = run(Command::new(&compiler.path)
        .args(["-std=gnu11", "-O2", "-fno-strict-aliasing", "-w"])
        .args([OsStr::new("-I"), services.as_os_str()])
        .args([OsStr::new("-I"), headers.as_os_str()])
        .args([OsStr::new("-I"), headers.join("kiln").as_os_str()])
        .args([OsStr::new("-I"), named.as_os_str()])
        .arg(root.join("tests/spin_locks.c"))
        .arg("-o")
        .arg(&program));
    assert!(output.status.success(), "{output:?}");
    program
}

fn run(command: &mut Command) -> Output {
    command.output().unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn a_trees_own_preempt_count_follows_the_cpus() {
    let program = link();
    let output = run(&mut Command::new(&program));
    assert!(output.status.success(), "{output:?}");

    let control = run(Command::new(&program).arg("control"));
    assert_eq!(control.status.code(), Some(1), "{control:?}");
}
