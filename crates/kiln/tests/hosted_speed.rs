//! Tests `kiln speed --tree` and `kiln compare` on trees. The tests are skipped with a message
//! unless KILN_TEST_TREE is set.

use std::io::Write;
use std::path::Path;

use crate::common::tree::{given_tree, kiln_keeping};
use crate::common::{fault, kiln, until_measured, Run};
use crate::edited::Edited;
use serde_json::Value;

fn rows(run: &Run) -> Vec<Value> {
    run.json()["rows"].as_array().unwrap().clone()
}

const XTS: &str = "arch/x86/crypto/aes-xts-avx-x86_64.S";
const SHA256: &str = "arch/x86/crypto/sha256-avx2-asm.S";

/// Returns whether the CPU supports VAES and AVX2, which most of the newer code in a tree needs.
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
    // Measure in a single turn with short samples, as `compare` does. The turn is long enough to
    // measure all rows.
    let args = [
        "speed",
        "--tree",
        tree.to_str().unwrap(),
        "--turn-ms",
        "10000",
        "--json",
        "--len",
        "64,1024",
        "--op",
        "encrypt,decrypt,digest,derive",
        "--peers",
        "none",
        "--seed",
        "3",
    ];
    let run = until_measured(|| kiln_keeping(&args));
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
    // There must be a row for every cipher, AEAD and hash that `kiln tree` lists for this CPU.
    // Names with parentheses are excluded, because they belong to template instances that the
    // self-tests created.
    let listed = kiln_keeping(&["tree", tree.to_str().unwrap(), "--json", "--seed", "1"]).json();
    let kinds = ["skcipher", "lskcipher", "aead", "shash", "ahash"];
    for row in listed["rows"].as_array().unwrap() {
        let (name, kind) = (
            row["name"].as_str().unwrap(),
            row["type"].as_str().unwrap_or(""),
        );
        if kinds.contains(&kind) && !name.contains('(') {
            assert!(
                drivers.binary_search(&name).is_ok(),
                "{name} ({}) is not measured",
                row["alg"]
            );
        }
    }
}

#[test]
fn kilns_own_and_a_trees_are_in_one_table() {
    let Some(tree) = given_tree() else { return };
    let args = [
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
    ];
    let run = until_measured(|| kiln_keeping(&args));
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
        // Every row must have a ratio, because all rows are measured in one process.
        assert!(
            row["ratio"].is_number() && row["verdict"].is_string(),
            "{row}"
        );
    }
    let level = kiln_keeping(&[
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
        fault(&kiln_keeping(&all), 2, why);
    };
    unknown(&["xts(ase)"], "did you mean 'xts(aes)'");
    unknown(
        &["--impl", "aesni_xts_encr"],
        "did you mean 'aesni_xts_enc'",
    );
    unknown(&["sha256", "--op", "encrypt"], "use --op digest");
}

/// Controls: trees where a function computes a wrong result, crashes, is slow, or does not compile.
#[test]
fn controls() {
    let Some(tree) = given_tree() else { return };
    if !vaes() {
        return;
    }
    let overlay = Edited::new(&tree);
    wrong_and_wild(&overlay);
    slow(&tree, &overlay);
    broken(&tree, &overlay);
    overlay.restore(XTS);
}

