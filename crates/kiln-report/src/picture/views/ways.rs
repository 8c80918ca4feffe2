//! What the ways to reach a cipher cost: a picture for each algorithm, policy and length.

use crate::picture::bars::{self, Bar};
use crate::picture::canvas::Picture;
use crate::record::{number, word, Row};

use super::{said, split};

/// Whole ways; the other rows are parts of one.
const WAYS: [&str; 7] = [
    "primitive",
    "library",
    "direct",
    "simd-helper",
    "cryptd",
    "scalar",
    "sync-user",
];

/// Of one side, whose name comes first.
pub fn draw(side: &str, rows: &[&Row]) -> Vec<Picture> {
    let parts = split(rows, |r| {
        said(r, &["alg", "len", "policy", "provider", "config"])
    });
    let picture = |(of, rows): &(String, Vec<&Row>)| {
        let bar = |r: &&Row| {
            Some(Bar {
                name: word(r, "path")?.to_string(),
                value: number(r, "cycles_per_op")?,
                ends: number(r, "cycles_low").zip(number(r, "cycles_high")),
                marked: word(r, "path") == Some("direct"),
            })
        };
        let whole = rows
            .iter()
            .filter(|r| word(r, "path").is_some_and(|p| WAYS.contains(&p)));
        let all: Vec<Bar> = whole.filter_map(bar).collect();
        bars::draw(&format!("{side}{of}"), "cycles a message", true, &all)
    };
    parts.iter().filter_map(picture).collect()
}
