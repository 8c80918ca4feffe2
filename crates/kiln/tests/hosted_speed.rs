//! `kiln speed --tree` and `kiln compare` of trees. Without KILN_TEST_TREE they are skipped, loudly.

mod common;

use std::env;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{fault, kiln, kiln_with, Run};
use serde_json::Value;

/// Where this test builds, kept between runs.
fn place(name: &str) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::create_dir_all(&dir).unwrap();
    dir
}

fn given_tree() -> Option<PathBuf> {
    let tree = env::var_os("KILN_TEST_TREE").filter(|v| !v.is_empty());
    if tree.is_none() {
        // Not by a macro, whose output a passing test keeps to itself.
        let line =
            "\nSKIPPED: no kernel tree: set KILN_TEST_TREE to an unpacked, unconfigured one\n";
        let _ = std::io::stderr().write_all(line.as_bytes());
    }
    tree.map(|tree| fs::canonicalize(tree).unwrap())
}

fn hosted(args: &[&str]) -> Run {
    let cache = place("tree-cache");
    kiln_with(args, &[("XDG_CACHE_HOME", cache.to_str().unwrap())])
}

fn rows(run: &Run) -> Vec<Value> {
    run.json()["rows"].as_array().unwrap().clone()
}

/// An overlay of links in which one file is edited.
fn overlay(tree: &Path, name: &str, file: &str, from: &str, to: &str) -> PathBuf {
    let overlay = place("speed-overlays").join(name);
    if !overlay.exists() {
        let copied = Command::new("cp")
            .arg("-as")
            .args([tree, &overlay])
            .status();
        assert!(copied.unwrap().success());
    }
    let text = fs::read_to_string(tree.join(file)).unwrap();
    assert!(text.contains(from), "{file} has no {from:?}");
    let copy = overlay.join(file);
    fs::remove_file(&copy).unwrap();
    fs::write(copy, text.replacen(from, to, 1)).unwrap();
    overlay
}

const XTS: &str = "arch/x86/crypto/aes-xts-avx-x86_64.S";

/// Whether the CPU has what most of a tree's newer code needs.
fn vaes() -> bool {
    let has = is_x86_feature_detected!("vaes") && is_x86_feature_detected!("avx2");
    if !has {
        let _ = std::io::stderr().write_all(b"\nSKIPPED: this CPU has no VAES\n");
    }
    has
}

