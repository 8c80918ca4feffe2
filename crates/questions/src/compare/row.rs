//! The rows of `kiln compare`. Each contains two results with the same key, their ratio and the
//! verdict.

use std::collections::BTreeSet;
use std::fmt;

use kiln_question::Error;
use schemars::JsonSchema;
use serde::Serialize;

use kiln_measure::verdict::FLOOR;
use kiln_measure::{exceeds_by_known, ratio_of_rounds, verdict_by_known, Ratio, Verdict};

use super::side::{Figure, Side, Subject};

/// One result that both sides contain.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(
    rename = "compare",
    title = "Comparison",
    extend(
        "x-question" = "What differs between two sides, beyond the noise?",
        "x-commands" = ["compare"],
        "x-view" = {"check": {"fail": ["verdict=slower"], "skip": ["verdict=disagree", "verdict="]}}
    )
)]
pub(super) struct Row {
    /// The values that identify the compared rows, joined by commas.
    #[schemars(extend("x-role" = "key"))]
    pub key: String,
    /// Name of the field that is compared, such as `cycles_per_op`.
    #[schemars(extend("x-role" = "key"))]
    pub unit: &'static str,
    /// Value of the compared field in A. Null if A has no value.
    #[schemars(with = "Option<f64>", extend("x-role" = "main", "x-heading" = "A"))]
    pub a: f64,
    /// Value of the compared field in B. Null if B has no value.
    #[schemars(with = "Option<f64>", extend("x-role" = "main", "x-heading" = "B"))]
    pub b: f64,
    /// Cost of B divided by cost of A. For rates such as throughput, the rate of A divided by the
    /// rate of B. A value above 1 means that B is slower. Null if a side has no value.
    #[schemars(extend(
        "x-role" = "main",
        "x-heading" = "how much more B takes",
        "x-interval" = ["ci_low", "ci_high"]
    ))]
    pub ratio: Option<f64>,
    /// Lower end of the interval of `ratio`. Null if a side has no interval.
    pub ci_low: Option<f64>,
    /// Upper end of the interval of `ratio`.
    pub ci_high: Option<f64>,
    /// Time of B divided by time of A, for results in cycles. Null for other results, or if a side
    /// has no times.
    #[schemars(extend(
        "x-role" = "figure",
        "x-heading" = "how much more time B takes",
        "x-interval" = ["time_ratio_low", "time_ratio_high"]
    ))]
    pub time_ratio: Option<f64>,
    /// Lower end of the interval of `time_ratio`.
    pub time_ratio_low: Option<f64>,
    /// Upper end of the interval of `time_ratio`.
    pub time_ratio_high: Option<f64>,
    /// How B compares with A: `faster` or `slower` (beyond the noise), `same` (no difference found)
    /// or `disagree` (cycles and time contradict each other). If times are known, `faster` and
    /// `slower` require that cycles and time agree. Null if `ratio` has no interval.
    #[schemars(with = "Option<String>", extend("x-role" = "figure"))]
    pub verdict: Option<Verdict>,
    /// Whether a smaller number is better.
    #[serde(skip)]
    pub less: bool,
    /// The implementation and the message length that were measured, if the row names them.
    #[serde(skip)]
    pub subject: Option<Subject>,
}

/// The conditions that decide whether B passes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Gate {
    /// Limit in per cent: B fails if it is slower by more than this, beyond the noise. `None` means
    /// that any slowdown is accepted.
    pub max_regression: Option<f64>,
    /// If false, rows that cannot be judged also make B fail.
    pub allow_unjudged: bool,
}

/// Numbers of rows by outcome. A result is counted once, whether it exists on one side or on both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    /// Rows in which B is faster beyond the noise.
    pub faster: usize,
    /// Rows in which no difference was found.
    pub equal: usize,
    /// Rows in which B is slower beyond the noise.
    pub slower: usize,
    /// Rows in which cycles and time contradict each other beyond the noise of both.
    pub disagree: usize,
    /// Rows present on both sides that cannot be judged, because they have no interval, no result
    /// on one side, different units, or a key that several rows share.
    pub unjudged: usize,
    /// Rows that only A has.
    pub only_a: usize,
    /// Rows that only B has.
    pub only_b: usize,
    /// Rows that have no result on either side, for example because a compiler does not support an
    /// option. They do not count against B.
    pub without: usize,
}

