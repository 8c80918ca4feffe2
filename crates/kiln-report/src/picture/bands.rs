//! Draws distributions of times, one below the other, so that both the bulk of the values and the
//! few long ones are visible.

use super::axis::Axis;
use super::canvas::{colour, n, width, Picture, FONT, LEADING, WIDTH};
use crate::number::micros;

const BARE: f64 = 24.0;
const TALL: f64 = 46.0;

/// A distribution of times in microseconds.
#[derive(Clone, Debug, Default)]
pub struct Band {
    /// Label of the distribution.
    pub name: String,
    /// Histogram buckets: lower bound, upper bound, count.
    pub counts: Vec<(f64, f64, f64)>,
    /// The median, in microseconds.
    pub p50: Option<f64>,
    /// The tail value that is marked, such as a high percentile.
    pub tail: Option<f64>,
    /// The longest time, in microseconds.
    pub max: Option<f64>,
    /// The same tail value of another distribution, such as that of pure arithmetic, drawn for
    /// comparison.
    pub beside: Option<f64>,
}

/// A chart of several distributions.
pub struct Bands<'a> {
    pub title: String,
    /// Name of the measured quantity.
    pub unit: &'a str,
    /// Name of the tail value.
    pub tail: &'a str,
    /// Name of the comparison value.
    pub beside: &'a str,
    /// A limit to draw, and its name.
    pub target: Option<(f64, String)>,
    /// The distributions, from top to bottom.
    pub bands: Vec<Band>,
}

