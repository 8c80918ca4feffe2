//! Chart axes, which determine the positions of values and the labels of ticks.

use super::canvas::{width, FONT};

/// A horizontal or vertical scale of a chart.
#[derive(Clone, Copy, Debug)]
pub(super) struct Axis {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
    log: bool,
}

impl Axis {
    /// Creates a linear scale from 0 to `most`, which is rounded up.
    pub(super) fn linear(most: f64, from: f64, to: f64) -> Axis {
        let most = if most > 0.0 && most.is_finite() {
            most
        } else {
            1.0
        };
        let step = step(most);
        Axis {
            low: 0.0,
            high: step * (most / step - 1e-9).ceil(),
            from,
            to,
            log: false,
        }
    }

    /// Creates a logarithmic scale from `low` to `high`.
    pub(super) fn log(low: f64, high: f64, from: f64, to: f64) -> Axis {
        let good = low > 0.0 && high.is_finite() && high >= low;
        let (low, high) = if good { (low, high) } else { (1.0, 10.0) };
        // Widen the range if it is too narrow, for example because there is only one value.
        let (low, high) = match high / low < 1.2 {
            true => (low / 1.5, high * 1.5),
            false => (low, high),
        };
        Axis {
            low,
            high,
            from,
            to,
            log: true,
        }
    }

    /// Returns a value's position. A value beyond one end of the axis is placed at that end.
    pub(super) fn at(&self, value: f64) -> f64 {
        let share = match self.log {
            true if value <= 0.0 => 0.0,
            true => (value / self.low).ln() / (self.high / self.low).ln(),
            false => (value - self.low) / (self.high - self.low),
        };
        self.from + share.clamp(0.0, 1.0) * (self.to - self.from)
    }

    /// Returns the values at which to draw ticks: round numbers whose positions are at least `gap`
    /// apart.
    pub(super) fn ticks(&self, gap: f64) -> Vec<f64> {
        if !self.log {
            let step = step(self.high);
            let all: Vec<f64> = (0..=(self.high / step + 1e-6) as usize)
                .map(|i| i as f64 * step)
                .collect();
            return self.apart(all, gap);
        }
        let sets: [&[f64]; 5] = [
            &[1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0],
            &[1.0, 1.5, 2.0, 3.0, 5.0, 7.0],
            &[1.0, 2.0, 5.0],
            &[1.0, 3.0],
            &[1.0],
        ];
        for set in sets {
            let all = self.decades(set, 1);
            if self.all_apart(&all, gap) {
                return all;
            }
        }
        let every = (2..20).map(|n| self.decades(&[1.0], n));
        every
            .into_iter()
            .find(|all| self.all_apart(all, gap))
            .unwrap_or_default()
    }

    fn decades(&self, set: &[f64], every: usize) -> Vec<f64> {
        let (first, last) = (
            self.low.log10().floor() as i32,
            self.high.log10().ceil() as i32,
        );
        let decades = (first..=last).filter(|d| d.rem_euclid(every as i32) == 0);
        let all = decades.flat_map(|d| set.iter().map(move |s| s * 10f64.powi(d)));
        let within = self.low * 0.999..=self.high * 1.001;
        all.filter(|v| within.contains(v)).collect()
    }

    fn all_apart(&self, values: &[f64], gap: f64) -> bool {
        values
            .windows(2)
            .all(|w| (self.at(w[1]) - self.at(w[0])).abs() >= gap)
    }

    fn apart(&self, values: Vec<f64>, gap: f64) -> Vec<f64> {
        let every = (1..=values.len().max(1)).find(|n| {
            let some: Vec<f64> = values.iter().copied().step_by(*n).collect();
            self.all_apart(&some, gap)
        });
        values.into_iter().step_by(every.unwrap_or(1)).collect()
    }

    /// Selects labels that do not overlap: the first one, and then each one that still fits. No
    /// label extends beyond `end`.
    pub(super) fn worded(
        &self,
        values: &[f64],
        word: impl Fn(f64) -> String,
        end: f64,
    ) -> Vec<(f64, String)> {
        let mut taken = f64::NEG_INFINITY;
        let mut all = Vec::new();
        for &value in values {
            let text = word(value);
            let half = width(&text, FONT) / 2.0;
            let x = self.at(value);
            if x - half >= taken + 4.0 && x + half <= end {
                taken = x + half;
                all.push((value, text));
            }
        }
        all
    }
}

/// Returns a round step that divides the range from 0 to `most` into at most six parts.
fn step(most: f64) -> f64 {
    let power = 10f64.powf((most / 5.0).log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|s| s * power);
    let fits = steps.into_iter().find(|s| most / s <= 6.0);
    fits.unwrap_or(steps[3])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_lie_where_they_should() {
        let axis = Axis::log(16.0, 16384.0, 0.0, 100.0);
        assert!((axis.at(512.0) - 50.0).abs() < 1e-9);
        assert_eq!(
            (axis.at(1.0), axis.at(1e9), axis.at(0.0)),
            (0.0, 100.0, 0.0)
        );
        let axis = Axis::linear(7.3, 100.0, 0.0);
        assert_eq!(axis.at(8.0), 0.0);
        assert_eq!(axis.ticks(1.0), [0.0, 2.0, 4.0, 6.0, 8.0]);
    }

    #[test]
    fn ticks_are_round_and_apart_whatever_the_range() {
        for (low, high) in [
            (0.1, 10.0),
            (0.11, 0.19),
            (1.0, 1e6),
            (1e-3, 1e12),
            (3.0, 3.0),
            (0.0, 0.0),
        ] {
            let axis = Axis::log(low, high, 0.0, 150.0);
            let ticks = axis.ticks(16.0);
            assert!(!ticks.is_empty(), "{low} {high}");
            assert!(axis.all_apart(&ticks, 16.0), "{ticks:?}");
        }
        for most in [0.0, 1.0, 7.0, 33.0, 1e9, f64::NAN, f64::INFINITY] {
            let axis = Axis::linear(most, 0.0, 150.0);
            assert!(axis.ticks(16.0).len() >= 2, "{most}");
        }
    }

    #[test]
    fn words_do_not_touch() {
        let axis = Axis::log(16.0, 16384.0, 40.0, 340.0);
        let lens = [16.0, 64.0, 256.0, 512.0, 1024.0, 1420.0, 4096.0, 16384.0];
        let words = axis.worded(&lens, |v| format!("{v}"), 360.0);
        let said: Vec<&str> = words.iter().map(|w| w.1.as_str()).collect();
        assert!(
            said.contains(&"16") && said.contains(&"16384") && !said.contains(&"1420"),
            "{said:?}"
        );
    }
}
