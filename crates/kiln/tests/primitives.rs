//! Tests the assembly functions of a hosted tree. `kiln speed --tree` must call each function
//! directly and find its result correct, or tree/primitives must give a reason why it is not
//! called. The trees are KILN_TEST_TREE and KILN_TEST_TREE_NEXT; without them, the tests are
//! skipped with a message.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::kiln_with;
use crate::common::tree::{given_tree, kiln_keeping, place, tree_of};
use crate::edited::Edited;
use kiln_kernel::Tier;
use serde_json::Value;

fn next_tree() -> Option<PathBuf> {
    tree_of("KILN_TEST_TREE_NEXT", "tree of a current kernel")
}

/// Directories of a tree that contain assembly code for the kinds of algorithms that Kiln measures.
const FOLDERS: [&str; 5] = [
    "arch/x86/crypto",
    "lib/crypto/x86",
    "lib/crc/x86",
    "lib/raid/raid6/x86",
    "lib/raid/xor/x86",
];

/// The table in tree/primitives. `rows` contains the functions that are measured, each with the
/// other functions that the same measurement calls. `reasons` contains the functions that are not
/// measured, for which the table gives a reason.
struct Table {
    rows: Vec<(String, Vec<String>)>,
    reasons: BTreeSet<String>,
}

impl Table {
    fn read() -> Table {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tree/primitives");
        let text = fs::read_to_string(path).unwrap();
        let mut table = Table {
            rows: Vec::new(),
            reasons: BTreeSet::new(),
        };
        for line in text.lines().filter(|l| !l.starts_with('#')) {
            let words: Vec<&str> = line.split_whitespace().collect();
            match words[..] {
                ["-", symbol, _, _, ..] => {
                    assert!(table.reasons.insert(symbol.into()), "{line}");
                }
                [symbol, _, _, _, _, ..] => {
                    let beside = words.iter().find_map(|w| w.strip_prefix("beside="));
                    let beside = beside.map_or(Vec::new(), |b| b.split(',').collect());
                    let beside = beside.into_iter().map(String::from).collect();
                    table.rows.push((symbol.into(), beside));
                }
                [] => {}
                _ => panic!("neither a row nor a reason: {line}"),
            }
        }
        table
    }

    /// Returns the functions in `symbols` that were not called and for which the table gives no
    /// reason.
    fn uncovered<'a>(
        &self,
        symbols: &'a BTreeSet<String>,
        called: &BTreeSet<String>,
    ) -> Vec<&'a String> {
        let covered = |symbol: &String| {
            let rows = self.rows.iter().filter(|(row, _)| called.contains(row));
            let mut all = rows.flat_map(|(row, beside)| beside.iter().chain([row]));
            all.any(|s| s == symbol) || self.reasons.contains(symbol)
        };
        symbols.iter().filter(|s| !covered(s)).collect()
    }
}

/// Returns the global functions in the object files that the tree's build assembled. Their sources
/// may be hand-written or generated.
fn assembly_functions(tree: &Path, build: &Path) -> BTreeSet<String> {
    let mut functions = BTreeSet::new();
    for folder in FOLDERS {
        let Ok(files) = fs::read_dir(build.join(folder)) else {
            continue;
        };
        for object in files.map(|f| f.unwrap().path()) {
            let source = object.with_extension("S");
            let source = Path::new(folder).join(source.file_name().unwrap());
            let is_object = object.extension().is_some_and(|e| e == "o");
            if !is_object || ![tree, build].iter().any(|root| root.join(&source).exists()) {
                continue;
            }
            let nm = Command::new("nm")
                .args(["-g", "--defined-only"])
                .arg(&object)
                .output()
                .expect("nm is there with the compiler");
            assert!(nm.status.success(), "{}", object.display());
            let text = String::from_utf8(nm.stdout).unwrap();
            let of_code = text.lines().filter_map(|line| line.split_once(" T "));
            functions.extend(of_code.map(|(_, name)| name.to_string()));
        }
    }
    functions
}

/// The results of measuring a tree's functions with `kiln speed`.
struct Measured {
    /// Each function that was called, paired with its tier. None of them gave a wrong result.
    called: BTreeSet<(String, String)>,
    notes: Vec<String>,
}

