//! Tests `--shard I/N`: together, the shards of a run must equal the whole run, and a missing shard
//! must be reported.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::common::tree::{given_tree, kiln_keeping, kiln_keeping_with, tree_of};
use crate::common::{fault, kiln, kiln_interrupted, kiln_with, Run};
use serde_json::Value;

/// Runs a command once for each of these shards, all with the same output directory.
fn run_shards(command: &[&str], shards: &[&str], dir: &Path) {
    for shard in shards {
        let args = [command, &["--shard", shard, "--out", dir.to_str().unwrap()]].concat();
        let run = kiln(&args);
        assert_eq!(run.status, 0, "{args:?}: {run:?}");
    }
}

/// Makes a report from a directory. Returns the result of the run, and the records that the page
/// contains.
fn report(dir: &Path) -> (Run, Vec<Value>) {
    let page = dir.join("page.html");
    let run = kiln(&[
        "report",
        dir.to_str().unwrap(),
        "--out",
        page.to_str().unwrap(),
    ]);
    let text = fs::read_to_string(page).unwrap();
    let (_, rest) = text.split_once("id=\"kiln-records\">").unwrap();
    let document: Value = serde_json::from_str(rest.split_once("</script>").unwrap().0).unwrap();
    let sides = document["sides"].as_array().unwrap();
    let records = sides.iter().flat_map(|s| s["records"].as_array().unwrap());
    (run, records.cloned().collect())
}

/// Maps the `key` fields of each row in a record to its `values` fields. Asserts that no two rows
/// have the same key.
fn rows(record: &Value, key: &[&str], values: &[&str]) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    for row in record["rows"].as_array().unwrap() {
        let pick = |names: &[&str]| -> String {
            names.iter().map(|name| format!("{} ", row[name])).collect()
        };
        let old = all.insert(pick(key), pick(values));
        assert_eq!(old, None, "twice: {}", pick(key));
    }
    all
}

/// Compares the whole run with the union of its shards. The rows of both must be equal in all `key`
/// and `values` fields.
#[track_caller]
fn compare(command: &[&str], count: u32, key: &[&str], values: &[&str]) {
    let dir = tempfile::tempdir().unwrap();
    let (whole, parts) = (dir.path().join("whole"), dir.path().join("parts"));
    run_shards(command, &["1/1"], &whole);
    let shards: Vec<String> = (1..=count).map(|i| format!("{i}/{count}")).collect();
    let shards: Vec<&str> = shards.iter().map(String::as_str).collect();
    run_shards(command, &shards, &parts);
    let (run, whole) = report(&whole);
    assert_eq!((run.status, whole.len()), (0, 1), "{run:?}");
    let (run, parts) = report(&parts);
    assert_eq!((run.status, parts.len()), (0, 1), "{run:?}");
    let mut want = rows(&whole[0], key, values);
    let mut got = rows(&parts[0], key, values);
    // Ignore rows that count interrupts, because the number of interrupts varies.
    for all in [&mut want, &mut got] {
        all.retain(|key, _| !key.contains("interrupts "));
    }
    assert!(want.len() > 2, "{want:?}");
    assert_eq!(got, want);
}

const TEST: [&str; 5] = ["test", "sha256", "ghash", "xts(aes)", "sha512"];
const TEST_KEY: [&str; 5] = ["alg", "impl", "suite", "context", "tiers"];

#[test]
fn the_shards_of_a_test_are_the_test() {
    let suites = [
        "--suite",
        "vectors,many,random,contexts:legacy",
        "--cases",
        "40",
    ];
    let command = [&TEST[..], &suites].concat();
    compare(&command, 3, &TEST_KEY, &["cases", "failed", "skipped"]);
}

