//! Basic elements of charts: fitted text, lines, markers and the styles of series.

use maud::{html, Markup, PreEscaped};

/// Width of every chart in SVG units, chosen to fit a phone's screen.
pub(super) const WIDTH: f64 = 360.0;
/// Font size of all text except titles.
pub(super) const FONT: f64 = 11.0;
/// Font size of titles.
const TITLE: f64 = 12.5;
/// Upper bounds for a character's width, relative to the font size: `EM` for ordinary characters in
/// a common typeface, `WIDE` for wide characters.
const EM: f64 = 0.64;
const WIDE: f64 = 1.02;
/// Maximum number of pictures that a file shows side by side.
const MOST_COLUMNS: usize = 3;
const FAMILY: &str = "system-ui, 'Noto Sans', 'DejaVu Sans', sans-serif";
/// Distance between lines of text.
pub(super) const LEADING: f64 = 15.0;

/// Colours of the light theme, for stand-alone SVG files. The report page defines its own colours.
const COLOURS: &str = ":root{--page:#fff;--ink:#1b1b1a;--soft:#595955;--line:#d8d8d2;--grid:#e6e6e0;--shade:#efe9d9;\
    --s0:#0067a5;--s1:#c04a00;--s2:#00765a;--s3:#9a3a8c;--s4:#7a5c00;--s5:#5c5c5c;--s6:#a3243b;--s7:#3b4fa8;\
    --hot:#e06a1c;--good:#3a8fc4}";

/// Dash patterns, which make lines distinguishable even without colour.
const DASHES: [&str; 8] = [
    "",
    "7 3",
    "2 3",
    "9 3 2 3",
    "4 2",
    "1 3",
    "12 4",
    "6 2 2 2 2 2",
];

#[derive(Clone, Debug)]
pub struct Picture {
    pub title: String,
    /// Alternative text for screen readers. It explains how to read the picture and describes what
    /// the picture shows.
    pub about: String,
    /// Height in SVG units.
    pub height: f64,
    /// The elements, in drawing order.
    pub body: Vec<Markup>,
}

impl Picture {
    /// Starts a picture by drawing its title, which may wrap. After this, `height` is the position
    /// at which the content may begin.
    pub fn new(title: &str) -> Picture {
        let mut picture = Picture {
            title: title.to_string(),
            about: String::new(),
            height: 4.0,
            body: Vec::new(),
        };
        for line in wrapped(title, WIDTH - 4.0, TITLE) {
            picture.height += LEADING;
            let y = n(picture.height - 2.0);
            picture.body.push(html! {
                text x="2" y=(y) fill="var(--ink)" font-size=(TITLE) font-weight="600" { (line) }
            });
        }
        picture
    }

    /// Draws text in the normal colour.
    pub fn label(&mut self, x: f64, y: f64, anchor: &str, text: &str) {
        self.word(x, y, anchor, text, "var(--ink)");
    }

    /// Draws text in a subdued colour.
    pub fn soft(&mut self, x: f64, y: f64, anchor: &str, text: &str) {
        self.word(x, y, anchor, text, "var(--soft)");
    }

    fn word(&mut self, x: f64, y: f64, anchor: &str, text: &str, colour: &str) {
        self.body.push(html! {
            text x=(n(x)) y=(n(y)) text-anchor=(anchor) fill=(colour) { (text) }
        });
    }

    /// Draws text that is shortened to fit into `room`. A tooltip shows the full text.
    pub(crate) fn fitted(&mut self, x: f64, y: f64, anchor: &str, text: &str, room: f64) {
        let cut = fit(text, room, FONT);
        let whole = (cut != text).then_some(text);
        self.body.push(html! {
            text x=(n(x)) y=(n(y)) text-anchor=(anchor) fill="var(--ink)" {
                (cut)
                @if let Some(whole) = whole { title { (whole) } }
            }
        });
    }

    /// Adds lines of subdued text at the bottom of the picture.
    pub fn note(&mut self, text: &str) {
        for line in wrapped(text, WIDTH - 4.0, FONT) {
            self.height += LEADING;
            let y = self.height - 3.0;
            self.soft(2.0, y, "start", &line);
        }
    }

    /// Draws a path without fill.
    pub fn path(&mut self, d: &str, stroke: &str, width: f64, dash: &str) {
        self.body.push(html! {
            path d=(d) fill="none" stroke=(stroke) stroke-width=(width) stroke-dasharray=[(!dash.is_empty()).then_some(dash)]
                stroke-linejoin="round" {}
        });
    }

