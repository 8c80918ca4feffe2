//! Compilers and flags: a map for each cipher and width.

use crate::number::short;
use crate::picture::canvas::Picture;
use crate::picture::heat::{self, Spot};
use crate::record::{number, word, Row};

use super::split;

/// Of one side, whose name comes first.
pub fn draw(side: &str, rows: &[&Row]) -> Vec<Picture> {
    let built: Vec<&Row> = rows
        .iter()
        .copied()
        .filter(|r| word(r, "cc") != Some("-"))
        .collect();
    let maps = split(&built, |r| {
        let word = |f| word(r, f).unwrap_or("-");
        let narrow = if word("abi") == "32" { ", -m32" } else { "" };
        format!("{} ({}{narrow})", word("subject"), word("alg"))
    });
    let map = |(of, rows): &(String, Vec<&Row>)| {
        let spots: Vec<Spot> = rows.iter().map(|r| spot(r)).collect();
        heat::draw(&format!("{side}{of}"), "cycles a byte", &spots)
    };
    maps.iter().flat_map(map).collect()
}

fn spot(row: &Row) -> Spot {
    let said = |f| word(row, f).unwrap_or("-");
    // A path's last part is what people call it.
    let cc = said("cc").rsplit('/').next().unwrap_or("-");
    let value = number(row, "cycles_per_byte").filter(|_| said("status") == "ok");
    let mut hint = format!(
        "{} -{} {}",
        said("cc_version"),
        said("opt"),
        said("variant")
    );
    if let (Some(low), Some(high)) = (number(row, "ci_low"), number(row, "ci_high")) {
        hint.push_str(&format!(": {} to {}", short(low), short(high)));
    }
    if let Some(reason) = word(row, "reason") {
        hint.push_str(&format!(": {reason}"));
    }
    Spot {
        line: format!("{cc} -{}", said("opt")),
        column: said("variant").to_string(),
        value,
        status: said("status").to_string(),
        hint,
    }
}
