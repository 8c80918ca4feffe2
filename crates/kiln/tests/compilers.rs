//! Tests `kiln compilers` from the point of view of users and `git bisect`. The measured
//! differences are factors of two or more, so that noise cannot affect the outcome.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::common::{fault, kiln, kiln_with, until_measured, Run};
use serde_json::Value;

const CACHE: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/compilers-cache");

fn compilers(args: &[&str]) -> Run {
    let mut all = vec!["compilers", "--quick"];
    all.extend(args);
    until_measured(|| kiln_with(&all, &[("XDG_CACHE_HOME", CACHE)]))
}

/// Writes a shell script that acts as a compiler by calling another compiler.
fn wrapper(path: &Path, script: &str) {
    fs::write(path, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Returns the name of a clang that can link UBSan. Debian's `clang` lacks the runtime if apt does
/// not install recommended packages.
fn clang(dir: &Path) -> Option<String> {
    let probe = dir.join("probe.c");
    fs::write(&probe, "int main(void) { return 0; }\n").unwrap();
    let links = |name: &String| {
        Command::new(name)
            .args(["-fsanitize=undefined", "-o", "/dev/null"])
            .arg(&probe)
            .output()
            .is_ok_and(|o| o.status.success())
    };
    let names = (13..30).map(|n| format!("clang-{n}"));
    ["clang".to_string()].into_iter().chain(names).find(links)
}

fn rows(run: &Run) -> Vec<Value> {
    run.json()["rows"].as_array().unwrap().clone()
}

fn of<'a>(rows: &'a [Value], key: &str, value: &str) -> &'a Value {
    rows.iter()
        .find(|r| r[key] == value)
        .unwrap_or_else(|| panic!("no {key} {value} in {rows:?}"))
}

#[test]
fn a_matrix_has_its_cells_and_a_miscompilation_is_one_of_them() {
    let dir = tempfile::tempdir().unwrap();
    // This compiler changes the field polynomial, so the cipher works but differs from AES as
    // specified in FIPS 197.
    let wrong = dir.path().join("wrong");
    wrapper(
        &wrong,
        "for a; do\n\tcase $a in\n\t*aes/generic.c)\n\t\tsed 's/0x11b/0x11d/' \"$a\" >\"$a.$$.c\"\n\t\t\
         d=$(dirname \"$a\")\n\t\tset -- \"$@\" -x c \"$a.$$.c\" -I \"$d\"\n\t\t\
         f=$a\n\t\t;;\n\tesac\ndone\n\
         [ -z \"${f-}\" ] && exec gcc \"$@\"\n\
         n=$#\nwhile [ $n -gt 0 ]; do\n\ta=$1\n\tshift\n\tn=$((n - 1))\n\t[ \"$a\" = \"$f\" ] || set -- \"$@\" \"$a\"\ndone\n\
         gcc \"$@\"\ns=$?\nrm -f \"$f.$$.c\"\nexit $s",
    );
    let wrong = wrong.to_str().unwrap();
    let mut names = vec!["gcc".to_string()];
    match clang(dir.path()) {
        Some(clang) => names.push(clang),
        None => eprintln!(
            "SKIPPED: no clang that links UBSan (apt-get install clang libclang-rt-14-dev)"
        ),
    }
    let cc = [names.join(","), wrong.to_string()].join(",");
    let out = dir.path().join("out");
    let run = compilers(&[
        "--cc",
        &cc,
        "--opt",
        "O1,O2",
        "--variant",
        "default,ubsan",
        "--json",
        "--out",
        out.to_str().unwrap(),
    ]);
    assert_eq!(run.status, 1, "{run:?}");
    let all = rows(&run);
    assert_eq!(all.len(), 4 * (names.len() + 1) + 1);
    for row in &all {
        let is_wrong = row["cc"] == wrong;
        let want = if is_wrong { "wrong" } else { "ok" };
        assert_eq!(row["status"], want, "{row}");
        assert_eq!(row["cycles_per_byte"].is_f64(), !is_wrong, "{row}");
        assert!(row["text_bytes"].as_u64().unwrap() > 500, "{row}");
    }
    let miscompiled = of(&all, "cc", wrong)["reason"].as_str().unwrap();
    assert!(miscompiled.starts_with("MISCOMPILED"), "{miscompiled}");
    assert!(all
        .iter()
        .all(|r| r["cc"] == "-" || r["stack_bytes"].is_u64()));
    assert_eq!(of(&all, "subject", "aes-asm")["cc"], "-");
    for (file, want) in [
        ("compilers.json", "\"command\": \"compilers\""),
        ("compilers.svg", "</svg>"),
        ("compilers.csv", "cycles_per_byte"),
    ] {
        let text = fs::read_to_string(out.join(file)).unwrap();
        assert!(text.contains(want), "{file}");
    }
}

