//! Experiments with softirq storms. They count how many softirqs are left to ksoftirqd, and how
//! many of the work items that are queued during the storm are executed.

use crate::cpu::{self, Cpu};
use crate::sys;

pub use crate::sys::Storm;

impl Storm {
    /// Raises the softirqs and waits until all have been served.
    pub fn run(mut self, _cpu: &mut Cpu) -> Storm {
        // SAFETY: `kiln_storm` takes a pointer to this structure, which outlives the call.
        let failed = unsafe { cpu::gate(sys::kiln_storm, (&raw mut self).cast()) };
        assert_eq!(failed, 0, "a task is left for the bystander");
        self
    }
}
