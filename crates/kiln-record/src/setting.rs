use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;

/// A value that a run took from the configuration file because the command line did not give it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "default", title = "default")]
pub struct Setting {
    /// The key in the file: `cpu`, `out`, `libraries` or `tree`.
    pub key: &'static str,
    /// The value that was used. Paths are relative to the current directory of the run, and elements of a list are
    /// joined by commas.
    pub value: String,
    /// The file, as it was found.
    pub file: String,
    /// Line of the value in the file, from 1.
    pub line: usize,
}

impl Setting {
    /// Where the value is: `FILE:LINE`.
    pub fn place(&self) -> String {
        format!("{}:{}", self.file, self.line)
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = {} ({})", self.key, self.value, self.place())
    }
}
