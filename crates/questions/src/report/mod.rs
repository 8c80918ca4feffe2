//! Shows records as one HTML page, or converts them to the formats of other tools.

pub mod page;

use std::path::{Path, PathBuf};

use clap::Args;
use kiln_question::{prepare, print, print_fault, replace, Error, Exit, Question, Session};
use kiln_report::export::Format;
use kiln_report::{gather, missing_shards, Options, Side};

/// Turn JSON results into HTML, CSV, Markdown or KTAP
///
/// Use this command to show results in an email, a patch or a bug report. A record is a JSON file
/// that --json printed or --out wrote. The HTML page is a single file that loads nothing else. The
/// page contains pictures, tables with intervals, the commands that repeat the measurements, and
/// the records. A page therefore also serves as input for 'kiln report' and 'kiln compare'.
///
/// In the tables, records of different commands on one machine share a column. Records of different
/// machines, or of repeated runs of a command, get one column each. However, the records of a
/// directory get one column for each combination of machine, commit of Kiln and compiler, so
/// repeated runs in a directory share a column.
///
/// The page is written to ./kiln-report.html. With --out DIR, the page is written to
/// DIR/report.html, and with --out FILE.html, to FILE.html. An existing file is overwritten only if
/// it is a report.
#[derive(Args)]
#[command(after_long_help = "\
Formats, on stdout:
  csv               every field of every row (RFC 4180)
  markdown          the page's tables, for a mail or a commit message
  google-benchmark  rows whose result is a time, in Google Benchmark's JSON
  ktap              rows that are checks: passed, failed or skipped
  kcidb             all rows, for KernelCI's database (schema 5.3)
  bencher           measurements with their intervals (Bencher Metric Format)
  lnt               times from one machine and revision, for LLVM's LNT

Exit status:
  1 if a run was divided by --shard I/N, and the record of a part is missing;
  stderr shows the command that runs the missing part

Examples:
  kiln report speed.json
  kiln report results --out page.html         all records of a directory
  kiln report zen5/survey.json zen2/survey.json --title 'Zen 5 and Zen 2'
  kiln report speed.json --format markdown >> commit-message

See also:
  docs/RECORDS.md, docs/FLEET.md")]
pub struct ReportArgs {
    /// Files to show: JSON files that --json printed or --out wrote, HTML reports, or directories
    /// of such JSON files
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Title of the page
    #[arg(long, value_name = "TEXT", conflicts_with = "format")]
    title: Option<String>,
    /// Write the results to stdout in this format, instead of writing an HTML page: csv, markdown,
    /// google-benchmark, ktap, kcidb, bencher or lnt
    #[arg(long, value_name = "FORMAT")]
    format: Option<String>,
}

impl Question for ReportArgs {
    const NAME: &'static str = "report";
    const WRITES_A_FILE: bool = true;

    fn run(&self, session: &Session) -> Result<Exit, Error> {
        let input = |e: kiln_report::Error| Error::input(e.to_string());
        if session.global.json {
            return Err(Error::input(
                "--json: a report is not a record: use --format csv or google-benchmark",
            ));
        }
        let format: Option<Format> = self
            .format
            .as_deref()
            .map(|f| f.parse().map_err(input))
            .transpose()?;
        if let (Some(_), Some(out)) = (format, &session.global.out) {
            return Err(Error::input(format!(
                "--out {}: --format writes on stdout: redirect that",
                out.display()
            )));
        }
        let mut found: Vec<Side> = Vec::new();
        for file in &self.files {
            found.extend(Side::read(file).map_err(input)?);
        }
        let sides = gather(found);
        let missing = missing_shards(&sides);
        missing.iter().for_each(|line| print_fault(line));
        let exit = Exit::from_run(!missing.is_empty(), false);
        if let Some(format) = format {
            print(&format.text(&sides).map_err(input)?)?;
            return Ok(exit);
        }
        let options = Options {
            title: self.title.clone(),
        };
        let page = kiln_report::html(&sides, &options).map_err(input)?;
        let path = place(session.global.out.as_deref())?;
        replace::write(&path, page.as_bytes())?;
        let records: usize = sides.iter().map(|s| s.records.len()).sum();
        print(&format!(
            "{}: {records} record{}, {} kB\n",
            path.display(),
            if records == 1 { "" } else { "s" },
            page.len().div_ceil(1000)
        ))?;
        Ok(exit)
    }
}

/// Returns the page's path. Fails if the path is an existing file that Kiln did not write.
fn place(out: Option<&Path>) -> Result<PathBuf, Error> {
    let path = match out {
        None => PathBuf::from(page::NAME),
        Some(file) if file.extension().is_some_and(|e| e == "html") && !file.is_dir() => {
            file.to_path_buf()
        }
        Some(dir) => {
            prepare(dir)?;
            dir.join(page::NAME_OUT)
        }
    };
    match page::foreign(&path) {
        true => Err(Error::input(format!(
            "'{}' exists and is not a report of Kiln: name another with --out",
            path.display()
        ))),
        false => Ok(path),
    }
}
