//! The heat map, and the same rows as CSV.

use std::fmt::Write;

use super::cell::{Abi, Status};
use super::row::Row;

/// Sizes in pixels.
const LEFT: usize = 190;
const CELL: (usize, usize) = (120, 24);
const TITLE: usize = 34;
const HEAD: usize = 22;
const GAP: usize = 18;

/// One map for each subject and width: compilers down, kinds of build across. The colour is the ratio to the best of the
/// map, by its logarithm, so that a cliff is seen whatever the cipher.
pub fn svg(rows: &[Row]) -> String {
    let mut maps: Vec<(&str, Abi)> = Vec::new();
    for row in rows.iter().filter(|r| r.cc != "-") {
        if !maps.contains(&(&row.subject, row.abi)) {
            maps.push((&row.subject, row.abi));
        }
    }
    let (mut body, mut y, mut width) = (String::new(), 0, 0);
    for (subject, abi) in maps {
        let own: Vec<&Row> = rows
            .iter()
            .filter(|r| r.cc != "-" && r.subject == subject && r.abi == abi)
            .collect();
        let (text, w, h) = map(&own, y);
        body.push_str(&text);
        y += h + GAP;
        width = width.max(w);
    }
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{y}\" viewBox=\"0 0 {width} {y}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n{body}</svg>\n"
    )
}

fn map(rows: &[&Row], top: usize) -> (String, usize, usize) {
    let mut lines: Vec<(&str, &str)> = Vec::new();
    let mut variants: Vec<&str> = Vec::new();
    for row in rows {
        if !lines.contains(&(&row.cc, &row.opt)) {
            lines.push((&row.cc, &row.opt));
        }
        if !variants.contains(&row.variant.as_str()) {
            variants.push(&row.variant);
        }
    }
    let figures = rows.iter().filter_map(|r| r.cycles_per_byte);
    let best = figures.min_by(f64::total_cmp).unwrap_or(1.0);
    let mut out = String::new();
    let first = rows[0];
    let narrow = if first.abi == Abi::Bits32 {
        ", -m32"
    } else {
        ""
    };
    let _ = writeln!(
        out,
        "<text x=\"8\" y=\"{}\" font-size=\"14\" font-weight=\"bold\">{} ({}{narrow}), cycles a byte</text>",
        top + 20,
        escaped(&first.subject),
        escaped(&first.alg)
    );
    for (n, variant) in variants.iter().enumerate() {
        let x = LEFT + n * CELL.0 + CELL.0 / 2;
        let y = top + TITLE + 14;
        let _ = writeln!(
            out,
            "<text x=\"{x}\" y=\"{y}\" text-anchor=\"middle\">{}</text>",
            escaped(variant)
        );
    }
    for (m, (cc, opt)) in lines.iter().enumerate() {
        let y = top + TITLE + HEAD + m * CELL.1;
        let _ = writeln!(
            out,
            "<text x=\"8\" y=\"{}\">{} -{opt}</text>",
            y + 16,
            escaped(cc)
        );
        for (n, variant) in variants.iter().enumerate() {
            let found = rows
                .iter()
                .find(|r| r.cc == *cc && r.opt == *opt && r.variant == *variant);
            let Some(row) = found else { continue };
            let (fill, ink, text) = look(row, best);
            let x = LEFT + n * CELL.0;
            let _ = writeln!(
                out,
                "<rect x=\"{x}\" y=\"{y}\" width=\"{}\" height=\"{}\" fill=\"{fill}\"/>\
                 <text x=\"{}\" y=\"{}\" text-anchor=\"middle\" fill=\"{ink}\">{text}</text>",
                CELL.0 - 2,
                CELL.1 - 2,
                x + CELL.0 / 2,
                y + 16
            );
        }
    }
    let width = LEFT + variants.len() * CELL.0 + 8;
    (out, width, TITLE + HEAD + lines.len() * CELL.1)
}

/// Colour, colour of the text, text.
fn look(row: &Row, best: f64) -> (String, &'static str, String) {
    match (row.status, row.cycles_per_byte) {
        (Status::Ok, Some(x)) => {
            // Ten times the best is as dark as it gets.
            let heat = ((x / best).log10()).clamp(0.0, 1.0);
            let channel = |cold: f64, hot: f64| (cold + (hot - cold) * heat).round() as u8;
            let (r, g, b) = (
                channel(226.0, 140.0),
                channel(240.0, 20.0),
                channel(217.0, 30.0),
            );
            let ink = if heat > 0.45 { "#fff" } else { "#000" };
            (format!("#{r:02x}{g:02x}{b:02x}"), ink, format!("{x:.2}"))
        }
        (Status::Absent, _) => ("#eee".to_string(), "#888", "-".to_string()),
        (status, _) => ("#222".to_string(), "#fff", status.to_string()),
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

/// A line for each row, the names of JSON's fields above.
pub fn csv(rows: &[Row]) -> String {
    let mut out = String::new();
    for (n, row) in rows.iter().enumerate() {
        let value = serde_json::to_value(row).expect("a row has string keys only");
        let Some(fields) = value.as_object() else {
            continue;
        };
        if n == 0 {
            let names: Vec<&str> = fields.keys().map(String::as_str).collect();
            out.push_str(&(names.join(",") + "\n"));
        }
        let values: Vec<String> = fields.values().map(field).collect();
        out.push_str(&(values.join(",") + "\n"));
    }
    out
}

/// Quoted where it has to be (RFC 4180).
fn field(value: &serde_json::Value) -> String {
    match value {
        serde_json::Value::Null => String::new(),
        serde_json::Value::String(s) if s.contains([',', '"', '\n']) => {
            format!("\"{}\"", s.replace('"', "\"\""))
        }
        serde_json::Value::String(s) => s.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::row::tests::row;
    use super::*;

    #[test]
    fn a_cliff_is_darker_and_names_are_escaped() {
        let rows = [
            row("gcc-12", "default", Some(10.0)),
            row("gcc-12", "<ubsan>", Some(95.0)),
            row("clang-14", "default", None),
        ];
        let text = svg(&rows);
        assert!(
            text.contains("#e2f0d9") && text.contains(">95.00<"),
            "{text}"
        );
        assert!(
            text.contains("&lt;ubsan&gt;") && text.contains(">failed<"),
            "{text}"
        );
        assert_eq!(text.matches("<rect").count(), 4);
        assert!(text.starts_with("<svg") && text.ends_with("</svg>\n"));
    }

    #[test]
    fn csv_has_a_line_for_each_row_and_quotes_commas() {
        let mut odd = row("a,b", "say \"x\"", None);
        odd.reason = Some("two, words".into());
        let text = csv(&[row("a", "default", Some(1.5)), odd]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 3);
        assert!(lines[0].split(',').any(|f| f == "cycles_per_byte"));
        assert!(lines[2].contains("\"a,b\"") && lines[2].contains("\"say \"\"x\"\"\""));
        assert!(lines[2].contains("\"two, words\""));
    }
}
