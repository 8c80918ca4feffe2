//! Where executables are kept: in the user's cache, by what they are made of.

use std::fs;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicUsize, Ordering};

use kiln_question::Error;

/// A directory of the user's cache.
#[derive(Debug)]
pub(super) struct Store {
    root: PathBuf,
}

impl Store {
    /// Makes it.
    pub(super) fn open() -> Result<Store, Error> {
        let root = kiln_tree::root().map_err(|e| Error::lacks(e.to_string()))?;
        let root = root.join("kiln/compilers");
        fs::create_dir_all(&root).map_err(|e| fault(&root, &e))?;
        Ok(Store { root })
    }

    /// The directory of what has this key; filled by `make` if it is not there. Two that fill it at a time do no harm:
    /// both make the same.
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
        let made = make(&work);
        if made.is_ok() && fs::rename(&work, &dir).is_err() && !dir.is_dir() {
            return Err(Error::lacks(format!("cannot write to {}", self.root.display())).into());
        }
        // Gone if it was renamed.
        let _ = fs::remove_dir_all(&work);
        made.map(|()| dir)
    }

    /// A new, empty directory of nobody else's.
    pub(super) fn scratch(&self) -> Result<PathBuf, Error> {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let dir = self.root.join(format!("work-{}-{n}", process::id()));
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir_all(&dir).map_err(|e| fault(&dir, &e))?;
        Ok(dir)
    }
}

/// Something about a file of the cache.
pub(super) fn fault(path: &Path, e: &std::io::Error) -> Error {
    Error::lacks(format!(
        "{}: {e}: free some space, or set XDG_CACHE_HOME to a directory you may write to",
        path.display()
    ))
}
