//! `kiln speed --kunit`: shows the results of the tree's own KUnit benchmarks next to Kiln's
//! results for the same library functions.

use kiln_measure::{median, ratio_of_rounds};
use kiln_timing::{Candidate, Messages};

use super::row::{Kunit, Row};

/// Initial number of runs of each benchmark for a row with a long message.
const RUNS: u64 = 12;
/// Number of runs of each benchmark for a row with a short message, and for every row with
/// `--quick`, because the time limit of `--quick` covers only Kiln's own samples.
const RUNS_BRIEF: u64 = 2;
/// Maximum number of runs for a row with a long message. Runs are added until the interval of the
/// ratio shows whether the results agree.
const RUNS_MAX: usize = 60;
/// Minimum length in bytes at which results are compared. For shorter messages, the call overhead
/// would matter.
const LONG: usize = 4096;
/// Maximum relative difference at which two results still agree.
const AGREE: f64 = 0.02;
/// Number of bytes over which a suite's benchmark averages. Each call counts as its length plus
/// `CALL` bytes.
const WINDOW: usize = 10_000_000;
const CALL: usize = 128;

/// Beginning of the note that summarizes all rows. `renew_note` uses it to find the note.
const NOTE: &str = "KUnit's own benchmarks and the same calls, timed in turn over as many bytes";

/// The KUnit benchmark of a function, and the row's calls to that function. The two are timed
/// alternately and by the same method, so that the clock frequency and any disturbances affect both
/// equally. Each list has one result per turn, in 10^6 bytes per second.
struct Comparison<'c> {
    candidate: &'c Candidate<'c>,
    messages: Messages,
    kunit: Vec<f64>,
    same_calls: Vec<f64>,
}

/// Benchmarks that run between and after the samples of one length.
pub(super) struct Comparisons<'c> {
    all: Vec<Comparison<'c>>,
    len: usize,
    /// Number of turns, spread evenly over the samples.
    runs: u64,
    /// Maximum number of turns. After the samples, an undecided comparison is repeated until it is
    /// decided or has had this many turns. If this value is 0, comparisons are never repeated.
    max: usize,
    done: u64,
}

impl<'c> Comparisons<'c> {
    pub(super) fn new(len: usize, quick: bool) -> Comparisons<'c> {
        let is_brief = quick || len < LONG;
        Comparisons {
            all: Vec::new(),
            len,
            runs: if is_brief { RUNS_BRIEF } else { RUNS },
            max: if is_brief { 0 } else { RUNS_MAX },
            done: 0,
        }
    }

    pub(super) fn add(&mut self, candidate: &'c Candidate<'c>, messages: &Messages) {
        self.all.push(Comparison {
            candidate,
            messages: messages.afresh(),
            kunit: Vec::new(),
            same_calls: Vec::new(),
        });
    }

    /// Runs the benchmarks that are due after `n` samples out of a total of `of`.
    pub(super) fn take(&mut self, n: u64, of: u64) {
        if n * self.runs < self.done * of || self.done == self.runs {
            return;
        }
        self.done += 1;
        for comparison in &mut self.all {
            // Ignore failures: a failed turn adds no result, and a row without results has no KUnit
            // fields.
            let _ = comparison.take_turn(self.len);
        }
    }

    /// Repeats each undecided comparison, up to `max` turns in all. Ends early if `stop` returns
    /// true.
    pub(super) fn repeat_undecided(&mut self, stop: impl Fn() -> bool) {
        let is_undecided = |r: Kunit| compare(&r) == Agreement::Undecided;
        for comparison in &mut self.all {
            while comparison.kunit.len() < self.max
                && !stop()
                && comparison.result().is_some_and(is_undecided)
                && comparison.take_turn(self.len).is_some()
            {}
        }
    }

    /// Returns the results of the `i`th candidate.
    pub(super) fn result(&self, i: usize) -> Option<Kunit> {
        self.all[i].result()
    }
}

impl Comparison<'_> {
    /// Runs the benchmark, and then the calls. The benchmark measures its long messages last, so
    /// for long messages, hardly any time passes between the two measurements.
    fn take_turn(&mut self, len: usize) -> Option<()> {
        let figures = (self.candidate.beside.as_ref()?.benchmark)().ok()?;
        let (_, kunit) = figures.into_iter().find(|f| f.0 == len)?;
        let same_calls = self.time_calls(len)?;
        self.kunit.push(kunit);
        self.same_calls.push(same_calls);
        Some(())
    }

    /// Returns the throughput of the row's calls, as the benchmark would calculate it.
    fn time_calls(&mut self, len: usize) -> Option<f64> {
        let calls = (WINDOW / (len + CALL)) as u64;
        let time = &self.candidate.beside.as_ref()?.time;
        // Like the benchmark, start with an untimed run.
        time(&mut self.messages, calls).ok()?;
        let ns = time(&mut self.messages, calls).ok()?;
        Some(len as f64 * calls as f64 * 1e3 / ns as f64)
    }

    fn result(&self) -> Option<Kunit> {
        let middle = |values: &[f64]| {
            let mut sorted = values.to_vec();
            sorted.sort_by(f64::total_cmp);
            median(&sorted)
        };
        let ratio = ratio_of_rounds(&self.kunit, &self.same_calls);
        Some(Kunit {
            kunit_mb_per_s: middle(&self.kunit)?,
            mean_mb_per_s: middle(&self.same_calls)?,
            kunit_ratio: ratio.map(|r| r.ratio),
            kunit_ratio_low: ratio.map(|r| r.low),
            kunit_ratio_high: ratio.map(|r| r.high),
        })
    }
}