impl Tally {
    /// Returns the number of rows that cannot be judged, including the rows that exist on only one
    /// side.
    pub(super) fn unjudgeable(&self) -> usize {
        self.unjudged + self.only_a + self.only_b
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Tally {
            faster,
            equal,
            slower,
            ..
        } = self;
        write!(
            f,
            "{} judged: {faster} faster, {slower} slower, {equal} equal; ",
            faster + slower + equal
        )?;
        if self.disagree > 0 {
            write!(f, "{} disagree; ", self.disagree)?;
        }
        write!(
            f,
            "{} unjudged; {} only in A, {} only in B",
            self.unjudged, self.only_a, self.only_b
        )?;
        match self.without {
            0 => Ok(()),
            n => write!(f, "; {n} without a figure on either side"),
        }
    }
}

/// All rows of a comparison, and whether B passes.
#[derive(Clone, Debug, Default)]
pub(super) struct Comparison {
    /// The rows, sorted from worst to best.
    pub rows: Vec<Row>,
    /// Notes that are needed to interpret the rows, such as differences in the conditions.
    pub notes: Vec<String>,
    /// Numbers of rows by outcome.
    pub tally: Tally,
    /// Whether B is slower than allowed, or lacks a result that A has.
    pub regressed: bool,
    /// Whether B fails because some rows cannot be judged.
    pub unjudged: bool,
}

impl Comparison {
    /// Returns whether B fails, either because of a regression or because some rows cannot be
    /// judged.
    pub(super) fn failed(&self) -> bool {
        self.regressed || self.unjudged
    }
}

