//! A control queue: how long closes take, by way of waiting.

use crate::number::micros;
use crate::picture::canvas::Picture;
use crate::picture::lines::{Chart, Line, Point};
use crate::record::{number, word, Row};

use super::{histogram, said, split};

/// Of one side, whose name comes first: a picture for each number of workers, kind of session and device.
pub fn draw(side: &str, rows: &[&Row]) -> Vec<Picture> {
    let parts = split(rows, |r| said(r, &["workers", "session", "ctrl", "cores"]));
    parts
        .iter()
        .filter_map(|(of, rows)| picture(&format!("{side}{of}"), rows))
        .collect()
}

fn picture(title: &str, rows: &[&Row]) -> Option<Picture> {
    let modes = ["poll", "wait", "async"];
    let line = |r: &&Row| {
        let counts = histogram(r, "hist_us");
        let total: f64 = counts.iter().map(|c| c.2).sum();
        let mode = word(r, "mode").unwrap_or("-");
        if total <= 0.0 {
            return None;
        }
        // From the first octave with any to the last.
        let some: Vec<_> = counts.iter().filter(|c| c.2 > 0.0).collect();
        let (first, last) = (some.first()?.0, some.last()?.1);
        let inside = counts.iter().filter(|c| c.0 >= first && c.1 <= last);
        let mut points: Vec<Point> = Vec::new();
        for &(from, to, count) in inside {
            // An octave without any is drawn at the floor, which a logarithm has none of.
            let y = 100.0 * count.max(0.5) / total;
            points.push(Point {
                x: from,
                y,
                ends: None,
            });
            points.push(Point {
                x: to,
                y,
                ends: None,
            });
        }
        let tail =
            number(r, "lat_us_p999").map_or(String::new(), |us| format!(", p99.9 {}", micros(us)));
        let rate = number(r, "pairs_per_s")
            .map_or(String::new(), |n| format!(", {n:.0} pairs per second"));
        Some(Line {
            name: format!("{}{rate}{tail}", said(r, &["mode", "depth"])),
            series: Some(modes.iter().position(|m| *m == mode).unwrap_or(3)),
            points,
        })
    };
    let lines: Vec<Line> = rows.iter().filter_map(line).collect();
    Chart {
        title: title.to_string(),
        upwards: "% of closes, by octave",
        along: "time of a close",
        log: (true, true),
        lines,
        stops: Some((0..16).map(|i| f64::from(1 << i)).collect()),
        words: (&micros, &|v| match v {
            v if v >= 0.9995 => format!("{v:.0}"),
            v => format!("{v}").chars().take(7).collect(),
        }),
        shade: None,
        steps: true,
        marked: false,
    }
    .draw()
}
