//! `kiln speed --kunit`: the figures of the tree's own KUnit benchmarks beside those of its library functions.

use kiln_question::{Error, Outcome};

use super::row::Row;
use crate::timing::{Level, Tree};

/// How often each benchmark runs; the highest throughput is taken, as rows take the smallest sample.
const TIMES: u32 = 10;
/// From so many bytes on the cost of the call itself matters little, and the figures are compared.
const LONG: usize = 4096;
/// How far the figures may be apart to agree.
const AGREE: f64 = 0.02;

/// Runs the benchmarks of all functions with a figure.
pub(super) fn add_figures(tree: &mut Tree, outcome: &mut Outcome<Row>) -> Result<(), Error> {
    let measured = |r: &Row| r.level == Level::Library && r.mb_per_s.is_finite();
    let mut names: Vec<String> = Vec::new();
    for row in outcome.rows.iter().filter(|r| measured(r)) {
        if !names.contains(&row.imp) {
            names.push(row.imp.clone());
        }
    }
    for name in names {
        let figures = tree.kunit_figures(&name, TIMES)?;
        for row in outcome.rows.iter_mut().filter(|r| r.imp == name) {
            let figure = figures.iter().find(|f| f.len == row.len);
            row.kunit_mb_per_s = figure.map(|f| f.mb_per_s as f64);
        }
    }
    outcome.notes.extend(note(&outcome.rows));
    Ok(())
}

/// How far apart a row's two figures are.
fn difference(row: &Row) -> Option<f64> {
    Some(row.kunit_mb_per_s? / row.mb_per_s - 1.0)
}

/// How many agree, and those that do not.
fn note(rows: &[Row]) -> Option<String> {
    let long = rows.iter().filter(|r| r.len >= LONG);
    let compared: Vec<(&Row, f64)> = long.filter_map(|r| Some((r, difference(r)?))).collect();
    if compared.is_empty() {
        return None;
    }
    let apart = compared.iter().filter(|(_, d)| d.abs() > AGREE);
    let apart: Vec<String> = apart
        .map(|(r, d)| format!("{} {} B {:+.1} %", r.imp, r.len, 100.0 * d))
        .collect();
    let mut note = format!(
        "KUnit's own benchmarks and the rows from {LONG} B on: {} of {} agree within {} %",
        compared.len() - apart.len(),
        compared.len(),
        100.0 * AGREE
    );
    if !apart.is_empty() {
        note += &format!("; not {}", apart.join(", "));
    }
    Some(note)
}

/// A line for each row with a figure of KUnit's, for people; nothing without.
pub(super) fn lines(rows: &[Row]) -> String {
    let mut text = String::new();
    for row in rows {
        if let (Some(kunit), Some(apart)) = (row.kunit_mb_per_s, difference(row)) {
            text += &format!(
                "{:<20} {:>6} B  {:>8.0} MB/s  KUnit {kunit:>8.0} MB/s  {:+.1} %\n",
                row.imp,
                row.len,
                row.mb_per_s,
                100.0 * apart
            );
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_agree_within_two_per_cent() {
        let row = |len, mb_per_s, kunit| Row {
            imp: "sha256".into(),
            len,
            mb_per_s,
            kunit_mb_per_s: kunit,
            ..Row::default()
        };
        assert_eq!(note(&[row(4096, 2000.0, None)]), None);
        assert_eq!(note(&[row(16, 100.0, Some(50.0))]), None);
        let note = note(&[
            row(4096, 2000.0, Some(1961.0)),
            row(16384, 2000.0, Some(1950.0)),
        ]);
        let note = note.unwrap();
        assert!(note.contains("1 of 2 agree within 2 %"), "{note}");
        assert!(note.ends_with("not sha256 16384 B -2.5 %"), "{note}");
        let text = lines(&[row(4096, 2000.0, Some(1961.0)), row(64, 1.0, None)]);
        assert_eq!(text.lines().count(), 1, "{text}");
        assert!(text.contains("-1.9 %"), "{text}");
    }
}
