//! IPsec: packets delivered against packets offered; and over time, through a phase of high load.

use serde_json::Value;

use crate::number::{micros, short};
use crate::picture::bars::{self, Bar};
use crate::picture::canvas::Picture;
use crate::picture::lines::{Chart, Line, Point};
use crate::record::{is, number, word, Row};

use super::{policy, split};

/// Of one side, whose name comes first.
pub fn draw(side: &str, rows: &[&Row]) -> Vec<Picture> {
    let real: Vec<&Row> = rows.iter().copied().filter(|r| !is(r, "control")).collect();
    let mut pictures = Vec::new();
    for (load, rows) in split(&real, |r| word(r, "load").unwrap_or("-").to_string()) {
        pictures.extend(curve(&format!("{side}{load}: packets delivered"), &rows));
        for (prefix, what, upwards) in [
            ("t_mb_per_s_", "payload received", "MB/s"),
            ("t_queued_", "waiting for cryptd", "requests"),
        ] {
            let title = format!("{side}{load}: {what}");
            pictures.extend(over_time(&title, upwards, prefix, &rows));
        }
        let bar = |r: &&Row| {
            Some(Bar {
                name: policy(r),
                value: number(r, "esp_mb_per_s")?,
                ends: number(r, "esp_mb_per_s_low").zip(number(r, "esp_mb_per_s_high")),
                marked: false,
            })
        };
        let all: Vec<Bar> = rows.iter().filter_map(bar).collect();
        let title = format!("{side}{load}: payload of the high phase");
        pictures.extend(bars::draw(&title, "MB/s", false, &all));
    }
    pictures
}

/// A line for each policy, on logarithmic scales; none where the record has no rates.
fn curve(title: &str, rows: &[&Row]) -> Option<Picture> {
    let mut lines: Vec<Line> = Vec::new();
    for (name, rows) in split(rows, policy) {
        let point = |r: &&Row| {
            Some(Point {
                x: number(r, "offered_pps")?,
                y: number(r, "delivered_pps")?,
                ends: None,
            })
        };
        let points: Vec<Point> = rows.iter().filter_map(point).collect();
        if !points.is_empty() {
            lines.push(Line {
                name,
                series: Some(lines.len()),
                points,
            });
        }
    }
    Chart {
        title: title.to_string(),
        upwards: "packets/s delivered",
        along: "packets/s offered",
        log: (true, true),
        lines,
        stops: None,
        words: (&short, &short),
        shade: None,
        steps: false,
        marked: false,
    }
    .draw()
}

/// A line for each policy; none where the record is from before there was a series.
fn over_time(title: &str, upwards: &str, prefix: &str, rows: &[&Row]) -> Option<Picture> {
    let line = |(n, r): (usize, &&Row)| {
        let step = number(r, "t_ms")?;
        let at = |i: usize| r.get(&format!("{prefix}{i}")).and_then(Value::as_f64);
        let points: Vec<Point> = (0..)
            .map_while(|i| {
                Some(Point {
                    x: step * (i as f64 + 0.5),
                    y: at(i)?,
                    ends: None,
                })
            })
            .collect();
        (!points.is_empty()).then_some(Line {
            name: policy(r),
            series: Some(n),
            points,
        })
    };
    let lines: Vec<Line> = rows.iter().enumerate().filter_map(line).collect();
    let of = rows
        .iter()
        .find_map(|r| number(r, "t_high_from_ms").zip(number(r, "t_high_to_ms")));
    Chart {
        title: title.to_string(),
        upwards,
        along: "time",
        log: (false, false),
        lines,
        stops: None,
        words: (&|ms| micros(ms * 1e3), &short),
        shade: of.map(|(from, to)| (from, to, "high load")),
        steps: false,
        marked: false,
    }
    .draw()
}
