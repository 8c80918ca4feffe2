//! Accumulates the results of proof runs for one combination of policy, implementation, operation
//! and length.

use std::borrow::Cow;

use kiln_kernel::irq::Step;

use super::probe::{Found, Probe};
use super::step_row::StepRow;

/// A combination of policy, implementation, operation and length, and the results accumulated so
/// far.
pub(super) struct Examined {
    pub row: StepRow,
    pub findings: Vec<(Probe, Step)>,
}

impl Examined {
    pub(super) fn new(probe: &Probe, instructions: u64) -> Examined {
        Examined {
            row: StepRow {
                policy: probe.name.clone(),
                imp: probe.task.imp(),
                op: probe.task.op().map(Cow::Borrowed),
                len: probe.task.len(),
                instructions,
                ..StepRow::default()
            },
            findings: Vec::new(),
        }
    }

    /// Adds the counts from one run of a probe.
    pub(super) fn add(&mut self, found: &Found) {
        self.row.injected += found.injected;
        self.row.masked += found.masked;
        self.row.corrupted += found.corrupted;
        self.row.user_corrupted += found.user_corrupted;
        self.row.warnings += found.warnings;
    }

    /// Records an injection that made a probe lose state.
    pub(super) fn finding(&mut self, probe: &Probe, step: Step) {
        self.findings.push((probe.clone(), step));
    }
}
