//! Formats the human-readable tables of `budget`.

use kiln_question::table::{align, figure, paragraph, plain, text};

use super::row::Row;

/// Formats a paragraph for each implementation, operation, kind of data and target, with one line
/// per strategy.
pub(super) fn format_tables(rows: &[Row]) -> String {
    let mut out = String::from(
        "Microseconds: lengths of sections under interrupts (p50 to max), of sections of\n\
         pure arithmetic (null, p99.9), the wait of a softirq (irq, p95) and of a woken\n\
         task (wake, p95); upper edges of buckets 3 to 6 % wide. \"hold\" is measured and\n\
         has no margin; a budget has one.\n",
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
    // All rows of the group measured this number. The median is the least affected by disturbances.
    let mut holds: Vec<u64> = rows.iter().filter_map(|r| r.holds_bytes).collect();
    holds.sort_unstable();
    let holds = match holds.get(holds.len() / 2) {
        Some(&n) if n >= row.len as u64 => "hold all".to_string(),
        Some(&n) => format!("hold {}", kib(n)),
        None => "hold nothing that was measured".to_string(),
    };
    let budget = match row.budget_bytes {
        Some(n) => format!("budget with margin {}", kib(n)),
        None => "no budget: one block is too long".to_string(),
    };
    let short = match row.min_bytes {
        0 => String::new(),
        n => format!("; scalar code under {n} B"),
    };
    let cold = if row.data == "cold" {
        ", cold data"
    } else {
        ""
    };
    format!(
        "{}\n  {} µs {holds} of {} messages; {budget}",
        paragraph(&format!(
            "{}, {}{cold}: {} cycles per byte{short}",
            row.imp,
            row.op,
            figure(row.cycles_per_byte)
        )),
        row.target_us,
        kib(row.len as u64),
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
            short(row.bytes as f64),
            time(row.section_us_p50),
            time(row.section_us_p95),
            time(row.section_us_p999),
            time(row.section_us_max),
            time(row.null_us_p999),
            short(row.sections_per_op),
            row.loss_pct.map_or("-".into(), |l| format!("{l:.1}")),
            time(row.softirq_us_p95),
            time(row.wake_us_p95),
        ]);
    }
    align(&mut table, 1..11);
    text(&table)
}

/// Formats microseconds, with no more digits than the width of a bucket justifies.
fn time(us: Option<f64>) -> String {
    match us {
        None => "-".to_string(),
        Some(us) if us < 9.95 => format!("{us:.1}"),
        Some(us) => short(us),
    }
}

fn kib(bytes: u64) -> String {
    match bytes as f64 / 1024.0 {
        n if n < 99.95 => format!("{n:.1} KiB"),
        n => format!("{n:.0} KiB"),
    }
}

/// Formats a whole number in a short notation.
fn short(n: f64) -> String {
    match n {
        n if n < 9.95 && n.fract() > 0.04 => format!("{n:.1}"),
        n if n < 9_999.5 => format!("{n:.0}"),
        n if n < 1024.0 * 1024.0 => format!("{:.0}K", n / 1024.0),
        n => format!("{:.1}M", n / 1024.0 / 1024.0),
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
            (20480.0, "20K"),
            (1_048_576.0, "1.0M"),
        ] {
            assert_eq!(short(n), want);
        }
        assert_eq!(time(Some(31.57)), "32");
        assert_eq!(time(Some(0.17)), "0.2");
        assert_eq!(kib(54_871), "53.6 KiB");
        assert_eq!(kib(1 << 20), "1024 KiB");
        assert_eq!(time(None), "-");
    }
}
