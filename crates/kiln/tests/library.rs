//! Tests `--level library`, which calls functions that a current kernel's crypto library exports
//! (KILN_TEST_TREE_NEXT).

use std::collections::BTreeSet;

use crate::common::tree::{given_tree, kiln_keeping, tree_of};
use crate::edited::Edited;
use serde_json::Value;

fn next_tree() -> Option<std::path::PathBuf> {
    tree_of("KILN_TEST_TREE_NEXT", "tree of a current kernel")
}

fn rows(record: &str) -> Vec<Value> {
    let record: Value = serde_json::from_str(record).expect("JSON");
    record["rows"].as_array().expect("rows").clone()
}

/// Returns the names of the functions that have rows.
fn functions(rows: &[Value]) -> BTreeSet<&str> {
    let names = rows.iter().map(|r| r["impl"].as_str().expect("a name"));
    names
        .map(|n| n.split_once(' ').map_or(n, |(name, _)| name))
        .collect()
}

#[test]
fn all_functions_of_a_current_kernels_library_are_right() {
    let Some(tree) = next_tree() else { return };
    let tree = tree.to_str().unwrap();
    let run = kiln_keeping(&["test", "--tree", tree, "--suite", "library", "--json"]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    let rows = rows(&run.stdout());
    for row in &rows {
        assert_eq!(row["suite"], "library", "{row}");
        assert!(row["cases"].as_u64() > Some(0), "{row}");
        assert_eq!(
            (&row["failed"], &row["skipped"]),
            (&0.into(), &0.into()),
            "{row}"
        );
    }
    let names = functions(&rows);
    assert!(names.len() >= 45, "{}: {names:?}", names.len());
    for name in [
        "sha256",
        "sha256_finup_2x",
        "hmac_sha512_usingrawkey",
        "aes_gcm_decrypt",
        "xchacha20poly1305_encrypt",
        "curve25519",
        "crc64_nvme",
        "raid6_recov_2data",
    ] {
        assert!(names.contains(name), "{name}: {names:?}");
    }
}

#[test]
fn an_older_kernels_library_is_right_too() {
    let Some(tree) = given_tree() else { return };
    let tree = tree.to_str().unwrap();
    let run = kiln_keeping(&["test", "--tree", tree, "--suite", "library", "--json"]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    let rows = rows(&run.stdout());
    let names = functions(&rows);
    for name in [
        "sha256",
        "chacha20poly1305_encrypt",
        "curve25519",
        "crc32_le",
    ] {
        assert!(names.contains(name), "{name}: {names:?}");
    }
}

#[test]
fn functions_have_rows_and_the_figures_of_their_kunit_benchmarks() {
    let Some(tree) = next_tree() else { return };
    let mut args = vec!["speed", "sha256", "gcm(aes)", "crc32c", "--json"];
    args.extend(["--tree", tree.to_str().unwrap(), "--level", "library"]);
    // Set a long time limit instead of `--quick`, which may leave out a length on a busy machine.
    args.extend(["--len", "4096", "--kunit", "--seconds", "300"]);
    let run = kiln_keeping(&args);
    assert_eq!(run.status, 0, "{}", run.stderr);
    let rows = rows(&run.stdout());
    assert!(rows.iter().all(|r| r["level"] == "library"), "{rows:?}");
    for name in ["sha256", "aes_gcm_encrypt", "crc32c"] {
        let row = rows.iter().find(|r| r["impl"] == name && r["len"] == 4096);
        let row = row.unwrap_or_else(|| panic!("{name}: {rows:?}"));
        assert!(row["kunit_mb_per_s"].as_f64() > Some(0.0), "{row}");
    }
    // No KUnit suite has a benchmark for `sha256_update`, so its row must not have the field
    // `kunit_mb_per_s`.
    let update = rows.iter().find(|r| r["impl"] == "sha256_update").unwrap();
    assert_eq!(update.get("kunit_mb_per_s"), None, "{update}");
}

#[test]
fn the_level_needs_a_tree_and_has_no_other_libraries() {
    for (args, why) in [
        (&["speed", "--level", "library"][..], "--tree DIR"),
        (&["speed", "--kunit", "--tree", "/"], "--level library"),
    ] {
        let run = kiln_keeping(args);
        assert_eq!(run.status, 2, "{args:?}: {}", run.stderr);
        assert!(run.stderr.contains(why), "{args:?}: {}", run.stderr);
    }
}

/// Plants two faults: the vector code of SHA-512 flips a bit of the state, and the table for CRC-16
/// has a wrong entry. The functions that neither fault affects are the control.
#[test]
fn planted_faults_are_found_in_the_functions_that_have_them() {
    let Some(tree) = next_tree() else { return };
    let tree = Edited::new(&tree);
    tree.replace(
        "lib/crypto/x86/sha512.h",
        "asm_fn(state, data, nblocks);                      \\",
        "asm_fn(state, data, nblocks); state->h[0] ^= 1;    \\",
    );
    tree.replace("lib/crc/crc16.c", "0xC0C1", "0xC0C0");
    let run = kiln_keeping(&[
        "test",
        "--tree",
        tree.path(),
        "--suite",
        "library",
        "--json",
    ]);
    assert_eq!(run.status, 1, "{}", run.stderr);
    let all = rows(&run.stdout());
    let (failed, right): (Vec<Value>, Vec<Value>) = all.into_iter().partition(|r| r["failed"] != 0);
    let expected = [
        "crc16",
        "hmac_sha384",
        "hmac_sha384_update",
        "hmac_sha384_usingrawkey",
        "hmac_sha512",
        "hmac_sha512_update",
        "hmac_sha512_usingrawkey",
        "sha384",
        "sha384_update",
        "sha512",
        "sha512_update",
    ];
    assert_eq!(functions(&failed), BTreeSet::from(expected), "{failed:?}");
    assert!(functions(&right).contains("sha256"), "{right:?}");

    // The results are checked against Kiln's implementation for SHA-512, Kiln's generic code for
    // SHA-384, and Kiln's bitwise code for CRC-16.
    let mut args = vec!["speed", "sha512", "sha384", "crc16", "sha256", "--quick"];
    args.extend([
        "--tree",
        tree.path(),
        "--level",
        "library",
        "--len",
        "4096",
        "--json",
    ]);
    let run = kiln_keeping(&args);
    assert_eq!(run.status, 1, "{}", run.stderr);
    for row in rows(&run.stdout()) {
        let wrong = row["alg"] != "sha256";
        assert_eq!(row["cycles_per_op"].is_null(), wrong, "{row}");
    }
}
