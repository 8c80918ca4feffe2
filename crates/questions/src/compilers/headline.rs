//! Headlines about how compilers affect a cipher's speed.

use kiln_question::survey::words::{figure, has, number, word};
use kiln_question::survey::{Estimate, Row, Runs, Topic};
use serde_json::Value;

pub(super) static TOPIC: Topic = Topic {
    name: "compilers",
    title: "Which compiler ruins which cipher?",
    command: "kiln compilers",
    source: Some("gcc bug 83651, Bergmann, 2018; Threadripper"),
};

/// Cycles per byte of the fastest and the slowest build at -O2 in gcc bug 83651.
const CELLS: (f64, f64) = (13.5, 124.7);
/// Published ratio of gcc 7.2's cycles per byte to gcc 7.1's, both at -O2 without further flags on
/// a Threadripper.
const NEWER_GCC: f64 = 16.8 / 13.5;
/// Smallest ratio that is reported. Smaller differences could disappear with a different code
/// placement (docs/COMPILERS.md).
const FLOOR: f64 = 1.02;

/// A cell at -O2, the level that the published table uses.
struct Cell<'a> {
    cc: &'a str,
    variant: &'a str,
    /// Cycles per byte.
    cycles: Estimate,
    /// Nanoseconds per byte; `None` for old records, which have no times.
    time: Option<Estimate>,
}

impl Cell<'_> {
    fn name(&self) -> String {
        match self.variant {
            "default" => self.cc.to_string(),
            variant => format!("{} {variant}", self.cc),
        }
    }

    /// Like [`Cell::name`], but worded for a sentence: "plain gcc-12" for a build without flags
    /// besides `-O2`, otherwise "gcc-12 with ubsan".
    fn described(&self) -> String {
        match self.variant {
            "default" => format!("plain {}", self.cc),
            variant => format!("{} with {variant}", self.cc),
        }
    }
}

/// Returns the cost per byte of one build, from the rows of one process. `field` selects cycles or
/// nanoseconds.
fn cost(rows: &[&Value], cc: &str, variant: &str, field: &str) -> Option<f64> {
    let wanted = [
        ("opt", "O2"),
        ("status", "ok"),
        ("cc", cc),
        ("variant", variant),
    ];
    let row = rows.iter().find(|r| has(r, &wanted))?;
    number(row, field)
}

const CYCLES: &str = "cycles_per_byte";
const TIME: &str = "ns_per_byte";

/// Returns the builds at -O2, fastest first. If `variant` is given, returns only builds of that
/// variant.
fn cells_at_o2<'a>(runs: &Runs<'a>, variant: Option<&str>) -> Vec<Cell<'a>> {
    let rows = runs.first().iter().copied();
    let mut cells: Vec<Cell> = rows
        .filter(|r| has(r, &[("opt", "O2"), ("status", "ok")]))
        .map(|r| (word(r, "cc"), word(r, "variant")))
        .filter(|cell| variant.is_none_or(|v| v == cell.1))
        .filter_map(|(cc, variant)| {
            Some(Cell {
                cc,
                variant,
                cycles: runs.estimate(|rows| cost(rows, cc, variant, CYCLES))?,
                time: runs.estimate(|rows| cost(rows, cc, variant, TIME)),
            })
        })
        .collect();
    cells.sort_by(|a, b| a.cycles.value.total_cmp(&b.cycles.value));
    cells
}

/// Divides the cost of the slowest build by the cost of the fastest, in each process, and returns
/// an estimate of the ratio.
fn spread(runs: &Runs, fastest: &Cell, slowest: &Cell, field: &str) -> Option<Estimate> {
    runs.estimate(|rows| {
        let of = |cell: &Cell| cost(rows, cell.cc, cell.variant, field);
        Some(of(slowest)? / of(fastest)?)
    })
}

/// Whether the slowest build is really slower than the fastest. Even among equally fast builds, one
/// comes out slowest by chance.
#[derive(Clone, Debug, PartialEq)]
enum Apart {
    Yes,
    No,
    /// Cycles and time disagree on whether the slowest build is slower than the fastest. Holds the
    /// ratio of the times.
    Disagree(Estimate),
    /// The survey had only one process, so there are no intervals.
    CannotTell,
}

