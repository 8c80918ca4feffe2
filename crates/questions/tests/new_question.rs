//! Adds a question to a copy of the repository: its folder, `tests/parity`, and one line. Checks
//! that the built program has the command, its help, completions, manual page and records. The rows
//! of the copy also have a field that the folder's rows lack: everything that shows rows must include
//! it, although only the rows were edited.

mod repository;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use repository::copy_repository;
use serde_json::Value;

const LIST: &str = "crates/questions/src/lib.rs";
/// The last entry in the list of questions, and the entry added after it.
const LAST: &str = "    self_check: SelfCheck(SelfCheckArgs);\n";
const LINE: &str = "    parity: Parity(ParityArgs);\n";
/// FIELD is the line in the row's struct after which NEW_FIELD is inserted; FILLED is the line
/// after which NEW_FILLED is inserted in the code that creates the row.
const FIELD: &str = "    even: bool,\n";
const NEW_FIELD: &str = r#"
    /// Half the number.
    #[schemars(extend("unit" = "cycles", "x-role" = "main", "x-better" = "less"))]
    half: f64,
"#;
const FILLED: &str = "            even: number % 2 == 0,\n";
const NEW_FILLED: &str = "            half: f64::from(number) / 2.0,\n";

fn home() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("new-question")
}

/// Returns a command that runs cargo in the copy. The target directory is kept, so that the next
/// run builds less.
fn cargo(arguments: &[&str]) -> Command {
    let mut cargo = Command::new(env!("CARGO"));
    cargo
        .args(arguments)
        .args(["--offline", "--package", "kiln"])
        .env("CARGO_TARGET_DIR", home().join("target"))
        // Without debug information, which no check needs, the build takes less time.
        .env("CARGO_PROFILE_DEV_DEBUG", "0")
        .current_dir(home().join("tree"));
    cargo
}

/// Returns the command's output. Panics if the command fails.
fn output(command: &mut Command) -> String {
    let run = command.output().unwrap();
    let said = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{command:?}: {said}");
    String::from_utf8(run.stdout).unwrap()
}

fn kiln(arguments: &[&str]) -> String {
    output(Command::new(home().join("target/debug/kiln")).args(arguments))
}

/// Builds the whole program. This takes a minute, or seconds if nothing has changed since the last
/// run.
#[test]
fn a_folder_and_a_line_make_a_question_and_one_edit_a_field() {
    let tree = home().join("tree");
    let folder = PathBuf::from("crates/questions/src/parity/mod.rs");
    let add_line = |name: &Path, text: &str| match name == Path::new(LIST) {
        true => Some(text.replace(LAST, &format!("{LAST}{LINE}"))),
        false => None,
    };
    let module = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/parity/mod.rs");
    let text = fs::read_to_string(module).unwrap();
    assert!(text.contains(FIELD) && text.contains(FILLED));
    let text = text
        .replace(FIELD, &format!("{FIELD}{NEW_FIELD}"))
        .replace(FILLED, &format!("{FILLED}{NEW_FILLED}"));
    copy_repository(&tree, add_line, [(folder, text.into_bytes())]);
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
    assert_eq!(record["rows"][1]["half"], 2.0);

    // Control: the repository's documents do not contain the fields until they are regenerated.
    let described = |what: &str| {
        let read = |name| fs::read_to_string(tree.join(name)).unwrap();
        let schema: Value = serde_json::from_str(&read("docs/schema.json")).unwrap();
        let field = &schema["$defs"]["parity"]["properties"][what];
        (
            !field.is_null(),
            read("docs/RECORDS.md").contains(&format!("`{what}`")),
        )
    };
    for field in ["even", "half"] {
        assert_eq!(described(field), (false, false), "{field}");
    }
    let test = "records::the_schema_and_its_reference_are_those_of_the_row_structures";
    let mut bless = cargo(&["test", "--test", "all"]);
    output(bless.env("KILN_BLESS", "1").args(["--", "--exact", test]));
    for field in ["even", "half"] {
        assert_eq!(described(field), (true, true), "{field}");
    }
    // The program contains the documents.
    output(&mut cargo(&["build"]));
    assert!(kiln(&["parity", "--help"]).contains("\n  number, even, half\n"));
    let side = |name: &str, number: &str| {
        let file = home().join(name);
        fs::write(&file, kiln(&["parity", number, "--json"])).unwrap();
        file.to_str().unwrap().to_string()
    };
    let (a, b) = (side("a.json", "4"), side("b.json", "4"));
    // The page, an export and the comparison must include the new field, too.
    assert!(kiln(&["report", &a, "--format", "csv"]).contains("half"));
    let compared: Value = serde_json::from_str(&kiln(&["compare", &a, &b, "--json"])).unwrap();
    assert_eq!(compared["rows"][0]["unit"], "half", "{compared}");
}