#[test]
fn what_goes_wrong_in_a_cell_is_that_cells() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("sum.c");
    let code = "\
/* kiln-subject: checksum32 sum */
#include <stddef.h>
#include <stdint.h>
#ifndef MISSING
uint32_t sum(const uint8_t *p, size_t n)
{
	uint32_t s = 0;
	while (n--)
		s = s * 31 + *p++;
#ifdef BROKEN
#error no such code
#endif
#ifdef CRASHES
	__builtin_trap();
#endif
#ifdef DIFFERS
	s ^= 1;
#endif
	return s;
}
#endif
";
    fs::write(&file, code).unwrap();
    let path = file.to_str().unwrap();
    let mut args = vec![
        "--cc",
        "gcc",
        "--opt",
        "O2,O1",
        "--variant",
        "default",
        "--json",
    ];
    args.extend(["--subject", path]);
    for flags in ["-DMISSING", "-DCRASHES", "-DBROKEN"] {
        args.extend(["--cflags", flags]);
    }
    let run = compilers(&args);
    assert_eq!(run.status, 0, "{run:?}");
    let all = rows(&run);
    for (variant, status, why) in [
        ("default", "ok", ""),
        ("-DMISSING", "failed", "does not define 'sum'"),
        ("-DCRASHES", "crashed", "signal 4"),
        ("-DBROKEN", "failed", "no such code"),
    ] {
        let row = of(&all, "variant", variant);
        assert_eq!(row["status"], status, "{row}");
        assert!(row["reason"].as_str().unwrap_or("").contains(why), "{row}");
    }
    // Two of the three builds agree, so the third must be reported as wrong.
    let run = compilers(&[
        "--cc",
        "gcc",
        "--opt",
        "O1,O2",
        "--variant",
        "default",
        "--cflags",
        "-DDIFFERS",
        "--subject",
        path,
        "--json",
    ]);
    assert_eq!(run.status, 1, "{run:?}");
    assert_eq!(of(&rows(&run), "variant", "-DDIFFERS")["status"], "wrong");
}

#[test]
fn bad_input_is_refused_in_one_line() {
    let dir = tempfile::tempdir().unwrap();
    let record = dir.path().join("old.json");
    fs::write(
        &record,
        "{\"kiln\": \"0.0.1\", \"command\": \"compilers\", \"rows\": [{\"compiler\": \"gcc\"}]}",
    )
    .unwrap();
    let record = record.to_str().unwrap();
    let refuses = |args: &[&str], status, want: &str| fault(&compilers(args), status, want);
    refuses(&["--cc", "kiln-no-such-cc"], 3, "name another with --cc");
    refuses(&["--cc", "gcc-99"], 3, "apt-get install gcc-99");
    refuses(&["--cc", "/bin/true"], 2, "not a C compiler");
    refuses(&["--opt", "O9"], 2, "unknown level");
    refuses(&["--opt", "-O9"], 2, "unknown level '-O9': use one of O0");
    refuses(&["--include", "/no/such"], 2, "no such directory");
    refuses(&["--baseline", "."], 2, "it is a directory");
    refuses(&["--variant", "usban"], 2, "unknown variant");
    refuses(&["--abi", "16"], 2, "unknown width");
    refuses(&["--subject", "no-such-cipher"], 2, "--list");
    refuses(&["--len", "15"], 2, "multiple of 16");
    refuses(&["--max-regression", "5"], 2, "add --baseline");
    refuses(&["--baseline", record], 2, "another version's (0.0.1)");
    refuses(&["--baseline", "none.json"], 2, "cannot be the baseline");
    refuses(&["--explain", "gcc/aes-generic"], 2, "no level");
    refuses(&["--reproduce", "gcc/O2/aes-generic/default"], 2, "--out");
    let cell = "gcc/O2/aes-generic/default";
    for flag in [["--opt", "O3"], ["--cc", "gcc"], ["--variant", "ubsan"]] {
        for question in ["--explain", "--reproduce"] {
            let args = [&[question, cell][..], &flag].concat();
            refuses(&args, 2, "cannot be used with");
        }
    }
    let other = "gcc/O2/sha256-generic/default";
    let apart = ["--explain", cell, "--against", other];
    refuses(&apart, 2, "its subject is not that of");
    let apart = ["--explain", cell, "--subject", "sha256-generic"];
    refuses(&apart, 2, "of --subject");
    let gate = ["--baseline", "gcc", "--max-regression", "5", "--bisect"];
    let mut absent = vec!["--cc", "kiln-no-such-cc"];
    absent.extend(gate);
    refuses(&absent, 125, "no compiler");
    refuses(&["--bisect"], 2, "add --baseline");
    refuses(&["--baseline", "gcc", "--bisect"], 2, "--max-regression");
    let none = kiln_with(
        &["compilers"],
        &[("PATH", "/nowhere"), ("XDG_CACHE_HOME", CACHE)],
    );
    fault(&none, 3, "no C compiler found on PATH");
    assert_eq!(kiln(&["compilers", "--list"]).status, 0);
}

