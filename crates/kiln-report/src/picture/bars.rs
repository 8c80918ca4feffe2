//! Draws each result, along with its interval, as a bar from zero or as a dot on a logarithmic
//! scale.

use super::axis::Axis;
use super::canvas::{colour, n, width, Picture, FONT, LEADING, WIDTH};
use crate::number::short;

const ROW: f64 = 21.0;

#[derive(Clone, Debug)]
pub(super) struct Bar {
    /// Label to the left of the bar.
    pub name: String,
    pub value: f64,
    /// Lower and upper end of the result's interval.
    pub ends: Option<(f64, f64)>,
    /// Whether the bar is highlighted with a different fill.
    pub marked: bool,
}

/// Draws the bars in the given order, skipping values that cannot be drawn. Returns `None` if no
/// bars are left.
pub(super) fn draw(title: &str, unit: &str, log: bool, bars: &[Bar]) -> Option<Picture> {
    let bars: Vec<&Bar> = bars
        .iter()
        .filter(|b| b.value.is_finite() && (!log || b.value > 0.0))
        .collect();
    let all = || {
        bars.iter().flat_map(|b| {
            let (low, high) = b.ends.unwrap_or((b.value, b.value));
            [low, b.value, high]
        })
    };
    let most = all().fold(f64::NEG_INFINITY, f64::max);
    let least = all().filter(|v| *v > 0.0).fold(f64::INFINITY, f64::min);
    if bars.is_empty() {
        return None;
    }
    let mut picture = Picture::new(title);
    let said: Vec<String> = bars
        .iter()
        .map(|b| format!("{} {}", b.name, short(b.value)))
        .collect();
    picture.about = format!("{title}, in {unit}: {}.", said.join("; "));
    let widest = bars
        .iter()
        .map(|b| width(&b.name, FONT))
        .fold(0.0, f64::max);
    let left = widest.min(128.0) + 8.0;
    let figures: Vec<String> = bars.iter().map(|b| short(b.value)).collect();
    let right = WIDTH - 8.0 - figures.iter().map(|f| width(f, FONT)).fold(0.0, f64::max);
    let top = picture.height + 6.0;
    let bottom = top + ROW * bars.len() as f64;
    let x = match log {
        true => Axis::log(least / 1.1, most * 1.1, left, right - 6.0),
        false => Axis::linear(most, left, right - 6.0),
    };
    for (value, word) in x.worded(&x.ticks(30.0), short, WIDTH) {
        picture.path(
            &format!("M{} {}V{}", n(x.at(value)), n(top), n(bottom)),
            "var(--grid)",
            1.0,
            "",
        );
        picture.label(x.at(value), bottom + 14.0, "middle", &word);
    }
    for ((i, bar), figure) in bars.iter().enumerate().zip(&figures) {
        let middle = top + ROW * (i as f64 + 0.5);
        picture.fitted(left - 6.0, middle + 4.0, "end", &bar.name, left - 8.0);
        let series = usize::from(bar.marked);
        let mut hint = format!("{}: {figure} {unit}", bar.name);
        if let Some((low, high)) = bar.ends {
            hint.push_str(&format!(", {} to {}", short(low), short(high)));
        }
        match log {
            true => picture.marker(series, x.at(bar.value), middle, &hint),
            false => picture.rect(
                (left, middle - 6.0),
                (x.at(bar.value) - left, 12.0),
                &colour(series),
                0.75,
                &hint,
            ),
        }
        if let Some((low, high)) = bar.ends {
            let (low, high) = (n(x.at(low)), n(x.at(high)));
            let m = n(middle);
            let d = format!(
                "M{low} {m}H{high}M{low} {a}v6M{high} {a}v6",
                a = n(middle - 3.0)
            );
            picture.path(&d, "var(--ink)", 1.2, "");
        }
        picture.label(WIDTH - 2.0, middle + 4.0, "end", figure);
    }
    picture.height = bottom + 15.0 + LEADING;
    let unit_y = picture.height - 3.0;
    picture.soft(WIDTH - 2.0, unit_y, "end", unit);
    picture.height += 4.0;
    Some(picture)
}

#[cfg(test)]
mod tests {
    use super::super::sheet;
    use super::*;

    #[test]
    fn a_bar_for_each_figure_and_none_for_what_is_none() {
        let bar = |name: &str, value| Bar {
            name: name.to_string(),
            value,
            ends: Some((value * 0.9, value * 1.1)),
            marked: false,
        };
        let bars = [bar("a", 10.0), bar("b", 20.0), bar("c", f64::NAN)];
        for log in [false, true] {
            let file = sheet(&[draw("t", "MB/s", log, &bars).unwrap()], "");
            assert!(
                !file.contains("NaN") && file.contains(">a</text>") && !file.contains(">c</text>")
            );
        }
        assert!(draw("t", "u", true, &[bar("a", 0.0)]).is_none());
        assert!(draw("t", "u", false, &[]).is_none());
    }
}
