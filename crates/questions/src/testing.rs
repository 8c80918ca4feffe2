//! Helpers for tests: records for headlines, and time slots for the survey's parts.

use kiln_question::child::Left;
use kiln_question::survey::{Answer, Means, Part, Row, Slot, Topic};
use serde_json::{json, Value};

/// The answer of a process whose result is these rows.
pub(crate) fn answer(part: &'static Part, rows: Value) -> Answer {
    let record = json!({"command": "x", "rows": rows, "notes": []});
    let left = Left {
        status: Ok(0),
        output: record.to_string().into_bytes(),
        said: None,
    };
    Answer::new(part, left)
}

/// The headlines about a topic. Checks that each verdict fits on a line of the screen.
pub(crate) fn sentences(topic: &Topic, answers: &[Answer]) -> Vec<String> {
    let rows = crate::headlines(topic, answers).into_iter();
    rows.map(|r| {
        assert_fits(&r);
        r.headline.unwrap()
    })
    .collect()
}

/// The verdicts about a topic.
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

/// The only row about a topic.
pub(crate) fn one(topic: &Topic, answers: &[Answer]) -> Row {
    let rows = crate::headlines(topic, answers);
    assert_eq!(rows.len(), 1, "{rows:?}");
    assert_fits(&rows[0]);
    rows.into_iter().next().unwrap()
}

/// Whether all answers together show a failed check.
pub(crate) fn fails(answers: &[Answer]) -> bool {
    let mut all = crate::survey().into_iter();
    all.any(|contribution| (contribution.failed)(answers))
}

/// The arguments of a part with this much time, and the value of their `--seconds`.
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
