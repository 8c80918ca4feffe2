//! Formats the tables and histograms that `kiln ctrlq` prints. The histograms are shown next to
//! the published one.

use std::fmt::Write;

use kiln_question::table::{align, paragraph, plain, text};

use super::paper;
use super::row::Row;
use super::verdict;

/// Number of stars in the longest bar of a histogram.
const STARS: usize = 16;

/// Formats a table for each device and kind of session, followed by histograms.
pub(super) fn format_tables(rows: &[Row]) -> String {
    let unknown = match rows.iter().any(|r| r.cpu_us_per_op.is_none()) {
        true => " (-: the device was not started by this command, so its part is unknown)",
        false => "",
    };
    let mut out = paragraph(&format!(
        "A pair is one create and one close of a session. pairs/s: median of the rounds, with its 95 % interval. us/pair: microseconds of \
         CPU time per pair, driver and device together{unknown}. p50 to p99.99: latency of a create or a close in us. /wait: \
         pairs/s divided by that of wait"
    )) + "\n";
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
    // The published histogram counts closes of akcipher sessions on a device that uses a second
    // thread.
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
    if let Some(best) = verdict::best(rows) {
        if !out.ends_with("\n\n") {
            out.push('\n');
        }
        out.push_str(&paragraph(&best));
        out.push('\n');
    }
    out
}

fn ways(rows: &[Row]) -> String {
    let mut table = plain();
    table.add_row([
        "  mode", "n", "pairs/s", "95 %", "us/pair", "p50", "p99.9", "p99.99", "/wait", "95 %",
    ]);
    for row in rows {
        let ratio = |field: Option<f64>| match field {
            None => "-".to_string(),
            Some(r) if r < 0.0995 => format!("{r:.3}"),
            Some(r) => format!("{r:.2}"),
        };
        let starved = if row.is_starved { "*" } else { "" };
        let disturbed = if row.is_disturbed() { "!" } else { "" };
        let between =
            |low: Option<f64>, high: Option<f64>, shown: &dyn Fn(Option<f64>) -> String| match low
                .and(high)
            {
                None => "-".to_string(),
                Some(_) => format!("{}-{}", shown(low), shown(high)),
            };
        // Ratios to `wait` are not shown for `wait` itself, because they are always 1.
        let other = |field: Option<f64>| field.filter(|_| row.mode != "wait");
        table.add_row([
            format!("  {}{starved}{disturbed}", row.mode),
            row.workers.to_string(),
            short(row.pairs_per_s),
            between(row.pairs_per_s_low, row.pairs_per_s_high, &short),
            row.cpu_us_per_op
                .map_or("-".into(), |u| format!("{:.1}", 2.0 * u)),
            short(row.lat_us_p50),
            short(row.lat_us_p999),
            short(row.lat_us_p9999),
            ratio(other(row.ops_ratio_to_wait)),
            between(
                other(row.ops_ratio_to_wait_low),
                other(row.ops_ratio_to_wait_high),
                &ratio,
            ),
        ]);
    }
    align(&mut table, 1..10);
    text(&table)
}

/// Formats a number in at most five characters.
fn short(figure: Option<f64>) -> String {
    match figure {
        None => "-".to_string(),
        Some(f) if f < 9.95 => format!("{f:.1}"),
        Some(f) if f < 9_999.5 => format!("{f:.0}"),
        Some(f) if f < 99_949.5 => format!("{:.1}K", f / 1e3),
        Some(f) if f < 999_999.5 => format!("{:.0}K", f / 1e3),
        Some(f) => format!("{:.2}M", f / 1e6),
    }
}

/// Formats the histograms in the style of bcc, next to the published histogram.
fn histograms(poll: &Row, wait: Option<&Row>) -> String {
    let mut columns = vec![(format!("poll {}", poll.workers), poll.closes_bcc.clone())];
    // If there are too few cores, the scheduler determines the result, so a comparison with the
    // paper would be misleading.
    let enough = !poll.is_starved && !wait.is_some_and(|w| w.is_starved);
    if enough {
        columns.insert(0, ("paper, poll".to_string(), paper::CLOSES.to_vec()));
    }
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
    let published = match enough {
        true => format!(" (published: in {} s)", paper::CLOSES_SECONDS),
        false => String::new(),
    };
    let mut out = paragraph(&format!(
        "Closes of akcipher sessions in {:.1} s{published}, device --ctrl {}; lock: how often it was held so long",
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
            (Some(8_191.4), "8191"),
            (Some(16_383.4), "16.4K"),
            (Some(99_990.0), "100K"),
            (Some(150_400.0), "150K"),
            (Some(1_035_780.0), "1.04M"),
        ] {
            assert_eq!(short(figure), wanted);
        }
    }
}
