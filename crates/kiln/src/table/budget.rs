//! The tables of `budget`.

use kiln_lab::budget::Row;

use super::{align, figure, paragraph, plain, text};

/// A paragraph for each implementation, operation, kind of data and target; a line for each way.
pub fn all(rows: &[Row]) -> String {
    let mut out = String::from(
        "Microseconds: sections under interrupts, sections of pure arithmetic beside them\n\
         (null), a softirq's wait (irq) and that of a task that is woken (wake)\n",
    );
    let together = |a: &Row, b: &Row| {
        (a.imp, a.op, a.data, a.target_us.to_bits()) == (b.imp, b.op, b.data, b.target_us.to_bits())
    };
    for group in rows.chunk_by(together) {
        out.push('\n');
        out.push_str(&paragraph(&heading(&group[0])));
        out.push('\n');
        out.push_str(&ways(group));
    }
    out
}

fn heading(row: &Row) -> String {
    let fits = match row.fits_bytes {
        Some(n) => format!("{n} B"),
        None => "nothing".to_string(),
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
        "{}, {}{cold}: {} cycles a byte; {} µs hold {fits}{short}",
        row.imp,
        row.op,
        figure(row.cycles_per_byte),
        row.target_us
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

/// Microseconds in four columns or so.
fn time(us: Option<f64>) -> String {
    match us {
        None => "-".to_string(),
        Some(us) if us < 99.95 => format!("{us:.1}"),
        Some(us) => short(us),
    }
}

/// Whole numbers that take little room.
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
        assert_eq!(time(Some(30.04)), "30.0");
        assert_eq!(time(None), "-");
    }
}
