//! Formats the table that `kiln linux virtio` prints.

use kiln_linux::virtio::Row;
use kiln_question::table::{align, figure, paragraph, plain, text};

/// Formats the results of the self-tests, followed by those of the traffic.
pub(super) fn format_tables(rows: &[Row]) -> String {
    let Some(first) = rows.first() else {
        return String::new();
    };
    let title = format!(
        "Linux {}'s virtio_crypto by {} ({})",
        first.kernel, first.front_end, first.accel
    );
    let mut tests = plain();
    tests.add_row(["algorithm", "driver", "self-test"]);
    for row in rows {
        if let Some(selftest) = &row.selftest {
            tests.add_row([row.alg, row.driver, selftest]);
        }
    }
    let mut traffic = plain();
    traffic.add_row(["traffic", "workers", "operations/s", "MB/s", "longest us"]);
    for row in rows.iter().filter(|r| r.selftest.is_none()) {
        let of = |v: Option<f64>| v.map_or_else(String::new, figure);
        traffic.add_row([
            row.kind.to_owned(),
            row.workers.map_or_else(String::new, |n| n.to_string()),
            of(row.ops_per_s),
            of(row.mb_per_s),
            of(row.us_max),
        ]);
    }
    align(&mut traffic, [1, 2, 3, 4]);
    format!(
        "{}\n\n{}\n{}\n",
        paragraph(&title),
        text(&tests),
        text(&traffic)
    )
}
