//! Formats a comparison as a paragraph of a commit message, with at most 72 columns per line,
//! indented by four spaces.

use std::collections::BTreeSet;

use kiln_measure::Verdict;
use kiln_question::table::{figure, wrap};

use super::row::{Row, Tally};
use super::side::{Origin, Side, Subject};

const WIDTH: usize = 72;
const INDENT: &str = "    ";

/// Number of columns available for text.
const ROOM: usize = WIDTH - INDENT.len();

/// Maximum number of values to list for a condition in which the records of a side differ.
const MOST: usize = 3;

/// Formats a description of what was measured, on which machine and with which command, followed by
/// one table per algorithm, whose rows are sorted by implementation and length. `turns` is the
/// number of turns per side if the two sides were measured in alternation.
pub(super) fn message(
    a: &Side,
    b: &Side,
    rows: &[Row],
    tally: &Tally,
    turns: Option<usize>,
) -> String {
    let mut lines = head(a, b, rows, turns);
    let mut rows: Vec<&Row> = rows.iter().collect();
    rows.sort_by(|x, y| order(x).cmp(&order(y)));
    for block in rows.chunk_by(|x, y| heading(x) == heading(y)) {
        lines.push(String::new());
        lines.extend(table(block));
    }
    let unclear = rows.iter().filter(|r| r.verdict.is_none()).count();
    let missing = [
        (tally.only_a, "only before"),
        (tally.only_b, "only after"),
        (
            tally.unjudged.saturating_sub(unclear),
            "ambiguous or in different units",
        ),
    ];
    let missing = missing.iter().filter(|(n, _)| *n > 0);
    let missing: Vec<String> = missing.map(|(n, what)| format!("{n} {what}")).collect();
    if !missing.is_empty() {
        lines.push(String::new());
        lines.extend(wrapped(&format!("Not compared: {}.", missing.join(", "))));
    }
    let indented = |line: String| match line.as_str() {
        "" => "\n".to_string(),
        line => format!("{INDENT}{line}\n"),
    };
    lines.into_iter().map(indented).collect()
}

/// Wraps text. Words that are longer than a line, such as paths, are split.
fn wrapped(text: &str) -> Vec<String> {
    let room = ROOM - 2;
    let divide = |word: &str| -> String {
        let letters: Vec<char> = word.chars().collect();
        let pieces = letters.chunks(room).map(String::from_iter);
        pieces.collect::<Vec<_>>().join(" ")
    };
    let words: Vec<String> = text.split(' ').map(divide).collect();
    let text = wrap(&words.join(" "), ROOM);
    text.lines().map(String::from).collect()
}

