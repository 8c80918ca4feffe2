//! Formats the human-readable tables of `budget`.

use kiln_question::table::{align, figure, paragraph, plain, text};

use super::row::Row;

/// Formats one paragraph per combination of implementation, operation, kind of data and target,
/// with one line per strategy.
pub(super) fn format_tables(rows: &[Row]) -> String {
    let mut out = String::from(
        "Microseconds: lengths of sections under interrupts (p50 to max), of sections of\n\
         pure arithmetic (null, p99.9), the wait of a softirq (irq, p95) and of a woken\n\
         task (wake, p95); upper edges of buckets 3 to 6 % wide. Budget: the bytes that one\n\
         section may process within the target, as measured and with a margin for a lower\n\
         clock and cache misses. n/op: sections per request. 1 KiB is 1024 bytes.\n",
    );
    let together = |a: &Row, b: &Row| {
        (a.imp, a.op, a.data, a.target_us.to_bits()) == (b.imp, b.op, b.data, b.target_us.to_bits())
    };
    for group in rows.chunk_by(together) {
        out.push('\n');
        out.push_str(&heading(group));
        out.push('\n');
        out.push_str(&ways(group));
    }
    out
}

fn heading(rows: &[Row]) -> String {
    let row = &rows[0];
    // Every row of the group has its own measurement of `holds_bytes`. Show the median, which is
    // affected least by disturbances.
    let mut measured: Vec<u64> = rows.iter().filter_map(|r| r.holds_bytes).collect();
    measured.sort_unstable();
    let measured = match measured.get(measured.len() / 2) {
        Some(&n) if n >= row.len as u64 => format!("at least {}, the longest message", size(n)),
        Some(&n) => size(n),
        None => "unknown".to_string(),
    };
    let with_margin = match row.budget_bytes {
        Some(n) => size(n),
        None => "none: one block is too long".to_string(),
    };
    let short = match row.min_bytes {
        0 => String::new(),
        n => format!("; scalar code under {n} B"),
    };
    // The cycles per byte are measured at the start of a run, with warm data. If the data of this
    // group is cold, the heading must say so.
    let (cold, warm) = match row.data == "cold" {
        true => (", cold data", " if warm"),
        false => ("", ""),
    };
    format!(
        "{}\n  budget for {} µs: measured {measured}; with margin {with_margin}",
        paragraph(&format!(
            "{}, {}{cold}: {} cycles per byte{warm}{short}",
            row.imp,
            row.op,
            figure(row.cycles_per_byte)
        )),
        row.target_us,
    )
}

fn ways(rows: &[Row]) -> String {
    let mut table = plain();
    table.add_row([
        "  mode", "bytes", "p50", "p95", "p99.9", "max", "null", "n/op", "loss %", "irq", "wake",
    ]);
    for row in rows {
        table.add_row([
            format!("  {}", row.mode),
            size(row.bytes),
            time(row.section_us_p50),
            time(row.section_us_p95),
            time(row.section_us_p999),
            time(row.section_us_max),
            time(row.null_us_p999),
            count(row.sections_per_op),
            row.loss_pct.map_or("-".into(), |l| format!("{l:.1}")),
            time(row.softirq_us_p95),
            time(row.wake_us_p95),
        ]);
    }
    align(&mut table, 1..11);
    text(&table)
}

/// Formats microseconds, with no more digits than the bucket width justifies.
fn time(us: Option<f64>) -> String {
    match us {
        None => "-".to_string(),
        Some(us) if us < 9.95 => format!("{us:.1}"),
        Some(us) => count(us),
    }
}

/// Formats a size in bytes, or in KiB or MiB with three digits.
fn size(bytes: u64) -> String {
    match bytes as f64 / 1024.0 {
        _ if bytes < 1024 => format!("{bytes} B"),
        n if n < 99.95 && n.fract() > 0.04 => format!("{n:.1} KiB"),
        n if n < 1023.5 => format!("{n:.0} KiB"),
        n => format!("{:.1} MiB", n / 1024.0),
    }
}

/// Formats a number of sections or microseconds.
fn count(n: f64) -> String {
    match n {
        n if n < 9.95 && n.fract() > 0.04 => format!("{n:.1}"),
        n => format!("{n:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_short() {
        for (n, want) in [
            (1.0, "1"),
            (2.53, "2.5"),
            (4096.0, "4096"),
            (65536.0, "65536"),
        ] {
            assert_eq!(count(n), want);
        }
        assert_eq!(time(Some(31.57)), "32");
        assert_eq!(time(Some(0.17)), "0.2");
        assert_eq!(time(None), "-");
    }

    #[test]
    fn sizes_are_in_units_of_1024() {
        for (bytes, want) in [
            (16, "16 B"),
            (1000, "1000 B"),
            (4096, "4 KiB"),
            (54_871, "53.6 KiB"),
            (480 << 10, "480 KiB"),
            (1 << 20, "1.0 MiB"),
            (3 << 19, "1.5 MiB"),
        ] {
            assert_eq!(size(bytes), want);
        }
    }
}
