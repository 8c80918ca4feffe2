//! Injects an interrupt before each instruction of a softirq, and before each remaining instruction
//! of the section that the softirq interrupted. If the policy delays the softirq until the end of
//! the section, the rest of the section runs first.

use kiln_kernel::cpu::Cpu;
use kiln_kernel::irq::Step;
use kiln_question::Error;

use super::examined::Examined;
use super::probe::Probe;

/// Tolerance for the instruction count, which varies from run to run because of branches in the
/// section timer.
const SLACK: u64 = 8;

/// Makes one pass over a softirq that an interrupt raises in the middle of the section.
pub(super) fn pass(probe: &Probe, cpu: &mut Cpu, examined: &mut Examined) -> Result<(), Error> {
    let probe = Probe {
        hardirq_fpu: true,
        ..probe.clone()
    };
    let n = examined.row.instructions.max(1);
    let k1 = n / 2;
    // Number of instructions executed after the first interrupt. They belong to the softirq and the
    // rest of the section, in an order that the policy determines.
    let end = probe.run(cpu, Step::Pair(k1, u64::MAX), false)?.inner;
    let softirq = end.saturating_sub(n - k1);
    examined.row.softirq_instructions = softirq;
    let found = probe.run(cpu, Step::Nest(k1, 0, end), false)?;
    examined.add(&found);
    if found.inner + SLACK >= end {
        examined.row.softirq_points = softirq;
    }
    if probe.lost(&found) && !probe.policy.is_broken() {
        for k2 in 0..end {
            let step = Step::Pair(k1, k2);
            if probe.lost(&probe.run(cpu, step, true)?) {
                examined.finding(&probe, step);
                break;
            }
        }
    }
    Ok(())
}
