//! The rows of `kiln survey`: headlines with their results.

use schemars::JsonSchema;
use serde::Serialize;

use super::part::Topic;
use super::runs::Estimate;

/// The answer to one question of the survey, as a sentence and as a number.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[schemars(
    rename = "survey",
    title = "Survey",
    extend(
        "x-question" = "What are the answers to all questions, in a line each?",
        "x-commands" = ["survey"],
        "x-view" = {
            "cards": {
                "question": "question",
                "verdict": "verdict",
                "headline": "headline",
                "value": "value",
                "unit": "unit",
                "published": "baseline",
                "source": "source",
                "command": "command"
            }
        }
    )
)]
pub struct Row {
    /// Name of the question: `softirq-simd`, `nested-fpu`, `fpu-budget`, `compilers`, `ctrlq` or
    /// `speed`.
    #[schemars(extend("x-role" = "key"))]
    pub question: &'static str,
    /// The answer in a few words, with its interval. Null if the question was skipped.
    #[schemars(extend("x-role" = "condition"))]
    pub verdict: Option<String>,
    /// The answer in plain language, with its conditions. Null if the question was skipped; a note
    /// then gives the reason.
    #[schemars(extend("x-role" = "condition"))]
    pub headline: Option<String>,
    /// One sentence of evidence, which the screen shows below the verdict. If it is missing, the
    /// screen shows `headline` below the first verdict of a question.
    #[serde(skip)]
    pub detail: Option<String>,
    /// The answer as a number: the median over all processes, or a count over all processes. Null
    /// if this machine cannot answer the question.
    #[schemars(extend("x-role" = "main", "x-interval" = ["low", "high"]))]
    pub value: Option<f64>,
    /// Unit of `value`.
    #[schemars(extend("x-role" = "figure"))]
    pub unit: Option<&'static str>,
    /// The published result that `value` is compared with. Null if nothing comparable was
    /// published.
    #[schemars(extend("x-role" = "figure", "x-heading" = "published"))]
    pub baseline: Option<f64>,
    /// `value` divided by `baseline`. Null if `baseline` is null.
    #[schemars(extend("x-role" = "figure"))]
    pub ratio: Option<f64>,
    /// Lower end of the 95 % prediction interval of `value`. The result of one more process is
    /// expected within this interval. If `value` is an IPsec packet rate at the edge of the range
    /// of rates tried, only the known end is set. Null for counts, and unless exactly five
    /// processes have a result.
    pub low: Option<f64>,
    /// Upper end of the 95 % prediction interval of `value`.
    pub high: Option<f64>,
    /// The result of each process, in the order in which the processes ran. Empty for counts.
    pub values: Vec<f64>,
    /// Source of the published result that the answer refers to. Null if the answer does not refer
    /// to one.
    #[schemars(extend("x-role" = "figure"))]
    pub source: Option<&'static str>,
    /// The command that shows the details of the answer.
    #[schemars(extend("x-role" = "figure"))]
    pub command: &'static str,
}

impl Row {
    pub fn new(topic: &Topic, value: f64, unit: &'static str, headline: String) -> Row {
        Row {
            headline: Some(headline),
            value: Some(value),
            unit: Some(unit),
            ..Row::none(topic)
        }
    }

    /// Creates a row from an estimate over several processes.
    pub fn estimate(
        topic: &Topic,
        estimate: &Estimate,
        unit: &'static str,
        headline: String,
    ) -> Row {
        Row {
            low: estimate.low,
            high: estimate.high,
            values: estimate.values.clone(),
            ..Row::new(topic, estimate.value, unit, headline)
        }
    }

    /// Sets the answer in a few words, which the screen shows for every row.
    pub fn with_verdict(mut self, verdict: String) -> Row {
        self.verdict = Some(verdict);
        self
    }

    /// Sets the sentence of evidence, which the screen shows instead of the headline.
    pub fn with_detail(mut self, detail: String) -> Row {
        self.detail = Some(detail);
        self
    }

    /// Creates a row for a topic that has no answer.
    pub fn none(topic: &Topic) -> Row {
        Row {
            question: topic.name,
            command: topic.command,
            ..Row::default()
        }
    }

    /// Sets the published result that the value is compared with, and the ratio of the two.
    pub fn beside(mut self, topic: &Topic, published: f64) -> Row {
        self.baseline = Some(published);
        self.ratio = self.value.map(|v| v / published);
        self.source = topic.source;
        self
    }

    /// Replaces the topic's command with `command`, which shows more details.
    pub fn by(mut self, command: &'static str) -> Row {
        self.command = command;
        self
    }

    /// Sets the ends of the interval.
    pub fn within(mut self, low: Option<f64>, high: Option<f64>) -> Row {
        (self.low, self.high) = (low, high);
        self
    }
}
