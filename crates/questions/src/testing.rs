//! Helpers for the tests of the survey: answers, headlines, and time slots.

use kiln_question::child::Left;
use kiln_question::survey::{Answer, Means, Part, Row, Slot, Topic};
use serde_json::{json, Value};

/// Creates the answer of a survey process that reports the given rows.
pub(crate) fn answer(part: &'static Part, rows: Value) -> Answer {
    let record = json!({"command": "x", "rows": rows, "notes": []});
    let left = Left {
        status: Ok(0),
        output: record.to_string().into_bytes(),
        said: None,
    };
    Answer::new(part, left)
}

/// Returns a topic's headlines as sentences. Also checks that each verdict fits on one line of the
/// screen.
pub(crate) fn sentences(topic: &Topic, answers: &[Answer]) -> Vec<String> {
    let rows = crate::headlines(topic, answers).into_iter();
    rows.map(|r| {
        assert_fits(&r);
        r.headline.unwrap()
    })
    .collect()
}

/// Returns the verdicts of a topic's headlines. Panics if a headline has none.
pub(crate) fn verdicts(topic: &Topic, answers: &[Answer]) -> Vec<String> {
    let rows = crate::headlines(topic, answers).into_iter();
    rows.map(|r| r.verdict.unwrap()).collect()
}

#[track_caller]
pub(crate) fn assert_fits(row: &Row) {
    let verdict = row.verdict.as_deref().unwrap_or_default();
    let columns = verdict.chars().count();
    assert!((8..=76).contains(&columns), "{columns} columns: {verdict}");
}

/// Returns the only headline about a topic. Panics if there are several or none.
pub(crate) fn one(topic: &Topic, answers: &[Answer]) -> Row {
    let rows = crate::headlines(topic, answers);
    assert_eq!(rows.len(), 1, "{rows:?}");
    assert_fits(&rows[0]);
    rows.into_iter().next().unwrap()
}

/// Returns whether any part of the survey finds a failed check in the answers.
pub(crate) fn fails(answers: &[Answer]) -> bool {
    let mut all = crate::survey().into_iter();
    all.any(|contribution| (contribution.failed)(answers))
}

/// Returns the arguments that a part uses for a slot of `seconds` seconds, and the value of
/// `--seconds` in these arguments.
pub(crate) fn slot_seconds(part: &Part, seconds: f64) -> (Vec<String>, f64) {
    let means = Means {
        compilers: vec!["gcc-12".to_string()],
        tree: None,
    };
    let args = (part.args)(&Slot {
        seconds,
        processes: 1,
        means: &means,
    });
    let at = args.iter().position(|a| a == "--seconds").unwrap();
    let seconds = args[at + 1].parse().unwrap();
    (args, seconds)
}
