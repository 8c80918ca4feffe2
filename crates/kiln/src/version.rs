//! Which Kiln this is.

/// The version of the release.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The commit it was built from, as `git describe` has it, with `-dirty` if a source differed; `unknown` outside git.
pub const COMMIT: &str = env!("KILN_COMMIT");

/// As `kiln --version` prints it behind the name: `0.1.0 (312f00c, features: peers)`.
pub const DESCRIPTION: &str = concat!(
    env!("CARGO_PKG_VERSION"),
    " (",
    env!("KILN_COMMIT"),
    ", features: ",
    env!("KILN_FEATURES"),
    ")"
);

/// The cargo features it was built with.
pub fn features() -> Vec<&'static str> {
    let all = env!("KILN_FEATURES").split(", ");
    all.filter(|name| *name != "none").collect()
}
