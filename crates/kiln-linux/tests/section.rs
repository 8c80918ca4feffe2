//! Tests `linux/module/section.c` without Linux. `tests/section/kernel.h` replaces Linux's headers.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::process::Command;

use kiln_kbuild::Compiler;

/// The Linux headers that `section.c` includes, all of which `kernel.h` replaces.
const HEADERS: [&str; 9] = [
    "asm/fpu/api.h",
    "asm/simd.h",
    "crypto/internal/simd.h",
    "linux/module.h",
    "linux/percpu.h",
    "linux/preempt.h",
    "linux/sched.h",
    "linux/string.h",
    "linux/types.h",
];

#[track_caller]
fn succeed(command: &mut Command) {
    let output = command.output().unwrap_or_else(|e| panic!("{e}"));
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn parameters_that_change_leave_the_interrupted_section_whole() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let module = root.join("../../linux/module");
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join("section");
    let headers = out.join("include");
    for header in HEADERS {
        let header = headers.join(header);
        fs::create_dir_all(header.parent().unwrap()).unwrap();
        fs::write(header, "").unwrap();
    }
    let program = out.join("parameters");
    let compiler = Compiler::from_env().unwrap_or_else(|e| panic!("{e}"));
    succeed(
        Command::new(&compiler.path)
            .args(["-std=gnu11", "-O2", "-Wall", "-Werror", "-DKILN_CONTROLS"])
            .args([OsStr::new("-I"), headers.as_os_str()])
            .args([OsStr::new("-I"), module.as_os_str()])
            .args(["-include", "kernel.h"])
            .args([OsStr::new("-I"), root.join("tests/section").as_os_str()])
            .arg(root.join("tests/section/parameters.c"))
            .arg("-o")
            .arg(&program),
    );
    succeed(&mut Command::new(&program));
}
