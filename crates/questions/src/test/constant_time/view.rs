//! Formats the table that `kiln test --constant-time` prints.

use kiln_question::table::{align, plain, text};

use super::run::Row;

/// Formats one line per implementation and direction.
pub(super) fn format_tables(rows: &[Row]) -> String {
    let mut table = plain();
    table.add_row(["impl", "op", "t", "crop %", "cycles", "sees", "finding"]);
    let figure = |value: Option<f64>, digits| value.map_or("-".into(), |v| format!("{v:.digits$}"));
    for row in rows {
        let account = match (row.failed, row.constant_time) {
            (true, _) => "FAILED: ",
            (false, false) if row.op != "control" => "not judged: ",
            _ => "",
        };
        table.add_row([
            row.implementation.to_string(),
            row.op.to_string(),
            figure(row.t, 1),
            figure(row.crop_pct, 0),
            figure(row.difference_cycles, 2),
            figure(row.detectable_cycles, 2),
            format!("{account}{}", row.finding),
        ]);
    }
    align(&mut table, [2, 3, 4, 5]);
    text(&table)
}
