//! One interrupt at a time, before each instruction in turn, each time from the same state. Where every instruction of
//! one section is interrupted, the first softirq saves the user's state and takes the section clock's turn, so that the
//! section itself comes by neither; alone, an interrupt meets both. And where a policy has softirqs wait for the
//! section's end, any interrupt there runs them on its own way out: only a single one meets the way to them itself.

use kiln_kernel::cpu::Cpu;
use kiln_kernel::fpu::{usable, Context};
use kiln_kernel::irq::Step;
use kiln_question::Error;

use super::examined::Examined;
use super::probe::{Probe, Task};

/// Longest section, instructions, all of which are worth it: each single one is stepped up to where it is interrupted.
const LONGEST: u64 = 800;
/// Of longer ones, so many at the beginning: more than `kernel_fpu_begin` has, the save of the user's state included.
const BEGINNING: u64 = 160;

/// The short ones; with --quick only the shortest, in one direction.
fn worth(probe: &Probe, quick: bool) -> bool {
    match &probe.task {
        Task::Keep => true,
        task => !quick || task.len() <= Some(16) && task.op() == Some("encrypt"),
    }
}

/// All of a short section's instructions; of a longer one its beginning one at a time, and then all the rest in one
/// pass, which the section clock, having begun, sees to the end. The control goes on after a loss: how many it has is
/// what other policies are judged by.
pub(super) fn pass(
    probe: &Probe,
    cpu: &mut Cpu,
    examined: &mut Examined,
    quick: bool,
    stopped: &dyn Fn() -> bool,
) -> Result<(), Error> {
    let control = probe.policy.is_broken();
    if !worth(probe, quick || control) {
        return Ok(());
    }
    let instructions = examined.row.instructions;
    let mut end = instructions;
    if instructions > LONGEST {
        end = BEGINNING;
    }
    if end < instructions && !control {
        let step = Step::Range(BEGINNING, u64::MAX);
        let found = probe.run(cpu, step, false)?;
        examined.add(&found);
        examined.row.singles += found.injected;
        if probe.lost(&found) {
            if let Some(k) = probe.bisect(cpu, BEGINNING, found.outer)? {
                examined.finding(probe, Step::At(k));
            }
            return Ok(());
        }
    }
    for k in 0..end {
        if stopped() {
            break;
        }
        let found = probe.run(cpu, Step::At(k), true)?;
        examined.add(&found);
        examined.row.singles += found.injected;
        if probe.lost(&found) && !control {
            examined.finding(probe, Step::At(k));
            break;
        }
    }
    Ok(())
}

/// Instructions before and after the section's end that are taken for the way to the softirqs that waited, and of their
/// end.
const BEFORE: u64 = 64;
const AFTER: u64 = 160;
const LAST: u64 = 96;

/// Whether a softirq that comes into a section of this policy, or of this tree, runs at its end.
fn softirqs_wait(probe: &Probe, cpu: &mut Cpu) -> bool {
    probe.policy.set(cpu);
    !usable(cpu, Context::Softirq, true).over_section
}

/// A softirq that waits for the section's end, and a second interrupt at each instruction of the way to it and back, one
/// at a time.
pub(super) fn waiting(
    probe: &Probe,
    cpu: &mut Cpu,
    examined: &mut Examined,
    stopped: &dyn Fn() -> bool,
) -> Result<(), Error> {
    if probe.task.len() != Some(16)
        || probe.task.op() != Some("encrypt")
        || !softirqs_wait(probe, cpu)
    {
        return Ok(());
    }
    let n = examined.row.instructions;
    let k1 = n / 2;
    let end = probe.run(cpu, Step::Pair(k1, u64::MAX), false)?.inner;
    let rest = n - k1;
    let way = rest.saturating_sub(BEFORE)..(rest + AFTER).min(end);
    let back = end.saturating_sub(LAST).max(way.end)..end;
    for k2 in way.chain(back) {
        if stopped() {
            break;
        }
        let step = Step::Pair(k1, k2);
        let found = probe.run(cpu, step, true)?;
        examined.add(&found);
        examined.row.pairs += u64::from(found.injected == 2);
        if probe.lost(&found) {
            examined.finding(probe, step);
            break;
        }
    }
    Ok(())
}
