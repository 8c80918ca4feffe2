//! Formats a comparison as a paragraph of a commit message, with at most 72 columns and an
//! indentation of four.

use std::collections::BTreeSet;

use kiln_measure::Verdict;
use kiln_question::table::{figure, wrap};

use super::row::{Row, Tally};
use super::side::{Side, Subject};

const WIDTH: usize = 72;
const INDENT: &str = "    ";

/// Maximum width in columns of an implementation's name in a table row. A longer name gets a
/// separate line.
const NAME: usize = 25;

/// Formats what was measured and on which machine, then one line per row, sorted by algorithm,
/// implementation and length.
pub(super) fn message(a: &Side, b: &Side, rows: &[Row], tally: &Tally, cpu: &str) -> String {
    let mut lines = head(a, b, rows, cpu);
    let mut rows: Vec<&Row> = rows.iter().collect();
    rows.sort_by(|x, y| order(x).cmp(&order(y)));
    let mut heading = None;
    let mut name = None;
    for row in rows {
        let own = heading_of(row);
        if heading.as_ref() != Some(&own) {
            lines.push(String::new());
            lines.extend(columns(&own));
            heading = Some(own);
            name = None;
        }
        let shown = row.subject.as_ref().map(|s| s.implementation.as_str());
        let repeated = shown.is_some() && name == shown;
        lines.extend(line(row, repeated));
        name = shown;
    }
    let missing = [
        (tally.only_a, "before only"),
        (tally.only_b, "after only"),
        (
            tally.unjudged,
            "without an interval or a result on both sides",
        ),
    ];
    let missing = missing.iter().filter(|(n, _)| *n > 0);
    let missing: Vec<String> = missing.map(|(n, what)| format!("{n} {what}")).collect();
    if !missing.is_empty() {
        lines.push(String::new());
        lines.extend(wrapped(&format!("Not judged: {}.", missing.join(", "))));
    }
    let indented = |line: String| match line.as_str() {
        "" => "\n".to_string(),
        line => format!("{INDENT}{line}\n"),
    };
    lines.into_iter().map(indented).collect()
}

fn wrapped(text: &str) -> Vec<String> {
    let text = wrap(text, WIDTH - INDENT.len());
    text.lines().map(String::from).collect()
}

fn head(a: &Side, b: &Side, rows: &[Row], cpu: &str) -> Vec<String> {
    let mut lines = wrapped(&format!("CPU: {}", plain(cpu)));
    lines.extend(wrapped(&format!("Before: {}", a.title)));
    lines.extend(wrapped(&format!("After: {}", b.title)));
    let builds: BTreeSet<&str> = [&a.build, &b.build].map(String::as_str).into();
    let builds: Vec<&str> = builds.into_iter().filter(|b| !b.is_empty()).collect();
    if !builds.is_empty() {
        lines.extend(wrapped(&format!("Built by {}", builds.join("; "))));
    }
    let units: BTreeSet<String> = rows.iter().map(unit).collect();
    let units: Vec<String> = units.into_iter().collect();
    lines.extend(wrapped(&format!("Unit: {}", units.join("; "))));
    lines
}

