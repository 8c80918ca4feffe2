//! Tests that use the recorded machines in `crates/questions/tests/machines`, and damaged copies of
//! these recordings.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::files::{Root, CRYPTO, RELEASE, SYMBOLS};
use super::machine::Machine;
use super::recording::read_files;
use super::row::{Row, Verdict};
use super::run::{describe, judge};
use super::script::write_script;

const EXPECTED: &str = include_str!("../../tests/machines/expected.tsv");

type Files = BTreeMap<String, Vec<String>>;

/// Returns a recording's directory.
pub(super) fn recorded(name: &str) -> PathBuf {
    let machines = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/machines");
    machines.join(name)
}

/// Returns the machine, question and expected verdict from each line of `EXPECTED`.
fn expected() -> Vec<(&'static str, u8, &'static str)> {
    let lines = EXPECTED.lines().filter(|l| !l.starts_with('#'));
    lines
        .map(|line| {
            let mut columns = line.split('\t');
            let mut next = || columns.next().unwrap();
            (next(), next().parse().unwrap(), next())
        })
        .collect()
}

fn machines() -> Vec<&'static str> {
    let mut names: Vec<&str> = expected().into_iter().map(|e| e.0).collect();
    names.dedup();
    names
}

fn files(name: &str) -> Files {
    read_files(&Root::new(&recorded(name)))
}

fn write(dir: &Path, path: &str, content: &[u8]) {
    let path = dir.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

fn text(lines: &[String]) -> String {
    lines.iter().flat_map(|l| [l.as_str(), "\n"]).collect()
}

/// Writes the files to a new temporary directory.
fn laid_out(files: &Files) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (path, lines) in files {
        write(dir.path(), path, text(lines).as_bytes());
    }
    dir
}

fn rows_of(dir: &Path) -> Vec<Row> {
    let machine = Machine::read(&Root::new(dir));
    // Also describe the machine and write the script, because neither may panic.
    describe(&machine);
    let _ = write_script(&machine, Some(1));
    judge(&machine)
}

fn rows(files: &Files) -> Vec<Row> {
    rows_of(laid_out(files).path())
}

fn verdicts(rows: &[Row]) -> Vec<Verdict> {
    rows.iter().map(|r| r.verdict).collect()
}

fn set(files: &mut Files, path: &str, text: &str) {
    files.insert(path.into(), text.lines().map(str::to_owned).collect());
}

/// Returns the lines of the configuration, whose path depends on the release.
fn config(files: &mut Files) -> &mut Vec<String> {
    let (_, lines) = files
        .iter_mut()
        .find(|(p, _)| p.starts_with("boot/"))
        .unwrap();
    lines
}

#[test]
fn every_recorded_machine_is_judged_as_expected() {
    for (machine, question, verdict) in expected() {
        let rows = rows_of(&recorded(machine));
        let row = &rows[usize::from(question) - 1];
        assert_eq!(row.question, question);
        assert_eq!(
            row.verdict.words(),
            verdict,
            "{machine} {question}: {row:#?}"
        );
        assert!(!row.evidence.is_empty(), "{machine} {question}: {row:#?}");
        assert_eq!(row.basis.is_none(), row.verdict == Verdict::Unknown);
    }
}

#[test]
fn the_table_has_each_recorded_machine_with_five_questions() {
    let mut there: Vec<String> = fs::read_dir(recorded(""))
        .unwrap()
        .map(|e| e.unwrap())
        .filter(|e| e.path().is_dir())
        .map(|e| e.file_name().into_string().unwrap())
        .collect();
    there.sort();
    let mut listed = machines();
    listed.sort_unstable();
    assert_eq!(there, listed);
    for machine in listed {
        let of = expected().into_iter().filter(|e| e.0 == machine);
        assert!(of.map(|e| e.1).eq(1..=5), "{machine}");
    }
}

#[test]
fn a_version_number_alone_decides_nothing() {
    for release in [
        "4.19.0",
        "5.10.0",
        "6.1.0-56-amd64",
        "6.12.117",
        "6.15.0",
        "7.3.4",
        "9.9",
        "x",
    ] {
        let mut files = Files::new();
        set(&mut files, RELEASE.pattern, release);
        for row in rows(&files) {
            assert_eq!(row.verdict, Verdict::Unknown, "{release}: {row:#?}");
        }
    }
    for row in rows_of(tempfile::tempdir().unwrap().path()) {
        assert_eq!(row.verdict, Verdict::Unknown, "{row:#?}");
    }
}

/// A verdict that depends on the kernel's version must have a caveat, and the version must be part
/// of the evidence.
#[test]
fn verdicts_that_need_the_version_have_a_caveat() {
    for machine in machines() {
        for row in rows_of(&recorded(machine)) {
            if serde_json::to_value(&row).unwrap()["basis"] == "files and version" {
                assert!(row.caveat.is_some(), "{machine}: {row:#?}");
                let read = |e: &String| e.starts_with("proc/sys/kernel/osrelease");
                assert!(row.evidence.iter().any(read), "{machine}: {row:#?}");
            }
        }
    }
}

