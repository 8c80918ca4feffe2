//! Tests `kiln test --tree` on the KUnit suites of a current kernel (KILN_TEST_TREE_NEXT).

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::common::kiln_with;
use crate::common::tree::{kiln_keeping, tree_of};
use crate::edited::Edited;
use serde_json::Value;

fn next_tree() -> Option<std::path::PathBuf> {
    tree_of("KILN_TEST_TREE_NEXT", "tree of a current kernel")
}

/// Returns the rows of a record that describe KUnit cases.
fn cases(record: &str) -> Vec<Value> {
    let record: Value = serde_json::from_str(record).expect("JSON");
    let rows = record["rows"].as_array().expect("rows").clone();
    rows.into_iter().filter(|r| r["suite"] == "kunit").collect()
}

#[test]
fn the_suites_of_a_current_kernel_pass_and_its_own_parser_agrees() {
    let Some(tree) = next_tree() else { return };
    let out = tempfile::tempdir().unwrap();
    let run = kiln_keeping(&[
        "test",
        "--tree",
        tree.to_str().unwrap(),
        "--suite",
        "*",
        "--out",
        out.path().to_str().unwrap(),
    ]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    let rows = cases(&fs::read_to_string(out.path().join("test.json")).unwrap());
    assert!(rows.iter().all(|r| r["failed"] == 0), "{rows:?}");
    let tiers: BTreeSet<&str> = rows.iter().filter_map(|r| r["tier"].as_str()).collect();
    let of_tier = |tier: &str| rows.iter().filter(|r| r["tier"] == tier).count();
    for tier in &tiers {
        assert!(of_tier(tier) >= 230, "{tier}: {}", of_tier(tier));
    }
    // Every case except the benchmarks must have run.
    let left_out = rows.iter().filter(|r| r["skipped"] != 0);
    for row in left_out {
        assert!(row["impl"].as_str().unwrap().contains("benchmark"), "{row}");
    }

    let ktap = out.path().join("ktap");
    fs::write(&ktap, run.stdout()).unwrap();
    let parser = tree.join("tools/testing/kunit/kunit.py");
    let parsed = Command::new("python3")
        .arg(&parser)
        .args(["parse", ktap.to_str().unwrap()])
        .output();
    let Ok(parsed) = parsed else {
        eprintln!("SKIPPED: the tree's parser needs python3");
        return;
    };
    let text = String::from_utf8_lossy(&parsed.stdout);
    let skipped = rows.iter().filter(|r| r["skipped"] != 0).count();
    let counted = format!(
        "Ran {} tests: passed: {}, skipped: {skipped}",
        rows.len(),
        rows.len() - skipped
    );
    assert!(text.contains(&counted), "{counted}\n{text}");
}

#[test]
fn cases_are_chosen_by_name_and_benchmarks_run_when_asked() {
    let Some(tree) = next_tree() else { return };
    let run = |more: &[&str]| {
        let mut args = vec!["test", "--tree", tree.to_str().unwrap(), "--json"];
        args.extend(more);
        kiln_keeping(&args)
    };
    let some = run(&["--suite", "sha256.*vectors,poly1305.*irq*"]);
    assert_eq!(some.status, 0, "{}", some.stderr);
    let names: BTreeSet<String> = cases(&some.stdout())
        .iter()
        .map(|r| {
            format!(
                "{}.{}",
                r["alg"].as_str().unwrap(),
                r["impl"].as_str().unwrap()
            )
        })
        .collect();
    assert!(names.contains("sha256.test_hash_test_vectors"), "{names:?}");
    assert!(
        names
            .iter()
            .all(|n| n.starts_with("sha256.") || n.contains("irq")),
        "{names:?}"
    );

    let bench = run(&["--suite", "nh,ghash.*benchmark*", "--bench"]);
    assert_eq!(bench.status, 0, "{}", bench.stderr);
    assert!(cases(&bench.stdout()).iter().all(|r| r["skipped"] == 0));

    let none = run(&["--suite", "no_such_suite"]);
    assert_eq!(none.status, 2, "{}", none.stderr);
    assert!(none.stderr.contains("no_such_suite"), "{}", none.stderr);
}

/// Plants faults in SHA-256, SHA-512 and SHA-1 that only the interrupt tests or the guard page can
/// find. Also plants one fault each in the AVX2 code and in the AVX code of SHA-256. On a CPU with
/// SHA-NI, the AVX2 code runs only if a set of tiers hides SHA-NI, and the AVX code runs only if a
/// set hides AVX2 as well. The other cases are the control.
#[test]
fn planted_faults_are_found_in_the_suites_that_test_them() {
    let Some(tree) = next_tree() else { return };
    let tree = Edited::new(&tree);
    // Remove the calls to irq_fpu_usable(). A section can then interrupt another one and overwrite
    // its registers.
    tree.replace(
        "lib/crypto/x86/sha256.h",
        "likely(irq_fpu_usable())",
        "true",
    );
    // Make the fallback for a busy FPU do nothing.
    tree.replace(
        "lib/crypto/x86/sha512.h",
        "sha512_blocks_generic(state, data, nblocks);",
        "",
    );
    // Rotate by the wrong amount in the AVX2 implementation.
    tree.replace(
        "lib/crypto/x86/sha256-avx2-asm.S",
        "rorx\t$25, e, y0",
        "rorx\t$24, e, y0",
    );
    // Rotate by the wrong amount in the AVX implementation, too.
    tree.replace(
        "lib/crypto/x86/sha256-avx-asm.S",
        "MY_ROR  (25-11), y0",
        "MY_ROR  (24-11), y0",
    );
    // Read one byte past the message.
    tree.edit("lib/crypto/sha1.c", |text| {
        let head = "void sha1_update(struct sha1_ctx *ctx, const u8 *data, size_t len)\n{\n";
        assert!(text.contains(head));
        text.replace(head, &format!("{head}\t(void)READ_ONCE(data[len]);\n"))
    });
    let run = kiln_keeping(&["test", "--tree", tree.path(), "--suite", "sha*", "--json"]);
    assert_eq!(run.status, 1, "{}", run.stderr);
    let rows = cases(&run.stdout());
    let failed = |suite: &str, tier: fn(&str) -> bool| -> BTreeSet<&str> {
        let failed = rows.iter().filter(|r| {
            r["alg"] == suite && r["failed"] != 0 && r["tier"].as_str().is_some_and(tier)
        });
        failed.filter_map(|r| r["impl"].as_str()).collect()
    };
    for suite in ["sha224", "sha256", "sha384", "sha512"] {
        let others = failed(suite, |tier| !["avx", "avx2"].contains(&tier));
        assert!(!others.is_empty(), "{suite}");
        assert!(
            others.iter().all(|case| case.contains("interrupt")),
            "{suite}: {others:?}"
        );
        for (tier, under) in [
            ("avx", failed(suite, |tier| tier == "avx")),
            ("avx2", failed(suite, |tier| tier == "avx2")),
        ] {
            let answers_wrong = under.iter().any(|case| !case.contains("interrupt"));
            assert_eq!(
                answers_wrong,
                ["sha224", "sha256"].contains(&suite),
                "{suite} under {tier}: {under:?}"
            );
        }
    }
    assert_eq!(failed("sha1", |_| true), BTreeSet::from(["(crash)"]));
    let crash = rows.iter().find(|r| r["impl"] == "(crash)").unwrap();
    assert!(
        crash["reason"].as_str().unwrap().contains("sha1_update"),
        "{crash}"
    );
    assert_eq!(failed("sha3", |_| true), BTreeSet::new());
}

/// Returns what the kernel's own build printed during the last run on a tree. The text is empty if
/// Kiln itself compiled everything that was needed.
fn build_log(record: &str) -> String {
    let record: Value = serde_json::from_str(record).expect("JSON");
    let notes = record["notes"].as_array().expect("notes");
    let mut notes = notes.iter().filter_map(Value::as_str);
    let cache = notes.find_map(|note| note.strip_prefix("built in "));
    fs::read_to_string(Path::new(cache.expect("a note names the cache")).join("log")).unwrap()
}

#[test]
fn an_edit_takes_effect_without_a_run_of_the_whole_build() {
    let Some(tree) = next_tree() else { return };
    let tree = Edited::new(&tree);
    let (code, header) = ("lib/crypto/sha256.c", "lib/crypto/x86/sha256.h");
    let run = || kiln_keeping(&["test", "--tree", tree.path(), "--suite", "sha256", "--json"]);
    // Checks the exit status, and whether the kernel's own build ran.
    let expect = |status: i32, built: bool, what: &str| {
        let done = run();
        assert_eq!(done.status, status, "{what}: {}", done.stderr);
        let log = build_log(&done.stdout());
        assert_eq!(log.is_empty(), !built, "{what}: {log}");
    };
    assert_eq!(run().status, 0);
    expect(0, false, "no edit");
    tree.replace(code, "0x428a2f98", "0x428a2f99");
    expect(1, false, "a wrong constant in a source");
    tree.restore(code);
    expect(0, false, "the source as it was");
    tree.replace(header, "asm_fn(state, data, nblocks); ", "");
    expect(1, false, "a header in which nothing is computed");
    // Restore a file with a modification time older than that of all objects. On its own, make
    // would miss this change.
    let path = tree.dir().join(header);
    tree.restore(header);
    let old = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000);
    fs::File::options()
        .write(true)
        .open(&path)
        .unwrap()
        .set_modified(old)
        .unwrap();
    expect(0, false, "an older header");
    tree.edit("lib/crypto/Makefile", |text| text + "# edited\n");
    expect(0, true, "a Makefile");
    tree.replace(
        code,
        "static const u32 sha256_K[64]",
        "static u32 sha256_K[",
    );
    let broken = run();
    assert_eq!(broken.status, 1, "{}", broken.stderr);
    let rows = broken.json()["rows"].clone();
    let reason = rows[0]["reason"].as_str().expect("the compiler's error");
    assert!(
        reason.contains("sha256.c:") && reason.contains("error:"),
        "{reason}"
    );
    tree.restore(code);
    expect(0, true, "after an edit that did not compile");
}

