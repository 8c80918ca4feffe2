//! A running installation, the library that it builds, and the errors that can end it.

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

/// Data that the steps of one installation share.
pub(super) struct Job<'a> {
    pub name: &'static str,
    /// An empty directory that only this job uses.
    pub dir: PathBuf,
    pub stop: &'a AtomicBool,
    pub report: &'a dyn Fn(f64, &str),
}

impl Job<'_> {
    /// Creates an error that states a reason and suggests how to solve the problem.
    pub(super) fn fault(&self, why: &str, help: &str) -> Fault {
        Fault::Error(Error::lacks(format!(
            "cannot install {}: {why}: {help}",
            self.name
        )))
    }

    /// Creates an error about a file in the cache.
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

/// The result of building or unpacking a library.
pub(super) struct Built {
    pub version: String,
    /// The files to install in the library's directory: the path of each file, and the name that it
    /// gets in that directory. The shared object is one of them.
    pub files: Vec<(Box<Path>, &'static str)>,
}