/// A fact about a side: a label, and a function that returns the values in the side's records.
type Fact = (&'static str, fn(&Origin) -> &BTreeSet<String>);

fn head(a: &Side, b: &Side, rows: &[Row], turns: Option<usize>) -> Vec<String> {
    let mut lines = wrapped(&format!("Before: {}", a.title));
    lines.extend(wrapped(&format!("After: {}", b.title)));
    let facts: [Fact; 4] = [
        ("CPU", |o| &o.cpu),
        ("Compiler", |o| &o.compiler),
        ("Measured by", |o| &o.program),
        ("Command", |o| &o.command),
    ];
    for (label, of) in facts {
        let [before, after] = [of(&a.origin), of(&b.origin)].map(list);
        let both = match before == after {
            true => vec![(label.to_string(), before)],
            false => vec![
                (format!("{label} (before)"), before),
                (format!("{label} (after)"), after),
            ],
        };
        for (label, text) in both.iter().filter(|(_, text)| !text.is_empty()) {
            lines.extend(wrapped(&format!("{label}: {text}")));
        }
    }
    let quick = match (a.origin.quick, b.origin.quick) {
        (true, true) => "Measured with --quick",
        (true, false) => "Before was measured with --quick",
        (false, true) => "After was measured with --quick",
        (false, false) => "",
    };
    if !quick.is_empty() {
        let meaning = "a short run, whose intervals are wider";
        lines.extend(wrapped(&format!("{quick}: {meaning}")));
    }
    let units: BTreeSet<String> = rows.iter().map(unit).collect();
    let units: Vec<String> = units.into_iter().collect();
    lines.extend(wrapped(&format!("Unit: {}", units.join("; "))));
    if rows.iter().any(|r| r.ci_low.is_some()) {
        let interval = match turns {
            Some(n) => format!("95 % interval, from {n} alternating turns of each"),
            None => "range that the intervals of both results allow".to_string(),
        };
        lines.extend(wrapped(&format!("In parentheses: {interval}")));
    }
    lines
}

/// Joins the values of a condition. There are several values if the records of one side differ.
fn list(values: &BTreeSet<String>) -> String {
    let shown: Vec<&str> = values.iter().take(MOST).map(String::as_str).collect();
    let text = shown.join("; ");
    match values.len().saturating_sub(MOST) {
        0 => text,
        n => format!("{text}; and {n} more"),
    }
}

pub(super) fn unit(row: &Row) -> String {
    let name = match row.unit {
        "cycles_per_op" => "cycles per call".to_string(),
        other => other.replace('_', " "),
    };
    let better = if row.less { "less" } else { "more" };
    format!("{name}, {better} is better")
}

/// Returns what the rows of a table have in common. Returns an empty string for rows that do not
/// name an implementation and a length.
fn heading(row: &Row) -> String {
    let Some(subject) = &row.subject else {
        return String::new();
    };
    let Subject {
        alg,
        op,
        key_bits,
        level,
        ..
    } = subject;
    let bits = match key_bits {
        0 => String::new(),
        n => format!(", {n} bit"),
    };
    let level = match level.as_str() {
        "primitive" => "called directly",
        "api" => "crypto API",
        "library" => "library function",
        other => other,
    };
    format!("{alg} {op}{bits}, {level}")
}

/// Formats rows that have the same heading: one line per implementation, followed by one line per
/// length.
fn table(rows: &[&Row]) -> Vec<String> {
    let mut lines = wrapped(&heading(rows[0]));
    lines.retain(|line| !line.is_empty());
    let cells: Vec<[String; 4]> = rows.iter().map(|row| cells(row)).collect();
    let names = ["length", "before", "after", "change"];
    let names = names.map(String::from);
    let width = |i: usize| {
        let all = cells.iter().chain([&names]).map(|c| c[i].chars().count());
        all.max().unwrap_or(0)
    };
    let widths = [0, 1, 2, 3].map(width);
    let join = |cells: &[String; 4]| {
        let numbers = cells.iter().zip(widths).take(3);
        let numbers = numbers.map(|(cell, width)| format!("{cell:>width$}"));
        // Omit the length column if the rows have no length.
        let first = usize::from(rows[0].subject.is_none());
        format!("  {}", numbers.skip(first).collect::<Vec<_>>().join("  "))
    };
    lines.push(format!("{}  {}", join(&names), names[3]));
    let rule = widths.map(|width| "-".repeat(width));
    let ruled = format!("{}  {}", join(&rule), rule[3]);
    lines.push(ruled.chars().take(ROOM).collect());
    let mut last = None;
    for (row, cells) in rows.iter().zip(&cells) {
        let name = match &row.subject {
            Some(subject) => &subject.implementation,
            None => &row.key,
        };
        if last != Some(name) {
            lines.extend(wrapped(name));
            last = Some(name);
        }
        let numbers = join(cells);
        let line = format!("{numbers}  {}", cells[3]);
        match line.chars().count() <= ROOM {
            true => lines.push(line),
            false => {
                lines.push(numbers);
                lines.extend(wrapped(&format!("      {}", cells[3].trim_start())));
            }
        }
    }
    lines
}

fn cells(row: &Row) -> [String; 4] {
    let length = row.subject.as_ref().map(|subject| subject.len.to_string());
    [
        length.unwrap_or_default(),
        figure(row.a),
        figure(row.b),
        judge(row),
    ]
}

/// Describes the change in words. For a row without a verdict, the text contains no numbers, so
/// that readers cannot quote them.
fn judge(row: &Row) -> String {
    match (row.verdict, interval(row)) {
        (Some(Verdict::Faster), Some(interval)) => format!("{interval}  faster"),
        (Some(Verdict::Slower), Some(interval)) => format!("{interval}  slower"),
        (Some(Verdict::Same), Some(_)) => format!("no difference found ({})", ends(row)),
        (Some(Verdict::Disagree), _) => {
            let shown = |ratio: Option<f64>| percent(row, ratio.unwrap_or(f64::NAN));
            let (cycles, time) = (shown(row.ratio), shown(row.time_ratio));
            format!("cannot tell: cycles {cycles:+.1}%, time {time:+.1}%")
        }
        _ if !row.a.is_finite() => "cannot tell: no result before".to_string(),
        _ if !row.b.is_finite() => "cannot tell: no result after".to_string(),
        _ => "cannot tell: no interval".to_string(),
    }
}

/// Returns the change in per cent. A ratio compares costs, so the change in a rate is computed from
/// the inverse of the ratio.
fn percent(row: &Row, ratio: f64) -> f64 {
    match row.less {
        true => (ratio - 1.0) * 100.0,
        false => (1.0 / ratio - 1.0) * 100.0,
    }
}

/// Returns the lower and the upper end of the interval of the change, in per cent.
fn range(row: &Row) -> Option<(f64, f64)> {
    let (low, high) = row.ci_low.zip(row.ci_high)?;
    let (low, high) = (percent(row, low), percent(row, high));
    Some((low.min(high), low.max(high)))
}

fn ends(row: &Row) -> String {
    let Some((low, high)) = range(row) else {
        return String::new();
    };
    let decimals = usize::from(high - low < 10.0);
    format!("{low:+.decimals$}..{high:+.decimals$}%")
}

/// Formats the change and its interval. The change is shown with no more digits than the interval
/// justifies.
fn interval(row: &Row) -> Option<String> {
    let (low, high) = range(row)?;
    let decimals = usize::from(high - low < 1.0);
    let change = format!("{:+.decimals$}%", percent(row, row.ratio?));
    Some(format!("{change:>7} ({})", ends(row)))
}

/// Returns a sort key that keeps the rows of an implementation together.
fn order(row: &Row) -> (Option<&Subject>, &str) {
    (row.subject.as_ref(), &row.key)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(implementation: &str, len: u64, ratio: f64, half: f64, verdict: Option<Verdict>) -> Row {
        let subject = Subject {
            alg: "sha256".to_string(),
            op: "digest".to_string(),
            key_bits: 0,
            level: "primitive".to_string(),
            implementation: implementation.to_string(),
            len,
        };
        let known = verdict.is_some();
        Row {
            key: format!("sha256, {implementation}, {len} B"),
            unit: "cycles_per_op",
            a: 100.0,
            b: 100.0 * ratio,
            ratio: Some(ratio),
            ci_low: known.then_some(ratio - half),
            ci_high: known.then_some(ratio + half),
            time_ratio: None,
            time_ratio_low: None,
            time_ratio_high: None,
            verdict,
            less: true,
            subject: Some(subject),
        }
    }

    fn set(text: &str) -> BTreeSet<String> {
        BTreeSet::from([text.to_string()])
    }

    fn sides() -> [Side; 2] {
        [
            "HEAD~1, Linux 7.3.4, commit 0123456789ab (\"a subject that goes on until it does not fit\")",
            "HEAD, Linux 7.3.4",
        ]
        .map(|title| Side {
            title: title.to_string(),
            origin: Origin {
                cpu: set("Intel Xeon CPU (family 6 model 167), 2 cores"),
                compiler: set("gcc 12"),
                program: set("Kiln 0.1.0 (312f00c), in a process on Linux 6.1.0"),
                command: set("kiln compare HEAD~1 HEAD --alg sha256"),
                quick: false,
            },
            ..Side::default()
        })
    }

    fn text([a, b]: &[Side; 2], rows: &[Row], tally: Tally, turns: Option<usize>) -> String {
        let text = message(a, b, rows, &tally, turns);
        for line in text.lines() {
            assert!(line.chars().count() <= WIDTH, "{line}");
            assert!(line.is_empty() || line.starts_with(INDENT), "{line}");
            assert_eq!(line, line.trim_end());
        }
        text
    }

    fn indented(text: &str) -> String {
        let line = |l: &str| match l {
            "" => "\n".to_string(),
            l => format!("{INDENT}{l}\n"),
        };
        text.lines().map(line).collect()
    }

    #[test]
    fn a_table_fits_into_a_commit_message() {
        let slower = Some(Verdict::Slower);
        let disagrees = Row {
            time_ratio: Some(0.95),
            ..row("x", 64, 1.2, 0.01, Some(Verdict::Disagree))
        };
        let lost = Row {
            b: f64::NAN,
            ratio: None,
            ..row("y", 4096, 1.2, 0.01, None)
        };
        let rows = [
            row("sha256_ni_transform", 4096, 1.131, 0.002, slower),
            row("sha256_ni_transform", 64, 1.294, 0.04, slower),
            row("avx", 64, 1.004, 0.01, Some(Verdict::Same)),
            row("rorx", 64, 0.8, 0.1, Some(Verdict::Faster)),
            disagrees,
            row("y", 64, 1.2, 0.01, None),
            lost,
        ];
        let tally = Tally {
            only_a: 2,
            unjudged: 3,
            ..Tally::default()
        };
        let text = text(&sides(), &rows, tally, Some(10));
        let wanted = "\
Before: HEAD~1, Linux 7.3.4, commit 0123456789ab (\"a subject that
  goes on until it does not fit\")
After: HEAD, Linux 7.3.4
CPU: Intel Xeon CPU (family 6 model 167), 2 cores
Compiler: gcc 12
Measured by: Kiln 0.1.0 (312f00c), in a process on Linux 6.1.0
Command: kiln compare HEAD~1 HEAD --alg sha256
Unit: cycles per call, less is better
In parentheses: 95 % interval, from 10 alternating turns of each

sha256 digest, called directly
  length  before  after  change
  ------  ------  -----  --------------------------------------
avx
      64     100    100  no difference found (-0.6..+1.4%)
rorx
      64     100   80.0     -20% (-30..-10%)  faster
sha256_ni_transform
      64     100    129     +29% (+25.4..+33.4%)  slower
    4096     100    113   +13.1% (+12.9..+13.3%)  slower
x
      64     100    120  cannot tell: cycles +20.0%, time -5.0%
y
      64     100    120  cannot tell: no interval
    4096     100      -  cannot tell: no result after

Not compared: 2 only before, 1 ambiguous or in different units.
";
        assert_eq!(text, indented(wanted), "{text}");
    }

    #[test]
    fn conditions_that_differ_are_told_for_each_side() {
        let [mut a, mut b] = sides();
        let rows = [row("i", 64, 1.3, 0.01, Some(Verdict::Slower))];
        let both =
            |a: &Side, b: &Side| text(&[a.clone(), b.clone()], &rows, Tally::default(), None);
        let same = both(&a, &b);
        assert!(!same.contains("--quick") && !same.contains("(before)"));
        assert!(
            same.contains("the intervals of both results allow\n"),
            "{same}"
        );
        b.origin.compiler = set("clang 14");
        b.origin.quick = true;
        let differ = both(&a, &b);
        for line in [
            "    Compiler (before): gcc 12\n    Compiler (after): clang 14\n",
            "    After was measured with --quick: a short run, whose intervals are\n",
            "    CPU: Intel Xeon CPU (family 6 model 167), 2 cores\n",
        ] {
            assert!(differ.contains(line), "{line}{differ}");
        }
        a.origin.quick = true;
        assert!(both(&a, &b).contains("    Measured with --quick: "));
        // The message must also have room for a long path without spaces and for many commands.
        a.title = format!("/{}", "directory/".repeat(12));
        a.origin.command = (0..5).map(|i| format!("kiln speed {i}")).collect();
        let long = both(&a, &b);
        assert!(long.contains("kiln speed 2; and 2\n      more\n"), "{long}");
    }

    #[test]
    fn rates_change_by_the_inverse_and_other_rows_have_their_key() {
        let rate = Row {
            unit: "pairs_per_s",
            less: false,
            subject: None,
            key:
                "poll, workers 4, cipher, and so on for longer than a line of the message has room"
                    .to_string(),
            ..row("", 0, 1.25, 0.001, Some(Verdict::Slower))
        };
        let text = text(&sides(), &[rate], Tally::default(), None);
        assert!(
            text.contains("Unit: pairs per s, more is better\n"),
            "{text}"
        );
        let table = "\
  before  after  change
  ------  -----  -------------------------------
poll, workers 4, cipher, and so on for longer than a line of the
  message has room
     100    125   -20.0% (-20.1..-19.9%)  slower
";
        assert!(text.ends_with(&indented(table)), "{text}");
    }

    #[test]
    fn a_row_that_is_too_wide_takes_two_lines() {
        let wide = Row {
            a: 123_456_789.0,
            b: 1_234_567_890.0,
            time_ratio: Some(0.5),
            ..row("i", 1 << 30, 10.0, 0.01, Some(Verdict::Disagree))
        };
        let text = text(&sides(), &[wide], Tally::default(), None);
        assert!(
            text.contains("  1234567890\n          cannot tell: cycles +900.0%, time -50.0%\n"),
            "{text}"
        );
    }
}
