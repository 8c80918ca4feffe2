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
    /// What was tried did not go well.
    Failed(String),
    /// Ctrl-C.
    Interrupted,
}

impl Error {
    /// What a file of the cache could not be used for.
    pub fn io(path: &Path, e: &io::Error) -> Error {
        let path = path.display();
        match e.raw_os_error() {
            Some(libc::ENOSPC | libc::EDQUOT) => Error::Lacks(format!(
                "no space for {path}: free about 200 MB, or name another place in XDG_CACHE_HOME"
            )),
            Some(libc::EROFS | libc::EACCES | libc::ENOTDIR | libc::ENOENT | libc::EPERM) => {
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
            Error::Input(line) | Error::Lacks(line) | Error::Failed(line) => f.write_str(line),
            Error::Interrupted => f.write_str("interrupted"),
        }
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cache_that_cannot_be_used_is_named_with_the_remedy() {
        for code in [libc::ENOSPC, libc::EROFS, libc::EACCES, libc::ENOTDIR] {
            let e = Error::io(Path::new("/c/kiln"), &io::Error::from_raw_os_error(code));
            assert!(matches!(e, Error::Lacks(_)));
            let line = e.to_string();
            assert!(
                line.contains("/c/kiln") && line.contains("XDG_CACHE_HOME"),
                "{line}"
            );
            assert_eq!(line.lines().count(), 1);
        }
    }
}
