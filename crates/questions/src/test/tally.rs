//! The results of cases: counts, and the first few failures with the commands that reproduce them.

use std::collections::BTreeMap;

/// Maximum number of failures that a row reports. Further failures are only counted.
const TOLD: usize = 5;

/// A failed case, as rows report it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Description of the wrong result and the case.
    pub what: String,
    /// The command that repeats the case.
    pub replay: String,
}

/// The results of an implementation: counts, and the failures that its row reports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Number of cases that were run.
    pub cases: u64,
    pub failed: u64,
    /// The failures with the lowest case numbers, in ascending order.
    pub failures: Vec<Failure>,
}

/// The failures that one thread found, sorted by case number, so that the merged result does not
/// depend on which thread ran which case.
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

    /// Returns whether a failure of case `number` would be reported. Only the failures with the
    /// lowest case numbers are reported.
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

    /// Converts the failures to a tally. The replay command of each failure is `replay` followed by
    /// ` --case N`.
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
