//! Policies under softirq load: throughput, and how long softirqs and sections last.

use crate::picture::bands::{Band, Bands};
use crate::picture::bars::{self, Bar};
use crate::picture::canvas::Picture;
use crate::record::{is, number, word, Row};

use super::{histogram, policy, split};

/// Of one side, whose name comes first.
pub fn draw(side: &str, rows: &[&Row]) -> Vec<Picture> {
    let real: Vec<&Row> = rows.iter().copied().filter(|r| !is(r, "control")).collect();
    let mut pictures = Vec::new();
    for (load, rows) in split(&real, setting) {
        let bar = |r: &&Row| {
            Some(Bar {
                name: policy(r),
                value: number(r, "task_mb_per_s")?,
                ends: number(r, "task_mb_per_s_low").zip(number(r, "task_mb_per_s_high")),
                marked: false,
            })
        };
        let all: Vec<Bar> = rows.iter().filter_map(bar).collect();
        let title = format!("{side}{load}: what the task encrypts");
        pictures.extend(bars::draw(&title, "MB/s", false, &all));
        pictures.extend(times(
            &format!("{side}{load}: from raise to softirq"),
            "softirq",
            "p99",
            &rows,
        ));
        pictures.extend(times(
            &format!("{side}{load}: FPU sections"),
            "section",
            "p99.9",
            &rows,
        ));
    }
    pictures
}

/// The load, and where interrupts come from if not by the clock: they are as many as can be had then.
fn setting(row: &Row) -> String {
    let load = word(row, "load").unwrap_or("-");
    match word(row, "inject") {
        None | Some("timer") => load.to_string(),
        Some(source) => format!("{load}, {source}"),
    }
}

fn times(title: &str, of: &str, tail: &str, rows: &[&Row]) -> Option<Picture> {
    let field = |name: &str| format!("{of}_us_{name}");
    let band = |r: &&Row| Band {
        name: policy(r),
        counts: histogram(r, &format!("{of}_hist_ns"))
            .into_iter()
            .map(|(from, to, n)| (from / 1e3, to / 1e3, n))
            .collect(),
        p50: number(r, &field("p50")),
        tail: number(r, &field(if tail == "p99" { "p99" } else { "p999" })),
        max: number(r, &field("max")),
        beside: None,
    };
    let bands: Vec<Band> = rows.iter().map(band).collect();
    Bands {
        title: title.to_string(),
        unit: "time",
        tail,
        beside: "",
        target: None,
        bands,
    }
    .draw()
}
