//! Tests that a tree with an edited FPU policy behaves like Kiln's policy of the same name, and
//! that a tree that does not save registers is detected. The tests are skipped with a message
//! unless KILN_TEST_TREE is a Linux 6.12 tree.

use std::path::Path;

use crate::common::tree::{given_tree, kiln_keeping};
use crate::common::Run;
use crate::edited::Edited;
use crate::policies;
use serde_json::Value;

#[test]
fn edits_are_found_and_nothing_else_is_changed() {
    let Some(tree) = given_tree() else { return };
    let before = std::fs::read_to_string(tree.join("arch/x86/kernel/fpu/core.c")).unwrap();
    for (edits, sign) in [
        (policies::BH_OFF, "fpregs_unlock();"),
        (policies::NESTED, "nested_save();"),
        (policies::BROKEN, "if (false)"),
    ] {
        let overlay = Edited::new(&tree);
        let core = overlay.dir().join("arch/x86/kernel/fpu/core.c");
        policies::apply_to(&overlay, edits);
        let after = std::fs::read_to_string(&core).unwrap();
        assert!(after.contains(sign) && after != before);
        assert!(!core.is_symlink() && overlay.dir().join("Makefile").is_symlink());
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
    let overlay = Edited::at(&tree, &dir.path().join("overlay"));
    policies::apply_to(&overlay, policies::BH_OFF);
}

/// Creates a copy of the tree and applies these edits. Returns the copy and the name of its policy.
fn edited(tree: &Path, edits: &[policies::Edit]) -> (Edited, String) {
    let overlay = Edited::new(tree);
    policies::apply_to(&overlay, edits);
    let name = format!("tree:{}", overlay.path());
    (overlay, name)
}

fn fpu(arguments: &[&str]) -> (Run, Vec<Value>) {
    let run = kiln_keeping(&[&["fpu", "--quick", "--seed", "1", "--json"], arguments].concat());
    assert!(run.status <= 1, "{}", run.stderr);
    let rows = run.json()["rows"].as_array().unwrap().clone();
    (run, rows)
}

/// Applies `edits` to the tree. Checks that `kiln fpu usable` reports the same rows for the tree as
/// for Kiln's policy `own`, but different rows for the other policies. Then steps through a task
/// and a softirq, with one interrupt per instruction.
fn is_as(tree: &Path, own: &str, edits: &[policies::Edit]) {
    let (_overlay, name) = edited(tree, edits);
    let policies = ["legacy", "bh-off", "nested", &name].join(",");
    let (run, rows) = fpu(&["usable", "--policy", &policies]);
    // Expect a finding, because an unmodified 6.12 tree has the policy `legacy`, and the edits
    // changed it.
    assert_eq!(run.status, 1, "{}", run.stderr);
    let notes = run.json()["notes"].to_string();
    let finding = format!("{name} answers otherwise than the rule of Linux 6.");
    assert!(notes.contains(&finding), "{notes}");
    let of = |policy: &str| -> Vec<Value> {
        let mut found: Vec<Value> = rows
            .iter()
            .filter(|r| r["policy"] == policy)
            .cloned()
            .collect();
        assert!(found.len() >= 14, "{policy}: {found:?}");
        for row in &mut found {
            row["policy"] = Value::Null;
            row["version"] = Value::Null;
            // Compare only whether there are warnings, because a section may cause one or two.
            row["warnings"] = (row["warnings"].as_u64().unwrap() > 0).into();
        }
        found
    };
    for policy in ["legacy", "bh-off", "nested"] {
        assert_eq!(of(&name) == of(policy), policy == own, "{own} and {policy}");
    }

    let (run, rows) = fpu(&["prove", "--len", "16,31", "--policy", &name]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    let (status, lines) = in_contexts(&name);
    assert_eq!(status, 0, "{lines:?}");
    let good = lines.iter().filter(|l| l.starts_with("ok ")).count();
    assert!(good >= 9 && good == lines.len(), "{lines:?}");
    // Ignore the rows of the control, which saves nothing and therefore loses state.
    let judged: Vec<&Value> = rows.iter().filter(|r| r["policy"] != "none").collect();
    let points: u64 = judged.iter().map(|r| r["points"].as_u64().unwrap()).sum();
    assert!(points > 500, "{points}");
    for row in &judged {
        assert_eq!(
            (&row["corrupted"], &row["user_corrupted"]),
            (&0.into(), &0.into()),
            "{row}"
        );
    }
}

/// Tests XTS drivers with `kiln test --tree` in the contexts that Kiln emulates. Returns the exit
/// status and the output lines about tasks and softirqs.
fn in_contexts(name: &str) -> (i32, Vec<String>) {
    let dir = name.trim_start_matches("tree:");
    let run = kiln_keeping(&[
        "test", "--tree", dir, "xts(aes)", "--seed", "1", "--oracle", "none",
    ]);
    let text = run.stdout();
    let lines = text
        .lines()
        .filter(|l| l.contains(" in task") || l.contains(" in softirq"));
    (run.status, lines.map(String::from).collect())
}

#[test]
fn a_tree_that_disables_softirqs_is_bh_off() {
    if let Some(tree) = given_tree() {
        is_as(&tree, "bh-off", policies::BH_OFF);
    }
}

#[test]
fn a_tree_that_saves_what_it_finds_is_nested() {
    if let Some(tree) = given_tree() {
        is_as(&tree, "nested", policies::NESTED);
    }
}

/// Control for the other tests: a tree that does not save registers must be detected.
#[test]
fn a_tree_that_saves_nothing_is_caught() {
    let Some(tree) = given_tree() else { return };
    let (_overlay, name) = edited(&tree, policies::BROKEN);
    let (run, rows) = fpu(&["prove", "--len", "16,31", "--policy", &name]);
    assert_eq!(run.status, 1, "{}", run.stderr);
    let wrong: u64 = rows.iter().map(|r| r["corrupted"].as_u64().unwrap()).sum();
    assert!(wrong > 0, "{rows:?}");
    let (status, lines) = in_contexts(&name);
    assert_eq!(status, 1, "{lines:?}");
    let wrong = lines
        .iter()
        .filter(|l| l.starts_with("not ok ") && l.ends_with(" in task"));
    assert!(wrong.count() > 0, "{lines:?}");
    // With softirqs disabled, nothing interrupts a section, so no state can be lost.
    let kept_out = lines.iter().filter(|l| l.ends_with(", BH off"));
    assert!(
        kept_out.clone().count() > 0 && kept_out.clone().all(|l| l.starts_with("ok ")),
        "{lines:?}"
    );
}
