//! The rows of `kiln survey`: headlines with their results.

use schemars::JsonSchema;
use serde::Serialize;

use super::question::Question;
use super::runs::Estimate;

/// The answer to one question, with its headline.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(
    rename = "survey",
    title = "Survey",
    extend(
        "x-question" = "What are the answers to all questions, in a line each?",
        "x-commands" = ["survey"]
    )
)]
pub struct Row {
    /// Which question it answers: `softirq-simd`, `nested-fpu`, `fpu-budget`, `compilers`, `ctrlq` or `speed`.
    #[schemars(extend("x-role" = "key"))]
    pub question: &'static str,
    /// The answer in plain language; null if the question was left out, and then a note gives the reason.
    #[schemars(extend("x-role" = "condition"))]
    pub headline: Option<String>,
    /// The result: the median over all processes, or a count summed over them; null if this machine cannot tell.
    #[schemars(extend("x-role" = "main", "x-interval" = ["low", "high"]))]
    pub value: Option<f64>,
    /// Unit of `value`.
    #[schemars(extend("x-role" = "figure"))]
    pub unit: Option<&'static str>,
    /// The published result; null if there is none.
    #[schemars(extend("x-role" = "figure", "x-heading" = "published"))]
    pub baseline: Option<f64>,
    /// `value` divided by `baseline`.
    #[schemars(extend("x-role" = "figure"))]
    pub ratio: Option<f64>,
    /// Lower end of the interval that contains the result of another process with a probability of 95 %; null for
    /// counts, and with fewer than five processes.
    pub low: Option<f64>,
    /// Upper end of that interval.
    pub high: Option<f64>,
    /// The result of each process, in the order in which they ran; empty for counts.
    pub values: Vec<f64>,
    /// Where the published result is from.
    #[schemars(extend("x-role" = "figure"))]
    pub source: Option<&'static str>,
    /// The command that gives the details.
    #[schemars(extend("x-role" = "figure"))]
    pub command: &'static str,
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
