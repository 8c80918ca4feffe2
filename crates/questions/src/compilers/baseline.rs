//! The baseline against which builds are judged: another compiler in the same run, or the record of
//! an earlier run.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

use kiln_question::Error;
use serde_json::Value;

use kiln_measure::{exceeds_by_known, ratio_among, verdict_by_known, Ratio, Series};

use super::cell::Status;
use super::row::Row;
use super::toolchain::Toolchain;

/// For builds timed side by side, relative differences below this limit are attributed to noise.
const FLOOR: f64 = 0.005;
/// The same limit for builds from two different runs. It is larger, because the placement in memory
/// differs between runs.
const FLOOR_OF_RECORDS: f64 = 0.02;

#[derive(Clone, Debug)]
pub(super) enum Baseline {
    /// Another compiler, whose builds are timed together with the builds that are judged.
    Compiler(Arc<Toolchain>),
    /// The rows of an earlier run.
    Record {
        /// Path of the record, as it was given.
        name: String,
        rows: Vec<Row>,
    },
}

/// Returns whether the path is a file that cannot be run.
fn is_data(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 == 0)
}

impl Baseline {
    /// Opens a baseline. A name that ends in `.json` selects a record; any other name selects a
    /// compiler.
    pub(super) fn find(name: &str) -> Result<Baseline, Error> {
        match name.ends_with(".json") {
            true => Baseline::read(Path::new(name)),
            // A compiler takes precedence over a directory of the same name, such as gcc's sources.
            false => match Toolchain::find(name) {
                Ok(cc) => Ok(Baseline::Compiler(Arc::new(cc))),
                Err(_) if Path::new(name).is_dir() => Err(is_directory(name)),
                Err(_) if is_data(Path::new(name)) => Err(Error::input(format!(
                    "--baseline '{name}': neither a compiler nor a record: a record's name ends in .json, such as \
                     compilers.json"
                ))),
                Err(e) => Err(e),
            },
        }
    }

    pub(super) fn read(path: &Path) -> Result<Baseline, Error> {
        let shown = path.display();
        let fault = |why: String| {
            Error::input(format!(
                "'{shown}' cannot be the baseline: {why}: name a record that 'kiln compilers --out' of this version wrote"
            ))
        };
        let text = fs::read_to_string(path).map_err(|e| fault(e.to_string()))?;
        let document: Value = serde_json::from_str(&text).map_err(|e| fault(e.to_string()))?;
        let command = document.get("command").and_then(Value::as_str);
        if command != Some("compilers") {
            return Err(fault(format!(
                "it is a record of '{}'",
                command.unwrap_or("no command")
            )));
        }
        let rows = document.get("rows").cloned().unwrap_or(Value::Null);
        let rows: Vec<Row> = serde_json::from_value(rows).map_err(|e| {
            let version = document.get("kiln").and_then(Value::as_str).unwrap_or("?");
            fault(format!("its rows are another version's ({version}): {e}"))
        })?;
        Ok(Baseline::Record {
            name: shown.to_string(),
            rows,
        })
    }

    /// Returns the name of the baseline, as it is shown to the user.
    pub(super) fn name(&self) -> &str {
        match self {
            Baseline::Compiler(cc) => &cc.name,
            Baseline::Record { name, .. } => name,
        }
    }
}

/// Creates the error for a baseline that is a directory. If the directory contains a record, the
/// error names it.
fn is_directory(name: &str) -> Error {
    let record = Path::new(name).join("compilers.json");
    let advice = match record.is_file() {
        true => format!("name the record in it, '{}'", record.display()),
        false => "name a compiler, or a record such as DIR/compilers.json that 'kiln compilers --out DIR' wrote".to_string(),
    };
    Error::input(format!(
        "'{name}' cannot be the baseline: it is a directory: {advice}"
    ))
}

/// Returns the row of a record against which `row` is judged. If only one compiler in the record
/// has a comparable row, that row is used; otherwise, the row for the same compiler as in `row` is
/// used.
pub(super) fn of_record<'a>(rows: &'a [Row], row: &Row) -> Option<&'a Row> {
    let mut same = rows.iter().filter(|r| r.place() == row.place());
    let all: Vec<&Row> = same.by_ref().collect();
    match all.as_slice() {
        [one] => Some(one),
        several => several.iter().find(|r| r.cc == row.cc).copied(),
    }
}

/// The cost of a build divided by the cost of its baseline.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Ratios {
    /// Core cycles of the build divided by the core cycles of its baseline.
    pub cycles: Ratio,
    /// The ratio of times; `None` if either side has no times.
    pub time: Option<Ratio>,
}

