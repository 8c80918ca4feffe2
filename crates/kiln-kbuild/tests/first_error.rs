//! Tests that the first error in a build's output is found, using output recorded from compilers,
//! linkers, make and Kconfig.

use kiln_kbuild::{first_error, reason, states_error};

macro_rules! recorded {
    ($name:literal) => {
        include_str!(concat!("outputs/", $name, ".txt"))
    };
}

#[track_caller]
fn assert_first(output: &str, expected: &str) {
    assert_eq!(first_error(output).as_deref(), Some(expected), "{output}");
}

#[test]
fn a_compilers_first_error_and_no_warning_before_it() {
    assert_first(
        recorded!("gcc"),
        "warn.c:3:22: error: 'missing' undeclared (first use in this function)",
    );
    // In this output, clang quotes a line of source code with the word "error" in a string before
    // it prints the error.
    assert_first(
        recorded!("clang"),
        "warn.c:3:22: error: use of undeclared identifier 'missing'",
    );
    assert_first(
        recorded!("gcc-header"),
        "inc.c:1:10: fatal error: absent.h: No such file or directory",
    );
    assert_first(
        recorded!("gcc-option"),
        "gcc: error: unrecognized command-line option '-fno-such-flag'; did you mean '-fno-mudflap'?",
    );
    assert_first(
        recorded!("clang-option"),
        "clang: error: unknown argument: '-fno-such-flag'",
    );
    assert_first(
        recorded!("as"),
        "a.s:1: Error: no such instruction: `nosuch %rax'",
    );
    assert_first(
        "a.c: In function 'f':\na.c:3:1: internal compiler error: in expand_insn, at optabs.cc:8212\n",
        "a.c:3:1: internal compiler error: in expand_insn, at optabs.cc:8212",
    );
}

#[test]
fn a_linkers_reason_and_not_what_its_driver_says_of_it() {
    assert_first(
        recorded!("ld"),
        "m.c:(.text+0xa): undefined reference to `g'",
    );
    assert_first(
        recorded!("ld-clang"),
        "m.c:(.text+0x10): undefined reference to `g'",
    );
    assert_first(
        recorded!("ld-library"),
        "/usr/bin/ld: cannot find -lnosuch: No such file or directory",
    );
    let twice = first_error(recorded!("ld-twice")).unwrap();
    assert!(twice.contains("multiple definition of `x'"), "{twice}");
    // If the output contains no other error, the line from the compiler driver must be returned.
    assert_first(
        "collect2: error: ld returned 1 exit status\n",
        "collect2: error: ld returned 1 exit status",
    );
}

#[test]
fn a_missing_run_time_of_clang_names_its_package() {
    assert_first(
        recorded!("clang-rt"),
        "/usr/bin/ld: cannot find /usr/lib/llvm-14/lib/clang/14.0.6/lib/linux/libclang_rt.asan_static-x86_64.a: \
         No such file or directory: apt-get install libclang-rt-14-dev",
    );
    let of = |path: &str| first_error(&format!("ld: cannot find {path}: No such file")).unwrap();
    let line = of("/usr/lib/clang/19/lib/linux/libclang_rt.ubsan-x86_64.a");
    assert!(
        line.ends_with("apt-get install libclang-rt-19-dev"),
        "{line}"
    );
    let line = of("/usr/lib/llvm-13/lib/clang/13.0.1/lib/linux/libclang_rt.asan-x86_64.a");
    assert!(
        line.ends_with("apt-get install libclang-common-13-dev"),
        "{line}"
    );
    let line = of("/usr/lib/libother_rt.a");
    assert!(!line.contains("apt-get"), "{line}");
}

#[test]
fn the_cause_behind_makes_own_lines() {
    assert_first(
        recorded!("make-rule"),
        "a.s:1: Error: no such instruction: `nosuch %rax'",
    );
    assert_first(
        recorded!("make-shell"),
        "/bin/sh: 1: pahole: not found: apt-get install pahole",
    );
    assert_first(
        recorded!("make-direct"),
        "make: pahole: No such file or directory: apt-get install pahole",
    );
    assert_first(
        recorded!("make-syntax"),
        "p.mk:2: *** missing separator.  Stop.",
    );
    // If a step fails without output, make's line must be found.
    assert_first(recorded!("make-silent"), "make: *** [p.mk:2: all] Error 3");
    assert_first(
        "  CC [M]  a.o\nWARNING: modpost: missing MODULE_DESCRIPTION() in a.o\nERROR: modpost: \"f\" [a.ko] undefined!\n\
         make[2]: *** [scripts/Makefile.modpost:145: Module.symvers] Error 1\n",
        "ERROR: modpost: \"f\" [a.ko] undefined!",
    );
}

#[test]
fn the_cause_of_a_configuration_that_fails() {
    assert_first(recorded!("kconfig"), "Kconfig:3: syntax error");
    assert_first(
        recorded!("kconfig-file"),
        "Kconfig:3: can't open file \"nowhere/Kconfig\"",
    );
    assert_first(
        recorded!("kconfig-recursive"),
        "error: recursive dependency detected!",
    );
    assert_first(
        recorded!("kernel-cc"),
        "scripts/Kconfig.include:40: C compiler 'gcc-99' not found",
    );
    assert_first(
        recorded!("kernel-config"),
        "*** Configuration file \".config\" not found!",
    );
}

#[test]
fn output_without_an_error_has_none() {
    for output in [
        "",
        recorded!("kernel-defconfig"),
        recorded!("gcc-warning-only"),
        recorded!("ld-warning"),
        "*** Default configuration is based on 'x86_64_defconfig'\n#\n# No change to .config\n#\n",
        "  CC      crypto/api.o\nlib/Kconfig:12:warning: prompt redefined\n\
         a.c:1:2: warning: passing 'error: ' to f\nmake[1]: Leaving directory '/build'\n",
        "gcc -DTEXT=\"error: none\" -c a.c\nmake: *** Waiting for unfinished jobs....\n",
    ] {
        assert_eq!(first_error(output), None, "{output}");
        assert!(!output.lines().any(states_error), "{output}");
    }
}

#[test]
fn a_program_that_fails_without_an_error_has_a_reason() {
    assert_eq!(
        reason(recorded!("objcopy")),
        "objcopy: 'absent.o': No such file"
    );
    assert_eq!(
        reason("\ntool: warning: old\ntool: oops\nmore\n"),
        "tool: oops"
    );
    assert_eq!(reason(""), "it failed without a message");
    assert_eq!(
        reason(recorded!("ld-warning")),
        "it failed without a message"
    );
    assert_eq!(
        reason(&format!("a.c:1:2: error: {}", "x".repeat(999))).len(),
        300
    );
}
