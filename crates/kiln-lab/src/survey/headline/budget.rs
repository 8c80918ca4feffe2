//! What an FPU section may hold, in plain language.

use serde_json::Value;

use super::{figure, number, thousands, word};
use crate::survey::question::{self, Question};
use crate::survey::row::Row;

pub(super) fn classes(rows: &[&Value]) -> Option<Row> {
    let question = Question::FpuBudget;
    let range = |algs: &[&str]| {
        let of = rows.iter().filter(|r| algs.contains(&word(r, "alg")));
        let kib: Vec<f64> = of
            .filter_map(|r| Some(number(r, "fits_bytes")? / 1024.0))
            .collect();
        let least = kib.iter().copied().reduce(f64::min)?;
        Some((least, kib.iter().copied().fold(least, f64::max)))
    };
    let told = |(low, high): (f64, f64)| match thousands(low) == thousands(high) {
        true => thousands(low),
        false => format!("{} to {}", thousands(low), thousands(high)),
    };
    let (mut here, mut there) = (Vec::new(), Vec::new());
    for (name, algs, published) in question::CLASSES {
        if let Some(range) = range(algs) {
            here.push(format!("{} KiB of {name}", told(range)));
            there.push(format!("{:.0}-{:.0}", published.0, published.1));
        }
    }
    let target = rows.iter().find_map(|r| number(r, "target_us"))?;
    let (_, algs, published) = question::CLASSES[0];
    let least = range(algs)?.0;
    let text = format!(
        "{target:.0} µs hold {}; published {}",
        here.join(", "),
        there.join(", ")
    );
    Some(Row::new(question, least, "KiB", text).beside(question, published.0))
}

pub(super) fn sections(rows: &[&Value]) -> Option<Row> {
    let question = Question::FpuBudget;
    let worst = |mode: &str| {
        let of = rows.iter().filter(|r| word(r, "mode") == mode);
        let with = of.filter_map(|r| Some((number(r, "section_us_p95")?, *r)));
        with.max_by(|a, b| a.0.total_cmp(&b.0))
    };
    let (fixed, whose) = worst("fixed")?;
    let (clocked, _) = worst("clocked")?;
    let (low, high) = question::SECTIONS_US;
    let text = format!(
        "With the patches' constants 95 % of sections end within {} µs at worst ({}), by the clock within {}; published \
         {low:.0} to {high:.0} with constants",
        figure(fixed),
        word(whose, "alg"),
        figure(clocked)
    );
    Some(Row::new(question, fixed, "us", text).beside(question, high))
}
