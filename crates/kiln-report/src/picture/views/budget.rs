//! Section lengths by way of cutting, against the target.

use crate::number::micros;
use crate::picture::bands::{Band, Bands};
use crate::picture::canvas::Picture;
use crate::record::{number, word, Row};

use super::{histogram, said, split};

/// Of one side, whose name comes first: a picture for each implementation and target.
pub fn draw(side: &str, rows: &[&Row]) -> Vec<Picture> {
    let parts = split(rows, |r| {
        let target = number(r, "target_us").unwrap_or(0.0);
        format!("{}, {target} µs", said(r, &["impl", "op", "data"]))
    });
    let picture = |(of, rows): &(String, Vec<&Row>)| {
        let target = number(rows[0], "target_us").filter(|t| *t > 0.0);
        let band = |r: &&Row| Band {
            name: word(r, "mode").unwrap_or("-").to_string(),
            counts: histogram(r, "section_hist_ns")
                .into_iter()
                .map(|(from, to, n)| (from / 1e3, to / 1e3, n))
                .collect(),
            p50: number(r, "section_us_p50"),
            tail: number(r, "section_us_p999"),
            max: number(r, "section_us_max"),
            beside: number(r, "null_us_p999"),
        };
        Bands {
            title: format!("{side}{of}"),
            unit: "a section",
            tail: "p99.9",
            beside: "pure arithmetic's",
            target: target.map(|t| (t, format!("target {}", micros(t)))),
            bands: rows.iter().map(band).collect(),
        }
        .draw()
    };
    parts.iter().filter_map(picture).collect()
}