impl Measured {
    /// Measures all functions at the default lengths, with keys of every size, allowing only
    /// `tiers`.
    fn of(tree: &Path, tiers: &str) -> Measured {
        let cache = place("tree-cache");
        let all = [
            &["speed", "--tree", tree.to_str().unwrap(), "--json"][..],
            &["--level", "primitive", "--key-bits", "64,128,192,256"],
            &["--turn-ms", "3000", "--peers", "none", "--seed", "11"],
        ];
        let run = kiln_with(
            &all.concat(),
            &[
                ("XDG_CACHE_HOME", cache.to_str().unwrap()),
                ("KILN_TIERS", tiers),
            ],
        );
        let json = run.json();
        let notes = json["notes"].as_array().unwrap().iter();
        let notes: Vec<String> = notes.map(|n| n.as_str().unwrap().to_string()).collect();
        let wrong: Vec<_> = notes.iter().filter(|n| n.contains("WRONG")).collect();
        assert_eq!(wrong, Vec::<&String>::new());
        assert_eq!(run.status, 0, "{} {notes:?}", run.stderr);
        let text = |row: &Value, field: &str| row[field].as_str().unwrap().to_string();
        let rows = json["rows"].as_array().unwrap().iter();
        let of_tree = rows.filter(|r| text(r, "provider").starts_with("linux-"));
        let called = of_tree.map(|row| {
            // On a busy machine, all samples of a row may be disturbed. A note then reports this.
            let none = format!("no result for {}, ", text(row, "impl"));
            let disturbed = |n: &String| n.starts_with(&none) && n.ends_with("was disturbed");
            let measured = row["cycles_per_op"].is_number();
            assert!(measured || notes.iter().any(disturbed), "{row} {notes:?}");
            (text(row, "impl"), text(row, "tier"))
        });
        Measured {
            called: called.collect(),
            notes,
        }
    }

    fn names(&self) -> BTreeSet<String> {
        self.called.iter().map(|(name, _)| name.clone()).collect()
    }

    /// Returns the functions that this CPU cannot run, according to the notes.
    fn excused(&self) -> BTreeSet<&str> {
        let because = ["the CPU lacks", "did not register"];
        let notes = self
            .notes
            .iter()
            .filter(|n| because.iter().any(|b| n.contains(b)));
        let names = notes.filter_map(|n| n.split_once(": ")?.0.split_once(' '));
        names.map(|(_, name)| name).collect()
    }

    fn build(&self) -> PathBuf {
        let mut notes = self.notes.iter();
        let built = notes.find_map(|n| n.strip_prefix("built in ")).unwrap();
        Path::new(built).join("build")
    }
}

/// Checks that every assembly function of a tree is measured or has a reason not to be. The tree
/// must have at least `least` such functions.
fn every_function_has_a_row_or_a_reason(tree: &Path, least: usize) {
    let mut table = Table::read();
    let measured = Measured::of(tree, "");
    let symbols = assembly_functions(tree, &measured.build());
    assert!(symbols.len() >= least, "{}", symbols.len());
    let excused = measured.excused();
    let mut called = measured.names();
    // Count excused functions as called, so that the other functions in the same measurement are
    // excused, too.
    called.extend(excused.iter().map(|name| name.to_string()));
    let mut uncovered = table.uncovered(&symbols, &called);
    uncovered.retain(|s| !excused.contains(s.as_str()));
    assert_eq!(uncovered, Vec::<&String>::new());
    // If the CPU supports all tiers, it must be able to run all functions.
    if Tier::ALL.iter().all(|t| t.present()) {
        assert_eq!(excused, BTreeSet::new());
    }

    // Controls: if the row of one function, the row of two functions, or a reason is removed,
    // exactly the functions that it covered must be reported as missing.
    let missing = |table: &Table, called: &BTreeSet<String>| -> Vec<String> {
        let found = table.uncovered(&symbols, called).into_iter();
        found
            .filter(|s| !excused.contains(s.as_str()))
            .cloned()
            .collect()
    };
    for (name, with) in [
        ("hchacha_block_ssse3", &["hchacha_block_ssse3"][..]),
        (
            "poly1305_blocks_x86_64",
            &["poly1305_blocks_x86_64", "poly1305_emit_x86_64"],
        ),
    ] {
        assert!(called.remove(name), "{name}");
        assert_eq!(missing(&table, &called), with);
        called.insert(name.into());
    }
    let name = "aes_gcm_precompute_aesni";
    assert!(table.reasons.remove(name));
    assert_eq!(missing(&table, &called), [name]);
}