/// Removes trademark signs and repeated blanks from the processor's name.
fn plain(cpu: &str) -> String {
    let text = cpu.replace("(R)", "").replace("(TM)", "");
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn unit(row: &Row) -> String {
    let name = match row.unit {
        "cycles_per_op" => "cycles per call".to_string(),
        other => other.replace('_', " "),
    };
    let better = if row.less { "less" } else { "more" };
    format!("{name}, {better} is better")
}

/// The properties that all rows of a block have in common.
#[derive(Clone, PartialEq)]
struct Heading {
    title: String,
    length: bool,
}

fn heading_of(row: &Row) -> Heading {
    let Some(subject) = &row.subject else {
        return Heading {
            title: String::new(),
            length: false,
        };
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
        other => other,
    };
    Heading {
        title: format!("{alg} {op}{bits}, {level}"),
        length: true,
    }
}

fn columns(heading: &Heading) -> Vec<String> {
    let mut lines = Vec::new();
    let mut name = heading.title.as_str();
    if name.chars().count() > NAME {
        lines.extend(wrapped(name));
        name = "";
    }
    let length = if heading.length { "length" } else { "" };
    lines.push(format!(
        "{name:NAME$} {length:>7} {:>8} {:>8} {:>8}",
        "before", "after", "change"
    ));
    lines
}

fn line(row: &Row, repeated: bool) -> Vec<String> {
    let mut lines = Vec::new();
    let (name, length) = match &row.subject {
        Some(subject) => (subject.implementation.as_str(), subject.len.to_string()),
        None => (row.key.as_str(), String::new()),
    };
    let mut shown = if repeated { "" } else { name };
    if shown.chars().count() > NAME {
        lines.extend(wrapped(shown));
        shown = "";
    }
    let (change, word) = judge(row);
    let line = format!(
        "{shown:NAME$} {length:>7} {:>8} {:>8} {change:>8}  {word}",
        figure(row.a),
        figure(row.b)
    );
    lines.push(line.trim_end().to_string());
    lines
}

/// Returns the percentage change and the verdict. Without a clear change, the first string is `tie`,
/// `unclear` or `-`, and the second is empty.
fn judge(row: &Row) -> (String, &'static str) {
    let word = match row.verdict {
        Some(Verdict::Faster) => "faster",
        Some(Verdict::Slower) => "slower",
        Some(Verdict::Same) => return ("tie".to_string(), ""),
        Some(Verdict::Disagree) => return ("unclear".to_string(), ""),
        None => return ("-".to_string(), ""),
    };
    // Ratios compare costs. For a rate, the change is therefore the inverse of the ratio.
    let percent = |ratio: f64| match row.less {
        true => (ratio - 1.0) * 100.0,
        false => (1.0 / ratio - 1.0) * 100.0,
    };
    let [ratio, low, high] = [row.ratio, row.ci_low, row.ci_high].map(|r| r.unwrap_or(f64::NAN));
    // Print no more digits than the width of the interval justifies.
    let decimals = match (percent(high) - percent(low)).abs() < 1.0 {
        true => 1,
        false => 0,
    };
    (format!("{:+.decimals$}%", percent(ratio)), word)
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
        Row {
            key: format!("sha256, {implementation}, {len} B"),
            unit: "cycles_per_op",
            a: 100.0,
            b: 100.0 * ratio,
            ratio: Some(ratio),
            ci_low: Some(ratio - half),
            ci_high: Some(ratio + half),
            time_ratio: None,
            time_ratio_low: None,
            time_ratio_high: None,
            verdict,
            less: true,
            subject: Some(subject),
        }
    }

    fn sides() -> [Side; 2] {
        [
            "Linux 7.3.4, commit 0123456789ab (\"a subject that goes on until it does not fit\")",
            "Linux 7.3.4",
        ]
        .map(|title| Side {
            title: title.to_string(),
            build: "gcc 12".to_string(),
            ..Side::default()
        })
    }

    fn text(rows: &[Row], tally: Tally) -> String {
        let [a, b] = sides();
        let text = message(
            &a,
            &b,
            rows,
            &tally,
            "Intel(R)  Xeon(R) CPU (family 6 model 167)",
        );
        for line in text.lines() {
            assert!(line.chars().count() <= WIDTH, "{line}");
            assert!(line.is_empty() || line.starts_with(INDENT), "{line}");
            assert_eq!(line, line.trim_end());
        }
        text
    }

    #[test]
    fn a_table_fits_into_a_commit_message() {
        let slower = Some(Verdict::Slower);
        let rows = [
            row("sha256_ni_transform", 4096, 1.131, 0.002, slower),
            row("sha256_ni_transform", 64, 1.294, 0.04, slower),
            row(
                "sha256_transform_rorx",
                64,
                0.8,
                0.001,
                Some(Verdict::Faster),
            ),
            row("sha256_transform_avx", 64, 1.004, 0.01, Some(Verdict::Same)),
            row(
                "a_function_with_a_name_that_no_column_holds",
                64,
                1.2,
                0.01,
                Some(Verdict::Disagree),
            ),
            row("x", 64, 1.2, 0.01, None),
        ];
        let text = text(
            &rows,
            Tally {
                only_a: 2,
                ..Tally::default()
            },
        );
        let table = "\
sha256 digest, called directly
                           length   before    after   change
a_function_with_a_name_that_no_column_holds
                               64      100      120  unclear
sha256_ni_transform            64      100      129     +29%  slower
                             4096      100      113   +13.1%  slower
sha256_transform_avx           64      100      100      tie
sha256_transform_rorx          64      100     80.0   -20.0%  faster
x                              64      100      120        -
";
        let table: String = table.lines().map(|l| format!("    {l}\n")).collect();
        let head = "    CPU: Intel Xeon CPU (family 6 model 167)\n    Before: Linux 7.3.4, commit 0123456789ab (\"a subject that goes on\n      \
            until it does not fit\")\n    After: Linux 7.3.4\n    Built by gcc 12\n    Unit: cycles per call, less is better\n";
        let wanted = format!("{head}\n{table}\n    Not judged: 2 before only.\n");
        assert_eq!(text, wanted, "{text}");
    }

    #[test]
    fn rates_change_by_the_inverse_and_other_rows_have_their_key() {
        let rate = Row {
            unit: "pairs_per_s",
            less: false,
            subject: None,
            key: "poll, workers 4, cipher, and so on for longer than a column".to_string(),
            ..row("", 0, 1.25, 0.001, Some(Verdict::Slower))
        };
        let text = text(&[rate], Tally::default());
        assert!(
            text.contains("Unit: pairs per s, more is better\n"),
            "{text}"
        );
        assert!(text.contains("    poll, workers 4, cipher, and so on for longer than a column\n"));
        assert!(text.contains("-20.0%  slower\n"), "{text}");
    }
}
