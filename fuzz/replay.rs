//! Replays the corpus of a fuzz target in an ordinary test.
//!
//! `fuzz/corpora/TARGET` has one input per line, in base64. `fuzz/corpora.sh` writes it.

use std::fs;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::path::Path;

use base64::prelude::{Engine, BASE64_STANDARD};

/// Reads a target's corpus.
///
/// # Errors
/// Returns a line that names the file, and the line in it that is not base64.
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

/// Runs all inputs. Returns for how many of them `run` returns true.
///
/// # Errors
/// Returns the number of the first input that makes `run` panic, as a line of the target's file.
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

/// Checks that none of the target's inputs makes `run` panic, and that at least `least` of them get
/// far, so that `run` returns true.
pub(crate) fn check(target: &str, least: usize, run: fn(&[u8]) -> bool) {
    let inputs = read(target).unwrap_or_else(|why| panic!("{why}"));
    let reached = count(&inputs, run)
        .unwrap_or_else(|line| panic!("fuzz/corpora/{target}:{line}: this input is a finding"));
    eprintln!("{target}: {} inputs, {reached} get far", inputs.len());
    assert!(reached >= least, "{reached} of {}", inputs.len());

    // Controls: a panic is attributed to its input, a missing corpus is an error, and inputs cut
    // off after two bytes do not get far.
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