/// Judges whether the slowest build is really slower, by the ratio of cycles and, if the records
/// contain times, also by the ratio of times.
fn judge(runs: &Runs, fastest: &Cell, slowest: &Cell, cycles: &Estimate) -> Apart {
    let Some(apart) = is_apart(&fastest.cycles, &slowest.cycles, cycles) else {
        return Apart::CannotTell;
    };
    let time = || {
        let ratio = spread(runs, fastest, slowest, TIME)?;
        let apart = is_apart(fastest.time.as_ref()?, slowest.time.as_ref()?, &ratio)?;
        Some((ratio, apart))
    };
    match time() {
        Some((ratio, other)) if other != apart => Apart::Disagree(ratio),
        _ if apart => Apart::Yes,
        _ => Apart::No,
    }
}

/// Returns whether the slowest build is expected to be slower than the fastest in every rerun, and
/// by more than [`FLOOR`]. For a few dozen equally fast builds, the result is `false`. Returns
/// `None` if the estimates have no intervals.
fn is_apart(fastest: &Estimate, slowest: &Estimate, ratio: &Estimate) -> Option<bool> {
    Some(slowest.low? > fastest.high? && ratio.low? > FLOOR)
}

/// Builds the headline about all builds at -O2, with and without sanitizers.
pub(super) fn cells(runs: &Runs) -> Option<Row> {
    let cells = cells_at_o2(runs, None);
    let [fastest, .., slowest] = cells.as_slice() else {
        return None;
    };
    let ratio = spread(runs, fastest, slowest, CYCLES)?;
    let named = format!(
        "{}, takes {} cycles per byte, {} times{} as many as the fastest, {} ({})",
        slowest.name(),
        figure(slowest.cycles.value),
        figure(ratio.value),
        ratio.interval(figure),
        fastest.name(),
        figure(fastest.cycles.value),
    );
    let text = match judge(runs, fastest, slowest, &ratio) {
        Apart::Yes => format!(
            "The slowest -O2 build of AES-256-CBC (C code), {named}. In 2018, the slowest build of this cipher took {} times as many \
             cycles as the fastest (Bergmann, gcc 4.3 to 8, clang 5, Threadripper)",
            figure(CELLS.1 / CELLS.0)
        ),
        Apart::No => format!(
            "No difference of more than 2 % found between {} -O2 builds of AES-256-CBC (C code). If these builds are run again, they are expected to take {} cycles per byte",
            cells.len(),
            range(&cells)
        ),
        Apart::Disagree(time) => format!(
            "Cycles and time disagree about the -O2 builds of AES-256-CBC (C code), because the core's clock was not the same. The \
             slowest build by cycles, {named}. By time, the former takes {} times{} as long as the latter",
            figure(time.value),
            time.interval(figure)
        ),
        Apart::CannotTell => {
            format!("Measured once, so no verdict. The slowest -O2 build of AES-256-CBC (C code), {named}")
        }
    };
    let verdict = match judge(runs, fastest, slowest, &ratio) {
        Apart::Yes => format!(
            "Slowest AES-CBC build: {} times{} the cycles of the fastest",
            figure(ratio.value),
            ratio.interval(figure)
        ),
        Apart::No => format!(
            "AES-CBC: no difference of over 2 % found between {} builds",
            cells.len()
        ),
        Apart::CannotTell => format!(
            "Slowest AES-CBC build: {} times the cycles of the fastest, measured once",
            figure(ratio.value)
        ),
        Apart::Disagree(_) => "AES-CBC: cannot tell, cycles and time disagree".to_string(),
    };
    let detail = format!(
        "At -O2, AES-256-CBC in C takes {} cycles per byte if built by {}, and {} if built by {}",
        figure(slowest.cycles.value),
        slowest.described(),
        figure(fastest.cycles.value),
        fastest.described()
    );
    let row = Row::estimate(&TOPIC, &ratio, "times", text).with_verdict(verdict);
    Some(row.with_detail(detail))
}

