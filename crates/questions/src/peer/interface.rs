//! The interface through which all libraries are measured.

use crate::timing::{Candidate, Work};

/// A library that was loaded.
pub(crate) trait Peer {
    /// The library's name, one of [`super::NAMES`].
    fn name(&self) -> &'static str;

    /// The version, such as `3.0.17`.
    fn version(&self) -> &str;

    /// Name of the library's file, as it was requested.
    fn file(&self) -> &str;

    /// Where the file was found: `cache`, `system`, `named` or `program`.
    fn place(&self) -> &'static str;

    /// Name of the library in rows, such as `openssl-3.0.17`.
    fn provider(&self) -> String {
        format!("{}-{}", self.name(), self.version())
    }

    /// The library's implementations of this work; empty if it lacks the algorithm.
    ///
    /// # Errors
    /// The library has the algorithm but fails.
    fn candidates(&self, work: &Work) -> Result<Vec<Candidate<'static>>, String>;
}
