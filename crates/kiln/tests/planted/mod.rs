//! Faults planted in copies of kernel trees, which the oracles must find.

mod code;
mod requests;
mod surroundings;

use std::collections::BTreeSet;
use std::path::PathBuf;

use crate::common::oracle::rows;
use crate::common::tree::{given_tree, tree_of};
use crate::edited::Edited;

/// A kernel version in whose tree faults are planted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tree {
    V6_1,
    V6_12,
    V7_3,
}

/// A fault that is planted in copies of kernel trees, and the findings that must report it.
pub struct Fault {
    pub what: &'static str,
    pub oracle: &'static str,
    pub rule: &'static str,
    pub file: &'static str,
    /// Each edit replaces the first occurrence of a text in the file.
    pub edits: &'static [(&'static str, &'static str)],
    /// The trees in which the fault is planted. Each is listed with the driver in which the fault
    /// must be found and with a prefix of the name of the function in the finding. The prefix is
    /// empty if the function is unknown.
    pub expect: &'static [(Tree, &'static str, &'static str)],
}

impl Tree {
    pub const ALL: [Tree; 3] = [Tree::V6_1, Tree::V6_12, Tree::V7_3];

    /// Returns the tree's directory, or `None` if the test must be skipped.
    fn dir(self) -> Option<PathBuf> {
        match self {
            Tree::V6_1 => tree_of("KILN_TEST_TREE_PREVIOUS", "Linux 6.1 tree"),
            Tree::V6_12 => given_tree(),
            Tree::V7_3 => tree_of("KILN_TEST_TREE_NEXT", "tree of a current kernel"),
        }
    }

    /// Returns a driver in which no fault is planted.
    fn control(self) -> &'static str {
        match self {
            Tree::V6_1 | Tree::V6_12 => "chacha20-simd",
            Tree::V7_3 => "ecb-camellia-aesni",
        }
    }
}

/// Returns all planted faults.
pub fn all() -> impl Iterator<Item = &'static Fault> {
    [requests::FAULTS, surroundings::FAULTS, code::FAULTS]
        .into_iter()
        .flatten()
}

/// Returns the faults that are planted in a tree, each with the driver and the function that the
/// finding must name.
pub fn faults_of(tree: Tree) -> impl Iterator<Item = (&'static Fault, &'static str, &'static str)> {
    all().flat_map(move |fault| {
        let expect = fault.expect.iter().filter(move |(of, ..)| *of == tree);
        expect.map(move |(_, driver, place)| (fault, *driver, *place))
    })
}

/// Like [`faults_of`]. On a CPU without GFNI, leaves out the faults that make code use GFNI, because
/// that code would crash.
fn possible_faults_of(
    tree: Tree,
) -> impl Iterator<Item = (&'static Fault, &'static str, &'static str)> {
    let has_gfni = cpu_has("gfni");
    faults_of(tree).filter(move |(fault, ..)| has_gfni || !fault.what.contains("uses GFNI"))
}

/// Returns whether `/proc/cpuinfo` lists this feature.
fn cpu_has(feature: &str) -> bool {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap();
    let flags = text.lines().find(|l| l.starts_with("flags"));
    flags.is_some_and(|l| l.split_whitespace().any(|flag| flag == feature))
}

/// Plants all faults for a tree in one copy of it, and checks that each fault is found by its
/// oracle in the expected driver. Does nothing if the tree is missing.
pub fn find(tree: Tree) {
    let Some(dir) = tree.dir() else { return };
    let copy = Edited::new(&dir);
    let files: BTreeSet<&str> = possible_faults_of(tree)
        .map(|(fault, ..)| fault.file)
        .collect();
    for file in files {
        copy.edit(file, |mut text| {
            for (fault, ..) in possible_faults_of(tree).filter(|(fault, ..)| fault.file == file) {
                for (from, to) in fault.edits {
                    assert!(text.contains(from), "{file} has no {from:?}");
                    text = text.replacen(from, to, 1);
                }
            }
            text
        });
    }
    let oracles: BTreeSet<&str> = possible_faults_of(tree)
        .map(|(fault, ..)| fault.oracle)
        .collect();
    let oracles: Vec<&str> = oracles.into_iter().collect();
    let names: BTreeSet<&str> = possible_faults_of(tree)
        .map(|(_, driver, _)| driver)
        .collect();
    let mut names: Vec<&str> = names.into_iter().collect();
    names.push(tree.control());
    // Run all oracles in a single run. Every run tries all templates, and this takes longer than
    // most of the oracles.
    let rows = rows(copy.path(), &oracles.join(","), &names, 1);
    let row_of = |oracle: &str, driver: &str| {
        (rows.iter()).find(|r| r["impl"] == driver && r["context"] == oracle)
    };
    let mut missed = Vec::new();
    for (fault, driver, place) in possible_faults_of(tree) {
        let row = row_of(fault.oracle, driver);
        let finding = row.map_or("", |r| r["finding"].as_str().unwrap_or(""));
        let lines: Vec<&str> = finding.lines().collect();
        let named = lines.windows(2).any(|pair| {
            pair[0].starts_with(&format!("{}: ", fault.rule))
                && pair[1].starts_with(&format!("where: {place}"))
        });
        if !named {
            missed.push(format!("{} ({}): {row:?}", fault.what, fault.oracle));
        }
    }
    for oracle in oracles {
        let row = row_of(oracle, tree.control());
        assert_eq!(row.expect("the control")["failed"], 0, "{oracle}: {row:?}");
    }
    assert!(missed.is_empty(), "{missed:#?}");
}
