//! Tests with real user mode Linux. The environment variable KILN_TEST_TREE or KILN_TEST_TREE_NEXT
//! names the kernel tree. Without them, the tests are skipped with a message.

use std::env;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use kiln_kbuild::Compiler;
use kiln_linux::selftest::{self, Outcome};
use kiln_linux::{module, source, uml};

static NEVER: AtomicBool = AtomicBool::new(false);

/// Builds the kernel in the cache directory, which this test shares with others. Returns `None` if
/// the test must be skipped.
fn built() -> Option<(PathBuf, uml::Built)> {
    let trees = ["KILN_TEST_TREE", "KILN_TEST_TREE_NEXT"].map(env::var_os);
    let trees = trees.into_iter().flatten().filter(|v| !v.is_empty());
    // Skip trees that cannot run here: before 6.13, user mode Linux's register buffer is too small
    // for a CPU with AMX.
    let tree = trees
        .map(PathBuf::from)
        .find(|tree| uml::check_register_room(tree).is_ok());
    let Some(tree) = tree else {
        let line = "\nSKIPPED: no kernel tree whose user mode Linux runs on this CPU: set KILN_TEST_TREE to an unpacked one, \
                    of 6.13 or newer if the CPU has AMX\n";
        let _ = std::io::stderr().write_all(line.as_bytes());
        return None;
    };
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("tree-cache");
    env::set_var("XDG_CACHE_HOME", cache);
    let plan = uml::Plan {
        source: source::find(Some(&tree), &|_, _| ()).unwrap(),
        compiler: Compiler::from_env().unwrap(),
        stop: &NEVER,
        progress: &|_, _| (),
    };
    let built = uml::build(&plan).unwrap();
    Some((tree, built))
}

fn module(
    built: &uml::Built,
    dir: &str,
    edit: &dyn Fn(&str, &'static str) -> String,
) -> module::Module {
    module::build(&module::Plan {
        kernel: module::Kernel::User(built),
        compiler: &built.compiler,
        dir: built.cache.dir.join(dir),
        edit,
        stop: &NEVER,
        progress: &|_| (),
    })
    .unwrap()
}

fn judged(built: &uml::Built, module: &module::Module, only: Option<&str>) -> Outcome {
    selftest::run(&selftest::Plan {
        built,
        module,
        only,
        fuzz: None,
        limit: Duration::from_secs(170),
        stop: &NEVER,
        progress: &|_, _| (),
    })
    .unwrap()
}

/// Plants a fault: one tier shifts XTS tweaks by the wrong number of bytes.
fn flipped(name: &str, text: &'static str) -> String {
    if name != "kernel/ciphers/xts/aesni.c" {
        return text.to_owned();
    }
    let wrong = text.replace(
        "#include \"xts_simd.h\"",
        "#undef v_bsll\n#define v_bsll(v, n) _mm_bslli_si128(v, (n) ^ 1)\n#include \"xts_simd.h\"",
    );
    assert_ne!(wrong, text, "the template is where it was");
    wrong
}

/// All checks are in one test, so that the kernel is built only once. The module that the control
/// uses differs from the shipped module in a single object file.
#[test]
fn linuxs_own_testmgr_passes_every_driver_and_fails_the_one_with_a_flipped_bit() {
    let Some((tree, built)) = built() else {
        return;
    };

    let control = module(&built, "module", &flipped);
    let outcome = judged(&built, &control, Some("xts(aes)"));
    for row in &outcome.rows {
        let wanted = match row.driver.as_str() {
            "kiln-xts-aes-aesni" => ["failed", "absent"],
            _ => ["passed", "absent"],
        };
        assert!(wanted.contains(&row.selftest), "{row:?}");
    }

    let shipped = module(&built, "module", &module::unchanged);
    assert!(shipped.warnings.is_empty(), "{:#?}", shipped.warnings);
    let outcome = judged(&built, &shipped, None);
    assert!(!outcome.failed(), "{:#?}", outcome.rows);
    // Every algorithm that this version of Linux has a test for must have been tested.
    let testmgr = fs::read_to_string(tree.join("crypto/testmgr.c")).unwrap();
    for row in &outcome.rows {
        let tested = testmgr.contains(&format!(".alg = \"{}\"", row.alg));
        let wanted = if tested { "passed" } else { "untested" };
        assert!([wanted, "absent"].contains(&row.selftest), "{row:?}");
    }
}
