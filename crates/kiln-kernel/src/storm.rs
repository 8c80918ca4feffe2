//! Softirq storms: what the softirq loop's limits leave to ksoftirqd, and what becomes of
//! work queued meanwhile.

use crate::cpu::{self, Cpu};
use crate::sys;

/// What to raise, and what came of it: `struct kiln_storm`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Storm {
    /// So many softirqs in all, each raised by the one before.
    pub raises: u32,
    /// That each takes at least, microseconds.
    pub spin_us: u32,
    /// A hardirq interrupts each of them.
    pub interrupt: bool,
    /// Another task wants the CPU all the time.
    pub bystander: bool,
    /// Each queues four works, if they are not queued yet.
    pub queue_works: bool,
    /// That hardirq raises the next one, not the softirq before it.
    pub raise_in_irq: bool,
    /// Softirqs served.
    pub served: u32,
    /// Those before the interrupted task continued.
    pub first_loop: u32,
    /// Those while ksoftirqd was the current task.
    pub by_ksoftirqd: u32,
    /// Works queued.
    pub works_accepted: u32,
    /// Works not queued because they were.
    pub works_refused: u32,
    /// Works run.
    pub works_run: u32,
    /// Works run elsewhere than in the kworker, or in atomic context.
    pub works_misplaced: u32,
    /// The task's preempt count before.
    pub count_before: u32,
    /// And after.
    pub count_after: u32,
}

sys::assert_layout!(Storm, sys::Storm, raises spin_us interrupt bystander queue_works raise_in_irq served first_loop
    by_ksoftirqd works_accepted works_refused works_run works_misplaced count_before count_after);

impl Storm {
    /// Let it come, and wait until all is served.
    pub fn run(mut self, _cpu: &mut Cpu) -> Storm {
        // SAFETY: the function takes this structure.
        let failed = unsafe { cpu::gate(sys::kiln_storm, (&raw mut self).cast()) };
        assert_eq!(failed, 0, "no task left for the bystander");
        self
    }
}
