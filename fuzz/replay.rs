//! Replays the corpus of a fuzz target in an ordinary test.
//!
//! `fuzz/corpora/TARGET` holds one input per line, in base64. `fuzz/corpora.sh` writes this file.

use std::fs;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::path::Path;

use base64::prelude::{Engine, BASE64_STANDARD};

/// Reads the corpus of a target.
///
/// # Errors
/// Returns a message that names the file and, if a line is not valid base64, the line.
fn read(target: &str) -> Result<Vec<Vec<u8>>, String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fuzz/corpora")
        .join(target);
    let text = fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    let decode = |(n, line): (usize, &str)| {
        BASE64_STANDARD
            .decode(line)
            .map_err(|e| format!("{}:{}: {e}", path.display(), n + 1))
    };
    text.lines().enumerate().map(decode).collect()
}

/// Runs all inputs. Returns the number of inputs for which `run` returns true.
///
/// # Errors
/// If `run` panics, returns the line number, in the target's file, of the first input that causes a
/// panic.
fn count(inputs: &[Vec<u8>], run: impl Fn(&[u8]) -> bool) -> Result<usize, usize> {
    let mut reached = 0;
    for (n, input) in inputs.iter().enumerate() {
        match catch_unwind(AssertUnwindSafe(|| run(input))) {
            Ok(deep) => reached += usize::from(deep),
            Err(_) => return Err(n + 1),
        }
    }
    Ok(reached)
}

/// Checks that `run` does not panic on any of the target's inputs, and that it returns true for at
/// least `least` of them.
pub(crate) fn check(target: &str, least: usize, run: fn(&[u8]) -> bool) {
    let inputs = read(target).unwrap_or_else(|why| panic!("{why}"));
    let reached = count(&inputs, run)
        .unwrap_or_else(|line| panic!("fuzz/corpora/{target}:{line}: this input is a finding"));
    eprintln!("{target}: {} inputs, {reached} get far", inputs.len());
    assert!(reached >= least, "{reached} of {}", inputs.len());

    // Controls: a panic is attributed to the input that causes it, a missing corpus is an error,
    // and `run` does not return true for inputs that are truncated to two bytes.
    let last = inputs.last().expect("there are inputs");
    let rejects = |input: &[u8]| {
        assert_ne!(input, last.as_slice(), "planted");
        true
    };
    assert_eq!(count(&inputs, rejects), Err(inputs.len()));
    assert!(read("no-such-target").is_err());
    let cut: Vec<Vec<u8>> = inputs
        .iter()
        .map(|i| i[..i.len().min(2)].to_vec())
        .collect();
    assert_eq!(count(&cut, run), Ok(0));
}
