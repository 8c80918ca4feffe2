use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;

/// A value that a run took from the configuration file because it was not given on the command
/// line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "default", title = "default")]
pub struct Setting {
    /// The key in the configuration file: `cpu`, `out`, `libraries` or `tree`.
    pub key: &'static str,
    /// Value that was used. A relative path is relative to the run's working directory. List
    /// elements are joined by commas.
    pub value: String,
    /// Path of the configuration file.
    pub file: String,
    /// Number of the line in the configuration file that contains the value, counted from 1.
    pub line: usize,
}

impl Setting {
    /// Returns the location of the setting, as `FILE:LINE`.
    pub fn place(&self) -> String {
        format!("{}:{}", self.file, self.line)
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = {} ({})", self.key, self.value, self.place())
    }
}
