//! One key's two figures, their ratio and its verdict. Field names are a promise (`CLI.md`).

use serde::Serialize;

use kiln_measure::verdict::FLOOR;
use kiln_measure::{ratio, verdict, Ratio, Round, Series, Verdict};

use super::side::{Figure, Side};

/// A row of `compare`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// What both figures are of.
    pub key: String,
    /// The field compared.
    pub unit: &'static str,
    /// Its value in A; not a number (in JSON: null) if it has none.
    pub a: f64,
    /// In B.
    pub b: f64,
    /// How much more B takes: B over A, of rates A over B. Null if a side has no figure.
    pub ratio: Option<f64>,
    /// Lower end of the ratio's interval; null if a side has none.
    pub ci_low: Option<f64>,
    /// Upper end.
    pub ci_high: Option<f64>,
    /// Of B: `faster`, `same` or `slower`; null without an interval.
    pub verdict: Option<Verdict>,
}

/// What came of a comparison.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Worst first.
    pub rows: Vec<Row>,
    /// What a reader of the rows must know.
    pub notes: Vec<String>,
    /// B is slower than allowed, or has no figure where A has one.
    pub failed: bool,
}

/// Compares what both have. With `max_regression`, in per cent, B fails if it is slower by more beyond the noise.
pub fn compare(a: &Side, b: &Side, max_regression: Option<f64>) -> Outcome {
    let mut outcome = Outcome::default();
    let notes = &mut outcome.notes;
    for (key, one) in &a.figures {
        let Some(other) = b.figures.get(key).filter(|f| f.unit == one.unit) else {
            continue;
        };
        let row = row(key, one, other);
        if one.value.is_finite() && !other.value.is_finite() {
            notes.push(format!("{}: no figure for {key}, where A has one", b.name));
            outcome.failed = true;
        }
        outcome.rows.push(row);
    }
    let worst = |row: &Row| row.ratio.unwrap_or(f64::INFINITY);
    outcome.rows.sort_by(|x, y| worst(y).total_cmp(&worst(x)));
    if let Some(percent) = max_regression {
        let too_slow = |r: &&Row| judge(r, percent / 100.0) == Some(Verdict::Slower);
        let slow: Vec<&Row> = outcome.rows.iter().filter(too_slow).collect();
        if let Some(worst) = slow.first() {
            notes.push(format!(
                "REGRESSION: {} of {} rows are slower by more than {percent} %, the worst {:.3} times A's \
                 ({:.3} to {:.3}): {}",
                slow.len(),
                outcome.rows.len(),
                worst.ratio.unwrap_or(f64::NAN),
                worst.ci_low.unwrap_or(f64::NAN),
                worst.ci_high.unwrap_or(f64::NAN),
                worst.key
            ));
            outcome.failed = true;
        }
    }
    let unjudged = outcome
        .rows
        .iter()
        .filter(|r| r.ratio.is_some() && r.verdict.is_none());
    match unjudged.count() {
        0 => {}
        n => notes.push(format!(
            "{n} rows have no interval: their ratios are told, not judged"
        )),
    }
    for (one, other) in [(a, b), (b, a)] {
        let only: Vec<&String> = one
            .figures
            .keys()
            .filter(|k| !other.figures.contains_key(*k))
            .collect();
        if let Some(first) = only.first() {
            notes.push(format!(
                "{} rows are in {} only, such as {first}",
                only.len(),
                one.name
            ));
        }
    }
    if outcome.rows.is_empty() {
        notes.push("nothing is in both: there is nothing to compare".to_string());
    }
    outcome
}

fn row(key: &str, a: &Figure, b: &Figure) -> Row {
    let of = between(a, b);
    let plain = match a.less {
        true => b.value / a.value,
        false => a.value / b.value,
    };
    let known = Some(plain).filter(|r| r.is_finite());
    let mut row = Row {
        key: key.to_string(),
        unit: a.unit,
        a: a.value,
        b: b.value,
        ratio: of.map(|r| r.ratio).or(known),
        ci_low: of.map(|r| r.low),
        ci_high: of.map(|r| r.high),
        verdict: None,
    };
    row.verdict = judge(&row, FLOOR);
    row
}