/// A gate must not pass if nothing was judged. The error must give the reason even with `-q`.
#[test]
fn a_run_that_judges_nothing_does_not_pass() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().to_str().unwrap();
    let cell = ["-q", "--cc", "gcc", "--variant", "default"];
    let run = |more: &[&str]| compilers(&[&cell[..], more].concat());
    // The optimisation level may be written as the compiler's flag.
    let made = run(&["--opt", "-O2", "--out", out]);
    assert_eq!(made.status, 0, "{made:?}");
    let record = dir.path().join("compilers.json");
    let gate = [
        "--baseline",
        record.to_str().unwrap(),
        "--max-regression",
        "1000",
        "--opt",
    ];
    let gate = |more: &[&str]| run(&[&gate[..], more].concat());
    let apart = gate(&["O1"]);
    fault(&apart, 2, "nothing in common");
    assert!(
        apart
            .stderr
            .contains("gcc/O2/aes-generic/default of 4096 bytes"),
        "{apart:?}"
    );
    fault(&gate(&["O1", "--bisect"]), 125, "nothing in common");
    // Control: the record contains the results for O2, so the gate can judge them.
    let judged = gate(&["O2"]);
    assert_eq!(judged.status, 0, "{judged:?}");

    let itself = ["--baseline", "gcc", "--max-regression", "5"];
    fault(&run(&itself), 2, "nothing is compared");

    let none = [
        "-q",
        "--cc",
        "gcc",
        "--opt",
        "O2",
        "--variant",
        "-fno-such-flag",
    ];
    fault(&compilers(&none), 2, "no-such-flag");
}

fn run_git(dir: &Path, args: &[&str]) -> Output {
    Command::new("git")
        .current_dir(dir)
        .args(["-c", "user.name=k", "-c", "user.email=k@example.org"])
        .args(args)
        .env("XDG_CACHE_HOME", CACHE)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .output()
        .expect("git runs")
}

fn git(dir: &Path, args: &[&str]) -> String {
    let output = run_git(dir, args);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success(),
        "git {args:?}: {text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    text
}

/// Version 5 of the compiler stops optimising, which makes the code about six times as slow, and
/// version 6 does not work at all. The bisection tries version 6 and must skip it. The limit is a
/// factor of 2.5, far from both 1 and 6, so that a busy machine does not affect the outcome.
#[test]
fn git_bisect_finds_the_commit_that_made_a_compiler_slower() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    git(at, &["init", "-q"]);
    let slow = "for a; do\n\tshift\n\t[ \"$a\" = -O2 ] && a=-O0\n\tset -- \"$@\" \"$a\"\ndone\nexec gcc \"$@\"";
    for version in 1..=7 {
        let script = match version {
            6 => "exit 1".to_string(),
            1..=4 => format!("# {version}\nexec gcc \"$@\""),
            _ => format!("# {version}\n{slow}"),
        };
        wrapper(&at.join("cc"), &script);
        git(at, &["add", "cc"]);
        git(at, &["commit", "-q", "-m", &format!("version {version}")]);
    }
    let first = git(at, &["rev-list", "--max-parents=0", "HEAD"]);
    let first = first.trim();
    git(at, &["checkout", "-q", first]);
    let cc = at.join("cc");
    let cell = ["--opt", "O2", "--variant", "default"];
    let mut args = vec!["--cc", cc.to_str().unwrap(), "--out", at.to_str().unwrap()];
    args.extend(cell);
    let good = at.join("compilers.json");
    let mut words = vec![
        "bisect",
        "run",
        env!("CARGO_BIN_EXE_kiln"),
        "compilers",
        "--quick",
        "--cc",
        "./cc",
        "--baseline",
        good.to_str().unwrap(),
        "--max-regression",
        "150",
        "--bisect",
    ];
    words.extend(cell);
    // On a busy machine, Kiln may be unable to judge some commits. That is not a wrong result, so
    // try again.
    let mut told = String::new();
    for _ in 0..5 {
        assert_eq!(compilers(&args).status, 0);
        git(at, &["bisect", "start", "master", first]);
        told = String::from_utf8_lossy(&run_git(at, &words).stdout).into_owned();
        if !told.contains("only 'skip'ped commits left") {
            break;
        }
        git(at, &["bisect", "reset"]);
    }
    assert!(told.contains("is the first bad commit"), "{told}");
    let subject = git(at, &["log", "-1", "--format=%s", "refs/bisect/bad"]);
    assert_eq!(subject.trim(), "version 5", "{told}");
}

