//! The tables of `ctrlq`, and the paper's histogram.

use std::fmt::Write;

use kiln_lab::ctrlq::{paper, Row};

use super::{align, paragraph, plain, text};

/// Stars of the longest bar.
const STARS: usize = 16;

/// A paragraph for each device and kind of session, then histograms.
pub fn all(rows: &[Row]) -> String {
    let mut out = String::from(
        "Creates and closes of sessions; latency in microseconds; hold: how long the lock\n\
         was held; CPU of both processes; xops, xcpu: against wait\n",
    );
    let together = |a: &Row, b: &Row| (a.ctrl, a.session) == (b.ctrl, b.session);
    for group in rows.chunk_by(together) {
        let ctrl = match group[0].ctrl {
            Some(ctrl) => format!("device --ctrl {ctrl}"),
            None => "the device that was there".to_string(),
        };
        let _ = write!(
            out,
            "\n{} sessions, {ctrl}\n{}",
            group[0].session,
            ways(group)
        );
    }
    // The paper's: closes of akcipher sessions, by the device that hands requests on.
    let most = |ctrl| {
        let of = rows
            .iter()
            .filter(move |r| r.session == "akcipher" && r.ctrl == ctrl);
        of.filter(|r| r.mode == "poll").max_by_key(|r| r.workers)
    };
    if let Some(row) = most(Some("thread"))
        .or_else(|| most(None))
        .or_else(|| most(Some("inline")))
    {
        let same = |r: &&Row| {
            r.mode == "wait"
                && (r.workers, r.session, r.ctrl) == (row.workers, row.session, row.ctrl)
        };
        out.push('\n');
        out.push_str(&histograms(row, rows.iter().find(same)));
    }
    out
}

fn ways(rows: &[Row]) -> String {
    let mut table = plain();
    table.add_row([
        "  mode", "n", "ops/s", "CPU %", "us/op", "p50", "p99.9", "p99.99", "max", "hold max",
        "xops", "xcpu",
    ]);
    for row in rows {
        table.add_row([
            format!("  {}", row.mode),
            row.workers.to_string(),
            short(Some(row.ops_per_s)),
            row.cpu_pct
                .or(row.driver_cpu_pct)
                .map_or("-".into(), |p| format!("{p:.0}")),
            row.cpu_us_per_op.map_or("-".into(), |u| format!("{u:.1}")),
            short(row.lat_us_p50),
            short(row.lat_us_p999),
            short(row.lat_us_p9999),
            short(row.lat_us_max),
            short(row.hold_us_max),
            row.ops_ratio_to_wait
                .map_or("-".into(), |r| format!("{r:.2}")),
            row.cpu_ratio_to_wait
                .map_or("-".into(), |r| format!("{r:.2}")),
        ]);
    }
    align(&mut table, 1..12);
    text(&table)
}

/// Five columns.
fn short(figure: Option<f64>) -> String {
    match figure {
        None => "-".to_string(),
        Some(f) if f < 9.95 => format!("{f:.1}"),
        Some(f) if f < 99_999.5 => format!("{f:.0}"),
        Some(f) if f < 999_999.5 => format!("{:.0}K", f / 1e3),
        Some(f) => format!("{:.2}M", f / 1e6),
    }
}

/// In the form of bcc, the paper's beside.
fn histograms(poll: &Row, wait: Option<&Row>) -> String {
    let mut columns = vec![
        ("paper, poll".to_string(), paper::CLOSES.to_vec()),
        (format!("poll {}", poll.workers), poll.closes_bcc.clone()),
    ];
    if let Some(wait) = wait {
        columns.push((format!("wait {}", wait.workers), wait.closes_bcc.clone()));
    }
    columns.push((
        format!("poll {}, lock", poll.workers),
        poll.holds_bcc.clone(),
    ));
    if let Some(wait) = wait {
        columns.push((
            format!("wait {}, lock", wait.workers),
            wait.holds_bcc.clone(),
        ));
    }
    let mut out = paragraph(&format!(
        "Closes of akcipher sessions in {} s of the paper and {:.1} s here, device --ctrl {}; lock: times it was held",
        paper::CLOSES_SECONDS,
        poll.seconds,
        poll.ctrl.unwrap_or("unknown")
    ));
    out.push('\n');
    for (name, counts) in columns {
        let most = counts.iter().copied().max().unwrap_or(0).max(1);
        let _ = writeln!(out, "{name:>16} usecs   : count    distribution");
        for (i, &count) in counts.iter().enumerate() {
            let low = if i == 0 { 0 } else { 1_u64 << i };
            let high = (2_u64 << i) - 1;
            let stars = "*".repeat((count as f64 / most as f64 * STARS as f64).round() as usize);
            let last = i + 1 == counts.len();
            let high = if last {
                format!("{high}+")
            } else {
                high.to_string()
            };
            let _ = writeln!(out, "{low:>16} -> {high:<6}: {count:<8} |{stars:<STARS$}|");
        }
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_five_columns() {
        for (figure, wanted) in [
            (None, "-"),
            (Some(0.84), "0.8"),
            (Some(16_383.4), "16383"),
            (Some(150_400.0), "150K"),
            (Some(1_035_780.0), "1.04M"),
        ] {
            assert_eq!(short(figure), wanted);
        }
    }
}
