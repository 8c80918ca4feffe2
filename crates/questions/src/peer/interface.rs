//! The interface of all libraries for measuring them.

use crate::timing::{Candidate, Work};

/// A library that was loaded.
pub(crate) trait Peer {
    /// One of [`super::NAMES`].
    fn name(&self) -> &'static str;

    /// The version, such as `3.0.17`.
    fn version(&self) -> &str;

    /// The library's file name, as it was requested.
    fn file(&self) -> &str;

    /// Where it was found: `cache`, `system`, `named` or `program`.
    fn place(&self) -> &'static str;

    /// The name in rows: `openssl-3.0.17`.
    fn provider(&self) -> String {
        format!("{}-{}", self.name(), self.version())
    }

    /// The library's implementations of this work; empty if it lacks the algorithm.
    ///
    /// # Errors
    /// The library has the algorithm but fails.
    fn candidates(&self, work: &Work) -> Result<Vec<Candidate<'static>>, String>;
}
