//! One interrupt at a time, before each instruction in turn, each time from the same state. Where every instruction of
//! one section is interrupted, the first softirq saves the user's state and takes the section clock's turn, so that the
//! section itself comes by neither; alone, an interrupt meets both.

use kiln_kernel::cpu::Cpu;
use kiln_kernel::irq::Step;

use super::probe::{Probe, Task};
use super::step::Examined;
use crate::Error;

/// Longest section, instructions: each single one is stepped up to where it is interrupted.
const LONGEST: u64 = 800;

/// Whether this one is short, and no more than a longer one's beginning and end.
fn worth(probe: &Probe, quick: bool, instructions: u64) -> bool {
    let first = match &probe.task {
        Task::Keep => true,
        _ => probe.task.len() <= Some(31) && (!quick || probe.task.op() == Some("encrypt")),
    };
    first && instructions <= LONGEST && !(quick && probe.task.len() > Some(16))
}

/// All of a short section's instructions.
pub fn pass(
    probe: &Probe,
    cpu: &mut Cpu,
    examined: &mut Examined,
    quick: bool,
    stopped: &dyn Fn() -> bool,
) -> Result<(), Error> {
    if probe.policy.is_broken() || !worth(probe, quick, examined.row.instructions) {
        return Ok(());
    }
    for k in 0..examined.row.instructions {
        if stopped() {
            break;
        }
        let found = probe.run(cpu, Step::At(k), true)?;
        examined.add(&found);
        examined.row.singles += found.injected;
        if probe.lost(&found) {
            examined.finding(probe, Step::At(k));
            break;
        }
    }
    Ok(())
}