#[test]
fn the_shards_of_a_proof_are_the_proof() {
    let command = [
        "fpu",
        "prove",
        "--quick",
        "--policy",
        "bh-off",
        "--impl",
        "xts-aes-aesni",
        "--len",
        "16,31",
        "--op",
        "encrypt",
    ];
    let key = ["policy", "impl", "op", "len"];
    // Do not compare `injected` and `pairs`, because the number of pairs depends on how long the
    // run takes.
    let values = [
        "instructions",
        "points",
        "singles",
        "softirq_instructions",
        "softirq_points",
        "corrupted",
    ];
    compare(&command, 2, &key, &values);
}

#[test]
fn the_shards_of_a_speed_table_are_the_table() {
    let command = [
        "speed",
        "sha256",
        "ghash",
        "--len",
        "16,64",
        "--impl",
        "sha256-generic,ghash-generic",
        "--peers",
        "none",
    ];
    let key = ["alg", "impl", "op", "len", "key_bits", "level"];
    compare(&command, 3, &key, &["provider"]);
}

#[test]
fn the_shards_of_a_compiler_matrix_are_the_matrix() {
    let command = [
        "compilers",
        "--cc",
        "cc",
        "--opt",
        "O1,O2,O3",
        "--variant",
        "default,patched",
        "--seconds",
        "0.3",
    ];
    compare(
        &command,
        2,
        &["cc", "opt", "variant", "abi", "subject"],
        &["status"],
    );
}

/// Like [`compare`], but for a run on a tree, which is divided into three shards. Each shard must
/// do some of the work, but not all of it.
#[track_caller]
fn compare_tree(command: &[&str], env: &[(&str, &str)], key: &[&str], values: &[&str]) {
    let dir = tempfile::tempdir().unwrap();
    let (whole, parts) = (dir.path().join("whole"), dir.path().join("parts"));
    let run = |shard: &str, out: &Path| {
        let args = [command, &["--shard", shard, "--out", out.to_str().unwrap()]].concat();
        let run = kiln_keeping_with(&args, env);
        assert_eq!(run.status, 0, "{args:?}: {run:?}");
    };
    run("1/1", &whole);
    for shard in ["1/3", "2/3", "3/3"] {
        run(shard, &parts);
    }
    let (whole_run, whole) = report(&whole);
    let (parts_run, united) = report(&parts);
    assert_eq!(
        (whole_run.status, parts_run.status),
        (0, 0),
        "{parts_run:?}"
    );
    let want = rows(&whole[0], key, values);
    assert!(want.len() > 10, "{want:?}");
    assert_eq!(rows(&united[0], key, values), want);
    let file = |shard: u32| {
        let files = fs::read_dir(&parts).unwrap();
        let mut files = files.map(|f| f.unwrap().path());
        let name = format!("-{shard}of3.json");
        let named = files.find(|f| f.to_str().unwrap().ends_with(&name));
        named.unwrap()
    };
    for shard in 1..=3 {
        let record: Value =
            serde_json::from_str(&fs::read_to_string(file(shard)).unwrap()).unwrap();
        let items = record["shard"]["items"].as_u64().unwrap();
        assert!(items > 0 && items < record["shard"]["total"].as_u64().unwrap());
    }
    // Control: without one of the shards, rows must be missing.
    fs::remove_file(file(2)).unwrap();
    let (run, rest) = report(&parts);
    assert!(
        run.status == 1 && run.stderr.contains("shard 2/3"),
        "{run:?}"
    );
    let rest = rows(&rest[0], key, values);
    assert!(!rest.is_empty() && rest.len() < want.len(), "{rest:?}");
}

/// Shards divide the drivers and suites of a tree. What a shard contains must not depend on the
/// other shards.
#[test]
fn the_shards_of_a_tree_are_the_tree() {
    let Some(tree) = given_tree() else {
        return;
    };
    let tree = tree.to_str().unwrap();
    let command = ["test", "--tree", tree, "--fuzz", "1", "--oracle", "memory"];
    let more = ["--suite", "testmgr,library", "sha256", "xts(aes)"];
    compare_tree(
        &[&command[..], &more].concat(),
        &[],
        &["alg", "impl", "suite", "context", "tier"],
        &["failed", "skipped"],
    );
}

