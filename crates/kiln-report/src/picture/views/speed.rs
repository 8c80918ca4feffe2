//! Speed by length: a picture for each algorithm.

use kiln_record::family;

use crate::number::short;
use crate::picture::canvas::{fit, width, Picture, FONT, WIDTH};
use crate::picture::lines::{Chart, Line, Point};
use crate::record::{is, is_of_tree, is_own, number, word, Row};

use super::split;

/// The best of each side and of whoever stands beside it.
pub fn draw(sides: &[Vec<&Row>], names: &[String]) -> Vec<Picture> {
    let all: Vec<&Row> = sides
        .iter()
        .flatten()
        .copied()
        .filter(|r| !is(r, "latency"))
        .collect();
    let algs = split(&all, |r| word(r, "alg").unwrap_or("-").to_string());
    let one = |(alg, rows): &(String, Vec<&Row>)| picture(alg, rows, sides, names);
    algs.iter().filter_map(one).collect()
}

/// What a picture is of: the first direction, the longest key, functions rather than requests.
fn chosen<'a>(rows: &[&'a Row]) -> Option<(&'a str, u64, &'a str)> {
    let key_bits = |r: &Row| {
        r.get("key_bits")
            .and_then(serde_json::Value::as_u64)
            .unwrap_or(0)
    };
    let level = |r: &'a Row| word(r, "level").unwrap_or("primitive");
    let rank = |r: &&&'a Row| {
        let op = match word(r, "op") {
            Some("encrypt") => 3,
            Some("digest") => 2,
            _ => 1,
        };
        (op, level(r) == "primitive", key_bits(r))
    };
    // Of several with one rank, the first.
    let best = rows.iter().rev().max_by_key(rank)?;
    Some((word(best, "op").unwrap_or("-"), key_bits(best), level(best)))
}

fn picture(alg: &str, rows: &[&Row], sides: &[Vec<&Row>], names: &[String]) -> Option<Picture> {
    let (op, key_bits, level) = chosen(rows)?;
    let fits = |r: &Row| {
        word(r, "alg") == Some(alg)
            && word(r, "op").unwrap_or("-") == op
            && number(r, "key_bits").unwrap_or(0.0) == key_bits as f64
            && word(r, "level").unwrap_or("primitive") == level
            && !is(r, "latency")
    };
    let mut lines: Vec<Line> = Vec::new();
    let mut limit: Vec<(f64, f64)> = Vec::new();
    let mut series = 0;
    for (side, rows) in sides.iter().enumerate() {
        let rows: Vec<&Row> = rows.iter().copied().filter(|r| fits(r)).collect();
        for row in &rows {
            if let (Some(len), Some(cycles)) = (number(row, "len"), number(row, "limit_cycles")) {
                match limit.iter_mut().find(|l| l.0 == len) {
                    Some(l) => l.1 = l.1.min(cycles / len),
                    None => limit.push((len, cycles / len)),
                }
            }
        }
        // Kiln first, then trees, then libraries; of several machines the libraries would be too much.
        let mut providers = split(&rows, |r| {
            family(word(r, "provider").unwrap_or("-")).to_string()
        });
        providers.sort_by_key(|(_, rows)| (!is_own(rows[0]), !is_of_tree(rows[0])));
        for (provider, rows) in &mut providers {
            // Several messages at a time are another question, unless there is no other answer.
            if rows.iter().any(|r| !is(r, "together")) {
                rows.retain(|r| !is(r, "together"));
            }
            if sides.len() > 1 && !is_own(rows[0]) && !is_of_tree(rows[0]) {
                continue;
            }
            let Some((imp, points)) = best(rows) else {
                continue;
            };
            let whose = match sides.len() {
                1 => String::new(),
                _ => format!("{}: ", names[side]),
            };
            let many = if is(rows[0], "together") {
                ", many at a time"
            } else {
                ""
            };
            let last = points.last().map_or(String::new(), |p| {
                format!(", {} at {:.0} B", short(p.y), p.x)
            });
            let provider = match is_own(rows[0]) {
                true => String::new(),
                false => format!("{provider} "),
            };
            // The figure is not what is cut.
            let tail = format!("{last}{many}");
            let room = WIDTH - 40.0 - width(&tail, FONT);
            lines.push(Line {
                name: fit(&format!("{whose}{provider}{imp}"), room, FONT) + &tail,
                // A side looks the same in all pictures, whatever the others lack.
                series: Some(match (sides.len(), is_own(rows[0])) {
                    (1, _) => series,
                    (_, true) => side,
                    (n, false) => n + side,
                }),
                points,
            });
            series += 1;
        }
    }
    limit.sort_by(|a, b| a.0.total_cmp(&b.0));
    if limit.len() > 1 {
        lines.push(Line {
            name: "the AES unit's limit: AES rounds alone".to_string(),
            series: None,
            points: limit
                .iter()
                .map(|&(x, y)| Point { x, y, ends: None })
                .collect(),
        });
    }
    let mut stops: Vec<f64> = lines
        .iter()
        .flat_map(|l| l.points.iter().map(|p| p.x))
        .collect();
    stops.sort_by(f64::total_cmp);
    stops.dedup();
    let key = match key_bits {
        0 => String::new(),
        bits => format!(", {bits} bit"),
    };
    let at = if level == "api" {
        ", by the crypto API"
    } else {
        ""
    };
    Chart {
        title: format!("{alg}, {op}{key}{at}"),
        upwards: "cycles per byte",
        along: "bytes of a message",
        log: (true, true),
        lines,
        stops: Some(stops),
        words: (&|v| format!("{v:.0}"), &short),
        shade: None,
        steps: false,
        marked: true,
    }
    .draw()
}

/// The implementation that is fastest with long messages, by its name, and its line.
fn best(rows: &[&Row]) -> Option<(String, Vec<Point>)> {
    let imps = split(rows, |r| word(r, "impl").unwrap_or("-").to_string());
    let lines = imps.into_iter().map(|(imp, rows)| {
        let point = |r: &&Row| {
            let (x, y) = (number(r, "len")?, number(r, "cycles_per_byte")?);
            let ends = number(r, "ci_low")
                .zip(number(r, "ci_high"))
                .map(|(l, h)| (l / x, h / x));
            Some(Point { x, y, ends })
        };
        let mut points: Vec<Point> = rows.iter().filter_map(point).collect();
        points.sort_by(|a, b| a.x.total_cmp(&b.x));
        points.dedup_by(|a, b| a.x == b.x);
        (imp, points)
    });
    let last = |points: &[Point]| points.last().map(|p| (p.x, p.y));
    let lines = lines.filter(|(_, points)| !points.is_empty());
    lines.min_by(|(_, a), (_, b)| {
        let (a, b) = (last(a).unwrap_or_default(), last(b).unwrap_or_default());
        b.0.total_cmp(&a.0).then(a.1.total_cmp(&b.1))
    })
}