impl Bands<'_> {
    /// Draws the picture; returns `None` if it would be empty.
    pub fn draw(&self) -> Option<Picture> {
        let shown: Vec<&Band> = self
            .bands
            .iter()
            .filter(|b| b.p50.is_some() || !b.counts.is_empty())
            .collect();
        if shown.is_empty() {
            return None;
        }
        let values = shown.iter().flat_map(|b| {
            let quantiles = [b.p50, b.tail, b.max, b.beside].into_iter().flatten();
            quantiles.chain(
                b.counts
                    .iter()
                    .filter(|c| c.2 > 0.0)
                    .flat_map(|c| [c.0, c.1]),
            )
        });
        let target = self.target.as_ref().map(|t| t.0);
        let values: Vec<f64> = values
            .chain(target)
            .filter(|v| *v > 0.0 && v.is_finite())
            .collect();
        let least = values.iter().copied().fold(f64::INFINITY, f64::min);
        let most = values.iter().copied().fold(0.0, f64::max);
        let mut picture = Picture::new(&self.title);
        let said = shown.iter().map(|b| match b.p50.zip(b.tail) {
            Some((p50, tail)) => format!(
                "{}: median {}, {} {}",
                b.name,
                micros(p50),
                self.tail,
                micros(tail)
            ),
            None => b.name.clone(),
        });
        picture.about = format!("{}. {}.", self.unit, said.collect::<Vec<_>>().join("; "));
        let head = self.tail;
        // Plain histograms have no column of tail values, so a missing value needs no dash.
        let none = if head.is_empty() { "" } else { "-" };
        let figures: Vec<String> = shown
            .iter()
            .map(|b| b.tail.map_or(none.to_string(), micros))
            .collect();
        let widest = figures.iter().map(|f| width(f, FONT)).fold(0.0, f64::max);
        let right = WIDTH - 10.0 - widest;
        let names = shown
            .iter()
            .map(|b| width(&b.name, FONT))
            .fold(0.0, f64::max);
        let left = names.min(128.0) + 8.0;
        picture.height += LEADING;
        let y = picture.height - 3.0;
        picture.soft(WIDTH - 2.0, y, "end", head);
        let tall = |b: &Band| if b.counts.is_empty() { BARE } else { TALL };
        let x = Axis::log(least / 1.15, most * 1.15, left + 4.0, right - 8.0);
        let top = picture.height + 3.0;
        let bottom = top + shown.iter().map(|b| tall(b)).sum::<f64>();
        for (value, word) in x.worded(&x.ticks(26.0), micros, WIDTH) {
            picture.path(
                &format!("M{} {}V{}", n(x.at(value)), n(top), n(bottom)),
                "var(--grid)",
                1.0,
                "",
            );
            picture.label(x.at(value), bottom + 14.0, "middle", &word);
        }
        if let Some((value, name)) = &self.target {
            let at = x.at(*value);
            picture.path(
                &format!("M{} {}V{}", n(at), n(top - 4.0), n(bottom)),
                "var(--ink)",
                1.3,
                "5 3",
            );
            // Keep the label inside the picture and clear of the tail's heading.
            let half = width(name, FONT) / 2.0;
            let most = WIDTH - 2.0 - width(head, FONT) - 6.0 - half;
            picture.label(
                at.clamp(half + 2.0, most.max(half + 2.0)),
                y,
                "middle",
                name,
            );
        }
        let mut base = top;
        for (band, figure) in shown.iter().zip(&figures) {
            base += tall(band);
            self.band(&mut picture, band, &x, base, left);
            picture.label(WIDTH - 2.0, base - 8.0, "end", figure);
        }
        picture.height = bottom + 17.0;
        let mut key = self.unit.to_string();
        if shown.iter().any(|b| b.p50.is_some()) {
            key.push_str(&format!(": ● median, bar to {}, + longest", self.tail));
        }
        if shown.iter().any(|b| b.beside.is_some()) {
            key.push_str(&format!(", ◆ {}", self.beside));
        }
        picture.note(&key);
        picture.height += 4.0;
        Some(picture)
    }

    fn band(&self, picture: &mut Picture, band: &Band, x: &Axis, base: f64, left: f64) {
        // Without quantiles, only the histogram is drawn, so place the name next to the histogram.
        let middle = base - if band.p50.is_some() { 12.0 } else { 24.0 };
        picture.fitted(left - 4.0, middle + 4.0, "end", &band.name, left - 6.0);
        let tallest = band.counts.iter().map(|c| c.2).fold(0.0, f64::max);
        for &(from, to, count) in band.counts.iter().filter(|c| c.2 > 0.0) {
            // Scale by the square root, so that the few long values are visible next to the many
            // short ones.
            let tall = ((TALL - 26.0) * (count / tallest).sqrt()).max(1.0);
            let (a, b) = (x.at(from), x.at(to));
            let hint = format!(
                "{}: {count} times between {} and {}",
                band.name,
                micros(from),
                micros(to)
            );
            let late = self.target.as_ref().is_some_and(|t| from >= t.0 * 1.1);
            picture.rect(
                (a + 0.3, base - 20.0 - tall),
                (b - a - 0.6, tall),
                &colour(usize::from(late)),
                0.7,
                &hint,
            );
        }
        let (Some(p50), Some(tail)) = (band.p50, band.tail) else {
            return;
        };
        let m = n(middle);
        let over = self.target.as_ref().is_some_and(|t| tail >= t.0 * 1.1);
        let series = usize::from(over);
        if let Some(max) = band.max {
            picture.path(
                &format!("M{} {m}H{}", n(x.at(tail)), n(x.at(max))),
                "var(--soft)",
                1.0,
                "2 2",
            );
            picture.marker(
                5,
                x.at(max),
                middle,
                &format!("{}: longest {}", band.name, micros(max)),
            );
        }
        picture.path(
            &format!("M{} {m}H{}", n(x.at(p50)), n(x.at(tail))),
            &colour(series),
            5.0,
            "",
        );
        picture.marker(
            0,
            x.at(p50),
            middle,
            &format!("{}: median {}", band.name, micros(p50)),
        );
        if let Some(beside) = band.beside {
            picture.marker(
                3,
                x.at(beside),
                middle,
                &format!("{}: {}", self.beside, micros(beside)),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::sheet;
    use super::*;

    #[test]
    fn bands_with_and_without_counts_and_figures() {
        let bands = Bands {
            title: "t".to_string(),
            unit: "a section",
            tail: "p99.9",
            beside: "arithmetic",
            target: Some((30.0, "target 30 µs".to_string())),
            bands: vec![
                Band {
                    name: "<a>".into(),
                    p50: Some(20.0),
                    tail: Some(31.0),
                    max: Some(900.0),
                    ..Band::default()
                },
                Band {
                    name: "b".into(),
                    counts: vec![(1.0, 2.0, 10.0), (64.0, 128.0, 1.0)],
                    ..Band::default()
                },
                Band {
                    name: "nothing".into(),
                    ..Band::default()
                },
            ],
        };
        let file = sheet(&[bands.draw().unwrap()], "");
        assert!(file.contains("&lt;a&gt;") && !file.contains("NaN") && !file.contains("nothing"));
        assert!(
            file.contains("target 30") && file.contains("var(--s1)"),
            "what is too long has a colour of its own"
        );
        assert!(Bands {
            bands: Vec::new(),
            ..bands
        }
        .draw()
        .is_none());
    }
}
