//! Formats the human-readable table of `compare`.

use std::collections::BTreeSet;

use kiln_question::table::{align, figure, paragraph, plain, text};

use super::message::unit;
use super::row::Row;

/// Maximum number of rows to show, about as many as fit on one screen.
const MOST: usize = 40;

/// Formats the paragraph above the table, which states the units of the numbers.
pub(super) fn units(rows: &[Row]) -> String {
    let units: BTreeSet<String> = rows.iter().map(unit).collect();
    let units: Vec<String> = units.into_iter().collect();
    let time = match rows.iter().any(|r| r.time_ratio.is_some()) {
        true => ". A and B are the best rounds; B/A and interval are computed from all rounds; time is B/A in wall-clock time",
        false => "",
    };
    match units.is_empty() {
        true => String::new(),
        false => paragraph(&format!("Figures of A and B: {}{time}", units.join("; "))) + "\n",
    }
}

/// Formats the table with the worst rows first. If `all` is false, only the worst [`MOST`] rows are
/// shown.
pub(super) fn rows(rows: &[Row], all: bool) -> String {
    let mut table = plain();
    // Omit the ratio of times if none of the rows has one, as in a comparison of rates.
    let timed = rows.iter().any(|r| r.time_ratio.is_some());
    let mut header = vec!["A", "B", "B/A", "interval", "time", "verdict", "of"];
    header.retain(|name| timed || *name != "time");
    table.set_header(header);
    let shown = if all { rows.len() } else { MOST };
    for row in rows.iter().take(shown) {
        let or_dash = |x: Option<f64>| x.map_or("-".to_string(), |x| format!("{x:.3}"));
        let interval = match row.ci_low.zip(row.ci_high) {
            Some((low, high)) => format!("{low:.3} - {high:.3}"),
            None => "-".to_string(),
        };
        let mut line = vec![figure(row.a), figure(row.b), or_dash(row.ratio), interval];
        line.extend(timed.then(|| or_dash(row.time_ratio)));
        line.push(row.verdict.map_or("-".to_string(), |v| v.to_string()));
        line.push(row.key.clone());
        table.add_row(line);
    }
    align(&mut table, 0..4 + usize::from(timed));
    let mut out = text(&table);
    if rows.len() > shown {
        let rest = rows.len() - shown;
        out.push_str(&format!("\n{rest} more; --json has them all\n"));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use kiln_measure::Verdict;

    #[test]
    fn a_row_has_its_figures_and_a_lost_one_a_dash() {
        let row = Row {
            key: "xts(aes), encrypt".to_string(),
            unit: "cycles_per_op",
            a: 100.0,
            b: 120.0,
            ratio: Some(1.2),
            ci_low: Some(1.19),
            ci_high: Some(1.21),
            time_ratio: None,
            time_ratio_low: None,
            time_ratio_high: None,
            verdict: Some(Verdict::Slower),
            less: true,
            subject: None,
        };
        let lost = Row {
            b: f64::NAN,
            ratio: None,
            ci_low: None,
            ci_high: None,
            verdict: None,
            ..row.clone()
        };
        let text = rows(&[row.clone(), lost], false);
        assert!(
            text.contains("1.200  1.190 - 1.210  slower   xts(aes)"),
            "{text}"
        );
        assert!(text.lines().nth(2).unwrap().contains(" - "), "{text}");
        let timed = Row {
            time_ratio: Some(0.9),
            verdict: Some(Verdict::Disagree),
            ..row.clone()
        };
        let text = rows(&[timed, row.clone()], false);
        assert!(
            text.contains("1.190 - 1.210  0.900  disagree  xts(aes)"),
            "{text}"
        );
        assert_eq!(
            units(std::slice::from_ref(&row)),
            "Figures of A and B: cycles per call, less is better\n"
        );
        let many = vec![row; 50];
        assert!(rows(&many, false).contains("10 more"));
        assert_eq!(rows(&many, true).lines().count(), 51);
    }
}
