//! Formats the tables that `kiln ipsec` prints.

use kiln_question::table::{align, plain, text};

use super::row::EspRow;
use crate::fpu::view::{or_dash, with_fallback};
use crate::fpu::Row;

/// Formats the results of each load, followed by the counts.
pub(super) fn tables(rows: &[EspRow]) -> String {
    let rows: Vec<&Row> = rows.iter().map(|row| &row.0).collect();
    let mut loads: Vec<&str> = Vec::new();
    for r in &rows {
        if !loads.contains(&&*r.load) {
            loads.push(&r.load);
        }
    }
    let mut out = String::new();
    for load in loads {
        let of = |r: &&Row| r.load == load && !r.control;
        let rows: Vec<&Row> = rows.iter().copied().filter(of).collect();
        let driver = rows.iter().map(|r| r.imp.as_ref()).find(|d| !d.is_empty());
        out.push_str(&format!("{load}, {}\n\n", driver.unwrap_or_default()));
        if rows.iter().any(|r| r.sweep.is_some()) {
            out.push_str(&knees(&rows));
            out.push_str(&curve(&rows));
        } else {
            out.push_str(&figures(&rows));
            out.push('\n');
            out.push_str(&counts(&rows));
        }
        out.push('\n');
    }
    if out.is_empty() {
        out.push_str("no figures\n");
    }
    out
}

/// Formats a packet rate, for example as `1.23 M` or `250 k`.
fn pps(x: Option<f64>) -> String {
    x.map_or("-".to_string(), |x| match x {
        x if x >= 999_500.0 => format!("{:.2} M", x / 1e6),
        x => format!("{:.1} k", x / 1e3),
    })
}

fn share(x: Option<f64>) -> String {
    x.map_or("-".to_string(), |x| format!("{:.1} %", 100.0 * x))
}

/// Formats the share of the core that packets take. The share is a difference of two measurements,
/// so noise can make it negative; it is then shown as 0.
fn of_core(x: Option<f64>) -> String {
    share(x.map(|x| x.max(0.0)))
}

/// Formats the rates at which losses begin. Returns an empty string if a single rate was requested.
fn knees(rows: &[&Row]) -> String {
    let mut table = plain();
    table.set_header([
        "policy",
        "loses from\npackets/s",
        "\nlow",
        "\nhigh",
        "\nGbit/s",
        "of the\ncore",
        "lost by",
    ]);
    let mut any = false;
    for r in rows {
        let Some(s) = r.sweep.as_ref().filter(|s| s.offered_pps.is_none()) else {
            continue;
        };
        any = true;
        let value = match (s.knee_pps, s.knee_pps_low, s.knee_pps_high) {
            (None, Some(low), None) => format!("> {}", pps(Some(low))),
            (None, None, Some(high)) => format!("< {}", pps(Some(high))),
            (value, ..) => pps(value),
        };
        table.add_row([
            with_fallback(r),
            value,
            pps(s.knee_pps_low),
            pps(s.knee_pps_high),
            s.knee_gbit_s.map_or("-".to_string(), |g| format!("{g:.2}")),
            of_core(s.knee_core_share),
            s.knee_loss.clone().unwrap_or("-".to_string()),
        ]);
    }
    align(&mut table, 1..6);
    match any {
        true => format!("{}\n", text(&table)),
        false => String::new(),
    }
}

/// Formats the curve, but only at whole octaves. Records contain all rates.
fn curve(rows: &[&Row]) -> String {
    let mut table = plain();
    table.set_header([
        "policy",
        "offered\n/s",
        "deli-\nvered/s",
        "lost",
        "dropped",
        "core\nfull",
        "replay\nlost",
        "of the\ncore",
        "softirq\nµs p99",
        "wrong",
    ]);
    for r in rows {
        let Some(s) = r.sweep.as_ref().filter(|s| s.offered_pps.is_some()) else {
            continue;
        };
        let octave = s
            .offered_pps
            .is_some_and(|o| ((o / 1000.0).log2().fract()).abs() < 1e-6);
        let single = rows.iter().all(|r| {
            r.sweep
                .as_ref()
                .is_none_or(|s| s.knee_pps_low.is_none() && s.knee_pps_high.is_none())
        });
        if !octave && !single {
            continue;
        }
        let count = |n: Option<u64>| n.map_or("-".to_string(), |n| n.to_string());
        table.add_row([
            match rows
                .iter()
                .any(|o| o.policy == r.policy && o.fallback != r.fallback)
            {
                true => with_fallback(r),
                false => r.policy.to_string(),
            },
            pps(s.offered_pps),
            pps(s.delivered_pps),
            share(s.lost_share),
            count(r.dropped),
            count(r.ring_missed),
            count(r.replay_lost),
            of_core(s.core_share),
            or_dash(r.softirq_us_p99),
            (r.corrupted + r.user_corrupted).to_string(),
        ]);
    }
    align(&mut table, 1..10);
    text(&table)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_take_no_negative_share_of_the_core() {
        for (share, shown) in [
            (Some(-0.133), "0.0 %"),
            (Some(0.133), "13.3 %"),
            (Some(-0.0), "0.0 %"),
            (None, "-"),
        ] {
            assert_eq!(of_core(share), shown);
        }
        // Control: `share` itself keeps the sign.
        assert_eq!(super::share(Some(-0.133)), "-13.3 %");
    }
}
