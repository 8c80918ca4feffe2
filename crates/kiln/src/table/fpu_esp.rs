//! The tables of `fpu` under loads of packets.

use kiln_lab::fpu::Row;

use super::fpu::{or_dash, with_fallback};
use super::{align, plain, text};

/// Figures, then counts, of each load.
pub fn tables(rows: &[Row]) -> String {
    let mut loads: Vec<&str> = Vec::new();
    for r in rows {
        if !loads.contains(&&*r.load) {
            loads.push(&r.load);
        }
    }
    let mut out = String::new();
    for load in loads {
        let of = |r: &&Row| r.load == load && !r.control;
        let rows: Vec<&Row> = rows.iter().filter(of).collect();
        let driver = rows.iter().map(|r| r.imp.as_ref()).find(|d| !d.is_empty());
        out.push_str(&format!("{load}, {}\n\n", driver.unwrap_or_default()));
        out.push_str(&figures(&rows));
        out.push('\n');
        out.push_str(&counts(&rows));
        out.push('\n');
    }
    if out.is_empty() {
        out.push_str("no figures\n");
    }
    out
}

fn half(low: Option<f64>, high: Option<f64>) -> Option<f64> {
    Some((high? - low?) / 2.0)
}

fn figures(rows: &[&Row]) -> String {
    let mut table = plain();
    table.set_header([
        "policy",
        "esp\nMB/s",
        "\n±",
        "to the\nfirst",
        "\n±",
        "recovery\nµs",
        "task\nMB/s",
        "of its\ncontrol",
        "softirq\nµs p99",
    ]);
    for r in rows {
        let pct = |x: Option<f64>| x.map_or("-".to_string(), |x| format!("{:.1}%", 100.0 * x));
        let of_figure = match (
            half(r.esp_mb_per_s_low, r.esp_mb_per_s_high),
            r.esp_mb_per_s,
        ) {
            (Some(half), Some(mb)) if mb > 0.0 => Some(half / mb),
            _ => None,
        };
        let times = |x: Option<f64>| x.map_or("-".to_string(), |x| format!("{x:.2}"));
        table.add_row([
            with_fallback(r),
            or_dash(r.esp_mb_per_s),
            pct(of_figure),
            times(r.esp_ratio),
            times(half(r.esp_ratio_low, r.esp_ratio_high)),
            or_dash(r.recovery_us),
            or_dash(r.task_mb_per_s),
            pct(r.of_control),
            or_dash(r.softirq_us_p99),
        ]);
    }
    align(&mut table, 1..9);
    text(&table)
}

fn counts(rows: &[&Row]) -> String {
    let mut table = plain();
    table.set_header([
        "policy",
        "packets",
        "to\ncryptd",
        "dropped",
        "re-\nordered",
        "replay\nlost",
        "nested\nsaves",
        "wrong",
        "user\nwrong",
    ]);
    let count = |n: Option<u64>| n.map_or("-".to_string(), |n| n.to_string());
    for r in rows {
        table.add_row([
            with_fallback(r),
            count(r.packets),
            count(r.async_punts),
            count(r.dropped),
            count(r.reordered),
            count(r.replay_lost),
            r.nested_saves.to_string(),
            r.corrupted.to_string(),
            r.user_corrupted.to_string(),
        ]);
    }
    align(&mut table, 1..9);
    text(&table)
}
