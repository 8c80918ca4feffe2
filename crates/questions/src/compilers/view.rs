//! Formats the output of `kiln compilers`: tables with one line per compiler and one column per
//! kind of build, followed by a table of verdicts.

use kiln_measure::Verdict;
use kiln_question::table::{align, figure, plain, text};

use super::cell::{Abi, Status};
use super::row::Row;

/// Maximum number of rows in the table of differences from the baseline.
const MOST: usize = 30;

/// Formats a table for each subject and width, followed by the differences from the baseline.
pub(super) fn format_tables(rows: &[Row]) -> String {
    let mut out = String::new();
    let mut seen: Vec<(&str, Abi)> = Vec::new();
    for row in rows.iter().filter(|r| r.cc != "-") {
        if !seen.contains(&(&row.subject, row.abi)) {
            seen.push((&row.subject, row.abi));
            out.push_str(&matrix(rows, row));
            out.push('\n');
        }
    }
    out + &verdicts(rows)
}

/// Formats the table that contains the row `of`.
fn matrix(rows: &[Row], of: &Row) -> String {
    let own = |r: &&Row| r.cc != "-" && r.subject == of.subject && r.abi == of.abi;
    let mut variants: Vec<&str> = Vec::new();
    let mut lines: Vec<(&str, &str)> = Vec::new();
    for row in rows.iter().filter(own) {
        if !variants.contains(&row.variant.as_str()) {
            variants.push(&row.variant);
        }
        if !lines.contains(&(&row.cc, &row.opt)) {
            lines.push((&row.cc, &row.opt));
        }
    }
    let mut table = plain();
    let header = ["", ""].into_iter().chain(variants.iter().copied());
    table.set_header(header);
    for (cc, opt) in lines {
        let mut line = vec![cc.to_string(), format!("-{opt}")];
        for variant in &variants {
            let cell = rows
                .iter()
                .filter(own)
                .find(|r| r.cc == cc && r.opt == opt && r.variant == *variant);
            line.push(cell.map_or(String::new(), shown));
        }
        table.add_row(line);
    }
    let fixed = rows.iter().find(|r| r.cc == "-" && of.alg == r.alg);
    if let Some(x) = fixed.and_then(|r| r.cycles_per_byte) {
        let name = "handwritten asm".to_string();
        table.add_row(vec![name, String::new(), format!("{}  ", figure(x))]);
    }
    align(&mut table, 2..variants.len() + 2);
    let bits = of.key_bits.map_or(String::new(), |b| format!(", {b} bit"));
    let narrow = match of.abi {
        Abi::Bits64 => "",
        Abi::Bits32 => ", -m32",
    };
    format!(
        "{} ({}{bits}{narrow}), cycles a byte\n{}",
        of.subject,
        of.alg,
        text(&table)
    )
}

/// Formats a result, and marks it if it is an outlier. For a cell without a result, formats the
/// status instead.
fn shown(row: &Row) -> String {
    match (row.status, row.cycles_per_byte) {
        (Status::Ok, Some(x)) => format!("{}{}", figure(x), if row.outlier { " !" } else { "  " }),
        (Status::Absent, _) => "----  ".to_string(),
        (Status::Wrong, _) => "WRONG  ".to_string(),
        (status, _) => format!("{status}  "),
    }
}

/// Formats the rows that differ from the baseline, worst first.
fn verdicts(rows: &[Row]) -> String {
    let mut judged: Vec<(&Row, f64)> = rows
        .iter()
        .filter(|r| r.verdict.is_some_and(|v| v != Verdict::Same))
        .filter_map(|r| Some((r, r.ratio?)))
        .collect();
    if judged.is_empty() {
        return String::new();
    }
    judged.sort_by(|a, b| b.1.total_cmp(&a.1));
    let mut table = plain();
    table.set_header(["cycles", "interval", "time", "verdict", "cell", "against"]);
    for (row, ratio) in judged.iter().take(MOST) {
        let end = |x: Option<f64>| x.map_or("-".to_string(), |x| format!("{x:.3}"));
        let narrow = if row.abi == Abi::Bits32 { "/32" } else { "" };
        table.add_row([
            format!("{ratio:.3}"),
            format!("{} - {}", end(row.ratio_low), end(row.ratio_high)),
            end(row.time_ratio),
            row.verdict.map_or(String::new(), |v| v.to_string()),
            format!(
                "{}/{}/{}/{}{narrow}",
                row.cc, row.opt, row.subject, row.variant
            ),
            row.baseline.clone().unwrap_or_default(),
        ]);
    }
    align(&mut table, [0, 1, 2]);
    let mut out = text(&table);
    if judged.len() > MOST {
        let rest = judged.len() - MOST;
        out.push_str(&format!("{rest} more; --json has them all\n"));
    }
    out.push('\n');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(cc: &str, variant: &str, figure: Option<f64>, status: Status) -> Row {
        let json = serde_json::json!({
            "cc": cc, "cc_version": "1", "opt": if cc == "-" { "-" } else { "O2" }, "variant": variant, "abi": "64",
            "subject": if cc == "-" { "aes-asm" } else { "aes-generic" }, "alg": "cbc(aes)", "key_bits": 256,
            "len": 4096, "cycles_per_byte": figure, "ci_low": null, "ci_high": null, "text_bytes": null,
            "stack_bytes": null, "build_ms": null, "status": status, "reason": null, "row_ratio": null,
            "outlier": figure.is_some_and(|x| x > 20.0), "baseline": "gcc-11", "ratio": figure.map(|x| x / 10.0),
            "ratio_low": 1.0, "ratio_high": 9.0, "time_ratio": figure.map(|x| x / 8.0),
            "verdict": figure.map(|_| "disagree"),
        });
        serde_json::from_value(json).unwrap()
    }

    #[test]
    fn compilers_stand_down_and_variants_across() {
        let rows = [
            row("gcc-12", "default", Some(11.2), Status::Ok),
            row("gcc-12", "ubsan", Some(48.0), Status::Ok),
            row("clang-14", "default", None, Status::Wrong),
            row("clang-14", "ubsan", None, Status::Absent),
            row("-", "-", Some(10.7), Status::Ok),
        ];
        let text = format_tables(&rows);
        let want = "\
aes-generic (cbc(aes), 256 bit), cycles a byte
                      default   ubsan
gcc-12           -O2  11.2     48.0 !
clang-14         -O2   WRONG     ----
handwritten asm        10.7
";
        let squeezed = |t: &str| {
            t.lines()
                .map(|l| l.split_whitespace().collect::<Vec<_>>().join(" "))
                .collect::<Vec<_>>()
        };
        assert_eq!(squeezed(&text)[..5], squeezed(want)[..]);
        let judged = "4.800 1.000 - 9.000 6.000 disagree gcc-12/O2/aes-generic/ubsan gcc-11";
        assert!(squeezed(&text).contains(&judged.to_string()), "{text}");
        assert!(text.lines().all(|l| l.chars().count() <= 80), "{text}");
    }
}
