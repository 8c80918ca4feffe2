//! A question is added to a copy of the repository: its folder, `tests/parity`, and one line. The program is built, and
//! has the command, its help, completions, manual page and records.

mod repository;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use repository::{copy_repository, put};
use serde_json::Value;

const LIST: &str = "crates/questions/src/lib.rs";
/// The last line of the list, and the one that is added.
const LAST: &str = "    self_check: SelfCheck(SelfCheckArgs);\n";
const LINE: &str = "    parity: Parity(ParityArgs);\n";

fn home() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("new-question")
}

/// In the copy, whose target directory is kept: the next time less is built.
fn cargo(arguments: &[&str]) -> Command {
    let mut cargo = Command::new(env!("CARGO"));
    cargo
        .args(arguments)
        .args(["--offline", "--package", "kiln"])
        .env("CARGO_TARGET_DIR", home().join("target"))
        .current_dir(home().join("tree"));
    cargo
}

/// What it prints, if it succeeds.
fn output(command: &mut Command) -> String {
    let run = command.output().unwrap();
    let said = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{command:?}: {said}");
    String::from_utf8(run.stdout).unwrap()
}

fn kiln(arguments: &[&str]) -> String {
    output(Command::new(home().join("target/debug/kiln")).args(arguments))
}

/// Minutes, or seconds when nothing has changed since the last time.
/// `cargo test -p kiln-questions --test new_question -- --ignored`
#[test]
#[ignore = "builds the whole program once more"]
fn a_folder_and_a_line_make_a_question() {
    let tree = home().join("tree");
    let folder = Path::new("crates/questions/src/parity/mod.rs");
    copy_repository(&tree, |name, text| match name == Path::new(LIST) {
        true => Some(text.replace(LAST, &format!("{LAST}{LINE}"))),
        false => None,
    });
    let module = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/parity/mod.rs");
    put(&fs::read(module).unwrap(), &tree.join(folder));
    output(&mut cargo(&["build"]));

    assert!(kiln(&["--help"]).contains("  parity        Which numbers are even?"));
    assert!(kiln(&["parity", "--help"]).contains("kiln parity 3 4"));
    assert!(kiln(&["completions", "bash"]).contains("kiln__subcmd__parity"));
    let manual = home().join("manual");
    kiln(&["man", manual.to_str().unwrap()]);
    let page = fs::read_to_string(manual.join("kiln-parity.1")).unwrap();
    assert!(page.contains("Which numbers are even?"), "{page}");

    let record: Value = serde_json::from_str(&kiln(&["parity", "3", "4", "--json"])).unwrap();
    assert_eq!(record["command"], "parity");
    assert_eq!(record["type"], "parity");
    assert_eq!(record["rows"][1]["even"], true);

    // The control: the schema of the repository does not have it before it is written anew.
    let schema = tree.join("docs/schema.json");
    let types = || {
        let schema: Value = serde_json::from_slice(&fs::read(&schema).unwrap()).unwrap();
        schema["$defs"].as_object().unwrap().contains_key("parity")
    };
    assert!(!types());
    let test = "the_schema_and_its_reference_are_those_of_the_row_structures";
    let mut bless = cargo(&["test", "--test", "records"]);
    output(bless.env("KILN_BLESS", "1").args(["--", "--exact", test]));
    assert!(types());
}