/// Runs the scripts of a reproduction in an environment that contains only PATH.
#[test]
fn a_reproduction_is_followed_without_kiln() {
    let dir = tempfile::tempdir().unwrap();
    let out: PathBuf = dir.path().join("bug");
    let run = compilers(&[
        "--reproduce",
        "gcc/O0/aes-generic/default",
        "--against",
        "gcc/O2/aes-generic/default",
        "--out",
        out.to_str().unwrap(),
    ]);
    assert_eq!(run.status, 0, "{run:?}");
    let said = run.stdout();
    assert!(
        said.starts_with("gcc/O0/aes-generic/default is the bad build"),
        "{said}"
    );
    let step = |script: &str, at: &Path| {
        Command::new("env")
            .args(["-i", "PATH=/usr/bin:/bin", "sh"])
            .arg(out.join(script))
            .current_dir(at)
            .output()
            .unwrap()
    };
    let built = step("build.sh", &out);
    assert!(built.status.success(), "{built:?}");
    let told = step("run.sh", &out);
    let text = String::from_utf8_lossy(&told.stdout).into_owned();
    assert!(told.status.success(), "{told:?}");
    let ratio = text.lines().find_map(|l| l.strip_prefix("ratio "));
    let ratio: f64 = ratio.unwrap().trim().parse().unwrap();
    assert!(ratio > 1.5, "{text}");
    let readme = fs::read_to_string(out.join("README.md")).unwrap();
    assert!(
        readme.contains("interesting.sh") && readme.contains("gcc/O0"),
        "{readme}"
    );

    let reduced = dir.path().join("reduced");
    fs::create_dir(&reduced).unwrap();
    let subject = fs::read_to_string(out.join("subject.i")).unwrap();
    fs::write(reduced.join("subject.i"), &subject).unwrap();
    assert!(step("interesting.sh", &reduced).status.success());
    // Controls: the script must reject a subject that computes a wrong result and one that does not
    // compile.
    fs::write(reduced.join("subject.i"), subject.replace("0x11b", "0x11d")).unwrap();
    assert!(!step("interesting.sh", &reduced).status.success());
    fs::write(reduced.join("subject.i"), "int x = ;\n").unwrap();
    assert!(!step("interesting.sh", &reduced).status.success());
}

/// If directory names in TMPDIR were predictable, another user could create the directories first
/// and plant links in them, which a compiler would follow.
#[test]
fn links_that_others_planted_in_tmpdir_are_not_followed() {
    let dir = tempfile::tempdir().unwrap();
    let [precious, modes, cc] = ["precious", "modes", "cc"].map(|name| dir.path().join(name));
    fs::write(&precious, "precious").unwrap();
    // When the wrapper is asked to write out.s, it logs the permissions of its working directory.
    // It fails if called with `-c`, so that Kiln's run ends early.
    let script = format!(
        "case \" $* \" in *' out.s '*) stat -c %a . >>{} ;; *' -c '*) exit 1 ;; esac\nexec gcc \"$@\"",
        modes.display()
    );
    wrapper(&cc, &script);
    let plant = "for n in 0 1 2 3 4 5 6 7 8 9; do\n\
                 mkdir \"$TMPDIR/kiln-cc-$$-$n\" && ln -s ../precious \"$TMPDIR/kiln-cc-$$-$n/out.s\"\n\
                 done\nexec \"$@\"";
    Command::new("sh")
        .args(["-c", plant, "sh", env!("CARGO_BIN_EXE_kiln")])
        .args(["compilers", "--quick", "--opt", "O2", "--cc"])
        .arg(&cc)
        .env("TMPDIR", dir.path())
        .env("XDG_CACHE_HOME", CACHE)
        .output()
        .unwrap();
    assert_eq!(fs::read_to_string(&precious).unwrap(), "precious");
    let modes = fs::read_to_string(&modes).unwrap();
    assert!(
        modes.lines().count() > 0 && modes.lines().all(|m| m == "700"),
        "{modes}"
    );
}
