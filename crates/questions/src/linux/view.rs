//! Formats the tables that `kiln linux selftest` and `kiln linux tcrypt` print.

use kiln_linux::selftest;
use kiln_question::table::{align, paragraph, plain, text};
use kiln_tree::tcrypt;

/// Formats one line per driver, followed by an explanation of each failed or unknown result, and
/// finally the number of drivers with each result.
pub(super) fn selftest(rows: &[selftest::Row]) -> String {
    let mut table = plain();
    for row in rows {
        table.add_row([row.alg.as_str(), &row.driver, row.selftest]);
    }
    align(&mut table, []);
    let mut out = format!("{}\n", text(&table));
    for row in rows
        .iter()
        .filter(|r| matches!(r.selftest, "failed" | "unknown"))
    {
        let line = format!("{} {}: {}", row.selftest, row.driver, row.reason);
        out.push_str(&(paragraph(&line) + "\n"));
    }
    let of = |status| rows.iter().filter(|r| r.selftest == status).count();
    out + &format!(
        "{} drivers passed, {} failed, {} unknown, {} untested, {} absent\n",
        of("passed"),
        of("failed"),
        of("unknown"),
        of("untested"),
        of("absent"),
    )
}

/// Formats the rows of `kiln linux tcrypt`, one line per row.
pub(super) fn tcrypt(rows: &[tcrypt::Row]) -> String {
    let mut table = plain();
    table.add_row(["driver", "op", "key", "bytes", "update", "MB/s"]);
    let figure = |n: Option<u64>| n.map_or_else(|| "-".to_string(), |n| n.to_string());
    for row in rows {
        table.add_row([
            row.driver.clone(),
            row.op.clone(),
            figure(row.key_bits.map(u64::from)),
            row.len.to_string(),
            figure(row.update_len),
            row.mb_per_s
                .map_or_else(|| "-".into(), |v| format!("{v:.1}")),
        ]);
    }
    align(&mut table, [2, 3, 4, 5]);
    format!("{}\n", text(&table))
}
