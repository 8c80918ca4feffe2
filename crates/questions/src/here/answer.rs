//! Collects the parts of the answer to one question, and converts the answer to a row.

use super::machine::Machine;
use super::row::{Basis, Row, Verdict};

/// Titles of the five questions, in order.
const ABOUT: [&str; 5] = [
    "SIMD from softirqs",
    "nested sections and IPsec",
    "bytes per FPU section",
    "compiler and flags",
    "virtio-crypto control queue",
];

/// The answer to one question, before it is converted to a row.
#[derive(Clone, Debug, Default)]
pub(super) struct Answer {
    pub finding: String,
    pub evidence: Vec<String>,
    pub caveat: Option<String>,
    pub advice: String,
    pub would_tell: Option<String>,
    verdict: Option<(Verdict, Basis)>,
}

impl Answer {
    pub(super) fn has(basis: Basis, finding: impl Into<String>) -> Answer {
        Answer::new(Some((Verdict::Has, basis)), finding)
    }

    pub(super) fn has_not(basis: Basis, finding: impl Into<String>) -> Answer {
        Answer::new(Some((Verdict::HasNot, basis)), finding)
    }

    pub(super) fn unknown(finding: impl Into<String>) -> Answer {
        Answer::new(None, finding)
    }

    fn new(verdict: Option<(Verdict, Basis)>, finding: impl Into<String>) -> Answer {
        Answer {
            verdict,
            finding: finding.into(),
            advice: "nothing".into(),
            ..Answer::default()
        }
    }

    pub(super) fn evidence(mut self, lines: impl IntoIterator<Item = String>) -> Answer {
        self.evidence.extend(lines);
        self
    }

    pub(super) fn caveat(mut self, text: impl Into<String>) -> Answer {
        self.caveat = Some(text.into());
        self
    }

    pub(super) fn advice(mut self, text: impl Into<String>) -> Answer {
        self.advice = text.into();
        self
    }

    pub(super) fn would_tell(mut self, text: impl Into<String>) -> Answer {
        self.would_tell = Some(text.into());
        self
    }

    /// Converts the answer to a row. `number` is the question's number, from 1 to 5.
    pub(super) fn into_row(self, number: u8, machine: &Machine) -> Row {
        Row {
            question: number,
            about: ABOUT[usize::from(number) - 1],
            kernel: machine.release.clone(),
            verdict: self
                .verdict
                .map_or(Verdict::Unknown, |(verdict, _)| verdict),
            basis: self.verdict.map(|(_, basis)| basis.words()),
            finding: self.finding,
            evidence: self.evidence,
            caveat: self.caveat,
            advice: self.advice,
            would_tell: self.would_tell,
        }
    }
}
