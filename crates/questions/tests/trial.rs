//! Adds a tier, and an implementation that uses it, to a copy of the repository, and checks that
//! the implementation is built, listed, tested and timed. Adding the tier itself requires no change
//! outside `kernel/tiers.def`.

mod repository;
#[path = "repository/wanted.rs"]
mod wanted;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use kiln_kbuild::recipe::{tier_of, HIDDEN_H};
use kiln_kbuild::{Compiler, Kbuild};
use kiln_kernel::cipher::Impl;
use kiln_kernel::Tier;
use kiln_questions::test::{masks, Plan, Suite};
use kiln_questions::{list, speed};
use repository::copy_repository;

/// The rows for a tier and for the CPU feature that only this tier uses. The tier is inserted
/// before other tiers, so the numbers of those tiers change.
const TIER: &str = r#"
FEATURE(MOVBE, LEAF_1, ECX, BIT(22), "MOVBE", "-mmovbe", MOVBE)
TIER(AVX2_MOVBE, 256, ALL_OF(AVX2) | HAS(MOVBE))
"#;
const NAME: &str = "avx2-movbe";
const DRIVER: &str = "xts-aes-avx2-movbe";

const IMPLEMENTATION: &str = r#"
#include "../simd/vec_xmm.h"
#define XTS(name) xts_##name##_avx2_movbe
#include "xts_simd.h"
"#;
const DECLARATIONS: &str = "
kiln_crypt_t xts_encrypt_avx2_movbe, xts_decrypt_avx2_movbe;
kiln_crypt_t xts_encrypt_piece_avx2_movbe, xts_decrypt_piece_avx2_movbe;
void xts_first_tweak_avx2_movbe(const void *ctx, u8 *iv);
";
/// The implementation's row. Its priority is so low that it is never chosen, so the expected
/// choices do not change.
const ROW: &str = "IMPL(\"avx2-movbe\", avx2_movbe, AVX2_MOVBE, 1, true),\n\t";

#[test]
fn a_tier_is_added_in_one_file() {
    if !wanted::are_copies_wanted() {
        return;
    }
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let here = fs::canonicalize(here).unwrap();
    let copy = Path::new(env!("CARGO_TARGET_TMPDIR")).join("trial");
    let xts = Path::new("kernel/ciphers/xts/xts.c");
    let edit = |name: &Path, text: &str| match name {
        name if name == Path::new("kernel/tiers.def") => {
            Some(insert(text, TIER, "TIER(VAES_AVX2,"))
        }
        name if name == xts => {
            let text = insert(text, DECLARATIONS, "static const struct kiln_impl impls[]");
            Some(insert(&text, ROW, "IMPL(\"aesni\""))
        }
        _ => None,
    };
    let implementation = PathBuf::from("kernel/ciphers/xts/avx2_movbe.c");
    copy_repository(&copy, edit, [(implementation, IMPLEMENTATION.into())]);

    // Control: without the new tier in the table, the same file must not compile.
    let xts = copy.join(xts);
    assert!(compiles(&copy.join("kernel"), &xts), "with the tier");
    assert!(!compiles(&here.join("kernel"), &xts), "without the tier");

    let mut cargo = Command::new(env!("CARGO"));
    cargo.current_dir(&copy).args(["test", "--offline"]);
    // Build the whole workspace, so that the other crates have the same features as in a run of all
    // tests.
    cargo.args(["--workspace", "--test", "trial"]);
    if !cfg!(debug_assertions) {
        cargo.arg("--release");
    }
    // Share the target directory of this test's own build, which already contains the dependencies.
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    cargo.env("CARGO_TARGET_DIR", target);
    // Turn off optimisation, because build time matters more here than the speed of the program.
    // The names of the built files depend on the profile, but not on the source directory. With the
    // usual profile, a later build of the repository could therefore reuse this build, which has
    // the additional tier. The unusual number of codegen units prevents that.
    for member in fs::read_dir(copy.join("crates")).unwrap() {
        let manifest = fs::read_to_string(member.unwrap().path().join("Cargo.toml")).unwrap();
        let name = manifest.split('"').nth(1).unwrap();
        for setting in ["opt-level=0", "codegen-units=17"] {
            let setting = format!("profile.release.package.{name}.{setting}");
            cargo.args(["--config", &setting]);
        }
    }
    cargo.args([
        "--",
        "--exact",
        "--ignored",
        "the_added_tier",
        "--nocapture",
    ]);
    let output = cargo.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("1 passed"), "{said}");
}

fn insert(text: &str, what: &str, before: &str) -> String {
    let (head, tail) = text.split_once(before).expect(before);
    format!("{head}{what}{before}{tail}")
}

/// Returns whether a source file compiles with the headers of the given `kernel/`.
fn compiles(kernel: &Path, source: &Path) -> bool {
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join("trial-object");
    fs::create_dir_all(&out).unwrap();
    fs::write(out.join("hidden.h"), HIDDEN_H).unwrap();
    let compiler = Compiler::from_env().unwrap();
    let kbuild = Kbuild::new(kernel, &out);
    let mut command = kbuild.compile_command(&compiler, source, &out.join("xts.o"));
    command.output().unwrap().status.success()
}

#[test]
#[ignore = "runs in the copy, started by a_tier_is_added_in_one_file"]
fn the_added_tier() {
    let tier: Tier = NAME.parse().unwrap();
    assert!(Tier::Avx2 < tier && tier < Tier::VaesAvx2);
    let listed = list::tiers().into_iter().find(|r| r.name == NAME).unwrap();
    let imp = list::impls()
        .into_iter()
        .find(|r| r.name == DRIVER)
        .unwrap();
    assert_eq!(imp.tier, Some(NAME));
    assert_eq!(imp.chosen, Some(false));
    let flags = &tier_of(Path::new("avx2_movbe.c")).unwrap().flags;
    assert!(flags.contains(&"-mmovbe") && flags.contains(&"-mavx2"));
    if !listed.available {
        println!("SKIPPED: {}", listed.reason);
        return;
    }

    let plan = Plan {
        impls: Impl::all()
            .into_iter()
            .filter(|i| i.driver() == DRIVER)
            .collect(),
        suites: Suite::OF_MASKS.to_vec(),
        seed: 1,
        cases: 20,
        requests: 5,
        many: 1,
        in_contexts: 0,
        interrupted: 0,
        forgeries: 1,
        longest: false,
        threads: 2,
    };
    let never = AtomicBool::new(false);
    let rows = masks::run(&plan, &never, &|_| (), &mut |_| ()).unwrap();
    let tested: u64 = rows.iter().map(|r| r.cases).sum();
    assert!(tested > 100, "{rows:#?}");
    assert!(rows.iter().all(|r| r.failed == 0), "{rows:#?}");

    let plan = speed::Plan {
        impls: vec![DRIVER.to_string()],
        lens: "4096".parse().unwrap(),
        quick: true,
        within: Some(Duration::from_secs(1)),
        ..speed::Plan::new(1)
    };
    let timed = speed::run(plan.checked().unwrap(), &never, &mut |_, _| ()).unwrap();
    let row = timed.rows.iter().find(|r| r.imp == DRIVER).unwrap();
    assert_eq!(row.tier.as_deref(), Some(NAME));
    assert!(row.cycles_per_op > 0.0 && row.limit_cycles.is_some());
}
