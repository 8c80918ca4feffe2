//! Draws the charts that a row type's view describes.

use kiln_record::view::{all_hold, Shape, Term};
use kiln_record::{row_type, RowType};
use serde::Serialize;
use serde_json::Value;

use super::bands::{Band, Bands};
use super::bars::{self, Bar};
use super::canvas::Picture;
use super::fastest;
use super::heat::{self, Spot};
use super::lines::{Chart, Line, Point};
use crate::group::{split, Group};
use crate::number::{micros, scaled, short};
use crate::record::{number, word, Row};

/// Draws a group's charts. If there are several sides, the chart type determines whether each side
/// has its own charts or all sides share one.
pub(crate) fn draw_group(group: &Group, names: &[String]) -> Vec<Picture> {
    let (kind, view) = (group.kind, &group.kind.view);
    let mut sides = group.rows.clone();
    for rows in &mut sides {
        rows.retain(|row| all_hold(&view.only, row));
    }
    let mut pictures = Vec::new();
    for shape in &view.pictures {
        if let Shape::Fastest(shape) = shape {
            for (_, rows) in split(&sides.concat(), |r| label(kind, &view.each, r)) {
                pictures.extend(fastest::draw(kind, shape, &rows, &sides, names));
            }
        }
    }
    for (side, rows) in sides.iter().enumerate() {
        let side = match names.len() {
            1 => String::new(),
            _ => format!("{}: ", names[side]),
        };
        for (of, rows) in split(rows, |r| label(kind, &view.each, r)) {
            for shape in &view.pictures {
                pictures.extend(draw(kind, shape, &format!("{side}{of}"), &rows));
            }
        }
    }
    pictures
}

/// Draws the charts for newly measured rows of the type named `kind`.
pub fn draw_rows(kind: &str, rows: &[impl Serialize]) -> Vec<Picture> {
    let values: Vec<Value> = rows
        .iter()
        .filter_map(|r| serde_json::to_value(r).ok())
        .collect();
    let Some(kind) = row_type(kind) else {
        return Vec::new();
    };
    let group = Group {
        kind,
        rows: vec![values.iter().filter_map(Value::as_object).collect()],
        from: Vec::new(),
    };
    draw_group(&group, &[String::new()])
}

fn label(kind: &RowType, terms: &[Term], row: &Row) -> String {
    kind.describe(row, terms).join(", ")
}

/// Returns the last component of a path.
fn last_part(word: &str) -> &str {
    word.rsplit('/').next().unwrap_or(word)
}