#[test]
fn all_that_a_tree_has_is_measured_and_right() {
    let Some(tree) = given_tree() else { return };
    let run = hosted(&[
        "speed",
        "--tree",
        tree.to_str().unwrap(),
        "--quick",
        "--json",
        "--len",
        "64,1024",
        "--op",
        "encrypt,decrypt,digest,derive",
        "--seed",
        "3",
    ]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    let rows = rows(&run);
    let mut functions: Vec<&str> = Vec::new();
    let mut drivers: Vec<&str> = Vec::new();
    for row in &rows {
        let name = row["impl"].as_str().unwrap();
        assert!(row["cycles_per_op"].as_f64().unwrap() > 0.0, "{row}");
        if !row["provider"].as_str().unwrap().starts_with("linux-") {
            continue;
        }
        assert_eq!(row["config"], "kiln", "{row}");
        match row["level"].as_str().unwrap() {
            "primitive" => functions.push(name),
            _ => drivers.push(name),
        }
    }
    for list in [&mut functions, &mut drivers] {
        list.sort_unstable();
        list.dedup();
    }
    assert!(functions.len() >= 60, "{} functions", functions.len());
    // Every cipher, AEAD and hash that the tree registers for this CPU: what `kiln tree` lists, but for cryptd's.
    let listed = hosted(&["tree", tree.to_str().unwrap(), "--json", "--seed", "1"]).json();
    let kinds = ["skcipher", "lskcipher", "aead", "shash", "ahash"];
    for row in listed["rows"].as_array().unwrap() {
        let (name, kind) = (
            row["name"].as_str().unwrap(),
            row["type"].as_str().unwrap_or(""),
        );
        if kinds.contains(&kind) && !name.contains("cryptd(") && !name.starts_with("pkcs1pad") {
            let alg = row["alg"].as_str().unwrap();
            // Keys in a format of their own.
            let drawn = !["authenc", "krb5"].iter().any(|t| alg.contains(t));
            assert!(
                !drawn || drivers.binary_search(&name).is_ok(),
                "{name} ({alg}) is not measured"
            );
        }
    }
}

#[test]
fn kilns_own_and_a_trees_are_in_one_table() {
    let Some(tree) = given_tree() else { return };
    let run = hosted(&[
        "speed",
        "xts(aes)",
        "--tree",
        tree.to_str().unwrap(),
        "--quick",
        "--json",
        "--len",
        "512",
        "--baseline",
        "xts-aes-generic",
        "--peers",
        "none",
    ]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    let rows = rows(&run);
    let of = |name: &str| {
        let row = rows.iter().find(|r| r["impl"] == name);
        row.unwrap_or_else(|| panic!("no {name}")).clone()
    };
    assert_eq!(of("xts-aes-generic")["provider"], "kiln");
    assert_eq!(of("xts(ecb(aes-generic))")["level"], "api");
    assert_eq!(of("aesni_xts_enc")["level"], "primitive");
    for row in &rows {
        // In one process, interleaved: each has a ratio.
        assert!(
            row["ratio"].is_number() && row["verdict"].is_string(),
            "{row}"
        );
    }
    let level = hosted(&[
        "speed",
        "xts(aes)",
        "--tree",
        tree.to_str().unwrap(),
        "--quick",
        "--json",
        "--len",
        "512",
        "--level",
        "api",
        "--peers",
        "none",
    ]);
    assert!(
        self::rows(&level).iter().all(|r| r["level"] == "api"),
        "{}",
        level.stdout()
    );

    let unknown = |args: &[&str], why: &str| {
        let mut all = vec!["speed", "--tree", tree.to_str().unwrap()];
        all.extend(args);
        fault(&hosted(&all), 2, why);
    };
    unknown(&["xts(ase)"], "did you mean 'xts(aes)'");
    unknown(
        &["--impl", "aesni_xts_encr"],
        "did you mean 'aesni_xts_enc'",
    );
    unknown(&["sha256", "--op", "encrypt"], "use --op digest");
}

/// Control: one round of AES with another round's key.
#[test]
fn a_wrong_function_has_no_figure() {
    let Some(tree) = given_tree().filter(|_| vaes()) else {
        return;
    };
    let wrong = overlay(
        &tree,
        "wrong",
        XTS,
        "\t_vaes_4x\t\\enc, 0, 7\n",
        "\t_vaes_4x\t\\enc, 0, 6\n",
    );
    let run = hosted(&[
        "speed",
        "xts(aes)",
        "--tree",
        wrong.to_str().unwrap(),
        "--quick",
        "--json",
        "--len",
        "16,4096",
        "--peers",
        "none",
        "--impl",
        "aes_xts_encrypt_vaes_avx2,xts-aes-vaes-avx2,aesni_xts_enc",
    ]);
    assert_eq!(run.status, 1, "{}", run.stderr);
    let json = run.json();
    for row in rows(&run) {
        // Short messages do not come to the edited loop.
        let edited = row["len"] == 4096 && row["impl"].as_str().unwrap().contains("vaes");
        assert_eq!(row["cycles_per_op"].is_null(), edited, "{row}");
    }
    let notes = json["notes"].as_array().unwrap();
    let told = |name: &str| {
        let wrong = |n: &&Value| n.as_str().unwrap().contains("WRONG ANSWER");
        notes
            .iter()
            .filter(wrong)
            .any(|n| n.as_str().unwrap().contains(name))
    };
    assert!(
        told("aes_xts_encrypt_vaes_avx2") && told("xts-aes-vaes-avx2"),
        "{notes:?}"
    );
    assert!(!told("aesni_xts_enc"), "{notes:?}");
}

/// Control: a function that stores where it must not.
#[test]
fn a_function_that_crashes_is_named_and_the_rest_is_measured() {
    let Some(tree) = given_tree() else { return };
    let file = "arch/x86/crypto/sha256_ni_asm.S";
    let start = "SYM_TYPED_FUNC_START(sha256_ni_transform)";
    let crash = format!("{start}\n\tmovl\t$0, 8");
    let wild = overlay(&tree, "wild", file, start, &crash);
    let run = hosted(&[
        "speed",
        "sha256",
        "--tree",
        wild.to_str().unwrap(),
        "--quick",
        "--json",
        "--len",
        "64",
    ]);
    if !is_x86_feature_detected!("sha") {
        return;
    }
    assert_eq!(run.status, 1, "{}", run.stderr);
    let json = run.json();
    let notes: Vec<&str> = json["notes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|n| n.as_str().unwrap())
        .collect();
    let crash = notes.iter().find(|n| n.starts_with("CRASH"));
    assert!(
        crash.is_some_and(|n| n.contains("in sha256_ni_transform+")),
        "{notes:?}"
    );
    let rows = rows(&run);
    assert!(rows.iter().any(|r| r["impl"] == "sha256-generic"));
    assert!(rows.iter().all(|r| r["impl"] != "sha256_ni_transform"));
}

/// Control: a chain of multiplications in the main loop, a fifth longer than the loop was on the reference machine.
#[test]
fn a_slower_function_is_found_by_compare_and_itself_is_not() {
    let Some(tree) = given_tree().filter(|_| vaes()) else {
        return;
    };
    let slow = overlay(
        &tree,
        "slow",
        XTS,
        ".Lmain_loop\\@:\n",
        ".Lmain_loop\\@:\n\t.rept 16\n\timul $3, %r11, %r11\n\t.endr\n",
    );
    let (a, b) = (tree.to_str().unwrap(), slow.to_str().unwrap());
    let more = [
        "--alg",
        "xts(aes)",
        "--impl",
        "aes_xts_encrypt_vaes_avx2,aesni_xts_enc",
        "--len",
        "4096",
        "--quick",
        "--max-regression",
        "5",
        "--json",
    ];
    let compare = |a: &str, b: &str| {
        let mut args = vec!["compare", a, b];
        args.extend(more);
        hosted(&args)
    };
    let run = compare(a, b);
    assert_eq!(run.status, 1, "{}", run.stderr);
    let found = rows(&run);
    let of = |name: &str| {
        let row = found
            .iter()
            .find(|r| r["key"].as_str().unwrap().contains(name));
        row.unwrap_or_else(|| panic!("no {name} in {found:?}"))
            .clone()
    };
    let edited = of("aes_xts_encrypt_vaes_avx2");
    assert_eq!(edited["verdict"], "slower", "{edited}");
    assert!(edited["ci_low"].as_f64().unwrap() > 1.05, "{edited}");
    assert!(edited["ci_high"].as_f64().unwrap() < 2.0, "{edited}");
    // What was not edited is no regression; timing alone does not decide more than this.
    assert!(of("aesni_xts_enc")["ci_low"].as_f64().unwrap() < 1.05);
    let same = compare(a, a);
    assert_eq!(same.status, 0, "{}{}", same.stdout(), same.stderr);
}

#[test]
fn what_does_not_build_is_125_for_bisect() {
    let hollow = tempfile::tempdir().unwrap();
    let dir = hollow.path().to_str().unwrap();
    fault(&kiln(&["compare", dir, dir]), 2, "no Makefile");
    fault(
        &kiln(&["compare", dir, dir, "--bisect"]),
        125,
        "no Makefile",
    );
    fault(&kiln(&["speed", "--tree", dir]), 2, "no Makefile");
    let Some(tree) = given_tree() else { return };
    let broken = overlay(
        &tree,
        "broken",
        XTS,
        ".Lmain_loop\\@:\n",
        ".Lmain_loop\\@:\n\tno_such_instruction\n",
    );
    let (a, b) = (tree.to_str().unwrap(), broken.to_str().unwrap());
    let run = hosted(&[
        "compare", a, b, "--alg", "xts(aes)", "--len", "512", "--quick", "--bisect",
    ]);
    assert_eq!(run.status, 125, "{}", run.stderr);
    assert!(run.stderr.contains("no_such_instruction"), "{}", run.stderr);
}
