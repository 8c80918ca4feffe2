//! Exports records in formats of other tools.

mod bencher;
mod csv;
mod google_benchmark;
mod kcidb;
mod ktap;
mod lnt;
mod markdown;
mod result;

use std::str::FromStr;

use crate::error::Error;
use crate::side::Side;

/// An export format that other tools read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Comma-separated values, RFC 4180.
    Csv,
    /// Markdown tables for a commit message or an email.
    Markdown,
    /// The format of google-benchmark's `--benchmark_out`.
    GoogleBenchmark,
    /// The Kernel Test Anything Protocol.
    Ktap,
    /// Reports for KernelCI's database, in version 5.3 of its schema.
    Kcidb,
    /// Bencher Metric Format.
    Bencher,
    /// Reports for LLVM's LNT, in version 2 of its format.
    Lnt,
}

impl Format {
    /// All formats, in the order they are listed to users.
    pub const ALL: [Format; 7] = [
        Format::Csv,
        Format::Markdown,
        Format::GoogleBenchmark,
        Format::Ktap,
        Format::Kcidb,
        Format::Bencher,
        Format::Lnt,
    ];

    /// Returns the name that selects the format on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Format::Csv => "csv",
            Format::Markdown => "markdown",
            Format::GoogleBenchmark => "google-benchmark",
            Format::Ktap => "ktap",
            Format::Kcidb => "kcidb",
            Format::Bencher => "bencher",
            Format::Lnt => "lnt",
        }
    }

    /// Exports the sides in this format. Rows that the format cannot represent are omitted.
    pub fn text(self, sides: &[Side]) -> Result<String, Error> {
        match self {
            Format::Csv => csv::text(sides),
            Format::Markdown => markdown::text(sides),
            Format::GoogleBenchmark => google_benchmark::text(sides),
            Format::Ktap => ktap::text(sides),
            Format::Kcidb => kcidb::text(sides),
            Format::Bencher => bencher::text(sides),
            Format::Lnt => lnt::text(sides),
        }
    }
}

impl FromStr for Format {
    type Err = Error;

    fn from_str(name: &str) -> Result<Format, Error> {
        let found = Format::ALL.into_iter().find(|f| f.name() == name);
        found.ok_or_else(|| {
            let all = Format::ALL.map(Format::name).join(", ");
            Error::new(format!("unknown format '{name}': choose from {all}"))
        })
    }
}