#[test]
fn the_drivers_decide_and_not_the_number() {
    let (old, new) = (files("debian-6.12"), files("debian-7.3"));
    // Simulate a backport: the version is 6.12, but the drivers are those of 7.3.
    let mut backported = old.clone();
    backported.insert(CRYPTO.pattern.into(), new[CRYPTO.pattern].clone());
    let judged = verdicts(&rows(&backported));
    assert_eq!(judged[..2], [Verdict::HasNot; 2]);
    // Simulate a kernel whose helper wraps drivers, although mainline's helper wraps none in this
    // version. Without evidence about sections, the verdict must be 'cannot tell'.
    let mut odd = new.clone();
    odd.insert(CRYPTO.pattern.into(), old[CRYPTO.pattern].clone());
    odd.insert(SYMBOLS.pattern.into(), old[SYMBOLS.pattern].clone());
    assert_eq!(verdicts(&rows(&odd))[..2], [Verdict::Unknown; 2]);
    // The symbols provide this evidence, so a verdict becomes possible.
    odd.insert(SYMBOLS.pattern.into(), new[SYMBOLS.pattern].clone());
    assert_eq!(verdicts(&rows(&odd))[..2], [Verdict::HasNot; 2]);
}

#[test]
fn the_sentence_names_algorithm_driver_and_way_out() {
    let rows = rows_of(&recorded("debian-6.12"));
    let finding = &rows[0].finding;
    assert!(
        finding.starts_with("xts(aes) is served by xts-aes-aesni"),
        "{finding}"
    );
    assert!(
        finding.contains("through cryptd") && finding.contains("6.15"),
        "{finding}"
    );
    assert!(
        rows[1].finding.contains("rfc4106(gcm(aes))"),
        "{:?}",
        rows[1]
    );
    let esp = |e: &String| e.contains("esp4 loaded");
    assert!(rows[1].evidence.iter().any(esp), "{:?}", rows[1]);
    for row in &rows[..2] {
        assert!(row.advice.contains("docs/MODULE.md"), "{row:?}");
    }
    // Control: for a kernel without the problem, the advice must not mention the module.
    for row in &rows_of(&recorded("debian-7.3"))[..2] {
        assert!(!row.advice.contains("MODULE"), "{row:?}");
    }
}

/// Control for question 5: the driver's callback is removed from the recording, as if the driver
/// used polling.
#[test]
fn a_driver_that_polls_is_found() {
    let mut files = files("debian-6.1");
    let symbols = files.get_mut(SYMBOLS.pattern).unwrap();
    let before = symbols.len();
    symbols.retain(|s| !s.contains("virtcrypto_ctrlq_callback"));
    assert!(symbols.len() < before);
    // In a release this new, the driver does not poll. This contradicts the missing symbol, so the
    // verdict is 'cannot tell'.
    assert_eq!(rows(&files)[4].verdict, Verdict::Unknown);
    set(&mut files, RELEASE.pattern, "5.10.0-30-amd64");
    assert_eq!(rows(&files)[4].verdict, Verdict::Has);
    files.remove(SYMBOLS.pattern);
    assert_eq!(rows(&files)[4].verdict, Verdict::Unknown);
}

/// Controls for question 4: changes the compiler or the sanitizer options in a recorded
/// configuration, and checks each verdict.
#[test]
fn compilers_and_checks_that_slow_code_are_found() {
    let judged = |edit: &dyn Fn(&mut Vec<String>)| {
        let mut files = files("debian-6.12");
        edit(config(&mut files));
        rows(&files)[3].verdict
    };
    let add = |line: &'static str| move |lines: &mut Vec<String>| lines.insert(0, line.into());
    assert_eq!(judged(&|_| ()), Verdict::HasNot);
    assert_eq!(judged(&add("CONFIG_UBSAN_OBJECT_SIZE=y")), Verdict::Has);
    assert_eq!(judged(&add("CONFIG_UBSAN_BOUNDS=y")), Verdict::HasNot);
    assert_eq!(judged(&add("CONFIG_UBSAN_ALIGNMENT=y")), Verdict::Unknown);
    assert_eq!(judged(&add("CONFIG_KASAN=y")), Verdict::Unknown);
    for (words, verdict) in [
        ("gcc (Ubuntu 7.2.0-8) 7.2.0", Verdict::Has),
        ("gcc (GCC) 7.5.0", Verdict::Unknown),
        ("Debian clang version 19.1.7", Verdict::HasNot),
        ("tcc 1", Verdict::Unknown),
    ] {
        let swap = |lines: &mut Vec<String>| {
            lines.retain(|l| !l.starts_with("CONFIG_CC_VERSION_TEXT"));
            lines.insert(0, format!("CONFIG_CC_VERSION_TEXT=\"{words}\""));
        };
        assert_eq!(judged(&swap), verdict, "{words}");
    }
}

