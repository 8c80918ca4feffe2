//! Tests what packagers of Kiln rely on: the manual pages, the shell completions, and a program
//! that runs without the source tree.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::common::kiln;

/// Returns the commands that `kiln help` lists.
fn commands() -> Vec<String> {
    let help = kiln(&["help"]).stdout();
    let list = help.split("Commands:\n").nth(1).expect("a list");
    let list = list.split("\n\n").next().expect("it ends");
    let names = list.lines().filter_map(|l| l.split_whitespace().next());
    let names: Vec<_> = names.filter(|n| *n != "help").map(str::to_owned).collect();
    assert!(names.len() > 14, "{names:?}");
    names
}

/// Returns whether the program is installed. Prints a message if it is not.
fn here(program: &str) -> bool {
    let there = Command::new("sh")
        .args(["-c", &format!("command -v {program}")])
        .stdout(Stdio::null())
        .status();
    let there = there.is_ok_and(|s| s.success());
    if !there {
        eprintln!("SKIPPED: no {program} here");
    }
    there
}

#[test]
fn the_manual_has_every_command_and_man_has_nothing_to_say() {
    let dir = tempfile::tempdir().unwrap();
    let run = kiln(&["man", dir.path().to_str().unwrap()]);
    assert_eq!((run.status, run.stderr.as_str()), (0, ""));
    for name in commands() {
        let page = dir.path().join(format!("kiln-{name}.1"));
        assert!(page.is_file(), "{}", page.display());
    }
    assert!(dir.path().join("kiln-linux-boot.1").is_file());
    if !here("groff") {
        return;
    }
    // Run the same checks as lintian, but call groff directly, because it may be installed without
    // man.
    let warnings = |text: &str| {
        let file = dir.path().join("page");
        fs::write(&file, text).unwrap();
        let out = Command::new("groff")
            .args(["-man", "-Tutf8", "-Kutf8", "-ww", "-z", "-rLL=80n"])
            .arg(&file)
            .output()
            .unwrap();
        String::from_utf8(out.stderr).unwrap()
    };
    assert_ne!(warnings(".TH x 1\n.nosuch\n"), "", "the control");
    for entry in fs::read_dir(dir.path()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|e| e == "1") {
            let said = warnings(&fs::read_to_string(&path).unwrap());
            assert_eq!(said, "", "{}", path.display());
        }
    }
}

#[test]
fn completions_have_every_command_and_are_scripts() {
    for shell in ["bash", "zsh", "fish"] {
        let run = kiln(&["completions", shell]);
        assert_eq!((run.status, run.stderr.as_str()), (0, ""), "{shell}");
        let script = run.stdout();
        for name in commands() {
            assert!(script.contains(&name), "{shell}: {name}");
        }
        for word in ["tcrypt", "max-regression"] {
            assert!(script.contains(word), "{shell}: {word}");
        }
        if here(shell) {
            let dir = tempfile::tempdir().unwrap();
            let file = dir.path().join("script");
            fs::write(&file, script).unwrap();
            let out = Command::new(shell).arg("-n").arg(&file).output().unwrap();
            assert!(out.status.success(), "{shell}: {out:?}");
        }
    }
}

/// Tests the bash completions by calling the completion function as bash does.
#[test]
fn bash_completes_commands_and_flags() {
    if !here("bash") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("kiln");
    fs::write(&file, kiln(&["completions", "bash"]).bytes).unwrap();
    let complete = |words: &[&str]| {
        let script = format!(
            ". {}; COMP_WORDS=({}); COMP_CWORD={}; _kiln kiln {} {}; echo \"${{COMPREPLY[@]}}\"",
            file.display(),
            words.join(" "),
            words.len() - 1,
            words[words.len() - 1],
            words[words.len() - 2]
        );
        let out = Command::new("bash").args(["-c", &script]).output().unwrap();
        String::from_utf8(out.stdout).unwrap().trim().to_owned()
    };
    assert_eq!(complete(&["kiln", "spe"]), "speed");
    assert_eq!(complete(&["kiln", "linux", "fid"]), "fidelity");
    assert_eq!(complete(&["kiln", "budget", "--head"]), "--header");
    assert_eq!(complete(&["kiln", "nosuch"]), "");
}

/// Without debugging information, the installed program must not contain the path of any file in
/// the source tree from which it was built.
#[test]
fn an_installed_program_does_not_know_where_its_sources_were() {
    let tree = fs::canonicalize(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).unwrap();
    let tree = tree.to_str().unwrap().as_bytes();
    let knows = |program: &Path| {
        let bytes = fs::read(program).unwrap();
        bytes.windows(tree.len()).any(|w| w == tree)
    };
    let built = Path::new(env!("CARGO_BIN_EXE_kiln"));
    assert!(knows(built), "the control: debugging information names it");
    let dir = tempfile::tempdir().unwrap();
    let installed = dir.path().join("kiln");
    let strip = Command::new("strip")
        .arg("-o")
        .args([&installed, built])
        .status();
    assert!(strip.unwrap().success());
    assert!(!knows(&installed));

    // Run the program in a directory without sources. It must build from the sources embedded in
    // the program itself.
    let out = Command::new(&installed)
        .args(["compilers", "--quick", "--cc", "cc", "--opt", "O2"])
        .args(["--variant", "default", "--json"])
        .env("XDG_CACHE_HOME", dir.path().join("cache"))
        .current_dir("/")
        .output()
        .unwrap();
    assert!(out.status.success(), "{out:?}");
    let text = String::from_utf8(out.stdout).unwrap();
    assert!(text.contains("\"status\": \"ok\""), "{text}");
}
