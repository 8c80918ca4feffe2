//! Tests `kiln tree` from a user's point of view. Tests that need a kernel tree are skipped with a
//! message, unless KILN_TEST_TREE is set to the tree of an LTS kernel and KILN_TEST_TREE_NEXT to
//! the tree of a current kernel.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::tree::{given_tree, kiln_keeping, place, tree_of};
use crate::common::{fault, kiln, kiln_with, Run};
use crate::edited::Edited;
use kiln_kernel::Tier;
use serde_json::Value;

fn tree_json(dir: &Path) -> (Run, Vec<Value>) {
    tree_json_with(dir, "")
}

fn tree_json_with(dir: &Path, tiers: &str) -> (Run, Vec<Value>) {
    let cache = place("tree-cache");
    let run = kiln_with(
        &["tree", dir.to_str().unwrap(), "--json", "--seed", "1"],
        &[
            ("XDG_CACHE_HOME", cache.to_str().unwrap()),
            ("KILN_TIERS", tiers),
        ],
    );
    let rows = run.json()["rows"].as_array().unwrap().clone();
    (run, rows)
}

fn count(rows: &[Value], kind: &str, status: &str) -> usize {
    rows.iter()
        .filter(|r| r["kind"] == kind && r["status"] == status)
        .count()
}

/// Creates a directory that looks like a kernel tree but is almost empty.
fn hollow_tree(arch: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let makefile = "VERSION = 6\nPATCHLEVEL = 12\nSUBLEVEL = 1\nEXTRAVERSION =\n";
    fs::write(dir.path().join("Makefile"), makefile).unwrap();
    fs::write(dir.path().join("Kbuild"), "").unwrap();
    fs::create_dir_all(dir.path().join(arch)).unwrap();
    dir
}

#[test]
fn what_is_no_tree_is_refused_in_one_line() {
    fault(
        &kiln(&["tree", "/no/such/dir"]),
        2,
        "not a Linux source tree",
    );
    fault(&kiln(&["tree", "/dev/null"]), 2, "not a Linux source tree");
    let empty = tempfile::tempdir().unwrap();
    fault(
        &kiln(&["tree", empty.path().to_str().unwrap()]),
        2,
        "no Makefile",
    );
    let arm = hollow_tree("arch/arm64/crypto");
    fault(
        &kiln(&["tree", arm.path().to_str().unwrap()]),
        2,
        "arch/x86",
    );
    fault(&kiln(&["tree"]), 2, "no kernel tree is named");
}

#[test]
fn what_is_no_configuration_is_refused_in_one_line() {
    let tree = hollow_tree("arch/x86/crypto");
    let dir = tree.path().to_str().unwrap();
    let config = |which: &str| kiln(&["tree", dir, "--config", which]);
    fault(&config("/no/such.config"), 2, "/no/such.config");
    fault(&config("tree"), 2, "has no .config");
    let file = tree.path().join("other.config");
    let name = file.to_str().unwrap();
    fs::write(&file, "nothing\n").unwrap();
    fault(&config(name), 2, "no line of it sets an option");
    fs::write(
        &file,
        "# Linux/arm64 6.12.1 Kernel Configuration\nCONFIG_A=y\n",
    )
    .unwrap();
    fault(&config(name), 2, "configures arm64");
    fs::write(tree.path().join("broken.xz"), "no archive").unwrap();
    let packed = tree.path().join("broken.xz");
    let (status, want) = match Command::new("xz").arg("--version").output() {
        Ok(_) => (2, "broken.xz"),
        // If xz is not installed, the error is that the archive cannot be unpacked.
        Err(_) => (3, "apt-get install xz-utils"),
    };
    fault(&config(packed.to_str().unwrap()), status, want);
}

