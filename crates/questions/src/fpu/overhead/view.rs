//! Formats the tables of `kiln fpu overhead`.

use kiln_question::table::{align, paragraph, plain, text};

use super::run::Row;

/// Formats each policy's methods with their ratios, followed by the costs that the simd helper and
/// the kworker add.
pub(super) fn format_tables(rows: &[Row]) -> String {
    let mut out = String::new();
    for group in rows.chunk_by(|a, b| a.policy == b.policy && a.config == b.config) {
        out.push_str(&paragraph(&heading(&group[0])));
        out.push_str("\n\n");
        out.push_str(&paths(group));
        out.push('\n');
    }
    let parts = parts(rows);
    if !parts.is_empty() {
        out.push_str(&parts);
        out.push('\n');
    }
    out
}

fn heading(row: &Row) -> String {
    match &row.config {
        None => row.policy.to_string(),
        Some(config) => format!("{}: {}, configured as {config}", row.policy, row.provider),
    }
}

fn paths(rows: &[Row]) -> String {
    let mut table = plain();
    table.add_row([
        "len", "path", "driver", "cycles", "MB/s", "x direct", "speedup", "interval",
    ]);
    for row in rows.iter().filter(|r| r.mb_per_s.is_some()) {
        let interval = match (row.speedup_low, row.speedup_high) {
            (Some(low), Some(high)) if row.baseline.as_deref() != Some(&method(row)) => {
                format!("{}-{}", digits(low), digits(high))
            }
            _ => String::new(),
        };
        table.add_row([
            row.len.to_string(),
            row.path.to_string(),
            short(&row.imp),
            cycles(row),
            row.mb_per_s.map_or("-".into(), |m| format!("{m:.0}")),
            row.ratio.map_or("-".into(), digits),
            row.speedup.map_or("-".into(), digits),
            interval,
        ]);
    }
    align(&mut table, [0, 3, 4, 5, 6]);
    text(&table)
}

/// Formats a method's policy and path in the same notation as the field `baseline`.
fn method(row: &Row) -> String {
    format!("{}/{}", row.policy, row.path)
}

fn parts(rows: &[Row]) -> String {
    let parts = |r: &&Row| r.mb_per_s.is_none() && r.path != "setup";
    if !rows.iter().any(|r| parts(&r)) {
        return String::new();
    }
    let mut table = plain();
    table.add_row(["policy", "len", "adds", "cycles"]);
    for row in rows.iter().filter(parts) {
        table.add_row([
            row.policy.to_string(),
            row.len.to_string(),
            row.path.to_string(),
            cycles(row),
        ]);
    }
    align(&mut table, [1, 3]);
    text(&table)
}

fn cycles(row: &Row) -> String {
    row.cycles_per_op.map_or("-".into(), |c| format!("{c:.1}"))
}

/// Formats a ratio with two decimals. Ratios below 0.1 get three decimals, and ratios of 10 or more
/// get one.
fn digits(ratio: f64) -> String {
    match ratio {
        r if r < 0.1 => format!("{r:.3}"),
        r if r < 10.0 => format!("{r:.2}"),
        r => format!("{r:.1}"),
    }
}

/// Removes the parts of a driver's name that all drivers have in common. `cryptd` is removed, too,
/// because the path already shows it.
fn short(driver: &str) -> String {
    let inner = driver
        .strip_prefix("cryptd(")
        .and_then(|d| d.strip_suffix(')'));
    inner
        .unwrap_or(driver)
        .replace("xts-aes-", "")
        .replace("aes_xts_encrypt_", "")
}
