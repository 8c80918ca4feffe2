//! Finds subjects by name.

use std::path::PathBuf;

use kiln_question::Error;

use super::file;
use super::kernel::Kernel;
use super::store::Store;
use super::subject::Subject;
use super::tree::Tree;

/// Finds the subject called `name`, or creates one from a file in a kernel tree or from a user's
/// file. `include` lists the header directories for a user's file.
pub(super) fn find_subject(
    name: &str,
    tree: Option<&Tree>,
    include: &[PathBuf],
) -> Result<Subject, Error> {
    if let Some(subject) = tree.and_then(|t| t.subject(name)) {
        return subject;
    }
    let kernel = Kernel::open(&Store::open()?)?;
    kernel
        .subject(name)
        .unwrap_or_else(|| file::subject(name, include))
}

/// Returns the names of Kiln's own subjects.
pub(super) fn list_names() -> Result<Vec<String>, Error> {
    Ok(Kernel::open(&Store::open()?)?.names())
}