#[test]
fn what_the_machine_lacks_has_status_3() {
    let tree = hollow_tree("arch/x86/crypto");
    let dir = tree.path().to_str().unwrap();
    fault(
        &kiln(&["tree", dir, "--cc", "kiln-no-such-cc"]),
        3,
        "kiln-no-such-cc",
    );

    // Set a PATH that contains no program except a compiler.
    let bin = tempfile::tempdir().unwrap();
    let find = Command::new("sh")
        .args(["-c", "command -v cc"])
        .output()
        .unwrap();
    let cc = String::from_utf8(find.stdout).unwrap();
    std::os::unix::fs::symlink(cc.trim(), bin.path().join("cc")).unwrap();
    let run = kiln_with(&["tree", dir], &[("PATH", bin.path().to_str().unwrap())]);
    fault(&run, 3, "make, flex, bison, bc");
    assert!(run.stderr.contains("apt-get install"), "{}", run.stderr);
}

#[test]
fn the_trees_own_self_tests_pass() {
    let Some(tree) = given_tree() else { return };
    let (run, rows) = tree_json(&tree);
    assert_eq!(run.status, 0, "{}", run.stderr);
    let tested = count(&rows, "algorithm", "tested");
    assert!(tested >= 80, "{tested} tested");
    assert_eq!(count(&rows, "algorithm", "failed"), 0);
    assert_eq!(count(&rows, "object", "failed"), 0);
    for row in rows.iter().filter(|r| r["kind"] == "algorithm") {
        let (name, reason) = (
            row["name"].as_str().unwrap(),
            row["reason"].as_str().unwrap(),
        );
        match row["status"].as_str().unwrap() {
            "tested" => assert!(row["test_us"].is_u64(), "{row}"),
            // All other rows must be cryptd instances, or algorithms for which the test in the tree
            // is empty.
            _ if name.starts_with("cryptd(") => assert_eq!(row["internal"], true, "{row}"),
            _ => assert!(reason.contains("without using it"), "{row}"),
        }
    }
    for driver in [
        "aes-generic",
        "__xts-aes-aesni",
        "sha256-generic",
        "gcm_base(ctr(aes-generic),ghash-generic)",
    ] {
        let row = rows.iter().find(|r| r["name"] == driver);
        assert_eq!(
            row.unwrap_or_else(|| panic!("no {driver}"))["status"],
            "tested"
        );
    }
    let left_out = rows.iter().filter(|r| r["status"] == "left-out");
    for row in left_out {
        assert!(
            row["reason"].as_str().unwrap().starts_with("needs "),
            "{row}"
        );
    }
}

