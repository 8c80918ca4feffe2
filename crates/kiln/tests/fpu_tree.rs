//! Tests `kiln fpu --policy tree:DIR`, which interrupts a kernel tree's own FPU sections. The tests
//! are skipped with a message unless KILN_TEST_TREE is set to a tree. The tree's objects are built
//! once and kept.

use std::path::Path;

use crate::common::tree::{given_tree, kiln_keeping, tree_of};
use crate::common::{fault, Run};
use crate::edited::Edited;
use serde_json::Value;

fn fpu(arguments: &[&str]) -> Run {
    kiln_keeping(&[&["fpu", "--json", "--quick", "--seed", "1"], arguments].concat())
}

fn rows(run: &Run) -> Vec<Value> {
    run.json()["rows"].as_array().unwrap().clone()
}

fn sum(rows: &[Value], policy: &str, field: &str) -> u64 {
    let of = rows.iter().filter(|r| r["policy"] == policy);
    of.map(|r| r[field].as_u64().unwrap()).sum()
}

/// Creates the control: a tree whose softirqs use the FPU inside a section without saving the
/// section's registers.
fn broken(tree: &Path) -> Edited {
    let overlay = Edited::new(tree);
    overlay.edit("arch/x86/kernel/fpu/core.c", |text| {
        let busy = [
            "this_cpu_read(in_kernel_fpu)",
            "!this_cpu_read(kernel_fpu_allowed)",
        ];
        let edited = busy.iter().fold(text.clone(), |text, busy| {
            text.replacen(
                &format!("if ({busy})"),
                &format!("if (in_hardirq() && {busy})"),
                1,
            )
        });
        assert_ne!(text, edited, "the FPU core differs from the expected one");
        edited
    });
    overlay
}

/// The tree's own sections must survive the interrupts. In a broken tree, lost state must be
/// detected, and the printed command must reproduce one of the losses.
#[test]
fn the_tree_s_own_sections_lose_nothing_and_a_broken_tree_s_do() {
    let Some(tree) = given_tree() else { return };
    let good = format!("tree:{}", tree.display());
    let broken = broken(&tree);
    let bad = format!("tree:{}", broken.path());

    let policies = format!("{good},{bad}");
    let run = fpu(&[
        "prove",
        "breakpoint",
        "--load",
        "xts-4096",
        "--policy",
        &policies,
    ]);
    assert_eq!(run.status, 1, "{}", run.stderr);
    let found = rows(&run);
    for policy in [&good, &bad] {
        assert!(sum(&found, policy, "irqs_in_section") > 1_000, "{found:?}");
    }
    let wrong = |policy| sum(&found, policy, "corrupted") + sum(&found, policy, "user_corrupted");
    assert_eq!(wrong(&good), 0);
    assert!(wrong(&bad) > 0);

    let run = fpu(&["prove", "--len", "16", "--policy", &good]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    assert!(sum(&rows(&run), &good, "points") > 500);

    let run = fpu(&["prove", "--len", "16", "--policy", &bad]);
    assert_eq!(run.status, 1, "{}", run.stderr);
    let found = rows(&run);
    let line = found.iter().find_map(|r| r["replay"].as_str()).unwrap();
    let words: Vec<&str> = line.split(' ').skip(1).collect();
    let again = kiln_keeping(&words);
    assert_eq!(again.status, 1, "{line}: {}", again.stderr);
}

/// A tree must behave like the policy that corresponds to its version: `legacy`, or `bh-off` since
/// Linux 6.15. A current kernel is tested as well, because Linux 7.2 and later count contexts in a
/// separate word.
#[test]
fn the_trees_answer_as_kiln_s_own_policies() {
    let next = tree_of("KILN_TEST_TREE_NEXT", "tree of a current kernel");
    for tree in given_tree().into_iter().chain(next) {
        answers_as_its_policy(&tree);
    }
}

fn answers_as_its_policy(tree: &Path) {
    let name = format!("tree:{}", tree.display());
    let run = fpu(&["usable", "--policy", &format!("legacy,bh-off,{name}")]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    let rows = rows(&run);
    let of = |policy: &str| -> Vec<Value> {
        let of = rows.iter().filter(|r| r["policy"] == policy).cloned();
        of.map(|mut r| {
            r["policy"] = Value::Null;
            r["version"] = Value::Null;
            // Compare only whether there are warnings, because a section may cause one or two.
            r["warnings"] = (r["warnings"].as_u64().unwrap() > 0).into();
            r
        })
        .collect()
    };
    let row = rows.iter().find(|r| r["policy"] == *name).unwrap();
    let version: Vec<u32> = row["version"]
        .as_str()
        .unwrap()
        .split('.')
        .map(|n| n.parse().unwrap_or(0))
        .collect();
    let own = if version[..2] >= [6, 15][..] {
        "bh-off"
    } else {
        "legacy"
    };
    assert_eq!(of(&name), of(own), "{own}");
    assert_ne!(
        of(&name),
        of(if own == "legacy" { "bh-off" } else { "legacy" })
    );
}

/// Tests every load and interrupt source in the table, and compares the tree with Kiln's own
/// policy.
#[test]
fn the_tree_is_a_row_beside_kiln_s_own() {
    let Some(tree) = given_tree() else { return };
    let name = format!("tree:{}", tree.display());
    let policies = format!("legacy,{name}");
    for inject in ["timer", "poisson"] {
        let run = fpu(&[
            "--load", "xts-4096", "--inject", inject, "--policy", &policies,
        ]);
        assert_eq!(run.status, 0, "{}", run.stderr);
        let rows = rows(&run);
        assert_eq!(rows.len(), 4, "two policies with a control each");
        let row = rows
            .iter()
            .find(|r| r["policy"] == *name && r["control"] == false);
        let row = row.unwrap();
        assert!(row["version"].is_string());
        assert!(row["irqs_in_section"].as_u64().unwrap() > 0);
        assert!(row["async_punts"].as_u64().unwrap() > 0, "{row}");
        assert_eq!(row["reordered"], 0);
        assert!(row["impl"].as_str().unwrap().starts_with("xts-aes-"));
        assert!(row["ratio"].is_number() && row["task_mb_per_s"].is_number());
    }
}

#[test]
fn what_a_tree_does_not_have_is_refused_in_one_line() {
    let Some(tree) = given_tree() else { return };
    let name = format!("tree:{}", tree.display());
    let run = fpu(&["--policy", &name, "--impl", "xts-aes-imagined"]);
    fault(&run, 2, "xts-aes-imagined");
}