/// Control for question 3: if the CPU lacks the instructions, no code can open a long section.
#[test]
fn a_cpu_without_the_instructions_has_no_long_sections() {
    let mut files = files("debian-7.3-idle");
    assert_eq!(rows(&files)[2].verdict, Verdict::Has);
    set(
        &mut files,
        "proc/cpuinfo",
        "processor\t: 0\nflags\t\t: fpu sse2",
    );
    assert_eq!(rows(&files)[2].verdict, Verdict::HasNot);
    files.remove("proc/cpuinfo");
    assert_eq!(rows(&files)[2].verdict, Verdict::Unknown);
}

/// If files are missing or cut short, a verdict must either stay the same or become 'cannot tell'.
#[test]
fn a_file_that_is_missing_or_cut_short_never_turns_a_verdict_around() {
    for name in machines() {
        let files = files(name);
        let dir = laid_out(&files);
        let whole = verdicts(&rows_of(dir.path()));
        for (path, lines) in &files {
            let text = text(lines);
            let cuts = (0..7).map(|i| text.len() * i / 7).chain([text.len() - 1]);
            for cut in cuts {
                write(dir.path(), path, &text.as_bytes()[..cut]);
                check(&whole, dir.path(), &format!("{name}: {path} cut at {cut}"));
            }
            fs::remove_file(dir.path().join(path)).unwrap();
            check(&whole, dir.path(), &format!("{name}: {path} removed"));
            write(dir.path(), path, text.as_bytes());
        }
        assert_eq!(verdicts(&rows_of(dir.path())), whole);
    }
}

fn check(whole: &[Verdict], dir: &Path, what: &str) {
    let rows = rows_of(dir);
    for (row, whole) in rows.iter().zip(whole) {
        let fits = row.verdict == *whole || row.verdict == Verdict::Unknown;
        assert!(fits, "{what}: {whole:?} became {row:#?}");
    }
}

/// Changes to random bytes in the files must not cause a panic, and there must still be five rows.
#[test]
fn damaged_files_are_judged_without_a_panic() {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = move |below: usize| {
        // Advance an xorshift64 generator.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below.max(1) as u64) as usize
    };
    for name in ["debian-6.12", "debian-7.3"] {
        let files = files(name);
        let dir = laid_out(&files);
        for (path, lines) in &files {
            let whole = text(lines).into_bytes();
            for _ in 0..6 {
                let mut bytes = whole.clone();
                for _ in 0..=random(40) {
                    let (at, with) = (random(bytes.len()), random(256) as u8);
                    match random(3) {
                        0 => bytes[at] = with,
                        1 => bytes.insert(at, b"\n\0:()\t\xff9"[usize::from(with) % 8]),
                        _ => drop(bytes.splice(
                            at..(at + random(60)).min(whole.len()).max(at).min(bytes.len()),
                            [],
                        )),
                    }
                    if bytes.is_empty() {
                        bytes.push(with);
                    }
                }
                write(dir.path(), path, &bytes);
                assert_eq!(rows_of(dir.path()).len(), 5, "{name}: {path}");
            }
            write(dir.path(), path, &whole);
        }
    }
}

#[test]
fn the_script_uses_the_symbols_of_the_kernel() {
    let script = |symbols: Option<&str>| {
        let mut files = files("debian-7.3");
        match symbols {
            Some(text) => set(&mut files, SYMBOLS.pattern, text),
            None => drop(files.remove(SYMBOLS.pattern)),
        }
        let dir = laid_out(&files);
        write_script(&Machine::read(&Root::new(dir.path())), None)
    };
    let new = script(Some("0 T kernel_fpu_begin_mask\n0 T kernel_fpu_end")).unwrap();
    assert!(new.contains("kprobe:kernel_fpu_begin_mask") && new.contains("kprobe:kernel_fpu_end"));
    assert!(!new.contains("interval"));
    let old = script(Some("0 T kernel_fpu_begin\n0 T kernel_fpu_end")).unwrap();
    assert!(old.contains("kprobe:kernel_fpu_begin\n"), "{old}");
    let blind = script(None).unwrap();
    assert!(blind.contains("could not be read"), "{blind}");
    for inlined in [
        "0 T kernel_fpu_end",
        "0 T kernel_fpu_begin_mask",
        "0 t other",
    ] {
        let why = script(Some(inlined)).unwrap_err();
        assert!(why.contains("inlined") && why.lines().count() == 1, "{why}");
    }
    for machine in ["debian-6.1", "debian-6.12", "debian-7.3"] {
        let machine = Machine::read(&Root::new(&recorded(machine)));
        let script = write_script(&machine, Some(5)).unwrap();
        assert!(script.contains("among this kernel's symbols") && script.contains("interval:s:5"));
    }
}
