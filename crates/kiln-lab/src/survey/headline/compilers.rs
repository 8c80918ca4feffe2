//! What compilers make of a cipher, in plain language.

use serde_json::Value;

use super::{figure, has, number, word};
use crate::survey::question::{self, Question};
use crate::survey::row::Row;

/// Cells of the level that was published, with their figures.
fn at_o2<'a>(rows: &[&'a Value]) -> Vec<(f64, &'a Value)> {
    let of = rows
        .iter()
        .filter(|r| has(r, &[("opt", "O2"), ("status", "ok")]));
    of.filter_map(|r| Some((number(r, "cycles_per_byte")?, *r)))
        .collect()
}

/// The slowest of some cells and the fastest.
struct Extremes {
    /// What they are called.
    names: [String; 2],
    /// Cycles a byte.
    cycles: [f64; 2],
    /// Ends of their ratio, by where reruns of the two fall.
    low: Option<f64>,
    high: Option<f64>,
}

impl Extremes {
    fn of(cells: &[(f64, &Value)]) -> Option<Extremes> {
        let worst = cells.iter().max_by(|a, b| a.0.total_cmp(&b.0))?;
        let best = cells.iter().min_by(|a, b| a.0.total_cmp(&b.0))?;
        let name = |r: &Value| match word(r, "variant") {
            "default" => word(r, "cc").to_string(),
            variant => format!("{} {variant}", word(r, "cc")),
        };
        let over = |a: &str, b: &str| Some(number(worst.1, a)? / number(best.1, b)?);
        Some(Extremes {
            names: [name(worst.1), name(best.1)],
            cycles: [worst.0, best.0],
            low: over("ci_low", "ci_high"),
            high: over("ci_high", "ci_low"),
        })
    }

    fn row(&self, text: String, published: f64) -> Row {
        let question = Question::Compilers;
        let new = Row::new(question, self.ratio(), "times", text);
        new.within(self.low, self.high).beside(question, published)
    }

    fn ratio(&self) -> f64 {
        self.cycles[0] / self.cycles[1]
    }
}

pub(super) fn cells(rows: &[&Value]) -> Option<Row> {
    let of = Extremes::of(&at_o2(rows))?;
    let published = question::CELLS.1 / question::CELLS.0;
    let text = format!(
        "The same AES at -O2 takes {} times as long at worst ({}: {} cycles a byte) as at best ({}: {}); published {}",
        figure(of.ratio()),
        of.names[0],
        figure(of.cycles[0]),
        of.names[1],
        figure(of.cycles[1]),
        figure(published)
    );
    Some(of.row(text, published))
}

/// Without further flags, where there are several.
pub(super) fn compilers(rows: &[&Value]) -> Option<Row> {
    let mut plain = at_o2(rows);
    plain.retain(|c| word(c.1, "variant") == "default");
    let of = Extremes::of(&plain).filter(|_| plain.len() > 1)?;
    let text = format!(
        "Of {} compilers without further flags {} makes it {} times as slow as {}; published {}",
        plain.len(),
        of.names[0],
        figure(of.ratio()),
        of.names[1],
        figure(question::COMPILERS)
    );
    Some(of.row(text, question::COMPILERS))
}
