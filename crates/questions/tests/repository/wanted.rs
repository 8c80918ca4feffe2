//! Decides whether to run the tests that build a changed copy of the repository.

use std::env;
use std::io::{stderr, Write};

/// Returns whether `KILN_TEST_COPIES` is set and not empty. Tests that build a copy take minutes,
/// and check the layout of the sources, not whether Kiln works on this machine.
pub(crate) fn are_copies_wanted() -> bool {
    let wanted = env::var_os("KILN_TEST_COPIES").is_some_and(|value| !value.is_empty());
    if !wanted {
        // Write to standard error directly, because the test harness hides the output of tests that
        // pass.
        let line = "\nSKIPPED: builds a changed copy of the repository: set KILN_TEST_COPIES=1\n";
        let _ = stderr().write_all(line.as_bytes());
    }
    wanted
}
