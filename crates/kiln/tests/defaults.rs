//! Tests the configuration file `kiln.toml`: the effect of each key, which file is read if there
//! are several, and how errors in a file are reported.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::common::tree::{kiln_keeping_with, tree_of};
use crate::common::{fault, schema, Run};
use serde_json::Value;

/// A temporary directory where the program runs. It contains a separate home directory.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Place {
        Place(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn write(&self, file: &str, text: &str) {
        let path = self.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn run_with(&self, args: &[&str], env: &[(&str, &str)]) -> Run {
        let output = Command::new(env!("CARGO_BIN_EXE_kiln"))
            .args(args)
            .current_dir(self.path())
            .env_remove("KILN_TIERS")
            .env_remove("KILN_DEFAULTS")
            .env_remove("XDG_CONFIG_HOME")
            .env("HOME", self.path().join("home"))
            .envs(env.iter().copied())
            .output()
            .unwrap();
        Run {
            status: output.status.code().unwrap(),
            bytes: output.stdout,
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    fn run(&self, args: &[&str]) -> Run {
        self.run_with(args, &[])
    }
}

const WORK: [&str; 4] = ["test", "sha256", "--suite", "vectors"];

fn with<'a>(args: &[&'a str], more: &[&'a str]) -> Vec<&'a str> {
    [args, more].concat()
}

/// Returns the settings that the record lists, formatted as `KEY VALUE FILE:LINE`.
fn defaults(record: &Value) -> Vec<String> {
    let list = record["defaults"].as_array().cloned().unwrap_or_default();
    let text = |d: &Value, name: &str| d[name].as_str().unwrap().to_string();
    list.iter()
        .map(|d| {
            format!(
                "{} {} {}:{}",
                text(d, "key"),
                text(d, "value"),
                text(d, "file"),
                d["line"]
            )
        })
        .collect()
}

/// Returns the number of a core that this process may run on.
fn a_core() -> String {
    let allowed = kiln_measure_cores();
    allowed[allowed.len() - 1].to_string()
}

fn kiln_measure_cores() -> Vec<usize> {
    kiln_measure::CoreList::allowed().unwrap().cores().to_vec()
}

#[test]
fn cpu_is_taken_from_the_file_unless_the_flag_is_given() {
    let place = Place::new();
    let core = a_core();
    place.write("kiln.toml", &format!("# cores\ncpu = \"{core}\"\n"));
    let record = place.run(&with(&WORK, &["--json"])).json();
    assert_eq!(defaults(&record), [format!("cpu {core} kiln.toml:2")]);
    let record = place.run(&with(&WORK, &["--json", "--cpu", &core])).json();
    assert_eq!(defaults(&record), [""; 0]);
    // A core that this machine lacks must cause an error, which shows that the setting is used.
    place.write("kiln.toml", "cpu = \"1000\"\n");
    fault(
        &place.run(&WORK),
        2,
        "kiln.toml:1: cpu: core 1000 is not among",
    );
    assert_eq!(place.run(&with(&WORK, &["--cpu", &core])).status, 0);
    // The human-readable output must also show the setting.
    place.write("kiln.toml", &format!("cpu = \"{core}\"\n"));
    let text = place.run(&["list", "--quick"]).stdout();
    let line = format!("cpu = {core} (kiln.toml:1)");
    assert!(text.lines().any(|l| l == line), "{text}");
}

#[test]
fn out_is_a_directory_of_records() {
    let place = Place::new();
    place.write("kiln.toml", "out = \"records\"\n");
    assert_eq!(place.run(&WORK).status, 0);
    let file = fs::read_to_string(place.path().join("records/test.json")).unwrap();
    let record: Value = serde_json::from_str(&file).unwrap();
    schema::check(&record);
    assert_eq!(defaults(&record), ["out records kiln.toml:1"]);
    // The flag must take precedence over the file.
    assert_eq!(place.run(&with(&WORK, &["-o", "others"])).status, 0);
    assert!(place.path().join("others/test.json").exists());
    // Commands that write no records, such as a report, must not create the directory.
    fs::rename(place.path().join("records"), place.path().join("old")).unwrap();
    assert_eq!(place.run(&["completions", "bash"]).status, 0);
    assert_eq!(place.run(&["report", "old", "--format", "csv"]).status, 0);
    assert!(!place.path().join("records").exists());
    place.write("kiln.toml", "out = \"/dev/null/x\"\n");
    fault(
        &place.run(&WORK),
        2,
        "kiln.toml:1: out: cannot use '/dev/null/x'",
    );
    // The path is relative to the file, not to the current directory.
    place.write("conf/kiln.toml", "out = \"r\"\n");
    let run = place.run(&with(&WORK, &["--defaults", "conf/kiln.toml"]));
    assert_eq!(run.status, 0, "{run:?}");
    assert!(place.path().join("conf/r/test.json").exists());
    place.write("kiln.toml", "out = \"~/r\"\n");
    assert_eq!(place.run(&WORK).status, 0);
    assert!(place.path().join("home/r/test.json").exists());
}

#[test]
fn libraries_are_those_of_the_file() {
    let place = Place::new();
    let speed = [
        "speed",
        "sha256",
        "--len",
        "64",
        "--quick",
        "--json",
        "--impl",
        "sha256-generic",
    ];
    let providers = |record: &Value| -> Vec<String> {
        let rows = record["rows"].as_array().unwrap().iter();
        let mut names: Vec<String> = rows
            .map(|row| row["provider"].as_str().unwrap().to_string())
            .collect();
        names.sort();
        names.dedup();
        names
    };
    place.write("kiln.toml", "libraries = [\"none\"]\n");
    let record = place.run(&speed).json();
    assert_eq!(providers(&record), ["kiln"]);
    assert_eq!(defaults(&record), ["libraries none kiln.toml:1"]);
    // The run must fail if the file names a library that cannot be loaded, such as /dev/null in
    // place of OpenSSL.
    place.write("kiln.toml", "\nlibraries = [\"openssl\"]\n");
    let broken = [("KILN_OPENSSL", "/dev/null")];
    fault(&place.run_with(&speed, &broken), 3, "openssl");
    let record = place
        .run_with(&with(&speed, &["--peers", "none"]), &broken)
        .json();
    assert_eq!(
        (providers(&record), defaults(&record)),
        (vec!["kiln".to_string()], vec![])
    );
}

#[test]
fn a_tree_without_a_name_is_that_of_the_file() {
    let place = Place::new();
    // Without a file, the error line must suggest a remedy.
    for args in [
        &["test", "--tree"][..],
        &["tree"],
        &["speed", "sha256", "--tree"],
    ] {
        fault(&place.run(args), 2, "no kernel tree is named");
    }
    place.write("kiln.toml", "cpu = \"0\"\ntree = \"linux\"\n");
    fault(
        &place.run(&["test", "--tree"]),
        2,
        "kiln.toml:2: tree: 'linux' is neither",
    );
    place.write("linux/README", "");
    for args in [
        &["test", "--tree"][..],
        &["tree"],
        &["test", "--tree", "--quick"],
    ] {
        fault(&place.run(args), 2, "not a Linux source tree");
    }
    // A tree on the command line takes precedence. A command that needs no tree must not use the
    // setting.
    fault(&place.run(&["tree", "/no/such"]), 2, "/no/such");
    let record = place.run(&with(&WORK, &["--json", "--cpu", "0"])).json();
    assert_eq!(defaults(&record), [""; 0]);
}

#[test]
fn a_tree_of_the_file_is_built_and_run() {
    let Some(tree) = tree_of("KILN_TEST_TREE", "kernel tree") else {
        return;
    };
    let place = Place::new();
    place.write("kiln.toml", &format!("tree = \"{}\"\n", tree.display()));
    let file = place.path().join("kiln.toml");
    let env = [("KILN_DEFAULTS", file.to_str().unwrap())];
    let record = kiln_keeping_with(&["tree", "--json"], &env).json();
    let used = format!("tree {} {}:1", tree.display(), file.display());
    assert_eq!(defaults(&record), [used]);
    assert!(record["rows"].as_array().unwrap().len() > 50);
}

#[test]
fn the_nearest_file_counts_alone() {
    let place = Place::new();
    let core = a_core();
    let used = |args: &[&str], env: &[(&str, &str)]| {
        let run = place.run_with(&with(&WORK, &with(args, &["--json"])), env);
        defaults(&run.json())
    };
    assert_eq!(used(&[], &[]), [""; 0]);
    let home = place.path().join("home/.config/kiln/kiln.toml");
    place.write(
        "home/.config/kiln/kiln.toml",
        &format!("cpu = \"{core}\"\n"),
    );
    assert_eq!(used(&[], &[]), [format!("cpu {core} {}:1", home.display())]);
    place.write("xdg/kiln/kiln.toml", &format!("\ncpu = \"{core}\"\n"));
    let xdg = place.path().join("xdg");
    let env = [("XDG_CONFIG_HOME", xdg.to_str().unwrap())];
    let file = xdg.join("kiln/kiln.toml");
    assert_eq!(
        used(&[], &env),
        [format!("cpu {core} {}:2", file.display())]
    );
    // If the current directory contains a file, the other files must be ignored. This file does not
    // set `cpu`, so `cpu` must have no default.
    place.write("kiln.toml", "libraries = [\"none\"]\n");
    assert_eq!(used(&[], &env), [""; 0]);
    assert_eq!(used(&["--no-defaults"], &env), [""; 0]);
    place.write("other.toml", &format!("\n\ncpu = \"{core}\"\n"));
    let other = [format!("cpu {core} other.toml:3")];
    assert_eq!(used(&["--defaults", "other.toml"], &env), other);
    assert_eq!(used(&[], &[("KILN_DEFAULTS", "other.toml")]), other);
    assert_eq!(
        used(&["-C", "xdg/kiln"], &[]),
        [format!("cpu {core} kiln.toml:2")]
    );
}

#[test]
fn a_file_that_cannot_be_used_is_one_line() {
    let place = Place::new();
    for (text, line) in [
        (
            "# x\nspeed = 1\n",
            "kiln.toml:2: 'speed = 1': unknown field `speed`",
        ),
        (
            "cpu = 3\n",
            "kiln.toml:1: 'cpu = 3': expected a string in double quotes",
        ),
        ("cpu = \"0\"\n\nout = [\n", "kiln.toml:"),
        ("libraries = [\"opensll\"]\n", "kiln.toml:1: libraries: "),
        ("cpu = \"0-\"\n", "kiln.toml:1: cpu: "),
    ] {
        place.write("kiln.toml", text);
        fault(&place.run(&WORK), 2, line);
        // With --no-defaults, the file must be ignored.
        assert_eq!(place.run(&with(&WORK, &["--no-defaults"])).status, 0);
    }
    fs::remove_file(place.path().join("kiln.toml")).unwrap();
    fs::create_dir(place.path().join("kiln.toml")).unwrap();
    fault(
        &place.run(&WORK),
        2,
        "kiln.toml: cannot read these defaults",
    );
    fs::remove_dir(place.path().join("kiln.toml")).unwrap();
    fs::write(place.path().join("kiln.toml"), b"cpu = \"\xff\"\n").unwrap();
    fault(
        &place.run(&WORK),
        2,
        "kiln.toml: cannot read these defaults",
    );
    let run = place.run(&with(&WORK, &["--defaults", "absent.toml"]));
    fault(&run, 2, "kiln: absent.toml: cannot read these defaults");
    let run = place.run_with(&WORK, &[("KILN_DEFAULTS", "absent.toml")]);
    fault(&run, 2, "KILN_DEFAULTS=absent.toml: cannot read");
    fault(&run, 2, "name a readable file in KILN_DEFAULTS");
    let run = place.run(&with(&WORK, &["--defaults", "x", "--no-defaults"]));
    assert_eq!(run.status, 2, "{run:?}");
}

/// The child processes of a survey must use the cores that the file sets, but must not write to the
/// directory that it sets.
#[test]
fn a_survey_passes_on_what_applies() {
    let place = Place::new();
    let core = a_core();
    place.write("kiln.toml", &format!("cpu = \"{core}\"\nout = \"r\"\n"));
    let run = place.run(&["survey", "--quick", "--question", "ctrlq", "--no-report"]);
    assert_eq!(run.status, 0, "{run:?}");
    let text = fs::read_to_string(place.path().join("r/survey.json")).unwrap();
    let record: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(defaults(&record).len(), 2);
    for part in record["records"].as_array().unwrap() {
        let args = part["args"].as_array().unwrap();
        assert!(args.iter().any(|arg| arg == "--cpu"), "{args:?}");
        assert_eq!(defaults(part), [""; 0]);
    }
}
