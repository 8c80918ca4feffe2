//! Tests whether a task that is woken by an interrupt preempts the running task.

use crate::cpu::{self, Cpu};
use crate::sys;

pub use crate::sys::Wakeup;

impl Wakeup {
    /// Runs the experiment. The CPU must have full preemption and must not run anything else.
    pub fn run(mut self, _cpu: &mut Cpu) -> Wakeup {
        // SAFETY: `kiln_wakeup` takes a pointer to this structure, which outlives the call.
        let failed = unsafe { cpu::gate(sys::kiln_wakeup, (&raw mut self).cast()) };
        assert_eq!(failed, 0, "a task is left for the sleeper");
        self
    }
}
