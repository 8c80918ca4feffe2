//! What a question contributes to the survey: its parts, and the headlines based on their records.

use super::answer::Answer;
use super::part::{Part, Topic};
use super::row::Row;

/// What a question contributes to a topic of the survey.
pub struct Contribution {
    pub topic: &'static Topic,
    /// The parts, in the order in which each pass over the survey runs them.
    pub parts: &'static [&'static Part],
    /// Returns the headlines that follow from the answers so far; the list may be empty.
    pub rows: fn(&[Answer]) -> Vec<Row>,
    /// Returns whether the answers together reveal a failed check that no single answer reports.
    pub failed: fn(&[Answer]) -> bool,
}
