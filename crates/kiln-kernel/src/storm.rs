//! Softirq storms: how much the limits of the softirq loop leave to ksoftirqd, and what happens to
//! work that is queued meanwhile.

use crate::cpu::{self, Cpu};
use crate::sys;

pub use crate::sys::Storm;

impl Storm {
    /// Raises the softirqs and waits until all are served.
    pub fn run(mut self, _cpu: &mut Cpu) -> Storm {
        // SAFETY: `kiln_storm` takes a pointer to this structure.
        let failed = unsafe { cpu::gate(sys::kiln_storm, (&raw mut self).cast()) };
        assert_eq!(failed, 0, "a task is left for the bystander");
        self
    }
}
