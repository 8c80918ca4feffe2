//! Tests that the oracles find planted faults (`planted/`) in Linux 6.1 (KILN_TEST_TREE_PREVIOUS),
//! Linux 6.12 (KILN_TEST_TREE) and Linux 7.x (KILN_TEST_TREE_NEXT).

use std::collections::BTreeSet;

use crate::planted::{all, faults_of, find, Tree};

#[test]
fn planted_faults_are_found_in_linux_6_1() {
    find(Tree::V6_1);
}

#[test]
fn planted_faults_are_found_in_linux_6_12() {
    find(Tree::V6_12);
}

#[test]
fn planted_faults_are_found_in_a_current_tree() {
    find(Tree::V7_3);
}

#[test]
fn each_oracle_has_three_faults_in_each_tree() {
    for tree in Tree::ALL {
        for oracle in kiln_tree::oracle::ALL {
            let count = faults_of(tree)
                .filter(|(fault, ..)| fault.oracle == oracle.name)
                .count();
            assert!(count >= 3, "{}: {count} faults in {tree:?}", oracle.name);
        }
    }
    for fault in all() {
        let known = kiln_tree::oracle::find(fault.oracle).is_some();
        assert!(known, "{}: no oracle {}", fault.what, fault.oracle);
    }
}

/// If two faults led to the same finding, that finding would satisfy the tests of both, even if
/// only one of the faults were found.
#[test]
fn each_fault_has_a_finding_of_its_own() {
    for tree in Tree::ALL {
        let mut findings = BTreeSet::new();
        for (fault, driver, place) in faults_of(tree) {
            let is_new = findings.insert((fault.oracle, driver, fault.rule, place));
            assert!(is_new, "{} in {tree:?}: same finding", fault.what);
        }
    }
}