impl Ratios {
    /// Computes ratios from rounds that were timed side by side. The confidence level applies
    /// jointly to all `comparisons` in a run.
    pub(super) fn from_series(
        own: &Series,
        baseline: &Series,
        comparisons: usize,
    ) -> Option<Ratios> {
        Some(Ratios {
            cycles: ratio_among(own, baseline, comparisons)?,
            time: ratio_among(&own.in_ns(), &baseline.in_ns(), comparisons),
        })
    }

    /// Computes ratios from two rows. The interval in each row predicts the result of a rerun, so
    /// dividing opposite ends of the two intervals gives bounds for the ratio of two reruns.
    pub(super) fn from_rows(row: &Row, old: &Row) -> Option<Ratios> {
        let cycles = |r: &Row| Some((r.cycles_per_byte?, r.ci_low?, r.ci_high?));
        let time = |r: &Row| Some((r.ns_per_byte?, r.ns_low?, r.ns_high?));
        Some(Ratios {
            cycles: quotient(cycles(row)?, cycles(old)?),
            time: time(row).zip(time(old)).map(|(a, b)| quotient(a, b)),
        })
    }

    /// Reads the ratios from a judged row.
    fn in_row(row: &Row) -> Option<Ratios> {
        let ratio = |(ratio, low, high)| Ratio {
            ratio,
            low,
            high,
            pairs: 1,
        };
        let time = || Some((row.time_ratio?, row.time_ratio_low?, row.time_ratio_high?));
        Some(Ratios {
            cycles: ratio((row.ratio?, row.ratio_low?, row.ratio_high?)),
            time: time().map(ratio),
        })
    }
}

/// Returns the quotient of two results, each given as a value and the ends of its interval.
fn quotient(a: (f64, f64, f64), b: (f64, f64, f64)) -> Ratio {
    Ratio {
        ratio: a.0 / b.0,
        low: a.1 / b.2,
        high: a.2 / b.1,
        pairs: 1,
    }
}

/// Writes the ratios and the verdict into the row.
pub(super) fn judge(row: &mut Row, by: &str, ratios: Option<Ratios>, of_record: bool) {
    row.baseline = Some(by.to_string());
    let Some(r) = ratios else { return };
    row.ratio = Some(r.cycles.ratio);
    row.ratio_low = Some(r.cycles.low);
    row.ratio_high = Some(r.cycles.high);
    row.time_ratio = r.time.map(|t| t.ratio);
    row.time_ratio_low = r.time.map(|t| t.low);
    row.time_ratio_high = r.time.map(|t| t.high);
    let floor = if of_record { FLOOR_OF_RECORDS } else { FLOOR };
    row.verdict = Some(verdict_by_known(&r.cycles, r.time.as_ref(), floor));
}

/// Rows that are, or may be, worse than allowed.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Regressions {
    /// Rows that exceed the allowed slowdown by more than the noise, both in cycles and in time.
    pub slower: Vec<usize>,
    /// Rows without a result although the baseline has one.
    pub lost: Vec<usize>,
    /// Rows that cannot be judged, because either only their cycles or only their time exceeds the
    /// allowed slowdown.
    pub unjudged: Vec<usize>,
}

