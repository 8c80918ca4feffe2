//! A running installation, what it produces, and how it can end early.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use kiln_question::Error;

/// Why an installation ended early.
pub(super) enum Fault {
    /// The user pressed Ctrl-C.
    Stopped,
    Error(Error),
}

impl From<Error> for Fault {
    fn from(e: Error) -> Fault {
        Fault::Error(e)
    }
}

/// A running installation.
pub(super) struct Job<'a> {
    pub name: &'static str,
    /// An empty directory that only this job uses.
    pub dir: PathBuf,
    pub stop: &'a AtomicBool,
    pub report: &'a dyn Fn(f64, &str),
}

impl Job<'_> {
    /// Makes an error from the reason `why` and the advice `help`.
    pub(super) fn fault(&self, why: &str, help: &str) -> Fault {
        Fault::Error(Error::lacks(format!(
            "cannot install {}: {why}: {help}",
            self.name
        )))
    }

    /// Makes an error about a file in the cache.
    pub(super) fn file_fault(&self, path: &Path, e: io::Error) -> Fault {
        self.fault(
            &format!("{}: {e}", path.display()),
            "name another place in XDG_CACHE_HOME, with 1 GB of free space",
        )
    }

    pub(super) fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// A library that was built.
pub(super) struct Built {
    pub version: String,
    /// The shared object and further files for the library's directory: the path of each, and its name there.
    pub files: Vec<(Box<Path>, &'static str)>,
}
