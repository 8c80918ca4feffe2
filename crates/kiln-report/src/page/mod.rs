//! Builds the report page as one self-contained file, suitable for printing and for screens of any
//! width. The page works even without its script.

mod change;
mod facts;
mod section;

use std::collections::HashSet;

use base64::engine::general_purpose::STANDARD;
use base64::Engine;
use maud::{html, Markup, PreEscaped, DOCTYPE};
use sha2::{Digest, Sha256};

use crate::error::Error;
use crate::group::groups;
use crate::side::{embedded, escaped, Side};

/// Maximum size of a page, in bytes.
pub(crate) const MOST_BYTES: usize = 2 << 20;

/// Maximum number of sides that get a column each. A page with more sides shows only what differs
/// and what changed.
const MOST_SIDES: usize = 12;

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("script.js");

#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The page's heading. If it is `None`, the heading lists the sides or, if there are many,
    /// states their number.
    pub title: Option<String>,
}

/// Builds the page as one self-contained file. If the page would exceed 2 MB, the largest records
/// are omitted, and the page lists the omitted records.
pub fn html(sides: &[Side], options: &Options) -> Result<String, Error> {
    if sides.iter().all(|s| s.records.is_empty()) {
        return Err(Error::new(
            "no record to report: name files that --json or --out wrote",
        ));
    }
    let page = page(sides, sides, &[], options).into_string();
    if page.len() <= MOST_BYTES {
        return Ok(page);
    }
    let mut sizes: Vec<(usize, usize, usize)> = Vec::new();
    for (s, side) in sides.iter().enumerate() {
        let sized = side.records.iter().enumerate();
        sizes.extend(sized.map(|(r, record)| (escaped(record).len(), s, r)));
    }
    sizes.sort_unstable();
    // `kept` has the same indices as `sides`. Omitted records are replaced by null.
    let mut kept: Vec<Side> = sides.to_vec();
    let mut left: HashSet<(usize, usize)> = HashSet::new();
    let mut excess = page.len().saturating_sub(MOST_BYTES);
    while let Some((size, s, r)) = sizes.pop().filter(|_| excess > 0) {
        kept[s].records[r] = serde_json::Value::Null;
        left.insert((s, r));
        // The record is replaced by null, and the list of omitted records repeats the side's name,
        // so subtract both from the record's size.
        excess = excess.saturating_sub(size.saturating_sub(4 + sides[s].name.len()));
    }
    let left: Vec<(usize, usize)> = left.into_iter().collect();
    Ok(self::page(sides, &kept, &left, options).into_string())
}

/// Returns the source expression that permits this exact script or style in a content security
/// policy.
fn only(text: &str) -> String {
    format!("'sha256-{}'", STANDARD.encode(Sha256::digest(text)))
}

fn page(sides: &[Side], kept: &[Side], left: &[(usize, usize)], options: &Options) -> Markup {
    let names: Vec<String> = sides.iter().map(|s| s.name.clone()).collect();
    let title = options.title.clone().unwrap_or_else(|| match &names[..] {
        [_] => "Kiln: kernel crypto in user land".to_string(),
        all if all.len() > MOST_SIDES => {
            format!("Kiln: {} machines, commits and compilers", all.len())
        }
        all => format!("Kiln: {}", all.join(", ")),
    });
    let policy = format!(
        "default-src 'none'; script-src {}; style-src {}; base-uri 'none'; form-action 'none'",
        only(SCRIPT),
        only(STYLE)
    );
    let groups = groups(sides);
    let few = sides.len() <= MOST_SIDES;
    let shown: Vec<_> = groups
        .iter()
        .filter(|g| few && g.kind.view.cards.is_none())
        .collect();
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(policy);
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="generator" content=(concat!("kiln ", env!("CARGO_PKG_VERSION")));
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                header {
                    div.bar {
                        h1 { (title) }
                        button #theme type="button" hidden { "light or dark" }
                    }
                    @if few { (facts::machines(sides)) } @else { (facts::sides(sides)) }
                    (facts::warnings(sides))
                }
                main {
                    @if few { (facts::headlines(&groups, &names)) }
                    nav aria-label="Contents" {
                        ul {
                            @for group in &shown { li { a href={ "#" (group.kind.name) } { (group.kind.title) } } }
                            li { a href="#records" { "Records" } }
                        }
                    }
                    (change::sections(&groups, sides))
                    @for group in &shown { (section::draw_section(group, sides, &names)) }
                    (facts::records(sides, left))
                }
                footer {
                    p { "Made by kiln " (env!("CARGO_PKG_VERSION")) ". A range shows where the result of another run is \
                         expected. The range of a ratio is its 95 % interval. This page neither loads nor sends anything over the network." }
                }
                (PreEscaped(embedded(kept)))
                script { (PreEscaped(SCRIPT)) }
            }
        }
    }
}