fn draw(kind: &RowType, shape: &Shape, of: &str, rows: &[&Row]) -> Vec<Picture> {
    let titled = |title: &str| match title {
        "" => of.to_string(),
        title => format!("{of}: {title}"),
    };
    let name = |row: &Row| label(kind, &kind.view.name, row);
    let interval = |row: &Row, field: &str| {
        let (low, high) = kind.field(field)?.interval.as_ref()?;
        number(row, low).zip(number(row, high))
    };
    let chart = |title: &str, along, upwards, lines: Vec<Line>| Chart {
        lines,
        ..Chart::new(titled(title), along, upwards)
    };
    let one: Option<Picture> = match shape {
        Shape::Bars {
            title,
            value,
            unit,
            log,
            mark,
        } => {
            let bar = |r: &&Row| {
                Some(Bar {
                    name: name(r),
                    value: number(r, value)?,
                    ends: interval(r, value),
                    marked: mark.as_ref().is_some_and(|mark| mark.holds(r)),
                })
            };
            let all: Vec<Bar> = rows.iter().filter_map(bar).collect();
            bars::draw(&titled(title), unit, *log, &all)
        }
        Shape::Bands {
            title,
            unit,
            histogram: prefix,
            p50,
            tail,
            max,
            beside,
            target,
        } => {
            // Convert to microseconds. The prefix of a histogram's field names ends in the unit.
            let scale = if prefix.ends_with("_ns") { 1e3 } else { 1.0 };
            let band = |r: &&Row| Band {
                name: name(r),
                counts: histogram(r, prefix)
                    .into_iter()
                    .map(|(from, to, n)| (from / scale, to / scale, n))
                    .collect(),
                p50: number(r, p50),
                tail: number(r, &tail.0),
                max: number(r, max),
                beside: beside.as_ref().and_then(|(field, _)| number(r, field)),
            };
            let target = target.as_ref().and_then(|field| number(rows[0], field));
            let target = target.filter(|t| *t > 0.0);
            Bands {
                title: titled(title),
                unit,
                tail: &tail.1,
                beside: beside.as_ref().map_or("", |(_, name)| name.as_str()),
                target: target.map(|t| (t, format!("target {}", micros(t)))),
                bands: rows.iter().map(band).collect(),
            }
            .draw()
        }
        Shape::Lines {
            title,
            x,
            y,
            along,
            upwards,
        } => {
            let point = |r: &&Row| Some(Point::new(number(r, x)?, number(r, y)?));
            let mut lines: Vec<Line> = Vec::new();
            for (name, rows) in split(rows, name) {
                let mut points: Vec<Point> = rows.iter().filter_map(point).collect();
                points.sort_by(|a, b| a.x.total_cmp(&b.x));
                if !points.is_empty() {
                    lines.push(Line::new(name, lines.len(), points));
                }
            }
            Chart {
                log: (true, true),
                words: (&scaled, &scaled),
                ..chart(title, along, upwards, lines)
            }
            .draw()
        }
        Shape::Course {
            title,
            prefix,
            step,
            shade: (from, to, what),
            upwards,
        } => {
            let line = |(n, r): (usize, &&Row)| {
                let step = number(r, step)?;
                let at = |i: usize| number(r, &format!("{prefix}_{i}"));
                let point = |i: usize| Some(Point::new(step * (i as f64 + 0.5), at(i)?));
                let points: Vec<Point> = (0..).map_while(point).collect();
                (!points.is_empty()).then(|| Line::new(name(r), n, points))
            };
            let lines: Vec<Line> = rows.iter().enumerate().filter_map(line).collect();
            let mut ends = rows.iter();
            let ends = ends.find_map(|r| number(r, from).zip(number(r, to)));
            Chart {
                words: (&|ms| micros(ms * 1e3), &short),
                shade: ends.map(|(from, to)| (from, to, what.as_str())),
                ..chart(title, "time", upwards, lines)
            }
            .draw()
        }
        Shape::Octaves {
            histogram: prefix,
            also,
            along,
            upwards,
        } => {
            // Rows whose names begin with the same term share a style.
            let first = |r: &Row| label(kind, &kind.view.name[..1], r);
            let looks = split(rows, first);
            let line = |r: &&Row| {
                let points = outline(&histogram(r, prefix))?;
                let mut name = name(r);
                for field in also.iter().filter_map(|f| kind.field(f)) {
                    if let Some(value) = number(r, &field.name) {
                        let value = match field.unit.as_deref() {
                            Some("µs") => micros(value),
                            _ => short(value),
                        };
                        name.push_str(&format!(", {} {value}", field.heading));
                    }
                }
                let look = looks.iter().position(|l| l.0 == first(r));
                Some(Line::new(name, look.unwrap_or(0), points))
            };
            Chart {
                log: (true, true),
                stops: Some((0..16).map(|i| f64::from(1 << i)).collect()),
                words: (&micros, &|v| match v {
                    v if v >= 0.9995 => format!("{v:.0}"),
                    v => format!("{v}").chars().take(7).collect(),
                }),
                steps: true,
                ..chart("", along, upwards, rows.iter().filter_map(line).collect())
            }
            .draw()
        }
        Shape::Map {
            value,
            unit,
            column,
            status,
            hint,
        } => {
            let spot = |r: &&Row| {
                let mut about = label(kind, hint, r);
                if let Some((low, high)) = interval(r, value) {
                    about.push_str(&format!(": {} to {} {unit}", short(low), short(high)));
                }
                let line = kind.describe(r, &kind.view.name);
                let line: Vec<&str> = line.iter().map(|word| last_part(word)).collect();
                Spot {
                    line: line.join(" "),
                    column: label(kind, column, r),
                    value: number(r, value).filter(|_| status.holds(r)),
                    status: word(r, &status.field).unwrap_or("-").to_string(),
                    hint: about,
                }
            };
            let spots: Vec<Spot> = rows.iter().map(spot).collect();
            return heat::draw(of, unit, &spots);
        }
        Shape::Fastest(_) => None,
    };
    one.into_iter().collect()
}

