//! The interface through which all libraries other than Kiln are measured.

use crate::{Candidate, Work};

/// A library that has been loaded.
pub trait Peer {
    /// Returns the library's name, which is one of [`super::NAMES`].
    fn name(&self) -> &'static str;

    /// Returns the version, such as `3.0.17`.
    fn version(&self) -> &str;

    /// Returns the name or path used to open the library.
    fn file(&self) -> &str;

    /// Returns where the file was found: `cache`, `system`, `named` or `program`.
    fn place(&self) -> &'static str;

    /// Returns the name that rows use for the library, such as `openssl-3.0.17`.
    fn provider(&self) -> String {
        format!("{}-{}", self.name(), self.version())
    }

    /// Returns the library's candidates for this work. The list is empty if the library lacks the
    /// algorithm.
    ///
    /// # Errors
    /// Fails if the library has the algorithm but a candidate cannot be prepared.
    fn candidates(&self, work: &Work) -> Result<Vec<Candidate<'static>>, String>;
}
