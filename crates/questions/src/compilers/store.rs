//! The cache of executables in the user's cache directory, keyed by a hash of everything that
//! determines the executable.

use std::fs;
use std::path::{Path, PathBuf};

use kiln_question::Error;
use tempfile::TempDir;

#[derive(Debug)]
pub(super) struct Store {
    root: PathBuf,
}

impl Store {
    /// Opens the cache. Creates the directory if necessary.
    pub(super) fn open() -> Result<Store, Error> {
        let root = kiln_tree::root().map_err(|e| Error::lacks(e.to_string()))?;
        let root = root.join("kiln/compilers");
        fs::create_dir_all(&root).map_err(|e| fault(&root, &e))?;
        Ok(Store { root })
    }

    /// Returns the directory for `key`. If it does not exist, `make` fills a new one. Two processes
    /// may do this at the same time, because they create the same content.
    pub(super) fn entry<E: From<Error>>(
        &self,
        key: u64,
        make: impl FnOnce(&Path) -> Result<(), E>,
    ) -> Result<PathBuf, E> {
        let dir = self.root.join(format!("{key:016x}"));
        if dir.is_dir() {
            return Ok(dir);
        }
        let work = self.scratch()?;
        make(work.path())?;
        if fs::rename(work.path(), &dir).is_err() && !dir.is_dir() {
            return Err(Error::lacks(format!("cannot write to {}", self.root.display())).into());
        }
        Ok(dir)
    }

    /// Creates a new, empty directory that is removed on drop.
    pub(super) fn scratch(&self) -> Result<TempDir, Error> {
        kiln_tree::make_scratch(&self.root, "work-").map_err(|e| fault(&self.root, &e))
    }
}

/// Formats the error message for a cache file that cannot be read or written.
pub(super) fn fault(path: &Path, e: &std::io::Error) -> Error {
    Error::lacks(format!(
        "{}: {e}: free some space, or set XDG_CACHE_HOME to a directory you may write to",
        path.display()
    ))
}