/// Whether the benchmark and Kiln's timing of the same calls agree within `AGREE`.
#[derive(Debug, PartialEq)]
enum Agreement {
    Agree,
    Differ,
    /// The interval crosses the limit, or there are too few turns for an interval.
    Undecided,
}

fn compare(result: &Kunit) -> Agreement {
    let Some((low, high)) = result.kunit_ratio_low.zip(result.kunit_ratio_high) else {
        return Agreement::Undecided;
    };
    let (low, high) = (low - 1.0, high - 1.0);
    if low >= -AGREE && high <= AGREE {
        Agreement::Agree
    } else if low > AGREE || high < -AGREE {
        Agreement::Differ
    } else {
        Agreement::Undecided
    }
}

fn percent(result: &Kunit) -> String {
    let part = |ratio: Option<f64>| Some(100.0 * (ratio? - 1.0));
    let of_medians = part(Some(result.kunit_mb_per_s / result.mean_mb_per_s));
    let ratio = part(result.kunit_ratio).or(of_medians).unwrap_or_default();
    match part(result.kunit_ratio_low).zip(part(result.kunit_ratio_high)) {
        Some((low, high)) => format!("{ratio:+.1} % ({low:+.1} to {high:+.1})"),
        None => format!("{ratio:+.1} %"),
    }
}

/// Returns the algorithms of the rows in which KUnit's and Kiln's results differ, without
/// duplicates. Rows with short messages are ignored.
pub(super) fn algs_that_differ(rows: &[Row]) -> Vec<String> {
    let differs = |r: &&Row| is_compared(r) == Some(Agreement::Differ);
    let mut algs: Vec<String> = rows
        .iter()
        .filter(differs)
        .map(|r| r.alg.to_string())
        .collect();
    algs.dedup();
    algs
}

/// If the two results in a row differ, extends the interval of their ratio to include the interval
/// that another process measured for the same row. The results then still count as different only
/// if they differ in the same direction in both processes. This rules out effects of a single
/// process, such as the placement of its memory, which are not properties of the code.
pub(super) fn confirm(rows: &mut [Row], again: &[Row]) {
    for row in rows {
        if is_compared(row) != Some(Agreement::Differ) {
            continue;
        }
        let is_same = |r: &&Row| {
            (&r.imp, &r.alg, &r.op, r.key_bits, r.len)
                == (&row.imp, &row.alg, &row.op, row.key_bits, row.len)
        };
        let second = again.iter().find(is_same).and_then(|r| r.kunit.as_ref());
        let (Some(first), Some(second)) = (&mut row.kunit, second) else {
            continue;
        };
        let both = |a: Option<f64>, b: Option<f64>, f: fn(f64, f64) -> f64| Some(f(a?, b?));
        first.kunit_ratio = both(first.kunit_ratio, second.kunit_ratio, |a, b| (a * b).sqrt());
        first.kunit_ratio_low = both(first.kunit_ratio_low, second.kunit_ratio_low, f64::min);
        first.kunit_ratio_high = both(first.kunit_ratio_high, second.kunit_ratio_high, f64::max);
    }
}

/// Returns whether the row's two results agree. Returns `None` if the row has no KUnit result or
/// its message is too short for a comparison.
fn is_compared(row: &Row) -> Option<Agreement> {
    let kunit = row.kunit.as_ref().filter(|_| row.len >= LONG)?;
    Some(compare(kunit))
}

/// Replaces the note about the results of the first process with a note about these rows.
pub(super) fn renew_note(notes: &mut [String], rows: &[Row]) {
    if let Some(old) = notes.iter_mut().find(|note| note.starts_with(NOTE)) {
        *old = note(rows).unwrap_or_default();
    }
}

