//! What every library is for those who measure it.

use crate::timing::{Candidate, Work};

/// A library that was found.
pub(crate) trait Peer {
    /// One of [`super::NAMES`].
    fn name(&self) -> &'static str;

    /// Such as `3.0.17`.
    fn version(&self) -> &str;

    /// The library's file, as it was asked for.
    fn file(&self) -> &str;

    /// As rows name it: `openssl-3.0.17`.
    fn provider(&self) -> String {
        format!("{}-{}", self.name(), self.version())
    }

    /// The ways it has to do a work; none if it does not know the algorithm.
    ///
    /// # Errors
    /// If it knows it and will not do it.
    fn candidates(&self, work: &Work) -> Result<Vec<Candidate<'static>>, String>;
}
