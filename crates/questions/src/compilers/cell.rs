//! Defines a cell (one combination of subject, compiler, level, variant and width) and the status
//! of a cell.

use std::fmt;
use std::sync::Arc;

use kiln_question::Error;
use serde::{Deserialize, Serialize};

use super::subject::Subject;
use super::toolchain::Toolchain;
use super::variant::Variant;

/// An optimization level as compilers spell it, without the dash.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Opt(String);

impl Opt {
    /// All levels that Kiln accepts. Not every compiler supports every level.
    pub(super) const NAMES: [&'static str; 8] = ["O0", "O1", "O2", "O3", "Os", "Og", "Oz", "Ofast"];

    /// Parses a level with or without the dash.
    pub(super) fn parse(name: &str) -> Result<Opt, Error> {
        let word = name.trim().trim_start_matches('-');
        match Opt::NAMES.contains(&word) {
            true => Ok(Opt(word.to_string())),
            false => Err(Error::input(format!(
                "unknown level '{name}': use one of {}",
                Opt::NAMES.join(", ")
            ))),
        }
    }

    /// Returns the level without the dash.
    pub(super) fn name(&self) -> &str {
        &self.0
    }

    /// Returns the level as a compiler argument.
    pub(super) fn flag(&self) -> String {
        format!("-{}", self.0)
    }
}

/// The width of the target architecture.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
pub(super) enum Abi {
    #[default]
    #[serde(rename = "64")]
    Bits64,
    /// i386, selected by `-m32`.
    #[serde(rename = "32")]
    Bits32,
}

impl Abi {
    /// Parses `64` or `32`.
    pub(super) fn parse(name: &str) -> Result<Abi, Error> {
        match name.trim() {
            "64" => Ok(Abi::Bits64),
            "32" => Ok(Abi::Bits32),
            other => Err(Error::input(format!(
                "unknown width '{other}': use 64 or 32"
            ))),
        }
    }

    /// Returns the width in bits.
    pub(super) fn name(self) -> &'static str {
        match self {
            Abi::Bits64 => "64",
            Abi::Bits32 => "32",
        }
    }

    /// Returns the compiler flags that select this width.
    pub(super) fn flags(self) -> &'static [&'static str] {
        match self {
            Abi::Bits64 => &[],
            Abi::Bits32 => &["-m32"],
        }
    }
}

/// Whether a cell has a result and, if not, why.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Status {
    /// The cell was built, gave the correct result and was timed.
    #[default]
    Ok,
    /// The compiler lacks a feature, the subject does not support the combination, or the cell was
    /// not timed.
    Absent,
    /// The compiler or the linker failed.
    Failed,
    /// The executable computed a wrong result.
    Wrong,
    /// The executable could not be started, was killed by a signal, or exited with an error status.
    Crashed,
    /// The executable did not finish in time.
    Hung,
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Status::Ok => "ok",
            Status::Absent => "absent",
            Status::Failed => "failed",
            Status::Wrong => "wrong",
            Status::Crashed => "crashed",
            Status::Hung => "hung",
        })
    }
}

/// One combination of subject, compiler, level, variant and width.
#[derive(Clone, Debug)]
pub(super) struct Cell {
    pub cc: Arc<Toolchain>,
    pub subject: Arc<Subject>,
    pub opt: Opt,
    pub variant: Variant,
    pub abi: Abi,
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Cell {
            cc,
            subject,
            opt,
            variant,
            abi,
        } = self;
        write!(f, "{}/{}/{}/{variant}", cc.name, opt.name(), subject.name)?;
        match abi {
            Abi::Bits64 => Ok(()),
            Abi::Bits32 => f.write_str("/32"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_and_widths_are_words() {
        assert_eq!(Opt::parse("-O2").unwrap().flag(), "-O2");
        assert_eq!(Opt::parse("Os").unwrap().name(), "Os");
        assert_eq!(Opt::parse("O9").unwrap_err().exit_code(), 2);
        assert_eq!(Abi::parse("32").unwrap().flags(), ["-m32"]);
        assert_eq!(Abi::parse("16").unwrap_err().exit_code(), 2);
    }
}