/// Compares the results that both sides have.
///
/// # Errors
/// The sides have no result in common.
pub(super) fn compare(a: &Side, b: &Side, gate: Gate) -> Result<Comparison, Error> {
    let mut outcome = Comparison::default();
    let (notes, tally) = (&mut outcome.notes, &mut outcome.tally);
    differing_conditions(a, b, notes);
    for (key, one) in &a.figures {
        let Some(other) = b.figures.get(key) else {
            continue;
        };
        if one.unit != other.unit {
            notes.push(format!(
                "unjudged: A has {}, B has {}: {key}",
                one.unit, other.unit
            ));
            tally.unjudged += 1;
            continue;
        }
        if !one.value.is_finite() && !other.value.is_finite() {
            tally.without += 1;
            continue;
        }
        let row = row(key, one, other);
        match row.verdict {
            Some(Verdict::Faster) => tally.faster += 1,
            Some(Verdict::Same) => tally.equal += 1,
            Some(Verdict::Slower) => tally.slower += 1,
            Some(Verdict::Disagree) => tally.disagree += 1,
            None => tally.unjudged += 1,
        }
        if one.value.is_finite() && !other.value.is_finite() {
            notes.push(format!("{}: no figure for {key}, where A has one", b.name));
            outcome.regressed = true;
        }
        outcome.rows.push(row);
    }
    if !a.figures.keys().any(|key| b.figures.contains_key(key)) {
        let such = |side: &Side| match side.figures.keys().next() {
            Some(first) => format!("{} rows such as '{first}'", side.figures.len()),
            None => "no rows".to_string(),
        };
        return Err(Error::input(format!(
            "nothing in common: '{}' has {}, '{}' has {}: name two records of the same command, with options that give at least one common row",
            a.name,
            such(a),
            b.name,
            such(b)
        )));
    }
    let worst = |row: &Row| row.ratio.unwrap_or(f64::INFINITY);
    outcome.rows.sort_by(|x, y| worst(y).total_cmp(&worst(x)));
    tell_of_time(&outcome.rows, notes);
    let mut undecided = 0;
    if let Some(percent) = gate.max_regression {
        let exceeds = |r: &Row| {
            let (cycles, time) = ratios(r)?;
            Some(exceeds_by_known(&cycles, time.as_ref(), percent / 100.0))
        };
        let by_one = |r: &&Row| exceeds(r) == Some(None);
        undecided = outcome.rows.iter().filter(by_one).count();
        let too_slow = |r: &&Row| exceeds(r) == Some(Some(true));
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
            outcome.regressed = true;
        }
    }
    let bare = |r: &&Row| r.ratio.is_some() && r.verdict.is_none();
    let bare: Vec<&Row> = outcome.rows.iter().filter(bare).collect();
    if let Some(first) = bare.first() {
        notes.push(format!(
            "unjudged: {} with a ratio without an interval, such as {}",
            bare.len(),
            first.key
        ));
    }
    for (one, other, only) in [(a, b, &mut tally.only_a), (b, a, &mut tally.only_b)] {
        let missing = |key: &&String| !other.figures.contains_key(*key);
        let mut keys = one.figures.keys().filter(missing);
        let first = keys.next();
        *only = first.iter().count() + keys.count();
        if let Some(first) = first {
            notes.push(format!("in {} only: {only}, such as {first}", one.name));
        }
        if one.ambiguous > 0 {
            notes.push(format!(
                "unjudged: {} in {} with the key of another row",
                one.ambiguous, one.name
            ));
            tally.unjudged += one.ambiguous;
        }
    }
    let of_rounds = |r: &&Row| r.verdict.is_some() && a.figures[&r.key].of_rounds;
    match outcome.rows.iter().filter(of_rounds).count() {
        0 => {}
        n => notes.push(format!(
            "intervals of rates ({n} here) are those of the rounds of one process; another process may fall outside them"
        )),
    }
    let unjudgeable = tally.unjudgeable() + undecided;
    if gate.max_regression.is_some() && !gate.allow_unjudged && unjudgeable > 0 {
        let of_those = match undecided {
            0 => String::new(),
            n => format!(" ({n} because only one of cycles and time is slower)"),
        };
        notes.push(format!(
            "UNJUDGED: {unjudgeable} cannot be judged{of_those}, so B does not pass; --allow-unjudged lets them pass"
        ));
        outcome.unjudged = true;
    }
    Ok(outcome)
}

/// Adds notes about rows in which cycles and time disagree, and about rows that were judged by
/// cycles alone because a side has no times.
fn tell_of_time(rows: &[Row], notes: &mut Vec<String>) {
    let disagree = |r: &&Row| r.verdict == Some(Verdict::Disagree);
    let mut disagreeing = rows.iter().filter(disagree);
    if let Some(first) = disagreeing.next() {
        notes.push(format!(
            "disagree: {}, such as {}: {:.3} times A's cycles but {:.3} times its time; the core's clock was not the same, so \
             there is no verdict",
            1 + disagreeing.count(),
            first.key,
            first.ratio.unwrap_or(f64::NAN),
            first.time_ratio.unwrap_or(f64::NAN)
        ));
    }
    let alone =
        |r: &&Row| r.unit.starts_with("cycles") && r.verdict.is_some() && r.time_ratio.is_none();
    let mut alone = rows.iter().filter(alone);
    if let Some(first) = alone.next() {
        notes.push(format!(
            "judged by cycles alone: {}, such as {}, because A or B has no times for them; a lower clock goes unseen",
            1 + alone.count(),
            first.key
        ));
    }
}

