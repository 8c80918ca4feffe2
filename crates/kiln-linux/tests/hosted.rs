//! Tests the module in hosted trees. The environment variable KILN_TEST_TREE names the source tree
//! of an LTS kernel, and KILN_TEST_TREE_NEXT names the source tree of a current kernel. Without
//! these variables, the tests are skipped with a message.

use std::env;
use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use kiln_kbuild::Compiler;
use kiln_linux::selftest::Outcome;
use kiln_linux::{hosted, module, source, Error};
use kiln_tree::child::Order;

static NEVER: AtomicBool = AtomicBool::new(false);

const TEST: &str = "a_hosted_testmgr_passes_every_driver_and_fails_those_that_are_wrong";

/// Returns the tree that an environment variable names. Also sets the cache directory, which this
/// test shares with others.
fn tree_of(variable: &str) -> Option<PathBuf> {
    let tree = env::var_os(variable).filter(|v| !v.is_empty());
    if tree.is_none() {
        let line = format!("\nSKIPPED: no kernel tree: set {variable} to an unpacked one\n");
        let _ = std::io::stderr().write_all(line.as_bytes());
    }
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("tree-cache");
    env::set_var("XDG_CACHE_HOME", cache);
    tree.map(PathBuf::from)
}

fn judged(
    tree: &Path,
    only: Option<&str>,
    edit: &dyn Fn(&str, &'static str) -> String,
) -> Result<Outcome, Error> {
    // The child reads the name of the driver to test from this variable.
    env::set_var("KILN_TEST_ONLY", only.unwrap_or(""));
    hosted::run(&hosted::Plan {
        source: source::find(Some(tree), &|_, _| ()).unwrap(),
        compiler: Compiler::from_env().unwrap(),
        edit,
        only,
        fuzz: None,
        seed: 1,
        arguments: &[TEST, "--exact", "--nocapture", "--test-threads=1"].map(OsString::from),
        stop: &NEVER,
        progress: &|_, _| (),
    })
}

fn replaced(text: &str, from: &str, to: &str) -> String {
    assert_eq!(text.matches(from).count(), 1, "{from} is where it was");
    text.replace(from, to)
}

/// Plants three faults. One tier shifts XTS tweaks by the wrong number of bytes. Another driver
/// stores to an invalid address when a key is set. Nested sections do not save registers, so all
/// remaining drivers that use vector registers give wrong results in softirqs.
fn wrong(name: &str, text: &'static str) -> String {
    match name {
        "kernel/ciphers/xts/aesni.c" => {
            let template = "#include \"xts_simd.h\"";
            let wrong = "#undef v_bsll\n#define v_bsll(v, n) _mm_bslli_si128(v, (n) ^ 1)\n";
            replaced(text, template, &format!("{wrong}{template}"))
        }
        "skcipher.c" => replaced(
            text,
            "	return alg_of(tfm)->impl->setkey(",
            "	if (!strcmp(alg_of(tfm)->impl->driver, \"xts-aes-fixed-time\"))\n\
             \t\t*(volatile int *)8 = 0;\n\
             \treturn alg_of(tfm)->impl->setkey(",
        ),
        "section.c" => {
            let unsaved = "static bool nested_unsaved = true;";
            replaced(text, "static bool nested_unsaved;", unsaved)
        }
        _ => text.to_owned(),
    }
}

/// Plants a call to a function that is defined neither in the tree nor in the services.
fn wanting(name: &str, text: &'static str) -> String {
    match name {
        "crc32c.c" => replaced(
            text,
            "void kiln_crc32c_setup(",
            "void wanted(void);\n\
             void wants(void);\n\
             void wants(void) { wanted(); }\n\
             void kiln_crc32c_setup(",
        ),
        _ => text.to_owned(),
    }
}

/// Panics unless every driver that is not absent passed. If a driver's algorithm starts with one of
/// the names in `untested`, the driver must be untested instead.
fn assert_passed(outcome: &Outcome, untested: &[&str]) {
    for row in &outcome.rows {
        let known = untested.iter().any(|alg| row.alg.starts_with(alg));
        let wanted = if known { "untested" } else { "passed" };
        assert!([wanted, "absent"].contains(&row.selftest), "{row:?}");
    }
}

/// All checks are in one test, so that each tree is built only once. The controls recompile only
/// the files that they change.
#[test]
fn a_hosted_testmgr_passes_every_driver_and_fails_those_that_are_wrong() {
    if let Some(order) = Order::from_env().unwrap() {
        let only = env::var("KILN_TEST_ONLY").ok().filter(|v| !v.is_empty());
        return hosted::judge(&order, only.as_deref(), None).unwrap();
    }
    let Some(tree) = tree_of("KILN_TEST_TREE") else {
        return;
    };

    let outcome = judged(&tree, Some("xts(aes)"), &wrong).unwrap();
    assert!(outcome.failed());
    for row in &outcome.rows {
        let (status, reason) = match row.driver.as_str() {
            "kiln-xts-aes-aesni" => ("failed", "wrong result"),
            "kiln-xts-aes-fixed-time" => ("failed", "Segmentation fault at 0x8, in setkey"),
            name if name.contains("-vaes-") => ("failed", "answers that differ"),
            _ => ("passed", ""),
        };
        let absent = row.selftest == "absent";
        assert!(absent || row.selftest == status, "{row:?}");
        assert!(absent || row.reason.contains(reason), "{row:?}");
    }

    let unlinked = judged(&tree, None, &wanting).unwrap_err();
    assert!(matches!(
        unlinked,
        Error::Tree(kiln_tree::Error::GuestUnlinked { .. })
    ));
    let line = unlinked.to_string();
    assert!(
        line.contains("ciphers.o") && line.ends_with(": wanted"),
        "{line}"
    );

    let outcome = judged(&tree, None, &module::unchanged).unwrap();
    assert!(outcome.rows.len() > 90, "{}", outcome.rows.len());
    assert_passed(&outcome, &["blake2s"]);
    // Only NHPoly1305 may be left out in softirqs, because its key is longer than any key size
    // tried there.
    let untried = outcome
        .notes
        .iter()
        .find_map(|n| n.split_once("not tried there")?.1.split_once(": "));
    let names = untried.map_or("", |(_, names)| names);
    let known = |name: &str| name.starts_with("kiln-nhpoly1305");
    assert!(names.is_empty() || names.split(", ").all(known), "{names}");
    let warned = outcome.notes.iter().find(|note| note.contains("warned"));
    assert_eq!(warned, None);
    let Some(tree) = tree_of("KILN_TEST_TREE_NEXT") else {
        return;
    };
    let outcome = judged(&tree, None, &module::unchanged).unwrap();
    assert!(outcome.rows.len() > 90, "{}", outcome.rows.len());
    // In 7.3, these algorithms exist only as library functions, which are tested by KUnit and not
    // by testmgr.
    let libraries = [
        "blake2s",
        "crct10dif",
        "ghash",
        "nhpoly1305",
        "poly1305",
        "polyval",
    ];
    assert_passed(&outcome, &libraries);
}