/// Every release moves headers and code. The three commands that host a tree must work on a current
/// kernel, and find its crypto library at the new location.
#[test]
fn a_current_kernel_is_hosted_measured_and_tested() {
    let current = "tree of a current kernel (Linux 7.x)";
    let Some(tree) = tree_of("KILN_TEST_TREE_NEXT", current) else {
        return;
    };
    let (run, rows) = tree_json(&tree);
    assert_eq!(run.status, 0, "{}", run.stderr);
    let tested = count(&rows, "algorithm", "tested");
    assert!(tested >= 80, "{tested} tested");
    assert_eq!(count(&rows, "algorithm", "failed"), 0);
    assert_eq!(count(&rows, "object", "failed"), 0);
    let mut expected = vec![
        "xts-aes-lib",
        "sha256-lib",
        "gcm_base(ctr(aes-lib),ghash-lib)",
    ];
    if Tier::Aesni.usable() {
        expected.push("xts-aes-aesni");
    }
    for driver in &expected {
        let row = rows.iter().find(|r| r["name"] == *driver);
        let row = row.unwrap_or_else(|| panic!("no {driver}"));
        assert_eq!(row["status"], "tested", "{row}");
    }

    let dir = tree.to_str().unwrap();
    let speed = [
        "speed", "--tree", dir, "--quick", "--peers", "none", "--json",
    ];
    let run = kiln_keeping(&[&speed[..], &["--len", "512", "xts(aes)"]].concat());
    assert_eq!(run.status, 0, "{}", run.stderr);
    let rows = run.json()["rows"].as_array().unwrap().clone();
    let measured = |level: &str, name: &str| {
        rows.iter().any(|r| {
            r["provider"].as_str().unwrap().starts_with("linux-")
                && r["level"] == level
                && r["impl"] == name
                && r["cycles_per_op"].as_f64() > Some(0.0)
        })
    };
    assert!(measured("api", "xts-aes-lib"), "{rows:#?}");
    if Tier::Aesni.usable() {
        assert!(measured("api", "xts-aes-aesni"), "{rows:#?}");
        assert!(measured("primitive", "aesni_xts_enc"), "{rows:#?}");
    }

    let run = kiln_keeping(&["test", "--tree", dir, "xts(aes)", "--oracle", "none"]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    let text = run.stdout();
    for name in expected.iter().filter(|name| name.starts_with("xts-")) {
        for context in ["", " in task", " in task, BH off"] {
            let line = format!(" {name} xts(aes){context}");
            let passed = |l: &str| l.starts_with("ok ") && l.ends_with(&line);
            assert!(text.lines().any(passed), "no '{line}': {text}");
        }
    }
    let answers: u64 = text
        .lines()
        .find_map(|l| {
            l.strip_prefix("# contexts: ")?
                .split(' ')
                .next()?
                .parse()
                .ok()
        })
        .unwrap();
    assert!(answers > 1000, "{text}");
}

/// Writes a configuration with mitigations, similar to that of a distribution. Returns the path of
/// the file.
fn mitigated() -> PathBuf {
    let file = place("tree-config").join("mine.config");
    let text = "CONFIG_PREEMPT_DYNAMIC=y\nCONFIG_FORTIFY_SOURCE=y\nCONFIG_FTRACE=y\nCONFIG_MODULES=y\n\
                CONFIG_MITIGATION_RETPOLINE=y\nCONFIG_MITIGATION_RETHUNK=y\nCONFIG_X86_KERNEL_IBT=y\n\
                CONFIG_CRYPTO_XTS=m\nCONFIG_CRYPTO_AES=m\nCONFIG_CRYPTO_AES_NI_INTEL=m\n";
    fs::write(&file, text).unwrap();
    file
}

/// Compares the methods of calling a cipher in Kiln and in a tree, with and without mitigations.
/// In both, a method must reach the same kind of driver. Before Kiln times a method, it checks that
/// the method's results are correct.
#[test]
fn ways_to_a_cipher_beside_the_tree_s() {
    let Some(tree) = given_tree() else { return };
    if !Tier::Aesni.usable() {
        return;
    }
    let file = mitigated();
    let policy = format!("tree:{}", tree.display());
    let configs = format!("kiln,{}", file.display());
    let both = format!("legacy,{policy}");
    let fixed = ["fpu", "overhead", "--json", "--quick", "--seed", "1"];
    let asked = ["--policy", &both, "--config", &configs, "--len", "16,512"];
    let run = kiln_keeping(&[&fixed[..], &asked].concat());
    assert_eq!(run.status, 0, "{}", run.stderr);
    let json = run.json();
    let rows = json["rows"].as_array().unwrap();
    let of = |policy: &str, config: Option<&str>, len: u64, path: &str| {
        let found = rows.iter().find(|r| {
            r["policy"] == policy
                && r["len"] == len
                && r["path"] == path
                && r["config"].as_str().map(|c| c.split(' ').next().unwrap()) == config
        });
        found.unwrap_or_else(|| panic!("{policy} {config:?} {len} {path}: {rows:#?}"))
    };
    for (policy, config) in [
        ("legacy", None),
        (policy.as_str(), Some("kiln")),
        (policy.as_str(), Some("mine.config")),
    ] {
        for len in [16, 512] {
            let row = |path: &str| of(policy, config, len, path);
            let driver = |path: &str| row(path)["impl"].as_str().unwrap().to_string();
            for path in [
                "primitive",
                "direct",
                "simd-helper",
                "cryptd",
                "scalar",
                "sync-user",
            ] {
                assert!(row(path)["cycles_per_op"].as_f64().unwrap() > 0.0, "{path}");
                assert!(path == "primitive" || row(path)["ratio"].as_f64().is_some());
            }
            // In Kiln, the direct method calls the driver itself; in a tree, it calls the inner
            // driver.
            let helper = driver("simd-helper");
            assert!([helper.clone(), format!("__{helper}")].contains(&driver("direct")));
            assert_eq!(driver("cryptd"), format!("cryptd(__{helper})"));
            // Callers that cannot wait must get neither the simd helper nor the driver that direct
            // calls use.
            assert_ne!(driver("sync-user"), helper);
            assert_ne!(driver("sync-user"), driver("direct"));
        }
    }
    // The single-block cipher in aesni is synchronous and has a higher priority than generic C, so
    // callers that cannot wait must get it.
    assert_eq!(
        of(&policy, Some("kiln"), 16, "sync-user")["impl"],
        "xts(ecb(aes-aesni))"
    );
}

/// With a configuration like that of a distribution (mitigations enabled, preemption selected at
/// boot), the same drivers must pass the same tests. Returns and indirect calls in the drivers then
/// go through the tree's own thunks.
#[test]
fn a_configuration_of_ones_own_keeps_its_mitigations() {
    let Some(tree) = given_tree() else { return };
    let file = mitigated();
    let (dir, file) = (tree.to_str().unwrap(), file.to_str().unwrap());
    let run = kiln_keeping(&["tree", dir, "--config", file, "--json", "--seed", "1"]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    let json = run.json();
    let rows = json["rows"].as_array().unwrap();
    let config = rows[0]["config"].as_str().unwrap();
    for mitigation in ["mine.config (", "retpoline", "rethunk", "ibt", "fortify"] {
        assert!(config.contains(mitigation), "{config}");
    }
    for driver in ["xts-aes-aesni", "__xts-aes-aesni"] {
        let row = rows.iter().find(|r| r["name"] == driver).unwrap();
        assert_eq!(row["status"], "tested", "{row}");
    }
    assert_eq!(count(rows, "algorithm", "failed"), 0);
    let note = |what: &str| {
        let notes = json["notes"].as_array().unwrap();
        let found = notes
            .iter()
            .filter_map(Value::as_str)
            .find(|n| n.contains(what));
        found.unwrap_or_else(|| panic!("{notes:?}")).to_string()
    };
    assert!(note("changed for hosting").contains("MODULES y to n, "));
    // The object must have been compiled with mitigations, and the thunks must have been built.
    let built = note("built in ");
    let object = Path::new(built.trim_start_matches("built in "))
        .join("build/arch/x86/crypto/aesni-intel_asm.o");
    let nm = Command::new("nm").arg(object).output().unwrap();
    assert!(String::from_utf8_lossy(&nm.stdout).contains("__x86_return_thunk"));
    let thunks = rows
        .iter()
        .find(|r| r["name"] == "arch/x86/lib/retpoline.o");
    assert_eq!(thunks.unwrap()["status"], "built");
}

/// If tiers are masked, the tree must not register the drivers that need them, and must work
/// without these drivers.
#[test]
fn the_tier_mask_reaches_the_tree() {
    let Some(tree) = given_tree() else { return };
    let present: Vec<Tier> = Tier::ALL.into_iter().filter(|t| t.present()).collect();
    // Returns the substrings that a driver name in a tree contains only if it needs this tier.
    let marks = |tier: Tier| -> &[&str] {
        match tier {
            Tier::Aesni => &["aesni", "ssse3", "clmul"],
            Tier::ShaNi => &["-ni"],
            Tier::Avx => &["avx"],
            Tier::Avx2 => &["avx2"],
            Tier::VaesAvx2 => &["vaes"],
            Tier::VaesAvx512 => &["avx512", "avx10_512"],
            _ => &[],
        }
    };
    for highest in 0..present.len() {
        let names: Vec<&str> = present[..=highest].iter().map(|t| t.name()).collect();
        let (run, rows) = tree_json_with(&tree, &names.join(","));
        assert_eq!(run.status, 0, "{names:?}: {}", run.stderr);
        let drivers: Vec<&str> = rows
            .iter()
            .filter(|r| r["kind"] == "algorithm")
            .map(|r| r["name"].as_str().unwrap())
            .collect();
        assert!(drivers.contains(&"aes-generic"));
        let with = |mark: &str| drivers.iter().find(|d| d.contains(mark));
        for tier in present.iter().filter(|t| **t > present[highest]) {
            for mark in marks(*tier) {
                assert_eq!(with(mark), None, "{names:?} without {tier}");
            }
        }
        if let Some(mark) = marks(present[highest]).first() {
            assert!(with(mark).is_some(), "{names:?}: no {mark}");
        }
    }
}

#[test]
fn self_tests_are_lines_and_none_is_left_out_silently() {
    let Some(tree) = given_tree() else { return };
    let dir = tree.to_str().unwrap();
    let run = kiln_keeping(&["test", "--tree", dir, "--oracle", "none"]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    let text = run.stdout();
    assert!(text.starts_with("KTAP version 1\n"), "{text}");
    let plan: usize = text
        .lines()
        .find_map(|l| l.strip_prefix("1..")?.parse().ok())
        .unwrap();
    let lines: Vec<&str> = text.lines().filter(|l| l.starts_with("ok ")).collect();
    assert_eq!(lines.len(), plan);
    for line in lines.iter().filter(|l| l.contains('#')) {
        let (_, reason) = line.split_once("# SKIP ").unwrap();
        assert!(!reason.is_empty(), "{line}");
    }
    let passed = lines.iter().filter(|l| !l.contains('#')).count();
    assert!(passed >= 80, "{passed}");

    // With fewer fuzz rounds, fewer sections must be opened.
    let numbers = |fuzz: &str| -> Vec<u64> {
        let run = kiln_keeping(&[
            "test", "--tree", dir, "--fuzz", fuzz, "--oracle", "none", "--json",
        ]);
        assert_eq!(run.status, 0, "{}", run.stderr);
        let json = run.json();
        let notes = json["notes"].as_array().unwrap();
        let note = notes
            .iter()
            .find_map(|n| n.as_str().filter(|n| n.contains("interrupts meanwhile")));
        let words = note.unwrap().split([' ', ',']);
        words.filter_map(|w| w.parse().ok()).collect()
    };
    let (few, many) = (numbers("1"), numbers("100"));
    let [irqs, in_section, sections] = many[..] else {
        panic!("{many:?}")
    };
    assert!(irqs > in_section && in_section > 0, "{many:?}");
    assert!(few[2] > 1000 && sections > 5 * few[2], "{few:?} {many:?}");
}

#[test]
fn tcrypt_runs_when_asked_and_only_then() {
    let Some(tree) = given_tree() else { return };
    let dir = tree.to_str().unwrap();
    let run = kiln_keeping(&["speed", "--tree", dir, "--tcrypt", "200"]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    let text = run.stdout();
    let heads = text
        .lines()
        .filter(|l| l.starts_with("tcrypt: testing speed of "));
    assert!(heads.count() >= 4, "{text}");
    let rows = kiln_keeping(&["speed", "--tree", dir, "--tcrypt", "200", "--json"]);
    let rows = rows.json()["rows"].as_array().unwrap().clone();
    let lines = text.lines().filter(|l| l.starts_with("tcrypt: test "));
    assert_eq!(rows.len(), lines.count());
    for row in &rows {
        assert!(
            row["cycles"].as_u64() > Some(0) && row["len"].as_u64() > Some(0),
            "{row}"
        );
        assert!(row["driver"].as_str().unwrap().contains("aes"), "{row}");
    }
    fault(
        &kiln_keeping(&["speed", "--tree", dir, "--tcrypt", "99999"]),
        2,
        "printed nothing for this mode",
    );
    fault(&kiln(&["speed", "--tcrypt", "200"]), 2, "--tree");
    fault(&kiln(&["speed", "--config", "x"]), 2, "--tree DIR");
    fault(&kiln(&["test", "--fuzz", "1"]), 2, "--tree");
    // `kiln tree` must not measure the drivers that it lists.
    let listed = kiln_keeping(&["tree", dir]).stdout();
    assert!(!listed.contains("testing speed"), "{listed}");
}

/// Controls: one algorithm computes wrong results, one crashes, and one does not compile. All other
/// algorithms must pass.
#[test]
fn broken_code_is_found_and_fails_nothing_else() {
    let Some(tree) = given_tree() else { return };
    let overlay = Edited::new(&tree);
    overlay.replace(
        "arch/x86/crypto/sm3-avx-asm_64.S",
        "#define K0   2043430169",
        "#define K0   2043430168",
    );
    overlay.replace(
        "crypto/md4.c",
        "mctx->hash[0] = 0x67452301;",
        "*(volatile int *)8 = 1;",
    );
    overlay.replace("crypto/wp512.c", "static int ", "static imt ");

    let (run, rows) = tree_json(overlay.dir());
    assert_eq!(run.status, 1, "{}", run.stderr);
    let failed: Vec<(&str, &str)> = rows
        .iter()
        .filter(|r| r["status"] == "failed")
        .map(|r| (r["name"].as_str().unwrap(), r["reason"].as_str().unwrap()))
        .collect();
    let reason = |name: &str| {
        let found = failed.iter().find(|(n, _)| *n == name);
        found
            .unwrap_or_else(|| panic!("{name} not in {failed:?}"))
            .1
    };
    assert!(reason("crypto/wp512.o").contains("imt"), "{failed:?}");
    assert!(reason("md4-generic").contains("in md4_init"), "{failed:?}");
    assert!(reason("sm3-avx").contains("wrong result"), "{failed:?}");
    assert_eq!(failed.len(), 3, "{failed:?}");

    // The KTAP output must contain the same results.
    let run = kiln_keeping(&["test", "--tree", overlay.path(), "sm3"]);
    assert_eq!(run.status, 1, "{}", run.stderr);
    let text = run.stdout();
    let wrong = text
        .lines()
        .find(|l| l.starts_with("not ok") && l.ends_with(" sm3-avx sm3"));
    assert!(wrong.is_some(), "{text}");
    assert!(text.contains("\n# sm3-avx: alg: "), "{text}");
    assert!(
        text.lines()
            .any(|l| l.starts_with("ok ") && l.contains("sm3-generic")),
        "{text}"
    );
    assert!(count(&rows, "algorithm", "tested") >= 80);
}

#[test]
fn glue_that_does_not_compile_ends_the_run() {
    let Some(tree) = given_tree() else { return };
    let overlay = Edited::new(&tree);
    let args = ["test", "--tree", overlay.path(), "md4"];
    // This run builds the objects of the glue code. The next run must not use them, because the
    // edit below makes their sources fail to compile.
    let run = kiln_keeping(&args);
    assert_eq!(run.status, 0, "{}", run.stderr);
    let header = "include/crypto/authenc.h";
    overlay.replace(header, "CRYPTO_AUTHENC_KEYA_PARAM", "KEYA_PARAM");
    let run = kiln_keeping(&args);
    let wanted = ["does not build", "lib/kiln_oracle_examine.o", "KEYA_PARAM"];
    assert!(
        wanted.iter().all(|text| run.stderr.contains(text)),
        "{}",
        run.stderr
    );
    assert_eq!((run.status, run.stdout().as_str()), (2, ""));
    overlay.restore(header);
    assert_eq!(kiln_keeping(&args).status, 0);
}

/// Returns the directory in which this run built the tree.
fn build_directory(run: &Run) -> PathBuf {
    let doc = run.json();
    let mut notes = doc["notes"].as_array().unwrap().iter();
    let built = notes.find_map(|n| n.as_str()?.strip_prefix("built in "));
    PathBuf::from(built.unwrap())
}

/// Returns what make printed while this run built the tree.
fn build_log(run: &Run) -> String {
    let built = build_directory(run);
    let log = fs::read_to_string(built.join("log")).unwrap();
    assert!(log.contains("Leaving directory"), "{log}");
    log
}

/// The kernel's build enters arch/x86/lib twice. If both passes compiled objects, each build of an
/// unchanged tree would recompile the objects that the other pass had built, and two jobs could
/// corrupt each other's files.
#[test]
fn what_is_built_is_not_compiled_again() {
    let trees = [
        given_tree(),
        tree_of("KILN_TEST_TREE_NEXT", "tree of a current kernel"),
    ];
    for tree in trees.into_iter().flatten() {
        // Use a copy, because other tests use the build of the tree itself at the same time.
        let copy = Edited::new(&tree);
        let tree = copy.dir();
        let run = tree_json(tree).0;
        let built = build_directory(&run);
        // Delete the state of the last build, so that Kbuild runs even if no file was edited.
        let build_by_kbuild = || {
            let _ = fs::remove_file(built.join("made"));
            tree_json(tree).0
        };
        let log = build_log(&build_by_kbuild());
        let compiled = |log: &str| -> Vec<String> {
            let lines = log.lines();
            let steps = lines.filter(|l| l.starts_with("  CC ") || l.starts_with("  AS "));
            steps.map(String::from).collect()
        };
        assert_eq!(compiled(&log), Vec::<String>::new());

        // Damage the dependency file of one object, as an interrupted build might. Only this object
        // must then be compiled.
        let command = built.join("build/arch/x86/lib/.memset_64.o.cmd");
        let text = fs::read_to_string(&command).unwrap();
        fs::write(&command, format!("{text}\ntorn")).unwrap();
        let run = build_by_kbuild();
        assert_eq!(run.status, 0, "{}", run.stderr);
        let log = build_log(&run);
        assert!(log.contains("missing separator"), "{log}");
        assert_eq!(compiled(&log), ["  AS      arch/x86/lib/memset_64.o"]);
        let log = build_log(&build_by_kbuild());
        assert!(!log.contains("missing separator"), "{log}");
    }
}

/// A file in the user's cache may be truncated or damaged. A damaged image must cause a one-line
/// error.
#[test]
fn a_damaged_image_is_told_in_one_line() {
    let Some(tree) = given_tree() else { return };
    // Get the directory from the record, because the cache may also contain builds with other
    // configurations.
    let (run, _) = tree_json(&tree);
    let doc = run.json();
    let notes = doc["notes"].as_array().unwrap();
    let built = notes
        .iter()
        .find_map(|n| n.as_str()?.strip_prefix("built in "))
        .unwrap();
    let built = Path::new(built).join("host/image");
    // Damage a copy, because other tests use the original.
    let whole = fs::read(built).unwrap();
    let image = place("damaged").join("image");
    fs::write(&image, &whole).unwrap();
    let order = format!(
        r#"{{"image":{:?},"seed":1,"tests":false,"lonely":true,"skipped":[],"events":9}}"#,
        image.to_str().unwrap()
    );
    let child = || {
        let command = format!(
            "exec 9>/dev/null; exec {} tree x",
            env!("CARGO_BIN_EXE_kiln")
        );
        let output = Command::new("sh")
            .args(["-c", &command])
            .env("KILN_TREE_CHILD", &order)
            .output()
            .unwrap();
        (
            output.status.code(),
            String::from_utf8(output.stderr).unwrap(),
        )
    };
    assert_eq!(child(), (Some(0), String::new()));
    fs::write(&image, &whole[..whole.len() / 2]).unwrap();
    let (status, said) = child();
    assert_eq!(status, Some(3), "{said}");
    assert!(
        said.contains("is damaged") && said.lines().count() == 1,
        "{said}"
    );
}

#[test]
fn the_childs_variable_is_refused_from_a_user() {
    let run = kiln_with(&["list"], &[("KILN_TREE_CHILD", "yes")]);
    fault(&run, 2, "KILN_TREE_CHILD");
}
