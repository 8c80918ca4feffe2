//! `kiln speed --kunit`: shows the results of the tree's own KUnit benchmarks next to Kiln's
//! results for the same library functions.

use std::time::Instant;

use super::row::Row;
use kiln_timing::{Candidate, Messages};

/// How often each benchmark runs for a row with a long message. The highest of the means is used.
const TIMES: u64 = 10;
/// How often each benchmark runs for a row with a short message, and for every row with `--quick`,
/// because the time limit of `--quick` covers only Kiln's own samples.
const TIMES_FEW: u64 = 2;
/// Minimum length in bytes at which results are compared. For shorter messages, the call overhead
/// would matter.
const LONG: usize = 4096;
/// Maximum relative difference between results that count as agreeing.
const AGREE: f64 = 0.02;
/// Number of bytes over which a suite's benchmark averages. Each call counts as its length plus
/// `CALL` bytes.
const WINDOW: usize = 10_000_000;
const CALL: usize = 128;

/// Two throughputs in 10^6 bytes per second: the value that the benchmark reports, and the value
/// that Kiln obtains by timing the same calls with the benchmark's method.
pub(super) struct Means {
    pub kunit: f64,
    pub same_calls: f64,
}

/// One function's benchmark.
struct Turn<'c> {
    candidate: &'c Candidate<'c>,
    messages: Messages,
    best: Option<Means>,
}

/// Benchmarks that run between the samples of one length. Each benchmark alternates with the calls
/// of a row, so that both see the same clock frequency and the same disturbances.
pub(super) struct Turns<'c> {
    turns: Vec<Turn<'c>>,
    len: usize,
    times: u64,
    done: u64,
}

impl<'c> Turns<'c> {
    pub(super) fn new(len: usize, quick: bool) -> Turns<'c> {
        Turns {
            turns: Vec::new(),
            len,
            times: match quick || len < LONG {
                true => TIMES_FEW,
                false => TIMES,
            },
            done: 0,
        }
    }

    pub(super) fn add(&mut self, candidate: &'c Candidate<'c>, messages: &Messages) {
        self.turns.push(Turn {
            candidate,
            messages: messages.afresh(),
            best: None,
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
            if let Some(means) = turn.take(self.len) {
                turn.best = Some(match &turn.best {
                    None => means,
                    Some(best) => Means {
                        kunit: best.kunit.max(means.kunit),
                        same_calls: best.same_calls.max(means.same_calls),
                    },
                });
            }
        }
    }

    /// Returns the highest means of the `i`th candidate.
    pub(super) fn best(&self, i: usize) -> Option<&Means> {
        self.turns[i].best.as_ref()
    }
}

impl Turn<'_> {
    fn take(&mut self, len: usize) -> Option<Means> {
        let figures = self.candidate.beside.as_ref()?().ok()?;
        let (_, kunit) = figures.into_iter().find(|f| f.0 == len)?;
        let calls = (WINDOW / (len + CALL)) as u64;
        let mut run = || (self.candidate.run)(&mut self.messages, calls).ok();
        // Like the benchmark, start with an untimed run.
        run()?;
        let start = Instant::now();
        run()?;
        let us = start.elapsed().as_secs_f64() * 1e6;
        Some(Means {
            kunit,
            same_calls: len as f64 * calls as f64 / us,
        })
    }
}

/// Returns the relative difference between a row's two mean throughputs.
fn difference(row: &Row) -> Option<f64> {
    Some(row.kunit_mb_per_s? / row.mean_mb_per_s? - 1.0)
}

/// Formats a note that states how many rows agree, and lists the rows that do not.
pub(super) fn note(rows: &[Row]) -> Option<String> {
    let long = rows.iter().filter(|r| r.len >= LONG);
    let compared: Vec<(&Row, f64)> = long.filter_map(|r| Some((r, difference(r)?))).collect();
    if compared.is_empty() {
        return None;
    }
    let apart = compared.iter().filter(|(_, d)| d.abs() > AGREE);
    let apart: Vec<String> = apart
        .map(|(r, d)| format!("{} {} B {:+.1} %", r.imp, r.len, 100.0 * d))
        .collect();
    let mut note = format!(
        "KUnit's own benchmarks and the same calls, timed in turn over as many bytes, from {LONG} B on: {} of {} agree within {} %",
        compared.len() - apart.len(),
        compared.len(),
        100.0 * AGREE
    );
    if !apart.is_empty() {
        note += &format!("; not {}", apart.join(", "));
    }
    Some(note + "; a row's own result is its best sample and therefore above both")
}

/// Formats one line for each row that has a KUnit result. Returns an empty string if no row has
/// one.
pub(super) fn lines(rows: &[Row]) -> String {
    let mut text = String::new();
    for row in rows {
        if let (Some(kunit), Some(mean), Some(apart)) =
            (row.kunit_mb_per_s, row.mean_mb_per_s, difference(row))
        {
            text += &format!(
                "{:<20} {:>6} B  {mean:>8.0} MB/s  KUnit {kunit:>8.0} MB/s  {:+.1} %\n",
                row.imp,
                row.len,
                100.0 * apart
            );
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_agree_within_two_per_cent() {
        let row = |len, mb_per_s, kunit| Row {
            imp: "sha256".into(),
            len,
            mean_mb_per_s: Some(mb_per_s),
            kunit_mb_per_s: kunit,
            ..Row::default()
        };
        assert_eq!(note(&[row(4096, 2000.0, None)]), None);
        assert_eq!(note(&[row(16, 100.0, Some(50.0))]), None);
        let note = note(&[
            row(4096, 2000.0, Some(1961.0)),
            row(16384, 2000.0, Some(1950.0)),
        ]);
        let note = note.unwrap();
        assert!(note.contains("1 of 2 agree within 2 %"), "{note}");
        assert!(note.contains("; not sha256 16384 B -2.5 %;"), "{note}");
        let text = lines(&[row(4096, 2000.0, Some(1961.0)), row(64, 1.0, None)]);
        assert_eq!(text.lines().count(), 1, "{text}");
        assert!(text.contains("-1.9 %"), "{text}");
    }
}
