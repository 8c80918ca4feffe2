//! A row of the survey: a headline with its figure. Its field names are a promise (`CLI.md`).

use serde::Serialize;

use super::question::Question;
use super::runs::Estimate;

/// A sentence, and the figure in it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// Which question it answers.
    pub question: &'static str,
    /// In plain language; null where the question was left out, and a note says why.
    pub headline: Option<String>,
    /// The figure, and its unit.
    pub value: Option<f64>,
    /// As above.
    pub unit: Option<&'static str>,
    /// What was published; null where nothing was.
    pub baseline: Option<f64>,
    /// The figure over the published one.
    pub ratio: Option<f64>,
    /// Where the next process is expected with a probability of 95 %; null for counts and with fewer than five processes.
    pub low: Option<f64>,
    /// As above.
    pub high: Option<f64>,
    /// What each process measured, in the order they ran; empty for counts over all processes.
    pub values: Vec<f64>,
    /// What digs deeper.
    pub command: &'static str,
    /// Where the published figure is from.
    pub source: Option<&'static str>,
}

impl Row {
    /// An answer.
    pub fn new(question: Question, value: f64, unit: &'static str, headline: String) -> Row {
        Row {
            headline: Some(headline),
            value: Some(value),
            unit: Some(unit),
            ..Row::none(question)
        }
    }

    /// An answer from several processes.
    pub fn estimate(
        question: Question,
        estimate: &Estimate,
        unit: &'static str,
        headline: String,
    ) -> Row {
        Row {
            low: estimate.low,
            high: estimate.high,
            values: estimate.values.clone(),
            ..Row::new(question, estimate.value, unit, headline)
        }
    }

    /// A question without an answer.
    pub fn none(question: Question) -> Row {
        Row {
            question: question.name(),
            headline: None,
            value: None,
            unit: None,
            baseline: None,
            ratio: None,
            low: None,
            high: None,
            values: Vec::new(),
            command: question.command(),
            source: None,
        }
    }

    /// Beside what was published.
    pub fn beside(mut self, question: Question, published: f64) -> Row {
        self.baseline = Some(published);
        self.ratio = self.value.map(|v| v / published);
        self.source = question.source();
        self
    }

    /// Where another command than the question's digs deeper.
    pub fn by(mut self, command: &'static str) -> Row {
        self.command = command;
        self
    }

    /// With its interval.
    pub fn within(mut self, low: Option<f64>, high: Option<f64>) -> Row {
        (self.low, self.high) = (low, high);
        self
    }
}
