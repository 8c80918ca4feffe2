//! What a question adds to the survey: its parts, and the headlines that are made of their records.

use super::answer::Answer;
use super::part::{Part, Topic};
use super::row::Row;

/// What a question adds to a topic of the survey.
pub struct Contribution {
    pub topic: &'static Topic,
    /// The parts, in the order in which each pass runs them.
    pub parts: &'static [&'static Part],
    /// The headlines that follow from the answers so far; may be empty.
    pub rows: fn(&[Answer]) -> Vec<Row>,
    /// Whether all answers together show a failed check that none of them reports.
    pub failed: fn(&[Answer]) -> bool,
}