#[test]
fn a_suite_of_a_cold_tree_is_built_without_the_crypto_api_and_other_suites() {
    let Some(tree) = next_tree() else { return };
    let cache = tempfile::tempdir().unwrap();
    let run = |suite: &str| {
        let run = kiln_with(
            &["test", "--tree", tree.to_str().unwrap(), "--suite", suite],
            &[("XDG_CACHE_HOME", cache.path().to_str().unwrap())],
        );
        assert_eq!(run.status, 0, "{}", run.stderr);
        run.stdout()
    };
    let passed = |line: &str| line.starts_with("ok ") && line.contains("test_hash_test_vectors");
    let text = run("sha256");
    assert!(text.lines().any(passed), "{text}");
    let builds = fs::read_dir(cache.path().join("kiln/tree")).unwrap();
    let builds: Vec<_> = builds.map(|build| build.unwrap().path()).collect();
    assert_eq!(builds.len(), 1, "{builds:?}");
    let is_built = |object: &str| builds[0].join("build").join(object).is_file();
    assert!(is_built("lib/crypto/sha256.o") && !is_built("crypto/xts.o"));
    // The options of all these suites are set in the configuration.
    let others = ["lib/crypto/tests/md5_kunit.o", "lib/crc/tests/crc_kunit.o"];
    assert!(is_built("lib/crypto/tests/sha256_kunit.o"));
    assert!(!others.iter().any(|object| is_built(object)));
    let text = run("md5,crc");
    assert!(
        text.lines().any(passed) && text.contains("crc.crc7_be_test"),
        "{text}"
    );
    assert!(others.iter().all(|object| is_built(object)));
    // Alternating between suites compiles nothing.
    run("sha256");
    let log = fs::read_to_string(builds[0].join("log")).unwrap();
    assert!(!log.contains("  CC "), "{log}");
}
