//! Export formats for other tools.

mod csv;
mod google_benchmark;
mod ktap;
mod markdown;

use std::str::FromStr;

use crate::error::Error;
use crate::side::Side;

/// A format that other tools read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// RFC 4180.
    Csv,
    /// Tables for a commit message or a mail.
    Markdown,
    /// The format of google-benchmark's `--benchmark_out`.
    GoogleBenchmark,
    /// The Kernel Test Anything Protocol.
    Ktap,
}

impl Format {
    /// All formats.
    pub const ALL: [Format; 4] = [
        Format::Csv,
        Format::Markdown,
        Format::GoogleBenchmark,
        Format::Ktap,
    ];

    /// The name in flags.
    pub fn name(self) -> &'static str {
        match self {
            Format::Csv => "csv",
            Format::Markdown => "markdown",
            Format::GoogleBenchmark => "google-benchmark",
            Format::Ktap => "ktap",
        }
    }

    /// All rows in this format.
    pub fn text(self, sides: &[Side]) -> Result<String, Error> {
        match self {
            Format::Csv => csv::text(sides),
            Format::Markdown => markdown::text(sides),
            Format::GoogleBenchmark => google_benchmark::text(sides),
            Format::Ktap => ktap::text(sides),
        }
    }
}

impl FromStr for Format {
    type Err = Error;

    fn from_str(name: &str) -> Result<Format, Error> {
        let found = Format::ALL.into_iter().find(|f| f.name() == name);
        found.ok_or_else(|| {
            let all = Format::ALL.map(Format::name).join(", ");
            Error::new(format!("unknown format '{name}': there are {all}"))
        })
    }
}