    /// Draws a rectangle with the tooltip `hint`.
    pub(crate) fn rect(
        &mut self,
        at: (f64, f64),
        size: (f64, f64),
        fill: &str,
        opacity: f64,
        hint: &str,
    ) {
        self.body.push(html! {
            rect x=(n(at.0)) y=(n(at.1)) width=(n(size.0.max(0.0))) height=(n(size.1.max(0.0))) fill=(fill)
                fill-opacity=[(opacity < 1.0).then_some(n2(opacity))] {
                @if !hint.is_empty() { title { (hint) } }
            }
        });
    }

    /// Draws the marker of a series, with the tooltip `hint`.
    pub fn marker(&mut self, series: usize, x: f64, y: f64, hint: &str) {
        self.body.push(html! {
            path d=(shape(series, x, y)) fill=(colour(series)) stroke="var(--page)" stroke-width="0.7" {
                @if !hint.is_empty() { title { (hint) } }
            }
        });
    }

    /// Returns the picture as an element for a page.
    pub fn inline(&self) -> Markup {
        let view = format!("0 0 {WIDTH} {}", n(self.height));
        html! {
            svg viewBox=(view) role="img" aria-label=(self.title) font-family=(FAMILY) font-size=(FONT) { (self.content()) }
        }
    }

    fn content(&self) -> Markup {
        html! {
            title { (self.title) }
            desc { (self.about) }
            @for part in &self.body { (part) }
        }
    }
}

/// Returns an SVG file that shows these pictures in a grid, followed by a note.
pub fn sheet(pictures: &[Picture], note: &str) -> String {
    let columns = (1..MOST_COLUMNS).find(|c| c * c >= pictures.len());
    let columns = columns.unwrap_or(MOST_COLUMNS);
    let full = WIDTH * columns as f64;
    let mut all = Picture::new("");
    let mut top = 0.0;
    for row in pictures.chunks(columns) {
        for (column, one) in row.iter().enumerate() {
            let (x, y, high) = (n(WIDTH * column as f64), n(top), n(one.height));
            all.body.push(html! {
                svg x=(x) y=(y) width=(WIDTH) height=(high) { (one.content()) }
            });
        }
        top += row.iter().map(|p| p.height).fold(0.0, f64::max) + LEADING;
    }
    all.height = top;
    for line in wrapped(note, full - 4.0, FONT) {
        all.height += LEADING;
        let y = all.height - 3.0;
        all.soft(2.0, y, "start", &line);
    }
    let high = all.height + 4.0;
    let scale = if columns == 1 { 2.0 } else { 1.5 };
    let svg = html! {
        svg xmlns="http://www.w3.org/2000/svg" viewBox=(format!("0 0 {full} {}", n(high))) width=(scale * full)
            height=(n(scale * high)) font-family=(FAMILY) font-size=(FONT) {
            style { (PreEscaped(COLOURS)) }
            rect width="100%" height="100%" fill="var(--page)" {}
            @for part in &all.body { (part) }
        }
    };
    svg.into_string() + "\n"
}

/// Formats a coordinate with at most one decimal place.
pub(super) fn n(x: f64) -> String {
    let text = format!("{x:.1}");
    match text.strip_suffix(".0") {
        Some(whole) => whole.to_string(),
        None => text,
    }
}

fn n2(x: f64) -> String {
    format!("{x:.2}")
}

/// Returns an upper bound for the width of a text in SVG units.
pub(super) fn width(text: &str, size: f64) -> f64 {
    text.chars().map(wide).sum::<f64>() * size
}

fn wide(c: char) -> f64 {
    match c {
        'm' | 'w' | 'M' | 'W' | '@' | '%' | '…' => WIDE,
        c if c.is_ascii() || ('\u{a0}'..'\u{250}').contains(&c) => EM,
        _ => WIDE,
    }
}