/// Builds the headline about default builds at -O2, if there is more than one compiler.
pub(super) fn compilers(runs: &Runs) -> Option<Row> {
    let cells = cells_at_o2(runs, Some("default"));
    let [fastest, .., slowest] = cells.as_slice() else {
        return None;
    };
    let ratio = spread(runs, fastest, slowest, CYCLES)?;
    let percent = |x: f64| format!("{:.1}", 100.0 * (x - 1.0).max(0.0));
    let text = match judge(runs, fastest, slowest, &ratio) {
        Apart::Yes => format!(
            "At -O2 without further flags, AES-256-CBC compiled by {} takes {} %{} more cycles than compiled by {} ({} compilers tested). \
             In 2018, code from gcc 7.2 took {} % more than code from gcc 7.1",
            slowest.name(),
            percent(ratio.value),
            ratio.interval(percent),
            fastest.name(),
            cells.len(),
            percent(NEWER_GCC)
        ),
        Apart::No => format!(
            "AES-256-CBC at -O2 without further flags: no difference of more than 2 % found between {} compilers. If the code of these \
             compilers is run again, it is expected to take {} cycles per byte",
            cells.len(),
            range(&cells)
        ),
        Apart::Disagree(time) => format!(
            "Plain -O2: cycles and time disagree, because the core's clock was not the same: code from {} takes {} times{} the \
             cycles of code from {}, but {} times{} the time",
            slowest.name(),
            figure(ratio.value),
            ratio.interval(figure),
            fastest.name(),
            figure(time.value),
            time.interval(figure)
        ),
        Apart::CannotTell => format!(
            "Plain -O2, measured once: {} compilers are within {} % of each other",
            cells.len(),
            percent(ratio.value)
        ),
    };
    let verdict = match judge(runs, fastest, slowest, &ratio) {
        Apart::Yes => format!(
            "Plain -O2: {} takes {} %{} more cycles than {}",
            slowest.name(),
            percent(ratio.value),
            ratio.interval(percent),
            fastest.name()
        ),
        Apart::No => format!(
            "AES-CBC at plain -O2: no difference of over 2 % found between {} compilers",
            cells.len()
        ),
        Apart::Disagree(_) => "Plain -O2: cannot tell, cycles and time disagree".to_string(),
        Apart::CannotTell => format!(
            "Plain -O2: {} compilers within {} % of each other, measured once",
            cells.len(),
            percent(ratio.value)
        ),
    };
    Some(Row::estimate(&TOPIC, &ratio, "times", text).with_verdict(verdict))
}

/// Formats the range in which the results are expected to fall if the builds are timed again.
fn range(cells: &[Cell]) -> String {
    let lows = cells.iter().filter_map(|c| c.cycles.low);
    let highs = cells.iter().filter_map(|c| c.cycles.high);
    let low = lows.fold(f64::INFINITY, f64::min);
    let high = highs.fold(0.0, f64::max);
    format!("{} to {}", figure(low), figure(high))
}

#[cfg(test)]
mod tests {
    use super::super::survey::COMPILERS;
    use super::*;
    use crate::testing::{answer, sentences, verdicts};
    use kiln_question::survey::Answer;
    use kiln_question::survey::PROCESSES;
    use serde_json::json;

    /// Creates the results of several simulated survey processes. The results for the same build
    /// differ by at most 0.4 % between processes.
    fn answers(cells: &[(&str, &str, &str, &str, f64)], processes: usize) -> Vec<Answer> {
        answers_at(cells, processes, &|_| 0.25)
    }

    /// Creates the same results as `answers`, except that `ns(i)` is the number of nanoseconds per
    /// cycle of the `i`-th build.
    fn answers_at(
        cells: &[(&str, &str, &str, &str, f64)],
        processes: usize,
        ns: &dyn Fn(usize) -> f64,
    ) -> Vec<Answer> {
        let process = |k: usize| {
            let rows: Vec<Value> = cells
                .iter()
                .enumerate()
                .map(|(i, (cc, variant, opt, status, cycles))| {
                    let noise = 1.0 + 0.001 * ((k + i) % 5) as f64;
                    json!({"cc": cc, "variant": variant, "opt": opt, "status": status,
                           "cycles_per_byte": cycles * noise, "ns_per_byte": cycles * noise * ns(i)})
                })
                .collect();
            answer(&COMPILERS, Value::Array(rows))
        };
        (0..processes).map(process).collect()
    }

    const SPREAD: [(&str, &str, &str, &str, f64); 6] = [
        ("gcc-12", "default", "O2", "ok", 12.0),
        ("gcc-12", "ubsan", "O2", "ok", 60.0),
        ("gcc-12", "ubsan", "O3", "ok", 99.0),
        ("clang-14", "patched", "O2", "wrong", 1.0),
        ("clang-14", "default", "O2", "ok", 15.0),
        ("-", "-", "-", "ok", 2.0),
    ];

