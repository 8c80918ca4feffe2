//! Errors that end a device or keep it from starting, with messages for the user who started it.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Why a device did not start or has stopped.
#[derive(Debug)]
pub enum Error {
    /// An argument is invalid. The text states which one, and why.
    Argument(String),
    /// Another process already listens on this socket.
    InUse(PathBuf),
    /// A file or socket could not be used.
    Io {
        what: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    /// The kernel denies a resource that the device needs.
    Lacks {
        what: &'static str,
        /// Why the kernel denied the resource, and what the user can do.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl Error {
    pub(crate) fn io(what: &'static str, path: &Path, source: io::Error) -> Error {
        Error::Io {
            what,
            path: path.to_owned(),
            source,
        }
    }

    pub(crate) fn lacks(
        what: &'static str,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Error {
        Error::Lacks {
            what,
            source: source.into(),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Argument(line) => f.write_str(line),
            Error::InUse(path) => write!(
                f,
                "{}: another process listens there: stop it, or name another socket",
                path.display()
            ),
            Error::Io { what, path, source } => {
                write!(
                    f,
                    "cannot {what} {}: {source}: name a socket in a directory you may write to",
                    path.display()
                )
            }
            Error::Lacks { what, source } => write!(f, "{what}: {source}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Io { source, .. } => Some(source),
            Error::Lacks { source, .. } => Some(source.as_ref()),
            _ => None,
        }
    }
}