/// Shortens text to fit by removing characters from the middle, because the beginning and the end
/// of a name are the most informative parts.
pub(super) fn fit(text: &str, room: f64, size: f64) -> String {
    if width(text, size) <= room + 0.01 {
        return text.to_string();
    }
    let chars: Vec<char> = text.chars().collect();
    let (mut head, mut tail) = (0, 0);
    let mut left = room / size - WIDE;
    // Keep characters from the beginning and the end alternately as long as they fit.
    while head + tail < chars.len() {
        let next = match head <= tail {
            true => chars[head],
            false => chars[chars.len() - 1 - tail],
        };
        left -= wide(next);
        if left < 0.0 {
            break;
        }
        match head <= tail {
            true => head += 1,
            false => tail += 1,
        }
    }
    let mut cut: String = chars[..head].iter().collect();
    cut.push('…');
    cut.extend(&chars[chars.len() - tail..]);
    cut
}

/// Breaks text into lines that fit into `room`.
pub(super) fn wrapped(text: &str, room: f64, size: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        let word = fit(word, room, size);
        match lines.last_mut() {
            Some(last) if width(&format!("{last} {word}"), size) <= room => {
                last.push(' ');
                last.push_str(&word);
            }
            _ => lines.push(word),
        }
    }
    lines
}

pub(super) fn colour(series: usize) -> String {
    format!("var(--s{})", series % 8)
}

pub(super) fn dash(series: usize) -> &'static str {
    DASHES[series % DASHES.len()]
}

/// Returns the path that draws a series' marker: a circle, square, triangle, diamond, inverted
/// triangle, plus, bar or hexagon.
fn shape(series: usize, x: f64, y: f64) -> String {
    let polygon = |points: &[(f64, f64)]| {
        let mut d = String::new();
        for (i, (dx, dy)) in points.iter().enumerate() {
            let verb = if i == 0 { 'M' } else { 'L' };
            d.push_str(&format!("{verb}{} {}", n(x + dx), n(y + dy)));
        }
        d + "Z"
    };
    match series % 8 {
        0 => format!("M{} {}a3 3 0 1 0 6 0a3 3 0 1 0 -6 0Z", n(x - 3.0), n(y)),
        1 => polygon(&[(-2.7, -2.7), (2.7, -2.7), (2.7, 2.7), (-2.7, 2.7)]),
        2 => polygon(&[(0.0, -3.5), (3.4, 2.6), (-3.4, 2.6)]),
        3 => polygon(&[(0.0, -3.8), (3.8, 0.0), (0.0, 3.8), (-3.8, 0.0)]),
        4 => polygon(&[(0.0, 3.5), (3.4, -2.6), (-3.4, -2.6)]),
        5 => polygon(&[
            (-1.2, -3.5),
            (1.2, -3.5),
            (1.2, -1.2),
            (3.5, -1.2),
            (3.5, 1.2),
            (1.2, 1.2),
            (1.2, 3.5),
            (-1.2, 3.5),
            (-1.2, 1.2),
            (-3.5, 1.2),
            (-3.5, -1.2),
            (-1.2, -1.2),
        ]),
        6 => polygon(&[(-3.6, -1.6), (3.6, -1.6), (3.6, 1.6), (-3.6, 1.6)]),
        _ => polygon(&[
            (-3.4, 0.0),
            (-1.7, -3.0),
            (1.7, -3.0),
            (3.4, 0.0),
            (1.7, 3.0),
            (-1.7, 3.0),
        ]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_cut_in_the_middle_and_lines_at_blanks() {
        assert_eq!(fit("short", 100.0, 11.0), "short");
        let cut = fit("xts-aes-vaes-avx512", 70.0, 11.0);
        assert!(
            cut.starts_with("xts-") && cut.ends_with("512") && cut.contains('…'),
            "{cut}"
        );
        assert!(width(&cut, 11.0) <= 70.0);
        let lines = wrapped("one two three four five six seven eight", 100.0, 11.0);
        assert!(
            lines.len() > 2 && lines.iter().all(|l| width(l, 11.0) <= 100.0),
            "{lines:?}"
        );
        assert_eq!(lines.join(" "), "one two three four five six seven eight");
    }

    #[test]
    fn a_file_has_colours_and_escapes_what_it_is_told() {
        let mut picture = Picture::new("<b>&\"");
        picture.rect((0.0, 0.0), (1.0, 1.0), "red", 0.5, "<i>");
        let file = sheet(&[picture.clone(), picture.clone()], "<u>");
        assert!(file.starts_with("<svg xmlns=") && file.contains("--ink:"));
        assert!(["<b>", "<i>", "<u>"].iter().all(|tag| !file.contains(tag)));
        assert!(file.contains("x=\"360\"") && file.ends_with("</svg>\n"));
        assert!(!picture.inline().into_string().contains("<style"));
    }
}
