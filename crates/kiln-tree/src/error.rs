//! Why there is no result, each in one line for the person who asked.

use std::fmt;
use std::io;
use std::path::Path;

/// What went wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Error {
    /// The tree, or another input, is not what it must be.
    Input(String),
    /// The machine lacks something.
    Lacks(String),
    /// Ctrl-C.
    Interrupted,
}

impl Error {
    pub(crate) fn io(path: &Path, e: &io::Error) -> Error {
        let path = path.display();
        match e.raw_os_error() {
            Some(libc::ENOSPC | libc::EDQUOT) => Error::Lacks(format!(
                "no space for {path}: free about 200 MB, or name another place in XDG_CACHE_HOME"
            )),
            Some(libc::EROFS | libc::EACCES | libc::ENOTDIR | libc::EPERM) => {
                Error::Lacks(format!(
                    "cannot write {path}: {e}: name a place you may write to in XDG_CACHE_HOME"
                ))
            }
            _ => Error::Lacks(format!("{path}: {e}")),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Input(line) | Error::Lacks(line) => f.write_str(line),
            Error::Interrupted => f.write_str("interrupted"),
        }
    }
}

impl std::error::Error for Error {}