/// Finds rows that are worse than their baseline by more than `percent`. `had` returns whether a
/// row's baseline has a result.
pub(super) fn regressions(rows: &[Row], percent: f64, had: &dyn Fn(&Row) -> bool) -> Regressions {
    let mut found = Regressions::default();
    for (i, row) in rows.iter().enumerate() {
        if let Some(ratios) = Ratios::in_row(row) {
            match exceeds_by_known(&ratios.cycles, ratios.time.as_ref(), percent / 100.0) {
                Some(true) => found.slower.push(i),
                None => found.unjudged.push(i),
                Some(false) => {}
            }
        } else if row.baseline.is_some() && row.status != Status::Ok && had(row) {
            found.lost.push(i);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::row::tests::row;
    use super::*;
    use kiln_measure::Verdict;

    #[test]
    fn a_planted_slowdown_is_found_and_the_same_again_is_not() {
        let old = row("a", "default", Some(10.0));
        let judged = |figure| {
            let mut new = row("b", "default", Some(figure));
            let r = Ratios::from_rows(&new, &old);
            judge(&mut new, "a", r, true);
            new
        };
        assert_eq!(judged(10.0).verdict, Some(Verdict::Same));
        assert_eq!(judged(10.1).verdict, Some(Verdict::Same));
        assert_eq!(judged(10.3).verdict, Some(Verdict::Slower));
        assert_eq!(judged(9.0).verdict, Some(Verdict::Faster));
        let rows = [judged(10.0), judged(11.0)];
        let found = regressions(&rows, 5.0, &|_| true);
        assert_eq!(found.slower, [1]);
        assert_eq!(regressions(&rows, 20.0, &|_| true), Regressions::default());
    }

    #[test]
    fn a_verdict_needs_cycles_and_time() {
        let old = row("a", "default", Some(10.0));
        let judged = |new: Row, old: &Row| {
            let mut new = new;
            let r = Ratios::from_rows(&new, old);
            judge(&mut new, "a", r, true);
            let found = regressions(&[new.clone()], 5.0, &|_| true);
            (new.verdict.unwrap(), found)
        };
        let none = Regressions::default();
        let slower = Regressions {
            slower: vec![0],
            ..none.clone()
        };
        let unjudged = Regressions {
            unjudged: vec![0],
            ..none.clone()
        };
        let new = |cycles: f64, clock: f64| row("a", "default", Some(cycles)).at_clock(clock);
        // With wide vectors, the first build takes 10 % fewer cycles, but lowers the clock
        // frequency to 75 %. The second build takes 10 % more cycles at a higher clock frequency.
        assert_eq!(
            judged(new(9.0, 1.33), &old),
            (Verdict::Disagree, unjudged.clone())
        );
        assert_eq!(
            judged(new(11.0, 0.75), &old),
            (Verdict::Disagree, unjudged.clone())
        );
        // Either cycles or time exceeds the limit, but not both.
        assert_eq!(
            judged(new(11.0, 1.0 / 1.1), &old),
            (Verdict::Disagree, unjudged.clone())
        );
        assert_eq!(judged(new(10.0, 1.1), &old), (Verdict::Disagree, unjudged));
        // With fewer cycles in the same time, the build is certainly not slower.
        assert_eq!(
            judged(new(9.0, 1.0 / 0.9), &old),
            (Verdict::Disagree, none.clone())
        );
        // A clock change smaller than the limit does not prevent a verdict.
        assert_eq!(
            judged(new(10.0, 1.04), &old),
            (Verdict::Disagree, none.clone())
        );
        // Controls: cases in which cycles and time agree.
        assert_eq!(
            judged(new(11.0, 1.0), &old),
            (Verdict::Slower, slower.clone())
        );
        assert_eq!(judged(new(9.0, 1.0), &old), (Verdict::Faster, none.clone()));
        assert_eq!(judged(new(10.0, 1.0), &old), (Verdict::Same, none));
        // A record without times is judged by cycles alone.
        let before = old.clone().without_time();
        assert_eq!(judged(new(11.0, 0.75), &before), (Verdict::Slower, slower));
    }

    #[test]
    fn a_figure_lost_is_a_regression() {
        let mut lost = row("b", "default", None);
        judge(&mut lost, "a", None, true);
        assert_eq!(regressions(&[lost.clone()], 5.0, &|_| true).lost, [0]);
        assert_eq!(
            regressions(&[lost], 5.0, &|_| false),
            Regressions::default()
        );
    }

    #[test]
    fn a_record_is_matched_by_place_and_then_by_compiler() {
        let rows = [
            row("a", "default", Some(1.0)),
            row("a", "ubsan", Some(2.0)),
            row("b", "ubsan", Some(3.0)),
        ];
        let of =
            |cc, variant| of_record(&rows, &row(cc, variant, None)).and_then(|r| r.cycles_per_byte);
        assert_eq!(of("new", "default"), Some(1.0));
        assert_eq!(of("b", "ubsan"), Some(3.0));
        assert_eq!(of("new", "ubsan"), None);
    }

    #[test]
    fn what_is_no_record_is_refused_in_one_line() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("r.json");
        for (text, want) in [
            ("{", "cannot be the baseline"),
            ("{\"command\": \"speed\", \"rows\": []}", "'speed'"),
            (
                "{\"kiln\": \"9\", \"command\": \"compilers\", \"rows\": [{\"cc\": 1}]}",
                "another version's (9)",
            ),
        ] {
            fs::write(&file, text).unwrap();
            let e = Baseline::read(&file).unwrap_err();
            assert!(e.to_string().contains(want), "{e}");
            assert_eq!(e.exit_code(), 2);
        }
        // If a directory is given, the message names the record in it.
        let name = dir.path().to_str().unwrap();
        let refusal = || {
            let e = Baseline::find(name).unwrap_err();
            assert_eq!(e.exit_code(), 2);
            e.to_string()
        };
        assert!(refusal().contains("it is a directory: name a compiler"));
        fs::write(dir.path().join("compilers.json"), "{}").unwrap();
        assert!(refusal().ends_with("compilers.json'"));
    }
}
