//! Kernel trees for tests, and their build directories.

use std::env;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use super::{kiln_with, Run};

/// Returns a directory for tree builds, which is kept between test runs.
pub fn place(name: &str) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::create_dir_all(&dir).unwrap();
    dir
}

pub fn given_tree() -> Option<PathBuf> {
    tree_of("KILN_TEST_TREE", "kernel tree")
}

/// Returns the tree that this environment variable names. If the variable is not set, prints a
/// message and returns `None`; the test must then be skipped.
pub fn tree_of(variable: &str, what: &str) -> Option<PathBuf> {
    let tree = env::var_os(variable).filter(|v| !v.is_empty());
    if tree.is_none() {
        // Write directly to stderr, because the harness hides what passing tests print.
        let line =
            format!("\nSKIPPED: no {what}: set {variable} to an unpacked, unconfigured one\n");
        let _ = std::io::stderr().write_all(line.as_bytes());
    }
    tree.map(|tree| fs::canonicalize(tree).unwrap())
}

/// Runs Kiln with a cache that is kept between test runs, so that later runs can reuse its builds.
pub fn kiln_keeping(args: &[&str]) -> Run {
    kiln_keeping_with(args, &[])
}

pub fn kiln_keeping_with(args: &[&str], env: &[(&str, &str)]) -> Run {
    let cache = place("tree-cache");
    let keeping = [("XDG_CACHE_HOME", cache.to_str().unwrap())];
    kiln_with(args, &[&keeping, env].concat())
}