/// Converts a histogram to a line that shows each octave's percentage of the total count. The line
/// extends from the first non-empty octave to the last.
fn outline(counts: &[(f64, f64, f64)]) -> Option<Vec<Point>> {
    let total: f64 = counts.iter().map(|c| c.2).sum();
    let first = counts.iter().position(|c| c.2 > 0.0)?;
    let last = counts.iter().rposition(|c| c.2 > 0.0)?;
    let mut points = Vec::new();
    for &(from, to, count) in &counts[first..=last] {
        // Draw an empty octave at a small positive value, because a logarithmic axis has no zero.
        let y = 100.0 * count.max(0.5) / total;
        points.extend([Point::new(from, y), Point::new(to, y)]);
    }
    Some(points)
}

/// Returns the lower bound, upper bound and count of each bucket of a histogram. The bounds are in
/// the same unit as in the names of the histogram's fields.
fn histogram(row: &Row, prefix: &str) -> Vec<(f64, f64, f64)> {
    let bound = |field: &str| -> Option<f64> {
        let bound = field.strip_prefix(prefix)?.strip_prefix("_le_")?;
        bound.parse().ok()
    };
    let counts = row
        .iter()
        .filter_map(|(field, v)| Some((bound(field)?, v.as_f64()?)));
    let mut counts: Vec<(f64, f64)> = counts.collect();
    counts.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut all = Vec::new();
    let mut from = counts.first().map_or(0.0, |c| c.0 / 2.0);
    for (to, count) in counts {
        all.push((from, to, count));
        from = to;
    }
    if let Some(more) = number(row, &format!("{prefix}_more")) {
        all.push((from, from * 2.0, more));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn histograms_are_read_in_order() {
        let row = json!({"h_le_1": 5, "h_le_16": 2, "h_le_2": 3, "h_more": 1, "hh_le_4": 9});
        assert_eq!(
            histogram(row.as_object().unwrap(), "h"),
            [
                (0.5, 1.0, 5.0),
                (1.0, 2.0, 3.0),
                (2.0, 16.0, 2.0),
                (16.0, 32.0, 1.0)
            ]
        );
        assert!(histogram(row.as_object().unwrap(), "x").is_empty());
    }

    #[test]
    fn a_curve_has_axes_with_units_and_a_line_for_each_policy() {
        let row = |policy: &str, step: i32| {
            let offered = 1e4 * 2f64.powi(step);
            json!({"policy": policy, "fallback": "none", "load": "pcap:<x>", "control": false,
                   "offered_pps": offered, "delivered_pps": offered.min(1e5)})
        };
        let policies = ["a", "<b>"].into_iter();
        let rows: Vec<Value> = policies
            .flat_map(|p| (0..8).map(move |s| row(p, s)))
            .collect();
        let pictures = draw_rows("fpu-esp", &rows);
        assert_eq!(pictures.len(), 1, "no phases, no courses");
        let file = super::super::sheet(&pictures, "seed 1");
        for part in [
            "packets/s offered",
            "packets/s delivered",
            "&lt;b&gt;",
            "pcap:&lt;x&gt;",
            "seed 1",
        ] {
            assert!(file.contains(part), "{part}: {file}");
        }
        assert!(!file.contains("NaN") && !file.contains("inf"), "{file}");
        assert!(draw_rows("fpu-esp", &rows[..0]).is_empty());
    }

    #[test]
    fn over_time_each_policy_has_two_lines() {
        let row = |policy: &str| {
            let mut row = json!({"policy": policy, "load": "esp", "control": false, "t_ms": 3.0, "t_high_from_ms": 5.0,
                                 "t_high_to_ms": 9.0});
            for i in 0..6 {
                row[format!("t_mb_per_s_{i}")] = json!(100 + i);
                row[format!("t_queued_{i}")] = json!(i);
            }
            row
        };
        let pictures = draw_rows("fpu-esp", &[row("a"), row("b")]);
        assert_eq!(pictures.len(), 2);
        for picture in &pictures {
            let file = super::super::sheet(std::slice::from_ref(picture), "");
            assert!(file.contains(">high load<"), "{file}");
            // Each name must appear in the chart and in the legend.
            assert_eq!(file.matches("stroke-width=\"1.8\"").count(), 4, "{file}");
        }
    }
}
