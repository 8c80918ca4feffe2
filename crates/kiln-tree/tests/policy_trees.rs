//! Trees with edited FPU policies build and pass their own tests: see `policies`.

mod policies;

use std::env;
use std::io::Write;
use std::path::{Path, PathBuf};

fn given_tree() -> Option<PathBuf> {
    let tree = env::var_os("KILN_TEST_TREE").filter(|v| !v.is_empty());
    if tree.is_none() {
        let line =
            "\nSKIPPED: no kernel tree: set KILN_TEST_TREE to an unpacked, unconfigured one\n";
        let _ = std::io::stderr().write_all(line.as_bytes());
    }
    tree.map(PathBuf::from)
}

#[test]
fn edits_are_found_and_nothing_else_is_changed() {
    let Some(tree) = given_tree() else { return };
    let before = std::fs::read_to_string(tree.join("arch/x86/kernel/fpu/core.c")).unwrap();
    for (name, edits, sign) in [
        ("policy-bh-off", policies::BH_OFF, "fpregs_unlock();"),
        ("policy-nested", policies::NESTED, "nested_save();"),
        ("policy-broken", policies::BROKEN, "if (false)"),
    ] {
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let core = dir.join("arch/x86/kernel/fpu/core.c");
        policies::overlay(&tree, &dir, edits);
        let after = std::fs::read_to_string(&core).unwrap();
        assert!(after.contains(sign) && after != before);
        assert!(!core.is_symlink() && dir.join("Makefile").is_symlink());
        let kept = before.lines().filter(|l| !after.contains(l)).count();
        assert!(kept <= 5, "{kept} lines of the original are gone");
    }
}

#[test]
#[should_panic(expected = "is there 0 times")]
fn a_tree_that_the_edits_were_not_made_for_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let tree = dir.path().join("tree");
    std::fs::create_dir_all(tree.join("arch/x86/kernel/fpu")).unwrap();
    std::fs::write(tree.join("Makefile"), "").unwrap();
    let text = "void kernel_fpu_begin_mask(unsigned int mask)\n{\n\tother();\n}\n";
    std::fs::write(tree.join("arch/x86/kernel/fpu/core.c"), text).unwrap();
    policies::overlay(&tree, &dir.path().join("overlay"), policies::BH_OFF);
}
