//! This crate's error type. Each error is printed as one line.

use std::fmt;

/// A one-line error message that states what is wrong, where the problem is, and what to do about
/// it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error(String);

impl Error {
    pub fn new(line: impl Into<String>) -> Error {
        Error(line.into())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Error {}
