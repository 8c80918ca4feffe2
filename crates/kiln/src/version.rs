//! Kiln's version, as `kiln --version` prints it and records store it.

use kiln_question::Program;

/// The text that `kiln --version` prints after the name, such as `0.1.0 (312f00c, features:
/// peers)`.
pub const DESCRIPTION: &str = concat!(
    env!("CARGO_PKG_VERSION"),
    " (",
    env!("KILN_COMMIT"),
    ", features: ",
    env!("KILN_FEATURES"),
    ")"
);

/// Returns the program's identity for records. The commit has the format of `git describe`, with
/// `-dirty` appended if a source file had been modified. Outside git, the commit is `unknown`.
pub fn program() -> Program {
    let features = env!("KILN_FEATURES").split(", ");
    Program {
        version: env!("CARGO_PKG_VERSION"),
        commit: env!("KILN_COMMIT"),
        features: features.filter(|name| *name != "none").collect(),
    }
}