/// Plants two faults: one AES round in XTS uses the key of another round, and a SHA-256 function
/// writes to unmapped memory.
fn wrong_and_wild(overlay: &Edited) {
    overlay.replace(
        XTS,
        "\t_vaes_4x\t\\enc, 0, 7\n",
        "\t_vaes_4x\t\\enc, 0, 6\n",
    );
    let start = "SYM_TYPED_FUNC_START(sha256_transform_rorx)";
    overlay.replace(SHA256, start, &format!("{start}\n\tmovl\t$0, 8"));
    let names = "aes_xts_encrypt_vaes_avx2,xts-aes-vaes-avx2,aesni_xts_enc,sha256_transform_rorx,\
                 sha256_transform_avx";
    let args = [
        "speed",
        "xts(aes)",
        "sha256",
        "--tree",
        overlay.path(),
        "--quick",
        "--json",
        "--len",
        "64,4096",
        "--peers",
        "none",
        "--impl",
        names,
    ];
    let run = until_measured(|| kiln_keeping(&args));
    overlay.restore(SHA256);
    assert_eq!(run.status, 1, "{}", run.stderr);
    let rows = rows(&run);
    assert!(!rows.is_empty());
    for row in &rows {
        // Expect wrong results only for long messages, because short messages do not reach the
        // edited loop.
        let name = row["impl"].as_str().unwrap();
        let edited = row["len"] == 4096 && name.contains("vaes") && row["provider"] != "kiln";
        assert_eq!(row["cycles_per_op"].is_null(), edited, "{row}");
        assert_ne!(name, "sha256_transform_rorx");
    }
    assert!(
        rows.iter().any(|r| r["impl"] == "sha256_transform_avx"),
        "{rows:?}"
    );
    let json = run.json();
    let notes = json["notes"].as_array().unwrap();
    let told = |what: &str, name: &str| {
        let mut notes = notes.iter().map(|n| n.as_str().unwrap());
        notes.any(|n| n.starts_with(what) && n.contains(name))
    };
    for name in ["aes_xts_encrypt_vaes_avx2", "xts-aes-vaes-avx2"] {
        assert!(told("WRONG ANSWER", name), "{notes:?}");
    }
    assert!(!told("WRONG ANSWER", "aesni_xts_enc"), "{notes:?}");
    assert!(told("CRASH", "in sha256_transform_rorx+"), "{notes:?}");
}

/// Plants a chain of 20 multiplications (60 cycles) in the main loop, whose original body takes
/// about 39 cycles on Zen 4 and Zen 5.
fn slow(tree: &Path, overlay: &Edited) {
    let head = ".Lmain_loop\\@:\n";
    overlay.replace(
        XTS,
        head,
        &format!("{head}\t.rept 20\n\timul $3, %r11, %r11\n\t.endr\n"),
    );
    let compare = |a: &str, b: &str| {
        kiln_keeping(&[
            "compare",
            a,
            b,
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
        ])
    };
    let a = tree.to_str().unwrap();
    // On a busy machine, the ratios of a short run can be wrong, so repeat both comparisons until
    // all results are as expected.
    let is_right = (0..5).any(|_| {
        let run = compare(a, overlay.path());
        assert!(run.status <= 1, "{run:?}");
        let found = rows(&run);
        let of = |name: &str| {
            let row = found
                .iter()
                .find(|r| r["key"].as_str().unwrap().contains(name));
            let row = row.unwrap_or_else(|| panic!("no {name} in {found:?}"));
            println!("{name}: {row}");
            let end = |field: &str| row[field].as_f64().unwrap_or(f64::NAN);
            (row["verdict"] == "slower", end("ci_low"), end("ci_high"))
        };
        let (is_slower, low, high) = of("aes_xts_encrypt_vaes_avx2");
        let (_, other_low, _) = of("aesni_xts_enc");
        let same = compare(a, a);
        println!("not edited: {same:?}");
        run.status == 1
            && is_slower
            && low > 1.05
            && high < 2.0
            // A function that was not edited must not be slower.
            && other_low < 1.05
            && same.status == 0
    });
    assert!(is_right, "not in one of five runs");
}

/// Plants an instruction that does not exist.
fn broken(tree: &Path, overlay: &Edited) {
    overlay.replace(
        XTS,
        ".Lmain_loop\\@:\n",
        ".Lmain_loop\\@:\n\tno_such_instruction\n",
    );
    let a = tree.to_str().unwrap();
    let run = kiln_keeping(&[
        "compare",
        a,
        overlay.path(),
        "--alg",
        "xts(aes)",
        "--len",
        "512",
        "--quick",
        "--bisect",
        "--max-regression",
        "5",
    ]);
    assert_eq!(run.status, 125, "{}", run.stderr);
    assert!(run.stderr.contains("no_such_instruction"), "{}", run.stderr);
}

#[test]
fn what_is_no_tree_is_refused_and_125_for_bisect() {
    let hollow = tempfile::tempdir().unwrap();
    let dir = hollow.path().to_str().unwrap();
    fault(&kiln(&["compare", dir, dir]), 2, "no Makefile");
    fault(
        &kiln(&["compare", dir, dir, "--bisect", "--max-regression", "5"]),
        125,
        "no Makefile",
    );
    fault(&kiln(&["speed", "--tree", dir]), 2, "no Makefile");
    let laid_out = ["--level", "api", "--layout", "tcrypt"];
    let args = [&["speed", "--tree", dir], &laid_out[..]].concat();
    fault(&kiln(&args), 2, "--tcrypt MODE");
}
