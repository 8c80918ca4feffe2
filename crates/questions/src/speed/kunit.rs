//! `kiln speed --kunit`: shows the results of the tree's own KUnit benchmarks next to Kiln's
//! results for the same library functions.

use kiln_measure::{median, ratio_of_rounds};
use kiln_timing::{Candidate, Messages};

use super::row::{Kunit, Row};

/// How often each benchmark runs, at first, for a row with a long message.
const TIMES: u64 = 12;
/// How often each benchmark runs for a row with a short message, and for every row with `--quick`,
/// because the time limit of `--quick` covers only Kiln's own samples.
const TIMES_FEW: u64 = 2;
/// Maximum number of runs for a row with a long message. Runs are added until the interval of the
/// ratio decides whether the results agree.
const TIMES_MOST: usize = 60;
/// Minimum length in bytes at which results are compared. For shorter messages, the call overhead
/// would matter.
const LONG: usize = 4096;
/// Maximum relative difference between results that count as agreeing.
const AGREE: f64 = 0.02;
/// Number of bytes over which a suite's benchmark averages. Each call counts as its length plus
/// `CALL` bytes.
const WINDOW: usize = 10_000_000;
const CALL: usize = 128;

/// One function's benchmark, and the row's calls, which are timed by the benchmark's method. Both
/// take turns, so that they see the same clock frequency and the same disturbances. The lists hold
/// the results of each turn, in 10^6 bytes per second.
struct Turn<'c> {
    candidate: &'c Candidate<'c>,
    messages: Messages,
    kunit: Vec<f64>,
    same_calls: Vec<f64>,
}

/// Benchmarks that run between the samples of one length.
pub(super) struct Turns<'c> {
    turns: Vec<Turn<'c>>,
    len: usize,
    times: u64,
    most: usize,
    done: u64,
}

impl<'c> Turns<'c> {
    pub(super) fn new(len: usize, quick: bool) -> Turns<'c> {
        let is_brief = quick || len < LONG;
        Turns {
            turns: Vec::new(),
            len,
            times: if is_brief { TIMES_FEW } else { TIMES },
            most: if is_brief { 0 } else { TIMES_MOST },
            done: 0,
        }
    }

    pub(super) fn add(&mut self, candidate: &'c Candidate<'c>, messages: &Messages) {
        self.turns.push(Turn {
            candidate,
            messages: messages.afresh(),
            kunit: Vec::new(),
            same_calls: Vec::new(),
        });
    }

    /// Runs the benchmarks that are due after `n` samples out of a total of `of`.
    pub(super) fn take(&mut self, n: u64, of: u64) {
        if n * self.times < self.done * of || self.done == self.times {
            return;
        }
        self.done += 1;
        for turn in &mut self.turns {
            // A failed benchmark leaves its result empty in the row.
            let _ = turn.take(self.len);
        }
    }

    /// Repeats the benchmarks for which the runs so far do not decide whether the results agree.
    /// Ends early if `stop` returns true.
    pub(super) fn decide(&mut self, stop: impl Fn() -> bool) {
        for turn in &mut self.turns {
            while turn.kunit.len() < self.most && !stop() {
                let undecided = |r: Kunit| agree(&r) == Agreement::CannotTell;
                if !turn.result().is_some_and(undecided) || turn.take(self.len).is_none() {
                    break;
                }
            }
        }
    }

    /// Returns the results of the `i`th candidate.
    pub(super) fn result(&self, i: usize) -> Option<Kunit> {
        self.turns[i].result()
    }
}

impl Turn<'_> {
    /// Runs the benchmark, and then the calls. The benchmark measures its long messages last, so both
    /// results are from the same few milliseconds.
    fn take(&mut self, len: usize) -> Option<()> {
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

/// Whether the benchmark and the same calls, timed by Kiln, have the same throughput.
#[derive(Debug, PartialEq)]
enum Agreement {
    Agree,
    Differ,
    /// The interval contains values of both kinds, or there are too few turns for an interval.
    CannotTell,
}

fn agree(result: &Kunit) -> Agreement {
    let Some((low, high)) = result.kunit_ratio_low.zip(result.kunit_ratio_high) else {
        return Agreement::CannotTell;
    };
    let (low, high) = (low - 1.0, high - 1.0);
    if low >= -AGREE && high <= AGREE {
        Agreement::Agree
    } else if low > AGREE || high < -AGREE {
        Agreement::Differ
    } else {
        Agreement::CannotTell
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

/// Formats a note that states how many rows agree, and lists the rows that do not.
pub(super) fn note(rows: &[Row]) -> Option<String> {
    let long = rows.iter().filter(|r| r.len >= LONG);
    let compared: Vec<(&Row, &Kunit)> = long.filter_map(|r| Some((r, r.kunit.as_ref()?))).collect();
    if compared.is_empty() {
        return None;
    }
    let names = |which: Agreement| {
        let those = compared.iter().filter(|(_, k)| agree(k) == which);
        let names = those.map(|(r, k)| format!("{} {} B {}", r.imp, r.len, percent(k)));
        names.collect::<Vec<_>>()
    };
    let (differ, cannot_tell) = (names(Agreement::Differ), names(Agreement::CannotTell));
    let mut note = format!(
        "KUnit's own benchmarks and the same calls, timed in turn over as many bytes, from {LONG} B on: {} of {} agree within {} %",
        compared.len() - differ.len() - cannot_tell.len(),
        compared.len(),
        100.0 * AGREE
    );
    if !differ.is_empty() {
        note += &format!("; different: {}", differ.join(", "));
    }
    if !cannot_tell.is_empty() {
        note += &format!("; cannot tell: {}", cannot_tell.join(", "));
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
            note.contains("; different: sha256 16384 B -2.5 % (-2.9 to -2.1);"),
            "{note}"
        );
        assert!(
            note.contains("; cannot tell: sha256 8192 B -1.5 % (-2.1 to -0.9);"),
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
            .contains("cannot tell: sha256 4096 B -1.0 %;"));
    }
}
