//! Defines the interfaces through which an implementation can be called (levels), and the memory
//! layouts of requests.

use std::fmt;
use std::str::FromStr;

use kiln_question::{unknown, Error};
use serde::{Deserialize, Serialize};

/// The interface through which a candidate is called.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Direct calls to the function. One FPU section encloses many calls.
    #[default]
    Primitive,
    /// Requests to a driver through the crypto API. The driver is selected by its name.
    Api,
    /// Calls to a function that the library of a kernel tree exports. The function opens its own
    /// FPU sections.
    Library,
}

impl Level {
    /// Returns the level's name, as used in rows and flags.
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

/// The memory layout of requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Layout {
    /// Many messages, each with one contiguous input buffer and one contiguous output buffer, which
    /// is how typical callers store them.
    #[default]
    Plain,
    /// A single request that is repeated. Its data is stored in pages, as in Linux's tcrypt. The
    /// first page of a cipher's data begins with the key, and the text after the key is processed
    /// in place. The associated data of an AEAD is a separate piece.
    Tcrypt,
    /// A single message that is processed repeatedly, as in KUnit benchmarks.
    Kunit,
}

impl Layout {
    /// Returns the layout's name, as used in rows and flags.
    pub fn name(self) -> &'static str {
        match self {
            Layout::Plain => "plain",
            Layout::Tcrypt => "tcrypt",
            Layout::Kunit => "kunit",
        }
    }

    /// Returns whether this is the default layout, which rows omit.
    pub fn is_plain(&self) -> bool {
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
