//! Build errors. The messages are meant for the person who started the build.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// The reason why a build failed.
#[derive(Debug)]
pub enum Error {
    /// The compiler was not found. The string contains the name or names that were tried.
    NoCompiler(String),
    /// The program at this path does not behave like gcc or clang.
    NotACompiler(PathBuf),
    /// A source file does not compile, or causes a warning in a build that treats warnings as
    /// errors.
    Compile {
        source: PathBuf,
        /// Path and version of the compiler.
        compiler: String,
        message: String,
    },
    /// A binutils tool was not found.
    NoTool(String),
    /// A binutils tool failed.
    ToolFailed {
        name: String,
        /// The first error that the tool printed.
        message: String,
    },
    /// This directory contains no source files, that is, no `.c` or `.S` files.
    NoSources(PathBuf),
    /// The object files of these two sources would have the same name.
    Collision(PathBuf, PathBuf),
    /// A file or directory could not be used.
    Io {
        /// Path of the file or directory.
        path: PathBuf,
        source: io::Error,
    },
}

impl Error {
    pub(crate) fn io(path: &Path, source: io::Error) -> Self {
        Error::Io {
            path: path.to_owned(),
            source,
        }
    }

    pub(crate) fn tool(name: &str, source: io::Error) -> Self {
        if source.kind() == io::ErrorKind::NotFound {
            Error::NoTool(name.to_owned())
        } else {
            Error::io(Path::new(name), source)
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::NoCompiler(names) if names.contains(", ") => write!(
                f,
                "no C compiler found ({names}): apt-get install gcc, or name one with --cc or KILN_CC"
            ),
            Error::NoCompiler(name) if name.contains(' ') => write!(
                f,
                "no compiler '{name}' here: name a single program, without arguments, with --cc or KILN_CC"
            ),
            Error::NoCompiler(name) => write!(
                f,
                "no compiler '{name}' here: install it, or name another with --cc or KILN_CC"
            ),
            Error::NotACompiler(path) => write!(
                f,
                "{} does not answer --version and -print-file-name as gcc and clang do: \
                 name another compiler with --cc or KILN_CC",
                path.display()
            ),
            Error::Compile {
                source,
                compiler,
                message,
            } => write!(
                f,
                "{} does not compile with {compiler}:\n{message}",
                source.display()
            ),
            Error::NoTool(name) => {
                write!(f, "{name} is not installed: apt-get install binutils")
            }
            Error::ToolFailed { name, message } => write!(f, "{name} failed: {message}"),
            Error::NoSources(dir) => write!(f, "no C source under {}", dir.display()),
            Error::Collision(a, b) => write!(
                f,
                "{} and {} have the same object name: rename one",
                a.display(),
                b.display()
            ),
            Error::Io { path, source } => write!(f, "{}: {source}", path.display()),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_compiler_with_arguments_is_not_a_program_to_install() {
        let text = |name: &str| Error::NoCompiler(name.to_string()).to_string();
        assert!(text("ccache gcc").contains("a single program"));
        assert!(text("gcc-99").contains("install it"));
        assert!(text("cc, gcc, clang").contains("apt-get install gcc"));
    }
}
