//! What was found: cases, and the first failures with the commands that repeat them.

use std::collections::BTreeMap;

/// Failures told of for each row; the rest are only counted.
const TOLD: usize = 5;

/// A case that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What was wrong, and with which case.
    pub what: String,
    /// The command that repeats it.
    pub replay: String,
}

/// How an implementation did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Cases done.
    pub cases: u64,
    /// Of these, wrong.
    pub failed: u64,
    /// The first few of them, by number.
    pub failures: Vec<Failure>,
}

/// What a thread found: by case number, so that the merge does not depend on who did what.
#[derive(Clone, Debug, Default)]
pub(crate) struct Found {
    pub cases: u64,
    failed: u64,
    first: BTreeMap<u64, String>,
}

impl Found {
    pub(crate) fn fail(&mut self, number: u64, what: String) {
        self.failed += 1;
        self.keep(number, what);
    }

    /// Whether a failure of this number would be told of.
    pub(crate) fn tells(&self, number: u64) -> bool {
        self.first.len() < TOLD
            || self
                .first
                .last_key_value()
                .is_some_and(|(n, _)| number < *n)
    }

    fn keep(&mut self, number: u64, what: String) {
        self.first.insert(number, what);
        if self.first.len() > TOLD {
            self.first.pop_last();
        }
    }

    pub(crate) fn add(&mut self, part: Found) {
        self.cases += part.cases;
        self.failed += part.failed;
        for (number, what) in part.first {
            self.keep(number, what);
        }
    }

    /// With the commands: `replay` and ` --case N`.
    pub(crate) fn tally(self, replay: &str) -> Tally {
        let failures = self.first.into_iter().map(|(number, what)| Failure {
            what,
            replay: format!("{replay} --case {number}"),
        });
        Tally {
            cases: self.cases,
            failed: self.failed,
            failures: failures.collect(),
        }
    }
}