/// Adds a note for each condition that differs between the sides, because such a difference can
/// change the results.
fn differing_conditions(a: &Side, b: &Side, notes: &mut Vec<String>) {
    let said = |values: &BTreeSet<String>| {
        let all: Vec<&str> = values.iter().map(String::as_str).collect();
        all.join(" | ")
    };
    for (what, in_a) in &a.conditions {
        // A condition cannot be compared unless both sides recorded it.
        let Some(in_b) = b.conditions.get(what) else {
            continue;
        };
        let only = |one: &BTreeSet<String>, other: &BTreeSet<String>| -> BTreeSet<String> {
            one.difference(other).cloned().collect()
        };
        if in_a != in_b {
            let show = |values: BTreeSet<String>| match values.is_empty() {
                true => "-".to_string(),
                false => said(&values),
            };
            notes.push(format!(
                "differs: {what}: A {}; B {}",
                show(only(in_a, in_b)),
                show(only(in_b, in_a))
            ));
        }
    }
}

fn row(key: &str, a: &Figure, b: &Figure) -> Row {
    let of = between(a, b);
    let time = a.time.as_ref().zip(b.time.as_ref());
    let time = time.and_then(|(a, b)| between(a, b));
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
        time_ratio: time.map(|r| r.ratio),
        time_ratio_low: time.map(|r| r.low),
        time_ratio_high: time.map(|r| r.high),
        verdict: None,
        less: a.less,
        subject: a.subject.clone(),
    };
    let verdict =
        |(cycles, time): (Ratio, Option<Ratio>)| verdict_by_known(&cycles, time.as_ref(), FLOOR);
    row.verdict = ratios(&row).map(verdict);
    row
}

/// Returns the ratio that decides the verdict on a row, or `None` if the ratio has no interval. For
/// cycles, also returns the ratio of times if that ratio has an interval.
fn ratios(row: &Row) -> Option<(Ratio, Option<Ratio>)> {
    let ratio = |ratio: Option<f64>, low: Option<f64>, high: Option<f64>| {
        Some(Ratio {
            ratio: ratio?,
            low: low?,
            high: high?,
            pairs: 0,
        })
    };
    let cycles = ratio(row.ratio, row.ci_low, row.ci_high)?;
    let time = ratio(row.time_ratio, row.time_ratio_low, row.time_ratio_high);
    Some((cycles, time))
}