#[test]
fn every_assembly_function_of_an_lts_kernel_is_called_or_has_a_reason() {
    let Some(tree) = given_tree() else { return };
    every_function_has_a_row_or_a_reason(&tree, 140);
}

#[test]
fn every_assembly_function_of_a_current_kernel_is_called_or_has_a_reason() {
    let Some(tree) = next_tree() else { return };
    every_function_has_a_row_or_a_reason(&tree, 150);
}

/// The table lists the CPU features (`cpu`) that KILN_TIERS must allow for a function to be called.
/// Without this list, functions without a driver would be called even if their tier is masked.
#[test]
fn functions_that_a_mask_hides_are_not_called() {
    let Some(tree) = next_tree() else { return };
    if !Tier::Aesni.present() {
        return;
    }
    let measured = Measured::of(&tree, "aesni");
    for (name, tier) in &measured.called {
        let hidden = ["avx", "sha-ni", "adx"].iter().any(|t| tier.contains(t));
        assert!(!hidden, "{name}: {tier}");
    }
    let called = measured.names();
    for name in ["crc32_lsb_pclmul_sse", "aes128_expandkey_aesni", "nh_sse2"] {
        assert!(called.contains(name), "{name}");
    }
    let excused = measured.excused();
    for name in ["crc32_lsb_vpclmul_avx512", "nh_avx2", "sha256_ni_finup2x"] {
        assert!(excused.contains(name), "{name}: {:?}", measured.notes);
    }
}

/// Plants two faults: a wrong bit in the folding constants of one CRC polynomial, and a wrong bit
/// in the constants that SHA-256 uses with SHA-NI. The tree's own drivers use the same constants,
/// so only an independent reference can find the faults.
#[test]
fn wrong_constants_are_found_and_nothing_else() {
    let Some(tree) = next_tree() else { return };
    let overlay = Edited::new(&tree);
    overlay.replace(
        "lib/crc/x86/crc-pclmul-consts.h",
        "0x000000008f352d95,",
        "0x000000008f352d94,",
    );
    overlay.replace(
        "lib/crypto/x86/sha256-ni-asm.S",
        "0x428a2f98,",
        "0x428a2f99,",
    );
    let run = kiln_keeping(&[
        "speed",
        "crc32",
        "crc32c",
        "sha256",
        "--tree",
        overlay.path(),
        "--level",
        "primitive",
        "--turn-ms",
        "1000",
        "--len",
        "16,4096",
        "--json",
    ]);
    assert_eq!(run.status, 1, "{}", run.stderr);
    let json = run.json();
    let rows = json["rows"].as_array().unwrap();
    let of_tree = rows
        .iter()
        .filter(|r| r["provider"].as_str().unwrap().starts_with("linux-"));
    let mut wrong = Vec::new();
    for row in of_tree {
        if row["cycles_per_op"].is_null() {
            wrong.push((row["alg"].as_str().unwrap(), row["impl"].as_str().unwrap()));
            assert_eq!(row["len"], 4096, "{row}");
        }
    }
    let of_alg = |alg: &str| -> Vec<&str> {
        let of = wrong.iter().filter(|(a, _)| *a == alg);
        of.map(|(_, name)| *name).collect()
    };
    // The faults must not affect the other polynomial, short messages, or SHA-256 without SHA-NI.
    assert!(
        of_alg("crc32").contains(&"crc32_lsb_pclmul_sse"),
        "{wrong:?}"
    );
    assert_eq!(of_alg("crc32c"), Vec::<&str>::new());
    if Tier::ShaNi.present() {
        assert_eq!(
            of_alg("sha256"),
            ["sha256_ni_transform", "sha256_ni_finup2x"]
        );
    }
    let notes = json["notes"].as_array().unwrap().iter();
    let told = notes.filter(|n| n.as_str().unwrap().starts_with("WRONG ANSWER: "));
    assert_eq!(told.count(), wrong.len());
}
