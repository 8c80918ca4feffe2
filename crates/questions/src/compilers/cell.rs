//! One subject by one compiler at one level in one variant, and what became of it.

use std::fmt;
use std::sync::Arc;

use kiln_question::Error;
use serde::{Deserialize, Serialize};

use super::subject::Subject;
use super::toolchain::Toolchain;
use super::variant::Variant;

/// A level of optimisation, as compilers call it without the dash.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Opt(String);

impl Opt {
    /// Levels that a compiler may have.
    pub(super) const NAMES: [&'static str; 8] = ["O0", "O1", "O2", "O3", "Os", "Og", "Oz", "Ofast"];

    /// Of its name, with or without the dash.
    pub(super) fn parse(name: &str) -> Result<Opt, Error> {
        let word = name.trim().trim_start_matches('-');
        match Opt::NAMES.contains(&word) {
            true => Ok(Opt(word.to_string())),
            false => Err(Error::input(format!(
                "unknown level '{name}': there are {}",
                Opt::NAMES.join(", ")
            ))),
        }
    }

    /// Without the dash.
    pub(super) fn name(&self) -> &str {
        &self.0
    }

    /// As an argument.
    pub(super) fn flag(&self) -> String {
        format!("-{}", self.0)
    }
}

/// Width of the machine that code is made for.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
pub(super) enum Abi {
    /// x86-64.
    #[default]
    #[serde(rename = "64")]
    Bits64,
    /// i386, by `-m32`.
    #[serde(rename = "32")]
    Bits32,
}

impl Abi {
    /// Of `64` or `32`.
    pub(super) fn parse(name: &str) -> Result<Abi, Error> {
        match name.trim() {
            "64" => Ok(Abi::Bits64),
            "32" => Ok(Abi::Bits32),
            other => Err(Error::input(format!(
                "unknown width '{other}': there are 64 and 32"
            ))),
        }
    }

    /// In bits.
    pub(super) fn name(self) -> &'static str {
        match self {
            Abi::Bits64 => "64",
            Abi::Bits32 => "32",
        }
    }

    /// What makes a compiler make it.
    pub(super) fn flags(self) -> &'static [&'static str] {
        match self {
            Abi::Bits64 => &[],
            Abi::Bits32 => &["-m32"],
        }
    }
}

/// What became of a cell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Status {
    /// Built, right, timed.
    #[default]
    Ok,
    /// The compiler has nothing of the kind, or the subject is not for it.
    Absent,
    /// Does not build.
    Failed,
    /// Gives another answer than it must.
    Wrong,
    /// Ends by a signal or with a fault.
    Crashed,
    /// Does not end.
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

/// One cell of the matrix.
#[derive(Clone, Debug)]
pub(super) struct Cell {
    /// Who compiles.
    pub cc: Arc<Toolchain>,
    /// What.
    pub subject: Arc<Subject>,
    /// How much it is to optimise.
    pub opt: Opt,
    /// In which way.
    pub variant: Variant,
    /// For which width.
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
