//! What goes wrong, with its exit status.

use std::fmt;

/// A fault in one line: what, where, what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// A check failed.
    Failed(String),
    /// The input or the arguments are wrong.
    Input(String),
    /// This machine lacks something, which the text names with what would provide it.
    Lacks(String),
}

impl Error {
    /// The process's exit status (`CLI.md`).
    pub fn exit_code(&self) -> u8 {
        match self {
            Error::Failed(_) => 1,
            Error::Input(_) => 2,
            Error::Lacks(_) => 3,
        }
    }

    /// Wrong input.
    pub fn input(line: impl Into<String>) -> Error {
        Error::Input(line.into())
    }

    /// Something this machine lacks.
    pub fn lacks(line: impl Into<String>) -> Error {
        Error::Lacks(line.into())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Error::Failed(line) | Error::Input(line) | Error::Lacks(line)) = self;
        // One line, whatever a file's name or a library's text contains.
        for c in line.chars() {
            match c {
                c if c.is_control() => write!(f, "{}", c.escape_default())?,
                c => write!(f, "{c}")?,
            }
        }
        Ok(())
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_is_one_line() {
        let e = Error::input("no file 'a\nb'");
        assert_eq!(e.to_string(), "no file 'a\\nb'");
        assert_eq!(e.exit_code(), 2);
        assert_eq!(Error::lacks("").exit_code(), 3);
    }
}
