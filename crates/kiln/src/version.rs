//! The version of Kiln, as text and for records.

use kiln_question::Program;

/// The version as `kiln --version` prints it after the name: `0.1.0 (312f00c, features: peers)`.
pub const DESCRIPTION: &str = concat!(
    env!("CARGO_PKG_VERSION"),
    " (",
    env!("KILN_COMMIT"),
    ", features: ",
    env!("KILN_FEATURES"),
    ")"
);

/// The program's identity in records. The commit has the form of `git describe`, with `-dirty` if a
/// source file differed; it is `unknown` outside git.
pub fn program() -> Program {
    let features = env!("KILN_FEATURES").split(", ");
    Program {
        version: env!("CARGO_PKG_VERSION"),
        commit: env!("KILN_COMMIT"),
        features: features.filter(|name| *name != "none").collect(),
    }
}