    #[test]
    fn the_slowest_build_is_named_with_its_interval() {
        let all = sentences(&TOPIC, &answers(&SPREAD, PROCESSES));
        assert!(
            all[0].contains("gcc-12 ubsan, takes 60.1 cycles per byte, 5.00 times ("),
            "{all:?}"
        );
        assert!(
            all[0].contains("as many as the fastest, gcc-12 (12.0)"),
            "{all:?}"
        );
        assert!(
            all[1].contains("compiled by clang-14 takes 24.9 % ("),
            "{all:?}"
        );
        assert_eq!(
            verdicts(&TOPIC, &answers(&SPREAD, PROCESSES)),
            [
                "Slowest AES-CBC build: 5.00 times (4.97 to 5.03) the cycles of the fastest",
                "Plain -O2: clang-14 takes 24.9 % (24.2 to 25.9) more cycles than gcc-12"
            ]
        );
    }

    #[test]
    fn equal_compilers_have_no_culprit() {
        let equal = [
            ("gcc-12", "default", "O2", "ok", 12.00),
            ("clang-14", "default", "O2", "ok", 12.01),
            ("clang-22", "default", "O2", "ok", 12.02),
            ("gcc-11", "default", "O2", "ok", 12.005),
        ];
        let all = sentences(&TOPIC, &answers(&equal, PROCESSES));
        assert!(
            all[0].starts_with("No difference of more than 2 % found between 4 -O2 builds"),
            "{all:?}"
        );
        assert!(
            all[1]
                .starts_with("AES-256-CBC at -O2 without further flags: no difference of more than 2 % found between 4 compilers"),
            "{all:?}"
        );
    }

    #[test]
    fn a_culprit_needs_cycles_and_time() {
        let two = [
            ("gcc-12", "default", "O2", "ok", 12.0),
            ("clang-14", "default", "O2", "ok", 15.0),
        ];
        let said = |ns: f64| {
            let at = |i| if i == 1 { ns } else { 0.25 };
            sentences(&TOPIC, &answers_at(&two, PROCESSES, &at))
        };
        // This build takes more cycles but the same time, because its clock frequency is higher.
        let all = said(0.2);
        assert!(all[0].starts_with("Cycles and time disagree"), "{all:?}");
        assert!(
            all[0].ends_with(
                ". By time, the former takes 1.00 times (0.99 to 1.01) as long as the latter"
            ),
            "{all:?}"
        );
        assert!(
            all[1].contains("code from clang-14 takes 1.25 times ("),
            "{all:?}"
        );
        assert!(!all[1].contains("more cycles than"), "{all:?}");
        // Control: all builds run at the same clock frequency.
        let all = said(0.25);
        assert!(all[0].starts_with("The slowest"), "{all:?}");
        assert!(
            all[1].contains("more cycles than compiled by gcc-12"),
            "{all:?}"
        );
    }

    #[test]
    fn equal_cycles_in_different_times_are_not_called_equal() {
        let two = [
            ("gcc-12", "default", "O2", "ok", 12.0),
            ("clang-14", "default", "O2", "ok", 12.1),
        ];
        let at = |i| if i == 1 { 0.3 } else { 0.25 };
        let all = sentences(&TOPIC, &answers_at(&two, PROCESSES, &at));
        assert!(all[1].contains("cycles and time disagree"), "{all:?}");
    }

    #[test]
    fn the_other_compiler_is_named_when_it_is_the_slow_one() {
        let mut cells = SPREAD;
        (cells[0].4, cells[4].4) = (15.0, 12.0);
        let all = sentences(&TOPIC, &answers(&cells, PROCESSES));
        assert!(
            all[1].contains("compiled by gcc-12 takes")
                && all[1].contains("than compiled by clang-14"),
            "{all:?}"
        );
    }

    #[test]
    fn one_process_names_no_culprit_and_one_compiler_is_not_compared() {
        let all = sentences(&TOPIC, &answers(&SPREAD, 1));
        assert!(
            all[0].contains("Measured once") && !all[0].contains("2018"),
            "{all:?}"
        );
        assert!(
            all[1].contains("measured once") && !all[1].contains("compiled by"),
            "{all:?}"
        );
        assert_eq!(
            sentences(&TOPIC, &answers(&SPREAD[..1], PROCESSES)).len(),
            0
        );
    }
}
