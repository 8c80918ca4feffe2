//! Draws a heat map of results. The farther a cell's result is from the best result, the hotter the
//! cell's colour. Each cell also shows its result as a number.

use super::canvas::{n, width, wrapped, Picture, FONT, LEADING, WIDTH};
use crate::number::short;

const ROW: f64 = 19.0;
/// Maximum number of columns in one map.
pub(super) const COLUMNS: usize = 5;
/// A cell is marked if its result exceeds the best result in its line by this factor.
const OUTLIER: f64 = 1.5;

#[derive(Clone, Debug)]
pub(super) struct Spot {
    /// Name of the line that the cell is in.
    pub line: String,
    /// Name of the column that the cell is in.
    pub column: String,
    /// The cell's result; `None` if the row has no valid result.
    pub value: Option<f64>,
    /// The row's status, which is shown if the cell has no result.
    pub status: String,
    /// Tooltip text.
    pub hint: String,
}

/// Draws the cells in maps of at most [`COLUMNS`] columns. Returns an empty list if `spots` is
/// empty.
pub(super) fn draw(title: &str, unit: &str, spots: &[Spot]) -> Vec<Picture> {
    let mut columns: Vec<&str> = Vec::new();
    for spot in spots {
        if !columns.contains(&spot.column.as_str()) {
            columns.push(&spot.column);
        }
    }
    let values = spots.iter().filter_map(|s| s.value).filter(|v| *v > 0.0);
    let best = values.fold(f64::INFINITY, f64::min);
    let some = columns.chunks(COLUMNS);
    some.map(|columns| map(title, unit, columns, spots, best))
        .collect()
}

fn map(title: &str, unit: &str, columns: &[&str], spots: &[Spot], best: f64) -> Picture {
    let mut lines: Vec<&str> = Vec::new();
    for spot in spots {
        if !lines.contains(&spot.line.as_str()) {
            lines.push(&spot.line);
        }
    }
    let mut picture = Picture::new(title);
    let left = lines
        .iter()
        .map(|l| width(l, FONT))
        .fold(0.0, f64::max)
        .min(112.0)
        + 6.0;
    let wide = ((WIDTH - left) / columns.len() as f64).min(84.0);
    let heads: Vec<Vec<String>> = columns
        .iter()
        .map(|c| wrapped(&c.replace('+', " +").replace('-', "- "), wide - 2.0, FONT))
        .collect();
    let most = heads.iter().map(Vec::len).max().unwrap_or(1);
    for (c, head) in heads.iter().enumerate() {
        for (l, word) in head.iter().enumerate() {
            let y = picture.height + LEADING * (most - head.len() + l + 1) as f64 - 2.0;
            picture.label(left + wide * (c as f64 + 0.5), y, "middle", word);
        }
    }
    let top = picture.height + LEADING * most as f64 + 3.0;
    let mut told: Vec<String> = Vec::new();
    for (l, line) in lines.iter().enumerate() {
        let y = top + ROW * l as f64;
        picture.fitted(2.0, y + 13.0, "start", line, left - 6.0);
        let own = || spots.iter().filter(|s| s.line == *line);
        let least = own().filter_map(|s| s.value).fold(f64::INFINITY, f64::min);
        for (c, column) in columns.iter().enumerate() {
            let Some(spot) = own().find(|s| s.column == *column) else {
                continue;
            };
            let at = (left + wide * c as f64, y);
            let (middle, base) = (at.0 + wide / 2.0, y + 13.0);
            let size = (wide - 2.0, ROW - 2.0);
            match spot.value {
                Some(value) => {
                    // The colour scale ends at ten times the best result.
                    let heat = (value / best).log10().clamp(0.0, 1.0);
                    let outlier = value / least > OUTLIER;
                    picture.rect(at, size, "var(--hot)", 0.06 + 0.62 * heat, &spot.hint);
                    if outlier {
                        let d = format!(
                            "M{} {}h{}v{}h-{}Z",
                            n(at.0),
                            n(at.1),
                            n(size.0),
                            n(size.1),
                            n(size.0)
                        );
                        picture.path(&d, "var(--ink)", 1.3, "");
                        told.push(format!("{line} {column} {}", short(value)));
                    }
                    picture.label(middle, base, "middle", &short(value));
                }
                None if spot.status == "absent" => picture.soft(middle, base, "middle", "–"),
                None => {
                    picture.rect(at, size, "var(--grid)", 1.0, &spot.hint);
                    picture.fitted(middle, base, "middle", &spot.status, wide - 2.0);
                }
            }
        }
    }
    picture.height = top + ROW * lines.len() as f64 + 2.0;
    picture.note(&format!(
        "{unit}; framed: more than {OUTLIER} times the lowest value in the row"
    ));
    picture.height += 4.0;
    picture.about = match told.is_empty() {
        true => format!("{unit}, the best {}. No outlier.", short(best)),
        false => format!(
            "{unit}, the best {}. Outliers: {}.",
            short(best),
            told.join("; ")
        ),
    };
    picture
}

#[cfg(test)]
mod tests {
    use super::super::sheet;
    use super::*;

    fn spot(line: &str, column: &str, value: Option<f64>) -> Spot {
        Spot {
            line: line.into(),
            column: column.into(),
            value,
            status: "failed".into(),
            hint: String::new(),
        }
    }

    #[test]
    fn a_cliff_is_hot_and_framed() {
        let spots = [
            spot("gcc-12 -O2", "default", Some(10.0)),
            spot("gcc-12 -O2", "<ubsan>", Some(95.0)),
            spot("clang-14 -O2", "default", None),
        ];
        let maps = draw("t", "cycles a byte", &spots);
        assert_eq!(maps.len(), 1);
        let file = sheet(&maps, "");
        assert!(
            file.contains(">95.0<") && file.contains("&lt;ubsan&gt;") && file.contains(">failed<"),
            "{file}"
        );
        assert_eq!(file.matches("stroke-width=\"1.3\"").count(), 1);
        assert!(maps[0].about.contains("Outliers: gcc-12 -O2 <ubsan> 95.0"));
        assert!(draw("t", "u", &[]).is_empty());
    }

    #[test]
    fn many_columns_are_several_maps() {
        let spots: Vec<Spot> = (0..12)
            .map(|c| spot("l", &format!("c{c}"), Some(1.0)))
            .collect();
        assert_eq!(draw("t", "u", &spots).len(), 3);
    }
}
