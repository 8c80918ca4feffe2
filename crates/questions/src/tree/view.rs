//! Formats the tables that `kiln tree` prints.

use kiln_question::table::{align, paragraph, plain, text};
use kiln_tree::Row;

/// Formats the algorithms, followed by the remarks about objects and algorithms, and the counts.
pub(super) fn format_tables(rows: &[Row]) -> String {
    let mut table = plain();
    for row in rows.iter().filter(|r| r.kind == "algorithm") {
        let priority = row.priority.map_or_else(String::new, |p| p.to_string());
        table.add_row([
            row.alg.clone().unwrap_or_default(),
            row.name.clone(),
            priority,
            format!("{}{}", row.status, marks(row)),
        ]);
    }
    align(&mut table, [2]);
    let mut out = format!("{}\n", text(&table));
    for row in rows
        .iter()
        .filter(|r| !r.reason.is_empty() && r.internal != Some(true))
    {
        let line = format!("{} {}: {}", row.status, row.name, row.reason);
        out.push_str(&(paragraph(&line) + "\n"));
    }
    out + &counts(rows) + "\n"
}

fn marks(row: &Row) -> &'static str {
    match (row.is_async, row.internal) {
        (Some(true), Some(true)) => ", async, internal",
        (Some(true), _) => ", async",
        (_, Some(true)) => ", internal",
        _ => "",
    }
}

fn counts(rows: &[Row]) -> String {
    let of = |kind: &str, status: &str| {
        rows.iter()
            .filter(|r| r.kind == kind && r.status == status)
            .count()
    };
    format!(
        "{} objects linked, {} left out, {} failed; {} algorithms tested, {} untested, {} failed",
        of("object", "built"),
        of("object", "left-out"),
        of("object", "failed"),
        of("algorithm", "tested"),
        of("algorithm", "untested"),
        of("algorithm", "failed"),
    )
}
