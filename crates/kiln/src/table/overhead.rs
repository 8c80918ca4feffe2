//! The tables of `fpu --overhead`.

use kiln_lab::overhead::Row;

use super::{align, plain, text};

/// Paths with a ratio first, then what the simd helper and the kworker add.
pub fn all(rows: &[Row]) -> String {
    let mut paths = plain();
    paths.add_row([
        "policy", "len", "path", "driver", "cycles", "MB/s", "x direct", "95 %",
    ]);
    let mut parts = plain();
    parts.add_row(["policy", "len", "adds", "cycles"]);
    for row in rows {
        let cycles = row.cycles_per_op.map_or("-".into(), |c| format!("{c:.1}"));
        if row.mb_per_s.is_none() {
            if row.path != "setup" {
                parts.add_row([
                    row.policy.to_string(),
                    row.len.to_string(),
                    row.path.to_string(),
                    cycles,
                ]);
            }
            continue;
        }
        let interval = match (row.ci_low, row.ci_high) {
            (Some(low), Some(high)) if row.path != "direct" => format!("{low:.2}..{high:.2}"),
            _ => String::new(),
        };
        paths.add_row([
            row.policy.to_string(),
            row.len.to_string(),
            row.path.to_string(),
            short(&row.imp),
            cycles,
            row.mb_per_s.map_or("-".into(), |m| format!("{m:.0}")),
            row.ratio.map_or("-".into(), |r| format!("{r:.2}")),
            interval,
        ]);
    }
    align(&mut paths, [1, 4, 5, 6]);
    align(&mut parts, [1, 3]);
    format!("{}\n{}", text(&paths), text(&parts))
}

/// Without what all drivers have in common.
fn short(driver: &str) -> String {
    driver.replace("xts-aes-", "")
}
