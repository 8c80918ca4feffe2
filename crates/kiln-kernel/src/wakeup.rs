//! One wake-up by an interrupt: whether the woken task preempts the running one.

use crate::cpu::{self, Cpu};
use crate::sys;

/// How long the two tasks run before, and what came of it: `struct kiln_wakeup`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wakeup {
    /// Microseconds for which the sleeper is runnable before it runs first.
    pub wait_us: u32,
    /// Microseconds that it runs before it sleeps.
    pub busy_us: u32,
    /// Microseconds that the other task runs meanwhile.
    pub asleep_us: u32,
    /// The woken task ran before the interrupt returned.
    pub preempted: bool,
    /// TSC ticks that the sleeper ran.
    pub busy_for: u64,
    /// TSC ticks that the other task ran while it slept.
    pub asleep_for: u64,
    /// The remainder of the other task's slice at the wake-up, TSC ticks.
    pub slice_left: i64,
}

sys::assert_layout!(Wakeup, sys::Wakeup, wait_us busy_us asleep_us preempted busy_for asleep_for slice_left);

impl Wakeup {
    /// Run it on a CPU with full preemption that runs nothing else.
    pub fn run(mut self, _cpu: &mut Cpu) -> Wakeup {
        // SAFETY: the function takes this structure.
        let failed = unsafe { cpu::gate(sys::kiln_wakeup, (&raw mut self).cast()) };
        assert_eq!(failed, 0, "no task left for the sleeper");
        self
    }
}
