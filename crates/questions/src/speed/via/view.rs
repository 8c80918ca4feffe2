//! Formats the table that `kiln speed --via virtio` prints.

use kiln_question::table::{align, plain, text};

use super::row::Row;

/// Formats one line for each combination of cipher, length, number of queues and depth.
pub(super) fn format_tables(rows: &[Row]) -> String {
    let mut table = plain();
    table.add_row([
        "alg", "bits", "len", "queues", "depth", "MB/s", "p50 us", "p99 us", "max us", "direct",
        "ratio",
    ]);
    let us = |figure: Option<f64>| figure.map_or("-".to_string(), |f| format!("{f:.1}"));
    for row in rows {
        table.add_row([
            row.alg.to_string(),
            row.key_bits.to_string(),
            row.len.to_string(),
            row.queues.to_string(),
            row.depth.to_string(),
            format!("{:.0}", row.mb_per_s),
            us(row.lat_us_p50),
            us(row.lat_us_p99),
            us(row.lat_us_max),
            row.direct_mb_per_s
                .map_or("-".into(), |f| format!("{f:.0}")),
            row.ratio_to_direct
                .map_or("-".into(), |f| format!("{f:.3}")),
        ]);
    }
    align(&mut table, 1..11);
    text(&table)
}
