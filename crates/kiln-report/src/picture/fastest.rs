//! Draws the fastest series of each provider, plotted against the message length.

use kiln_record::view::{Fastest, Term};
use kiln_record::{family, RowType};

use super::canvas::{fit, width, Picture, FONT, WIDTH};
use super::lines::{Chart, Line, Point};
use crate::group::split;
use crate::number::short;
use crate::record::{number, word, Row};

/// The kinds of providers, in drawing order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Origin {
    Kiln,
    Tree,
    Library,
}

fn origin(provider: &str) -> Origin {
    match provider {
        "kiln" => Origin::Kiln,
        "linux" => Origin::Tree,
        _ => Origin::Library,
    }
}

/// Returns a row's rank according to the preferences, the first of which matters most. Only the
/// rows with the highest rank are shown.
fn rank(prefer: &[Term], row: &Row) -> Vec<u64> {
    let rank = |term: &Term| match number(row, &term.field) {
        Some(n) => n as u64,
        None => term.holds(row).into(),
    };
    prefer.iter().map(rank).collect()
}

/// Draws one picture that shows each provider's fastest series on each side. Only the rows with the
/// highest rank are considered.
pub(super) fn draw(
    kind: &RowType,
    view: &Fastest,
    rows: &[&Row],
    sides: &[Vec<&Row>],
    names: &[String],
) -> Option<Picture> {
    // If several rows have the highest rank, use the first of them.
    let best = rows.iter().rev().max_by_key(|r| rank(&view.prefer, r))?;
    let shared = kind.view.each.iter().chain(&view.prefer);
    let shared: Vec<&str> = shared.map(|term| term.field.as_str()).collect();
    let fits = |row: &Row| {
        shared
            .iter()
            .all(|field| row.get(*field) == best.get(*field))
    };
    let mut lines: Vec<Line> = Vec::new();
    let mut limit: Vec<(f64, f64)> = Vec::new();
    for (side, rows) in sides.iter().enumerate() {
        let rows: Vec<&Row> = rows.iter().copied().filter(|r| fits(r)).collect();
        for row in &rows {
            if let (Some(x), Some(y)) = (number(row, &view.x), number(row, &view.limit)) {
                match limit.iter_mut().find(|l| l.0 == x) {
                    Some(l) => l.1 = l.1.min(y / x),
                    None => limit.push((x, y / x)),
                }
            }
        }
        // Draw Kiln first, then kernel trees, then libraries. If there are several sides, omit
        // libraries to limit the number of lines.
        let mut providers = split(&rows, |r| {
            family(word(r, &view.provider).unwrap_or("-")).to_string()
        });
        providers.sort_by_key(|(name, _)| origin(name));
        for (provider, mut rows) in providers {
            // If a provider has functions that process one message at a time, show only these.
            // Otherwise, show its functions that process several messages at once.
            let aside = rows.iter().all(|r| view.aside.holds(r));
            rows.retain(|r| view.aside.holds(r) == aside);
            let whose = origin(&provider);
            if sides.len() > 1 && whose == Origin::Library {
                continue;
            }
            let Some((imp, points)) = fastest(kind, view, &rows) else {
                continue;
            };
            let last = points.last().map_or(String::new(), |p| {
                format!(", {} at {:.0} B", short(p.y), p.x)
            });
            let words = kind.describe(rows[0], std::slice::from_ref(&view.aside));
            // Append the last point's result and length to the name. This part is never shortened.
            let tail = [vec![last], words].concat().join(", ");
            let mut name = match sides.len() {
                1 => String::new(),
                _ => format!("{}: ", names[side]),
            };
            if whose != Origin::Kiln {
                name.push_str(&format!("{provider} "));
            }
            let room = WIDTH - 40.0 - width(&tail, FONT);
            // If there are several sides, each side keeps its style in all pictures, even in those
            // that do not show all sides.
            let series = match (sides.len(), whose) {
                (1, _) => lines.len(),
                (_, Origin::Kiln) => side,
                (n, _) => n + side,
            };
            let name = fit(&format!("{name}{imp}"), room, FONT) + &tail;
            lines.push(Line::new(name, series, points));
        }
    }
    limit.sort_by(|a, b| a.0.total_cmp(&b.0));
    if limit.len() > 1 {
        lines.push(Line {
            name: view.limit_name.clone(),
            series: None,
            points: limit.iter().map(|&(x, y)| Point::new(x, y)).collect(),
        });
    }
    let mut stops: Vec<f64> = lines
        .iter()
        .flat_map(|l| l.points.iter().map(|p| p.x))
        .collect();
    stops.sort_by(f64::total_cmp);
    stops.dedup();
    Chart {
        log: (true, true),
        lines,
        stops: Some(stops),
        words: (&|v| format!("{v:.0}"), &short),
        marked: true,
        ..Chart::new(
            kind.describe(best, &view.title).join(", "),
            &view.along,
            &view.upwards,
        )
    }
    .draw()
}

/// Returns the name and the points of the series that is fastest for long messages.
fn fastest(kind: &RowType, view: &Fastest, rows: &[&Row]) -> Option<(String, Vec<Point>)> {
    let interval = kind.field(&view.y).and_then(|f| f.interval.as_ref());
    let series = split(rows, |r| kind.describe(r, &kind.view.name).join(", "));
    let lines = series.into_iter().map(|(imp, rows)| {
        let point = |r: &&Row| {
            let x = number(r, &view.x).filter(|x| *x > 0.0)?;
            let y = number(r, &view.y)?;
            let ends = interval.and_then(|(l, h)| number(r, l).zip(number(r, h)));
            Some(Point {
                x,
                y: y / x,
                ends: ends.map(|(low, high)| (low / x, high / x)),
            })
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
