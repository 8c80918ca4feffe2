//! Formats the answers for the terminal: a table of verdicts, followed by sentences.

use kiln_question::table::{align, paragraph, plain, text};

use super::row::Row;

/// Formats the verdicts as a table, followed by a description of each question: what was found,
/// which files show it, and what the user should do.
pub(super) fn format_rows(machine: &[String], rows: &[Row]) -> String {
    let mut out: String = machine.iter().map(|l| paragraph(l) + "\n").collect();
    let mut table = plain();
    for row in rows {
        table.add_row([
            format!("{}. {}", row.question, row.about),
            row.verdict.words().to_owned(),
        ]);
    }
    align(&mut table, []);
    out.push('\n');
    out.push_str(&text(&table));
    for row in rows {
        let title = format!("{}. {}: {}", row.question, row.about, row.verdict.words());
        out.push_str(&format!("\n{}\n", paragraph(&title)));
        let caveat = row.caveat.iter().map(|c| ("but:", c));
        let tell = row.would_tell.iter().map(|t| ("more:", t));
        let lines = row.evidence.iter().map(|e| ("read:", e)).chain(caveat);
        let lines = lines.chain([("do:", &row.advice)]).chain(tell);
        out.push_str(&(paragraph(&row.finding) + "\n"));
        for (label, line) in lines {
            out.push_str(&(paragraph(&format!("{label} {line}")) + "\n"));
        }
    }
    out + "\n"
}