fn judge(row: &Row, floor: f64) -> Option<Verdict> {
    let of = Ratio {
        ratio: row.ratio?,
        low: row.ci_low?,
        high: row.ci_high?,
        pairs: 0,
    };
    Some(verdict(&of, floor))
}

/// The ratio of costs, B over A, with its interval: from turns taken side by side, else from both intervals. These
/// say where a rerun's figure falls, so that their extremes enclose the ratio of two reruns.
fn between(a: &Figure, b: &Figure) -> Option<Ratio> {
    if let Some(ratio) = of_turns(a, b) {
        return Some(ratio);
    }
    let ((a_low, a_high), (b_low, b_high)) = a.interval.zip(b.interval)?;
    let ends = match a.less {
        true => (b.value / a.value, b_low / a_high, b_high / a_low),
        false => (a.value / b.value, a_low / b_high, a_high / b_low),
    };
    let finite = ends.0.is_finite() && ends.1.is_finite() && ends.2.is_finite();
    finite.then_some(Ratio {
        ratio: ends.0,
        low: ends.1,
        high: ends.2,
        pairs: 1,
    })
}

fn of_turns(a: &Figure, b: &Figure) -> Option<Ratio> {
    let series = |figure: &Figure| {
        let round = |&cycles: &f64| Round {
            best: Some(cycles).filter(|c| c.is_finite()),
            samples: vec![cycles],
            complete: true,
        };
        Series {
            rounds: figure.turns.iter().map(round).collect(),
            ..Series::default()
        }
    };
    match a.less {
        true => ratio(&series(b), &series(a)),
        false => ratio(&series(a), &series(b)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kiln_measure::SplitMix64;

    fn figure(value: f64, width: f64) -> Figure {
        Figure {
            unit: "cycles_per_op",
            less: true,
            value,
            interval: Some((value * (1.0 - width), value * (1.0 + width))),
            turns: Vec::new(),
        }
    }

    fn side(name: &str, figures: &[(&str, Figure)]) -> Side {
        Side {
            name: name.to_string(),
            figures: figures
                .iter()
                .map(|(k, f)| (k.to_string(), f.clone()))
                .collect(),
            ignored: 0,
        }
    }

    fn verdicts(outcome: &Outcome) -> Vec<(&str, Option<Verdict>)> {
        outcome
            .rows
            .iter()
            .map(|r| (r.key.as_str(), r.verdict))
            .collect()
    }

    #[test]
    fn planted_differences_are_found_and_noise_is_not() {
        let a = side(
            "a",
            &[
                ("twenty", figure(100.0, 0.01)),
                ("three, tight", figure(100.0, 0.002)),
                ("three, wide", figure(100.0, 0.02)),
                ("noise", figure(100.0, 0.01)),
                ("faster", figure(100.0, 0.01)),
            ],
        );
        let b = side(
            "b",
            &[
                ("twenty", figure(120.0, 0.01)),
                ("three, tight", figure(103.0, 0.002)),
                ("three, wide", figure(103.0, 0.02)),
                ("noise", figure(101.0, 0.01)),
                ("faster", figure(80.0, 0.01)),
            ],
        );
        let outcome = compare(&a, &b, Some(5.0));
        assert_eq!(
            verdicts(&outcome),
            [
                ("twenty", Some(Verdict::Slower)),
                ("three, tight", Some(Verdict::Slower)),
                ("three, wide", Some(Verdict::Same)),
                ("noise", Some(Verdict::Same)),
                ("faster", Some(Verdict::Faster)),
            ]
        );
        assert!(outcome.failed);
        let told: Vec<_> = outcome
            .notes
            .iter()
            .filter(|n| n.contains("REGRESSION"))
            .collect();
        assert_eq!(told.len(), 1);
        assert!(told[0].contains("twenty"), "{told:?}");
        let worst = &outcome.rows[0];
        assert!((worst.ratio.unwrap() - 1.2).abs() < 1e-9);
        assert!(worst.ci_low.unwrap() < 1.2 && worst.ci_low.unwrap() > 1.17);
        assert!(worst.ci_high.unwrap() > 1.2 && worst.ci_high.unwrap() < 1.23);

        // Controls: the same without the limit, with a generous one, and with itself.
        assert!(!compare(&a, &b, None).failed);
        assert!(!compare(&a, &b, Some(25.0)).failed);
        let alone = compare(&a, &a, Some(0.0));
        assert!(!alone.failed && alone.rows.iter().all(|r| r.verdict == Some(Verdict::Same)));
    }

    #[test]
    fn turns_find_what_drift_would_hide() {
        // The machine drifts by a third while both are measured; each turn of B is 3 % slower than A's beside it.
        let mut rng = SplitMix64(3);
        let mut noise = || 1.0 + (rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64 * 0.004;
        let drift = |i: usize| 100.0 * (1.0 + 0.04 * i as f64);
        let turns = |by: f64, noise: &mut dyn FnMut() -> f64| -> Vec<f64> {
            (0..8).map(|i| drift(i) * by * noise()).collect()
        };
        let a = Figure {
            turns: turns(1.0, &mut noise),
            ..figure(100.0, 0.2)
        };
        let b = Figure {
            turns: turns(1.03, &mut noise),
            ..figure(103.0, 0.2)
        };
        let again = Figure {
            turns: turns(1.0, &mut noise),
            ..figure(100.0, 0.2)
        };
        let found = compare(
            &side("a", &[("k", a.clone())]),
            &side("b", &[("k", b.clone())]),
            Some(2.0),
        );
        assert_eq!(found.rows[0].verdict, Some(Verdict::Slower));
        assert!(found.failed);
        let none = compare(
            &side("a", &[("k", a.clone())]),
            &side("b", &[("k", again)]),
            Some(2.0),
        );
        assert_eq!(none.rows[0].verdict, Some(Verdict::Same));
        assert!(!none.failed);
        // Control: without the turns the wide intervals hide it.
        let wide = |f: &Figure| Figure {
            turns: Vec::new(),
            ..f.clone()
        };
        let hidden = compare(
            &side("a", &[("k", wide(&a))]),
            &side("b", &[("k", wide(&b))]),
            Some(2.0),
        );
        assert_eq!(hidden.rows[0].verdict, Some(Verdict::Same));
    }

    #[test]
    fn of_rates_more_is_better() {
        let rate = |value: f64| Figure {
            unit: "mb_per_s",
            less: false,
            ..figure(value, 0.01)
        };
        let outcome = compare(
            &side("a", &[("k", rate(100.0))]),
            &side("b", &[("k", rate(50.0))]),
            Some(50.0),
        );
        assert_eq!(outcome.rows[0].verdict, Some(Verdict::Slower));
        assert_eq!(outcome.rows[0].ratio, Some(2.0));
        assert!(outcome.failed);
    }

    #[test]
    fn a_figure_lost_is_a_failure_and_one_absent_is_told() {
        let lost = Figure {
            interval: None,
            ..figure(f64::NAN, 0.0)
        };
        let a = side(
            "a",
            &[("k", figure(1.0, 0.01)), ("gone", figure(1.0, 0.01))],
        );
        let b = side("b", &[("k", lost)]);
        let outcome = compare(&a, &b, None);
        assert!(outcome.failed);
        assert_eq!((outcome.rows.len(), outcome.rows[0].ratio), (1, None));
        assert!(
            outcome
                .notes
                .iter()
                .any(|n| n.contains("in a only, such as gone")),
            "{:?}",
            outcome.notes
        );
        let json = serde_json::to_value(&outcome.rows[0]).unwrap();
        for field in ["key", "a", "b", "ratio", "ci_low", "ci_high", "verdict"] {
            assert!(json.get(field).is_some(), "{field}");
        }
        assert!(json["b"].is_null() && json["verdict"].is_null());
    }

    #[test]
    fn without_intervals_ratios_are_told_and_not_judged() {
        let bare = |value| Figure {
            interval: None,
            ..figure(value, 0.0)
        };
        let outcome = compare(
            &side("a", &[("k", bare(1.0))]),
            &side("b", &[("k", bare(3.0))]),
            Some(5.0),
        );
        assert_eq!(
            (outcome.rows[0].ratio, outcome.rows[0].verdict),
            (Some(3.0), None)
        );
        assert!(!outcome.failed && outcome.notes[0].contains("no interval"));
    }
}
