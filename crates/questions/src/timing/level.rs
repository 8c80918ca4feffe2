//! At which level calls are made, and where their memory lies.

use std::fmt;
use std::str::FromStr;

use kiln_question::{unknown, Error};
use serde::{Deserialize, Serialize};

/// At which level calls are made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// The function, in one FPU section with the calls around it.
    #[default]
    Primitive,
    /// A request through the crypto API, by driver name.
    Api,
    /// A function that a kernel tree's library exports, which opens its own FPU sections.
    Library,
}

impl Level {
    /// As rows and flags have it.
    pub fn name(self) -> &'static str {
        match self {
            Level::Primitive => "primitive",
            Level::Api => "api",
            Level::Library => "library",
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Level {
    type Err = Error;

    fn from_str(name: &str) -> Result<Level, Error> {
        let all = [Level::Primitive, Level::Api, Level::Library];
        all.into_iter()
            .find(|l| l.name() == name)
            .ok_or_else(|| unknown("level", name, &all.map(Level::name)))
    }
}

/// Where a request's memory lies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Layout {
    /// Many messages, one piece on either side, as a user stores them.
    #[default]
    Plain,
    /// One request put again and again, in pages, as Linux's tcrypt has it: a cipher's begins behind the key's bytes in
    /// the first page and is in place, an AEAD's associated data are a piece of their own.
    Tcrypt,
    /// One message again and again, as the benchmarks of KUnit suites have it.
    Kunit,
}

impl Layout {
    /// As rows and flags have it.
    pub fn name(self) -> &'static str {
        match self {
            Layout::Plain => "plain",
            Layout::Tcrypt => "tcrypt",
            Layout::Kunit => "kunit",
        }
    }

    /// What most rows have, and so is not said.
    pub(crate) fn is_plain(&self) -> bool {
        *self == Layout::Plain
    }
}

impl FromStr for Layout {
    type Err = Error;

    fn from_str(name: &str) -> Result<Layout, Error> {
        let all = [Layout::Plain, Layout::Tcrypt];
        all.into_iter()
            .find(|l| l.name() == name)
            .ok_or_else(|| unknown("layout", name, &all.map(Layout::name)))
    }
}
