//! Draws line charts: results plotted against a length, values over time, and histograms.

use super::axis::Axis;
use super::canvas::{colour, dash, n, width, Picture, FONT, LEADING, WIDTH};
use crate::number::short;

const RIGHT: f64 = WIDTH - 8.0;
const TALL: f64 = 180.0;

/// A point of a line, with an optional interval.
#[derive(Clone, Copy, Debug)]
pub(super) struct Point {
    /// Value on the horizontal axis, before scaling.
    pub x: f64,
    /// Value on the vertical axis, before scaling.
    pub y: f64,
    /// Lower and upper end of the interval of `y`.
    pub ends: Option<(f64, f64)>,
}

impl Point {
    /// Creates a point without an interval.
    pub(super) fn new(x: f64, y: f64) -> Point {
        Point { x, y, ends: None }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Line {
    pub name: String,
    /// Index of the line's style. A series has the same style in all charts of a row type. `None`
    /// means that the line is a limit, which has its own style.
    pub series: Option<usize>,
    /// Points of the line from left to right.
    pub points: Vec<Point>,
}

impl Line {
    /// Creates the line of a series.
    pub(super) fn new(name: String, series: usize, points: Vec<Point>) -> Line {
        Line {
            name,
            series: Some(series),
            points,
        }
    }
}

/// A line chart with its labels and options.
pub(super) struct Chart<'a> {
    pub title: String,
    /// Vertical axis label.
    pub upwards: &'a str,
    /// Horizontal axis label.
    pub along: &'a str,
    /// Whether each axis is logarithmic: the horizontal axis, then the vertical one.
    pub log: (bool, bool),
    /// The lines, starting with the most important one.
    pub lines: Vec<Line>,
    /// Values to label on the horizontal axis. If this is `None`, round values are labelled.
    pub stops: Option<Vec<f64>>,
    /// Functions that format the labels of the horizontal and the vertical axis.
    pub words: (&'a dyn Fn(f64) -> String, &'a dyn Fn(f64) -> String),
    /// A shaded horizontal range and its label.
    pub shade: Option<(f64, f64, &'a str)>,
    /// Whether lines are drawn as steps, which keep each point's value constant until the next
    /// point.
    pub steps: bool,
    /// Whether points have markers.
    pub marked: bool,
}

impl<'a> Chart<'a> {
    /// Creates a chart with linear axes and without lines.
    pub(super) fn new(title: String, along: &'a str, upwards: &'a str) -> Chart<'a> {
        Chart {
            title,
            upwards,
            along,
            log: (false, false),
            lines: Vec::new(),
            stops: None,
            words: (&short, &short),
            shade: None,
            steps: false,
            marked: false,
        }
    }

    /// Draws the chart. Returns `None` if there are fewer than two points to draw.
    pub(super) fn draw(&self) -> Option<Picture> {
        let all = || self.lines.iter().flat_map(|l| &l.points);
        let good = |v: f64, log: bool| v.is_finite() && (!log || v > 0.0);
        let xs: Vec<f64> = all()
            .map(|p| p.x)
            .filter(|x| good(*x, self.log.0))
            .collect();
        let ends = all().flat_map(|p| {
            let (low, high) = p.ends.unwrap_or((p.y, p.y));
            [low, p.y, high]
        });
        let ys: Vec<f64> = ends.filter(|y| good(*y, self.log.1)).collect();
        if xs.len() < 2 || ys.is_empty() {
            return None;
        }
        let extent = |v: &[f64]| {
            let low = v.iter().copied().fold(f64::INFINITY, f64::min);
            (low, v.iter().copied().fold(f64::NEG_INFINITY, f64::max))
        };
        let ((x_low, x_high), (y_low, y_high)) = (extent(&xs), extent(&ys));
        let mut picture = Picture::new(&self.title);
        picture.about = format!(
            "{} against {}. Lines: {}.",
            self.upwards,
            self.along,
            self.lines
                .iter()
                .map(|l| l.name.as_str())
                .collect::<Vec<_>>()
                .join("; ")
        );
        picture.height += LEADING;
        let (unit_y, top) = (picture.height - 3.0, picture.height + 6.0);
        picture.soft(2.0, unit_y, "start", self.upwards);
        let bottom = top + TALL;
        let y = match self.log.1 {
            true => Axis::log(y_low / 1.08, y_high * 1.08, bottom, top),
            false => Axis::linear(y_high, bottom, top),
        };
        let ticks: Vec<(f64, String)> = y
            .ticks(24.0)
            .into_iter()
            .map(|v| (v, (self.words.1)(v)))
            .collect();
        let widest = ticks.iter().map(|t| width(&t.1, FONT)).fold(0.0, f64::max);
        let left = widest + 8.0;
        let x = match self.log.0 {
            true => Axis::log(x_low, x_high, left + 6.0, RIGHT - 12.0),
            false => Axis::linear(x_high, left, RIGHT),
        };
        if let Some((from, to, what)) = self.shade {
            picture.rect(
                (x.at(from), top),
                (x.at(to) - x.at(from), TALL),
                "var(--shade)",
                1.0,
                what,
            );
            picture.soft((x.at(from) + x.at(to)) / 2.0, top + 11.0, "middle", what);
        }
        for (value, word) in &ticks {
            let at = y.at(*value);
            picture.path(
                &format!("M{} {}H{}", n(left), n(at), n(RIGHT)),
                "var(--grid)",
                1.0,
                "",
            );
            picture.label(left - 4.0, at + 4.0, "end", word);
        }
        let stops = self.stops.clone().unwrap_or_else(|| x.ticks(34.0));
        for (value, word) in x.worded(&stops, self.words.0, WIDTH) {
            let at = x.at(value);
            picture.path(
                &format!("M{} {}v4", n(at), n(bottom)),
                "var(--soft)",
                1.0,
                "",
            );
            picture.label(at, bottom + 15.0, "middle", &word);
        }
        picture.path(
            &format!("M{} {}H{}", n(left), n(bottom), n(RIGHT)),
            "var(--soft)",
            1.0,
            "",
        );
        // Draw in reverse order, so that the most important line is on top.
        for line in self.lines.iter().rev() {
            self.line(&mut picture, line, &x, &y);
        }
        picture.height = bottom + 15.0 + LEADING;
        let unit_x = picture.height - 3.0;
        picture.soft(RIGHT, unit_x, "end", self.along);
        self.legend(&mut picture);
        picture.height += 4.0;
        Some(picture)
    }

    fn line(&self, picture: &mut Picture, line: &Line, x: &Axis, y: &Axis) {
        let mut d = String::new();
        let mut last = None;
        let drawn: Vec<&Point> = line.points.iter().filter(|p| p.y.is_finite()).collect();
        for point in &drawn {
            let (px, py) = (n(x.at(point.x)), n(y.at(point.y)));
            match (&last, self.steps) {
                (None, _) => d.push_str(&format!("M{px} {py}")),
                (Some(_), true) => d.push_str(&format!("H{px}V{py}")),
                (Some(_), false) => d.push_str(&format!("L{px} {py}")),
            }
            last = Some(py);
        }
        match line.series {
            Some(s) => picture.path(&d, &colour(s), 1.8, dash(s)),
            None => picture.path(&d, "var(--ink)", 1.2, "1 2"),
        }
        let Some(series) = line.series.filter(|_| self.marked) else {
            return;
        };
        for point in drawn {
            let at = x.at(point.x);
            if let Some((low, high)) = point.ends {
                let (low, high) = (y.at(low), y.at(high));
                if (low - high).abs() > 1.5 {
                    picture.path(
                        &format!("M{} {}V{}", n(at), n(low), n(high)),
                        &colour(series),
                        1.0,
                        "",
                    );
                }
            }
            let hint = format!(
                "{}: {} at {}",
                line.name,
                (self.words.1)(point.y),
                (self.words.0)(point.x)
            );
            picture.marker(series, at, y.at(point.y), &hint);
        }
    }

    fn legend(&self, picture: &mut Picture) {
        for line in &self.lines {
            picture.height += LEADING;
            let at = picture.height - 7.0;
            let d = format!("M2 {}H30", n(at));
            match line.series {
                Some(s) => {
                    picture.path(&d, &colour(s), 1.8, dash(s));
                    if self.marked {
                        picture.marker(s, 16.0, at, "");
                    }
                }
                None => picture.path(&d, "var(--ink)", 1.2, "1 2"),
            }
            picture.fitted(36.0, at + 4.0, "start", &line.name, WIDTH - 38.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::sheet;
    use super::*;

    fn chart(points: &[(f64, f64)], log: (bool, bool)) -> Option<Picture> {
        let point = |&(x, y): &(f64, f64)| Point {
            x,
            y,
            ends: Some((y * 0.9, y * 1.1)),
        };
        let points = points.iter().map(point).collect();
        Chart {
            log,
            lines: vec![Line::new("<b>".to_string(), 0, points)],
            shade: Some((2.0, 3.0, "high")),
            marked: true,
            ..Chart::new("a title".to_string(), "bytes", "cycles")
        }
        .draw()
    }

    #[test]
    fn figures_of_any_size_are_drawn_as_numbers() {
        for points in [
            &[(1.0, 1.0), (10.0, 1e9)][..],
            &[(16.0, 0.1), (16384.0, 0.11)],
            &[(1.0, 5.0), (1.0, 5.0)],
            &[(1.0, f64::NAN), (2.0, 3.0)],
        ] {
            for log in [(true, true), (false, false)] {
                let file = sheet(&[chart(points, log).unwrap()], "");
                assert!(!file.contains("NaN") && !file.contains("inf"), "{file}");
                assert!(file.contains("&lt;b&gt;"));
            }
        }
        assert!(chart(&[], (true, true)).is_none());
        assert!(chart(&[(1.0, 0.0), (2.0, -1.0)], (true, true)).is_none());
    }
}
