//! Exports tables as Markdown that is readable in an email, a commit message and a browser.

use crate::error::Error;
use crate::group::groups;
use crate::record;
use crate::side::Side;
use crate::table::{self, Cell, Table};

/// Exports a description of each side's machine, then the tables for each row type, then the
/// commands. No line begins with `#`, because git would treat such a line as a comment.
pub(super) fn text(sides: &[Side]) -> Result<String, Error> {
    let names: Vec<String> = sides.iter().map(|s| s.name.clone()).collect();
    let mut out = String::new();
    for side in sides {
        let Some(first) = side.records.first() else {
            continue;
        };
        let host = record::host(first);
        let whose = match sides.len() {
            1 => String::new(),
            _ => format!("**{}**: ", escaped(&side.name)),
        };
        let model = host
            .model
            .unwrap_or_else(|| "an unknown machine".to_string());
        let kernel = host
            .kernel
            .map_or(String::new(), |k| format!(", Linux {k}"));
        let version = record::version(first);
        out.push_str(&format!(
            "{whose}{}{}, kiln {}\n",
            escaped(&model),
            escaped(&kernel),
            escaped(version)
        ));
    }
    for group in groups(sides) {
        for one in table::make_tables(&group, &names) {
            let title = match one.title.is_empty() {
                true => group.kind.title.to_string(),
                false => format!("{}: {}", group.kind.title, one.title),
            };
            out.push_str(&format!("\n**{}**\n\n", escaped(&title)));
            out.push_str(&drawn(&one));
        }
        for &(s, r) in &group.from {
            // Replace backticks, because a backtick cannot be escaped inside a code span.
            let again = record::repeat_command(&sides[s].records[r]).replace('`', "'");
            out.push_str(&format!("\n`{}`\n", again.replace(char::is_control, " ")));
        }
    }
    Ok(out)
}

/// Formats a table with aligned columns, so that the source text is readable as well.
fn drawn(table: &Table) -> String {
    let heads: Vec<String> = table.columns.iter().map(|c| escaped(&c.head)).collect();
    let text = |cell: &Cell| escaped(&cell.brief());
    let rows: Vec<Vec<String>> = table
        .rows
        .iter()
        .map(|r| r.iter().map(text).collect())
        .collect();
    let count = |s: &String| s.chars().count();
    let widths: Vec<usize> = (0..heads.len())
        .map(|n| {
            rows.iter()
                .map(|r| count(&r[n]))
                .fold(count(&heads[n]).max(3), usize::max)
        })
        .collect();
    let line = |cells: &[String]| -> String {
        let padded =
            cells
                .iter()
                .zip(&widths)
                .zip(&table.columns)
                .map(|((cell, width), column)| {
                    let blank = " ".repeat(width - count(cell));
                    match column.numeric {
                        true => format!("{blank}{cell}"),
                        false => format!("{cell}{blank}"),
                    }
                });
        format!("| {} |\n", padded.collect::<Vec<_>>().join(" | "))
    };
    let mut out = line(&heads);
    let rules = widths
        .iter()
        .zip(&table.columns)
        .map(|(width, column)| match column.numeric {
            true => format!("{}:", "-".repeat(width + 1)),
            false => "-".repeat(width + 2),
        });
    out.push_str(&format!("|{}|\n", rules.collect::<Vec<_>>().join("|")));
    rows.iter().for_each(|r| out.push_str(&line(r)));
    out
}

/// Escapes characters that would otherwise act as markup.
fn escaped(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '|' | '\\' | '`' | '*' | '_' | '<' | '>' | '[' | ']' => {
                // Inside a word, an underscore does not act as markup.
                if c != '_' {
                    out.push('\\');
                }
                out.push(c);
            }
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_table_fit_for_a_commit_message() {
        let row = |imp: &str, len: u64, cycles: f64| json!({"alg": "xts(aes)", "impl": imp, "len": len, "cycles_per_op": cycles, "ci_low": 0.98 * cycles, "ci_high": 1.02 * cycles});
        let record = json!({"kiln": "1", "command": "speed", "args": ["speed"], "seed": 3,
            "machine": {"model": "CPU <x>", "kernel": "6.12"},
            "rows": [row("a|b", 16, 50.0), row("a|b", 64, 1234.0), row("c", 16, 9.0)]});
        let text = text(&[Side::new("s", record).unwrap()]).unwrap();
        assert_eq!(
            text,
            "CPU \\<x\\>, Linux 6.12, kiln 1\n\n\
             **Speed: xts(aes), cycles per message**\n\n\
             | impl |       16 B |       64 B |\n\
             |------|-----------:|-----------:|\n\
             | a\\|b | 50.0 ±2.0% | 1234 ±2.0% |\n\
             | c    | 9.00 ±2.0% |          - |\n\n\
             `kiln speed --seed 3`\n"
        );
        assert!(text.lines().all(|l| !l.starts_with('#')));
    }
}