/// Returns the ratio of costs, B divided by A, with its interval. The ratio is computed from
/// alternating turns if there are any, otherwise from the intervals of both results. Each of these
/// intervals predicts the result of a rerun, so dividing opposite ends of the two intervals gives
/// bounds for the ratio of two reruns.
fn between(a: &Figure, b: &Figure) -> Option<Ratio> {
    if let Some(ratio) = compare_turns(a, b) {
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

fn compare_turns(a: &Figure, b: &Figure) -> Option<Ratio> {
    match a.less {
        true => ratio_of_rounds(&b.turns, &a.turns),
        false => ratio_of_rounds(&a.turns, &b.turns),
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
            of_rounds: false,
            turns: Vec::new(),
            subject: None,
            time: None,
        }
    }

    /// Adds the time to a result in cycles, converted at `ns` nanoseconds per cycle.
    fn at(figure: Figure, ns: f64) -> Figure {
        let ends = |(low, high)| (low * ns, high * ns);
        let time = Figure {
            unit: "ns_per_op",
            value: figure.value * ns,
            interval: figure.interval.map(ends),
            turns: figure.turns.iter().map(|t| t * ns).collect(),
            ..figure.clone()
        };
        Figure {
            time: Some(Box::new(time)),
            ..figure
        }
    }

    /// Compares two sides. `max_regression` is the limit in per cent.
    fn compare(a: &Side, b: &Side, max_regression: Option<f64>) -> Comparison {
        let gate = Gate {
            max_regression,
            allow_unjudged: false,
        };
        super::compare(a, b, gate).unwrap()
    }

    fn side(name: &str, figures: &[(&str, Figure)]) -> Side {
        Side {
            name: name.to_string(),
            figures: figures
                .iter()
                .map(|(k, f)| (k.to_string(), f.clone()))
                .collect(),
            ..Side::default()
        }
    }

    fn verdicts(outcome: &Comparison) -> Vec<(&str, Option<Verdict>)> {
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
        assert!(outcome.failed());
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

        // Controls: a comparison without a limit, one with a generous limit, and one of a side with
        // itself.
        assert!(!compare(&a, &b, None).failed());
        assert!(!compare(&a, &b, Some(25.0)).failed());
        let alone = compare(&a, &a, Some(0.0));
        assert!(!alone.failed() && alone.rows.iter().all(|r| r.verdict == Some(Verdict::Same)));
    }

    #[test]
    fn faster_and_slower_need_cycles_and_time() {
        let a = || at(figure(100.0, 0.002), 0.25);
        let has = |outcome: &Comparison, word: &str| outcome.notes.iter().any(|n| n.contains(word));
        // Each case contains B's cycles, B's nanoseconds per cycle, and whether B can be judged
        // against a limit of 5 %.
        for (cycles, ns, judged) in [
            (90.0, 0.33, false),
            (110.0, 0.2, false),
            (110.0, 0.25 / 1.1, false),
            (100.0, 0.275, false),
            (100.0, 0.255, true),
            // B needs fewer cycles and the same time, so it is certainly not slower.
            (90.0, 0.25 / 0.9, true),
        ] {
            let b = at(figure(cycles, 0.002), ns);
            let with = |b: &Figure| {
                let (a, b) = (side("a", &[("k", a())]), side("b", &[("k", b.clone())]));
                compare(&a, &b, Some(5.0))
            };
            let outcome = with(&b);
            let what = format!("{cycles} cycles of {ns} ns: {:?}", outcome.notes);
            assert_eq!(outcome.rows[0].verdict, Some(Verdict::Disagree), "{what}");
            assert_eq!((outcome.tally.disagree, outcome.tally.unjudged), (1, 0));
            assert_eq!(outcome.unjudged, !judged, "{what}");
            assert!(!outcome.regressed, "{what}");
            assert!(has(&outcome, "the core's clock was not the same"), "{what}");
            assert_eq!(
                has(&outcome, "1 because only one of cycles and time is slower"),
                !judged
            );
            // Control: if B runs at the same clock frequency as A, cycles and time agree.
            let agreed = with(&at(figure(cycles, 0.002), 0.25));
            let want = match cycles {
                90.0 => Verdict::Faster,
                110.0 => Verdict::Slower,
                _ => Verdict::Same,
            };
            assert_eq!(agreed.rows[0].verdict, Some(want), "{what}");
            assert_eq!(agreed.regressed, want == Verdict::Slower, "{what}");
            assert!(!agreed.unjudged && agreed.tally.disagree == 0, "{what}");
        }
    }

    #[test]
    fn a_regression_in_cycles_does_not_pass_because_its_time_is_noisy() {
        let a = at(figure(100.0, 0.002), 0.25);
        let mut b = at(figure(110.0, 0.002), 0.25);
        b.time.as_mut().unwrap().interval = Some((24.0, 31.0));
        let (a, b) = (side("a", &[("k", a)]), side("b", &[("k", b)]));
        let outcome = compare(&a, &b, Some(5.0));
        assert_eq!(outcome.rows[0].verdict, Some(Verdict::Same));
        assert!(outcome.unjudged && !outcome.regressed);
        // Control: B does not exceed this limit.
        assert!(!compare(&a, &b, Some(15.0)).failed());
    }

    #[test]
    fn a_record_without_times_is_judged_by_cycles_and_that_is_said() {
        let (old, new) = (figure(100.0, 0.002), at(figure(90.0, 0.002), 0.33));
        for (a, b) in [(&old, &new), (&new, &old)] {
            let (a, b) = (
                side("a", &[("k", a.clone())]),
                side("b", &[("k", b.clone())]),
            );
            let outcome = compare(&a, &b, None);
            let verdict = outcome.rows[0].verdict.unwrap();
            assert!(matches!(verdict, Verdict::Faster | Verdict::Slower));
            assert!(outcome.notes[0].starts_with("judged by cycles alone: 1, such as k"));
        }
        // A rate is already based on time, so it needs no separate ratio of times.
        let rate = Figure {
            unit: "mb_per_s",
            ..figure(100.0, 0.002)
        };
        let side = side("a", &[("k", rate)]);
        assert_eq!(compare(&side, &side, None).notes, [""; 0]);
    }

    #[test]
    fn turns_are_judged_by_cycles_and_time() {
        let turns = |value: f64, ns: f64| {
            let turns = (0..10).map(|i| value * (1.0 + 0.001 * f64::from(i)));
            let cycles = Figure {
                turns: turns.collect(),
                interval: None,
                ..figure(value, 0.0)
            };
            side("s", &[("k", at(cycles, ns))])
        };
        let a = turns(100.0, 0.25);
        let verdict = |b: &Side| compare(&a, b, None).rows[0].verdict;
        assert_eq!(verdict(&turns(90.0, 0.33)), Some(Verdict::Disagree));
        assert_eq!(verdict(&turns(110.0, 0.2)), Some(Verdict::Disagree));
        assert_eq!(verdict(&turns(90.0, 0.25)), Some(Verdict::Faster));
        assert_eq!(verdict(&turns(110.0, 0.25)), Some(Verdict::Slower));
    }

    #[test]
    fn turns_find_what_drift_would_hide() {
        // The machine's speed drifts by a third during the measurement, but each turn of B is 3 %
        // slower than the adjacent turn of A.
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
        assert!(found.failed());
        let none = compare(
            &side("a", &[("k", a.clone())]),
            &side("b", &[("k", again)]),
            Some(2.0),
        );
        assert_eq!(none.rows[0].verdict, Some(Verdict::Same));
        assert!(!none.failed());
        // Control: without the turns, the wide intervals hide the difference.
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
        assert!(outcome.failed());
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
        assert!(outcome.failed());
        assert_eq!((outcome.rows.len(), outcome.rows[0].ratio), (1, None));
        assert!(
            outcome
                .notes
                .iter()
                .any(|n| n.contains("in a only: 1, such as gone")),
            "{:?}",
            outcome.notes
        );
        let json = serde_json::to_value(&outcome.rows[0]).unwrap();
        for field in [
            "key",
            "a",
            "b",
            "ratio",
            "ci_low",
            "ci_high",
            "time_ratio",
            "verdict",
        ] {
            assert!(json.get(field).is_some(), "{field}");
        }
        assert!(json["b"].is_null() && json["verdict"].is_null());
    }

    #[test]
    fn identical_records_are_equal_and_pass() {
        let figures: Vec<(String, Figure)> = (0..5)
            .map(|i| {
                (
                    format!("k{i}"),
                    at(figure(100.0 + f64::from(i), 0.01), 0.25),
                )
            })
            .collect();
        let all: Vec<(&str, Figure)> = figures
            .iter()
            .map(|(k, f)| (k.as_str(), f.clone()))
            .collect();
        let a = side("a", &all);
        let outcome = compare(&a, &a, Some(0.0));
        assert!(!outcome.failed());
        assert_eq!((outcome.tally.equal, outcome.tally.unjudgeable()), (5, 0));
        assert_eq!(
            outcome.tally.to_string(),
            "5 judged: 0 faster, 0 slower, 5 equal; 0 unjudged; 0 only in A, 0 only in B"
        );
        assert_eq!(outcome.notes, [""; 0]);
    }

    #[test]
    fn five_per_cent_are_found_in_costs_and_in_rates() {
        for less in [true, false] {
            let of = |value| Figure {
                less,
                ..figure(value, 0.002)
            };
            let worse = if less { 105.0 } else { 100.0 / 1.05 };
            let (a, b) = (
                side("a", &[("k", of(100.0))]),
                side("b", &[("k", of(worse))]),
            );
            assert!(compare(&a, &b, Some(4.0)).failed(), "less: {less}");
            // Controls: a limit that B does not exceed, and the comparison in the opposite
            // direction.
            assert!(!compare(&a, &b, Some(6.0)).failed());
            let back = compare(&b, &a, Some(0.0));
            assert!(!back.failed() && back.tally.faster == 1);
        }
    }

    #[test]
    fn what_cannot_be_judged_does_not_pass_a_gate() {
        let good = || ("good", figure(1.0, 0.01));
        let bare = |value| Figure {
            interval: None,
            ..figure(value, 0.0)
        };
        let lost = || figure(f64::NAN, 0.0);
        let other_unit = Figure {
            unit: "ops_per_s",
            ..figure(1.0, 0.01)
        };
        let plain = side("a", &[good(), ("k", figure(1.0, 0.01))]);
        let ambiguous = Side {
            ambiguous: 1,
            ..plain.clone()
        };
        for (what, a, b) in [
            (
                "no interval",
                side("a", &[good(), ("k", bare(1.0))]),
                side("b", &[good(), ("k", bare(1335.0))]),
            ),
            ("only in A", plain.clone(), side("b", &[good()])),
            ("only in B", side("a", &[good()]), plain.clone()),
            (
                "null in A",
                side("a", &[good(), ("k", lost())]),
                plain.clone(),
            ),
            (
                "other unit",
                plain.clone(),
                side("b", &[good(), ("k", other_unit)]),
            ),
            ("ambiguous", plain.clone(), ambiguous),
        ] {
            let gated = compare(&a, &b, Some(5.0));
            assert!(
                gated.failed() && gated.unjudged && !gated.regressed,
                "{what}"
            );
            assert_eq!(gated.tally.unjudgeable(), 1, "{what}: {}", gated.tally);
            assert!(
                gated.notes.iter().any(|n| n.contains("--allow-unjudged")),
                "{what}"
            );
            // Controls: no limit, and a limit with unjudged rows allowed.
            assert!(!compare(&a, &b, None).failed(), "{what}");
            let gate = Gate {
                max_regression: Some(5.0),
                allow_unjudged: true,
            };
            let allowed = super::compare(&a, &b, gate).unwrap();
            assert!(!allowed.failed() && allowed.tally == gated.tally, "{what}");
        }
    }

    #[test]
    fn without_a_figure_on_either_side_nothing_is_lost() {
        let a = side(
            "a",
            &[("good", figure(1.0, 0.01)), ("k", figure(f64::NAN, 0.0))],
        );
        let outcome = compare(&a, &a, Some(0.0));
        assert!(!outcome.failed());
        assert!(outcome
            .tally
            .to_string()
            .ends_with("1 without a figure on either side"));
    }

    #[test]
    fn nothing_in_common_is_a_fault() {
        let (a, b) = (
            side("a", &[("k", figure(1.0, 0.1))]),
            side("b", &[("x", figure(1.0, 0.1))]),
        );
        let e = super::compare(&a, &b, Gate::default()).unwrap_err();
        assert_eq!(e.exit_code(), 2);
        assert!(
            e.to_string().contains("nothing in common") && !e.to_string().contains('\n'),
            "{e}"
        );
    }

    #[test]
    fn conditions_that_differ_are_a_note_each() {
        let with = |name, conditions: &[(&str, &str)]| Side {
            conditions: conditions
                .iter()
                .map(|(what, value)| (what.to_string(), [value.to_string()].into()))
                .collect(),
            ..side(name, &[("k", at(figure(1.0, 0.01), 0.25))])
        };
        let a = with(
            "a",
            &[
                ("CPU", "x"),
                ("kernel", "6.1"),
                ("arguments of fpu", "fpu --slice-us 200"),
            ],
        );
        let b = with(
            "b",
            &[
                ("CPU", "y"),
                ("kernel", "6.1"),
                ("arguments of fpu", "fpu"),
                ("Kiln", "1"),
            ],
        );
        let outcome = compare(&a, &b, None);
        assert_eq!(
            outcome.notes,
            [
                "differs: CPU: A x; B y",
                "differs: arguments of fpu: A fpu --slice-us 200; B fpu"
            ]
        );
        assert_eq!(compare(&a, &a, None).notes, [""; 0]);
    }
}