/// Formats a note that states how many rows agree, and lists the rows that do not.
pub(super) fn note(rows: &[Row]) -> Option<String> {
    let long = rows.iter().filter(|r| r.len >= LONG);
    let compared: Vec<(&Row, &Kunit)> = long.filter_map(|r| Some((r, r.kunit.as_ref()?))).collect();
    if compared.is_empty() {
        return None;
    }
    let names = |which: Agreement| {
        let those = compared.iter().filter(|(_, k)| compare(k) == which);
        let names = those.map(|(r, k)| format!("{} {} B {}", r.imp, r.len, percent(k)));
        names.collect::<Vec<_>>()
    };
    let (differ, undecided) = (names(Agreement::Differ), names(Agreement::Undecided));
    let mut note = format!(
        "{NOTE}, from {LONG} B on: {} of {} agree within {} %",
        compared.len() - differ.len() - undecided.len(),
        compared.len(),
        100.0 * AGREE
    );
    if !differ.is_empty() {
        note += &format!("; differ (KUnit to Kiln): {}", differ.join(", "));
    }
    if !undecided.is_empty() {
        note += &format!("; cannot tell (KUnit to Kiln): {}", undecided.join(", "));
    }
    Some(note + "; a row's own result is its best sample and therefore above both")
}

/// Formats one line for each row that has a KUnit result. Returns an empty string if no row has
/// one.
pub(super) fn lines(rows: &[Row]) -> String {
    let mut text = String::new();
    for row in rows {
        if let Some(result) = &row.kunit {
            text += &format!(
                "{:<20} {:>6} B  {:>8.0} MB/s  KUnit {:>8.0} MB/s  {}\n",
                row.imp,
                row.len,
                result.mean_mb_per_s,
                result.kunit_mb_per_s,
                percent(result)
            );
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(len: usize, ratio: f64, reach: f64) -> Row {
        Row {
            imp: "sha256".into(),
            alg: "sha256".into(),
            len,
            kunit: Some(Kunit {
                kunit_mb_per_s: 2000.0 * ratio,
                mean_mb_per_s: 2000.0,
                kunit_ratio: Some(ratio),
                kunit_ratio_low: Some(ratio - reach),
                kunit_ratio_high: Some(ratio + reach),
            }),
            ..Row::default()
        }
    }

    #[test]
    fn a_row_differs_only_if_it_differs_in_two_processes() {
        let verdicts = |first: f64, second: Option<f64>| {
            let mut rows = [row(4096, first, 0.004), row(64, 0.5, 0.0)];
            let before = algs_that_differ(&rows);
            let again: Vec<Row> = second
                .map(|ratio| row(4096, ratio, 0.004))
                .into_iter()
                .collect();
            confirm(&mut rows, &again);
            (before.len(), is_compared(&rows[0]).unwrap())
        };
        assert_eq!(verdicts(1.28, Some(1.03)), (1, Agreement::Differ));
        assert_eq!(verdicts(1.28, Some(1.01)), (1, Agreement::Undecided));
        assert_eq!(verdicts(1.28, Some(0.95)), (1, Agreement::Undecided));
        assert_eq!(verdicts(1.28, None), (1, Agreement::Differ));
        // A row that agrees is not measured again, so nothing changes it.
        assert_eq!(verdicts(1.01, Some(1.28)), (0, Agreement::Agree));
        let mut rows = [row(4096, 1.28, 0.004)];
        let mut notes = vec!["other".to_string(), note(&rows).unwrap()];
        assert!(notes[1].contains("; differ"), "{}", notes[1]);
        confirm(&mut rows, &[row(4096, 1.01, 0.004)]);
        renew_note(&mut notes, &rows);
        assert_eq!(notes[0], "other");
        assert!(
            notes[1].contains("sha256 4096 B +13.7 % (+0.6 to +28.4)"),
            "{}",
            notes[1]
        );
        assert!(notes[1].contains("; cannot tell"), "{}", notes[1]);
    }

    #[test]
    fn results_agree_if_the_whole_interval_is_within_two_per_cent() {
        let without = Row {
            len: 4096,
            ..Row::default()
        };
        assert_eq!(note(&[without]), None);
        assert_eq!(note(&[row(16, 0.5, 0.0)]), None);
        let rows = [
            row(4096, 0.985, 0.004),
            row(8192, 0.985, 0.006),
            row(16384, 0.975, 0.004),
        ];
        let note = note(&rows).unwrap();
        assert!(note.contains("1 of 3 agree within 2 %"), "{note}");
        assert!(
            note.contains("; differ (KUnit to Kiln): sha256 16384 B -2.5 % (-2.9 to -2.1);"),
            "{note}"
        );
        assert!(
            note.contains("; cannot tell (KUnit to Kiln): sha256 8192 B -1.5 % (-2.1 to -0.9);"),
            "{note}"
        );
        let text = lines(&[row(4096, 0.985, 0.004), Row::default()]);
        assert_eq!(text.lines().count(), 1, "{text}");
        assert!(text.contains("-1.5 % (-1.9 to -1.1)"), "{text}");
        let mut few = row(4096, 0.99, 0.0);
        let kunit = few.kunit.as_mut().unwrap();
        (kunit.kunit_ratio_low, kunit.kunit_ratio_high) = (None, None);
        assert!(lines(&[few.clone()]).contains("-1.0 %\n"));
        assert!(super::note(&[few])
            .unwrap()
            .contains("cannot tell (KUnit to Kiln): sha256 4096 B -1.0 %;"));
    }
}
