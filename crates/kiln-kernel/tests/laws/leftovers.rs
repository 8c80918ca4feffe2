//! Uses the program `leftovers.c` to check that calls leave no secrets on the stack or in
//! registers.

use std::path::{Path, PathBuf};
use std::process::Command;

use kiln_kbuild::Built;

use crate::subjects::link_with;

/// Links `leftovers.c` with a build of `kernel/`.
pub(crate) fn link(built: &Built) -> PathBuf {
    link_with(built, "laws/leftovers.c")
}

/// Runs the program and returns the violations that it prints.
///
/// # Panics
/// If the program could not search for secrets.
pub(crate) fn violations(program: &Path, arguments: &[&str]) -> Vec<String> {
    let output = Command::new(program)
        .args(arguments)
        .output()
        .unwrap_or_else(|e| panic!("{}: {e}", program.display()));
    let text = String::from_utf8_lossy(&output.stdout);
    let lines: Vec<String> = text.lines().map(str::to_owned).collect();
    match output.status.code() {
        Some(0) => Vec::new(),
        Some(1) => lines,
        _ => panic!(
            "{program:?} {arguments:?}: {}: {}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        ),
    }
}
