//! Tests `kiln budget --tree` on a current kernel (KILN_TEST_TREE_NEXT), with and without the patch
//! in docs/patches.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::tree::{kiln_keeping, tree_of};
use crate::common::{fault, kiln, Run};
use crate::edited::Edited;
use serde_json::Value;

const PATCH: &str = "docs/patches/x86-sha-sections.patch";
/// The functions whose FPU sections the patch limits.
const BOUNDED: [&str; 3] = ["sha1", "sha256", "sha512"];
const PAGE: u64 = 4096;
const LONG: u64 = 1 << 20;

fn next_tree() -> Option<PathBuf> {
    tree_of("KILN_TEST_TREE_NEXT", "tree of a current kernel")
}

fn budget(tree: &str, more: &[&str]) -> Run {
    let common = ["budget", "--tree", tree, "--quick", "--json", "--seed", "1"];
    kiln_keeping(&[&common[..], more].concat())
}

fn rows(run: &Run) -> Vec<Value> {
    run.json()["rows"].as_array().expect("rows").clone()
}

#[track_caller]
fn row<'a>(rows: &'a [Value], function: &str, bytes: u64) -> &'a Value {
    let is = |r: &&Value| r["function"] == function && r["bytes"] == bytes;
    let row = rows.iter().find(is);
    row.unwrap_or_else(|| panic!("{function} at {bytes}: {rows:?}"))
}

/// Returns an overlay of the tree with the patch applied: `git apply` patches copies of the files,
/// which then replace those in the overlay.
fn patched(tree: &Path) -> Edited {
    let patch = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(PATCH);
    let text = fs::read_to_string(&patch).expect("the patch is there");
    let files: Vec<&str> = text
        .lines()
        .filter_map(|l| l.strip_prefix("+++ b/"))
        .collect();
    assert_eq!(files.len(), BOUNDED.len(), "{files:?}");
    let scratch = tempfile::tempdir().unwrap();
    for file in &files {
        let to = scratch.path().join(file);
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::copy(tree.join(file), to).unwrap();
    }
    let applied = Command::new("git")
        .arg("apply")
        .arg(fs::canonicalize(&patch).unwrap())
        .current_dir(&scratch)
        // Prevent git from finding a repository that contains the scratch directory.
        .env("GIT_CEILING_DIRECTORIES", scratch.path().parent().unwrap())
        .output()
        .expect("git runs");
    let why = String::from_utf8_lossy(&applied.stderr);
    assert!(applied.status.success(), "{why}");
    let edited = Edited::new(tree);
    for file in &files {
        let text = fs::read_to_string(scratch.path().join(file)).unwrap();
        assert!(text.contains("do {"), "{file} is not patched");
        edited.edit(file, |_| text);
    }
    edited
}

#[test]
fn arguments_that_do_not_fit_are_refused_in_one_line() {
    fault(
        &kiln(&["budget", "--cc", "gcc"]),
        2,
        "name one with --tree DIR",
    );
    fault(&kiln(&["budget", "--max-section-us", "9"]), 2, "--tree");
    let no_tree = ["budget", "--tree", "/no/such/dir"];
    fault(&kiln(&no_tree), 2, "not a Linux source tree");
    let limit = [&no_tree[..], &["--max-section-us", "-1"]].concat();
    fault(&kiln(&limit), 2, "--max-section-us -1");
    let len = [&no_tree[..], &["--len", "0"]].concat();
    fault(&kiln(&len), 2, "--len 0");
    let mode = [&no_tree[..], &["--mode", "page"]].concat();
    fault(&kiln(&mode), 2, "--mode");
}

#[test]
fn bounds_are_those_of_the_source() {
    let Some(tree) = next_tree() else { return };
    let tree = tree.to_str().unwrap();
    let names = [
        "chacha_crypt",
        "poly1305",
        "blake2s",
        "sha256",
        "crc32c",
        "nh",
        "md5",
    ];
    let run = budget(tree, &[&names[..], &["--len", "4096,1048576"]].concat());
    assert_eq!(run.status, 0, "{}", run.stderr);
    let rows = rows(&run);
    // Three kinds of limits occur: chunks of SZ_4K, the whole message, and NH_MESSAGE_BYTES.
    for (function, bytes, bound) in [
        ("chacha_crypt", LONG, Some(PAGE)),
        ("poly1305", LONG, Some(PAGE)),
        ("blake2s", LONG, Some(PAGE)),
        ("sha256", LONG, None),
        ("crc32c", LONG, None),
        ("nh", 1024, Some(1024)),
    ] {
        let row = row(&rows, function, bytes);
        assert_eq!(row["bound"].as_u64(), bound, "{row}");
        assert!(row["delays"].as_u64() > Some(0), "{row}");
        assert!(row["section_us"].as_f64() > Some(0.0), "{row}");
    }
    assert_eq!(
        row(&rows, "chacha_crypt", LONG)["sections_per_call"],
        LONG / PAGE
    );
    assert_eq!(row(&rows, "crc32c", LONG)["sections_per_call"], 1);
    let notes = run.json()["notes"].to_string();
    assert!(notes.contains("open no FPU section: md5"), "{notes}");
    let unknown = budget(tree, &["sha25"]);
    fault(&unknown, 2, "did you mean 'sha256'");
}

#[test]
fn the_patch_bounds_sections_that_grow_without_it() {
    let Some(tree) = next_tree() else { return };
    let patched = patched(&tree);
    let lengths = ["--len", "4096,1048576"];
    let arguments = [&BOUNDED[..], &lengths].concat();
    let before = budget(tree.to_str().unwrap(), &arguments);
    assert_eq!(before.status, 0, "{}", before.stderr);
    let after = budget(patched.path(), &arguments);
    assert_eq!(after.status, 0, "{}", after.stderr);
    let (before, after) = (rows(&before), rows(&after));
    for function in BOUNDED {
        // Without the patch, a message of any length takes one section, plus one for the padding.
        // With the patch, it takes one section per page, plus one for the padding.
        let count = |rows: &[Value], bytes| row(rows, function, bytes)["sections_per_call"].clone();
        assert_eq!(
            (count(&before, PAGE), count(&before, LONG)),
            (2.into(), 2.into())
        );
        assert_eq!(
            (count(&after, PAGE), count(&after, LONG)),
            (2.into(), (LONG / PAGE + 1).into())
        );
        assert_eq!(
            row(&before, function, LONG)["bound"],
            Value::Null,
            "{function}"
        );
        assert_eq!(row(&after, function, LONG)["bound"], PAGE, "{function}");
    }
    // Set the limit to 16 times the duration of the section for one page. Without the patch, the
    // tree exceeds this limit, because its section for 1 MiB takes 256 times as long.
    let slowest = BOUNDED.map(|f| row(&before, f, PAGE)["section_us"].as_f64().unwrap());
    let limit = format!("{:.3}", 16.0 * slowest.into_iter().fold(0.0, f64::max));
    let gate = [&arguments[..], &["--max-section-us", &limit]].concat();
    let fails = budget(tree.to_str().unwrap(), &gate);
    assert_eq!(fails.status, 1, "{}", fails.stderr);
    let notes = fails.json()["notes"].to_string();
    for function in BOUNDED {
        assert!(notes.contains(&format!("{function} (")), "{notes}");
    }
    let passes = budget(patched.path(), &gate);
    assert_eq!(passes.status, 0, "{}\n{}", passes.stderr, passes.stdout());
}