/// Shards divide a tree's suites and library functions.
#[test]
fn the_shards_of_a_proof_of_a_tree_are_the_proof() {
    let Some(tree) = tree_of("KILN_TEST_TREE_NEXT", "tree of a current kernel") else {
        return;
    };
    let suites = "library.sha*,library.chacha*,library.crc32*,sha1.*interrupt*,sha3.*interrupt*";
    let command = ["fpu", "prove", "--tree", tree.to_str().unwrap()];
    let more = ["--suite", suites, "--visits", "1"];
    // Allow only one tier. With several tiers, whether a function is interrupted again under
    // another tier depends on the instructions that it executes, which vary between runs.
    compare_tree(
        &[&command[..], &more].concat(),
        &[("KILN_TIERS", "generic")],
        &["suite", "case", "tier", "context"],
        &["wrong", "findings"],
    );
    // A shard without any rows is valid, but a name that matches nothing is an error.
    let one = [&command[..], &["--suite", "library.sha1", "--shard"]].concat();
    assert_eq!(kiln_keeping(&[&one[..], &["2/2"]].concat()).status, 0);
    let none = [&command[..], &["--suite", "library.sha0", "--shard", "2/2"]].concat();
    fault(&kiln_keeping(&none), 2, "library.sha0");
}

#[test]
fn a_shard_that_died_is_named_and_can_be_made_up_for() {
    let dir = tempfile::tempdir().unwrap();
    let command = [&TEST[..], &["--suite", "vectors"]].concat();
    run_shards(&command, &["1/4", "2/4", "4/4"], dir.path());
    let (run, records) = report(dir.path());
    assert_eq!(run.status, 1);
    let line = "shard 3/4 of 'kiln test sha256 ghash 'xts(aes)' sha512 --suite vectors --seed 1' is missing: run kiln test";
    assert!(
        run.stderr.starts_with(&format!("kiln: {line}")),
        "{}",
        run.stderr
    );
    let before = rows(&records[0], &TEST_KEY, &[]).len();
    // Run the command that the error line gives, as one would on another machine.
    let (_, again) = run.stderr.trim().split_once(": run kiln ").unwrap();
    assert!(again.ends_with("--shard 3/4 --out DIR"), "{again}");
    let args = [
        &command[..],
        &[
            "--shard",
            "3/4",
            "--seed",
            "1",
            "--out",
            dir.path().to_str().unwrap(),
        ],
    ]
    .concat();
    assert_eq!(kiln_with(&args, &[("KILN_HOST", "node/7")]).status, 0);
    assert!(dir.path().join("test-node_7-3of4.json").exists());
    let (run, records) = report(dir.path());
    assert_eq!(run.status, 0, "{}", run.stderr);
    assert!(rows(&records[0], &TEST_KEY, &[]).len() > before);
}

/// If a run was interrupted, its shard has only partial results and must not count as complete.
#[test]
fn a_shard_that_was_interrupted_is_missing() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().to_str().unwrap();
    let run = kiln_interrupted(&["test", "--shard", "1/1", "--seed", "1", "--out", out]);
    assert_eq!(run.status, 130);
    let (run, _) = report(dir.path());
    assert!(
        run.status == 1 && run.stderr.contains("was interrupted on"),
        "{run:?}"
    );
}

#[test]
fn a_shard_of_what_cannot_be_divided_is_refused() {
    for args in [
        &["test", "--constant-time", "--shard", "1/2"][..],
        &["test", "--case", "1", "--shard", "1/2"],
        &["speed", "--via", "virtio", "--shard", "1/2"],
        &["compilers", "--explain", "x", "--shard", "1/2"],
        &["fpu", "prove", "--at", "1", "--shard", "1/2"],
    ] {
        fault(&kiln(args), 2, "--shard");
    }
    assert_eq!(kiln(&["test", "--shard", "3/2"]).status, 2);
    assert_eq!(kiln(&["list", "--shard", "1/2"]).status, 2);
}
