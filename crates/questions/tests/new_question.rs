//! Adds a question to a copy of the repository by adding its folder, `tests/parity`, and one line
//! to the list of questions. Checks that the built program has the command, along with its help,
//! completions, manual page and records. The test also adds a field to the rows of the question.
//! Everything that shows rows must then include this field, although only the code that defines and
//! creates the rows was edited.

mod repository;
#[path = "repository/wanted.rs"]
mod wanted;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use kiln_kbuild::walk;
use repository::copy_repository;
use serde_json::Value;

const LIST: &str = "crates/questions/src/lib.rs";
/// LAST is the last entry in the list of questions. LINE is the entry that is added after it.
const LAST: &str = "    self_check: SelfCheck(SelfCheckArgs);\n";
const LINE: &str = "    parity: Parity(ParityArgs);\n";
/// NEW_FIELD is inserted after the line FIELD in the row's struct. NEW_FILLED is inserted after the
/// line FILLED in the code that creates the row.
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

/// Returns the directory where cargo has put this test and the crates that it uses, such as
/// `target/release`.
fn built() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.ancestors().nth(2).unwrap().to_owned()
}

/// The crates that the new question or its fields are compiled into. They are compiled without
/// optimisation, which takes less time.
const AFFECTED: [&str; 6] = [
    "kiln",
    "kiln-question",
    "kiln-questions",
    "kiln-record",
    "kiln-report",
    "kiln-timing",
];

/// Returns a command that runs cargo in the copy, with the profile that this test was built with.
/// The target directory is kept, so that the next run has less to build.
fn cargo(arguments: &[&str]) -> Command {
    let mut cargo = Command::new(env!("CARGO"));
    let profile = match built().ends_with("debug") {
        true => "dev",
        false => "release",
    };
    for name in AFFECTED {
        let setting = format!("profile.{profile}.package.{name}.opt-level=0");
        cargo.args(["--config", &setting]);
    }
    cargo
        .args(arguments)
        .args(["--offline", "--package", "kiln", "--profile", profile])
        .env("CARGO_TARGET_DIR", home().join("target"))
        .current_dir(home().join("tree"));
    cargo
}

/// Fills the copy's target directory with the crates that have already been built, except for
/// [`AFFECTED`]. An affected crate that reads a file outside its folder, such as
/// `docs/schema.json`, cannot be reused: Cargo's metadata records the file's absolute path, so
/// cargo would rebuild the crate when the file in the repository changes, and not when the file in
/// the copy changes. Libraries are hard-linked, but the metadata is copied, because cargo modifies
/// it in place.
fn take_over_built_crates() {
    let (from, to) = (built(), home().join("target"));
    let to = to.join(from.file_name().unwrap());
    for dir in [".fingerprint", "build", "deps"] {
        let mut take = |path: &Path| {
            let name = path.strip_prefix(&from).unwrap();
            let copy = to.join(name);
            let is_program = dir == "deps" && path.extension().is_none();
            let time = |path: &Path| fs::metadata(path).and_then(|m| m.modified()).ok();
            if is_program || is_affected(name) || time(&copy) >= time(path) {
                return;
            }
            fs::create_dir_all(copy.parent().unwrap()).unwrap();
            let _ = fs::remove_file(&copy);
            let is_library = ["rlib", "rmeta", "so", "a"];
            let extension = path.extension().unwrap_or_default().to_str().unwrap();
            if is_library.contains(&extension) && fs::hard_link(path, &copy).is_ok() {
                return;
            }
            fs::copy(path, &copy).unwrap();
            let time = time(path).unwrap();
            let copy = File::options().write(true).open(copy);
            copy.and_then(|copy| copy.set_modified(time)).unwrap();
        };
        walk(&from.join(dir), &mut take).unwrap();
    }
}

/// Returns whether a path relative to the profile's directory belongs to one of [`AFFECTED`], such
/// as `deps/libkiln_record-HASH.rlib` or `.fingerprint/kiln-record-HASH/dep-lib-kiln_record`.
fn is_affected(path: &Path) -> bool {
    path.components().any(|part| {
        let part = part.as_os_str().to_string_lossy().replace('_', "-");
        let owner = part.rsplit_once('-').map_or("", |(owner, _)| owner);
        let owner = owner.strip_prefix("lib").unwrap_or(owner);
        AFFECTED.contains(&owner)
    })
}

/// Returns what the command prints on standard output. Panics if the command fails.
fn output(command: &mut Command) -> String {
    let run = command.output().unwrap();
    let said = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{command:?}: {said}");
    String::from_utf8(run.stdout).unwrap()
}

fn kiln(arguments: &[&str]) -> String {
    let program = home().join("target").join(built().file_name().unwrap());
    output(Command::new(program.join("kiln")).args(arguments))
}

/// Builds the affected crates and the program. This takes a minute, or seconds if nothing has
/// changed since the last run.
#[test]
fn a_folder_and_a_line_make_a_question_and_one_edit_a_field() {
    if !wanted::are_copies_wanted() {
        return;
    }
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
    take_over_built_crates();
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

    // Control: the copy's documents do not contain the fields until the documents are regenerated.
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
    // Build the program again, because it contains the documents.
    output(&mut cargo(&["build"]));
    assert!(kiln(&["parity", "--help"]).contains("\n  number, even, half\n"));
    let side = |name: &str, number: &str| {
        let file = home().join(name);
        fs::write(&file, kiln(&["parity", number, "--json"])).unwrap();
        file.to_str().unwrap().to_string()
    };
    let (a, b) = (side("a.json", "4"), side("b.json", "4"));
    // The export and the comparison must include the new field, too.
    assert!(kiln(&["report", &a, "--format", "csv"]).contains("half"));
    let compared: Value = serde_json::from_str(&kiln(&["compare", &a, &b, "--json"])).unwrap();
    assert_eq!(compared["rows"][0]["unit"], "half", "{compared}");
}
