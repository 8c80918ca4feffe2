//! The page: one self-contained file for screens of any width and for print, which also works without its script.

mod facts;
mod section;

use base64::engine::general_purpose::STANDARD;
use base64::Engine;
use maud::{html, Markup, PreEscaped, DOCTYPE};
use sha2::{Digest, Sha256};

use crate::error::Error;
use crate::group::groups;
use crate::side::{embedded, Side};

/// Maximum size of a page, in bytes.
pub(crate) const MOST_BYTES: usize = 2 << 20;

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("script.js");

#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Heading of the page; by default, it lists what the page contains.
    pub title: Option<String>,
}

/// The page: one self-contained file. If it would exceed 2 MB, the largest records are left out, and the page says so.
pub fn html(sides: &[Side], options: &Options) -> Result<String, Error> {
    if sides.iter().all(|s| s.records.is_empty()) {
        return Err(Error::new(
            "no record to report: name files that --json or --out wrote",
        ));
    }
    let mut kept: Vec<Side> = sides.to_vec();
    let mut left: Vec<(usize, usize)> = Vec::new();
    loop {
        let page = page(sides, &kept, &left, options).into_string();
        if page.len() <= MOST_BYTES {
            return Ok(page);
        }
        // Indexed by position in `sides`: records removed from `kept` are null there.
        let all = kept.iter().enumerate().flat_map(|(s, side)| {
            let sized = side.records.iter().enumerate();
            sized.map(move |(r, record)| (record.to_string().len(), s, r))
        });
        match all.filter(|(size, ..)| *size > 4).max() {
            Some((_, s, r)) => {
                kept[s].records[r] = serde_json::Value::Null;
                left.push((s, r));
            }
            None => return Ok(page),
        }
    }
}

/// A source for the content security policy that permits this exact text.
fn only(text: &str) -> String {
    format!("'sha256-{}'", STANDARD.encode(Sha256::digest(text)))
}

fn page(sides: &[Side], kept: &[Side], left: &[(usize, usize)], options: &Options) -> Markup {
    let names: Vec<String> = sides.iter().map(|s| s.name.clone()).collect();
    let title = options.title.clone().unwrap_or_else(|| match &names[..] {
        [_] => "Kiln: kernel crypto in user land".to_string(),
        all => format!("Kiln: {}", all.join(", ")),
    });
    let policy = format!(
        "default-src 'none'; script-src {}; style-src {}; base-uri 'none'; form-action 'none'",
        only(SCRIPT),
        only(STYLE)
    );
    let groups = groups(sides);
    let shown: Vec<_> = groups
        .iter()
        .filter(|g| g.kind.view.cards.is_none())
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
                    (facts::machines(sides))
                    (facts::warnings(sides))
                }
                main {
                    (facts::headlines(&groups, &names))
                    nav aria-label="Contents" {
                        ul {
                            @for group in &shown { li { a href={ "#" (group.kind.name) } { (group.kind.title) } } }
                            li { a href="#records" { "Records" } }
                        }
                    }
                    @for group in &shown { (section::draw_section(group, sides, &names)) }
                    (facts::records(sides, left))
                }
                footer {
                    p { "Made by kiln " (env!("CARGO_PKG_VERSION")) ". An interval says where the figure of a rerun falls, or \
                         the 95 % interval of a ratio. This page loads nothing and sends nothing." }
                }
                (PreEscaped(embedded(kept)))
                script { (PreEscaped(SCRIPT)) }
            }
        }
    }
}
